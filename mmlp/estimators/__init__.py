"""scikit-learn estimators: learn SPD matrices, means with full covariances, and densities, from arrays."""

from mmlp.estimators.base import load
from mmlp.estimators.density import MatrixVAE
from mmlp.estimators.regression import MultivariateRegressor
from mmlp.estimators.spd import SPDRegressor

__all__ = ["MatrixVAE", "MultivariateRegressor", "SPDRegressor", "load"]
