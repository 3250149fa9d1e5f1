"""The multivariate Student t: tails decay like a power of the distance."""

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from mmlp.distributions.base import Elliptical
from mmlp.distributions.gamma import (
    CUT,
    a_log_gamma_draw,
    digamma_difference,
    log_scaled_gamma_ratio,
)
from mmlp.distributions.marginals import Radius
from mmlp.registry import register
from mmlp.spd import SPD

# Bisection finds the width of an integral to 1e-7 of its upper bound.
WIDTH_BISECTION_STEPS = 24

# Gauss-Legendre quadrature on [0, 1] in the root of w, because the tails of a small df
# are long and the integrand changes near w = 0 only. 48 nodes leave an error below
# 1e-12 for df >= 0.2 and below 1e-10 for df >= 0.02.
_ROOTS, _ROOT_WEIGHTS = np.polynomial.legendre.leggauss(48)
NODES = ((_ROOTS + 1) / 2) ** 2
WEIGHTS = _ROOT_WEIGHTS * (_ROOTS + 1) / 2


@register
class TraceOneStudentT(Elliptical):
    """Student's t with location loc, scale matrix eta omega, tr omega = 1, and df > 0.

        log p(x) = log c - log det(eta omega) / 2 - (df + d) / 2 log(1 + u / df)
        log c = log Gamma((df + d) / 2) - log Gamma(df / 2) - d / 2 log(pi df)
        x = loc + sqrt(eta df / g) omega.color(eps),   eps ~ N(0, I),  g ~ chi^2(df)

    with u = |omega.whiten(x - loc)|^2 / eta. Each coordinate follows a univariate t
    with the same df, and so do marginals of several coordinates. As df grows, the
    distribution tends to `TraceOneGaussian(loc, omega, eta)`; all methods keep their
    digits on the way, in float32 too. `df=1` is the multivariate Cauchy distribution.

    Moments exist only for light enough tails:

    - The covariance is df / (df - 2) eta omega for df > 2. For df <= 2 the second
      moment is infinite: `variance_factor()` is inf, and `covariance`, `from_moments`,
      `marginal_cdf` and `marginal_quantile` (which are in units of standard deviations)
      and `kl_divergence` raise a ValueError where df is concrete.
    - The expectation is loc for df > 1. `mean` returns loc, the centre of symmetry, for
      every df.

    `log_prob`, `sample`, `entropy`, `mahalanobis` and the distribution of the radius
    hold for every df > 0. In float32 the square u overflows beyond 1.8e19 scales from
    loc, where `log_prob` returns -inf; draws with df below 0.2 can be larger than that.

    Parameters
    ----------
    loc : array of shape (..., d)
        The location. Leading dimensions of all parameters broadcast.
    omega : SPD of shape (..., d, d)
        The dispersion, of trace one.
    eta : array of shape (...)
        The positive scale.
    df : array of shape (...)
        Positive degrees of freedom; need not be whole.

    Raises
    ------
    ValueError
        If a parameter is not valid, as for `Elliptical`.

    Examples
    --------
    >>> from mmlp.spd import Gram
    >>> p = TraceOneStudentT(jnp.zeros(1), Gram(jnp.eye(1)), eta=1.0, df=1.0)
    >>> print(f"{p.log_prob(jnp.zeros(1)):.4f}")  # Cauchy: -log(pi)
    -1.1447
    >>> q = TraceOneStudentT(jnp.zeros(2), Gram.trace_one(jnp.eye(2)), eta=1.0, df=4.0)
    >>> print(f"{q.variance_factor():.1f} {q.marginal_quantile(0.975):.4f}")
    2.0 1.9632
    """

    df: Array

    def __init__(self, loc: ArrayLike, omega: SPD, eta: ArrayLike, df: ArrayLike):
        super().__init__(loc, omega, eta, df)

    def log_generator(self, u: Array) -> Array:
        """Return log c - (df + d) / 2 log(1 + u / df)."""
        return self._log_c() - (self.df + self.dim) / 2 * jnp.log1p(u / self.df)

    def white(self, key: Array, batch: tuple[int, ...]) -> Array:
        """Draw eps sqrt(df / g) with g / df = x / a, x ~ Gamma(a) and a = df / 2."""
        key_direction, key_radius = jax.random.split(key)
        eps = jax.random.normal(key_direction, (*batch, self.dim), self.loc.dtype)
        a = jnp.broadcast_to(self.df / 2, batch).astype(self.loc.dtype)
        # In log space, so that the tiny x of a small df do not underflow.
        log_ratio = a_log_gamma_draw(key_radius, a) / a - jnp.log(a)
        return eps * jnp.exp(-log_ratio / 2)[..., None]

    def numpy_white(
        self, rng: np.random.Generator, batch: tuple[int, ...]
    ) -> np.ndarray:
        """Draw eps sqrt(df / g) in float64."""
        eps = rng.standard_normal((*batch, self.dim))
        a = np.broadcast_to(np.asarray(self.df, np.float64) / 2, batch)
        return eps / np.sqrt(rng.standard_gamma(a) / a)[..., None]

    def radius_cdf(self, r: ArrayLike, dim: int | None = None) -> Array:
        """Return P(radius <= r): r^2 / d follows the F distribution with d and df.

        It is differentiable with respect to r and df, unlike the incomplete beta
        function of JAX, which also loses all digits in float32 for large df.
        """
        r = jnp.asarray(r)
        inside = (r > 0) & jnp.isfinite(r)
        log_r = jnp.log(jnp.where(inside, r, 1))
        dtype = jnp.result_type(log_r, self.df)
        log_u = 2 * log_r.astype(dtype)
        value = _radius_cdf(log_u, self.df.astype(dtype), dim or self.dim)
        outside = jnp.where(jnp.isnan(r), r, r > 0)
        return jnp.where(inside, value, outside)

    @classmethod
    def radius_law(cls, dim: int, *tail: ArrayLike) -> "StudentTRadius":
        """Return the distribution of the radius in float64."""
        return StudentTRadius(dim, np.asarray(tail[0], np.float64))

    @classmethod
    def average_tails(cls, *tails: Any, axis: int) -> tuple[Any, ...]:
        """Return the harmonic mean of df.

        1 / df measures how heavy the tails are: zero is the Gaussian. A single model
        with a huge df must not make the average Gaussian.
        """
        (df,) = tails
        return (1 / (1 / df).mean(axis=axis),)

    def variance_factor(self, dim: int | None = None) -> Array:
        """Return df / (df - 2), and inf for df <= 2."""
        finite = self.df > 2
        return jnp.where(finite, self.df / jnp.where(finite, self.df - 2, 1), jnp.inf)

    def generator_entropy(self) -> Array:
        """Return (df + d) / 2 (psi((df + d) / 2) - psi(df / 2)) - log c."""
        half = self.df / 2
        slope = digamma_difference(half, jnp.full_like(half, self.dim / 2))
        return (half + self.dim / 2) * slope - self._log_c()

    def _log_c(self) -> Array:
        """Return log c.

        log c = log(Gamma((df + d) / 2) / (Gamma(df / 2) (df / 2)^(d / 2)))
                - d / 2 log(2 pi)

        The first term tends to zero as df grows, and the constant of the Gaussian
        remains.
        """
        half = self.df / 2
        ratio = log_scaled_gamma_ratio(half, jnp.full_like(half, self.dim / 2))
        return ratio - self.dim / 2 * math.log(2 * math.pi)


def _radius_cdf(log_u: Array, df: Array, dim: int) -> Array:
    """Return P(r^2 <= u) from log u, with a = d / 2 and b = df / 2.

    The density of L = log r^2 is f(L) = exp(a L - (a + b) log(1 + e^L / df) + const).
    It is log-concave with its mode at r^2 = d. Below the mode the probability is the
    integral of f to the left of log u, above it one minus that to the right,

        int_0^inf f(log u -+ w) dw,   f(log u -+ w) = f(log u) exp(-D(w)),

    with D convex and increasing from D(0) = 0. The integral is cut where exp(-D) is
    2e-16.
    """
    a = dim / 2
    b = df / 2
    # log(u / df); the softplus of it is log(1 + u / df).
    center = log_u - jnp.log(df)
    log_one_plus = jax.nn.softplus(center)
    scaled_ratio = log_scaled_gamma_ratio(b, jnp.full_like(b, a))
    log_constant = scaled_ratio - a * math.log(2) - math.lgamma(a)
    log_f = log_constant + a * log_u - (a + b) * log_one_plus

    below = log_u < math.log(dim)
    sign = jnp.where(below, -1.0, 1.0).astype(log_u.dtype)

    def decrease(w: Array) -> Array:
        """Return D(w)."""
        growth = jax.nn.softplus(center + sign * w) - log_one_plus
        return (a + b) * growth - sign * a * w

    # Beyond this bound D exceeds CUT, because softplus(t) >= 0 on the left and
    # softplus(t) >= t on the right. Bisection finds the width; `high` stays beyond it.
    bound = jnp.where(
        below,
        (CUT + (a + b) * log_one_plus) / a,
        (CUT + (a + b) * (log_one_plus - center)) / b,
    )

    def halve(_, interval: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = interval
        middle = (low + high) / 2
        beyond = decrease(middle) >= CUT
        return jnp.where(beyond, low, middle), jnp.where(beyond, middle, high)

    _, width = jax.lax.fori_loop(
        0, WIDTH_BISECTION_STEPS, halve, (jnp.zeros_like(bound), bound)
    )
    width = jax.lax.stop_gradient(width)

    w = width[..., None] * NODES.astype(log_u.dtype)
    # `decrease` now needs these with an axis for the nodes.
    center, log_one_plus, sign, b = (
        jnp.broadcast_to(x, width.shape)[..., None]
        for x in (center, log_one_plus, sign, b)
    )
    weights = WEIGHTS.astype(log_u.dtype)
    integral = width * jnp.sum(weights * jnp.exp(-decrease(w)), axis=-1)
    tail = jnp.exp(log_f) * integral
    return jnp.where(below, tail, 1 - tail)


@dataclasses.dataclass(frozen=True)
class StudentTRadius(Radius):
    """The radius of a Student t in float64: r^2 / d follows F(d, df).

    Parameters
    ----------
    dim : int
        The number of dimensions d.
    df : array of shape (...)
        The degrees of freedom.
    """

    dim: int
    df: np.ndarray

    def coordinate_std(self) -> np.ndarray:
        if not np.all(self.df > 2):
            raise ValueError(
                "marginals of `TraceOneStudentT` are in units of standard deviations, "
                f"which are infinite for df <= 2, got df = {np.min(self.df):.6g}; for "
                "such df use `scipy.stats.t(df, loc[j], scale)` with "
                "scale^2 = eta * omega.diagonal()[j]."
            )
        return np.sqrt(self.df / (self.df - 2))

    def survival(self, r: np.ndarray) -> np.ndarray:
        from scipy.special import betainc, betaincc

        # The square of r may overflow, and a radius may be zero: both limits are right.
        with np.errstate(over="ignore", divide="ignore"):
            u = np.square(r)
            x = 1 / (1 + u / self.df)
            y = 1 / (1 + self.df / u)
        # As x + y = 1, the smaller of the two has its digits.
        far = betainc(self.df / 2, self.dim / 2, x)
        near = betaincc(self.dim / 2, self.df / 2, y)
        return np.where(x < 0.5, far, near)

    def inverse_survival(self, q: np.ndarray) -> np.ndarray:
        from scipy.special import betainccinv, betaincinv

        # x = df / (df + r^2) and y = 1 - x: the smaller of the two has its digits.
        x = betaincinv(self.df / 2, self.dim / 2, q)
        y = betainccinv(self.dim / 2, self.df / 2, q)
        # The radius is infinite for q = 0.
        with np.errstate(divide="ignore"):
            u = self.df * np.where(x < 0.5, (1 - x) / x, y / (1 - y))
        return np.sqrt(u)

    def coordinate_tail(self, t: np.ndarray) -> np.ndarray:
        from scipy.special import stdtr

        return 2 * stdtr(self.df, -t)

    def coordinate_quantile(self, tail: np.ndarray) -> np.ndarray:
        from scipy.special import stdtrit

        return -stdtrit(self.df, tail / 2) / self.coordinate_std()
