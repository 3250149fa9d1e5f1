"""A throw-away distribution, in one file: what a new elliptical family takes. Student's t."""

import math

import jax
import jax.numpy as jnp
from jax import Array
from jax.scipy.special import betainc, digamma, gammaln
from jax.typing import ArrayLike

from mmlp import SPD, Elliptical, register
from mmlp.distributions.base import parameters


@register
class StudentT(Elliptical):
    """log p(x) = log c - log det(eta omega) / 2 - (nu + d) / 2 log(1 + u / nu)."""

    loc: Array
    omega: SPD
    eta: Array
    nu: Array

    def __init__(self, loc: ArrayLike, omega: SPD, eta: ArrayLike, nu: ArrayLike):
        self.loc, self.omega, self.eta, self.nu = parameters("StudentT", loc, omega, eta=eta, nu=nu)

    @property
    def tail(self) -> tuple[Array, ...]:
        return (self.nu,)

    def log_generator(self, u: Array) -> Array:
        return self._log_c() - (self.nu + self.dim) / 2 * jnp.log1p(u / self.nu)

    def white(self, key, batch: tuple[int, ...]) -> Array:
        """eps / sqrt(g / nu) with g chi-squared of nu degrees of freedom."""
        keys = jax.random.split(key)
        eps = jax.random.normal(keys[0], (*batch, self.dim), self.loc.dtype)
        g = 2 * jax.random.gamma(keys[1], jnp.broadcast_to(self.nu / 2, batch))
        return eps / jnp.sqrt(g / self.nu)[..., None]

    def radius_cdf(self, r: ArrayLike, dim: int | None = None) -> Array:
        """r^2 / d is of the law F(d, nu)."""
        d, u = dim or self.dim, jnp.asarray(r) ** 2
        return betainc(d / 2, self.nu / 2, u / (u + self.nu))

    def variance_factor(self, dim: int | None = None) -> Array:
        return self.nu / (self.nu - 2)

    def generator_entropy(self) -> Array:
        half = (self.nu + self.dim) / 2
        return half * (digamma(half) - digamma(self.nu / 2)) - self._log_c()

    def _log_c(self) -> Array:
        d = self.dim
        gammas = gammaln((self.nu + d) / 2) - gammaln(self.nu / 2)
        return gammas - d / 2 * jnp.log(self.nu * math.pi)
