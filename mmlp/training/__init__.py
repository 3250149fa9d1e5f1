"""`fit` and `fit_many`: train a model, or many at once, in compiled epochs."""

from mmlp.training.core import EpochInfo, FitResult, NonFiniteError, fit, fit_many
from mmlp.training.optimizers import default_optimizer

__all__ = ["EpochInfo", "FitResult", "NonFiniteError", "default_optimizer", "fit", "fit_many"]
