"""The Gaussian distribution."""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.special import gammainc
from jax.typing import ArrayLike

from mmlp.distributions.base import Elliptical
from mmlp.distributions.marginals import NormalRadius
from mmlp.registry import register
from mmlp.spd import SPD


@register
class TraceOneGaussian(Elliptical):
    """The Gaussian N(loc, eta omega) with tr omega = 1 (Appendix H of the paper).

        log p(x) = -(d log(2 pi eta) + log det omega
                     + |omega.whiten(x - loc)|^2 / eta) / 2
        x = loc + sqrt(eta) omega.color(eps),  eps ~ N(0, I)                 Eq. (rep)

    Parameters
    ----------
    loc : array of shape (..., d)
        The mean. Leading dimensions of all parameters broadcast.
    omega : SPD of shape (..., d, d)
        The dispersion, of trace one.
    eta : array of shape (...)
        The positive scale, the trace of the covariance.

    Raises
    ------
    ValueError
        If a parameter is not valid, as for `Elliptical`.

    Examples
    --------
    >>> from mmlp.spd import Gram
    >>> omega = Gram.trace_one(jnp.eye(2))
    >>> p = TraceOneGaussian(jnp.zeros(2), omega, eta=2.0)  # N(0, I)
    >>> print(f"{p.log_prob(jnp.zeros(2)):.4f}")  # -log(2 pi)
    -1.8379
    """

    def __init__(self, loc: ArrayLike, omega: SPD, eta: ArrayLike):
        super().__init__(loc, omega, eta)

    def log_generator(self, u: Array) -> Array:
        """Return -(d log(2 pi) + u) / 2."""
        return -(self.dim * math.log(2 * math.pi) + u) / 2

    def white(self, key: Array, batch: tuple[int, ...]) -> Array:
        """Draw from N(0, I)."""
        return jax.random.normal(key, (*batch, self.dim), self.loc.dtype)

    def radius_cdf(self, r: ArrayLike, dim: int | None = None) -> Array:
        """Return P(radius <= r): r^2 is chi-squared with d degrees of freedom."""
        return gammainc((dim or self.dim) / 2, jnp.asarray(r) ** 2 / 2)

    @classmethod
    def radius_law(cls, dim: int, *tail: ArrayLike) -> NormalRadius:
        """Return the distribution of the radius in float64."""
        return NormalRadius(dim, np.ones(()), np.ones(()))

    def numpy_white(
        self, rng: np.random.Generator, batch: tuple[int, ...]
    ) -> np.ndarray:
        """Draw from N(0, I) in float64."""
        return rng.standard_normal((*batch, self.dim))

    def variance_factor(self, dim: int | None = None) -> Array:
        """Return 1."""
        return jnp.ones((), self.eta.dtype)

    def generator_entropy(self) -> Array:
        """Return d (1 + log(2 pi)) / 2."""
        return jnp.asarray(self.dim * (1 + math.log(2 * math.pi)) / 2, self.eta.dtype)
