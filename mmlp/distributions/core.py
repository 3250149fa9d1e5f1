"""The paper's two families over R^d, with a dispersion matrix of trace one: Gaussian and power exponential.

    N(mu, eta Omega)   and   E(mu, Omega, eta, alpha, beta):  log density  log c - log det(eta Omega) / 2 - u^beta / 2

with u = (x - mu)' Omega^-1 (x - mu) / (alpha eta). Omega is a `Gram` or `DiagonalGram`; a density costs one factorisation
of its factor. Shapes: mu (..., d), Omega (..., d, d), eta, alpha, beta (...); leading dimensions broadcast.
"""

import abc
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.special import gammaln
from jax.typing import ArrayLike

from mmlp.distributions.radius import a_log_gamma_draw, log_gamma_ratio
from mmlp.linalg.checks import check_trace_one, checked_floats, checked_positive
from mmlp.spd.gram import SPD, DiagonalGram, Gram


class _TraceOne(eqx.Module):
    """What the two families share: a location, and a covariance proportional to omega."""

    loc: eqx.AbstractVar[Array]
    omega: eqx.AbstractVar[SPD]

    @property
    @abc.abstractmethod
    def batch_shape(self) -> tuple[int, ...]: ...

    @abc.abstractmethod
    def _variance(self) -> Array:
        """V / omega, shape (...)."""

    @property
    def dim(self) -> int:
        return self.omega.dim

    @property
    def mean(self) -> Array:
        """The location, shape (..., d)."""
        return jnp.broadcast_to(self.loc, (*self.batch_shape, self.dim))

    @property
    def covariance(self) -> SPD:
        """The covariance, as a `Gram` or `DiagonalGram`."""
        return self.omega.scaled(self._variance())

    def _leading(self, shape) -> tuple[int, ...]:
        """The `shape` of `sample`, checked."""
        sizes = shape if isinstance(shape, tuple | list) else (shape,)
        if not all(isinstance(n, int | np.integer) and n >= 0 for n in sizes):
            raise ValueError(
                f"`{type(self).__name__}.sample(shape=...)` must be a whole number or a tuple of them, got {shape!r}."
            )
        return tuple(int(n) for n in sizes)

    def _logdet_and_whiten(self, x: ArrayLike) -> tuple[Array, Array, Array]:
        """log det omega, omega.whiten(x - loc), and whether x is infinite, in which case loc is put in its place.

        In a dense solve infinities would meet, inf - inf. See `_zero_density`.
        """
        x = jnp.asarray(x)
        if x.ndim == 0 or x.shape[-1] != self.dim:
            raise ValueError(
                f"`{type(self).__name__}.log_prob(x=...)` must have shape (..., {self.dim}), got shape {x.shape}."
            )
        residual = x - self.loc
        infinite = jnp.any(jnp.isinf(residual), axis=-1) & ~jnp.any(jnp.isnan(residual), axis=-1)
        residual = jnp.where(infinite[..., None], 0, residual)
        return *self.omega.logdet_and_whiten(residual), infinite


class TraceOneGaussian(_TraceOne):
    """N(loc, eta omega) with tr omega = 1, Appendix H.

        log p(x) = -(d log(2 pi eta) + log det omega + |omega.whiten(x - loc)|^2 / eta) / 2
        x = loc + sqrt(eta) omega.color(eps),  eps ~ N(0, I)                                      Eq. (rep)

    >>> p = TraceOneGaussian(jnp.zeros(2), Gram.trace_one(jnp.eye(2)), eta=2.0)  # N(0, I)
    >>> print(f"{p.log_prob(jnp.zeros(2)):.4f}")  # -log(2 pi)
    -1.8379
    """

    loc: Array
    omega: SPD
    eta: Array

    def __init__(self, loc: ArrayLike, omega: SPD, eta: ArrayLike):
        self.loc, self.omega, (self.eta,) = _parameters(self, loc, omega, eta=eta)

    @property
    def batch_shape(self) -> tuple[int, ...]:
        return jnp.broadcast_shapes(self.loc.shape[:-1], self.omega.batch_shape, self.eta.shape)

    def log_prob(self, x: ArrayLike) -> Array:
        """log p(x) for x (..., d)."""
        logdet, y, infinite = self._logdet_and_whiten(x)
        y = y / jnp.sqrt(self.eta)[..., None]
        value = -(self.dim * jnp.log(2 * math.pi * self.eta) + logdet + jnp.sum(y**2, axis=-1)) / 2
        return _zero_density(infinite, value)

    def sample(self, key, shape: int | tuple[int, ...] = ()) -> Array:
        """Draws of shape (*shape, ..., d), differentiable by every parameter; n is short for (n,)."""
        batch = (*self._leading(shape), *self.batch_shape)
        eps = jax.random.normal(key, (*batch, self.dim), self.loc.dtype)
        return self.loc + jnp.sqrt(self.eta)[..., None] * self.omega.color(eps)

    def _variance(self) -> Array:
        return self.eta

    def entropy(self) -> Array:
        """(d log(2 pi e eta) + log det omega) / 2, shape (...)."""
        entropy = (self.dim * (1 + jnp.log(2 * math.pi * self.eta)) + self.omega.logdet()) / 2
        return jnp.broadcast_to(entropy, self.batch_shape)


class TraceOnePowerExponential(_TraceOne):
    """The multivariate power exponential E(loc, omega, eta, alpha, beta), tr omega = 1; alpha = beta = 1 is Gaussian.

        log p(x) = log c - log det(eta omega) / 2 - u^beta / 2,   u = |omega.whiten(x - loc)|^2 / (alpha eta)
        x = loc + sqrt(alpha eta) r omega.color(v),  v uniform on the unit sphere                  Eq. (rt_mpe)

    with `radius="gamma"` exact, r^(2 beta) ~ 2 Gamma(d / (2 beta)), Eq. (gamma_app), or with `radius="normal"` the
    paper's approximation N(d / beta, 2 d / beta), Eq. (gauss_app). That is negative once in Phi(-sqrt(d / (2 beta)))
    draws; its absolute value is taken. Its derivative by beta has infinite variance for beta >= 1.

    The density has a cusp at loc for beta <= 1/2: its gradient, which grows without bound towards loc for
    beta < 1/2, is zero at loc itself, as it is for beta > 1/2. The second derivative at loc is right for beta >= 1; below,
    where it is infinite, it is given as zero. `radius` concerns `sample` only: all else is of the exact law.

    >>> q = TraceOnePowerExponential(jnp.zeros(1), Gram(jnp.eye(1)), eta=1.0, alpha=1.0, beta=0.5)
    >>> print(f"{q.log_prob(jnp.zeros(1)):.4f}")  # Laplace with scale 2: -log 4
    -1.3863
    """

    loc: Array
    omega: SPD
    eta: Array
    alpha: Array
    beta: Array
    radius: str = eqx.field(static=True)

    def __init__(
        self,
        loc: ArrayLike,
        omega: SPD,
        eta: ArrayLike,
        alpha: ArrayLike,
        beta: ArrayLike,
        *,
        radius: str = "gamma",
    ):
        self.loc, self.omega, scalars = _parameters(
            self, loc, omega, eta=eta, alpha=alpha, beta=beta
        )
        self.eta, self.alpha, self.beta = scalars
        if radius not in ("gamma", "normal"):
            raise ValueError(
                f'`TraceOnePowerExponential(radius=...)` must be "gamma" or "normal", got {radius!r}.'
            )
        self.radius = radius

    @property
    def batch_shape(self) -> tuple[int, ...]:
        shapes = (self.eta.shape, self.alpha.shape, self.beta.shape)
        return jnp.broadcast_shapes(self.loc.shape[:-1], self.omega.batch_shape, *shapes)

    def log_prob(self, x: ArrayLike) -> Array:
        """log p(x) for x (..., d)."""
        logdet, y, infinite = self._logdet_and_whiten(x)
        u = jnp.sum(
            (y / jnp.sqrt(self.alpha)[..., None] / jnp.sqrt(self.eta)[..., None]) ** 2, axis=-1
        )
        value = self._log_c() - (self.dim * jnp.log(self.eta) + logdet + _power(u, self.beta)) / 2
        return _zero_density(infinite, value)

    def sample(self, key, shape: int | tuple[int, ...] = ()) -> Array:
        """Draws of shape (*shape, ..., d), differentiable by every parameter; n is short for (n,)."""
        key_direction, key_radius = jax.random.split(key)
        batch = (*self._leading(shape), *self.batch_shape)
        eps = jax.random.normal(key_direction, (*batch, self.dim), self.loc.dtype)
        v = eps / jnp.linalg.norm(eps, axis=-1, keepdims=True)
        scale = jnp.exp(
            self._log_radius(key_radius, batch) + (jnp.log(self.alpha) + jnp.log(self.eta)) / 2
        )
        return self.loc + scale[..., None] * self.omega.color(v)

    def entropy(self) -> Array:
        """-log c + log det(eta omega) / 2 + d / (2 beta), shape (...): u^beta is twice a Gamma(d / (2 beta)) variable."""
        entropy = (
            self.dim * (jnp.log(self.eta) + 1 / self.beta) + self.omega.logdet()
        ) / 2 - self._log_c()
        return jnp.broadcast_to(entropy, self.batch_shape)

    def _log_c(self) -> Array:
        """log c(alpha, beta), with beta Gamma(d/2) / Gamma(d/(2 beta)) = Gamma(1 + d/2) / Gamma(1 + d/(2 beta))."""
        half, a = self.dim / 2, self.dim / (2 * self.beta)
        return (
            math.lgamma(1 + half)
            - gammaln(1 + a)
            - half * jnp.log(math.pi * self.alpha)
            - a * math.log(2)
        )

    def _variance(self) -> Array:
        """alpha eta nu(beta), nu = 2^(1/beta) Gamma((d + 2)/(2 beta)) / (d Gamma(d/(2 beta))), Eq. (meanandcov)."""
        log_nu = math.log(2) / self.beta + log_gamma_ratio(
            self.dim / (2 * self.beta), 1 / self.beta
        )
        return self.alpha * self.eta * jnp.exp(log_nu) / self.dim

    def _log_radius(self, key, batch: tuple[int, ...]) -> Array:
        """log r, from which a tiny shape a = d / (2 beta) neither underflows nor loses its derivative."""
        beta = jnp.broadcast_to(self.beta, batch).astype(self.loc.dtype)
        if self.radius == "gamma":
            a = self.dim / (2 * beta)
            return (a_log_gamma_draw(key, a) + a * math.log(2)) / self.dim
        eps = jax.random.normal(key, batch, beta.dtype)
        return jnp.log(jnp.abs(self.dim / beta + eps * jnp.sqrt(2 * self.dim / beta))) / (2 * beta)


def kl_divergence(q: TraceOneGaussian | TraceOnePowerExponential, p: TraceOneGaussian) -> Array:
    """The Kullback-Leibler divergence E_q[log q - log p] of q from a Gaussian p, in closed form, shape (...).

        KL = -H(q) + (d log(2 pi eta_p) + log det omega_p + (tr(omega_p^-1 V) + |omega_p.whiten(mu_q - mu_p)|^2) / eta_p) / 2

    with H(q) and V the entropy and covariance of q: the cross term needs no other moment, so that a power exponential q has
    a closed form too (the paper has only the Gaussian one). The matrices may be dense and diagonal, mixed.

    >>> p = TraceOneGaussian(jnp.zeros(2), DiagonalGram.trace_one(jnp.ones(2)), eta=2.0)  # N(0, I)
    >>> q = TraceOneGaussian(jnp.array([1.0, 0.0]), Gram.trace_one(jnp.eye(2)), eta=2.0)
    >>> print(f"{kl_divergence(q, p):.4f}")
    0.5000
    """
    if not isinstance(q, TraceOneGaussian | TraceOnePowerExponential):
        raise ValueError(
            f"`kl_divergence(q, p)` takes two distributions of this module, got {type(q).__name__} for q."
        )
    if not isinstance(p, TraceOneGaussian):
        raise ValueError(
            f"`kl_divergence(q, p)` has a closed form for a `TraceOneGaussian` p only, got {type(p).__name__}; use the "
            "Monte Carlo estimate: x = q.sample(key, (n,)), then jnp.mean(q.log_prob(x) - p.log_prob(x), axis=0)."
        )
    if q.dim != p.dim:
        raise ValueError(
            f"`kl_divergence(q, p)` needs distributions of one dimension, got {q.dim} and {p.dim}."
        )
    d, V, batch = q.dim, q.covariance, jnp.broadcast_shapes(q.batch_shape, p.batch_shape)
    if isinstance(V, DiagonalGram) and isinstance(p.omega, DiagonalGram):
        factor = V.scale[..., None, :]  # the one case where tr(omega_p^-1 V) needs no matrix
    else:
        factor = V.factor
    rows = jnp.broadcast_to(factor, (*batch, *factor.shape[-2:]))
    shift = jnp.broadcast_to(q.loc - p.loc, (*batch, d))
    rows = jnp.moveaxis(
        jnp.concatenate([rows, shift[..., None, :]], axis=-2), -2, 0
    )  # (m + 1, ..., d)
    logdet, y = p.omega.logdet_and_whiten(rows)
    cross = d * jnp.log(2 * math.pi * p.eta) + logdet + jnp.sum(y**2, axis=(0, -1)) / p.eta
    return cross / 2 - q.entropy()


def _zero_density(infinite: Array, value: Array) -> Array:
    """-inf where x is infinite; a NaN, which is a parameter's, stays."""
    return jnp.where(infinite & ~jnp.isnan(value), -jnp.inf, value)


def _power(u: Array, beta: Array) -> Array:
    """u^beta for u >= 0. At u = 0 its derivative by u is one for beta = 1, and taken as zero otherwise.

    For beta > 1 it is zero; for 1/2 < beta < 1 it is infinite, but the derivative by x, u^(beta - 1) |y|, tends to zero.
    """
    zero = u == 0
    return jnp.where(zero, jnp.where(beta == 1, u, 0), jnp.where(zero, 1, u) ** beta)


def _parameters(
    p, loc: ArrayLike, omega: SPD, **scalars: ArrayLike
) -> tuple[Array, SPD, list[Array]]:
    """The parameters as arrays of one dtype. Values are checked where they are concrete: compiled code pays nothing."""
    name = type(p).__name__
    loc = jnp.asarray(checked_floats(loc, f"{name}(loc=...)", "(..., d)", ndim=1))
    if not isinstance(omega, Gram | DiagonalGram):
        raise ValueError(
            f"`{name}(omega=...)` must be a Gram or DiagonalGram, got {type(omega).__name__}; use `Gram.from_dense`."
        )
    if loc.shape[-1] != omega.dim:
        raise ValueError(
            f"`{name}(loc=...)` must have shape (..., {omega.dim}) to fit omega, got shape {loc.shape}."
        )
    check_trace_one(omega, f"{name}(omega=...)")
    values = [
        checked_positive(value, f"{name}({argument}=...)", loc.dtype)
        for argument, value in scalars.items()
    ]
    try:
        jnp.broadcast_shapes(loc.shape[:-1], omega.batch_shape, *(x.shape for x in values))
    except ValueError:
        shapes = ", ".join(
            f"{argument} {x.shape}" for argument, x in zip(scalars, values, strict=True)
        )
        raise ValueError(
            f"`{name}(...)` cannot broadcast batch dimensions loc {loc.shape[:-1]}, omega {omega.batch_shape}, {shapes}."
        ) from None
    return loc, omega, values
