"""The tasks of Examples 1 and 2: covariances, by setting of the generator and seed."""

import dataclasses
import functools
import itertools
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from mmlp.datasets.covariances import Covariances, synthetic_covariances
from mmlp.spd import SPD, Gram

# The validation loss is looked at after about this many samples.
SAMPLES_PER_EPOCH = 80

# The measures in the order of the columns of a table, and of the axis of errors.
HEADINGS = {"quadratic": "E_quad", "von_neumann": "E_QRE", "stein": "E_Stein"}
QRE = list(HEADINGS).index("von_neumann")

# The losses in the paper's order.
LOSS_NAMES = {"von_neumann": "QRE", "stein": "Stein", "quadratic": "quad"}

QUICK = {"seeds": 2, "settings": ("turning",), "steps": 30, "test": 100, "dims": (10,)}
FIRST_SEEDS = {"example1": 0, "example2": 100, "search": 1000}


@dataclasses.dataclass(frozen=True)
class Budget:
    """What all models of an experiment have in common."""

    seeds: int = 5
    # Settings of the generator, `mmlp.datasets.covariances.SETTINGS`.
    settings: tuple[str, ...] = ("turning", "linear")
    # Training steps, batch size and number of test samples.
    steps: int = 1600
    batch_size: int = 5
    test: int = 1000

    def budget(self) -> "Budget":
        """Return these fields only, so that equal budgets of experiments are equal."""
        names = [field.name for field in dataclasses.fields(Budget)]
        return Budget(**{name: getattr(self, name) for name in names})


@dataclasses.dataclass(frozen=True)
class Grid(Budget):
    """Networks trained for each size of matrices and training sets, under each loss."""

    dims: tuple[int, ...] = (10, 20)
    sizes: tuple[int, ...] = (20, 100)
    losses: tuple[str, ...] = tuple(LOSS_NAMES)

    QUICK: ClassVar = QUICK | {"sizes": (20,), "losses": ("von_neumann", "quadratic")}

    def tasks(self) -> "list[Task]":
        """Return tasks of a single setting each, because networks are tuned for it."""
        budgets = [
            dataclasses.replace(self.budget(), settings=(setting,))
            for setting in self.settings
        ]
        return [
            Task(dim, size, budget, FIRST_SEEDS["example1"])
            for dim, size, budget in itertools.product(self.dims, self.sizes, budgets)
        ]


@dataclasses.dataclass(frozen=True)
class Task:
    """Predict covariances, for each setting of the generator and each seed.

    Parameters
    ----------
    dim : int
        The size of the matrices.
    train : int
        The number of samples for training and validation.
    budget : Budget
    first_seed : int
    """

    dim: int
    train: int
    budget: Budget
    first_seed: int

    @property
    def trained(self) -> int:
        """The number of samples without the fifth that chooses the epoch."""
        return self.train - self.train // 5

    @property
    def repeats(self) -> int:
        """How often an epoch repeats the samples.

        Epochs of the same length let all sizes share a compiled program.
        """
        return max(1, SAMPLES_PER_EPOCH // self.trained)

    @property
    def steps_per_epoch(self) -> int:
        """The number of training steps in an epoch."""
        return -(-self.repeats * self.trained // self.budget.batch_size)

    @property
    def epochs(self) -> int:
        """The number of epochs."""
        return -(-self.budget.steps // self.steps_per_epoch)


class Samples(NamedTuple):
    """Inputs X and covariances Y, arrays of shape (settings x seeds, samples, ...)."""

    X: jax.Array
    Y: SPD


@functools.lru_cache(maxsize=32)
def generate_data(task: Task) -> list[Covariances]:
    """Return a data set for each setting and seed.

    Test samples come first, so that they do not depend on `task.train`.
    """
    budget = task.budget
    n = budget.test + task.train
    return [
        synthetic_covariances(task.dim, n, seed=task.first_seed + seed, setting=setting)
        for setting, seed in itertools.product(budget.settings, range(budget.seeds))
    ]


def split_data(task: Task) -> tuple[Samples, Samples, Samples]:
    """Return the samples for training, validation and test."""
    data = generate_data(task)
    X = jnp.asarray(np.stack([part.X for part in data]))
    T = jnp.asarray(np.stack([part.sampled for part in data]))

    first = task.budget.test
    last_trained = first + task.trained
    train_rows = np.tile(np.arange(first, last_trained), task.repeats)
    validation_rows = np.tile(np.arange(last_trained, first + task.train), task.repeats)
    test_rows = np.arange(first)

    def select(rows: np.ndarray) -> Samples:
        return Samples(X[:, rows], Gram(T[:, rows], upper=True))

    return select(train_rows), select(validation_rows), select(test_rows)
