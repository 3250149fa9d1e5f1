"""Networks whose output is a covariance: a symmetric positive definite matrix."""

from mmlp import _lazy
from mmlp._version import __version__

TYPE_CHECKING = False  # as in `typing`, which takes half of the time that this package needs
if TYPE_CHECKING:  # at run time, on first use: JAX takes a second to import, scikit-learn another
    from mmlp import datasets as datasets
    from mmlp import estimators as estimators
    from mmlp import metrics as metrics
    from mmlp import plotting as plotting
    from mmlp.checkpoint import load, register, save
    from mmlp.distributions import (
        Elliptical,
        TraceOneGaussian,
        TraceOnePowerExponential,
        TraceOneStudentT,
        kl_divergence,
    )
    from mmlp.divergences import (
        affine_invariant,
        bures_wasserstein,
        log_euclidean,
        quadratic,
        stein,
        von_neumann,
    )
    from mmlp.estimators import MatrixVAE as MatrixVAE
    from mmlp.estimators import MultivariateRegressor as MultivariateRegressor
    from mmlp.estimators import SPDRegressor as SPDRegressor
    from mmlp.heads import GaussianHead, PowerExponentialHead, StudentTHead
    from mmlp.initialisation import calibrate
    from mmlp.kernels import Linear, MercerSigmoid, RadialBasis
    from mmlp.networks import (
        CholeskyMLP,
        Dense,
        Diagonal,
        JointMatrixMLP,
        LowRank,
        MatrixMLP,
        ShallowMatrixMLP,
        Triangular,
    )
    from mmlp.program_cache import cache_programs
    from mmlp.reporting import report as report
    from mmlp.spd import SPD, DiagonalGram, Gram, LowRankGram
    from mmlp.training import (
        EpochInfo,
        FitResult,
        NonFiniteError,
        default_optimizer,
        fit,
        fit_many,
    )
    from mmlp.vae import VAE, paper_vae

__all__ = [
    "SPD",
    "VAE",
    "CholeskyMLP",
    "Dense",
    "Diagonal",
    "DiagonalGram",
    "Elliptical",
    "EpochInfo",
    "FitResult",
    "GaussianHead",
    "Gram",
    "JointMatrixMLP",
    "Linear",
    "LowRank",
    "LowRankGram",
    "MatrixMLP",
    "MercerSigmoid",
    "NonFiniteError",
    "PowerExponentialHead",
    "RadialBasis",
    "ShallowMatrixMLP",
    "StudentTHead",
    "TraceOneGaussian",
    "TraceOnePowerExponential",
    "TraceOneStudentT",
    "Triangular",
    "__version__",
    "affine_invariant",
    "bures_wasserstein",
    "cache_programs",
    "calibrate",
    "default_optimizer",
    "fit",
    "fit_many",
    "kl_divergence",
    "load",
    "log_euclidean",
    "paper_vae",
    "quadratic",
    "register",
    "save",
    "stein",
    "von_neumann",
]

_NAMES = {
    "checkpoint": "load register save",
    "distributions": "Elliptical TraceOneGaussian TraceOnePowerExponential TraceOneStudentT "
    "kl_divergence",
    "divergences": "affine_invariant bures_wasserstein log_euclidean quadratic stein von_neumann",
    "estimators": "MatrixVAE MultivariateRegressor SPDRegressor",
    "heads": "GaussianHead PowerExponentialHead StudentTHead",
    "initialisation": "calibrate",
    "kernels": "Linear MercerSigmoid RadialBasis",
    "networks": "CholeskyMLP Dense Diagonal JointMatrixMLP LowRank MatrixMLP ShallowMatrixMLP "
    "Triangular",
    "reporting": "report",
    "spd": "SPD DiagonalGram Gram LowRankGram",
    "program_cache": "cache_programs",
    "training": "EpochInfo FitResult NonFiniteError default_optimizer fit fit_many",
    "vae": "VAE paper_vae",
}
_MODULES = """checkpoint datasets distributions divergences estimators heads initialisation kernels
linalg metrics networks plotting registry spd training vae"""
__getattr__, __dir__ = _lazy.attach(__name__, _NAMES, _MODULES)
