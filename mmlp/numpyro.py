"""The two families as NumPyro distributions, for NUTS and SVI (`pip install matrix-mlp[numpyro]`).

They take a factor T (..., m, d), m >= d, of any scale: Omega = T'T / tr(T'T). A lower Cholesky
factor L goes in as its transpose. Since eta carries the scale, give T a prior without one, such as
that of a correlation matrix's Cholesky factor.
"""

from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from jax import Array
from numpyro.distributions import Distribution
from numpyro.distributions.constraints import positive, real_matrix, real_vector
from numpyro.distributions.util import validate_sample

from mmlp import distributions
from mmlp.spd import Gram


class _TraceOne(Distribution):
    support = real_vector  # pyright: ignore[reportAssignmentType]
    family: ClassVar[type[distributions.Elliptical]]
    loc: Array
    factor: Array

    def __init__(self, *, validate_args=None):
        batch, event = self.infer_shapes(*map(jnp.shape, self._parameters()))
        super().__init__(batch, event, validate_args=validate_args)

    def _parameters(self) -> list:
        return [getattr(self, name) for name in self.arg_constraints]

    def value(self) -> distributions.Elliptical:
        """The same distribution of `mmlp`."""
        loc, factor, *scalars = self._parameters()
        return self.family(loc, Gram.trace_one(factor), *scalars)

    def sample(self, key, sample_shape=()) -> Array:
        return self.value().sample(key, sample_shape)

    @validate_sample
    def log_prob(self, value) -> Array:
        return self.value().log_prob(value)

    @property
    def mean(self) -> Array:
        return jnp.broadcast_to(self.loc, self.shape())

    @property
    def variance(self) -> Array:
        return jnp.broadcast_to(self.value().covariance.diagonal(), self.shape())

    def entropy(self) -> Array:
        return self.value().entropy()

    @classmethod
    def infer_shapes(cls, loc=(), factor=(), *scalars, **named):
        return np.broadcast_shapes(loc[:-1], factor[:-2], *scalars, *named.values()), factor[-1:]


class TraceOneGaussian(_TraceOne):
    """N(loc, eta Omega), Omega = T'T / tr(T'T) for the factor T; see `mmlp.TraceOneGaussian`.

    >>> p = TraceOneGaussian(jnp.zeros(2), jnp.eye(2), 2.0)  # N(0, I)
    >>> print(f"{p.log_prob(jnp.zeros(2)):.4f}")
    -1.8379
    """

    family = distributions.TraceOneGaussian
    arg_constraints: ClassVar = {"loc": real_vector, "factor": real_matrix, "eta": positive}
    reparametrized_params: ClassVar = list(arg_constraints)

    def __init__(self, loc, factor, eta, *, validate_args=None):
        self.loc, self.factor, self.eta = loc, factor, eta
        super().__init__(validate_args=validate_args)


class TraceOnePowerExponential(_TraceOne):
    """E(loc, Omega, eta, alpha, beta), Omega as above; see `mmlp.TraceOnePowerExponential`.

    alpha and eta enter the density as their product: fix one of them where both would be learnt.
    """

    family = distributions.TraceOnePowerExponential
    tail: ClassVar = {"alpha": positive, "beta": positive}
    arg_constraints: ClassVar = TraceOneGaussian.arg_constraints | tail
    reparametrized_params: ClassVar = list(arg_constraints)

    def __init__(self, loc, factor, eta, alpha, beta, *, validate_args=None):
        self.loc, self.factor, self.eta, self.alpha, self.beta = loc, factor, eta, alpha, beta
        super().__init__(validate_args=validate_args)
