"""`LowRankGram`: A = diag(scale^2) + U'U, of any size."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer
from jax.typing import ArrayLike

from mmlp.linalg import low_rank, low_rank_trace
from mmlp.linalg.primitive import full_precision
from mmlp.registry import register
from mmlp.spd.arguments import (
    Columns,
    broadcast_together,
    check_array,
    check_congruence,
    check_pair,
    frobenius_norm,
    list_rows,
    positive_sqrt,
)
from mmlp.spd.base import SPD, Gram
from mmlp.spd.diagonal import DiagonalGram, diagonal_matrix, hypotenuse

# The largest d for which a dense factor is made.
MAX_DENSE_DIM = 4096


@register
class LowRankGram(SPD):
    """A matrix A = diag(scale^2) + U'U, with the methods of `SPD`.

    Every method is exact and takes O(d m^2) time and O(d m) memory, except for those
    whose result is larger and for `logm`, `factor` and what is computed from them.
    These need a dense matrix and raise a ValueError for d > 4096.

    Parameters
    ----------
    scale : array of shape (..., d)
        Square roots of the diagonal part, not zero. Leading dimensions are batch
        dimensions. float32 or float64.
    U : array of shape (..., m, d)
        The low-rank part, with m >= 0.

    Raises
    ------
    ValueError
        If a scale is zero, or if shapes or dtypes are not valid.

    See Also
    --------
    Gram : A dense matrix.
    DiagonalGram : A diagonal matrix.

    Notes
    -----
    The Stein and KL divergences of two such values and their quadratic distance are
    computed from traces and determinants. These cancel near A = B, where the error is
    absolute: rounding of d, of log det A and of tr(A^2).

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from mmlp import LowRankGram
    >>> A = LowRankGram(jnp.ones(3), jnp.array([[1.0, 2.0, 0.0]]))
    >>> print(A @ jnp.array([1.0, 0.0, 1.0]))
    [2. 2. 1.]
    >>> print(f"{A.logdet():.4f}")  # log(1 + 1 + 4)
    1.7918
    """

    scale: Array
    U: Array
    compact = True

    def __init__(self, scale: ArrayLike, U: ArrayLike) -> None:
        scale = jnp.asarray(
            check_array(scale, "LowRankGram(scale=...)", "(..., d)", ndim=1)
        )
        if not isinstance(scale, Tracer) and np.any(np.asarray(scale) == 0):
            raise ValueError(
                "`LowRankGram(scale=...)` must not be zero anywhere; "
                "use `Gram` of diag(scale) on top of U."
            )
        if np.ndim(U) < 2 or np.shape(U)[-1] != scale.shape[-1]:
            raise ValueError(
                f"`LowRankGram(U=...)` must have shape (..., m, {scale.shape[-1]}) "
                f"to fit scale, got shape {np.shape(U)}."
            )
        if np.shape(U)[-2] == 0:
            # A row of zeros stands for no rows.
            U = jnp.zeros((*np.shape(U)[:-2], 1, np.shape(U)[-1]), jnp.asarray(U).dtype)
        U = jnp.asarray(check_array(U, "LowRankGram(U=...)", "(..., m, d)", ndim=2))

        try:
            row, self.U = broadcast_together(scale[..., None, :], U)
        except ValueError:
            raise ValueError(
                "`LowRankGram(U=...)` must have batch dimensions that broadcast with "
                f"those of scale, got {scale.shape[:-1]} and {U.shape[:-2]}."
            ) from None
        self.scale = row[..., 0, :]

    @classmethod
    def trace_one(cls, scale: ArrayLike, U: ArrayLike) -> "LowRankGram":
        """Return diag(scale^2) + U'U over its trace.

        Parameters
        ----------
        scale : array of shape (..., d)
        U : array of shape (..., m, d)

        Returns
        -------
        LowRankGram

        Raises
        ------
        ValueError
            If the arguments are not valid.

        Examples
        --------
        >>> import jax.numpy as jnp
        >>> from mmlp import LowRankGram
        >>> A = LowRankGram.trace_one(jnp.ones(3), jnp.array([[1.0, 2.0, 0.0]]))
        >>> print(f"{A.trace():.4f}")
        1.0000
        """
        A = cls(scale, U)
        rows = jnp.concatenate([A.scale[..., None, :], A.U], axis=-2)
        argument = "LowRankGram.trace_one(scale=..., U=...)"
        norm = frobenius_norm(rows, (-2, -1), argument)
        return cls(A.scale / norm[..., 0], A.U / norm)

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
        """The dense factor diag(scale) on top of U, shape (..., d + m, d)."""
        if self.dim > MAX_DENSE_DIM:
            raise ValueError(
                f"`LowRankGram.factor` of {self.dim} x {self.dim} numbers is not made "
                f"above {MAX_DENSE_DIM}, and so what needs it, such as `logm`, fails: "
                "use `stein` or `quadratic`, `marginal(columns)` for some of the "
                "columns, or `dense()`."
            )
        return jnp.concatenate([DiagonalGram(self.scale).factor, self.U], axis=-2)

    def scaled(self, c: ArrayLike) -> "LowRankGram":
        root = positive_sqrt(c, "LowRankGram.scaled(c=...)")[..., None]
        return LowRankGram(root * self.scale, root[..., None] * self.U)

    def marginal(self, columns: Any) -> "LowRankGram":
        indices = self._check_columns(columns)
        return LowRankGram(self.scale[..., indices], self.U[..., indices])

    @full_precision
    def __matmul__(self, x: ArrayLike) -> Array:
        columns = self._as_columns(x, "__matmul__(x=...)")
        scale = columns.match(self.scale[..., None])
        U = columns.match(self.U)
        diagonal_part = scale * (scale * columns.array)
        return columns.restore(diagonal_part + U.mT @ (U @ columns.array))

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
        columns = self._as_columns(b, "solve(b=...)")
        F = self._factorise(columns)
        y = low_rank.solve_root(F, columns.array)
        return columns.restore(low_rank.solve_root(F, y, transpose=True))

    def color(self, eps: ArrayLike) -> Array:
        columns = self._as_columns(eps, "color(eps=...)")
        F = self._factorise(columns)
        return columns.restore(low_rank.multiply_by_root(F, columns.array))

    def logdet_and_whiten(self, x: ArrayLike) -> tuple[Array, Array]:
        columns = self._as_columns(x, "whiten(x=...)")
        F = self._factorise(columns)
        y = columns.restore(low_rank.solve_root(F, columns.array))
        return 2 * low_rank.half_log_det(F), y

    @full_precision
    def congruence(self, W: ArrayLike) -> SPD:
        argument = f"{type(self).__name__}.congruence(W=...)"
        W = check_congruence(W, self.dim, argument)
        rows = broadcast_together(self.scale[..., None] * W.mT, self.U @ W.mT)
        return Gram(jnp.concatenate(rows, axis=-2))

    def __add__(self, other: SPD) -> SPD:
        if not isinstance(other, LowRankGram | DiagonalGram):
            return super().__add__(other)
        check_pair(self, other, "A + B")
        scale = hypotenuse(self.scale, other.scale)
        if isinstance(other, DiagonalGram):
            return LowRankGram(scale, self.U)
        U = jnp.concatenate(broadcast_together(self.U, other.U), axis=-2)
        return LowRankGram(scale, U)

    def __radd__(self, other: SPD) -> SPD:
        return self + other

    def inner(self, other: SPD) -> Array:
        check_pair(self, other, "A.inner(B)")
        rows = list_rows(self.U, None, other.batch_shape)  # (m, ..., d)
        low_rank_part = jnp.sum(rows * (other @ rows), axis=(0, -1))
        return DiagonalGram(self.scale).inner(other) + low_rank_part

    def logdet_and_trace_solve(
        self, other: SPD, x: Array | None = None
    ) -> tuple[Array, Array]:
        if not isinstance(other, LowRankGram | DiagonalGram):
            return super().logdet_and_trace_solve(other, x)

        # B = diag(b^2) + V'V: tr(A^-1 B) = tr(A^-1 diag(b^2)) + tr(V A^-1 V').
        check_pair(self, other, "A.trace_solve(B)")
        if isinstance(other, LowRankGram):
            V = other.U
        else:
            V = jnp.zeros_like(other.scale[..., None, :])
        rows = list_rows(V, x, self.batch_shape)
        columns = self._as_columns(rows, "trace_solve(B)")
        F = self._factorise(columns)
        y = columns.restore(low_rank.solve_root(F, columns.array))
        diagonal_part = low_rank_trace.trace_solve(
            *broadcast_together(F, other.scale, trailing=1)
        )
        logdet = 2 * low_rank.half_log_det(F)
        return logdet, diagonal_part + jnp.sum(y**2, axis=(0, -1))

    def _factorise(self, columns: Columns) -> low_rank.Factorised:
        """Factorise A with the batch dimensions and the dtype of the columns."""
        scale = columns.match(self.scale[..., None])[..., 0]
        return low_rank.factorise(scale, columns.match(self.U))
