"""`DiagonalGram`: A = diag(scale^2)."""

from collections.abc import Callable

import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from mmlp.registry import register
from mmlp.spd.arguments import check_pair, checked, norm, root_of
from mmlp.spd.base import SPD


@register
class DiagonalGram(SPD):
    """A = diag(scale^2) for scale (..., d), each method as cheap as its result.

    >>> A = DiagonalGram(jnp.array([1.0, 2.0]))
    >>> print(A.whiten(jnp.array([3.0, 4.0])))
    [3. 2.]
    """

    scale: Array
    compact = True

    def __init__(self, scale: ArrayLike):
        self.scale = jnp.asarray(
            checked(scale, "DiagonalGram(scale=...)", "(..., d)", ndim=1)
        )

    @classmethod
    def trace_one(cls, scale: ArrayLike) -> "DiagonalGram":
        """diag(scale^2) / sum(scale^2)."""
        argument = "DiagonalGram.trace_one(scale=...)"
        scale = jnp.asarray(checked(scale, argument, "(..., d)", ndim=1))
        return cls(scale / norm(scale, -1, argument))

    @property
    def dim(self) -> int:
        return self.scale.shape[-1]

    @property
    def batch_shape(self) -> tuple[int, ...]:
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
        return DiagonalGram(
            root_of(c, "DiagonalGram.scaled(c=...)")[..., None] * self.scale
        )

    def marginal(self, columns) -> "DiagonalGram":
        return DiagonalGram(self.scale[..., self._some(columns)])

    def __matmul__(self, x: ArrayLike) -> Array:
        return self.scale**2 * self._vectors(x, "__matmul__(x=...)")

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
        # one division after the other: scale^2 may leave the range of float32
        return self._vectors(b, "solve(b=...)") / self.scale / self.scale

    def color(self, eps: ArrayLike) -> Array:
        return self._vectors(eps, "color(eps=...)") * self.scale

    def logdet_and_whiten(self, x: ArrayLike) -> tuple[Array, Array]:
        return self.logdet(), self._vectors(x, "whiten(x=...)") / self.scale

    def __add__(self, other: SPD) -> SPD:
        if not isinstance(other, DiagonalGram):
            return NotImplemented  # the other kind knows better what the sum is
        check_pair(self, other, "A + B")
        return DiagonalGram(hypotenuse(self.scale, other.scale))

    def inner(self, other: SPD) -> Array:
        check_pair(self, other, "A.inner(B)")
        return jnp.sum(_squares(other, jnp.multiply, self.scale), axis=-1)

    def logdet_and_trace_solve(
        self, other: SPD, x: ArrayLike | None = None
    ) -> tuple[Array, Array]:
        check_pair(self, other, "A.trace_solve(B)")
        terms = _squares(other, jnp.divide, self.scale)
        if x is not None:
            terms = terms + self.whiten(x) ** 2
        return self.logdet(), jnp.sum(terms, axis=-1)


def diagonal_matrix(x: Array) -> Array:
    return jnp.where(jnp.eye(x.shape[-1], dtype=bool), x[..., None], 0)


def _squares(B: SPD, operation: Callable, scale: Array) -> Array:
    """The diagonal of B with its factor's columns times or over `scale`, (..., d).

    What is squared comes last: scale^2 may leave the range of float32.
    """
    if isinstance(B, DiagonalGram):
        return operation(B.scale, scale) ** 2
    if B.compact:
        return operation(operation(B.diagonal(), scale), scale)
    return jnp.sum(operation(B.factor, scale[..., None, :]) ** 2, axis=-2)


def hypotenuse(a: Array, b: Array) -> Array:
    """sqrt(a^2 + b^2), with right second derivatives, unlike `jnp.hypot`; zero where both are."""
    largest = lax.stop_gradient(jnp.maximum(jnp.abs(a), jnp.abs(b)))
    zero = largest == 0
    unit = jnp.where(zero, 1, largest)
    return (
        unit * jnp.sqrt(jnp.where(zero, 1, (a / unit) ** 2 + (b / unit) ** 2)) * ~zero
    )
