"""Networks whose output is a covariance: a symmetric positive definite matrix."""

from mmlp.calibration import calibrate
from mmlp.divergences import affine_invariant, bures_wasserstein, log_euclidean, quadratic, stein, von_neumann
from mmlp.gram import DiagonalGram, Gram
from mmlp.kernels import Linear, MercerSigmoid, RadialBasis
from mmlp.networks import CholeskyMLP, MatrixMLP, ShallowMatrixMLP

__all__ = [
    "CholeskyMLP",
    "DiagonalGram",
    "Gram",
    "Linear",
    "MatrixMLP",
    "MercerSigmoid",
    "RadialBasis",
    "ShallowMatrixMLP",
    "affine_invariant",
    "bures_wasserstein",
    "calibrate",
    "log_euclidean",
    "quadratic",
    "stein",
    "von_neumann",
]
__version__ = "0.1.0"
