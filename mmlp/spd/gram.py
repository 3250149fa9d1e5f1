"""SPD values held by their factor: `Gram` is A = T'T, `DiagonalGram` is A = diag(scale^2).

Working on T instead of A halves the number of digits that conditioning costs: errors grow like cond(T), not like
cond(A) = cond(T)^2. Leading dimensions are batch dimensions; vectors lie along the last axis.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer
from jax.typing import ArrayLike

from mmlp.linalg.checks import checked_floats
from mmlp.linalg.core import Factorised, factorise, log_abs_det, log_gram, solve, spectrum
from mmlp.linalg.primitive import full_precision


class Gram(eqx.Module):
    """A symmetric positive definite matrix A = T'T, held by its factor T.

    Shapes: `factor` is T (..., m, d) with m >= d; A is (..., d, d). Where a square root is needed, m > d is reduced by
    one QR decomposition. `upper=True` promises that T is square and upper triangular, which saves the LU decomposition.

    A singular factor is not an error: its `logdet` is -inf, `solve` and `whiten` are infinite.

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
        self.factor = jnp.asarray(_checked(factor, "Gram(factor=...)", "(..., m, d)", ndim=2))
        self.upper = upper
        m, d = self.factor.shape[-2:]
        if m < d or (upper and m != d):
            shape = (
                "square to be `upper`"
                if upper
                else "at least as many rows as columns, or T'T is singular"
            )
            raise ValueError(
                f"`Gram(factor=...)` must have {shape}, got shape {self.factor.shape}."
            )
        if upper and not isinstance(self.factor, Tracer) and np.any(np.tril(self.factor, -1)):
            raise ValueError(
                "`Gram(factor=..., upper=True)` must be zero below the diagonal; leave out `upper`."
            )

    @classmethod
    @full_precision
    def trace_one(cls, T: ArrayLike, *, upper: bool = False) -> "Gram":
        """T'T / tr(T'T), the paper's normalisation H = K / tr(K): the factor is T / |T|."""
        T = jnp.asarray(_checked(T, "Gram.trace_one(T=...)", "(..., m, d)", ndim=2))
        return cls(T / _norm(T, (-2, -1), "Gram.trace_one(T=...)"), upper=upper)

    @classmethod
    def from_dense(cls, A: ArrayLike) -> "Gram":
        """The Gram of a dense matrix A (..., d, d), by a Cholesky decomposition A = LL', T = L'.

        Concrete values are checked, factored in float64 and then cast: float32 fails at condition numbers that data has.
        Under `jit` or `vmap` an element that is not positive definite becomes NaN, and no other.
        """
        if isinstance(A, Tracer):
            A = jnp.asarray(_checked(A, "Gram.from_dense(A=...)", "(..., d, d)", ndim=2))
            return cls(jnp.linalg.cholesky(A, upper=True), upper=True)
        values = np.asarray(_checked(A, "Gram.from_dense(A=...)", "(..., d, d)", ndim=2))
        return cls(jnp.asarray(_cholesky_or_explain(values).astype(values.dtype)), upper=True)

    @property
    def dim(self) -> int:
        return self.factor.shape[-1]

    @property
    def batch_shape(self) -> tuple[int, ...]:
        return self.factor.shape[:-2]

    @full_precision
    def __matmul__(self, x: ArrayLike) -> Array:
        """A x = T'(T x) for x (..., d)."""
        A, columns = self._against(x, "__matmul__(x=...)")
        return columns.restore(A.factor.mT @ (A.factor @ columns.array))

    @full_precision
    def dense(self) -> Array:
        """A = T'T, shape (..., d, d)."""
        return self.factor.mT @ self.factor

    def trace(self) -> Array:
        """tr A = |T|^2, shape (...)."""
        return jnp.sum(self.factor**2, axis=(-2, -1))

    def logdet(self) -> Array:
        """log det A = 2 log|det T|, shape (...)."""
        return 2 * log_abs_det(self._root())

    def logm(self) -> Array:
        """The matrix logarithm of A, shape (..., d, d). Derivatives to second order, right at equal eigenvalues."""
        return log_gram(spectrum(self.factor))

    def solve(self, b: ArrayLike) -> Array:
        """A^-1 b = T^-1 T^-T b for b (..., d)."""
        A, columns = self._against(b, "solve(b=...)")
        root = A._root()
        return columns.restore(
            solve(root, solve(root, columns.array, transpose=True, refine=True), refine=True)
        )

    def whiten(self, x: ArrayLike) -> Array:
        """T^-T x for x (..., d): |whiten(x)|^2 = x' A^-1 x."""
        return self.logdet_and_whiten(x)[1]

    @full_precision
    def color(self, eps: ArrayLike) -> Array:
        """T' eps for eps (..., d), the inverse of `whiten`: white noise gets covariance A."""
        A, columns = self._against(eps, "color(eps=...)")
        return columns.restore(A._root_matrix().mT @ columns.array)

    def logdet_and_whiten(self, x: ArrayLike) -> tuple[Array, Array]:
        """`logdet()` and `whiten(x)` from one decomposition: what a density needs."""
        A, columns = self._against(x, "whiten(x=...)")
        root = A._root()
        return 2 * log_abs_det(root), columns.restore(
            solve(root, columns.array, transpose=True, refine=True)
        )

    def scaled(self, c: ArrayLike) -> "Gram":
        """cA for c > 0, shape (...)."""
        return Gram(
            _root_of(c, "Gram.scaled(c=...)")[..., None, None] * self.factor, upper=self.upper
        )

    @full_precision
    def congruence(self, W: ArrayLike) -> "Gram":
        """W A W' for W (..., k, d): the factor is T W'. Needs k <= d, otherwise the result is singular."""
        W = jnp.asarray(checked_floats(W, "Gram.congruence(W=...)", "(..., k, d)", ndim=2))
        if W.shape[-1] != self.dim or W.shape[-2] > self.dim:
            raise ValueError(
                f"`Gram.congruence(W=...)` must have shape (..., k, {self.dim}) with k <= {self.dim}, or W A W' is "
                f"singular, got shape {W.shape}."
            )
        return Gram(self.factor @ W.mT)

    def _root_matrix(self) -> Array:
        m, d = self.factor.shape[-2:]
        return self.factor if m == d else jnp.linalg.qr(self.factor, mode="r")

    def _root(self) -> Factorised:
        return factorise(self._root_matrix(), upper=self.upper or self.factor.shape[-2] > self.dim)

    def _against(self, vectors: ArrayLike, argument: str) -> tuple["Gram", "_Columns"]:
        """The vectors as columns, and this Gram with batch dimensions of length one repeated where the vectors have more."""
        x = _vector(self, vectors, argument)
        own = self.batch_shape
        theirs = ((1,) * len(own) + x.shape[:-1])[len(x.shape) - 1 :]
        batch = tuple(b if a == 1 else a for a, b in zip(own, theirs, strict=True))
        if any(b not in (1, a) for a, b in zip(batch, theirs, strict=True)):
            raise ValueError(
                f"`Gram.{argument}` cannot broadcast {x.shape[:-1]} against batch dimensions {own}."
            )
        factor = jnp.broadcast_to(self.factor, batch + self.factor.shape[-2:]).astype(x.dtype)
        return Gram(factor, upper=self.upper), _Columns(batch, x)


class DiagonalGram(eqx.Module):
    """A = diag(scale^2) for scale (..., d), with the methods of `Gram`, each as cheap as its result.

    >>> A = DiagonalGram(jnp.array([1.0, 2.0]))
    >>> print(A.whiten(jnp.array([3.0, 4.0])))
    [3. 2.]
    """

    scale: Array

    def __init__(self, scale: ArrayLike):
        self.scale = jnp.asarray(_checked(scale, "DiagonalGram(scale=...)", "(..., d)", ndim=1))

    @classmethod
    def trace_one(cls, scale: ArrayLike) -> "DiagonalGram":
        scale = jnp.asarray(
            _checked(scale, "DiagonalGram.trace_one(scale=...)", "(..., d)", ndim=1)
        )
        return cls(scale / _norm(scale, -1, "DiagonalGram.trace_one(scale=...)"))

    @property
    def factor(self) -> Array:
        """The dense factor diag(scale), shape (..., d, d)."""
        return _diagonal(self.scale)

    @property
    def dim(self) -> int:
        return self.scale.shape[-1]

    @property
    def batch_shape(self) -> tuple[int, ...]:
        return self.scale.shape[:-1]

    def __matmul__(self, x: ArrayLike) -> Array:
        return self.scale**2 * _vector(self, x, "__matmul__(x=...)")

    def dense(self) -> Array:
        return _diagonal(self.scale**2)

    def trace(self) -> Array:
        return jnp.sum(self.scale**2, axis=-1)

    def logdet(self) -> Array:
        return 2 * jnp.sum(jnp.log(jnp.abs(self.scale)), axis=-1)

    def logm(self) -> Array:
        return _diagonal(2 * jnp.log(jnp.abs(self.scale)))

    def solve(self, b: ArrayLike) -> Array:
        return (
            _vector(self, b, "solve(b=...)") / self.scale / self.scale
        )  # scale^2 may leave the range of float32

    def whiten(self, x: ArrayLike) -> Array:
        return _vector(self, x, "whiten(x=...)") / self.scale

    def color(self, eps: ArrayLike) -> Array:
        return _vector(self, eps, "color(eps=...)") * self.scale

    def logdet_and_whiten(self, x: ArrayLike) -> tuple[Array, Array]:
        return self.logdet(), self.whiten(x)

    def scaled(self, c: ArrayLike) -> "DiagonalGram":
        return DiagonalGram(_root_of(c, "DiagonalGram.scaled(c=...)")[..., None] * self.scale)

    def congruence(self, W: ArrayLike) -> Gram:
        return Gram(self.factor).congruence(W)


SPD = Gram | DiagonalGram


class _Columns:
    """Vectors (..., d) as columns against a batch of matrices, so that many vectors share one factorisation.

    Dimensions of the vectors in front of the matrices' batch dimensions become columns; the others broadcast.
    """

    def __init__(self, batch: tuple[int, ...], x: Array):
        self.extra = x.shape[: max(x.ndim - 1 - len(batch), 0)]
        x = x.reshape(-1, *x.shape[len(self.extra) :])  # (k, ..., d)
        x = jnp.broadcast_to(x, (x.shape[0], *batch, x.shape[-1]))
        self.array = jnp.moveaxis(x, 0, -1)  # (..., d, k)

    def restore(self, columns: Array) -> Array:
        x = jnp.moveaxis(columns, -1, 0)
        return x.reshape(*self.extra, *x.shape[1:])


def _vector(gram: SPD, x: ArrayLike, argument: str) -> Array:
    """x (..., d) in a floating dtype that holds the gram's numbers too."""
    x = jnp.asarray(x)
    x = x.astype(jnp.promote_types(x.dtype, jax.tree.leaves(gram)[0].dtype))
    if x.ndim == 0 or x.shape[-1] != gram.dim:
        raise ValueError(
            f"`{type(gram).__name__}.{argument}` must have shape (..., {gram.dim}), got shape {x.shape}."
        )
    return x


def _diagonal(x: Array) -> Array:
    return jnp.where(jnp.eye(x.shape[-1], dtype=bool), x[..., None], 0)


def _checked(x: ArrayLike, argument: str, shape: str, *, ndim: int):
    """Floating-point numbers of 32 or 64 bits: decompositions have no others."""
    array = checked_floats(x, argument, shape, ndim=ndim)
    if array.dtype.itemsize < 4:
        raise ValueError(
            f'`{argument}` must be of float32 or float64, got {array.dtype}; use `.astype("float32")`.'
        )
    return array


def _norm(x: Array, axis, argument: str) -> Array:
    """The Frobenius norm, of numbers scaled to one first: squares of tiny or huge float32 numbers leave its range."""
    largest = jax.lax.stop_gradient(jnp.max(jnp.abs(x), axis=axis, keepdims=True))
    if not isinstance(largest, Tracer) and np.any(np.asarray(largest) == 0):
        raise ValueError(
            f"`{argument}` must not be all zeros: the zero matrix has no multiple of trace one."
        )
    return largest * jnp.sqrt(jnp.sum((x / largest) ** 2, axis=axis, keepdims=True))


def _root_of(c: ArrayLike, argument: str) -> Array:
    c = jnp.asarray(c)
    if not isinstance(c, Tracer) and not np.all(np.asarray(c) > 0):
        raise ValueError(f"`{argument}` must be positive, got {np.min(np.asarray(c))}.")
    return jnp.sqrt(c)


def _cholesky_or_explain(A: np.ndarray) -> np.ndarray:
    """Upper Cholesky factors in float64; names the first element that is not square, symmetric or positive definite."""
    argument = "`Gram.from_dense(A=...)`"
    if A.shape[-1] != A.shape[-2]:
        raise ValueError(f"{argument} must have shape (..., d, d), got shape {A.shape}.")
    tolerance = np.sqrt(
        np.finfo(A.dtype).eps
    )  # half the digits: an honest rounding error passes, a slip does not
    matrices = A.astype(np.float64).reshape(-1, *A.shape[-2:])
    factors = np.empty_like(matrices)
    for i, matrix in enumerate(matrices):
        element = (
            f"element {tuple(int(k) for k in np.unravel_index(i, A.shape[:-2]))}"
            if A.ndim > 2
            else "the matrix"
        )
        asymmetry = np.abs(matrix - matrix.T).max()
        if asymmetry > tolerance * np.abs(matrix).max():
            raise ValueError(
                f"{argument} must be symmetric, but in {element} entries across the diagonal differ by {asymmetry:.3g}; "
                "use (A + A.T) / 2 if that is meant."
            )
        try:
            factors[i] = np.linalg.cholesky((matrix + matrix.T) / 2).T
        except np.linalg.LinAlgError:
            smallest = np.linalg.eigvalsh(matrix)[0]
            raise ValueError(
                f"{argument} must be positive definite, but {element} has smallest eigenvalue {smallest:.3g}; a sample "
                "covariance needs more samples than dimensions, or shrinkage."
            ) from None
    return factors.reshape(A.shape)
