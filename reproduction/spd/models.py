"""Predictors of Examples 1 and 2: networks, trained in one program, and those without training.

Matrices are held by factors T (..., m, d) with A = T'T, as in `Gram`.
"""

import dataclasses
import functools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from mmlp.compilation import Compiled
from mmlp.datasets.covariances import MEASURES
from mmlp.networks import (
    CholeskyMLP,
    Dense,
    JointMatrixMLP,
    MatrixMLP,
    ShallowMatrixMLP,
    Triangular,
)
from mmlp.networks.calibration import calibrate
from mmlp.networks.kernels import Linear, MercerSigmoid
from mmlp.reporting.baselines import predict_from_neighbours
from mmlp.spd import SPD, Gram
from mmlp.training import fit_many
from mmlp.training.optimizers import (
    MAX_GRADIENT_NORM,
    comparable_optimizer,
    default_optimizer,
)
from reproduction.spd.tasks import HEADINGS, LOSS_NAMES, Part, Task, data_of, split_of

FEATURES = 20
CHOSEN = Path(__file__).with_name("spd_settings.json")
NEIGHBOURS, FLOOR_ROW = 5, "noise floor"
MEAN_ROW, NEIGHBOURS_ROW = "constant mean", f"{NEIGHBOURS} nearest neighbours"
compiled = functools.partial(Compiled, effort="least")


@dataclasses.dataclass(frozen=True)
class Recipe:
    """A network and how it is trained."""

    network: str  # "matrix", "joint", "shallow" or "cholesky"
    widths: tuple[int, ...]
    optimizer: str  # "muon" or "adam", with cosine decay and clipping
    output: str = "linear"  # or "mercer", kernels of a dense output, or "triangular"
    features: tuple[int, ...] = ()  # widths of the vector path of "joint"
    plain: bool = (
        False  # as the paper trains: no calibration, a constant rate, no clipping
    )

    def __post_init__(self):
        for name in ("widths", "features"):  # a JSON file has lists
            object.__setattr__(self, name, tuple(getattr(self, name)))

    def create(self, dim: int, key) -> eqx.Module:
        kernel = MercerSigmoid() if self.output == "mercer" else Linear()
        if self.network == "cholesky":
            return CholeskyMLP(FEATURES, dim, self.widths, key=key)
        if self.network == "shallow":
            return ShallowMatrixMLP(FEATURES, dim, self.widths, kernel=kernel, key=key)
        output = Triangular() if self.output == "triangular" else Dense(kernel)
        if self.network == "matrix":
            return MatrixMLP(FEATURES, dim, self.widths, output=output, key=key)
        return JointMatrixMLP(
            FEATURES,
            dim,
            self.widths,
            hidden_features=self.features,
            output=output,
            key=key,
        )

    def make_optimizer(self, steps: int, rate: float) -> optax.GradientTransformation:
        if self.plain:
            return comparable_optimizer(optax.adam, rate)
        if self.optimizer == "muon":
            return default_optimizer(steps, rate)
        return comparable_optimizer(_adam, steps, rate)


def _adam(steps: int, rate: float) -> optax.GradientTransformation:
    schedule = optax.cosine_decay_schedule(rate, steps)
    return optax.chain(
        optax.clip_by_global_norm(MAX_GRADIENT_NORM), optax.adam(schedule)
    )


class Model(NamedTuple):
    """A row of a table: what is trained, and how."""

    recipe: Recipe
    rate: float
    loss: str = "von_neumann"

    def outcome(self, task: Task) -> "Outcome":
        """Of (settings, seeds)."""
        found = outcome(task, self.recipe, self.loss, (self.rate,))
        return Outcome(*(values[:, :, 0] for values in found))

    def under(self, losses: Sequence[str], name: str) -> "dict[str, Model]":
        """This model trained with each of the losses: rows "NAME, LOSS"."""
        return {
            f"{name}, {LOSS_NAMES[loss]}": self._replace(loss=loss) for loss in losses
        }


def paper(network: str, widths: tuple[int, ...] = (20, 20, 20)) -> Model:
    """The paper's recipe: the Mercer sigmoid kernel everywhere, Adam "with default settings"."""
    return Model(Recipe(network, widths, "adam", output="mercer", plain=True), 1e-3)


def tuned(family: str, dim: int, setting: str, **changes) -> Model:
    """What reproduction/searches/spd.py chose for this setting and the nearest size that it tried.

    Some families were tried in the first of its settings only: that choice serves all.
    """
    by_dim = json.loads(CHOSEN.read_text(encoding="utf-8"))
    by_setting = by_dim[min(by_dim, key=lambda tried: abs(int(tried) - dim))]
    first = next(iter(by_setting.values()))
    chosen = by_setting.get(setting, first).get(family, first[family])
    return Model(Recipe(**chosen["recipe"] | changes), chosen["rate"])


class Outcome(NamedTuple):
    """Of (settings, seeds, rates): test errors, best validation loss, two predictions."""

    errors: np.ndarray  # (..., 3)
    validation: np.ndarray
    samples: np.ndarray  # (..., 2, d, d)


@functools.cache  # nothing is trained twice in one process
def outcome(task: Task, recipe: Recipe, loss: str, rates: tuple[float, ...]) -> Outcome:
    """Of one network for each setting, seed and rate; its best epoch, by validation, is kept."""
    budget = task.budget
    shape = (len(budget.settings), budget.seeds, len(rates))
    parts = jax.tree.map(lambda x: jnp.repeat(x, len(rates), axis=0), split_of(task))
    train, validation, test = parts
    seeds = np.broadcast_to(
        task.first_seed + np.arange(budget.seeds)[:, None], shape
    ).ravel()
    keys = jax.vmap(jax.random.split, (0, None), 1)(jax.vmap(jax.random.key)(seeds), 2)
    options: dict[str, Any] = {"epochs": task.epochs, "batch_size": budget.batch_size}
    options |= {"validation": validation, "own_data": True, "progress": False}
    options["optimizer"] = recipe.make_optimizer(
        task.epochs * task.steps_of_epoch, max(rates)
    )
    options["rates"] = np.broadcast_to(np.array(rates) / max(rates), shape).ravel()
    start = _start((recipe, task.dim), keys[0], train.X)
    result = fit_many(start, MeanOf(loss), train, keys=keys[1], **options)
    each = (
        jax.tree.map(lambda x, i=i: x[i], (result.model, test))
        for i in range(len(seeds))
    )
    scores = zip(*(_score(None, *pair) for pair in each), strict=True)
    errors, samples = (
        np.stack([np.asarray(x, np.float64) for x in column]) for column in scores
    )
    best = np.nanmin(result.history["validation"], axis=0)
    return Outcome(*(x.reshape(*shape, *x.shape[1:]) for x in (errors, best, samples)))


@dataclasses.dataclass(frozen=True)
class MeanOf:
    """The loss: the mean of a measure over the batch."""

    measure: str

    def __call__(self, model, batch: Part, key, t):
        return jnp.mean(MEASURES[self.measure](jax.vmap(model)(batch.X), batch.Y))


def errors_of_baselines(task: Task) -> dict[str, np.ndarray]:
    """Errors (settings, seeds, 3) of what needs no training, by row; all samples are used."""
    rows, test = {MEAN_ROW: [], NEIGHBOURS_ROW: [], FLOOR_ROW: []}, task.budget.test
    for data in data_of(task):
        T, X, target = data.sampled[test:], data.X[test:], data.sampled[:test]
        near = predict_from_neighbours(X, T, data.X[:test], NEIGHBOURS)
        predicted = (
            np.broadcast_to(mean(T), target.shape),
            near,
            data.population[:test],
        )
        for row, factor in zip(rows.values(), predicted, strict=True):
            row.append(
                np.asarray(_errors(None, jnp.asarray(factor), jnp.asarray(target)))
            )
    shape = (len(task.budget.settings), task.budget.seeds, len(HEADINGS))
    return {
        name: np.stack(row).astype(np.float64).reshape(shape)
        for name, row in rows.items()
    }


def mean(T: np.ndarray) -> np.ndarray:
    """A factor (d, d) of the mean of the matrices of T (n, m, d), by QR: nothing is squared."""
    return np.linalg.qr(T.reshape(-1, T.shape[-1]) / len(T) ** 0.5).R


def mean_errors(predicted: SPD, Y: SPD) -> jax.Array:
    """By measure, (3,)."""
    return jnp.stack([jnp.mean(measure(predicted, Y)) for measure in MEASURES.values()])


_errors = compiled(lambda _, T, T_Y: mean_errors(Gram(T), Gram(T_Y)))


@compiled
def _score(_, model, test: Part):
    """Mean errors (3,) and the first two predictions."""
    predicted = jax.vmap(model)(test.X)
    return mean_errors(predicted, test.Y), predicted.dense()[:2]


@compiled
def _start(recipe_and_dim: tuple[Recipe, int], keys, X):
    """The networks of all models at the start."""
    recipe, dim = recipe_and_dim

    def one(key, X):
        model = recipe.create(dim, key)
        return (
            model
            if recipe.plain
            else calibrate(model, X, key=jax.random.fold_in(key, 1))
        )

    return jax.vmap(one)(keys, X)
