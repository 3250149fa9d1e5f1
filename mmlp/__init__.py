"""Networks whose output is a covariance: a symmetric positive definite matrix."""

from mmlp.calibration import calibrate
from mmlp.checkpoint import load, save
from mmlp.divergences import affine_invariant, bures_wasserstein, log_euclidean, quadratic, stein, von_neumann
from mmlp.gram import DiagonalGram, Gram
from mmlp.kernels import Linear, MercerSigmoid, RadialBasis
from mmlp.networks import CholeskyMLP, MatrixMLP, ShallowMatrixMLP
from mmlp.training import FitResult, fit, fit_many

__all__ = [
    "CholeskyMLP",
    "DiagonalGram",
    "FitResult",
    "Gram",
    "Linear",
    "MatrixMLP",
    "MercerSigmoid",
    "RadialBasis",
    "ShallowMatrixMLP",
    "affine_invariant",
    "bures_wasserstein",
    "calibrate",
    "fit",
    "fit_many",
    "load",
    "log_euclidean",
    "quadratic",
    "save",
    "stein",
    "von_neumann",
]
__version__ = "0.1.0"
