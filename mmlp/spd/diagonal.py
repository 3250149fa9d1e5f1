"""`DiagonalGram`: A = diag(scale^2)."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from mmlp.registry import register
from mmlp.spd.arguments import check_array, check_pair, frobenius_norm, positive_sqrt
from mmlp.spd.base import SPD


@register
class DiagonalGram(SPD):
    """A diagonal matrix A = diag(scale^2), with the methods of `SPD`.

    Every method takes time proportional to the size of its result.

    Parameters
    ----------
    scale : array of shape (..., d)
        Square roots of the diagonal entries, of any sign. Leading dimensions are batch
        dimensions. float32 or float64.

    Raises
    ------
    ValueError
        If the scale is not floating-point or not finite.

    See Also
    --------
    Gram : A dense matrix.
    LowRankGram : A diagonal matrix plus one of low rank.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from mmlp import DiagonalGram
    >>> A = DiagonalGram(jnp.array([1.0, 2.0]))
    >>> print(A.whiten(jnp.array([3.0, 4.0])))
    [3. 2.]
    """

    scale: Array
    compact = True

    def __init__(self, scale: ArrayLike) -> None:
        argument = "DiagonalGram(scale=...)"
        self.scale = jnp.asarray(check_array(scale, argument, "(..., d)", ndim=1))

    @classmethod
    def trace_one(cls, scale: ArrayLike) -> "DiagonalGram":
        """Return diag(scale^2) / sum(scale^2).

        Parameters
        ----------
        scale : array of shape (..., d)

        Returns
        -------
        DiagonalGram

        Raises
        ------
        ValueError
            If the scale is not valid, or zero.

        Examples
        --------
        >>> import jax.numpy as jnp
        >>> from mmlp import DiagonalGram
        >>> print(DiagonalGram.trace_one(jnp.array([1.0, 3.0])).diagonal())
        [0.1 0.9]
        """
        argument = "DiagonalGram.trace_one(scale=...)"
        scale = jnp.asarray(check_array(scale, argument, "(..., d)", ndim=1))
        return cls(scale / frobenius_norm(scale, -1, argument))

    @property
    def dim(self) -> int:
        """The size d of the matrix."""
        return self.scale.shape[-1]

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """The batch dimensions."""
        return self.scale.shape[:-1]

    @property
    def factor(self) -> Array:
        """The dense factor diag(scale), shape (..., d, d)."""
        return diagonal_matrix(self.scale)

    @property
    def block(self) -> int:
        return 1

    def block_factors(self) -> Array:
        return self.scale[..., None, None]

    def root(self) -> tuple[Array, bool]:
        return self.factor, True

    def scaled(self, c: ArrayLike) -> "DiagonalGram":
        root = positive_sqrt(c, "DiagonalGram.scaled(c=...)")[..., None]
        return DiagonalGram(root * self.scale)

    def marginal(self, columns: Any) -> "DiagonalGram":
        return DiagonalGram(self.scale[..., self._check_columns(columns)])

    def __matmul__(self, x: ArrayLike) -> Array:
        return self.scale**2 * self._check_vectors(x, "__matmul__(x=...)")

    def dense(self) -> Array:
        return diagonal_matrix(self.scale**2)

    def diagonal(self) -> Array:
        return self.scale**2

    def trace(self) -> Array:
        return jnp.sum(self.scale**2, axis=-1)

    def logdet(self) -> Array:
        return 2 * jnp.sum(jnp.log(jnp.abs(self.scale)), axis=-1)

    def logm(self) -> Array:
        return diagonal_matrix(2 * jnp.log(jnp.abs(self.scale)))

    def solve(self, b: ArrayLike) -> Array:
        # Two divisions, because scale^2 may leave the range of float32.
        return self._check_vectors(b, "solve(b=...)") / self.scale / self.scale

    def color(self, eps: ArrayLike) -> Array:
        return self._check_vectors(eps, "color(eps=...)") * self.scale

    def logdet_and_whiten(self, x: ArrayLike) -> tuple[Array, Array]:
        return self.logdet(), self._check_vectors(x, "whiten(x=...)") / self.scale

    def __add__(self, other: SPD) -> SPD:
        if not isinstance(other, DiagonalGram):
            # Python then asks the other class, which may have a better form of the sum.
            return NotImplemented
        check_pair(self, other, "A + B")
        return DiagonalGram(hypotenuse(self.scale, other.scale))

    def inner(self, other: SPD) -> Array:
        check_pair(self, other, "A.inner(B)")
        return jnp.sum(_scale_diagonal(other, jnp.multiply, self.scale), axis=-1)

    def logdet_and_trace_solve(
        self, other: SPD, x: ArrayLike | None = None
    ) -> tuple[Array, Array]:
        check_pair(self, other, "A.trace_solve(B)")
        terms = _scale_diagonal(other, jnp.divide, self.scale)
        if x is not None:
            terms = terms + self.whiten(x) ** 2
        return self.logdet(), jnp.sum(terms, axis=-1)


def diagonal_matrix(x: Array) -> Array:
    """Return diag(x), shape (..., d, d), for x (..., d)."""
    return jnp.where(jnp.eye(x.shape[-1], dtype=bool), x[..., None], 0)


def _scale_diagonal(B: SPD, operation: Callable, scale: Array) -> Array:
    """Return B_ii times or over scale_i^2, shape (..., d).

    `operation` multiplies or divides the columns of B's factor by the scale. Squares
    come last, because scale^2 may leave the range of float32.
    """
    if isinstance(B, DiagonalGram):
        return operation(B.scale, scale) ** 2
    if B.compact:
        return operation(operation(B.diagonal(), scale), scale)
    return jnp.sum(operation(B.factor, scale[..., None, :]) ** 2, axis=-2)


def hypotenuse(a: Array, b: Array) -> Array:
    """Return sqrt(a^2 + b^2), zero where both are.

    Unlike those of `jnp.hypot`, its second derivatives are right.
    """
    largest = lax.stop_gradient(jnp.maximum(jnp.abs(a), jnp.abs(b)))
    zero = largest == 0
    unit = jnp.where(zero, 1, largest)
    squares = (a / unit) ** 2 + (b / unit) ** 2
    return unit * jnp.sqrt(jnp.where(zero, 1, squares)) * ~zero
