"""`LowRankGram`: A = diag(scale^2) + U'U, of any size."""

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer
from jax.typing import ArrayLike

from mmlp.linalg import low_rank, low_rank_trace
from mmlp.linalg.primitive import full_precision
from mmlp.registry import register
from mmlp.spd.arguments import (
    check_pair,
    checked,
    norm,
    rectangle,
    root_of,
    rows_of,
    together,
)
from mmlp.spd.base import SPD, Gram
from mmlp.spd.diagonal import DiagonalGram, diagonal_matrix, hypotenuse

MOST = 4096  # rows of a dense matrix that is made where nothing else helps


@register
class LowRankGram(SPD):
    """A = diag(scale^2) + U'U for scale (..., d), not zero, and U (..., m, d), m >= 0.

    Each method is exact, in O(d m^2) time and O(d m) memory, but for those whose result is larger
    and for `logm`, `factor` and what is made of them, which need a dense matrix and refuse
    d > 4096. See `mmlp.linalg.low_rank`.

    Traces and determinants make up Stein and KL divergences of two such values and the quadratic
    distance; near A = B they cancel, and their error is absolute: rounding of d, of |log det A| and
    of tr(A^2).

    >>> A = LowRankGram(jnp.ones(3), jnp.array([[1.0, 2.0, 0.0]]))
    >>> print(A @ jnp.array([1.0, 0.0, 1.0]))
    [2. 2. 1.]
    >>> print(f"{A.logdet():.4f}")  # log(1 + 1 + 4)
    1.7918
    """

    scale: Array
    U: Array
    compact = True

    def __init__(self, scale: ArrayLike, U: ArrayLike):
        scale = jnp.asarray(
            checked(scale, "LowRankGram(scale=...)", "(..., d)", ndim=1)
        )
        if not isinstance(scale, Tracer) and np.any(np.asarray(scale) == 0):
            remedy = "use `Gram` of diag(scale) on top of U"
            raise ValueError(
                f"`LowRankGram(scale=...)` must not be zero anywhere; {remedy}."
            )
        if np.ndim(U) < 2 or np.shape(U)[-1] != scale.shape[-1]:
            wanted = (
                f"(..., m, {scale.shape[-1]}) to fit scale, got shape {np.shape(U)}"
            )
            raise ValueError(f"`LowRankGram(U=...)` must have shape {wanted}.")
        if np.shape(U)[-2] == 0:  # held as a row of zeros
            U = jnp.zeros((*np.shape(U)[:-2], 1, np.shape(U)[-1]), jnp.asarray(U).dtype)
        U = jnp.asarray(checked(U, "LowRankGram(U=...)", "(..., m, d)", ndim=2))
        try:
            row, self.U = together(scale[..., None, :], U)
        except ValueError:
            batches = f"{scale.shape[:-1]} and {U.shape[:-2]}"
            wanted = (
                f"batch dimensions that broadcast with those of scale, got {batches}"
            )
            raise ValueError(f"`LowRankGram(U=...)` must have {wanted}.") from None
        self.scale = row[..., 0, :]

    @classmethod
    def trace_one(cls, scale: ArrayLike, U: ArrayLike) -> "LowRankGram":
        """diag(scale^2) + U'U over its trace."""
        A = cls(scale, U)
        argument = "LowRankGram.trace_one(scale=..., U=...)"
        size = norm(
            jnp.concatenate([A.scale[..., None, :], A.U], axis=-2), (-2, -1), argument
        )
        return cls(A.scale / size[..., 0], A.U / size)

    @property
    def dim(self) -> int:
        return self.scale.shape[-1]

    @property
    def batch_shape(self) -> tuple[int, ...]:
        return self.scale.shape[:-1]

    @property
    def factor(self) -> Array:
        """The dense factor diag(scale) on top of U, shape (..., d + m, d)."""
        if self.dim > MOST:
            raise ValueError(
                f"`LowRankGram.factor` of {self.dim} x {self.dim} numbers is refused above {MOST}, "
                "and so is what needs it, such as `logm`: use `stein` or `quadratic`, "
                "`marginal(columns)` for some of the columns, or `dense()`."
            )
        return jnp.concatenate([DiagonalGram(self.scale).factor, self.U], axis=-2)

    def scaled(self, c: ArrayLike) -> "LowRankGram":
        root = root_of(c, "LowRankGram.scaled(c=...)")[..., None]
        return LowRankGram(root * self.scale, root[..., None] * self.U)

    def marginal(self, columns) -> "LowRankGram":
        some = self._some(columns)
        return LowRankGram(self.scale[..., some], self.U[..., some])

    @full_precision
    def __matmul__(self, x: ArrayLike) -> Array:
        columns = self._columns(x, "__matmul__(x=...)")
        scale, U = columns.matrix(self.scale[..., None]), columns.matrix(self.U)
        return columns.restore(
            scale * (scale * columns.array) + U.mT @ (U @ columns.array)
        )

    @full_precision
    def dense(self) -> Array:
        return diagonal_matrix(self.scale**2) + self.U.mT @ self.U

    def diagonal(self) -> Array:
        return self.scale**2 + jnp.sum(self.U**2, axis=-2)

    def trace(self) -> Array:
        return jnp.sum(self.diagonal(), axis=-1)

    def logdet(self) -> Array:
        return 2 * low_rank.half_log_det(low_rank.factorise(self.scale, self.U))

    def solve(self, b: ArrayLike) -> Array:
        columns = self._columns(b, "solve(b=...)")
        F = self._thin(columns)
        y = low_rank.solve_root(F, columns.array)
        return columns.restore(low_rank.solve_root(F, y, transpose=True))

    def color(self, eps: ArrayLike) -> Array:
        columns = self._columns(eps, "color(eps=...)")
        return columns.restore(
            low_rank.multiply_by_root(self._thin(columns), columns.array)
        )

    def logdet_and_whiten(self, x: ArrayLike) -> tuple[Array, Array]:
        columns = self._columns(x, "whiten(x=...)")
        F = self._thin(columns)
        y = columns.restore(low_rank.solve_root(F, columns.array))
        return 2 * low_rank.half_log_det(F), y

    @full_precision
    def congruence(self, W: ArrayLike) -> SPD:
        W = rectangle(W, self.dim, f"{type(self).__name__}.congruence(W=...)")
        parts = together(self.scale[..., None] * W.mT, self.U @ W.mT)
        return Gram(jnp.concatenate(parts, axis=-2))

    def __add__(self, other: SPD) -> SPD:
        if not isinstance(other, LowRankGram | DiagonalGram):
            return super().__add__(other)
        check_pair(self, other, "A + B")
        scale = hypotenuse(self.scale, other.scale)
        if isinstance(other, DiagonalGram):
            return LowRankGram(scale, self.U)
        return LowRankGram(scale, jnp.concatenate(together(self.U, other.U), axis=-2))

    def __radd__(self, other: SPD) -> SPD:
        return self + other

    def inner(self, other: SPD) -> Array:
        check_pair(self, other, "A.inner(B)")
        rows = rows_of(self.U, None, other.batch_shape)  # (m, ..., d)
        along = jnp.sum(rows * (other @ rows), axis=(0, -1))
        return DiagonalGram(self.scale).inner(other) + along

    def logdet_and_trace_solve(
        self, other: SPD, x: Array | None = None
    ) -> tuple[Array, Array]:
        """diag(b^2) + V'V meets the diagonal of A^-1, and V A^-1 V'."""
        if not isinstance(other, LowRankGram | DiagonalGram):
            return super().logdet_and_trace_solve(other, x)
        check_pair(self, other, "A.trace_solve(B)")
        V = (
            other.U
            if isinstance(other, LowRankGram)
            else jnp.zeros_like(other.scale[..., None, :])
        )
        columns = self._columns(rows_of(V, x, self.batch_shape), "trace_solve(B)")
        F = self._thin(columns)
        y = columns.restore(low_rank.solve_root(F, columns.array))
        own = low_rank_trace.trace_solve(*together(F, other.scale, trailing=1))
        return 2 * low_rank.half_log_det(F), own + jnp.sum(y**2, axis=(0, -1))

    def _thin(self, columns) -> low_rank.Factorised:
        scale = columns.matrix(self.scale[..., None])[..., 0]
        return low_rank.factorise(scale, columns.matrix(self.U))
