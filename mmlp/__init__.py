"""Networks whose output is a covariance: a symmetric positive definite matrix."""

import importlib
from typing import Any

from jaxlib import version as jaxlib

from mmlp._version import __version__, warn_if_it_can_hang
from mmlp.checkpoint import load, save
from mmlp.distributions import (
    Elliptical,
    TraceOneGaussian,
    TraceOnePowerExponential,
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
from mmlp.heads import GaussianHead, PowerExponentialHead
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
from mmlp.registry import register
from mmlp.spd import SPD, DiagonalGram, Gram, LowRankGram
from mmlp.training import (
    EpochInfo,
    FitResult,
    NonFiniteError,
    cache_programs,
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
    "TraceOneGaussian",
    "TraceOnePowerExponential",
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

warn_if_it_can_hang(jaxlib.__version__)

# loaded on first use: they need scikit-learn, SciPy or Matplotlib
_LAZY = {
    **dict.fromkeys(("MatrixVAE", "MultivariateRegressor", "SPDRegressor"), "estimators"),
    **dict.fromkeys(("datasets", "estimators", "metrics", "plotting")),
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(f"{__name__}.{_LAZY[name] or name}")
    return getattr(module, name) if _LAZY[name] else module


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
