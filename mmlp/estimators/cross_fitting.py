"""Several networks at once, each trained on its own part of the rows and judged by the rest."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from sklearn.preprocessing import StandardScaler

from mmlp.compilation import Compiled, combine_model, partition_model
from mmlp.errors import ArgumentError, CallError
from mmlp.estimators import batches
from mmlp.estimators.batches import own_rows, shared_rows, some_of_them
from mmlp.estimators.chunks import one_of_few
from mmlp.training import FitResult, fit_many
from mmlp.training.arguments import MAX_STEPS
from mmlp.training.fit import compile_many
from mmlp.training.optimizers import optimizer_by_progress

CALIBRATION = 128  # rows that `build` sees
PASSES = 300_000  # rows that a network sees by default, and
EPOCHS = (20, 500)  # how often each, at least and at most
BATCHES = (
    40  # in an epoch, about, with from 2^6 to 2^8 rows: larger ones took as long a row
)
POWERS = (6, 8)
# the step, up to and from so many rows (`benchmarks/large_tables.py --learning-rate 0.02`)
RATES = ((10_000, 0.02), (100_000, 0.01))
MIN_PADDED_ROWS = 64  # to which the rows of a batch are padded
PATIENCE = 20_000  # rows at most that count as an epoch without improvement
Part = tuple[
    np.ndarray, np.ndarray
]  # rows to train one network on, and held ones to judge it by


class Scaling(NamedTuple):
    """Columns as (values - mean) / scale; constant columns have scale one."""

    mean: np.ndarray
    scale: np.ndarray

    @classmethod
    def of(
        cls, values: np.ndarray, weight: np.ndarray, halves: Any = False
    ) -> "Scaling":
        """`halves` (p,) tells columns of 0 and 1, whose scale is 1/2 however rare the ones are."""
        scaler = StandardScaler().fit(values, sample_weight=weight)
        scale = np.where(halves, 0.5, np.asarray(scaler.scale_))
        return cls(np.asarray(scaler.mean_), scale)

    @classmethod
    def of_varying(cls, values: np.ndarray, weight: np.ndarray) -> "Scaling":
        """Return that of columns which vary, however little beside their mean.

        `StandardScaler` gives scale one to columns whose variance may be an error of its sums.
        """
        scaler = StandardScaler().fit(values, sample_weight=weight)
        return cls(np.asarray(scaler.mean_), np.sqrt(np.asarray(scaler.var_)))

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
    warm_start: bool = False

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
        given = {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(Training)
        }
        if self.max_epochs is None:
            given["max_epochs"] = int(np.clip(PASSES // n, *EPOCHS))
        if self.batch_size is None:
            given["batch_size"] = int(
                2 ** np.clip(np.round(np.log2(n / BATCHES)), *POWERS)
            )
        if self.learning_rate is None:
            rows, rates = np.log(np.transpose(RATES))
            given["learning_rate"] = float(np.exp(np.interp(np.log(n), rows, rates)))
        if self.patience is not None:
            shorter = self.patience * PATIENCE / min(n, batches.EPOCH)
            given["patience"] = min(self.patience, int(np.ceil(shorter)))
        return Training(**given)

    @property
    def epochs(self) -> int:
        """What an estimator makes of `max_epochs`."""
        return getattr(self, "epochs_", self.max_epochs)


def folds(n: int, count: int, rng: np.random.Generator) -> list[Part]:
    """`count` parts whose held rows are disjoint and make up all n."""
    fold = rng.permutation(n) % count
    return [
        (np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(count)
    ]


def among(some: np.ndarray, parts: list[Part]) -> list[Part]:
    """The parts of some rows, in ascending order, by their numbers among these."""

    def numbers(rows: np.ndarray) -> np.ndarray:
        return np.flatnonzero(np.isin(some, rows, assume_unique=True))

    return [(numbers(seen), numbers(held_out)) for seen, held_out in parts]


def fit_folds(
    build,
    sample_loss,
    data,
    weight,
    parts,
    *,
    training,
    checkpoint,
    stage="",
    rates=1.0,
    **given,
) -> FitResult:
    """One network for each part, all trained together.

    `build(key, X)` makes one, with some rows X of data[0], the inputs, or `build(key, X, start)`;
    `sample_loss(model, key, t, *row)` is the loss of one row of the arrays `data`, whose weights
    are `weight` (n,). Both are hashable: equal ones are compiled once. `judges`, arrays like `data`
    of other rows, tell when to stop in place of each network's own held rows; `models` are such
    networks to go on from; `rates`, one for all or for each, multiply the steps. `stage` is what
    the user reads of it meanwhile.
    """
    options = _arranged(build, sample_loss, data, weight, parts, training, **given)
    progress = bool(training.verbose) and (stage or True)
    options["rates"] = np.broadcast_to(rates, len(parts))
    return fit_many(**options, checkpoint=checkpoint, progress=progress)


def compile_folds(
    build, sample_loss, data, weight, parts, *, training, checkpoint, **given
):
    """Compile what `fit_folds` would run with these arguments; gives the networks before it."""
    options = _arranged(build, sample_loss, data, weight, parts, training, **given)
    compile_many(**options)
    return options["models"]


def _arranged(
    build,
    sample_loss,
    data,
    weight,
    parts,
    training,
    *,
    seed,
    start=None,
    judges=None,
    models=None,
) -> dict[str, Any]:
    """The arguments of `fit_many`."""
    epochs, dtype = training.max_epochs, training.dtype
    most_rows = max(len(rows) for rows, _ in parts)
    # rows beyond those of the table would have weight zero: any larger batch is the whole table
    batch_size = min(training.batch_size, one_of_few(most_rows, MIN_PADDED_ROWS))
    check_steps(epochs, most_rows, batch_size)
    data = tuple(np.asarray(x, dtype) for x in data)
    some = np.random.default_rng(seed).integers(len(weight), size=CALIBRATION)
    first = (data[0][some], *(() if start is None else (start.astype(dtype),)))
    params, frozen, keys, static = _initial(
        (build, len(parts)), np.uint32(seed), *first
    )
    fresh = combine_model(params, frozen, static.value)
    seen, judging = (list(rows) for rows in zip(*parts, strict=True))
    rows = shared_rows if max(map(len, seen)) > batches.EPOCH else own_rows
    rows = rows(data, weight, seen, batch_size)
    held = (data, weight)
    if judges is not None:
        judges = tuple(np.asarray(x, dtype) for x in judges)
        held, judging = (
            (judges, np.ones(len(judges[0]))),
            [np.arange(len(judges[0]))] * len(seen),
        )
    judging = [some_of_them(one, seed) for one in judging]
    optimizer = optimizer_by_progress(training.learning_rate)
    options = {
        "epochs": epochs,
        "batch_size": batch_size,
        "patience": training.full_patience,
    }
    options |= {"optimizer": optimizer, "own_data": "rows" not in rows}
    options |= {"validation": own_rows(*held, judging, batch_size)["data"]}
    options |= {
        "models": fresh if models is None else models,
        "loss": Weighted(sample_loss),
    }
    return options | rows | {"keys": keys}


def check_steps(epochs: int, n: int, batch_size: int) -> None:
    """Refuse so many epochs of n rows that their steps cannot be counted in 32 bits."""
    steps_per_epoch = one_of_few(min(n, batches.EPOCH), batch_size) // batch_size
    most = MAX_STEPS // steps_per_epoch
    if epochs > most:
        raise ArgumentError(
            f"must be at most {most} for this number of rows, because steps are counted in "
            f"32 bits, got {epochs}",
            argument="max_epochs",
        )


def check_alike(
    name: str, models, build, count: int, X: np.ndarray, start=None
) -> None:
    """Refuse to go on from stacked models where `build` would make others; nothing is computed."""
    first = (X[:2], *(() if start is None else (start.astype(X.dtype),)))
    keys = jax.random.split(jax.random.key(0), count)
    fresh = eqx.filter_eval_shape(_drawn, build, keys, *first)
    have, asked = (
        jax.tree_util.tree_flatten_with_path(tree)[0] for tree in (models, fresh)
    )
    differ = "other kinds of networks"
    if jax.tree.structure(models) == jax.tree.structure(fresh):
        pairs = zip(have, asked, strict=True)
        shapes = [(key, np.shape(x), np.shape(y)) for (key, x), (_, y) in pairs]
        wrong = [entry for entry in shapes if entry[1] != entry[2]]
        if not wrong and all(
            getattr(x, "dtype", None) in (None, X.dtype) for _, x in have
        ):
            return
        key, x, y = wrong[0] if wrong else ((), "another dtype", X.dtype)
        differ = f"weights {jax.tree_util.keystr(key)} of shape {y}, not {x}"
    raise CallError(
        "training continues from the networks that were fitted, but the arguments or the "
        f"number of rows now ask for {differ}",
        call=f"{name}(warm_start=True)",
        remedy="set the widths, `n_models` and so on as they were, or `warm_start=False`",
    )


def unfinished(
    history: dict[str, np.ndarray], epochs: int, patience: int | None
) -> np.ndarray:
    """Which networks (models,) were still improving when they came to the limit of epochs.

    They were if the last epochs, as many as `patience` but at most a quarter, brought more than a
    hundredth of all that was gained: steps become small towards the limit, and the last epoch is
    often the best by a hair.
    """
    scores = history.get("validation", np.zeros((0, 1)))
    scores = scores if scores.ndim == 2 else scores[:, None]
    if patience is None or len(scores) < epochs:
        return np.zeros(scores.shape[1], bool)
    best = np.fmin.accumulate(
        scores, axis=0
    )  # a network that has stopped has NaN from there on
    before = best[max(len(best) - 1 - min(patience, -(-len(best) // 4)), 0)]
    with np.errstate(
        invalid="ignore"
    ):  # inf - inf, of a network that has learnt nothing
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
        values = jax.vmap(lambda key, *row: self.sample_loss(model, key, t, *row))(
            keys, *data
        )
        return jnp.mean(weight * values)


@functools.partial(Compiled, effort="least")
def _initial(static, seed, X, *start):
    """Networks that are drawn, and keys to train them with."""
    build, count = static
    keys = jax.random.split(jax.random.key(seed), (2, count))
    params, frozen, rest = partition_model(_drawn(build, keys[0], X, *start))
    return params, frozen, jax.random.key_data(keys[1]), _Static(rest)


def _drawn(build, keys, X, *start):
    def one(key):
        model = build(key, X, *start)
        return jax.tree.map(
            lambda x: x.astype(X.dtype) if eqx.is_inexact_array(x) else x, model
        )

    return eqx.filter_vmap(one)(keys)


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class _Static:
    """What of a model is not an array, as a compiled function returns it."""

    value: tuple
