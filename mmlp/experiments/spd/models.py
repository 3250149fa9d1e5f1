"""The networks of Examples 1 and 2: recipes, and all settings and seeds trained in one program."""

import dataclasses
import functools
import json
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from mmlp.datasets.covariances import MEASURES
from mmlp.experiments.spd.tasks import Part, Task, split_of
from mmlp.initialisation import calibrate
from mmlp.kernels import Linear, MercerSigmoid
from mmlp.networks import CholeskyMLP, Dense, MatrixMLP, ShallowMatrixMLP
from mmlp.spd import SPD
from mmlp.training import fit_many
from mmlp.training.compiled import Compiled
from mmlp.training.optimizers import CLIP, default_optimizer, equal_by_arguments

FEATURES = 20
PAPER_RATE = 1e-3  # Adam "with default settings"
CHOSEN = Path(__file__).with_name("spd_settings.json")


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

    def make_optimizer(self, steps: int, rate: float) -> optax.GradientTransformation:
        if self.plain:
            return equal_by_arguments(optax.adam, rate)
        if self.optimizer == "muon":
            return default_optimizer(steps, rate)
        return equal_by_arguments(_adam, steps, rate)


def _adam(steps: int, rate: float) -> optax.GradientTransformation:
    schedule = optax.cosine_decay_schedule(rate, steps)
    return optax.chain(optax.clip_by_global_norm(CLIP), optax.adam(schedule))


def paper(network: str, widths: tuple[int, ...] = (20, 20, 20)) -> Recipe:
    """The paper's recipe: the Mercer sigmoid kernel everywhere, Adam."""
    return Recipe(network, widths, "adam", kernel="mercer", plain=True)


def tuned(family: str, dim: int) -> tuple[Recipe, float]:
    """What benchmarks/search_spd.py chose for this size, or for the nearest that it tried."""
    by_dim = json.loads(CHOSEN.read_text(encoding="utf-8"))
    chosen = by_dim[min(by_dim, key=lambda tried: abs(int(tried) - dim))][family]
    return recipe_of(chosen["recipe"]), chosen["rate"]


def recipe_of(entries: dict[str, Any]) -> Recipe:
    """From the entries of a JSON file."""
    return dataclasses.replace(Recipe(**entries), widths=tuple(entries["widths"]))


class Outcome(NamedTuple):
    """Of (settings, seeds, rates): test errors, best validation loss, two predictions."""

    errors: np.ndarray  # (..., 3)
    validation: np.ndarray
    samples: np.ndarray  # (..., 2, d, d)


@functools.cache  # nothing is trained twice in one process
def outcome(task: Task, recipe: Recipe, loss: str, rates: tuple[float, ...]) -> Outcome:
    """Of one network for each setting, seed and rate; its best epoch, by validation, is kept."""
    budget, split = task.budget, split_of(task)
    shape = (len(budget.settings), budget.seeds, len(rates))
    repeated = jax.tree.map(lambda x: jnp.repeat(x, len(rates), axis=0), split)
    seeds = np.broadcast_to(task.first_seed + np.arange(budget.seeds)[:, None], shape).ravel()
    keys = jax.vmap(jax.random.split, (0, None), 1)(jax.vmap(jax.random.key)(seeds), 2)
    result = fit_many(
        _start((recipe, task.dim), keys[0], repeated.train.X),
        MeanOf(loss),
        repeated.train,
        keys=keys[1],
        epochs=task.epochs,
        batch_size=budget.batch_size,
        optimizer=recipe.make_optimizer(task.epochs * task.steps_of_epoch, max(rates)),
        validation=repeated.validation,
        progress=False,
        rates=np.broadcast_to(np.array(rates) / max(rates), shape).ravel(),
        own_data=True,
    )
    pairs = [
        jax.tree.map(lambda x, i=i: x[i], (result.model, repeated.test)) for i in range(len(seeds))
    ]
    scores = zip(*(_score(None, *pair) for pair in pairs), strict=True)
    errors, samples = (np.stack([np.asarray(x, np.float64) for x in column]) for column in scores)
    validation = np.nanmin(result.history["validation"], axis=0)
    return Outcome(*(x.reshape(*shape, *x.shape[1:]) for x in (errors, validation, samples)))


@dataclasses.dataclass(frozen=True)
class MeanOf:
    """The loss: the mean of a measure over the batch."""

    measure: str

    def __call__(self, model, batch: Part, key, t):
        return jnp.mean(MEASURES[self.measure](jax.vmap(model)(batch.X), batch.Y))


@functools.partial(Compiled, quickly=True)
def _start(recipe_and_dim: tuple[Recipe, int], keys, X):
    """The networks of all models at the start."""
    recipe, dim = recipe_and_dim

    def one(key, X):
        model = recipe.create(dim, key)
        return model if recipe.plain else calibrate(model, X, key=jax.random.fold_in(key, 1))

    return jax.vmap(one)(keys, X)


@functools.partial(Compiled, quickly=True)
def _score(_, model, test: Part):
    """Mean errors (3,) and the first two predictions."""
    predicted = jax.vmap(model)(test.X)
    return mean_errors(predicted, test.Y), predicted.dense()[:2]


def mean_errors(predicted: SPD, Y: SPD) -> jax.Array:
    """By measure, (3,)."""
    return jnp.stack([jnp.mean(measure(predicted, Y)) for measure in MEASURES.values()])


class Model(NamedTuple):
    """A row of a table: what is trained, and how."""

    recipe: Recipe
    rate: float
    loss: str

    def outcome(self, task: Task) -> Outcome:
        return outcome(task, self.recipe, self.loss, (self.rate,))

    def errors(self, task: Task) -> np.ndarray:
        """(settings, seeds, 3)"""
        return self.outcome(task).errors[:, :, 0]
