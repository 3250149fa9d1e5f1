"""Elliptical distributions on R^d, with a dispersion matrix of trace one.

The density of an elliptical distribution depends on x only through the distance of x
from the location. `Elliptical` is the abstract base class; the families are the
Gaussian, the power exponential and the Student t.
"""

from mmlp.distributions.base import Elliptical
from mmlp.distributions.gaussian import TraceOneGaussian
from mmlp.distributions.kl import kl_divergence
from mmlp.distributions.power_exponential import TraceOnePowerExponential
from mmlp.distributions.student_t import TraceOneStudentT

__all__ = [
    "Elliptical",
    "TraceOneGaussian",
    "TraceOnePowerExponential",
    "TraceOneStudentT",
    "kl_divergence",
]
