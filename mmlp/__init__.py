"""Networks whose output is a covariance: a symmetric positive definite matrix."""

from mmlp import _lazy
from mmlp._version import __version__

# As in `typing`, whose import takes half of the time that this package needs.
TYPE_CHECKING = False

# At run time these are imported on first use: JAX takes a second to import, and
# scikit-learn another.
if TYPE_CHECKING:
    from mmlp import datasets as datasets
    from mmlp import estimators as estimators
    from mmlp import metrics as metrics
    from mmlp import plotting as plotting
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
    from mmlp.networks import (
        CholeskyMLP,
        Dense,
        Diagonal,
        GaussianHead,
        JointMatrixMLP,
        Linear,
        LowRank,
        MatrixMLP,
        MercerSigmoid,
        PowerExponentialHead,
        RadialBasis,
        ShallowMatrixMLP,
        StudentTHead,
        Triangular,
        calibrate,
    )
    from mmlp.program_cache import cache_programs
    from mmlp.reporting import report as report
    from mmlp.serialization import load, register, save
    from mmlp.spd import SPD, DiagonalGram, Gram, LowRankGram
    from mmlp.tables import TableEncoder as TableEncoder
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
    "distributions": "Elliptical TraceOneGaussian TraceOnePowerExponential TraceOneStudentT "
    "kl_divergence",
    "divergences": "affine_invariant bures_wasserstein log_euclidean quadratic stein von_neumann",
    "estimators": "MatrixVAE MultivariateRegressor SPDRegressor",
    "networks": "CholeskyMLP Dense Diagonal JointMatrixMLP LowRank MatrixMLP ShallowMatrixMLP "
    "Triangular calibrate GaussianHead PowerExponentialHead StudentTHead Linear MercerSigmoid "
    "RadialBasis",
    "program_cache": "cache_programs",
    "reporting": "report",
    "serialization": "load register save",
    "spd": "SPD DiagonalGram Gram LowRankGram",
    "training": "EpochInfo FitResult NonFiniteError default_optimizer fit fit_many",
    "tables": "TableEncoder",
    "vae": "VAE paper_vae",
}
_MODULES = """datasets distributions divergences estimators linalg metrics networks plotting
registry serialization spd tables training vae"""
_MOVED_MODULES = (
    "checkpoint heads initialisation kernels"  # which warn when they are used
)
__getattr__, __dir__ = _lazy.attach(__name__, _NAMES, f"{_MODULES} {_MOVED_MODULES}")
