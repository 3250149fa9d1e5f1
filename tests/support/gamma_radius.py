"""A throw-away distribution as `Elliptical` documents a new one: fields and five methods.

The squared radius is a gamma variable: r^2 ~ 2 Gamma(shape d / 2). shape = 1 is the Gaussian.
"""

import math

import jax
import jax.numpy as jnp
from jax import Array
from jax.scipy.special import digamma, gammainc, gammaln
from jax.typing import ArrayLike

from mmlp import Elliptical, register


@register
class GammaRadius(Elliptical):
    """log p(x) = (a - d / 2) log u - u / 2 - log det(eta omega) / 2 + const, a = shape d / 2."""

    shape: Array

    def log_generator(self, u: Array) -> Array:
        return (self._a() - self.dim / 2) * jnp.log(u) - u / 2 + self._log_c()

    def white(self, key, batch: tuple[int, ...]) -> Array:
        keys = jax.random.split(key)
        eps = jax.random.normal(keys[0], (*batch, self.dim), self.loc.dtype)
        v = eps / jnp.linalg.norm(eps, axis=-1, keepdims=True)
        u = 2 * jax.random.gamma(keys[1], jnp.broadcast_to(self._a(), batch))
        return jnp.sqrt(u)[..., None] * v

    def radius_cdf(self, r: ArrayLike, dim: int | None = None) -> Array:
        return gammainc(self._a(dim), jnp.asarray(r) ** 2 / 2)

    def variance_factor(self, dim: int | None = None) -> Array:
        return self.shape

    def generator_entropy(self) -> Array:
        a = self._a()
        mean_log_u = digamma(a) + math.log(2)
        return a - (a - self.dim / 2) * mean_log_u - self._log_c()

    def _a(self, dim: int | None = None) -> Array:
        return self.shape * (dim or self.dim) / 2

    def _log_c(self) -> Array:
        half = self.dim / 2
        a = self._a()
        return (
            math.lgamma(half) - half * math.log(math.pi) - gammaln(a) - a * math.log(2)
        )
