"""`fit` and `fit_many`: train a model, or many at once, in compiled epochs."""

from mmlp.training.fit import fit, fit_many
from mmlp.training.optimizers import default_optimizer
from mmlp.training.results import EpochInfo, FitResult, NonFiniteError

__all__ = [
    "EpochInfo",
    "FitResult",
    "NonFiniteError",
    "default_optimizer",
    "fit",
    "fit_many",
]
