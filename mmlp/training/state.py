"""What changes during training, and the end of an epoch: what it reports, what it keeps."""

import functools
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree

from mmlp.compilation import Compiled
from mmlp.training.arguments import Fixed, Program


class State(NamedTuple):
    """All that changes during training; with `fit_many` each has a leading axis."""

    params: Any  # the model's floating-point arrays
    optimizer: Any
    good: Any  # the params before the last applied step, in one vector
    best: Any  # at the lowest validation loss
    best_value: Any = np.inf
    stale: Any = 0  # epochs since then
    scale: Any = 1.0  # multiplies every update
    bad: Any = 0  # steps in a row that were not finite
    culprit: Any = (
        0  # what was not finite last: 0 for the loss, 1 and so on for the params
    )
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


class Part(NamedTuple):
    """What steps with batches of one size gave: the loss of each, zero where it was not applied."""

    size: int
    values: Any
    applied: Any = True


def first_state(program: Program, params) -> State:
    """On copies, with no array in it twice: its buffers are donated, the caller's are not."""
    return _first((program.optimizer.init, program.many), params)


@functools.partial(Compiled, effort="least")
def _first(static, params) -> State:
    init, many = static

    def copy(x) -> Array:
        return jnp.array(
            x, dtype=x.dtype if eqx.is_array(x) else jnp.result_type(x), copy=True
        )

    def one(params) -> State:
        start = State(params, init(params), good=ravel_pytree(params)[0], best=params)
        return jax.tree.map(copy, start)

    return (jax.vmap(one) if many else one)(params)


def finished(
    program: Program,
    before: State,
    after: State,
    fixed: Fixed,
    losses: list[Part],
    scores,
) -> tuple[State, Metrics]:
    """The state at the end of an epoch and what it reports."""
    sums = ((p.size * jnp.sum(p.values), p.size * jnp.sum(p.applied)) for p in losses)
    value, seen = (sum(column) for column in zip(*sums, strict=True))
    loss: Any = value / seen  # NaN if no step was finite
    skipped: Any = sum(jnp.sum(~p.applied) for p in losses)
    score: Any = jnp.full_like(loss, jnp.nan)
    if scores is not None:
        n = sum(p.size * np.size(p.values) for p in scores)
        score = sum(p.size * jnp.sum(p.values) for p in scores) / n
        better = score < after.best_value
        after = after._replace(
            best=where(better, after.params, after.best),
            best_value=where(better, score, after.best_value),
            stale=jnp.where(better, 0, after.stale + 1),
        )
    after = after._replace(stopped=after.failed | (after.stale >= fixed.patience))
    if program.many:  # a model that has stopped rests while the others go on
        after = where(before.stopped, before, after)
        loss, score = (jnp.where(before.stopped, jnp.nan, x) for x in (loss, score))
        skipped = jnp.where(before.stopped, 0, skipped)
    dtype = jnp.promote_types(loss.dtype, jnp.float32)  # half precision is too coarse
    loss, score, scale = (x.astype(dtype) for x in (loss, score, after.scale))
    return after, Metrics(loss, score, skipped, scale, after.stopped)


def where(condition, new, old):
    return jax.tree.map(
        lambda a, b: jnp.where(condition, a, b).astype(b.dtype), new, old
    )
