"""The power exponential, whose tails are heavier or lighter than a Gaussian's."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.special import gammainc, gammaln
from jax.typing import ArrayLike

from mmlp.distributions.base import Elliptical
from mmlp.distributions.marginals import PowerRadius
from mmlp.distributions.radius import a_log_gamma_draw, log_gamma_ratio
from mmlp.registry import register
from mmlp.spd import SPD


@register
class TraceOnePowerExponential(Elliptical):
    """E(loc, omega, eta, alpha, beta) with tr omega = 1; a Gaussian at alpha = beta = 1.

        log p(x) = log c - log det(eta omega) / 2 - (u / alpha)^beta / 2
        x = loc + sqrt(alpha eta) r omega.color(v),  v uniform on the unit sphere     Eq. (rt_mpe)

    with u = |omega.whiten(x - loc)|^2 / eta. `radius` concerns `sample` only: "gamma" is exact,
    r^(2 beta) ~ 2 Gamma(d / (2 beta)), Eq. (gamma_app); "normal" is the paper's approximation
    N(d / beta, 2 d / beta), Eq. (gauss_app). That is negative once in Phi(-sqrt(d / (2 beta)))
    draws; its absolute value is taken. Its derivative by beta has infinite variance for beta >= 1.

    The density has a cusp at loc for beta <= 1/2: its gradient, which grows without bound towards
    loc for beta < 1/2, is zero at loc itself, as it is for beta > 1/2. The second derivative at loc
    is right for beta >= 1; below, where it is infinite, it is given as zero.

    >>> from mmlp.spd import Gram
    >>> q = TraceOnePowerExponential(jnp.zeros(1), Gram(jnp.eye(1)), eta=1.0, alpha=1.0, beta=0.5)
    >>> print(f"{q.log_prob(jnp.zeros(1)):.4f}")  # Laplace with scale 2: -log 4
    -1.3863
    """

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
        super().__init__(loc, omega, eta, alpha, beta)
        if radius not in ("gamma", "normal"):
            call = "TraceOnePowerExponential(radius=...)"
            raise ValueError(f'`{call}` must be "gamma" or "normal", got {radius!r}.')
        self.radius = radius

    def log_generator(self, u: Array) -> Array:
        """log c - (u / alpha)^beta / 2."""
        return self._log_c() - _power(u / self.alpha, self.beta) / 2

    def white(self, key, batch: tuple[int, ...]) -> Array:
        key_direction, key_radius = jax.random.split(key)
        eps = jax.random.normal(key_direction, (*batch, self.dim), self.loc.dtype)
        v = eps / jnp.linalg.norm(eps, axis=-1, keepdims=True)
        r = jnp.exp(self._log_radius(key_radius, batch) + jnp.log(self.alpha) / 2)
        return r[..., None] * v

    def radius_cdf(self, r: ArrayLike, dim: int | None = None) -> Array:
        """(r^2 / alpha)^beta is twice a Gamma(d / (2 beta)) variable."""
        v = (jnp.asarray(r) / jnp.sqrt(self.alpha)) ** (2 * self.beta)
        return gammainc((dim or self.dim) / (2 * self.beta), v / 2)

    @classmethod
    def radius_law(cls, dim: int, *tail: ArrayLike) -> PowerRadius:
        alpha, beta = (np.asarray(x, np.float64) for x in tail)
        return PowerRadius(dim, beta, np.sqrt(alpha))

    def numpy_white(
        self, rng: np.random.Generator, batch: tuple[int, ...]
    ) -> np.ndarray:
        if self.radius != "gamma":
            return super().numpy_white(rng, batch)
        return self.radius_law(self.dim, *self.tail).draws(rng, batch)

    def variance_factor(self, dim: int | None = None) -> Array:
        """Eq. (meanandcov): alpha 2^(1/beta) Gamma((d + 2)/(2 beta)) / (d Gamma(d/(2 beta)))."""
        d = dim or self.dim
        log_nu = math.log(2) / self.beta + log_gamma_ratio(
            d / (2 * self.beta), 1 / self.beta
        )
        return self.alpha * jnp.exp(log_nu) / d

    def generator_entropy(self) -> Array:
        """-log c + d / (2 beta)."""
        return self.dim / (2 * self.beta) - self._log_c()

    def _log_c(self) -> Array:
        """log c(alpha, beta): beta Gamma(d/2) / Gamma(d/(2 beta)) is a ratio of Gamma(1 + ...)."""
        half, a = self.dim / 2, self.dim / (2 * self.beta)
        gammas = math.lgamma(1 + half) - gammaln(1 + a)
        return gammas - half * jnp.log(math.pi * self.alpha) - a * math.log(2)

    def _log_radius(self, key, batch: tuple[int, ...]) -> Array:
        """log r at alpha = 1: a tiny a = d / (2 beta) neither underflows nor loses derivatives."""
        beta = jnp.broadcast_to(self.beta, batch).astype(self.loc.dtype)
        if self.radius == "gamma":
            a = self.dim / (2 * beta)
            return (a_log_gamma_draw(key, a) + a * math.log(2)) / self.dim
        eps = jax.random.normal(key, batch, beta.dtype)
        return jnp.log(
            jnp.abs(self.dim / beta + eps * jnp.sqrt(2 * self.dim / beta))
        ) / (2 * beta)


def _power(u: Array, beta: Array) -> Array:
    """u^beta for u >= 0. At u = 0 its derivative by u is one for beta = 1, and zero otherwise.

    For beta > 1 it is zero. For 1/2 < beta < 1 it is infinite, but the derivative by x,
    u^(beta - 1) |y|, tends to zero.
    """
    zero = u == 0
    return jnp.where(zero, jnp.where(beta == 1, u, 0), jnp.where(zero, 1, u) ** beta)
