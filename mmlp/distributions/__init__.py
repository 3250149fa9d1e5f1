"""Elliptical distributions over R^d, with a dispersion matrix of trace one."""

from mmlp.distributions.core import TraceOneGaussian, TraceOnePowerExponential, kl_divergence

__all__ = ["TraceOneGaussian", "TraceOnePowerExponential", "kl_divergence"]
