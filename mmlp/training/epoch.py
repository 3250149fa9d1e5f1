"""One epoch as one compiled program: shuffle, scan over batches, a step of its own size for the tail, validation.

A step that is not finite is not applied. After `IN_A_ROW` of them in a row the weights go back to the last ones at
which loss and gradient were finite, and the step is halved; after `HALVINGS` of these the model has failed and rests.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array
from jax.sharding import Mesh

from mmlp.training.compiled import Compiled
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
    best_value: Array
    stale: Array  # epochs since then
    scale: Array  # multiplies every update
    bad: Array  # steps in a row that were not finite
    culprit: Array  # what was not finite last: an index into `quantities`
    failed: Array
    stopped: Array


class Program(NamedTuple):
    """All that is compiled in; equal programs share one compilation for each set of shapes."""

    loss: Callable
    optimizer: optax.GradientTransformation
    static: tuple  # what of the model is not an array: (leaves, treedef)
    batch_size: int
    key_type: Any
    many: bool
    mesh: Mesh | None
    own_data: bool = False  # each of the many models has data of its own


class Metrics(NamedTuple):
    """What an epoch reports; one array on the device, because each transfer takes time."""

    loss: Any
    validation: Any
    skipped: Any
    scale: Any
    stale: Any
    culprit: Any
    failed: Any
    stopped: Any


def split(model) -> tuple[Any, Any, tuple]:
    """A model as (params, other arrays, hashable rest)."""
    params, rest = eqx.partition(model, eqx.is_inexact_array)
    frozen, static = eqx.partition(rest, eqx.is_array)
    leaves, treedef = jax.tree.flatten(static)
    return params, frozen, (tuple(leaves), treedef)


def join(params, frozen, static: tuple):
    leaves, treedef = static
    return eqx.combine(params, frozen, jax.tree.unflatten(treedef, leaves))


def names(params) -> list[str]:
    return [
        jax.tree_util.keystr(path).removeprefix(".")
        for path, _ in jax.tree_util.tree_flatten_with_path(params)[0]
    ]


def quantities(params) -> list[str]:
    return ["the loss", *(f"the gradient or step of {name}" for name in names(params))]


def first_state(params, optimizer: optax.GradientTransformation) -> State:
    """On copies, with no array in it twice: its buffers are donated, the caller's are not."""
    state = State(
        params=params,
        optimizer=optimizer.init(params),
        good=params,
        best=params,
        best_value=jnp.array(jnp.inf),
        stale=jnp.array(0),
        scale=jnp.array(1.0),
        bad=jnp.array(0),
        culprit=jnp.array(0),
        failed=jnp.array(False),
        stopped=jnp.array(False),
    )
    return jax.tree.map(lambda x: jnp.array(x, dtype=x.dtype, copy=True), state)


@functools.partial(Compiled, donate=0)
def compiled(
    program: Program, state: State, frozen, data, validation, key, rate, epoch, epochs, patience
):
    """The state after epoch number `epoch` (from 0) and its `Metrics` as one array (8,), or (models, 8)."""

    def one(state, frozen, key, rate, data, validation):
        after, metrics = _epoch(
            program, state, frozen, data, validation, key, rate, epoch, epochs, patience
        )
        if program.many:  # a model that has stopped rests while the others go on
            after = _where(state.stopped, state, after)
            metrics = metrics._replace(
                loss=jnp.where(state.stopped, jnp.nan, metrics.loss),
                validation=jnp.where(state.stopped, jnp.nan, metrics.validation),
                skipped=jnp.where(state.stopped, 0, metrics.skipped),
                **{
                    name: getattr(after, name)
                    for name in ("scale", "stale", "culprit", "failed", "stopped")
                },
            )
        dtype = jnp.promote_types(
            metrics.loss.dtype, jnp.float32
        )  # half precision cannot count to a few thousand
        return after, jnp.stack([jnp.asarray(x, dtype) for x in metrics])

    axes = (0, 0, 0, 0, *(0 if program.own_data else None for _ in range(2)))
    after, metrics = (jax.vmap(one, axes) if program.many else one)(
        state, frozen, key, rate, data, validation
    )
    if program.mesh is not None:
        models = len(metrics) if program.many else None
        after = jax.lax.with_sharding_constraint(after, sharding(program.mesh, models))
        metrics = jax.lax.with_sharding_constraint(metrics, sharding(program.mesh))
    return after, metrics


def _epoch(
    program: Program, state: State, frozen, data, validation, key, rate, epoch, epochs, patience
):
    key = jax.random.wrap_key_data(key, impl=program.key_type)
    n = len(jax.tree.leaves(data)[0])
    steps, tail = divmod(n, program.batch_size)
    total = steps + (tail > 0)
    keys = jax.random.split(jax.random.fold_in(key, epoch + 1), total + 1)
    order = jax.random.permutation(keys[-1], n)

    def step(state: State, i, key, rows):
        t = ((epoch * total + i) / jnp.maximum(epochs * total - 1, 1)).astype(_dtype(state.params))
        return _step(program, state, frozen, _batch(program, data, rows), key, rate, t)

    sums = []
    if steps:
        rows = order[: steps * program.batch_size].reshape(steps, -1)
        state, (values, applied) = jax.lax.scan(
            lambda s, x: step(s, *x), state, (jnp.arange(steps), keys[:steps], rows)
        )
        sums.append(
            (
                program.batch_size * jnp.sum(values),
                program.batch_size * jnp.sum(applied),
                jnp.sum(~applied),
            )
        )
    if tail:
        state, (value, applied) = step(
            state, steps, keys[steps], order[steps * program.batch_size :]
        )
        sums.append((tail * value, tail * applied, ~applied))
    value, seen, skipped = (sum(column) for column in zip(*sums, strict=True))
    loss = value / seen  # NaN if no step was finite

    score = jnp.full_like(loss, jnp.nan)
    if validation is not None:
        score = _score(
            program,
            join(state.params, frozen, program.static),
            validation,
            jax.random.fold_in(key, 0),
        )
        better = score < state.best_value
        state = state._replace(
            best=_where(better, state.params, state.best),
            best_value=_where(better, score, state.best_value),
            stale=jnp.where(better, 0, state.stale + 1),
        )
    state = state._replace(stopped=state.failed | (state.stale >= patience))
    return state, Metrics(
        loss, score, skipped, state.scale, state.stale, state.culprit, state.failed, state.stopped
    )


def loss_of(program: Program, params, frozen, batch, key, t):
    """The user's loss, which must be one real number."""
    value = program.loss(join(params, frozen, program.static), batch, key, t)
    number = isinstance(value, float | np.ndarray | np.generic | Array)
    if (
        not number
        or jnp.shape(value) != ()
        or not jnp.issubdtype(jnp.result_type(value), jnp.floating)
    ):
        raise ValueError(
            "`fit(loss=...)` must return one real number, the mean over the batch; it returned "
            f"{jax.typeof(value) if number else type(value).__name__}."
        )
    return value


def _step(program: Program, state: State, frozen, batch, key, rate, t):
    value, gradient = jax.value_and_grad(loss_of, argnums=1)(
        program, state.params, frozen, batch, key, t
    )
    updates, optimizer = program.optimizer.update(gradient, state.optimizer, state.params)
    updates = jax.tree.map(lambda u: (rate * state.scale).astype(u.dtype) * u, updates)
    params = optax.apply_updates(state.params, updates)

    # the loss, then for each weight its gradient and new value in one pass
    together = [value, *map(jnp.add, jax.tree.leaves(gradient), jax.tree.leaves(params))]
    finite = jnp.stack([jnp.all(jnp.isfinite(x)) for x in together])
    applied = jnp.all(finite) & ~state.failed
    bad = jnp.where(applied, 0, state.bad + 1)
    back = (bad >= IN_A_ROW) & ~state.failed
    scale = jnp.where(back, state.scale / 2, state.scale)
    state = state._replace(
        params=_where(applied, params, _where(back, state.good, state.params)),
        optimizer=_where(applied, optimizer, state.optimizer),
        good=_where(applied, state.params, state.good),
        scale=scale,
        bad=jnp.where(back, 0, bad),
        culprit=jnp.where(
            applied | state.failed, state.culprit, jnp.argmin(finite).astype(state.culprit.dtype)
        ),
        failed=state.failed | (scale < 0.5**HALVINGS),
    )
    return state, (jnp.where(applied, jnp.asarray(value), 0), applied)


def _score(program, model, data, key):
    """The mean loss at t = 1, a few hundred samples at a time."""
    n = len(jax.tree.leaves(data)[0])
    size = min(n, max(program.batch_size, VALIDATION_BATCH))
    steps, tail = divmod(n, size)

    def mean(key, rows):
        return program.loss(model, _batch(program, data, rows), key, jnp.ones((), _dtype(model)))

    rows, keys = np.arange(n), jax.random.split(key, steps + (tail > 0))
    values = jax.lax.map(
        lambda x: mean(*x), (keys[:steps], rows[: steps * size].reshape(steps, size))
    )
    total = size * jnp.sum(values)
    return (total + tail * mean(keys[-1], rows[steps * size :]) if tail else total) / n


def _batch(program, data, rows):
    """These rows, spread over the devices where they divide."""
    batch = jax.tree.map(lambda x: x[rows], data)
    if program.mesh is None or program.many:
        return batch
    return jax.lax.with_sharding_constraint(batch, sharding(program.mesh, len(rows)))


def _dtype(tree):
    return jnp.result_type(*jax.tree.leaves(eqx.filter(tree, eqx.is_inexact_array)))


def _where(condition, new, old):
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b).astype(b.dtype), new, old)
