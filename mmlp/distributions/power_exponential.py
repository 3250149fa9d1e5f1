"""The power exponential distribution: tails heavier or lighter than Gaussian."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.special import gammainc, gammaln
from jax.typing import ArrayLike

from mmlp.distributions.base import Elliptical
from mmlp.distributions.gamma import a_log_gamma_draw, log_gamma_ratio
from mmlp.distributions.marginals import PowerRadius
from mmlp.registry import register
from mmlp.spd import SPD


@register
class TraceOnePowerExponential(Elliptical):
    """The power exponential E(loc, omega, eta, alpha, beta) with tr omega = 1.

        log p(x) = log c - log det(eta omega) / 2 - (u / alpha)^beta / 2
        x = loc + sqrt(alpha eta) r omega.color(v),  v uniform on the unit sphere
                                                                      Eq. (rt_mpe)

    with u = |omega.whiten(x - loc)|^2 / eta. It is the Gaussian for alpha = beta = 1;
    tails are heavier for beta < 1 and lighter for beta > 1.

    The density has a cusp at loc for beta <= 1/2: its gradient, which grows without
    bound towards loc for beta < 1/2, is zero at loc itself, as it is for beta > 1/2.
    The second derivative at loc is right for beta >= 1. Below, where it is infinite, it
    is defined as zero.

    Parameters
    ----------
    loc : array of shape (..., d)
        The mean. Leading dimensions of all parameters broadcast.
    omega : SPD of shape (..., d, d)
        The dispersion, of trace one.
    eta : array of shape (...)
        The positive scale.
    alpha : array of shape (...)
        A second positive scale, of the squared radius. Only the product alpha eta
        enters the density.
    beta : array of shape (...)
        The positive exponent.
    radius : {"gamma", "normal"}, default="gamma"
        How `sample` draws the radius. "gamma" is exact,
        r^(2 beta) ~ 2 Gamma(d / (2 beta)), Eq. (gamma_app). "normal" is the paper's
        approximation N(d / beta, 2 d / beta), Eq. (gauss_app). A normal draw is
        negative with probability Phi(-sqrt(d / (2 beta))); its absolute value is taken.
        Its derivative with respect to beta has infinite variance for beta >= 1.

    Raises
    ------
    ValueError
        If a parameter is not valid, as for `Elliptical`, or `radius` is unknown.

    Examples
    --------
    >>> from mmlp.spd import Gram
    >>> one = Gram(jnp.eye(1))
    >>> q = TraceOnePowerExponential(jnp.zeros(1), one, eta=1.0, alpha=1.0, beta=0.5)
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
            raise ValueError(
                '`TraceOnePowerExponential(radius=...)` must be "gamma" or "normal", '
                f"got {radius!r}."
            )
        self.radius = radius

    def log_generator(self, u: Array) -> Array:
        """Return log c - (u / alpha)^beta / 2."""
        return self._log_c() - _power(u / self.alpha, self.beta) / 2

    def white(self, key: Array, batch: tuple[int, ...]) -> Array:
        """Draw a uniform direction times a radius."""
        key_direction, key_radius = jax.random.split(key)
        eps = jax.random.normal(key_direction, (*batch, self.dim), self.loc.dtype)
        v = eps / jnp.linalg.norm(eps, axis=-1, keepdims=True)
        r = jnp.exp(self._log_radius(key_radius, batch) + jnp.log(self.alpha) / 2)
        return r[..., None] * v

    def radius_cdf(self, r: ArrayLike, dim: int | None = None) -> Array:
        """Return P(radius <= r): (r^2 / alpha)^beta ~ 2 Gamma(d / (2 beta))."""
        v = (jnp.asarray(r) / jnp.sqrt(self.alpha)) ** (2 * self.beta)
        return gammainc((dim or self.dim) / (2 * self.beta), v / 2)

    @classmethod
    def radius_law(cls, dim: int, *tail: ArrayLike) -> PowerRadius:
        """Return the distribution of the radius in float64."""
        alpha, beta = (np.asarray(x, np.float64) for x in tail)
        return PowerRadius(dim, beta, np.sqrt(alpha))

    def numpy_white(
        self, rng: np.random.Generator, batch: tuple[int, ...]
    ) -> np.ndarray:
        """Draw a uniform direction times a radius, in float64."""
        if self.radius != "gamma":
            return super().numpy_white(rng, batch)
        radius = self.radius_law(self.dim, *self.tail)
        return radius.sample_vectors(rng, batch)

    def variance_factor(self, dim: int | None = None) -> Array:
        """Return the factor nu of Eq. (meanandcov).

        nu = alpha 2^(1/beta) Gamma((d + 2)/(2 beta)) / (d Gamma(d/(2 beta)))
        """
        d = dim or self.dim
        ratio = log_gamma_ratio(d / (2 * self.beta), 1 / self.beta)
        log_nu = math.log(2) / self.beta + ratio
        return self.alpha * jnp.exp(log_nu) / d

    def generator_entropy(self) -> Array:
        """Return -log c + d / (2 beta)."""
        return self.dim / (2 * self.beta) - self._log_c()

    def _log_c(self) -> Array:
        """Return log c(alpha, beta).

        beta Gamma(d/2) / Gamma(d/(2 beta)) is written as a ratio of Gamma(1 + ...).
        """
        half = self.dim / 2
        a = self.dim / (2 * self.beta)
        gammas = math.lgamma(1 + half) - gammaln(1 + a)
        return gammas - half * jnp.log(math.pi * self.alpha) - a * math.log(2)

    def _log_radius(self, key: Array, batch: tuple[int, ...]) -> Array:
        """Draw log r at alpha = 1.

        In log space, a tiny a = d / (2 beta) neither underflows nor loses derivatives.
        """
        beta = jnp.broadcast_to(self.beta, batch).astype(self.loc.dtype)
        if self.radius == "gamma":
            a = self.dim / (2 * beta)
            return (a_log_gamma_draw(key, a) + a * math.log(2)) / self.dim
        eps = jax.random.normal(key, batch, beta.dtype)
        power = self.dim / beta + eps * jnp.sqrt(2 * self.dim / beta)
        return jnp.log(jnp.abs(power)) / (2 * beta)


def _power(u: Array, beta: Array) -> Array:
    """Return u^beta for u >= 0, with a finite derivative at u = 0.

    The derivative with respect to u at zero is one for beta = 1, and zero for beta > 1.
    For 1/2 < beta < 1 it is infinite, but the derivative with respect to x,
    u^(beta - 1) |y|, tends to zero; so zero is used for every beta other than one.
    """
    zero = u == 0
    value_at_zero = jnp.where(beta == 1, u, 0)
    return jnp.where(zero, value_at_zero, jnp.where(zero, 1, u) ** beta)
