"""One epoch as one compiled program: shuffle, scan over batches, a step for the tail, validation.

A step that is not finite is not applied. After `IN_A_ROW` of them in a row the weights go back to
the last ones at which loss and gradient were finite, and the step is halved; after `HALVINGS` of
these the model has failed and rests.
"""

import functools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array
from jax.flatten_util import ravel_pytree

from mmlp.compilation import Compiled, combine_model
from mmlp.training.arguments import Fixed, Program
from mmlp.training.devices import sharding
from mmlp.training.parts import numbers_in
from mmlp.training.state import Metrics, Part, State, finished, where

IN_A_ROW = 5
HALVINGS = 6
VALIDATION_BATCH = 256  # samples at once: enough to be fast, few enough to fit


@functools.partial(Compiled, donate=0)
def run_epoch(
    program: Program, state: State, fixed: Fixed, epoch
) -> tuple[State, Metrics]:
    """The state after this epoch, from 0, and what it reports; of many, with a leading axis."""

    def one(state: State, fixed: Fixed):
        after, losses = _all_steps(program, state, fixed, epoch)
        scores = None if fixed.validation is None else _scores(program, after, fixed)
        return finished(program, state, after, fixed, losses, scores)

    if program.many:
        own, parts = 0 if program.own_data else None, None if fixed.rows is None else 0
        common = {
            "data": None if fixed.rows is not None else own,
            "epochs": None,
            "patience": None,
        }
        axes = Fixed(0, validation=own, key=0, rate=0, rows=parts, **common)
        after, metrics = jax.vmap(one, (0, axes))(state, fixed)
    else:
        after, metrics = one(state, fixed)
    if program.mesh is not None:
        models = len(metrics.loss) if program.many else None
        after = jax.lax.with_sharding_constraint(after, sharding(program.mesh, models))
        metrics = jax.lax.with_sharding_constraint(metrics, sharding(program.mesh))
    return after, metrics


def _all_steps(
    program: Program, state: State, fixed: Fixed, epoch
) -> tuple[State, list[Part]]:
    """The state after a step for each batch, and what the steps gave."""
    of_all = None if fixed.rows is None else numbers_in(fixed.rows, epoch)
    n = len(jax.tree.leaves(fixed.data)[0]) if of_all is None else len(of_all)
    size = program.batch_size
    steps, tail = divmod(n, size)
    total = steps + (tail > 0)
    keys = epoch_keys(program, fixed, epoch, total)
    order = jax.random.permutation(keys[-1], n if of_all is None else of_all)
    numbers = jnp.arange(total)

    def step(state: State, i, key, rows):
        batch = spread(program, jax.tree.map(lambda x: x[rows], fixed.data))
        return batch_step(program, state, fixed, batch, key, (epoch, i, total))

    losses: list[Part] = []
    if steps:
        rows = order[: steps * size].reshape(steps, size)
        state, (values, applied) = jax.lax.scan(
            lambda s, x: step(s, *x), state, (numbers[:steps], keys[:steps], rows)
        )
        losses.append(Part(size, values, applied))
    if tail:
        rows = order[steps * size :]
        state, (value, applied) = step(state, numbers[steps], keys[steps], rows)
        losses.append(Part(tail, value, applied))
    return state, losses


def epoch_keys(program: Program, fixed: Fixed, epoch, total: int) -> Array:
    """A key for each of so many steps of an epoch, and at the end one for the order of rows."""
    key = jax.random.wrap_key_data(fixed.key, impl=program.key_type)
    return jax.random.split(jax.random.fold_in(key, epoch + 1), total + 1)


def batch_step(program: Program, state: State, fixed: Fixed, batch, key, place: tuple):
    """The step number `i` of `total` in an epoch, place = (epoch, i, total)."""
    epoch, i, total = place
    t = (epoch * total + i) / jnp.maximum(fixed.epochs * total - 1, 1)
    return _step(program, state, fixed, batch, key, t.astype(_dtype(state.params)))


def _step(program: Program, state: State, fixed: Fixed, batch, key, t):
    value, gradient = jax.value_and_grad(loss_of, argnums=1)(
        program, state.params, fixed.frozen, batch, key, t
    )
    update = optax.with_extra_args_support(program.optimizer).update
    updates, optimizer = update(gradient, state.optimizer, state.params, t=t)
    updates = jax.tree.map(
        lambda u: (fixed.rate * state.scale).astype(u.dtype) * u, updates
    )
    params = optax.apply_updates(state.params, updates)

    # the loss, then for each weight its gradient and new value; all at once, they are many
    together = [
        value,
        *map(jnp.add, jax.tree.leaves(gradient), jax.tree.leaves(params)),
    ]
    finite = jnp.concatenate([jnp.isfinite(x).ravel() for x in together])
    applied = jnp.all(finite) & ~state.failed
    bad: Any = jnp.where(applied, 0, state.bad + 1)
    back = (bad >= IN_A_ROW) & ~state.failed
    scale = jnp.where(back, state.scale / 2, state.scale)
    before, as_tree = ravel_pytree(state.params)

    ends = np.cumsum([np.size(x) for x in together])
    known = applied | state.failed
    culprit = _unless(known, lambda: jnp.sum(jnp.argmin(finite) >= ends), state.culprit)
    state = state._replace(
        params=where(applied, params, where(back, as_tree(state.good), state.params)),
        optimizer=where(applied, optimizer, state.optimizer),
        good=jnp.where(applied, before, state.good),
        scale=scale,
        bad=jnp.where(back, 0, bad),
        culprit=culprit,
        failed=state.failed | (scale < 0.5**HALVINGS),
    )
    return state, (jnp.where(applied, jnp.asarray(value), 0), applied)


def _unless(known, number: Callable, otherwise):
    """A whole number, unless it is known; on a GPU it costs less than to ask whether it is."""

    def new():
        return number().astype(otherwise.dtype)

    return jax.lax.platform_dependent(
        cpu=lambda: jax.lax.cond(known, lambda: otherwise, new),
        default=lambda: jnp.where(known, otherwise, new()),
    )


def loss_of(program: Program, params, frozen, batch, key, t):
    """The user's loss, which must be one real number."""
    value = program.loss(combine_model(params, frozen, program.static), batch, key, t)
    number = isinstance(value, float | np.ndarray | np.generic | Array)
    real = number and jnp.issubdtype(jnp.result_type(value), jnp.floating)
    if not real or jnp.shape(value) != ():
        several = number and jnp.shape(value) != ()
        remedy = "use `jnp.mean` of it" if several else "return that number alone"
        raise ValueError(
            "`fit(loss=...)` must return one real number, the mean over the batch; it returned "
            f"{jax.typeof(value) if number else type(value).__name__}: {remedy}."
        )
    return value


def _scores(program: Program, state: State, fixed: Fixed) -> list[Part]:
    """The loss on the validation data, a few hundred samples at a time."""
    n = len(jax.tree.leaves(fixed.validation)[0])
    size = score_size(program, n)
    steps, tail = divmod(n, size)

    def mean(key, rows):
        batch = spread(program, jax.tree.map(lambda x: x[rows], fixed.validation))
        return score_of(program, state.params, fixed, batch, key)

    rows, keys = np.arange(n), score_keys(program, fixed, steps + (tail > 0))
    pieces = (keys[:steps], rows[: steps * size].reshape(steps, size))
    scores = [Part(size, jax.lax.map(lambda x: mean(*x), pieces))]
    return (
        [*scores, Part(tail, mean(keys[-1], rows[steps * size :]))] if tail else scores
    )


def score_size(program: Program, n: int) -> int:
    return min(n, max(program.batch_size, VALIDATION_BATCH))


def score_keys(program: Program, fixed: Fixed, number: int) -> Array:
    key = jax.random.wrap_key_data(fixed.key, impl=program.key_type)
    return jax.random.split(jax.random.fold_in(key, 0), number)


def score_of(program: Program, params, fixed: Fixed, batch, key):
    """The loss of a batch at t = 1."""
    model = combine_model(params, fixed.frozen, program.static)
    return program.loss(model, batch, key, jnp.ones((), _dtype(model)))


def spread(program: Program, batch):
    """A batch over the devices where it divides."""
    if program.mesh is None or program.many:
        return batch
    length = len(jax.tree.leaves(batch)[0])
    return jax.lax.with_sharding_constraint(batch, sharding(program.mesh, length))


def _dtype(tree):
    return jnp.result_type(*jax.tree.leaves(eqx.filter(tree, eqx.is_inexact_array)))
