"""Elliptical distributions over R^d, with a dispersion matrix of trace one."""

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
