"""The two families as NumPyro distributions, for NUTS and SVI (`pip install matrix-mlp[numpyro]`).

They take a factor T (..., m, d), m >= d, of any scale: Omega = T'T / tr(T'T). A lower Cholesky
factor L goes in as its transpose. Since eta carries the scale, give T a prior without one, such as
that of a correlation matrix's Cholesky factor.

The low-rank versions take what `numpyro.distributions.LowRankMultivariateNormal` does, a cov_factor
W (..., d, m) and a cov_diag D (..., d), of any scale too: Omega is WW' + diag(D) over its trace.
Nothing has d^2 numbers.
"""

from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jax import Array
from numpyro.distributions import Distribution
from numpyro.distributions.constraints import independent, positive, real_matrix, real_vector
from numpyro.distributions.util import validate_sample

from mmlp import distributions
from mmlp.spd import SPD, Gram, LowRankGram


class _TraceOne(Distribution):
    support = real_vector  # pyright: ignore[reportAssignmentType]
    family: ClassVar[type[distributions.Elliptical]]
    scalars: ClassVar[tuple[str, ...]] = ("eta",)
    loc: Array
    factor: Array

    def __init__(self, *, validate_args=None):
        shapes = (jnp.shape(getattr(self, name)) for name in self.arg_constraints)
        super().__init__(*self.infer_shapes(*shapes), validate_args=validate_args)

    def omega(self) -> SPD:
        return Gram.trace_one(self.factor)

    def value(self) -> distributions.Elliptical:
        """The same distribution of `mmlp`."""
        family: Any = self.family
        return family(self.loc, self.omega(), *(getattr(self, name) for name in self.scalars))

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


class _LowRank(_TraceOne):
    cov_factor: Array
    cov_diag: Array

    def omega(self) -> SPD:
        return LowRankGram.trace_one(jnp.sqrt(self.cov_diag), jnp.matrix_transpose(self.cov_factor))

    @classmethod
    def infer_shapes(cls, loc=(), cov_factor=(), cov_diag=(), *scalars, **named):
        batches = loc[:-1], cov_factor[:-2], cov_diag[:-1]
        return np.broadcast_shapes(*batches, *scalars, *named.values()), cov_factor[-2:-1]


LOCATION: dict[str, Any] = {"loc": real_vector}
DENSE = LOCATION | {"factor": real_matrix}
LOW_RANK = LOCATION | {"cov_factor": real_matrix, "cov_diag": independent(positive, 1)}
TAIL = {"alpha": positive, "beta": positive}


class TraceOneGaussian(_TraceOne):
    """N(loc, eta Omega), Omega = T'T / tr(T'T) for the factor T; see `mmlp.TraceOneGaussian`.

    >>> p = TraceOneGaussian(jnp.zeros(2), jnp.eye(2), 2.0)  # N(0, I)
    >>> print(f"{p.log_prob(jnp.zeros(2)):.4f}")
    -1.8379
    """

    family = distributions.TraceOneGaussian
    arg_constraints: ClassVar = DENSE | {"eta": positive}
    reparametrized_params: ClassVar = list(arg_constraints)

    def __init__(self, loc, factor, eta, *, validate_args=None):
        self.loc, self.factor, self.eta = loc, factor, eta
        super().__init__(validate_args=validate_args)


class TraceOnePowerExponential(_TraceOne):
    """E(loc, Omega, eta, alpha, beta), Omega as above; see `mmlp.TraceOnePowerExponential`.

    alpha and eta enter the density as their product: fix one of them where both would be learnt.
    """

    family = distributions.TraceOnePowerExponential
    scalars = ("eta", "alpha", "beta")
    arg_constraints: ClassVar = TraceOneGaussian.arg_constraints | TAIL
    reparametrized_params: ClassVar = list(arg_constraints)

    def __init__(self, loc, factor, eta, alpha, beta, *, validate_args=None):
        self.loc, self.factor, self.eta, self.alpha, self.beta = loc, factor, eta, alpha, beta
        super().__init__(validate_args=validate_args)


class LowRankGaussian(_LowRank):
    """N(loc, eta Omega), Omega = WW' + diag(D) over its trace, W = cov_factor and D = cov_diag.

    >>> p = LowRankGaussian(jnp.zeros(2), jnp.zeros((2, 1)), jnp.ones(2), 2.0)  # N(0, I)
    >>> print(f"{p.log_prob(jnp.zeros(2)):.4f}")
    -1.8379
    """

    family = distributions.TraceOneGaussian
    arg_constraints: ClassVar = LOW_RANK | {"eta": positive}
    reparametrized_params: ClassVar = list(arg_constraints)

    def __init__(self, loc, cov_factor, cov_diag, eta, *, validate_args=None):
        self.loc, self.cov_factor, self.cov_diag, self.eta = loc, cov_factor, cov_diag, eta
        super().__init__(validate_args=validate_args)


class LowRankPowerExponential(_LowRank):
    """E(loc, Omega, eta, alpha, beta) with the Omega of `LowRankGaussian`."""

    family = distributions.TraceOnePowerExponential
    scalars = ("eta", "alpha", "beta")
    arg_constraints: ClassVar = LowRankGaussian.arg_constraints | TAIL
    reparametrized_params: ClassVar = list(arg_constraints)

    def __init__(self, loc, cov_factor, cov_diag, eta, alpha, beta, *, validate_args=None):
        self.loc, self.cov_factor, self.cov_diag = loc, cov_factor, cov_diag
        self.eta, self.alpha, self.beta = eta, alpha, beta
        super().__init__(validate_args=validate_args)
