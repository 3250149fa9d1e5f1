"""scikit-learn estimators: SPD matrices, means with full covariances, densities."""

from mmlp.estimators.density import MatrixVAE
from mmlp.estimators.model_files import load
from mmlp.estimators.regression import MultivariateRegressor
from mmlp.estimators.spd import SPDRegressor

__all__ = ["MatrixVAE", "MultivariateRegressor", "SPDRegressor", "load"]
