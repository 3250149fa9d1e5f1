"""Several networks at once, each trained on its own part of the rows and judged by the rest.

Rows are padded with rows of weight zero, to whole batches: few shapes mean few compilations.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from sklearn.preprocessing import StandardScaler

from mmlp.estimators.pieces import one_of_few
from mmlp.training import FitResult, fit_many
from mmlp.training.compiled import Compiled
from mmlp.training.data import join, split
from mmlp.training.fit import compile_many
from mmlp.training.optimizers import optimizer_by_progress

CALIBRATION = 128  # rows that `build` sees
PASSES = 300_000  # rows that a network sees by default, and
EPOCHS = (20, 500)  # how often each, at least and at most
BATCHES = 40  # in an epoch, about, with from 2^6 to 2^8 rows: larger ones took as long a row
POWERS = (6, 8)
# the step, up to and from so many rows (`benchmarks/large_tables.py --learning-rate 0.02`)
RATES = ((10_000, 0.02), (100_000, 0.01))
EPOCH = 2**17  # rows at most: where a network has more, each epoch takes the next part of them
JUDGES = 20_000  # held rows at most that a network is judged by after an epoch
PATIENCE = 20_000  # rows at most that count as an epoch without improvement
Part = tuple[np.ndarray, np.ndarray]  # rows to train one network on, and held ones to judge it by


class Scaling(NamedTuple):
    """Columns as (values - mean) / scale; constant columns have scale one."""

    mean: np.ndarray
    scale: np.ndarray

    @classmethod
    def of(cls, values: np.ndarray, weight: np.ndarray, halves: Any = False) -> "Scaling":
        """`halves` (p,) tells columns of 0 and 1, whose scale is 1/2 however rare the ones are."""
        scaler = StandardScaler().fit(values, sample_weight=weight)
        scale = np.where(halves, 0.5, np.asarray(scaler.scale_))
        return cls(np.asarray(scaler.mean_), scale)

    def forward(self, values: np.ndarray) -> np.ndarray:
        return (values - self.mean) / self.scale

    def back(self, values: np.ndarray) -> np.ndarray:
        return np.asarray(values, np.float64) * self.scale + self.mean


@dataclasses.dataclass(eq=False, repr=False, kw_only=True)
class Training:
    """The arguments of training, which every estimator has."""

    max_epochs: int = 500
    batch_size: int = 64
    learning_rate: float = 0.02
    patience: int | None = 50
    random_state: Any = None
    dtype: str = "float32"
    verbose: int = 0

    @property
    def full_patience(self) -> int | None:
        """What an estimator makes of `patience`."""
        return self.patience

    def planned(self, n: int) -> "Training":
        """With numbers by the number of rows for what is None: epochs, rows of a batch, the step.

        500 epochs of batches of 64 rows up to 600 rows; then ever fewer, of larger ones, and from
        10,000 rows by smaller steps. Patience is counted in rows where epochs are long: 50 means a
        million.
        """
        given = {field.name: getattr(self, field.name) for field in dataclasses.fields(Training)}
        if self.max_epochs is None:
            given["max_epochs"] = int(np.clip(PASSES // n, *EPOCHS))
        if self.batch_size is None:
            given["batch_size"] = int(2 ** np.clip(np.round(np.log2(n / BATCHES)), *POWERS))
        if self.learning_rate is None:
            rows, rates = np.log(np.transpose(RATES))
            given["learning_rate"] = float(np.exp(np.interp(np.log(n), rows, rates)))
        if self.patience is not None:
            shorter = self.patience * PATIENCE / min(n, EPOCH)
            given["patience"] = min(self.patience, int(np.ceil(shorter)))
        return Training(**given)

    @property
    def epochs(self) -> int:
        """What an estimator makes of `max_epochs`."""
        return getattr(self, "epochs_", self.max_epochs)


def folds(n: int, count: int, rng: np.random.Generator) -> list[Part]:
    """`count` parts whose held rows are disjoint and make up all n."""
    fold = rng.permutation(n) % count
    return [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(count)]


def among(some: np.ndarray, parts: list[Part]) -> list[Part]:
    """The parts of some rows, in ascending order, by their numbers among these."""

    def numbers(rows: np.ndarray) -> np.ndarray:
        return np.flatnonzero(np.isin(some, rows, assume_unique=True))

    return [(numbers(seen), numbers(held_out)) for seen, held_out in parts]


def fit_folds(
    build, sample_loss, data, weight, parts, *, training, seed, checkpoint, start=None, stage=""
) -> FitResult:
    """One network for each part, all trained together.

    `build(key, X)` makes one, with some rows X of data[0], the inputs, or `build(key, X, start)`;
    `sample_loss(model, key, t, *row)` is the loss of one row of the arrays `data`, whose weights
    are `weight` (n,). Both are hashable: equal ones are compiled once. `stage` is what the user
    reads of it meanwhile.
    """
    given = _arranged(build, sample_loss, data, weight, parts, training, seed, start)
    progress = bool(training.verbose) and (stage or True)
    return fit_many(**given, checkpoint=checkpoint, progress=progress)


def compile_folds(build, sample_loss, data, weight, parts, *, training, seed, start=None, **_):
    """Compile what `fit_folds` would run with these arguments; gives the networks before it."""
    given = _arranged(build, sample_loss, data, weight, parts, training, seed, start)
    compile_many(**given)
    return given["models"]


def _arranged(build, sample_loss, data, weight, parts, training, seed, start) -> dict[str, Any]:
    """The arguments of `fit_many`."""
    epochs, batch_size, dtype = training.max_epochs, training.batch_size, training.dtype
    data = tuple(np.asarray(x, dtype) for x in data)
    some = np.random.default_rng(seed).integers(len(weight), size=CALIBRATION)
    first = (data[0][some], *(() if start is None else (start.astype(dtype),)))
    params, frozen, keys, static = _initial((build, len(parts)), np.uint32(seed), *first)
    seen, judging = (list(rows) for rows in zip(*parts, strict=True))
    judging = [_some(rows, seed) for rows in judging]
    rows = (_shared if max(map(len, seen)) > EPOCH else _own)(data, weight, seen, batch_size)
    optimizer = optimizer_by_progress(training.learning_rate)
    options = {"epochs": epochs, "batch_size": batch_size, "patience": training.full_patience}
    options |= {"optimizer": optimizer, "own_data": "rows" not in rows}
    options |= {"validation": _own(data, weight, judging, batch_size)["data"]}
    options |= {"models": join(params, frozen, static.value), "loss": Weighted(sample_loss)}
    return options | rows | {"keys": keys}


def unfinished(history: dict[str, np.ndarray], epochs: int, patience: int | None) -> np.ndarray:
    """Which networks (models,) were still improving when they came to the limit of epochs.

    They were if the last epochs, as many as `patience` but at most a quarter, brought more than a
    hundredth of all that was gained: steps become small towards the limit, and the last epoch is
    often the best by a hair.
    """
    scores = history.get("validation", np.zeros((0, 1)))
    scores = scores if scores.ndim == 2 else scores[:, None]
    if patience is None or len(scores) < epochs:
        return np.zeros(scores.shape[1], bool)
    best = np.fmin.accumulate(scores, axis=0)  # a network that has stopped has NaN from there on
    before = best[max(len(best) - 1 - min(patience, -(-len(best) // 4)), 0)]
    with np.errstate(invalid="ignore"):  # inf - inf, of a network that has learnt nothing
        return ~np.isnan(scores[-1]) & (before - best[-1] > 0.01 * (best[0] - best[-1]))


def held(values: np.ndarray, parts: list[Part]) -> np.ndarray:
    """Of values (n, models, ...) each row's by the network that has not seen it."""
    result = np.empty_like(values[:, 0], dtype=np.float64)
    for k, (_, rows) in enumerate(parts):
        result[rows] = values[rows, k]
    return result


@dataclasses.dataclass(frozen=True)
class Weighted:
    """The loss of a batch of weighted rows."""

    sample_loss: Callable

    def __call__(self, model, batch, key, t):
        data, weight = batch
        keys = jax.random.split(key, len(weight))
        values = jax.vmap(lambda key, *row: self.sample_loss(model, key, t, *row))(keys, *data)
        return jnp.mean(weight * values)


def _some(rows: np.ndarray, seed: int) -> np.ndarray:
    """At most `JUDGES` of these rows, any of them."""
    if len(rows) <= JUDGES:
        return rows
    return np.sort(np.random.default_rng(seed).choice(rows, JUDGES, replace=False))


def _own(data: tuple, weight: np.ndarray, parts: list, batch_size: int) -> dict[str, Any]:
    """For each network a copy of its rows."""
    index, weights = _padded(parts, weight, batch_size)
    return {"data": (tuple(x[index] for x in data), weights.astype(data[0].dtype))}


def _shared(data: tuple, weight: np.ndarray, parts: list, batch_size: int) -> dict[str, Any]:
    """The rows once, and the numbers (networks, parts, m) of those that each sees in an epoch."""
    count = -(-max(map(len, parts)) // EPOCH)
    m = -(-max(map(len, parts)) // (count * batch_size)) * batch_size
    rows = np.full((len(parts), count * m), len(weight))  # the last one, of weight zero
    for k, part in enumerate(parts):
        rows[k, : len(part)] = np.random.default_rng(k).permutation(part)
    table = tuple(np.concatenate([x, x[:1]]) for x in data)
    weights = np.append(weight / weight.mean(), 0).astype(data[0].dtype)
    spread = rows.reshape(len(parts), m, count).swapaxes(1, 2)  # padding in each part
    return {"data": (table, weights), "rows": spread}


def _padded(parts, weight: np.ndarray, batch_size: int) -> tuple[np.ndarray, np.ndarray]:
    """Indices and weights (parts, m), m whole batches; of mean one, and zero for padding."""
    m = one_of_few(max(map(len, parts)), batch_size)
    index, weights = np.zeros((len(parts), m), int), np.zeros((len(parts), m))
    for k, rows in enumerate(parts):
        index[k, : len(rows)], weights[k, : len(rows)] = rows, weight[rows]
    return index, weights * (m / weights.sum(axis=1, keepdims=True))


@functools.partial(Compiled, effort="least")
def _initial(static, seed, X, *start):
    """Networks that are drawn, and keys to train them with."""
    build, count = static
    keys = jax.random.split(jax.random.key(seed), (2, count))

    def one(key):
        model = build(key, X, *start)
        return jax.tree.map(lambda x: x.astype(X.dtype) if eqx.is_inexact_array(x) else x, model)

    params, frozen, rest = split(eqx.filter_vmap(one)(keys[0]))
    return params, frozen, jax.random.key_data(keys[1]), _Static(rest)


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class _Static:
    """What of a model is not an array, as a compiled function returns it."""

    value: tuple
