"""Kernels: Z (..., d, d) -> a factor T of the kernel matrix K(Z) = T'T.

[K(Z)]_ij = kappa(z_i, z_j) over the columns z_i of Z. To add a kernel, write a function
or a callable `eqx.Module` from Z to T; it needs no derivative rule. A kernel with an
attribute ``bounded = True`` promises entries of T of about one, whose squares neither
overflow nor vanish: layers are then faster.
"""

from collections.abc import Callable

import equinox as eqx
import jax.numpy as jnp
from jax import Array

from mmlp.linalg.primitive import full_precision
from mmlp.registry import register

Kernel = Callable[[Array], Array]

# Below this slope of a sigmoid, squares of small entries would vanish in float32.
MIN_SLOPE_OF_BOUNDED_KERNEL = 1e-6


@register
class MercerSigmoid(eqx.Module):
    """The paper's kernel, Eq. (msk).

        kappa(z_i, z_j) = tanh(a z_i + b) . tanh(a z_j + b),   T = tanh(a Z + b)

    Large entries of Z saturate: T tends to a matrix of signs, whose rank, and with it
    the smallest eigenvalue of K, can drop to zero. At an output layer this limits how
    small an eigenvalue can be learnt; `Linear` does not.

    Parameters
    ----------
    slope : float, default=1.0
        a. It is not trained.
    intercept : float, default=0.0
        b. It is not trained.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from mmlp import MercerSigmoid
    >>> print(MercerSigmoid()(jnp.zeros((2, 2))))
    [[0. 0.]
     [0. 0.]]
    """

    slope: float = eqx.field(default=1.0, static=True, converter=float)
    intercept: float = eqx.field(default=0.0, static=True, converter=float)

    @property
    def bounded(self) -> bool:
        """Whether squares of the entries of T neither overflow nor vanish."""
        return abs(self.slope) >= MIN_SLOPE_OF_BOUNDED_KERNEL

    def __call__(self, Z: Array) -> Array:
        """Return the factor T (..., d, d)."""
        return jnp.tanh(self.slope * Z + self.intercept)


@register
class Linear(eqx.Module):
    """The linear kernel, with an optional constant on the diagonal of K.

        kappa(z_i, z_j) = z_i . z_j + floor^2 [i = j],   T = Z on top of floor I

    Without a floor T = Z, and K is singular where Z is, on a surface in the space of
    inputs.

    Parameters
    ----------
    floor : float, default=0.0
        Lower bound of the singular values of T. It is not trained.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from mmlp import Linear
    >>> Linear(floor=0.1)(jnp.ones((2, 2))).shape
    (4, 2)
    """

    floor: float = eqx.field(default=0.0, static=True, converter=float)

    def __call__(self, Z: Array) -> Array:
        """Return the factor T (..., d, d), or (..., 2d, d) with a floor."""
        if self.floor == 0:
            return Z
        floor = self.floor * jnp.eye(Z.shape[-1], dtype=Z.dtype)
        return jnp.concatenate([Z, jnp.broadcast_to(floor, Z.shape)], axis=-2)


@register
class RadialBasis(eqx.Module):
    """The radial basis kernel.

        kappa(z_i, z_j) = exp(-|z_i - z_j|^2 / (2 scale^2))

    Its feature space is infinite, so that T is the Cholesky factor of K itself. Columns
    of Z that (nearly) coincide make K singular and T NaN: unlike with the other
    kernels, errors grow like the condition number of K, the square of that of T.

    Parameters
    ----------
    scale : float, default=1.0
        The length scale. It is not trained.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from mmlp import RadialBasis
    >>> T = RadialBasis()(jnp.array([[0.0, 3.0], [0.0, 4.0]]))
    >>> print(f"{(T.T @ T)[0, 1]:.1e}")  # exp(-25 / 2)
    3.7e-06
    """

    scale: float = eqx.field(default=1.0, static=True, converter=float)

    @full_precision
    def __call__(self, Z: Array) -> Array:
        """Return the factor T (..., d, d)."""
        difference = Z[..., :, :, None] - Z[..., :, None, :]  # (..., d, i, j)
        K = jnp.exp(-jnp.sum(difference**2, axis=-3) / (2 * self.scale**2))
        return jnp.linalg.cholesky(K, upper=True)
