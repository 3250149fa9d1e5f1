"""One epoch as one compiled program: shuffle, scan over batches, a step for the tail, validation.

A step that is not finite is not applied. After `IN_A_ROW` of them in a row the weights go back to
the last ones at which loss and gradient were finite, and the step is halved; after `HALVINGS` of
these the model has failed and rests.
"""

import functools
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

from mmlp.training.compiled import Compiled
from mmlp.training.data import Fixed, Program, join
from mmlp.training.devices import sharding

IN_A_ROW = 5
HALVINGS = 6
VALIDATION_BATCH = 256  # samples at once: enough to be fast, few enough to fit


class State(NamedTuple):
    """All that changes during training; with `fit_many` each has a leading axis."""

    params: Any  # the model's floating-point arrays
    optimizer: Any
    good: Any  # the params before the last applied step
    best: Any  # at the lowest validation loss
    best_value: Any = jnp.inf
    stale: Any = 0  # epochs since then
    scale: Any = 1.0  # multiplies every update
    bad: Any = 0  # steps in a row that were not finite
    culprit: Any = 0  # what was not finite last: 0 for the loss, 1 and so on for the params
    failed: Any = False
    stopped: Any = False


class Metrics(NamedTuple):
    """What an epoch reports; few arrays, because each takes time to come from a GPU."""

    loss: Any
    validation: Any
    skipped: Any
    scale: Any
    stopped: Any

    @classmethod
    def stacked(cls, epochs: list["Metrics"]) -> "Metrics":
        return cls(*map(np.array, zip(*epochs, strict=True)))


def first_state(program: Program, params) -> State:
    """On copies, with no array in it twice: its buffers are donated, the caller's are not."""

    def copy(x) -> Array:
        return jnp.array(x, dtype=x.dtype if eqx.is_array(x) else jnp.result_type(x), copy=True)

    def one(params) -> State:
        start = program.optimizer.init(params)
        return jax.tree.map(copy, State(params, start, good=params, best=params))

    return (jax.vmap(one) if program.many else one)(params)


@functools.partial(Compiled, donate=0)
def run_epoch(program: Program, state: State, fixed: Fixed, epoch) -> tuple[State, Metrics]:
    """The state after this epoch, from 0, and what it reports; of many, with a leading axis."""

    def one(state: State, fixed: Fixed):
        after, loss, skipped = _all_steps(program, state, fixed, epoch)
        after, score = _validate(program, after, fixed, jnp.full_like(loss, jnp.nan))
        if program.many:  # a model that has stopped rests while the others go on
            after = _where(state.stopped, state, after)
            loss, score = (jnp.where(state.stopped, jnp.nan, x) for x in (loss, score))
            skipped = jnp.where(state.stopped, 0, skipped)
        dtype = jnp.promote_types(loss.dtype, jnp.float32)  # half precision is too coarse
        loss, score, scale = (x.astype(dtype) for x in (loss, score, after.scale))
        return after, Metrics(loss, score, skipped, scale, after.stopped)

    if program.many:
        rows = 0 if program.own_data else None
        axes = Fixed(0, data=rows, validation=rows, key=0, rate=0, epochs=None, patience=None)
        after, metrics = jax.vmap(one, (0, axes))(state, fixed)
    else:
        after, metrics = one(state, fixed)
    if program.mesh is not None:
        models = len(metrics.loss) if program.many else None
        after = jax.lax.with_sharding_constraint(after, sharding(program.mesh, models))
        metrics = jax.lax.with_sharding_constraint(metrics, sharding(program.mesh))
    return after, metrics


def _all_steps(program: Program, state: State, fixed: Fixed, epoch) -> tuple[State, Any, Any]:
    """The state after a step for each batch, the mean loss, and how many steps were not applied."""
    key = jax.random.wrap_key_data(fixed.key, impl=program.key_type)
    n, size = len(jax.tree.leaves(fixed.data)[0]), program.batch_size
    steps, tail = divmod(n, size)
    total = steps + (tail > 0)
    keys = jax.random.split(jax.random.fold_in(key, epoch + 1), total + 1)
    order = jax.random.permutation(keys[-1], n)

    def step(state: State, i, key, rows):
        t = (epoch * total + i) / jnp.maximum(fixed.epochs * total - 1, 1)
        batch = _batch(program, fixed.data, rows)
        return _step(program, state, fixed, batch, key, t.astype(_dtype(state.params)))

    sums: list[Any] = []
    if steps:
        rows = order[: steps * size].reshape(steps, size)
        state, (values, applied) = jax.lax.scan(
            lambda s, x: step(s, *x), state, (jnp.arange(steps), keys[:steps], rows)
        )
        sums.append((size * jnp.sum(values), size * jnp.sum(applied), jnp.sum(~applied)))
    if tail:
        state, (value, applied) = step(state, steps, keys[steps], order[steps * size :])
        sums.append((tail * value, tail * applied, ~applied))
    value, seen, skipped = (sum(column) for column in zip(*sums, strict=True))
    return state, value / seen, skipped  # NaN if no step was finite


def _step(program: Program, state: State, fixed: Fixed, batch, key, t):
    value, gradient = jax.value_and_grad(loss_of, argnums=1)(
        program, state.params, fixed.frozen, batch, key, t
    )
    updates, optimizer = program.optimizer.update(gradient, state.optimizer, state.params)
    updates = jax.tree.map(lambda u: (fixed.rate * state.scale).astype(u.dtype) * u, updates)
    params = optax.apply_updates(state.params, updates)

    # the loss, then for each weight its gradient and new value in one pass
    together = [value, *map(jnp.add, jax.tree.leaves(gradient), jax.tree.leaves(params))]
    finite = jnp.stack([jnp.all(jnp.isfinite(x)) for x in together])
    culprit = jnp.argmin(finite).astype(state.culprit.dtype)
    applied = jnp.all(finite) & ~state.failed
    bad: Any = jnp.where(applied, 0, state.bad + 1)
    back = (bad >= IN_A_ROW) & ~state.failed
    scale = jnp.where(back, state.scale / 2, state.scale)
    state = state._replace(
        params=_where(applied, params, _where(back, state.good, state.params)),
        optimizer=_where(applied, optimizer, state.optimizer),
        good=_where(applied, state.params, state.good),
        scale=scale,
        bad=jnp.where(back, 0, bad),
        culprit=jnp.where(applied | state.failed, state.culprit, culprit),
        failed=state.failed | (scale < 0.5**HALVINGS),
    )
    return state, (jnp.where(applied, jnp.asarray(value), 0), applied)


def loss_of(program: Program, params, frozen, batch, key, t):
    """The user's loss, which must be one real number."""
    value = program.loss(join(params, frozen, program.static), batch, key, t)
    number = isinstance(value, float | np.ndarray | np.generic | Array)
    real = number and jnp.issubdtype(jnp.result_type(value), jnp.floating)
    if not real or jnp.shape(value) != ():
        raise ValueError(
            "`fit(loss=...)` must return one real number, the mean over the batch; it returned "
            f"{jax.typeof(value) if number else type(value).__name__}."
        )
    return value


def _validate(program: Program, state: State, fixed: Fixed, score):
    """The state with its best weights and whether it stops, and the loss on the validation data."""
    if fixed.validation is not None:
        key = jax.random.wrap_key_data(fixed.key, impl=program.key_type)
        model = join(state.params, fixed.frozen, program.static)
        score = _score(program, model, fixed.validation, jax.random.fold_in(key, 0))
        better = score < state.best_value
        state = state._replace(
            best=_where(better, state.params, state.best),
            best_value=_where(better, score, state.best_value),
            stale=jnp.where(better, 0, state.stale + 1),
        )
    return state._replace(stopped=state.failed | (state.stale >= fixed.patience)), score


def _score(program: Program, model, data, key):
    """The mean loss at t = 1, a few hundred samples at a time."""
    n = len(jax.tree.leaves(data)[0])
    size = min(n, max(program.batch_size, VALIDATION_BATCH))
    steps, tail = divmod(n, size)

    def mean(key, rows):
        return program.loss(model, _batch(program, data, rows), key, jnp.ones((), _dtype(model)))

    rows, keys = np.arange(n), jax.random.split(key, steps + (tail > 0))
    pieces = (keys[:steps], rows[: steps * size].reshape(steps, size))
    total = size * jnp.sum(jax.lax.map(lambda x: mean(*x), pieces))
    return (total + tail * mean(keys[-1], rows[steps * size :]) if tail else total) / n


def _batch(program: Program, data, rows):
    """These rows, spread over the devices where they divide."""
    batch = jax.tree.map(lambda x: x[rows], data)
    if program.mesh is None or program.many:
        return batch
    return jax.lax.with_sharding_constraint(batch, sharding(program.mesh, len(rows)))


def _dtype(tree):
    return jnp.result_type(*jax.tree.leaves(eqx.filter(tree, eqx.is_inexact_array)))


def _where(condition, new, old):
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b).astype(b.dtype), new, old)
