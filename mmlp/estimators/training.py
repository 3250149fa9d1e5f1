"""Several networks at once, each trained on its own part of the rows and judged by the rest; and their predictions.

Rows are padded with rows of weight zero, to whole batches, and predictions are made in pieces of one size: few shapes mean
few compilations, and a row's prediction does not depend on how many others there are.
"""

import dataclasses
import functools
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from mmlp.training import epoch as _epoch
from mmlp.training.compiled import Compiled
from mmlp.training.core import FitResult, fit_many
from mmlp.training.optimizers import default_optimizer

PIECE = 256  # rows that are predicted at once
CALIBRATION = 128  # rows that `build` sees


class Settings(NamedTuple):
    epochs: int
    batch_size: int
    learning_rate: float
    patience: int | None
    dtype: np.dtype
    progress: bool


class Part(NamedTuple):
    """The rows that one network is trained on, and those that it is judged by."""

    train: np.ndarray
    held: np.ndarray


def folds(n: int, count: int, rng: np.random.Generator) -> list[Part]:
    """`count` parts whose held rows are disjoint and make up all n."""
    fold = rng.permutation(n) % count
    return [Part(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(count)]


def train(
    build: Callable,
    sample_loss: Callable,
    data: tuple[np.ndarray, ...],
    weight: np.ndarray,
    parts: list[Part],
    settings: Settings,
    seed: int,
    directory: Path | None,
) -> FitResult:
    """One network for each part, made by `build(key, X)` with some rows X of data[0], the inputs, and trained together.

    `sample_loss(model, key, t, *row)` is the loss of one row of `data`. `build` and `sample_loss` are hashable: equal ones
    are compiled once.
    """
    count, dtype = len(parts), settings.dtype
    data = jax.tree.map(lambda x: np.asarray(x, dtype), data)
    keys = jax.random.split(jax.random.key(seed), (2, count))
    some = np.random.default_rng(seed).integers(len(weight), size=CALIBRATION)
    params, frozen, static = _initial(build, keys[0], data[0][some])
    models = _epoch.join(params, frozen, static.value)
    rows = [
        _padded([getattr(part, name) for part in parts], weight, settings.batch_size)
        for name in Part._fields
    ]
    training, judging = (
        (jax.tree.map(lambda x, i=index: x[i], data), w.astype(dtype)) for index, w in rows
    )
    steps = settings.epochs * (training[1].shape[1] // settings.batch_size)
    return fit_many(
        models,
        _weighted(sample_loss),
        training,
        keys=keys[1],
        epochs=settings.epochs,
        batch_size=settings.batch_size,
        optimizer=default_optimizer(steps, settings.learning_rate),
        validation=judging,
        patience=settings.patience,
        checkpoint=directory,
        progress=settings.progress,
        own_data=True,
    )


def unfinished(history: dict[str, np.ndarray], settings: Settings) -> np.ndarray:
    """Of each network, whether its held rows were still improving when it came to the limit of epochs, (models,).

    They were if the last epochs, as many as `patience` but at most a quarter, brought more than a hundredth of all that was
    gained: steps become small towards the limit, and the last epoch is often the best by a hair.
    """
    scores = history.get("validation", np.zeros((0, 1)))
    scores = scores if scores.ndim == 2 else scores[:, None]
    if settings.patience is None or len(scores) < settings.epochs:
        return np.zeros(scores.shape[1], bool)
    best = np.fmin.accumulate(scores, axis=0)  # a network that has stopped has NaN from there on
    before = best[max(len(best) - 1 - min(settings.patience, -(-len(best) // 4)), 0)]
    with np.errstate(invalid="ignore"):  # inf - inf, of a network that has learnt nothing
        return ~np.isnan(scores[-1]) & (before - best[-1] > 0.01 * (best[0] - best[-1]))


def predict(function: Callable, models, X: np.ndarray):
    """`function(models, X)`, a tree of arrays whose first axis is that of the rows of X, a piece of X at a time."""
    n = len(X)
    padded = np.concatenate([X, np.broadcast_to(X[:1], (-n % PIECE, X.shape[1]))])
    params, frozen, static = _epoch.split(models)
    apply = _applied.program((function, static), params, frozen, padded[:PIECE])
    pieces = [apply(params, frozen, padded[i : i + PIECE]) for i in range(0, len(padded), PIECE)]
    return jax.tree.map(lambda *x: np.concatenate([np.asarray(piece) for piece in x])[:n], *pieces)


def each(models, function: Callable, *rows):
    """function(model, *row) for each row and each of the stacked models: arrays (n, models, ...)."""
    over_models = eqx.filter_vmap(function, in_axes=(eqx.if_array(0), *(None for _ in rows)))
    return jax.vmap(lambda *row: over_models(models, *row))(*rows)


@functools.lru_cache  # the same function for the same loss, so that `fit` does not compile again
def _weighted(sample_loss: Callable) -> Callable:
    def loss(model, batch, key, t):
        data, weight = batch
        values = jax.vmap(lambda key, *row: sample_loss(model, key, t, *row))(
            jax.random.split(key, len(weight)), *data
        )
        return jnp.mean(weight * values)

    return loss


def _padded(
    parts: list[np.ndarray], weight: np.ndarray, batch_size: int
) -> tuple[np.ndarray, np.ndarray]:
    """Indices and weights (parts, m), m a multiple of the batch size; weights have mean one, and are zero for padding."""
    m = -(-max(map(len, parts)) // batch_size) * batch_size
    index, weights = np.zeros((len(parts), m), int), np.zeros((len(parts), m))
    for k, rows in enumerate(parts):
        index[k, : len(rows)], weights[k, : len(rows)] = rows, weight[rows]
    return index, weights * (m / weights.sum(axis=1, keepdims=True))


@functools.partial(Compiled, quickly=True)
def _initial(build, keys, X):
    def one(key):
        return jax.tree.map(
            lambda x: x.astype(X.dtype) if eqx.is_inexact_array(x) else x, build(key, X)
        )

    params, frozen, static = _epoch.split(eqx.filter_vmap(one)(keys))
    return params, frozen, _Static(static)


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class _Static:
    """What of a model is not an array, as a compiled function returns it."""

    value: tuple


@Compiled
def _applied(static, params, frozen, X):
    function, rest = static
    return function(_epoch.join(params, frozen, rest), X)
