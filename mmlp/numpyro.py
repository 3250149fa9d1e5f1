"""The distributions of `mmlp` for NumPyro, for NUTS and SVI (`pip install matrix-mlp[numpyro]`).

`Elliptical(p)` is any distribution p of `mmlp` as one of NumPyro, also of a family of your own
(docs/new-distribution.md). The other classes are for the families of the library, by their
parameters.

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
from numpyro.distributions.constraints import (
    independent,
    positive,
    real_matrix,
    real_vector,
)
from numpyro.distributions.util import validate_sample

from mmlp import distributions
from mmlp.spd import SPD, Gram, LowRankGram


class Elliptical(Distribution):
    """A distribution of `mmlp` as one of NumPyro: any subclass of `mmlp.Elliptical`.

    Densities, samples and moments are those of the distribution. Its constructor checks the
    parameters, where they are concrete; `validate_args` concerns values of `log_prob` only.

    Parameters
    ----------
    distribution : mmlp.Elliptical
        Its batch shape is the batch shape here, and (d,) is the event shape.
    validate_args : bool, optional
        As in `numpyro.distributions.Distribution`.

    Raises
    ------
    ValueError
        If `distribution` is not an `mmlp.Elliptical`.

    Examples
    --------
    >>> from mmlp import Gram, TraceOneStudentT
    >>> p = TraceOneStudentT(jnp.zeros(2), Gram.trace_one(jnp.eye(2)), eta=2.0, df=3.0)
    >>> Elliptical(p).expand((4,)).shape()
    (4, 2)
    """

    support = real_vector  # pyright: ignore[reportAssignmentType]
    arg_constraints: ClassVar = {}
    pytree_data_fields = ("distribution",)

    def __init__(self, distribution: distributions.Elliptical, *, validate_args=None):
        if not isinstance(distribution, distributions.Elliptical):
            got = f"got {type(distribution).__name__}"
            raise ValueError(
                f"`Elliptical(distribution=...)` must be a distribution of mmlp, {got}; "
                "pass an instance such as `mmlp.TraceOneStudentT(loc, omega, eta, df)`."
            )
        self.distribution = distribution
        shapes = distribution.batch_shape, (distribution.dim,)
        super().__init__(*shapes, validate_args=validate_args)

    def sample(self, key, sample_shape=()) -> Array:
        return self.distribution.sample(key, tuple(sample_shape))

    @validate_sample
    def log_prob(self, value) -> Array:
        return self.distribution.log_prob(value)

    @property
    def mean(self) -> Array:
        return self.distribution.mean

    @property
    def variance(self) -> Array:
        return _variance(self.distribution)

    def entropy(self) -> Array:
        return self.distribution.entropy()


def _variance(distribution: distributions.Elliptical) -> Array:
    """Return the variances of the coordinates, (..., d); infinite ones are inf, as in NumPyro."""
    scale = distribution.variance_factor() * distribution.eta
    variance = scale[..., None] * distribution.omega.diagonal()
    return jnp.broadcast_to(variance, (*distribution.batch_shape, distribution.dim))


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
        return family(
            self.loc, self.omega(), *(getattr(self, name) for name in self.scalars)
        )

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
        return _variance(self.value())

    def entropy(self) -> Array:
        return self.value().entropy()

    @classmethod
    def infer_shapes(cls, loc=(), factor=(), *scalars, **named):
        return np.broadcast_shapes(
            loc[:-1], factor[:-2], *scalars, *named.values()
        ), factor[-1:]


class _LowRank(_TraceOne):
    cov_factor: Array
    cov_diag: Array

    def omega(self) -> SPD:
        return LowRankGram.trace_one(
            jnp.sqrt(self.cov_diag), jnp.matrix_transpose(self.cov_factor)
        )

    @classmethod
    def infer_shapes(cls, loc=(), cov_factor=(), cov_diag=(), *scalars, **named):
        batches = loc[:-1], cov_factor[:-2], cov_diag[:-1]
        return np.broadcast_shapes(*batches, *scalars, *named.values()), cov_factor[
            -2:-1
        ]


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
        self.loc, self.factor, self.eta, self.alpha, self.beta = (
            loc,
            factor,
            eta,
            alpha,
            beta,
        )
        super().__init__(validate_args=validate_args)


class TraceOneStudentT(_TraceOne):
    """Student's t with location loc, scale matrix eta Omega and df, Omega as above.

    See `mmlp.TraceOneStudentT`. The variance is inf for df <= 2.

    >>> p = TraceOneStudentT(jnp.zeros(1), jnp.eye(1), 1.0, 1.0)  # Cauchy
    >>> print(f"{p.log_prob(jnp.zeros(1)):.4f}")
    -1.1447
    """

    family = distributions.TraceOneStudentT
    scalars = ("eta", "df")
    arg_constraints: ClassVar = TraceOneGaussian.arg_constraints | {"df": positive}
    reparametrized_params: ClassVar = list(arg_constraints)

    def __init__(self, loc, factor, eta, df, *, validate_args=None):
        self.loc = loc
        self.factor = factor
        self.eta = eta
        self.df = df
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
        self.loc, self.cov_factor, self.cov_diag, self.eta = (
            loc,
            cov_factor,
            cov_diag,
            eta,
        )
        super().__init__(validate_args=validate_args)


class LowRankPowerExponential(_LowRank):
    """E(loc, Omega, eta, alpha, beta) with the Omega of `LowRankGaussian`."""

    family = distributions.TraceOnePowerExponential
    scalars = ("eta", "alpha", "beta")
    arg_constraints: ClassVar = LowRankGaussian.arg_constraints | TAIL
    reparametrized_params: ClassVar = list(arg_constraints)

    def __init__(
        self, loc, cov_factor, cov_diag, eta, alpha, beta, *, validate_args=None
    ):
        self.loc, self.cov_factor, self.cov_diag = loc, cov_factor, cov_diag
        self.eta, self.alpha, self.beta = eta, alpha, beta
        super().__init__(validate_args=validate_args)


class LowRankStudentT(_LowRank):
    """Student's t with scale matrix eta Omega and df, with the Omega of `LowRankGaussian`."""

    family = distributions.TraceOneStudentT
    scalars = ("eta", "df")
    arg_constraints: ClassVar = LowRankGaussian.arg_constraints | {"df": positive}
    reparametrized_params: ClassVar = list(arg_constraints)

    def __init__(self, loc, cov_factor, cov_diag, eta, df, *, validate_args=None):
        self.loc = loc
        self.cov_factor = cov_factor
        self.cov_diag = cov_diag
        self.eta = eta
        self.df = df
        super().__init__(validate_args=validate_args)
