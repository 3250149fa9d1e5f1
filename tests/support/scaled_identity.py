"""A throw-away value, in one file: what a new kind of SPD matrix takes."""

import equinox as eqx
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from mmlp import SPD, register


@register
class ScaledIdentity(SPD):
    """A = scale^2 I of size `dim`, for scale (...)."""

    scale: Array
    dim: int = eqx.field(static=True)

    @property
    def batch_shape(self) -> tuple[int, ...]:
        return self.scale.shape

    @property
    def factor(self) -> Array:
        return self.scale[..., None, None] * jnp.eye(self.dim, dtype=self.scale.dtype)

    def scaled(self, c: ArrayLike) -> "ScaledIdentity":
        return ScaledIdentity(jnp.sqrt(c) * self.scale, self.dim)
