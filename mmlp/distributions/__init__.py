"""Elliptical distributions on R^d, with a dispersion matrix of trace one.

The density of an elliptical distribution depends on x only through the distance of x
from the location. `Elliptical` is the abstract base class; the families are the
Gaussian, the power exponential and the Student t.

`MatrixDistribution` is the base class of distributions of SPD matrices about their
mean: `Wishart`, `MatrixF` and `GammaWishart`.
"""

from mmlp.distributions.base import Elliptical
from mmlp.distributions.gaussian import TraceOneGaussian
from mmlp.distributions.kl import kl_divergence
from mmlp.distributions.power_exponential import TraceOnePowerExponential
from mmlp.distributions.student_t import TraceOneStudentT
from mmlp.distributions.wishart import (
    GammaWishart,
    MatrixDistribution,
    MatrixF,
    Wishart,
)

__all__ = [
    "Elliptical",
    "GammaWishart",
    "MatrixDistribution",
    "MatrixF",
    "TraceOneGaussian",
    "TraceOnePowerExponential",
    "TraceOneStudentT",
    "Wishart",
    "kl_divergence",
]
