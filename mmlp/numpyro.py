"""The two families as NumPyro distributions, for models under NUTS and SVI. Needs `pip install matrix-mlp[numpyro]`.

They take a factor T (..., m, d), m >= d, of any scale: Omega = T'T / tr(T'T); a lower Cholesky factor L goes in as its
transpose. Since eta carries the scale, give T a prior without one, such as a correlation matrix's Cholesky factor.
"""

import abc
from typing import ClassVar

import jax.numpy as jnp
from jax import Array
from numpyro.distributions import Distribution, constraints
from numpyro.distributions.util import validate_sample

from mmlp import distributions
from mmlp.spd import Gram


class _TraceOne(Distribution):
    support = constraints.real_vector  # pyright: ignore[reportAssignmentType]
    loc: Array
    factor: Array

    def __init__(self, *, validate_args=None):
        scalars = [
            jnp.shape(getattr(self, name))
            for name in self.arg_constraints
            if name not in ("loc", "factor")
        ]
        batch_shape = jnp.broadcast_shapes(
            jnp.shape(self.loc)[:-1], jnp.shape(self.factor)[:-2], *scalars
        )
        super().__init__(batch_shape, jnp.shape(self.factor)[-1:], validate_args=validate_args)

    @abc.abstractmethod
    def value(self) -> distributions.TraceOneGaussian | distributions.TraceOnePowerExponential:
        """The same distribution of `mmlp`."""

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
        T = self.value().covariance.factor
        return jnp.broadcast_to(jnp.sum(T**2, axis=-2), self.shape())

    def entropy(self) -> Array:
        return self.value().entropy()

    @classmethod
    def infer_shapes(cls, loc=(), factor=(), *scalars, **named):
        return jnp.broadcast_shapes(loc[:-1], factor[:-2], *scalars, *named.values()), factor[-1:]


class TraceOneGaussian(_TraceOne):
    """N(loc, eta Omega), Omega = T'T / tr(T'T) for the factor T; see `mmlp.TraceOneGaussian`.

    >>> p = TraceOneGaussian(jnp.zeros(2), jnp.eye(2), 2.0)  # N(0, I)
    >>> print(f"{p.log_prob(jnp.zeros(2)):.4f}")
    -1.8379
    """

    arg_constraints: ClassVar = {
        "loc": constraints.real_vector,
        "factor": constraints.real_matrix,
        "eta": constraints.positive,
    }
    reparametrized_params: ClassVar = ["loc", "factor", "eta"]

    def __init__(self, loc, factor, eta, *, validate_args=None):
        self.loc, self.factor, self.eta = loc, factor, eta
        super().__init__(validate_args=validate_args)

    def value(self) -> distributions.TraceOneGaussian:
        return distributions.TraceOneGaussian(self.loc, Gram.trace_one(self.factor), self.eta)


class TraceOnePowerExponential(_TraceOne):
    """E(loc, Omega, eta, alpha, beta), Omega = T'T / tr(T'T) for the factor T; see `mmlp.TraceOnePowerExponential`.

    alpha and eta enter the density as their product: fix one of them where both would be learnt.
    """

    arg_constraints: ClassVar = {
        **TraceOneGaussian.arg_constraints,
        "alpha": constraints.positive,
        "beta": constraints.positive,
    }
    reparametrized_params: ClassVar = ["loc", "factor", "eta", "alpha", "beta"]

    def __init__(self, loc, factor, eta, alpha, beta, *, validate_args=None):
        self.loc, self.factor, self.eta, self.alpha, self.beta = loc, factor, eta, alpha, beta
        super().__init__(validate_args=validate_args)

    def value(self) -> distributions.TraceOnePowerExponential:
        omega = Gram.trace_one(self.factor)
        return distributions.TraceOnePowerExponential(
            self.loc, omega, self.eta, self.alpha, self.beta
        )
