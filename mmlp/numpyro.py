"""The distributions of `mmlp` as NumPyro distributions, for NUTS and SVI.

Install them with `pip install matrix-mlp[numpyro]`.

`Elliptical(p)` wraps any distribution p of `mmlp`, also of a family of your own
(docs/new-distribution.md). The other classes build the families of the library from
their parameters.

The classes `TraceOne...` take a factor T (..., m, d), m >= d, of any scale:
Omega = T'T / tr(T'T). Pass a lower Cholesky factor L as its transpose. Since eta
carries the scale, give T a prior without a scale, such as that of the Cholesky factor
of a correlation matrix.

The classes `LowRank...` take the arguments of
`numpyro.distributions.LowRankMultivariateNormal`, a cov_factor W (..., d, m) and a
cov_diag D (..., d), also of any scale: Omega is WW' + diag(D) divided by its trace.
They never form an array of d^2 numbers.
"""

from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike
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

Shape = tuple[int, ...]

DENSE_CONSTRAINTS: dict[str, Any] = {
    "loc": real_vector,
    "factor": real_matrix,
    "eta": positive,
}
LOW_RANK_CONSTRAINTS: dict[str, Any] = {
    "loc": real_vector,
    "cov_factor": real_matrix,
    "cov_diag": independent(positive, 1),
    "eta": positive,
}


class Elliptical(Distribution):
    """A distribution of `mmlp` as a NumPyro distribution.

    Densities, samples and moments are those of the wrapped distribution. Its
    constructor checks the parameters if they are concrete; `validate_args` affects only
    the values passed to `log_prob`.

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

    def __init__(
        self,
        distribution: distributions.Elliptical,
        *,
        validate_args: bool | None = None,
    ):
        if not isinstance(distribution, distributions.Elliptical):
            raise ValueError(
                "`Elliptical(distribution=...)` must be a distribution of mmlp, got "
                f"{type(distribution).__name__}; pass an instance such as "
                "`mmlp.TraceOneStudentT(loc, omega, eta, df)`."
            )
        self.distribution = distribution
        super().__init__(
            distribution.batch_shape, (distribution.dim,), validate_args=validate_args
        )

    def sample(self, key: Array, sample_shape: Shape = ()) -> Array:
        """Draw samples.

        Parameters
        ----------
        key : JAX random key
            The source of randomness.
        sample_shape : tuple of int, default=()
            The shape of the sample.

        Returns
        -------
        array of shape (*sample_shape, ..., d)
            The draws.
        """
        return self.distribution.sample(key, tuple(sample_shape))

    @validate_sample
    def log_prob(self, value: ArrayLike) -> Array:
        """Return the log density.

        Parameters
        ----------
        value : array of shape (..., d)
            The points.

        Returns
        -------
        array of shape (...)
            The log density.
        """
        return self.distribution.log_prob(value)

    @property
    def mean(self) -> Array:
        """The location, of shape (..., d)."""
        return self.distribution.mean

    @property
    def variance(self) -> Array:
        """The variances of the coordinates, of shape (..., d); inf if not finite."""
        return _coordinate_variances(self.distribution)

    def entropy(self) -> Array:
        """Return the differential entropy.

        Returns
        -------
        array of shape (...)
            The entropy in nats.
        """
        return self.distribution.entropy()


def _coordinate_variances(distribution: distributions.Elliptical) -> Array:
    """Return the variances (..., d), inf if not finite, as usual in NumPyro."""
    scale = distribution.variance_factor() * distribution.eta
    variance = scale[..., None] * distribution.omega.diagonal()
    return jnp.broadcast_to(variance, (*distribution.batch_shape, distribution.dim))


class _TraceOne(Distribution):
    """Base of the distributions with a factor T: Omega = T'T / tr(T'T).

    NumPyro stores the parameters by name, so that it can broadcast and flatten them.
    The distribution of `mmlp` is built from them for each call.
    """

    support = real_vector  # pyright: ignore[reportAssignmentType]
    family: ClassVar[type[distributions.Elliptical]]
    # The parameters of `family` after loc and omega.
    scalars: ClassVar[tuple[str, ...]] = ("eta",)
    loc: Any
    factor: Any

    def __init__(self, *, validate_args: bool | None = None):
        shapes = [jnp.shape(getattr(self, name)) for name in self.arg_constraints]
        batch_shape, event_shape = self.infer_shapes(*shapes)
        super().__init__(batch_shape, event_shape, validate_args=validate_args)

    def omega(self) -> SPD:
        """Return the dispersion, of trace one."""
        return Gram.trace_one(self.factor)

    def value(self) -> distributions.Elliptical:
        """Return the same distribution of `mmlp`."""
        family: Any = self.family
        scalars = [getattr(self, name) for name in self.scalars]
        return family(self.loc, self.omega(), *scalars)

    def sample(self, key: Array, sample_shape: Shape = ()) -> Array:
        """Draw samples of shape (*sample_shape, ..., d)."""
        return self.value().sample(key, sample_shape)

    @validate_sample
    def log_prob(self, value: ArrayLike) -> Array:
        """Return the log density of points (..., d)."""
        return self.value().log_prob(value)

    @property
    def mean(self) -> Array:
        """The location, of shape (..., d)."""
        return jnp.broadcast_to(self.loc, self.shape())

    @property
    def variance(self) -> Array:
        """The variances of the coordinates, of shape (..., d); inf if not finite."""
        return _coordinate_variances(self.value())

    def entropy(self) -> Array:
        """Return the differential entropy, of shape (...)."""
        return self.value().entropy()

    @classmethod
    def infer_shapes(
        cls, loc: Shape = (), factor: Shape = (), *scalars: Shape, **named: Shape
    ) -> tuple[Shape, Shape]:
        """Return batch shape and event shape from the shapes of the parameters."""
        batch_shape = np.broadcast_shapes(
            loc[:-1], factor[:-2], *scalars, *named.values()
        )
        event_shape = factor[-1:]
        return batch_shape, event_shape


class _LowRank(_TraceOne):
    """Base of the distributions with Omega = WW' + diag(D), divided by its trace."""

    cov_factor: Any
    cov_diag: Any

    def omega(self) -> SPD:
        """Return the dispersion, of trace one."""
        scale = jnp.sqrt(self.cov_diag)
        return LowRankGram.trace_one(scale, jnp.matrix_transpose(self.cov_factor))

    @classmethod
    def infer_shapes(
        cls,
        loc: Shape = (),
        cov_factor: Shape = (),
        cov_diag: Shape = (),
        *scalars: Shape,
        **named: Shape,
    ) -> tuple[Shape, Shape]:
        """Return batch shape and event shape from the shapes of the parameters."""
        batch_shape = np.broadcast_shapes(
            loc[:-1], cov_factor[:-2], cov_diag[:-1], *scalars, *named.values()
        )
        event_shape = cov_factor[-2:-1]
        return batch_shape, event_shape


class TraceOneGaussian(_TraceOne):
    """The Gaussian N(loc, eta Omega) with Omega = T'T / tr(T'T).

    See `mmlp.TraceOneGaussian`.

    Parameters
    ----------
    loc : array of shape (..., d)
        The location. Leading dimensions of all parameters broadcast.
    factor : array of shape (..., m, d)
        The factor T, of any scale, m >= d.
    eta : array of shape (...)
        The positive scale.
    validate_args : bool, optional
        As in `numpyro.distributions.Distribution`.

    Examples
    --------
    >>> p = TraceOneGaussian(jnp.zeros(2), jnp.eye(2), 2.0)  # N(0, I)
    >>> print(f"{p.log_prob(jnp.zeros(2)):.4f}")
    -1.8379
    """

    family = distributions.TraceOneGaussian
    arg_constraints: ClassVar = DENSE_CONSTRAINTS
    reparametrized_params: ClassVar = list(arg_constraints)

    def __init__(
        self,
        loc: ArrayLike,
        factor: ArrayLike,
        eta: ArrayLike,
        *,
        validate_args: bool | None = None,
    ):
        self.loc = loc
        self.factor = factor
        self.eta = eta
        super().__init__(validate_args=validate_args)


class TraceOnePowerExponential(_TraceOne):
    """The power exponential with dispersion Omega = T'T / tr(T'T).

    See `mmlp.TraceOnePowerExponential`. Only the product of alpha and eta enters the
    density: fix one of them if both would be learnt.

    Parameters
    ----------
    loc : array of shape (..., d)
        The location. Leading dimensions of all parameters broadcast.
    factor : array of shape (..., m, d)
        The factor T, of any scale, m >= d.
    eta : array of shape (...)
        The positive scale.
    alpha : array of shape (...)
        The positive scale of the squared radius.
    beta : array of shape (...)
        The positive exponent; 1 is the Gaussian.
    validate_args : bool, optional
        As in `numpyro.distributions.Distribution`.

    Examples
    --------
    >>> p = TraceOnePowerExponential(jnp.zeros(2), jnp.eye(2), 2.0, 1.0, 1.0)  # N(0, I)
    >>> print(f"{p.log_prob(jnp.zeros(2)):.4f}")
    -1.8379
    """

    family = distributions.TraceOnePowerExponential
    scalars = ("eta", "alpha", "beta")
    arg_constraints: ClassVar = {
        **DENSE_CONSTRAINTS,
        "alpha": positive,
        "beta": positive,
    }
    reparametrized_params: ClassVar = list(arg_constraints)

    def __init__(
        self,
        loc: ArrayLike,
        factor: ArrayLike,
        eta: ArrayLike,
        alpha: ArrayLike,
        beta: ArrayLike,
        *,
        validate_args: bool | None = None,
    ):
        self.loc = loc
        self.factor = factor
        self.eta = eta
        self.alpha = alpha
        self.beta = beta
        super().__init__(validate_args=validate_args)


class TraceOneStudentT(_TraceOne):
    """Student's t with scale matrix eta Omega, Omega = T'T / tr(T'T).

    See `mmlp.TraceOneStudentT`. The variance is inf for df <= 2.

    Parameters
    ----------
    loc : array of shape (..., d)
        The location. Leading dimensions of all parameters broadcast.
    factor : array of shape (..., m, d)
        The factor T, of any scale, m >= d.
    eta : array of shape (...)
        The positive scale.
    df : array of shape (...)
        The positive degrees of freedom.
    validate_args : bool, optional
        As in `numpyro.distributions.Distribution`.

    Examples
    --------
    >>> p = TraceOneStudentT(jnp.zeros(1), jnp.eye(1), 1.0, 1.0)  # Cauchy
    >>> print(f"{p.log_prob(jnp.zeros(1)):.4f}")
    -1.1447
    """

    family = distributions.TraceOneStudentT
    scalars = ("eta", "df")
    arg_constraints: ClassVar = {
        **DENSE_CONSTRAINTS,
        "df": positive,
    }
    reparametrized_params: ClassVar = list(arg_constraints)

    def __init__(
        self,
        loc: ArrayLike,
        factor: ArrayLike,
        eta: ArrayLike,
        df: ArrayLike,
        *,
        validate_args: bool | None = None,
    ):
        self.loc = loc
        self.factor = factor
        self.eta = eta
        self.df = df
        super().__init__(validate_args=validate_args)


class LowRankGaussian(_LowRank):
    """The Gaussian N(loc, eta Omega), Omega = WW' + diag(D) divided by its trace.

    See `mmlp.TraceOneGaussian`.

    Parameters
    ----------
    loc : array of shape (..., d)
        The location. Leading dimensions of all parameters broadcast.
    cov_factor : array of shape (..., d, m)
        The factor W, of any scale.
    cov_diag : array of shape (..., d)
        The positive diagonal D, on the scale of W.
    eta : array of shape (...)
        The positive scale.
    validate_args : bool, optional
        As in `numpyro.distributions.Distribution`.

    Examples
    --------
    >>> W = jnp.zeros((2, 1))
    >>> p = LowRankGaussian(jnp.zeros(2), W, jnp.ones(2), 2.0)  # N(0, I)
    >>> print(f"{p.log_prob(jnp.zeros(2)):.4f}")
    -1.8379
    """

    family = distributions.TraceOneGaussian
    arg_constraints: ClassVar = LOW_RANK_CONSTRAINTS
    reparametrized_params: ClassVar = list(arg_constraints)

    def __init__(
        self,
        loc: ArrayLike,
        cov_factor: ArrayLike,
        cov_diag: ArrayLike,
        eta: ArrayLike,
        *,
        validate_args: bool | None = None,
    ):
        self.loc = loc
        self.cov_factor = cov_factor
        self.cov_diag = cov_diag
        self.eta = eta
        super().__init__(validate_args=validate_args)


class LowRankPowerExponential(_LowRank):
    """The power exponential with the Omega of `LowRankGaussian`.

    See `mmlp.TraceOnePowerExponential`. Only the product of alpha and eta enters the
    density: fix one of them if both would be learnt.

    Parameters
    ----------
    loc : array of shape (..., d)
        The location. Leading dimensions of all parameters broadcast.
    cov_factor : array of shape (..., d, m)
        The factor W, of any scale.
    cov_diag : array of shape (..., d)
        The positive diagonal D, on the scale of W.
    eta : array of shape (...)
        The positive scale.
    alpha : array of shape (...)
        The positive scale of the squared radius.
    beta : array of shape (...)
        The positive exponent; 1 is the Gaussian.
    validate_args : bool, optional
        As in `numpyro.distributions.Distribution`.

    Examples
    --------
    >>> W = jnp.zeros((2, 1))
    >>> p = LowRankPowerExponential(jnp.zeros(2), W, jnp.ones(2), 2.0, 1.0, 1.0)
    >>> print(f"{p.log_prob(jnp.zeros(2)):.4f}")
    -1.8379
    """

    family = distributions.TraceOnePowerExponential
    scalars = ("eta", "alpha", "beta")
    arg_constraints: ClassVar = {
        **LOW_RANK_CONSTRAINTS,
        "alpha": positive,
        "beta": positive,
    }
    reparametrized_params: ClassVar = list(arg_constraints)

    def __init__(
        self,
        loc: ArrayLike,
        cov_factor: ArrayLike,
        cov_diag: ArrayLike,
        eta: ArrayLike,
        alpha: ArrayLike,
        beta: ArrayLike,
        *,
        validate_args: bool | None = None,
    ):
        self.loc = loc
        self.cov_factor = cov_factor
        self.cov_diag = cov_diag
        self.eta = eta
        self.alpha = alpha
        self.beta = beta
        super().__init__(validate_args=validate_args)


class LowRankStudentT(_LowRank):
    """Student's t with the Omega of `LowRankGaussian`.

    See `mmlp.TraceOneStudentT`. The variance is inf for df <= 2.

    Parameters
    ----------
    loc : array of shape (..., d)
        The location. Leading dimensions of all parameters broadcast.
    cov_factor : array of shape (..., d, m)
        The factor W, of any scale.
    cov_diag : array of shape (..., d)
        The positive diagonal D, on the scale of W.
    eta : array of shape (...)
        The positive scale.
    df : array of shape (...)
        The positive degrees of freedom.
    validate_args : bool, optional
        As in `numpyro.distributions.Distribution`.

    Examples
    --------
    >>> p = LowRankStudentT(jnp.zeros(1), jnp.zeros((1, 1)), jnp.ones(1), 1.0, 1.0)
    >>> print(f"{p.log_prob(jnp.zeros(1)):.4f}")
    -1.1447
    """

    family = distributions.TraceOneStudentT
    scalars = ("eta", "df")
    arg_constraints: ClassVar = {
        **LOW_RANK_CONSTRAINTS,
        "df": positive,
    }
    reparametrized_params: ClassVar = list(arg_constraints)

    def __init__(
        self,
        loc: ArrayLike,
        cov_factor: ArrayLike,
        cov_diag: ArrayLike,
        eta: ArrayLike,
        df: ArrayLike,
        *,
        validate_args: bool | None = None,
    ):
        self.loc = loc
        self.cov_factor = cov_factor
        self.cov_diag = cov_diag
        self.eta = eta
        self.df = df
        super().__init__(validate_args=validate_args)
