"""The tasks of Examples 1 and 2: covariances over settings of the generator and seeds."""

import dataclasses
import functools
import itertools
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from mmlp.datasets.covariances import Covariances, synthetic_covariances
from mmlp.spd import SPD, Gram

EPOCH = 80  # samples between two looks at the validation loss
HEADINGS = {
    "quadratic": "E_quad",
    "von_neumann": "E_QRE",
    "stein": "E_Stein",
}  # order of errors
QRE = list(HEADINGS).index("von_neumann")
LOSS_NAMES = {
    "von_neumann": "QRE",
    "stein": "Stein",
    "quadratic": "quad",
}  # the paper's order
QUICK = {"seeds": 2, "settings": ("turning",), "steps": 30, "test": 100, "dims": (10,)}
FIRST_SEEDS = {"example1": 0, "example2": 100, "search": 1000}


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
        names = (field.name for field in dataclasses.fields(Budget))
        return Budget(**{name: getattr(self, name) for name in names})


@dataclasses.dataclass(frozen=True)
class Grid(Budget):
    """Networks trained for each size of matrices and of training sets, under each loss."""

    dims: tuple[int, ...] = (10, 20)
    sizes: tuple[int, ...] = (20, 100)
    losses: tuple[str, ...] = tuple(LOSS_NAMES)

    QUICK: ClassVar = QUICK | {"sizes": (20,), "losses": ("von_neumann", "quadratic")}

    def tasks(self) -> "list[Task]":
        """Of one setting each: networks are tuned for it."""
        budgets = [
            dataclasses.replace(self.budget(), settings=(s,)) for s in self.settings
        ]
        cases = itertools.product(self.dims, self.sizes, budgets)
        return [Task(d, n, budget, FIRST_SEEDS["example1"]) for d, n, budget in cases]


@dataclasses.dataclass(frozen=True)
class Task:
    """Covariances of size `dim` from `train` samples, for each setting and each seed."""

    dim: int
    train: int
    budget: Budget
    first_seed: int

    @property
    def trained(self) -> int:
        """Samples of `train` but for the fifth that chooses the epoch."""
        return self.train - self.train // 5

    @property
    def repeats(self) -> int:
        """How often an epoch repeats the samples, so that all sizes share one compiled program."""
        return max(1, EPOCH // self.trained)

    @property
    def steps_of_epoch(self) -> int:
        return -(-self.repeats * self.trained // self.budget.batch_size)

    @property
    def epochs(self) -> int:
        return -(-self.budget.steps // self.steps_of_epoch)


class Part(NamedTuple):
    """Samples of all models: arrays (settings x seeds, samples, ...)."""

    X: jax.Array
    Y: SPD


@functools.lru_cache(maxsize=32)
def data_of(task: Task) -> list[Covariances]:
    """One set for each setting and seed; test samples first: `train` does not change them."""
    budget, n = task.budget, task.budget.test + task.train
    return [
        synthetic_covariances(task.dim, n, seed=task.first_seed + seed, setting=setting)
        for setting, seed in itertools.product(budget.settings, range(budget.seeds))
    ]


def split_of(task: Task) -> tuple[Part, ...]:
    """Samples to train with, to choose the epoch by, and to test with."""
    data = data_of(task)
    X = jnp.asarray(np.stack([part.X for part in data]))
    T = jnp.asarray(
        np.stack([part.sampled for part in data])
    )  # (settings x seeds, n, d, d)
    first = task.budget.test
    ends = (first, first + task.trained), (first + task.trained, first + task.train)
    rows = [
        *(np.tile(np.arange(*pair), task.repeats) for pair in ends),
        np.arange(first),
    ]
    return tuple(Part(X[:, part], Gram(T[:, part], upper=True)) for part in rows)
