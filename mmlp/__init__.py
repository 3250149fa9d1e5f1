"""Networks whose output is a covariance: a symmetric positive definite matrix."""

from mmlp.calibration import calibrate
from mmlp.distributions import TraceOneGaussian, TraceOnePowerExponential, kl_divergence
from mmlp.divergences import affine_invariant, bures_wasserstein, log_euclidean, quadratic, stein, von_neumann
from mmlp.gram import DiagonalGram, Gram
from mmlp.heads import GaussianHead, PowerExponentialHead
from mmlp.kernels import Linear, MercerSigmoid, RadialBasis
from mmlp.networks import CholeskyMLP, MatrixMLP, ShallowMatrixMLP

__all__ = [
    "CholeskyMLP",
    "DiagonalGram",
    "GaussianHead",
    "Gram",
    "Linear",
    "MatrixMLP",
    "MercerSigmoid",
    "PowerExponentialHead",
    "RadialBasis",
    "ShallowMatrixMLP",
    "TraceOneGaussian",
    "TraceOnePowerExponential",
    "affine_invariant",
    "bures_wasserstein",
    "calibrate",
    "kl_divergence",
    "log_euclidean",
    "quadratic",
    "stein",
    "von_neumann",
]
__version__ = "0.1.0"
