"""What Examples 1 and 2 share: tasks over settings and seeds, networks trained side by side, their errors.

One compiled program trains a network for all settings and seeds of a task; nothing is trained twice in one process.
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

from mmlp.datasets.covariances import MEASURES, Covariances, synthetic_covariances
from mmlp.experiments.spd import baselines as _baselines
from mmlp.initialisation import calibrate
from mmlp.kernels import Linear, MercerSigmoid
from mmlp.networks import CholeskyMLP, Dense, MatrixMLP, ShallowMatrixMLP
from mmlp.pages.page import cell
from mmlp.spd import Gram
from mmlp.training.core import fit_many
from mmlp.training.optimizers import CLIP, default_optimizer

FEATURES = 20
NEIGHBOURS = 5
EPOCH = 80  # samples between two looks at the validation loss
NEIGHBOURS_ROW, MEAN_ROW, FLOOR_ROW = (
    f"{NEIGHBOURS} nearest neighbours",
    "constant mean",
    "noise floor",
)
HEADINGS = {
    "quadratic": "E_quad",
    "von_neumann": "E_QRE",
    "stein": "E_Stein",
}  # the order of all arrays of errors
LOSS_NAMES = {"von_neumann": "QRE", "stein": "Stein", "quadratic": "quad"}  # the paper's order
QUICK = {"seeds": 2, "settings": ("turning",), "steps": 30, "test": 100, "dims": (10,)}
FIRST_SEEDS = {"example1": 0, "example2": 100, "tune": 1000}
# for programs that run once: half the time to compile
ONCE: Any = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
TUNED = Path(__file__).with_name("spd_settings.json")


@dataclasses.dataclass(frozen=True)
class Budget:
    """What all models of an experiment have in common."""

    seeds: int = 5
    settings: tuple[str, ...] = ("turning", "linear")
    steps: int = 1600
    batch_size: int = 5
    test: int = 1000

    def budget(self) -> "Budget":
        """These fields alone, so that equal budgets of different experiments are equal."""
        return Budget(
            **{field.name: getattr(self, field.name) for field in dataclasses.fields(Budget)}
        )


@dataclasses.dataclass(frozen=True)
class Task:
    """Covariances of size `dim` from `train` samples, for each setting of the generator and each seed."""

    dim: int
    train: int
    budget: Budget
    first_seed: int

    @property
    def held_out(self) -> int:
        """Samples of `train` that choose the epoch: a fifth."""
        return self.train // 5

    @property
    def repeats(self) -> int:
        """How often the samples are repeated in an epoch, so that tasks of all sizes share one compiled program."""
        return max(1, EPOCH // (self.train - self.held_out))

    @property
    def steps_of_epoch(self) -> int:
        return -(-self.repeats * (self.train - self.held_out) // self.budget.batch_size)

    @property
    def epochs(self) -> int:
        return -(-self.budget.steps // self.steps_of_epoch)


@dataclasses.dataclass(frozen=True)
class Recipe:
    """A network and how it is trained."""

    network: str  # "matrix", "shallow" or "cholesky"
    widths: tuple[int, ...]
    optimizer: str  # "muon" or "adam", with cosine decay and clipping
    kernel: str = "linear"  # "linear" or "mercer": the output kernel
    plain: bool = False  # as the paper trains: no calibration, a constant rate, no clipping

    def create(self, dim: int, key) -> eqx.Module:
        kernel = MercerSigmoid() if self.kernel == "mercer" else Linear()
        if self.network == "matrix":
            return MatrixMLP(FEATURES, dim, self.widths, output=Dense(kernel), key=key)
        if self.network == "shallow":
            return ShallowMatrixMLP(FEATURES, dim, self.widths, kernel=kernel, key=key)
        return CholeskyMLP(FEATURES, dim, self.widths, key=key)


PAPER_RATE = 1e-3  # Adam "with default settings"


def paper(network: str, widths: tuple[int, ...] = (20, 20, 20)) -> Recipe:
    """The paper's recipe: the Mercer sigmoid kernel everywhere, Adam."""
    return Recipe(network, widths, "adam", kernel="mercer", plain=True)


OPTIMIZERS = ("muon", "adam")
# The same optimisers and rates are tried for each family of networks; the best of it, by validation loss, is used.
FAMILIES = {
    "matrix 3 x 20": [Recipe("matrix", (20, 20, 20), optimizer) for optimizer in OPTIMIZERS],
    "matrix, wide": [
        Recipe("matrix", w, optimizer) for w in ((60, 60), (100, 100)) for optimizer in OPTIMIZERS
    ],
    "Cholesky": [
        Recipe("cholesky", w, optimizer)
        for w in ((20, 20, 20), (60, 60), (100, 100))
        for optimizer in OPTIMIZERS
    ],
    "Cholesky 2 x 200": [
        Recipe("cholesky", (200, 200), optimizer) for optimizer in OPTIMIZERS
    ],  # tried, not used: slow
    "shallow": [
        Recipe("shallow", (20, 20, 20), optimizer, kernel)
        for kernel in ("linear", "mercer")
        for optimizer in OPTIMIZERS
    ],
}


def tuned(family: str, dim: int) -> tuple[Recipe, float]:
    """The recipe and the rate that `tune_spd` chose for matrices of this size, or of the nearest that it was run for."""
    by_dim = _chosen()
    chosen = by_dim[min(by_dim, key=lambda tried: abs(int(tried) - dim))][family]
    return Recipe(**chosen["recipe"] | {"widths": tuple(chosen["recipe"]["widths"])}), chosen[
        "rate"
    ]


@functools.lru_cache(maxsize=1)
def _chosen() -> dict:
    return json.loads(TUNED.read_text(encoding="utf-8"))["chosen"]


# -- data -------------------------------------------------------------------------------------------------------------


class Part(NamedTuple):
    """Samples of all models: arrays (settings x seeds, samples, ...)."""

    X: jax.Array
    Y: Gram


class Split(NamedTuple):
    train: Part
    validation: Part
    test: Part


@functools.lru_cache(maxsize=32)
def data_of(task: Task) -> list[Covariances]:
    """One set for each setting and seed. The test samples come first: they do not depend on the size of the training set."""
    budget = task.budget
    return [
        synthetic_covariances(
            task.dim, budget.test + task.train, seed=task.first_seed + seed, setting=setting
        )
        for setting in budget.settings
        for seed in range(budget.seeds)
    ]


@functools.lru_cache(maxsize=8)
def split_of(task: Task) -> Split:
    data = data_of(task)
    X = jnp.asarray(np.stack([part.X for part in data]))
    T = jnp.asarray(np.stack([part.sampled for part in data]))  # (settings x seeds, n, d, d)
    a, c = task.budget.test, task.budget.test + task.train
    b = c - task.held_out
    order = (
        *(np.tile(rows, task.repeats) for rows in (np.arange(a, b), np.arange(b, c))),
        np.arange(a),
    )
    return Split(*(Part(X[:, rows], Gram(T[:, rows], upper=True)) for rows in order))


# -- training ---------------------------------------------------------------------------------------------------------


class Outcome(NamedTuple):
    """Over (settings, seeds, rates): test errors by measure, best validation loss, predictions for two test samples."""

    errors: np.ndarray  # (..., 3)
    validation: np.ndarray
    samples: np.ndarray  # (..., 2, d, d)


def _mean_of(measure):
    def loss(model, batch, key, t):
        return jnp.mean(measure(jax.vmap(model)(batch.X), batch.Y))

    return loss


LOSSES = {name: _mean_of(measure) for name, measure in MEASURES.items()}


@functools.cache
def train(task: Task, recipe: Recipe, loss: str, rates: tuple[float, ...]) -> Outcome:
    """Train one network for each setting, seed and rate; the epoch with the best validation loss is kept."""
    budget, split = task.budget, split_of(task)
    shape = (len(budget.settings), budget.seeds, len(rates))
    repeated = jax.tree.map(lambda x: jnp.repeat(x, len(rates), axis=0), split)
    seeds = np.broadcast_to(task.first_seed + np.arange(budget.seeds)[:, None], shape).ravel()
    keys = jax.vmap(jax.random.split, (0, None), 1)(jax.vmap(jax.random.key)(seeds), 2)
    models = _start(recipe, task.dim, keys[0], repeated.train.X)
    result = fit_many(
        models,
        LOSSES[loss],
        repeated.train,
        keys=keys[1],
        epochs=task.epochs,
        batch_size=budget.batch_size,
        optimizer=_optimizer(recipe, task.epochs * task.steps_of_epoch, max(rates)),
        validation=repeated.validation,
        progress=False,
        rates=np.broadcast_to(np.array(rates) / max(rates), shape).ravel(),
        own_data=True,
    )
    pairs = (
        jax.tree.map(lambda x, i=i: x[i], (result.model, repeated.test)) for i in range(len(seeds))
    )
    scores = [_score(*pair) for pair in pairs]
    errors, samples = (
        np.stack([np.asarray(part, np.float64) for part in column])
        for column in zip(*scores, strict=True)
    )
    validation = np.nanmin(result.history["validation"], axis=0)
    return Outcome(*(x.reshape(*shape, *x.shape[1:]) for x in (errors, validation, samples)))


@functools.partial(jax.jit, static_argnums=(0, 1), compiler_options=ONCE)
def _start(recipe: Recipe, dim: int, keys, X):
    """The networks of all models at the start."""

    def one(key, X):
        model = recipe.create(dim, key)
        return model if recipe.plain else calibrate(model, X, key=jax.random.fold_in(key, 1))

    return jax.vmap(one)(keys, X)


@functools.cache  # equal calls give the same object, so that `fit_many` does not compile again
def _optimizer(recipe: Recipe, steps: int, rate: float) -> optax.GradientTransformation:
    if recipe.plain:
        return optax.adam(rate)
    if recipe.optimizer == "muon":
        return default_optimizer(steps, rate)
    return optax.chain(
        optax.clip_by_global_norm(CLIP), optax.adam(optax.cosine_decay_schedule(rate, steps))
    )


@functools.partial(jax.jit, compiler_options=ONCE)
def _score(model, test: Part):
    """Mean errors (3,) and the first two predictions."""
    predicted = jax.vmap(model)(test.X)
    return _errors(predicted, test.Y), predicted.dense()[:2]


def _errors(predicted: Gram, Y: Gram) -> jax.Array:
    return jnp.stack([jnp.mean(measure(predicted, Y)) for measure in MEASURES.values()])


_errors_of_factors = jax.jit(lambda T, T_Y: _errors(Gram(T), Gram(T_Y)), compiler_options=ONCE)


def baselines(task: Task) -> dict[str, np.ndarray]:
    """Errors (settings, seeds, 3) of predictors that are not trained; they use all of the training samples."""
    rows: dict[str, list[Any]] = {MEAN_ROW: [], NEIGHBOURS_ROW: [], FLOOR_ROW: []}
    test = task.budget.test
    for data in data_of(task):
        T, X, target = data.sampled[test:], data.X[test:], data.sampled[:test]
        constant = np.broadcast_to(_baselines.mean(T), target.shape)
        neighbours = _baselines.nearest_neighbours(X, T, data.X[:test], NEIGHBOURS)
        for row, factor in zip(
            rows.values(), (constant, neighbours, data.population[:test]), strict=True
        ):
            row.append(np.asarray(_errors_of_factors(*(jnp.asarray(f) for f in (factor, target)))))
    shape = (len(task.budget.settings), task.budget.seeds, len(MEASURES))
    return {name: np.stack(row).astype(np.float64).reshape(shape) for name, row in rows.items()}


# -- tables -----------------------------------------------------------------------------------------------------------

Errors = dict[tuple[str, int, int, str], np.ndarray]  # (setting, d0, n, row) -> (seeds, 3)


class Model(NamedTuple):
    """A row of a table: what is trained, and how."""

    recipe: Recipe
    rate: float
    loss: str

    def errors(self, task: Task) -> np.ndarray:
        """(settings, seeds, 3)"""
        return train(task, self.recipe, self.loss, (self.rate,)).errors[:, :, 0]


def collect(task: Task, models: dict[str, Model]) -> Errors:
    """The errors of these models, and of the predictors that are not trained, by setting and row."""
    rows = {name: model.errors(task) for name, model in models.items()} | baselines(task)
    settings = enumerate(task.budget.settings)
    return {
        (setting, task.dim, task.train, row): values[i]
        for i, setting in settings
        for row, values in rows.items()
    }


def as_json(errors: Errors) -> list[dict]:
    """Every number behind the tables, to four digits."""
    return [
        {
            "setting": s,
            "d0": d,
            "n": n,
            "row": row,
            "errors": [[float(f"{v:.4g}") for v in seed] for seed in values],
        }
        for (s, d, n, row), values in errors.items()
    ]


def tables(
    errors: Errors, budget: Budget, paper: dict[tuple[int, int, str], tuple[float, ...]]
) -> list[dict]:
    """A table for each setting: groups of d0 and n, the three measures beside the paper's values."""
    made = []
    for setting in budget.settings:
        rows: list[dict] = []
        for group in dict.fromkeys((d, n) for s, d, n, _ in errors if s == setting):
            members = {
                row: values
                for (s, d, n, row), values in errors.items()
                if (s, d, n) == (setting, *group)
            }
            rows.append({"group": f"d0 = {group[0]}, n = {group[1]}"})
            means = {
                row: values.mean(0).tolist() for row, values in members.items() if row != FLOOR_ROW
            }
            for row, values in members.items():
                published = paper.get((*group, row), (None,) * len(HEADINGS))
                cells = [
                    cell(
                        column,
                        paper=published[m],
                        best=row in means and means[row][m] == min(v[m] for v in means.values()),
                    )
                    for m, column in enumerate(values.T.tolist())
                ]
                rows.append({"name": row, "cells": cells})
        note = f"Mean and standard error over {budget.seeds} seeds, {budget.test} test samples."
        made.append(
            {
                "title": f"Setting: {setting}",
                "note": note,
                "columns": ["", *HEADINGS.values()],
                "rows": rows,
            }
        )
    return made


def about_settings(tasks: Sequence[Task]) -> list[str]:
    """How far the spectra of the targets are spread, by setting."""
    notes = []
    for i, setting in enumerate(tasks[0].budget.settings):
        spread = {
            task.dim: np.median(
                [
                    data.condition()
                    for data in data_of(task)[i * task.budget.seeds :][: task.budget.seeds]
                ]
            )
            for task in tasks
        }
        texts = ", ".join(f"{value:.2g} at d0 = {dim}" for dim, value in spread.items())
        notes.append(
            f"Setting {setting}: the largest eigenvalue of a covariance is {texts} times the smallest."
        )
    return notes
