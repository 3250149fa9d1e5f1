"""Distributions of SPD matrices about a given mean: Wishart, matrix F and gamma-Wishart.

All three hold their mean P as an `SPD` value and describe a random matrix Y by the
whitened matrix W = C^-1 Y C^-T, where C C' = P. For the Wishart distribution with df
degrees of freedom the density is

    log p(Y) = log c - (d + 1) / 2 log det Y - df / 2 D(Y || P)

where D(Y || P) = tr W - log det W - d is the directed Stein divergence. Fitting P by
maximum likelihood is therefore the same as minimising `stein(Y, P, symmetric=False)`,
and its minimiser is the mean. A single number df must serve both a noisy level and a
noisy shape. The other two distributions have a second parameter:

- `MatrixF`: Y is Wishart about a matrix S that is itself random, inverse Wishart about
P. - `GammaWishart`: Y is Wishart about P / g, where the number g follows a gamma
  distribution: the level varies more than the shape.
"""

import abc
import math
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array
from jax.scipy.special import digamma, gammaln
from jax.typing import ArrayLike

from mmlp import argument_checks
from mmlp.distributions.gamma import (
    a_log_gamma_draw,
    digamma_difference,
    digamma_tail,
    log_scaled_gamma_ratio,
    stirling_tail,
)
from mmlp.divergences import stein
from mmlp.linalg.matrix_log import singular_values
from mmlp.linalg.primitive import primitive
from mmlp.registry import register
from mmlp.spd import SPD, Gram, arguments
from mmlp.spd.batch import Batched

# From this argument on the asymptotic series of the gamma function are exact to
# rounding.
MIN_ARGUMENT_OF_SERIES = 8.0


class MatrixDistribution(Batched):
    """A distribution of symmetric positive definite matrices Y about their mean.

    A new kind provides `log_prob`, `_white_factor` and `marginal`. Batch dimensions are
    those of the mean, with which all parameters broadcast.

    Attributes
    ----------
    mean : SPD of shape (..., d, d)
        The expectation of Y.
    """

    mean: eqx.AbstractVar[SPD]

    @property
    def dim(self) -> int:
        """The number of rows d of the matrices."""
        return self.mean.dim

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """The batch dimensions."""
        return self.mean.batch_shape

    @abc.abstractmethod
    def log_prob(self, Y: SPD) -> Array:
        """Return the log density of Y.

        The density is with respect to the d (d + 1) / 2 entries on and above the
        diagonal.

        Parameters
        ----------
        Y : SPD of shape (..., d, d)

        Returns
        -------
        array of shape (...)
        """

    @abc.abstractmethod
    def marginal(self, columns) -> "MatrixDistribution":
        """Return the distribution of a principal submatrix of Y.

        Parameters
        ----------
        columns : index, slice or sequence of int
            The rows and columns that remain.

        Returns
        -------
        MatrixDistribution
            A distribution of the same kind.
        """

    @abc.abstractmethod
    def _white_factor(self, key: Array, batch: tuple[int, ...]) -> Array:
        """Draw factors F (..., d, d), upper triangular, such that E[F'F] = I."""

    def sample(self, key: Array, shape: tuple[int, ...] = ()) -> Gram:
        """Draw matrices; the draws are differentiable in every parameter.

        Parameters
        ----------
        key : JAX random key
        shape : tuple of int, default=()
            The leading dimensions of the result.

        Returns
        -------
        Gram of shape (*shape, *batch_shape, d, d)
            The draws Y = C W C', held by a factor.
        """
        T, upper = self.mean.root()
        F = self._white_factor(key, (*shape, *self.batch_shape))
        return Gram(F.astype(T.dtype) @ T, upper=upper)


@register
class Wishart(MatrixDistribution):
    """The Wishart distribution with mean P and df degrees of freedom.

    Y is distributed like the covariance of df samples of N(0, P). Its density is

        log p(Y) = log c - (d + 1) / 2 log det Y - df / 2 D(Y || P)
        log c    = sum_i (a log a - a - log Gamma(a - i / 2)) - d (d - 1) / 4 log pi

    with a = df / 2 and i = 0, ..., d - 1; D is `stein(Y, P, symmetric=False)`.

    Parameters
    ----------
    mean : SPD of shape (..., d, d)
        The expectation P.
    df : array of shape (...)
        Degrees of freedom, larger than d - 1; need not be whole.

    Examples
    --------
    >>> p = Wishart(Gram(jnp.eye(1)), df=2.0)  # of one dimension: an exponential
    >>> print(f"{p.log_prob(Gram(jnp.eye(1))):.4f}")
    -1.0000
    """

    mean: SPD
    df: Array

    def __init__(self, mean: SPD, df: ArrayLike):
        self.mean = _check_mean(mean, "Wishart")
        least = mean.dim - 1
        self.df = _check_parameter(df, "Wishart(df=...)", least, mean)

    def log_prob(self, Y: SPD) -> Array:
        a = self.df / 2
        log_c = jnp.sum(_log_gamma_terms(a, self.dim), axis=-1)
        log_c = log_c - self.dim * (self.dim - 1) / 4 * math.log(math.pi)
        divergence = stein(Y, self.mean, symmetric=False)
        return log_c - (self.dim + 1) / 2 * Y.logdet() - a * divergence

    def marginal(self, columns) -> "Wishart":
        return Wishart(self.mean.marginal(columns), self.df)

    def expected_logdet(self) -> Array:
        """Return E[log det Y], shape (...).

        It is log det P - sum_i (log a - psi(a - i / 2)) with a = df / 2, where psi is
        the digamma function.

        Returns
        -------
        array of shape (...)
        """
        return self.mean.logdet() - self._expected_divergence()

    def entropy(self) -> Array:
        """Return the differential entropy -E[log p(Y)].

        Returns
        -------
        array of shape (...)
        """
        a = self.df / 2
        log_c = jnp.sum(_log_gamma_terms(a, self.dim), axis=-1)
        log_c = log_c - self.dim * (self.dim - 1) / 4 * math.log(math.pi)
        expected = (self.dim + 1) / 2 * self.expected_logdet()
        return expected + a * self._expected_divergence() - log_c

    def _expected_divergence(self) -> Array:
        """Return E[D(Y || P)] = sum_i (log a - psi(a - i / 2))."""
        return jnp.sum(_log_minus_digamma(self.df / 2, self.dim), axis=-1)

    def _white_factor(self, key: Array, batch: tuple[int, ...]) -> Array:
        return _bartlett_factor(key, self.df, self.dim, batch)


@register
class MatrixF(MatrixDistribution):
    """The matrix F distribution: a Wishart whose mean is inverse Wishart about P.

        Y | S ~ Wishart(mean=S, df),   S ~ inverse Wishart with mean P and scale_df

    With n = df, m = scale_df and k = m - d - 1 the density is

        log p(Y) = log c - (d + 1) / 2 log det Y + n / 2 log det W
                   - (n + m) / 2 log det(n W + k I)
        log c    = log Gamma_d((n + m) / 2) - log Gamma_d(n / 2) - log Gamma_d(m / 2)
                   + (n d log n + m d log k) / 2

    where W is the whitened Y (Mulder and Pericchi, 2018). As scale_df grows it tends to
    the Wishart distribution. The eigenvalues of Y have heavy tails, those of its
    inverse do not.

    Parameters
    ----------
    mean : SPD of shape (..., d, d)
        The expectation P.
    df : array of shape (...)
        Degrees of freedom of Y given S, larger than d - 1.
    scale_df : array of shape (...)
        Degrees of freedom of S, larger than d + 1.

    Examples
    --------
    >>> p = MatrixF(Gram(jnp.eye(1)), df=2.0, scale_df=4.0)
    >>> print(f"{p.log_prob(Gram(jnp.eye(1))):.4f}")  # Y ~ F(2, 4) / 2: log(1 / 4)
    -1.3863
    """

    mean: SPD
    df: Array
    scale_df: Array

    def __init__(self, mean: SPD, df: ArrayLike, scale_df: ArrayLike):
        self.mean = _check_mean(mean, "MatrixF")
        d = mean.dim
        self.df = _check_parameter(df, "MatrixF(df=...)", d - 1, mean)
        self.scale_df = _check_parameter(scale_df, "MatrixF(scale_df=...)", d + 1, mean)

    def log_prob(self, Y: SPD) -> Array:
        d = self.dim
        n = self.df
        m = self.scale_df
        k = m - d - 1

        # With z_i = (m - i) / 2 the terms in log c that grow with m are, all but
        # n / 2 sum_i log(n z_i / k) + sum_i log(Gamma(z_i + n / 2) / (Gamma(z_i)
        # z_i^(n/2))), cancelled by log det(n W + k I) = d log k + log det(I + n / k W).
        z = (m[..., None] - jnp.arange(d, dtype=m.dtype)) / 2
        n_and_k = (n / k)[..., None]
        log_c = n / 2 * jnp.sum(jnp.log(n_and_k * z), axis=-1)
        log_c = log_c + jnp.sum(log_scaled_gamma_ratio(z, n[..., None] / 2), axis=-1)
        log_c = log_c - _log_multigamma(n / 2, d)

        logdet_mean, R = _whitened_factor(self.mean, Y)
        logdet_Y = Y.logdet()
        logdet_sum = _logdet_identity_plus_gram(jnp.sqrt(n / k)[..., None, None] * R)
        return (
            log_c
            - (d + 1) / 2 * logdet_Y
            + n / 2 * (logdet_Y - logdet_mean)
            - (n + m) / 2 * logdet_sum
        )

    def marginal(self, columns) -> "MatrixF":
        mean = self.mean.marginal(columns)
        # A principal submatrix of an inverse Wishart matrix loses a degree of freedom
        # for each row that is left out; its mean stays P's.
        return MatrixF(mean, self.df, self.scale_df - (self.dim - mean.dim))

    def _white_factor(self, key: Array, batch: tuple[int, ...]) -> Array:
        key_wishart, key_scale = jax.random.split(key)
        F = _bartlett_factor(key_wishart, self.df, self.dim, batch)
        # S = k (G'G m)^-1 for the factor G of a Wishart draw of mean I; the factor of
        # W = S^1/2 (F'F) S^1/2 is F (G sqrt(m / k))^-T up to a rotation, which leaves
        # the distribution of F'F as it is. A rotation of the result makes it
        # triangular.
        G = _bartlett_factor(key_scale, self.scale_df, self.dim, batch)
        k = self.scale_df - self.dim - 1
        size = jnp.sqrt(k / self.scale_df)[..., None, None]
        product = jax.scipy.linalg.solve_triangular(G, F.mT, lower=False).mT
        return jnp.linalg.qr(size * product, mode="r")


@register
class GammaWishart(MatrixDistribution):
    """A Wishart distribution whose level varies: its mean is P / g times a constant.

        Y | g ~ Wishart(mean=P (a - 1) / (a g), df),   g ~ Gamma(shape a, rate a)

    so that the expectation of Y is P. With b = a / (a - 1) and t = tr W the density is

        log p(Y) = log c - (d + 1) / 2 log det Y + df / 2 log det W
                   - (a + df d / 2) log(1 + b df t / (2 a))
        log c    = log Gamma(a + df d / 2) - log Gamma(a) - log Gamma_d(df / 2)
                   + df d / 2 log(b df / (2 a))

    As a grows it tends to the Wishart distribution.

    Parameters
    ----------
    mean : SPD of shape (..., d, d)
        The expectation P.
    df : array of shape (...)
        Degrees of freedom of Y given its level, larger than d - 1.
    level_shape : array of shape (...)
        The shape a of the gamma distribution, larger than 1; the variance of the level
        decreases with it.

    Examples
    --------
    >>> p = GammaWishart(Gram(jnp.eye(1)), df=2.0, level_shape=2.0)
    >>> print(f"{p.log_prob(Gram(jnp.eye(1))):.4f}")  # a Lomax density: log(2 / 8)
    -1.3863
    """

    mean: SPD
    df: Array
    level_shape: Array

    def __init__(self, mean: SPD, df: ArrayLike, level_shape: ArrayLike):
        self.mean = _check_mean(mean, "GammaWishart")
        self.df = _check_parameter(df, "GammaWishart(df=...)", mean.dim - 1, mean)
        self.level_shape = _check_parameter(
            level_shape, "GammaWishart(level_shape=...)", 1, mean
        )

    def log_prob(self, Y: SPD) -> Array:
        d = self.dim
        n = self.df
        a = self.level_shape
        half = n * d / 2
        rate = n / (2 * (a - 1))  # b df / (2 a)

        # The terms of log c that grow with a cancel: what is left of Gamma(a + half) /
        # Gamma(a) is log_scaled_gamma_ratio, which vanishes, and half log(a / (a - 1)).
        log_c = log_scaled_gamma_ratio(a, half) - half * jnp.log1p(-1 / a)
        log_c = log_c + half * jnp.log(n / 2) - _log_multigamma(n / 2, d)

        logdet_mean, trace = self.mean.logdet_and_trace_solve(Y)
        logdet_Y = Y.logdet()
        return (
            log_c
            - (d + 1) / 2 * logdet_Y
            + n / 2 * (logdet_Y - logdet_mean)
            - (a + half) * jnp.log1p(rate * trace)
        )

    def marginal(self, columns) -> "GammaWishart":
        return GammaWishart(self.mean.marginal(columns), self.df, self.level_shape)

    def _white_factor(self, key: Array, batch: tuple[int, ...]) -> Array:
        key_wishart, key_level = jax.random.split(key)
        F = _bartlett_factor(key_wishart, self.df, self.dim, batch)
        a = jnp.broadcast_to(self.level_shape, batch)
        # log g for g ~ Gamma(a, rate a), in log space: tiny draws do not underflow.
        log_g = a_log_gamma_draw(key_level, a) / a - jnp.log(a)
        size = jnp.exp((jnp.log1p(-1 / a) - log_g) / 2)
        return size[..., None, None] * F


def _check_mean(mean: SPD, name: str) -> SPD:
    """Return the mean if it is an SPD value."""
    if not isinstance(mean, SPD):
        raise ValueError(
            f"`{name}(mean=...)` must be an SPD value, got {type(mean).__name__}; use "
            "`Gram.from_dense(A)` for a dense matrix A."
        )
    return mean


def _check_parameter(value: ArrayLike, argument: str, least: float, mean: SPD) -> Array:
    """Return a parameter in the dtype of the mean, broadcast to its batch dimensions."""
    dtype = jnp.result_type(*jax.tree.leaves(mean))
    array = argument_checks.check_positive(value, argument, dtype)
    if not isinstance(array, jax.core.Tracer) and not bool(jnp.all(array > least)):
        raise ValueError(
            f"`{argument}` must be larger than {least} for matrices of {mean.dim} x "
            f"{mean.dim}, got {float(jnp.min(array)):g}."
        )
    return jnp.broadcast_to(array, mean.batch_shape)


def _bartlett_factor(key: Array, df: Array, dim: int, batch: tuple[int, ...]) -> Array:
    """Draw upper triangular F (*batch, d, d) with F'F ~ Wishart(mean=I, df).

    Bartlett's decomposition: the entries above the diagonal are normal, the squares of
    the diagonal follow chi-squared distributions with df, df - 1, ... degrees of
    freedom; all are divided by sqrt(df).
    """
    key_normal, key_chi = jax.random.split(key)
    df = jnp.broadcast_to(df, batch)
    normal = jax.random.normal(key_normal, (*batch, dim, dim), df.dtype)
    a = (df[..., None] - jnp.arange(dim, dtype=df.dtype)) / 2
    # chi^2 / df = 2 x / df with x ~ Gamma(a)
    log_square = a_log_gamma_draw(key_chi, a) / a
    diagonal = jnp.exp((log_square - jnp.log(df / 2)[..., None]) / 2)
    upper = jnp.triu(normal, 1) / jnp.sqrt(df)[..., None, None]
    return upper + diagonal[..., None] * jnp.eye(dim, dtype=df.dtype)


def _whitened_factor(mean: SPD, Y: SPD) -> tuple[Array, Array]:
    """Return log det P and R = T_Y T_P^-1, (..., m, d), the factor of the whitened Y."""
    rows = arguments.list_rows(Y.factor, None, mean.batch_shape)
    logdet, whitened = mean.logdet_and_whiten(rows)
    return logdet, jnp.moveaxis(whitened, 0, -2)


def _logdet_identity_plus_gram_rule(primals, tangents):
    """d log det(I + R'R) = 2 tr((I + R'R)^-1 R' dR)."""
    (R,) = primals
    (R_dot,) = tangents
    identity = jnp.eye(R.shape[-1], dtype=R.dtype)
    weights = jnp.linalg.solve(identity + R.mT @ R, R.mT).mT
    return 2 * jnp.sum(weights * R_dot, axis=(-2, -1))


@partial(primitive, rule=_logdet_identity_plus_gram_rule)
def _logdet_identity_plus_gram(R):
    """Return log det(I + R'R), accurate relative to its size also for a small R."""
    return jnp.sum(jnp.log1p(singular_values(R) ** 2), axis=-1)


def _log_multigamma(a: Array, dim: int) -> Array:
    """Return log Gamma_d(a), the logarithm of the multivariate gamma function."""
    halves = jnp.arange(dim, dtype=a.dtype) / 2
    total = jnp.sum(gammaln(a[..., None] - halves), axis=-1)
    return total + dim * (dim - 1) / 4 * math.log(math.pi)


def _log_gamma_terms(a: Array, dim: int) -> Array:
    """Return a log a - a - log Gamma(a - i / 2) for i < d, without cancellation.

    For large arguments z = a - delta, delta = i / 2, Stirling's series leaves

        -a log(1 - delta / a) + (delta + 1/2) log z - delta - log(2 pi) / 2 - tail(z).
    """
    a = a[..., None]
    delta = jnp.arange(dim, dtype=a.dtype) / 2
    z = a - delta
    large = z >= MIN_ARGUMENT_OF_SERIES
    direct = a * jnp.log(a) - a - gammaln(z)

    a_large = jnp.where(large, a, MIN_ARGUMENT_OF_SERIES + delta)
    z_large = a_large - delta
    series = -a_large * jnp.log1p(-delta / a_large) + (delta + 0.5) * jnp.log(z_large)
    series = series - delta - math.log(2 * math.pi) / 2 - stirling_tail(z_large)
    return jnp.where(large, series, direct)


def _log_minus_digamma(a: Array, dim: int) -> Array:
    """Return log a - psi(a - i / 2) for i < d, without cancellation."""
    a = a[..., None]
    delta = jnp.arange(dim, dtype=a.dtype) / 2
    z = a - delta
    large = z >= MIN_ARGUMENT_OF_SERIES
    direct = jnp.log(a) - digamma(z)

    z_large = jnp.where(large, z, MIN_ARGUMENT_OF_SERIES)
    a_large = z_large + delta
    # log a - psi(a), then psi(a) - psi(a - delta)
    series = 1 / (2 * a_large) + digamma_tail(a_large)
    series = series + digamma_difference(z_large, delta)
    return jnp.where(large, series, direct)
