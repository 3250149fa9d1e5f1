"""Several networks at once, each trained on its own part of the rows and judged by the rest.

Rows are padded with rows of weight zero, to whole batches, and predictions are made in pieces of
one size: few shapes mean few compilations, and a row's prediction does not depend on how many
others there are.
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
from sklearn.preprocessing import StandardScaler

from mmlp.training import FitResult, fit_many
from mmlp.training.compiled import Compiled
from mmlp.training.data import join, split
from mmlp.training.optimizers import default_optimizer

PIECE = 256  # rows that are predicted at once
CALIBRATION = 128  # rows that `build` sees


class Scaling(NamedTuple):
    """Columns as (values - mean) / scale; constant columns have scale one."""

    mean: np.ndarray
    scale: np.ndarray

    @classmethod
    def of(cls, values: np.ndarray, weight: np.ndarray) -> "Scaling":
        scaler = StandardScaler().fit(values, sample_weight=weight)
        return cls(np.asarray(scaler.mean_), np.asarray(scaler.scale_))

    def forward(self, values: np.ndarray) -> np.ndarray:
        return (values - self.mean) / self.scale

    def back(self, values: np.ndarray) -> np.ndarray:
        return np.asarray(values, np.float64) * self.scale + self.mean


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


def fit_folds(
    build: Callable,
    sample_loss: Callable,
    data: tuple[np.ndarray, ...],
    weight: np.ndarray,
    parts: list[Part],
    settings: Settings,
    seed: int,
    checkpoint: Path | None,
) -> FitResult:
    """One network for each part, all trained together.

    `build(key, X)` makes one, with some rows X of data[0], the inputs; `sample_loss(model, key, t,
    *row)` is the loss of one row of `data`. Both are hashable: equal ones are compiled once.
    """
    count, dtype = len(parts), settings.dtype
    data = jax.tree.map(lambda x: np.asarray(x, dtype), data)
    keys = jax.random.split(jax.random.key(seed), (2, count))
    some = np.random.default_rng(seed).integers(len(weight), size=CALIBRATION)
    params, frozen, static = _initial(build, keys[0], data[0][some])
    training, judging = (
        (jax.tree.map(lambda x, i=index: x[i], data), w.astype(dtype))
        for index, w in (
            _padded(rows, weight, settings.batch_size) for rows in zip(*parts, strict=True)
        )
    )
    steps = settings.epochs * (training[1].shape[1] // settings.batch_size)
    return fit_many(
        join(params, frozen, static.value),
        Weighted(sample_loss),
        training,
        keys=keys[1],
        epochs=settings.epochs,
        batch_size=settings.batch_size,
        optimizer=default_optimizer(steps, settings.learning_rate),
        validation=judging,
        patience=settings.patience,
        checkpoint=checkpoint,
        progress=settings.progress,
        own_data=True,
    )


def unfinished(history: dict[str, np.ndarray], settings: Settings) -> np.ndarray:
    """Which networks (models,) were still improving when they came to the limit of epochs.

    They were if the last epochs, as many as `patience` but at most a quarter, brought more than a
    hundredth of all that was gained: steps become small towards the limit, and the last epoch is
    often the best by a hair.
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
    """function(model, x) of rows x of X and stacked models: a tree of arrays (n, models, ...)."""
    n = len(X)
    padded = np.concatenate([X, np.broadcast_to(X[:1], (-n % PIECE, X.shape[1]))])
    params, frozen, static = split(models)
    starts = range(0, len(padded), PIECE)
    pieces = [_applied((function, static), params, frozen, padded[i : i + PIECE]) for i in starts]
    return jax.tree.map(lambda *x: np.concatenate([np.asarray(piece) for piece in x])[:n], *pieces)


def held(values: np.ndarray, parts: list[Part]) -> np.ndarray:
    """Of values (n, models, ...) each row's by the network that has not seen it."""
    result = np.empty_like(values[:, 0], dtype=np.float64)
    for k, part in enumerate(parts):
        result[part.held] = values[part.held, k]
    return result


def each(function: Callable, models, X):
    """`predict` without pieces, to be traced."""
    over_models = eqx.filter_vmap(function, in_axes=(eqx.if_array(0), None))
    return jax.vmap(lambda x: over_models(models, x))(X)


@dataclasses.dataclass(frozen=True)
class Weighted:
    """The loss of a batch of weighted rows."""

    sample_loss: Callable

    def __call__(self, model, batch, key, t):
        data, weight = batch
        keys = jax.random.split(key, len(weight))
        values = jax.vmap(lambda key, *row: self.sample_loss(model, key, t, *row))(keys, *data)
        return jnp.mean(weight * values)


def _padded(parts, weight: np.ndarray, batch_size: int) -> tuple[np.ndarray, np.ndarray]:
    """Indices and weights (parts, m), m whole batches; of mean one, and zero for padding."""
    m = -(-max(map(len, parts)) // batch_size) * batch_size
    index, weights = np.zeros((len(parts), m), int), np.zeros((len(parts), m))
    for k, rows in enumerate(parts):
        index[k, : len(rows)], weights[k, : len(rows)] = rows, weight[rows]
    return index, weights * (m / weights.sum(axis=1, keepdims=True))


@functools.partial(Compiled, quickly=True)
def _initial(build, keys, X):
    def one(key):
        model = build(key, X)
        return jax.tree.map(lambda x: x.astype(X.dtype) if eqx.is_inexact_array(x) else x, model)

    params, frozen, static = split(eqx.filter_vmap(one)(keys))
    return params, frozen, _Static(static)


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class _Static:
    """What of a model is not an array, as a compiled function returns it."""

    value: tuple


@Compiled
def _applied(static, params, frozen, X):
    function, rest = static
    return each(function, join(params, frozen, rest), X)
