"""Kernels: Z (..., d, d) -> a factor T of the kernel matrix K(Z) = T'T.

[K(Z)]_ij = kappa(z_i, z_j) over the columns z_i of Z. To add a kernel, write a function or a
callable `eqx.Module` from Z to T; it needs no derivative of its own. One with `bounded = True`
promises entries of T of about one, whose squares neither overflow nor vanish: layers are then
faster.
"""

from collections.abc import Callable

import equinox as eqx
import jax.numpy as jnp
from jax import Array

from mmlp.linalg.primitive import full_precision
from mmlp.registry import register

Kernel = Callable[[Array], Array]
SMALLEST_SLOPE = 1e-6  # of a sigmoid, for squares of small entries that do not vanish


@register
class MercerSigmoid(eqx.Module):
    """kappa(z_i, z_j) = tanh(a z_i + b) . tanh(a z_j + b), Eq. (msk): T = tanh(a Z + b).

    a is `slope`, b `intercept`. Large entries of Z saturate: T tends to a matrix of signs, whose
    rank, and with it the smallest eigenvalue of K, can drop to nothing. At an output layer this
    limits how small an eigenvalue can be learnt; `Linear` does not.
    """

    slope: float = eqx.field(default=1.0, static=True, converter=float)
    intercept: float = eqx.field(default=0.0, static=True, converter=float)

    @property
    def bounded(self) -> bool:
        """Unless the slope is so small that entries are tiny."""
        return abs(self.slope) >= SMALLEST_SLOPE

    def __call__(self, Z: Array) -> Array:
        return jnp.tanh(self.slope * Z + self.intercept)


@register
class Linear(eqx.Module):
    """kappa(z_i, z_j) = z_i . z_j, and floor^2 more where i = j: T = Z, or Z on top of floor I.

    Without a floor K is singular where Z is, on a surface in the space of inputs.
    """

    floor: float = eqx.field(default=0.0, static=True, converter=float)

    def __call__(self, Z: Array) -> Array:
        if self.floor == 0:
            return Z
        floor = self.floor * jnp.eye(Z.shape[-1], dtype=Z.dtype)
        return jnp.concatenate([Z, jnp.broadcast_to(floor, Z.shape)], axis=-2)


@register
class RadialBasis(eqx.Module):
    """kappa(z_i, z_j) = exp(-|z_i - z_j|^2 / (2 scale^2)).

    Its feature space is infinite, so that the factor is a Cholesky factor of K itself. Columns of Z
    that (nearly) coincide make K singular and the factor NaN: squared condition numbers count here,
    unlike in the other kernels.
    """

    scale: float = eqx.field(default=1.0, static=True, converter=float)

    @full_precision
    def __call__(self, Z: Array) -> Array:
        difference = Z[..., :, :, None] - Z[..., :, None, :]  # (..., d, i, j)
        K = jnp.exp(-jnp.sum(difference**2, axis=-3) / (2 * self.scale**2))
        return jnp.linalg.cholesky(K, upper=True)
