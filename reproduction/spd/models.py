"""Predictors of Examples 1 and 2: trained networks, and baselines without training.

Matrices are represented by factors T (..., m, d) with A = T'T, as in `Gram`.
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
from jax import Array

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
from reproduction.spd.tasks import (
    HEADINGS,
    LOSS_NAMES,
    Samples,
    Task,
    generate_data,
    split_data,
)

N_FEATURES = 20
N_NEIGHBOURS = 5
TUNED_SETTINGS = Path(__file__).with_name("spd_settings.json")

# Rows of the tables that are not trained.
FLOOR_ROW = "noise floor"
MEAN_ROW = "constant mean"
NEIGHBOURS_ROW = f"{N_NEIGHBOURS} nearest neighbours"

# For programs that run for a moment only.
compile_quickly = functools.partial(Compiled, effort="least")


@dataclasses.dataclass(frozen=True)
class Recipe:
    """A network and how it is trained.

    Parameters
    ----------
    network : {"matrix", "joint", "shallow", "cholesky"}
    widths : tuple of int
        Sizes of the hidden matrices or layers.
    optimizer : {"muon", "adam"}
        With cosine decay of the learning rate and clipping of gradients.
    output : {"linear", "mercer", "triangular"}, default="linear"
        The kernel of a dense output, or a triangular output.
    features : tuple of int, default=()
        Widths of the vector path of a joint network.
    plain : bool, default=False
        Train as the paper does: no calibration, a constant learning rate, no clipping.
    """

    network: str
    widths: tuple[int, ...]
    optimizer: str
    output: str = "linear"
    features: tuple[int, ...] = ()
    plain: bool = False

    def __post_init__(self):
        # A JSON file has lists in place of tuples.
        object.__setattr__(self, "widths", tuple(self.widths))
        object.__setattr__(self, "features", tuple(self.features))

    def make_network(self, dim: int, key: Array) -> eqx.Module:
        """Return a network with initial weights."""
        kernel = MercerSigmoid() if self.output == "mercer" else Linear()
        output = Triangular() if self.output == "triangular" else Dense(kernel)
        if self.network == "cholesky":
            return CholeskyMLP(N_FEATURES, dim, self.widths, key=key)
        if self.network == "shallow":
            return ShallowMatrixMLP(
                N_FEATURES, dim, self.widths, kernel=kernel, key=key
            )
        if self.network == "matrix":
            return MatrixMLP(N_FEATURES, dim, self.widths, output=output, key=key)
        return JointMatrixMLP(
            N_FEATURES,
            dim,
            self.widths,
            hidden_features=self.features,
            output=output,
            key=key,
        )

    def make_optimizer(
        self, steps: int, learning_rate: float
    ) -> optax.GradientTransformation:
        """Return the optimizer for this many training steps."""
        if self.plain:
            return comparable_optimizer(optax.adam, learning_rate)
        if self.optimizer == "muon":
            return default_optimizer(steps, learning_rate)
        return comparable_optimizer(_clipped_adam, steps, learning_rate)


def _clipped_adam(steps: int, learning_rate: float) -> optax.GradientTransformation:
    """Return Adam with cosine decay of the learning rate and clipping."""
    schedule = optax.cosine_decay_schedule(learning_rate, steps)
    return optax.chain(
        optax.clip_by_global_norm(MAX_GRADIENT_NORM), optax.adam(schedule)
    )


class Outcome(NamedTuple):
    """What came of training, for each setting, seed and learning rate.

    Parameters
    ----------
    errors : array of shape (settings, seeds, rates, 3)
        Mean test errors, in the order of `HEADINGS`.
    validation : array of shape (settings, seeds, rates)
        The best validation loss.
    samples : array of shape (settings, seeds, rates, 2, d, d)
        Predictions of the first two test samples.
    """

    errors: np.ndarray
    validation: np.ndarray
    samples: np.ndarray


class Model(NamedTuple):
    """A row of a table: a recipe with its learning rate and loss."""

    recipe: Recipe
    rate: float
    loss: str = "von_neumann"

    def train(self, task: Task) -> Outcome:
        """Return the outcome, without the axis of learning rates."""
        outcome = train_networks(task, self.recipe, self.loss, (self.rate,))
        return Outcome(
            errors=outcome.errors[:, :, 0],
            validation=outcome.validation[:, :, 0],
            samples=outcome.samples[:, :, 0],
        )

    def with_losses(self, losses: Sequence[str], name: str) -> "dict[str, Model]":
        """Return this model trained with each of the losses, as rows "NAME, LOSS"."""
        return {
            f"{name}, {LOSS_NAMES[loss]}": self._replace(loss=loss) for loss in losses
        }


def paper_model(network: str, widths: tuple[int, ...] = (20, 20, 20)) -> Model:
    """Return the paper's recipe.

    The Mercer sigmoid kernel everywhere, and Adam "with default settings".
    """
    recipe = Recipe(network, widths, "adam", output="mercer", plain=True)
    return Model(recipe, rate=1e-3)


def tuned_model(family: str, dim: int, setting: str, **changes: Any) -> Model:
    """Return what reproduction/searches/spd.py chose for a family of networks.

    Parameters
    ----------
    family : str
        A name in spd_settings.json.
    dim : int
        The size of the matrices. The choice for the nearest size is taken.
    setting : str
        The setting of the generator. Some families were tried in the first setting
        only; that choice serves all settings.
    **changes
        Fields of the recipe to replace.

    Returns
    -------
    Model
    """
    choices_by_dim = json.loads(TUNED_SETTINGS.read_text(encoding="utf-8"))
    nearest_dim = min(choices_by_dim, key=lambda tried: abs(int(tried) - dim))
    choices_by_setting = choices_by_dim[nearest_dim]
    first_setting = next(iter(choices_by_setting.values()))
    choices = choices_by_setting.get(setting, first_setting)
    choice = choices.get(family, first_setting[family])
    recipe = Recipe(**(choice["recipe"] | changes))
    return Model(recipe, choice["rate"])


@functools.cache  # Nothing is trained twice in a process.
def train_networks(
    task: Task, recipe: Recipe, loss: str, rates: tuple[float, ...]
) -> Outcome:
    """Train a network for each setting, seed and learning rate, in a single program.

    The epoch with the best validation loss is kept.

    Parameters
    ----------
    task : Task
    recipe : Recipe
    loss : str
        The name of a divergence.
    rates : tuple of float
        Learning rates.

    Returns
    -------
    Outcome
    """
    budget = task.budget
    shape = (len(budget.settings), budget.seeds, len(rates))
    train, validation, test = jax.tree.map(
        lambda x: jnp.repeat(x, len(rates), axis=0), split_data(task)
    )

    seeds = task.first_seed + np.arange(budget.seeds)[:, None]
    seeds = np.broadcast_to(seeds, shape).ravel()
    start_keys, training_keys = jax.vmap(jax.random.split, (0, None), 1)(
        jax.vmap(jax.random.key)(seeds), 2
    )

    max_rate = max(rates)
    relative_rates = np.broadcast_to(np.array(rates) / max_rate, shape).ravel()
    steps = task.epochs * task.steps_per_epoch
    result = fit_many(
        _start_networks((recipe, task.dim), start_keys, train.X),
        MeanDivergence(loss),
        train,
        keys=training_keys,
        epochs=task.epochs,
        batch_size=budget.batch_size,
        validation=validation,
        own_data=True,
        progress=False,
        optimizer=recipe.make_optimizer(steps, max_rate),
        rates=relative_rates,
    )

    errors = []
    samples = []
    for i in range(len(seeds)):
        model, model_test = jax.tree.map(lambda x, i=i: x[i], (result.model, test))
        model_errors, model_samples = _score_network(None, model, model_test)
        errors.append(np.asarray(model_errors, np.float64))
        samples.append(np.asarray(model_samples, np.float64))
    best_validation = np.nanmin(result.history["validation"], axis=0)

    def by_setting_seed_and_rate(values: np.ndarray) -> np.ndarray:
        return values.reshape(*shape, *values.shape[1:])

    return Outcome(
        errors=by_setting_seed_and_rate(np.stack(errors)),
        validation=by_setting_seed_and_rate(best_validation),
        samples=by_setting_seed_and_rate(np.stack(samples)),
    )


@dataclasses.dataclass(frozen=True)
class MeanDivergence:
    """The loss: the mean of a divergence over the batch."""

    measure: str

    def __call__(self, model: Any, batch: Samples, key: Array, t: Array) -> Array:
        predicted = jax.vmap(model)(batch.X)
        return jnp.mean(MEASURES[self.measure](predicted, batch.Y))


def score_baselines(task: Task) -> dict[str, np.ndarray]:
    """Return the errors of predictors that need no training, which use all samples.

    Returns
    -------
    dict of arrays of shape (settings, seeds, 3)
        By the name of the row.
    """
    n_test = task.budget.test
    errors = {MEAN_ROW: [], NEIGHBOURS_ROW: [], FLOOR_ROW: []}
    for data in generate_data(task):
        X = data.X[n_test:]
        T = data.sampled[n_test:]
        target = data.sampled[:n_test]
        predictions = {
            MEAN_ROW: np.broadcast_to(mean_factor(T), target.shape),
            NEIGHBOURS_ROW: predict_from_neighbours(
                X, T, data.X[:n_test], N_NEIGHBOURS
            ),
            FLOOR_ROW: data.population[:n_test],
        }
        for row, factor in predictions.items():
            row_errors = _score_factors(None, jnp.asarray(factor), jnp.asarray(target))
            errors[row].append(np.asarray(row_errors))

    shape = (len(task.budget.settings), task.budget.seeds, len(HEADINGS))
    return {
        row: np.stack(values).astype(np.float64).reshape(shape)
        for row, values in errors.items()
    }


def mean_factor(T: np.ndarray) -> np.ndarray:
    """Return a factor (d, d) of the mean of the matrices with factors T (n, m, d).

    It is computed by QR, so that nothing is squared.
    """
    return np.linalg.qr(T.reshape(-1, T.shape[-1]) / len(T) ** 0.5).R


def mean_errors(predicted: SPD, Y: SPD) -> Array:
    """Return the mean of each measure, of shape (3,)."""
    return jnp.stack([jnp.mean(measure(predicted, Y)) for measure in MEASURES.values()])


@compile_quickly
def _score_factors(_, T: Array, T_target: Array) -> Array:
    return mean_errors(Gram(T), Gram(T_target))


@compile_quickly
def _score_network(_, model: Any, test: Samples) -> tuple[Array, Array]:
    """Return the mean errors (3,) and the first two predictions."""
    predicted = jax.vmap(model)(test.X)
    return mean_errors(predicted, test.Y), predicted.dense()[:2]


@compile_quickly
def _start_networks(recipe_and_dim: tuple[Recipe, int], keys: Array, X: Array) -> Any:
    """Return the networks of all models before training."""
    recipe, dim = recipe_and_dim

    def start(key: Array, X: Array) -> Any:
        model = recipe.make_network(dim, key)
        if recipe.plain:
            return model
        return calibrate(model, X, key=jax.random.fold_in(key, 1))

    return jax.vmap(start)(keys, X)
