"""`SPD`, what every value can do, and `Gram`, which all others fall back on: A = T'T, held by T.

Working on T instead of A halves the digits that conditioning costs: errors grow like cond(T), not
like cond(A) = cond(T)^2. Leading dimensions are batch dimensions; vectors lie along the last axis.
"""

import abc
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer
from jax.typing import ArrayLike

from mmlp.linalg.lu import factorise, log_abs_det, solve
from mmlp.linalg.matrix_log import log_gram, spectrum
from mmlp.linalg.primitive import full_precision
from mmlp.linalg.products import gram
from mmlp.registry import register
from mmlp.spd import arguments
from mmlp.spd.batch import Matrices


class SPD(Matrices):
    """A symmetric positive definite matrix A (..., d, d), held by what it is made of.

    A kind must provide `dim`, `batch_shape`, `factor` and `scaled`. All else follows from the
    factor; a kind overrides what it can do better: `logdet_and_whiten`, `color` (its inverse), and
    the methods of two values. No other code asks which kind a value is.

    `A[index]`, `len(A)` and loops go over batch dimensions, with which all arrays of a kind begin;
    `np.asarray(A)` is dense.

    A singular value is not an error: its `logdet` is -inf, `solve` and `whiten` are infinite.
    """

    factor: eqx.AbstractVar[
        Array
    ]  # a dense T (..., m, d), m >= d: for those who really need one
    compact: ClassVar[bool] = (
        False  # whether a dense factor would be larger than what it holds
    )

    @abc.abstractmethod
    def scaled(self, c: ArrayLike) -> "SPD":
        """cA for c > 0, shape (...)."""

    @property
    def block(self) -> int:
        """The size b of blocks along the diagonal outside of which A is zero; usually d."""
        return self.dim

    def block_factors(self) -> Array:
        """The factors (..., d / b, m, b) of these blocks, square where b < d."""
        return self.factor[..., None, :, :]

    @full_precision
    def __matmul__(self, x: ArrayLike) -> Array:
        """A x = T'(T x) for x (..., d)."""
        columns = self._columns(x, "__matmul__(x=...)")
        T = columns.matrix(self.factor)
        return columns.restore(T.mT @ (T @ columns.array))

    @full_precision
    def dense(self) -> Array:
        """A = T'T, shape (..., d, d)."""
        return gram(self.factor)

    def diagonal(self) -> Array:
        """The entries A_ii, shape (..., d)."""
        return jnp.sum(self.factor**2, axis=-2)

    def trace(self) -> Array:
        """tr A = |T|^2, shape (...)."""
        return jnp.sum(self.factor**2, axis=(-2, -1))

    def logdet(self) -> Array:
        """log det A = 2 log|det T|, shape (...)."""
        return self.logdet_and_whiten(jnp.zeros(self.dim, self._dtype))[0]

    def logm(self) -> Array:
        """log A, shape (..., d, d), with derivatives to second order, also at equal eigenvalues."""
        return log_gram(spectrum(self.factor))

    def solve(self, b: ArrayLike) -> Array:
        """A^-1 b = T^-1 T^-T b for b (..., d)."""
        columns = self._columns(b, "solve(b=...)")
        T, upper = self.root()
        F = factorise(columns.matrix(T), upper=upper)
        y = solve(F, columns.array, transpose=True, refine=True)
        return columns.restore(solve(F, y, refine=True))

    def whiten(self, x: ArrayLike) -> Array:
        """T^-T x for x (..., d): |whiten(x)|^2 = x' A^-1 x."""
        return self.logdet_and_whiten(x)[1]

    @full_precision
    def color(self, eps: ArrayLike) -> Array:
        """T' eps for eps (..., d), the inverse of `whiten`: white noise gets covariance A."""
        columns = self._columns(eps, "color(eps=...)")
        return columns.restore(columns.matrix(self.root()[0]).mT @ columns.array)

    def logdet_and_whiten(self, x: ArrayLike) -> tuple[Array, Array]:
        """`logdet()` and `whiten(x)` from one decomposition: what a density needs."""
        columns = self._columns(x, "whiten(x=...)")
        T, upper = self.root()
        F = factorise(columns.matrix(T), upper=upper)
        y = solve(F, columns.array, transpose=True, refine=True)
        return 2 * log_abs_det(F), columns.restore(y)

    @full_precision
    def congruence(self, W: ArrayLike) -> "SPD":
        """W A W' for W (..., k, d): the factor is T W'. Singular, and so refused, for k > d."""
        W = arguments.rectangle(W, self.dim, f"{type(self).__name__}.congruence(W=...)")
        return Gram(self.factor @ W.mT)

    @full_precision
    def sandwich(self, W: ArrayLike) -> Array:
        """W A W', dense (..., k, k), for W (..., k, d) of any k."""
        return gram(self.factor @ jnp.asarray(W).mT)

    def marginal(self, columns) -> "SPD":
        """A_ij for i and j of these columns, an index or slice: the covariance of these alone."""
        return Gram(self.factor[..., self._some(columns)])

    def root(self) -> tuple[Array, bool]:
        """A square factor (..., d, d), by QR of a tall one, and whether it is upper triangular."""
        T = self.factor
        if T.shape[-2] == T.shape[-1]:
            return T, False
        return jnp.linalg.qr(T, mode="r"), True

    def __add__(self, other: "SPD") -> "SPD":
        """A + B, by the stacked factors of both: nothing is squared."""
        if not isinstance(other, SPD):
            return NotImplemented
        T_A, T_B = self._pair(other, "+")
        return Gram(jnp.concatenate([T_A, T_B], axis=-2))

    def __radd__(self, other: "SPD") -> "SPD":
        """B + A, where B leaves it to A."""
        return SPD.__add__(self, other)

    @full_precision
    def inner(self, other: "SPD") -> Array:
        """tr(AB) = |T_A T_B'|^2, shape (...)."""
        T_A, T_B = self._pair(other, "inner")
        return jnp.sum((T_A @ T_B.mT) ** 2, axis=(-2, -1))

    def trace_solve(self, other: "SPD") -> Array:
        """tr(A^-1 B), shape (...)."""
        return self.logdet_and_trace_solve(other)[1]

    def logdet_and_trace_solve(
        self, other: "SPD", x: Array | None = None
    ) -> tuple[Array, Array]:
        """`logdet()` and tr(A^-1 (B + xx')) from one decomposition: what a KL divergence needs.

        Without x (..., d), the second is `trace_solve(B)`.
        """
        arguments.check_pair(self, other, "A.trace_solve(B)")
        logdet, y = self.logdet_and_whiten(
            arguments.rows_of(other.factor, x, self.batch_shape)
        )
        return logdet, jnp.sum(y**2, axis=(0, -1))

    @property
    def _dtype(self):
        return jnp.result_type(*jax.tree.leaves(self))

    def _vectors(self, x: ArrayLike, argument: str) -> Array:
        """x (..., d) in a floating dtype that holds the value's numbers too."""
        x = jnp.asarray(x)
        x = x.astype(jnp.promote_types(x.dtype, self._dtype))
        if x.ndim == 0 or x.shape[-1] != self.dim:
            wanted = f"must have shape (..., {self.dim}), got shape {x.shape}"
            raise ValueError(f"`{type(self).__name__}.{argument}` {wanted}.")
        return x

    def _columns(self, x: ArrayLike, argument: str) -> arguments.Columns:
        name = f"{type(self).__name__}.{argument}"
        return arguments.Columns(self.batch_shape, self._vectors(x, argument), name)

    def _some(self, columns) -> np.ndarray:
        """Distinct columns of a `marginal`, from 0 to d - 1."""
        return arguments.some_of(
            columns, self.dim, f"{type(self).__name__}.marginal(columns=...)"
        )

    def _pair(self, other: "SPD", name: str) -> tuple[Array, Array]:
        """The factors of both, in one dtype, with their batch dimensions broadcast."""
        arguments.check_pair(
            self, other, f"A {name} B" if name == "+" else f"A.{name}(B)"
        )
        return arguments.together(self.factor, other.factor)


@register
class Gram(SPD):
    """A symmetric positive definite matrix A = T'T, held by its factor T.

    Shapes: `factor` is T (..., m, d) with m >= d; A is (..., d, d). `upper=True` promises that T is
    square and upper triangular, which saves the LU decomposition.

    >>> A = Gram(jnp.array([[2.0, 1.0], [0.0, 3.0]]))
    >>> print(A.dense())
    [[ 4.  2.]
     [ 2. 10.]]
    >>> print(f"{A.logdet():.4f}")  # log(4 * 10 - 2 * 2)
    3.5835
    """

    factor: Array
    upper: bool = eqx.field(static=True)

    def __init__(self, factor: ArrayLike, *, upper: bool = False):
        self.factor = arguments.checked_factor(factor, upper)
        self.upper = upper

    @classmethod
    @full_precision
    def trace_one(cls, T: ArrayLike, *, upper: bool = False) -> "Gram":
        """T'T / tr(T'T), the paper's normalisation H = K / tr(K): the factor is T / |T|."""
        T = jnp.asarray(
            arguments.checked(T, "Gram.trace_one(T=...)", "(..., m, d)", ndim=2)
        )
        return cls(
            T / arguments.norm(T, (-2, -1), "Gram.trace_one(T=...)"), upper=upper
        )

    @classmethod
    def from_dense(cls, A: ArrayLike) -> "Gram":
        """The Gram of a dense matrix A (..., d, d), by a Cholesky decomposition A = LL', T = L'.

        Concrete values are checked, factored in float64 and then cast: float32 fails at condition
        numbers that data has. Under `jit` or `vmap` an element that is not positive definite
        becomes NaN, and no other.
        """
        A = arguments.checked(A, "Gram.from_dense(A=...)", "(..., d, d)", ndim=2)
        if isinstance(A, Tracer):
            return cls(jnp.linalg.cholesky(jnp.asarray(A), upper=True), upper=True)
        factor = arguments.cholesky_or_explain(np.asarray(A))
        return cls(jnp.asarray(factor.astype(A.dtype)), upper=True)

    @property
    def dim(self) -> int:
        return self.factor.shape[-1]

    @property
    def batch_shape(self) -> tuple[int, ...]:
        return self.factor.shape[:-2]

    def root(self) -> tuple[Array, bool]:
        return (self.factor, True) if self.upper else super().root()

    def logdet(self) -> Array:
        T, upper = self.root()
        return 2 * log_abs_det(factorise(T, upper=upper))

    def scaled(self, c: ArrayLike) -> "Gram":
        root = arguments.root_of(c, "Gram.scaled(c=...)")[..., None, None]
        return Gram(root * self.factor, upper=self.upper)
