"""Networks whose output is a covariance: a symmetric positive definite matrix."""

import importlib
from typing import Any

from jaxlib import version as jaxlib

from mmlp._version import __version__
from mmlp._versions import warn_if_it_can_hang
from mmlp.checkpoint.core import load, save
from mmlp.distributions.core import TraceOneGaussian, TraceOnePowerExponential, kl_divergence
from mmlp.divergences.core import (
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
from mmlp.networks.core import CholeskyMLP, MatrixMLP, ShallowMatrixMLP
from mmlp.registry import register
from mmlp.spd.gram import DiagonalGram, Gram
from mmlp.training.core import FitResult, fit, fit_many
from mmlp.vae import VAE, paper_vae

__all__ = [
    "VAE",
    "CholeskyMLP",
    "DiagonalGram",
    "FitResult",
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
    "__version__",
    "affine_invariant",
    "bures_wasserstein",
    "calibrate",
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

# loaded on first use: they need scikit-learn or Matplotlib
_LAZY = {
    **dict.fromkeys(("MatrixVAE", "MultivariateRegressor", "SPDRegressor"), "estimators"),
    **dict.fromkeys(("estimators", "metrics", "plotting")),
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(f"{__name__}.{_LAZY[name] or name}")
    return getattr(module, name) if _LAZY[name] else module


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
