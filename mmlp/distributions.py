"""The paper's two families over R^d, with a dispersion matrix of trace one: Gaussian and power exponential.

    N(mu, eta Omega)   and   E(mu, Omega, eta, alpha, beta):  log density  log c - log det(eta Omega) / 2 - u^beta / 2

with u = (x - mu)' Omega^-1 (x - mu) / (alpha eta). Omega is a `Gram` or `DiagonalGram`; a density costs one factorisation
of its factor. Shapes: mu (..., d), Omega (..., d, d), eta, alpha, beta (...); leading dimensions broadcast.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.special import gammaln
from jax.typing import ArrayLike

from mmlp._checks import checked_floats
from mmlp._radius import log_gamma_draw, log_gamma_ratio
from mmlp.gram import DiagonalGram, Gram

SPD = Gram | DiagonalGram
TRACE_TOLERANCE = 1e-3
RADII = ("gamma", "normal")


class TraceOneGaussian(eqx.Module):
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
    def dim(self) -> int:
        return self.omega.dim

    @property
    def batch_shape(self) -> tuple[int, ...]:
        return jnp.broadcast_shapes(self.loc.shape[:-1], self.omega.batch_shape, self.eta.shape)

    @property
    def mean(self) -> Array:
        return jnp.broadcast_to(self.loc, (*self.batch_shape, self.dim))

    @property
    def covariance(self) -> SPD:
        """eta omega."""
        return _aligned(self.omega, self.batch_shape).scaled(self.eta)

    def log_prob(self, x: ArrayLike) -> Array:
        """log p(x) for x (..., d)."""
        logdet, y = _logdet_and_whitened(self, x)
        y = y / jnp.sqrt(self.eta)[..., None]
        return -(self.dim * jnp.log(2 * jnp.pi * self.eta) + logdet + jnp.sum(y**2, axis=-1)) / 2

    def sample(self, key, shape: tuple[int, ...] = ()) -> Array:
        """Draws of shape (*shape, ..., d), differentiable by every parameter."""
        batch = (*shape, *self.batch_shape)
        eps = jax.random.normal(key, (*batch, self.dim), self.loc.dtype)
        return self.loc + jnp.sqrt(self.eta)[..., None] * _aligned(self.omega, batch).color(eps)

    def entropy(self) -> Array:
        """(d log(2 pi e eta) + log det omega) / 2, shape (...)."""
        entropy = (self.dim * (1 + jnp.log(2 * jnp.pi * self.eta)) + self.omega.logdet()) / 2
        return jnp.broadcast_to(entropy, self.batch_shape)


class TraceOnePowerExponential(eqx.Module):
    """The multivariate power exponential E(loc, omega, eta, alpha, beta), tr omega = 1; alpha = beta = 1 is Gaussian.

        log p(x) = log c - log det(eta omega) / 2 - u^beta / 2,   u = |omega.whiten(x - loc)|^2 / (alpha eta)
        x = loc + sqrt(alpha eta) r omega.color(v),  v uniform on the unit sphere                  Eq. (rt_mpe)

    with `radius="gamma"` exact, r^(2 beta) ~ 2 Gamma(d / (2 beta)), Eq. (gamma_app), or with `radius="normal"` the
    paper's approximation N(d / beta, 2 d / beta), Eq. (gauss_app). That is negative once in Phi(-sqrt(d / (2 beta)))
    draws; its absolute value is taken. Its derivative by beta has infinite variance for beta >= 1.

    The density has a cusp at loc for beta <= 1/2: its gradient, which grows without bound towards loc for
    beta < 1/2, is zero at loc itself, as it is for beta > 1/2.

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
        self, loc: ArrayLike, omega: SPD, eta: ArrayLike, alpha: ArrayLike, beta: ArrayLike, *, radius: str = "gamma"
    ):
        self.loc, self.omega, scalars = _parameters(self, loc, omega, eta=eta, alpha=alpha, beta=beta)
        self.eta, self.alpha, self.beta = scalars
        if radius not in RADII:
            raise ValueError(f'`TraceOnePowerExponential(radius=...)` must be "gamma" or "normal", got {radius!r}.')
        self.radius = radius

    @property
    def dim(self) -> int:
        return self.omega.dim

    @property
    def batch_shape(self) -> tuple[int, ...]:
        shapes = (self.eta.shape, self.alpha.shape, self.beta.shape)
        return jnp.broadcast_shapes(self.loc.shape[:-1], self.omega.batch_shape, *shapes)

    @property
    def mean(self) -> Array:
        return jnp.broadcast_to(self.loc, (*self.batch_shape, self.dim))

    @property
    def covariance(self) -> SPD:
        """alpha eta nu(beta) omega with nu = 2^(1/beta) Gamma((d + 2) / (2 beta)) / (d Gamma(d / (2 beta))), Eq. (meanandcov)."""
        return _aligned(self.omega, self.batch_shape).scaled(self._variance())

    def log_prob(self, x: ArrayLike) -> Array:
        """log p(x) for x (..., d)."""
        logdet, y = _logdet_and_whitened(self, x)
        u = jnp.sum((y / jnp.sqrt(self.alpha * self.eta)[..., None]) ** 2, axis=-1)
        return self._log_c() - (self.dim * jnp.log(self.eta) + logdet + _power(u, self.beta)) / 2

    def sample(self, key, shape: tuple[int, ...] = ()) -> Array:
        """Draws of shape (*shape, ..., d), differentiable by every parameter."""
        key_direction, key_radius = jax.random.split(key)
        batch = (*shape, *self.batch_shape)
        eps = jax.random.normal(key_direction, (*batch, self.dim), self.loc.dtype)
        v = eps / jnp.linalg.norm(eps, axis=-1, keepdims=True)
        scale = jnp.exp(self._log_radius(key_radius, batch) + jnp.log(self.alpha * self.eta) / 2)
        return self.loc + scale[..., None] * _aligned(self.omega, batch).color(v)

    def entropy(self) -> Array:
        """-log c + log det(eta omega) / 2 + d / (2 beta), shape (...): u^beta is twice a Gamma(d / (2 beta)) variable."""
        entropy = (self.dim * (jnp.log(self.eta) + 1 / self.beta) + self.omega.logdet()) / 2 - self._log_c()
        return jnp.broadcast_to(entropy, self.batch_shape)

    def _log_c(self) -> Array:
        """log c(alpha, beta), with beta Gamma(d/2) / Gamma(d/(2 beta)) = Gamma(1 + d/2) / Gamma(1 + d/(2 beta))."""
        half, a = self.dim / 2, self.dim / (2 * self.beta)
        half_factorial = gammaln(jnp.asarray(1 + half, a.dtype))
        return half_factorial - gammaln(1 + a) - half * jnp.log(jnp.pi * self.alpha) - a * jnp.log(2.0).astype(a.dtype)

    def _variance(self) -> Array:
        """alpha eta nu(beta)."""
        log_nu = (
            log_gamma_ratio(self.dim / (2 * self.beta), 1 / self.beta) + jnp.log(2.0).astype(self.beta.dtype) / self.beta
        )
        return self.alpha * self.eta * jnp.exp(log_nu) / self.dim

    def _log_radius(self, key, batch: tuple[int, ...]) -> Array:
        """log r: in the log, a tiny shape d / (2 beta) neither underflows nor loses its derivative."""
        beta = jnp.broadcast_to(self.beta, batch).astype(self.loc.dtype)
        if self.radius == "gamma":
            return (jnp.log(2.0).astype(beta.dtype) + log_gamma_draw(key, self.dim / (2 * beta))) / (2 * beta)
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
    if not isinstance(p, TraceOneGaussian):
        raise ValueError(
            f"`kl_divergence(q, p)` has a closed form for a `TraceOneGaussian` p only, got {type(p).__name__}; use the Monte "
            "Carlo estimate: x = q.sample(key, (n,)), then jnp.mean(q.log_prob(x) - p.log_prob(x), axis=0)."
        )
    if q.dim != p.dim:
        raise ValueError(f"`kl_divergence(q, p)` needs distributions of one dimension, got {q.dim} and {p.dim}.")
    batch = jnp.broadcast_shapes(q.batch_shape, p.batch_shape)
    V = q.covariance
    if isinstance(V, DiagonalGram) and isinstance(p.omega, DiagonalGram):
        rows = V.scale[None]  # tr(omega_p^-1 V) is the sum of (V.scale / p.omega.scale)^2
    else:
        rows = jnp.moveaxis(V.factor, -2, 0)  # (m, ..., d)
    rows = jnp.concatenate([jnp.broadcast_to(x, (len(x), *batch, q.dim)) for x in (rows, (q.loc - p.loc)[None])])
    logdet, y = _aligned(p.omega, batch).logdet_and_whiten(rows)
    cross = q.dim * jnp.log(2 * jnp.pi * p.eta) + logdet + jnp.sum(y**2, axis=(0, -1)) / p.eta
    return cross / 2 - q.entropy()


def _power(u: Array, beta: Array) -> Array:
    """u^beta for u >= 0, with derivative zero by u at u = 0: the derivative by x, u^(beta - 1) |y|, is inf * 0 there."""
    zero = u == 0
    return jnp.where(zero, 0, jnp.where(zero, 1, u) ** beta)


def _logdet_and_whitened(p, x: ArrayLike) -> tuple[Array, Array]:
    x = jnp.asarray(x)
    if x.ndim == 0 or x.shape[-1] != p.dim:
        raise ValueError(f"`{type(p).__name__}.log_prob(x=...)` must have shape (..., {p.dim}), got shape {x.shape}.")
    residual = x - p.loc
    return _aligned(p.omega, residual.shape[:-1]).logdet_and_whiten(residual)


def _aligned(omega: SPD, batch: tuple[int, ...]) -> SPD:
    """`omega` with batch dimensions of length one repeated where `batch` has more: a Gram does not stretch by itself."""
    own = omega.batch_shape
    ends = batch[len(batch) - len(own) :] if len(batch) >= len(own) else own
    target = tuple(b if a == 1 else a for a, b in zip(own, ends, strict=True))
    if target == own:
        return omega
    return jax.tree.map(lambda x: jnp.broadcast_to(x, target + x.shape[len(own) :]), omega)


def _parameters(p, loc: ArrayLike, omega: SPD, **scalars: ArrayLike) -> tuple[Array, SPD, list[Array]]:
    """The parameters as arrays of one dtype. Values are checked where they are concrete: compiled code pays nothing."""
    name = type(p).__name__
    loc = jnp.asarray(checked_floats(loc, f"{name}(loc=...)", "(..., d)", ndim=1))
    if not isinstance(omega, Gram | DiagonalGram):
        raise ValueError(
            f"`{name}(omega=...)` must be a Gram or DiagonalGram, got {type(omega).__name__}; use `Gram.from_dense`."
        )
    if loc.shape[-1] != omega.dim:
        raise ValueError(f"`{name}(loc=...)` must have shape (..., {omega.dim}) to fit omega, got shape {loc.shape}.")
    _check_trace(omega, name)
    values = [_positive(value, f"{name}({argument}=...)", loc.dtype) for argument, value in scalars.items()]
    try:
        jnp.broadcast_shapes(loc.shape[:-1], omega.batch_shape, *(x.shape for x in values))
    except ValueError:
        shapes = ", ".join(f"{argument} {x.shape}" for argument, x in zip(scalars, values, strict=True))
        raise ValueError(
            f"`{name}(...)` cannot broadcast batch dimensions loc {loc.shape[:-1]}, omega {omega.batch_shape}, {shapes}."
        ) from None
    return loc, omega, values


def _check_trace(omega: SPD, name: str) -> None:
    if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(omega)):
        return
    trace = np.asarray(omega.trace())
    off = ~(np.abs(trace - 1) <= TRACE_TOLERANCE)
    if off.any():
        kind = type(omega).__name__
        raise ValueError(
            f"`{name}(omega=...)` must have trace one to {TRACE_TOLERANCE}, got {trace[off][0]:.6g}; use "
            f"`{kind}.trace_one(...)`, with the scale in `eta`."
        )


def _positive(value: ArrayLike, argument: str, dtype) -> Array:
    array = jnp.asarray(value, dtype if isinstance(value, int | float) else None)
    array = jnp.asarray(checked_floats(array, argument, "(...)", ndim=0))
    if not isinstance(array, jax.core.Tracer) and not np.all(np.asarray(array) > 0):
        raise ValueError(f"`{argument}` must be positive, got {np.min(np.asarray(array)):.6g}; exp or softplus makes it so.")
    return array
