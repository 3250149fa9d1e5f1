"""`SPD`, the abstract base of all values, and `Gram`: A = T'T, stored as T.

Working with T instead of A halves the digits that conditioning costs: errors grow like
cond(T), not like cond(A) = cond(T)^2. Leading dimensions are batch dimensions; vectors
lie along the last axis.
"""

import abc
from typing import Any, ClassVar

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
    """A symmetric positive definite matrix A (..., d, d), stored as its components.

    This is the abstract base class of `Gram`, `DiagonalGram` and `LowRankGram`.
    ``A + B``, ``A @ x`` and the methods work for all of them. ``A[index]``, ``len(A)``
    and loops apply to the batch dimensions; ``np.asarray(A)`` is dense.

    A singular value is not an error: its `logdet` is -inf, `solve` and `whiten` are
    infinite.

    Notes
    -----
    A subclass must provide `dim`, `batch_shape`, `factor` and `scaled`, and its arrays
    must begin with the batch dimensions. Everything else follows from the factor. A
    subclass overrides what it can compute faster: `logdet_and_whiten`, `color` (the
    inverse of `whiten`), and the methods that take two values. No other code asks which
    subclass a value belongs to.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from mmlp import SPD, DiagonalGram, Gram
    >>> A = DiagonalGram(jnp.array([1.0, 2.0])) + Gram(jnp.eye(2))
    >>> isinstance(A, SPD), A.shape
    (True, (2, 2))
    >>> print(A.solve(jnp.array([2.0, 5.0])))
    [1. 1.]
    """

    # A dense T (..., m, d), m >= d, for code that needs one.
    factor: eqx.AbstractVar[Array]

    # Whether a dense factor would be larger than the arrays of the value.
    compact: ClassVar[bool] = False

    @abc.abstractmethod
    def scaled(self, c: ArrayLike) -> "SPD":
        """Return cA.

        Parameters
        ----------
        c : float or array of shape (...)
            Positive numbers.

        Returns
        -------
        SPD
            Of the same class, if the class is closed under scaling.

        Raises
        ------
        ValueError
            If a concrete c is not positive.
        """

    @property
    def block(self) -> int:
        """The size b of the diagonal blocks outside of which A is zero; usually d."""
        return self.dim

    def block_factors(self) -> Array:
        """Return the factors of the diagonal blocks of size `block`.

        Returns
        -------
        Array of shape (..., d / b, m, b)
            Square where b < d.
        """
        return self.factor[..., None, :, :]

    @full_precision
    def __matmul__(self, x: ArrayLike) -> Array:
        """Return A x = T'(T x).

        Parameters
        ----------
        x : array of shape (..., d)

        Returns
        -------
        Array of shape (..., d)
        """
        columns = self._as_columns(x, "__matmul__(x=...)")
        T = columns.match(self.factor)
        return columns.restore(T.mT @ (T @ columns.array))

    @full_precision
    def dense(self) -> Array:
        """Return the entries of A = T'T.

        Returns
        -------
        Array of shape (..., d, d)
        """
        return gram(self.factor)

    def diagonal(self) -> Array:
        """Return the diagonal entries A_ii.

        Returns
        -------
        Array of shape (..., d)
        """
        return jnp.sum(self.factor**2, axis=-2)

    def trace(self) -> Array:
        """Return tr A = |T|^2.

        Returns
        -------
        Array of shape (...)
        """
        return jnp.sum(self.factor**2, axis=(-2, -1))

    def logdet(self) -> Array:
        """Return log det A = 2 log|det T|.

        Returns
        -------
        Array of shape (...)
        """
        return self.logdet_and_whiten(jnp.zeros(self.dim, self._dtype))[0]

    def logm(self) -> Array:
        """Return the matrix logarithm log A.

        It has derivatives of first and second order, also at equal eigenvalues.

        Returns
        -------
        Array of shape (..., d, d)
        """
        return log_gram(spectrum(self.factor))

    def solve(self, b: ArrayLike) -> Array:
        """Return A^-1 b = T^-1 T^-T b.

        Parameters
        ----------
        b : array of shape (..., d)
            Dimensions in front of the batch dimensions of A share one decomposition.

        Returns
        -------
        Array of shape (..., d)
        """
        columns = self._as_columns(b, "solve(b=...)")
        T, upper = self.root()
        F = factorise(columns.match(T), upper=upper)
        y = solve(F, columns.array, transpose=True, refine=True)
        return columns.restore(solve(F, y, refine=True))

    def whiten(self, x: ArrayLike) -> Array:
        """Return y = T^-T x, with |y|^2 = x' A^-1 x.

        Parameters
        ----------
        x : array of shape (..., d)
            Dimensions in front of the batch dimensions of A share one decomposition.

        Returns
        -------
        Array of shape (..., d)
        """
        return self.logdet_and_whiten(x)[1]

    @full_precision
    def color(self, eps: ArrayLike) -> Array:
        """Return T' eps, the inverse of `whiten`.

        White noise eps becomes noise with covariance A.

        Parameters
        ----------
        eps : array of shape (..., d)

        Returns
        -------
        Array of shape (..., d)
        """
        columns = self._as_columns(eps, "color(eps=...)")
        return columns.restore(columns.match(self.root()[0]).mT @ columns.array)

    def logdet_and_whiten(self, x: ArrayLike) -> tuple[Array, Array]:
        """Return `logdet()` and `whiten(x)` from one decomposition, as densities need.

        Parameters
        ----------
        x : array of shape (..., d)

        Returns
        -------
        logdet : Array of shape (...)
        y : Array of shape (..., d)
        """
        columns = self._as_columns(x, "whiten(x=...)")
        T, upper = self.root()
        F = factorise(columns.match(T), upper=upper)
        y = solve(F, columns.array, transpose=True, refine=True)
        return 2 * log_abs_det(F), columns.restore(y)

    @full_precision
    def congruence(self, W: ArrayLike) -> "SPD":
        """Return W A W', whose factor is T W'.

        Parameters
        ----------
        W : array of shape (..., k, d)
            With k <= d, because W A W' is singular otherwise.

        Returns
        -------
        SPD
            Of size k.

        Raises
        ------
        ValueError
            If k > d.
        """
        argument = f"{type(self).__name__}.congruence(W=...)"
        W = arguments.check_congruence(W, self.dim, argument)
        return Gram(self.factor @ W.mT)

    @full_precision
    def sandwich(self, W: ArrayLike) -> Array:
        """Return the dense matrix W A W'.

        Parameters
        ----------
        W : array of shape (..., k, d)
            Of any k.

        Returns
        -------
        Array of shape (..., k, k)
        """
        return gram(self.factor @ jnp.asarray(W).mT)

    def marginal(self, columns: Any) -> "SPD":
        """Return the covariance of some of the coordinates, A_ij for i and j of these.

        Parameters
        ----------
        columns : int, slice or sequence of int
            Distinct columns of 0 to d - 1.

        Returns
        -------
        SPD

        Raises
        ------
        ValueError
            If `columns` are not distinct columns of the matrix.
        """
        return Gram(self.factor[..., self._check_columns(columns)])

    def root(self) -> tuple[Array, bool]:
        """Return a square factor; a tall one is reduced by QR.

        Returns
        -------
        T : Array of shape (..., d, d)
        upper : bool
            Whether T is upper triangular.
        """
        T = self.factor
        if T.shape[-2] == T.shape[-1]:
            return T, False
        return jnp.linalg.qr(T, mode="r"), True

    def __add__(self, other: "SPD") -> "SPD":
        """Return A + B, whose factor stacks those of A and B: nothing is squared.

        Parameters
        ----------
        other : SPD
            B, of the same size.

        Returns
        -------
        SPD
        """
        if not isinstance(other, SPD):
            return NotImplemented
        T_A, T_B = self._broadcast_factors(other, "A + B")
        return Gram(jnp.concatenate([T_A, T_B], axis=-2))

    def __radd__(self, other: "SPD") -> "SPD":
        """Return B + A, where the class of B leaves the sum to that of A."""
        return SPD.__add__(self, other)

    @full_precision
    def inner(self, other: "SPD") -> Array:
        """Return the inner product tr(AB) = |T_A T_B'|^2.

        Parameters
        ----------
        other : SPD
            B, of the same size.

        Returns
        -------
        Array of shape (...)
        """
        T_A, T_B = self._broadcast_factors(other, "A.inner(B)")
        return jnp.sum((T_A @ T_B.mT) ** 2, axis=(-2, -1))

    def trace_solve(self, other: "SPD") -> Array:
        """Return tr(A^-1 B).

        Parameters
        ----------
        other : SPD
            B, of the same size.

        Returns
        -------
        Array of shape (...)
        """
        return self.logdet_and_trace_solve(other)[1]

    def logdet_and_trace_solve(
        self, other: "SPD", x: Array | None = None
    ) -> tuple[Array, Array]:
        """Return `logdet()` and tr(A^-1 (B + xx')), as KL divergences need.

        Both come from one decomposition.

        Parameters
        ----------
        other : SPD
            B, of the same size.
        x : array of shape (..., d), optional
            Without it, the second result is ``trace_solve(other)``.

        Returns
        -------
        logdet : Array of shape (...)
        trace : Array of shape (...)
        """
        arguments.check_pair(self, other, "A.trace_solve(B)")
        rows = arguments.list_rows(other.factor, x, self.batch_shape)
        logdet, y = self.logdet_and_whiten(rows)
        return logdet, jnp.sum(y**2, axis=(0, -1))

    @property
    def _dtype(self) -> Any:
        return jnp.result_type(*jax.tree.leaves(self))

    def _check_vectors(self, x: ArrayLike, argument: str) -> Array:
        """Return x (..., d) in a floating dtype that holds the value's numbers too."""
        x = jnp.asarray(x)
        x = x.astype(jnp.promote_types(x.dtype, self._dtype))
        if x.ndim == 0 or x.shape[-1] != self.dim:
            raise ValueError(
                f"`{type(self).__name__}.{argument}` must have shape (..., {self.dim}),"
                f" got shape {x.shape}."
            )
        return x

    def _as_columns(self, x: ArrayLike, argument: str) -> arguments.Columns:
        """Return vectors x (..., d) as columns that share one decomposition."""
        name = f"{type(self).__name__}.{argument}"
        vectors = self._check_vectors(x, argument)
        return arguments.Columns(self.batch_shape, vectors, name)

    def _check_columns(self, columns: Any) -> np.ndarray:
        """Return the column indices of a `marginal`."""
        argument = f"{type(self).__name__}.marginal(columns=...)"
        return arguments.check_columns(columns, self.dim, argument)

    def _broadcast_factors(self, other: "SPD", call: str) -> tuple[Array, Array]:
        """Return the factors of both values with one dtype and batch shape."""
        arguments.check_pair(self, other, call)
        return arguments.broadcast_together(self.factor, other.factor)


@register
class Gram(SPD):
    """A symmetric positive definite matrix A = T'T, stored as its factor T.

    Parameters
    ----------
    factor : array of shape (..., m, d)
        T, with m >= d. Leading dimensions are batch dimensions. float32 or float64.
    upper : bool, default=False
        A promise that T is square and upper triangular, which saves the LU
        decomposition.

    Raises
    ------
    ValueError
        If the factor is not floating-point, not finite, or has fewer rows than columns,
        or if it is not upper triangular in spite of `upper`.

    See Also
    --------
    DiagonalGram : A diagonal matrix.
    LowRankGram : A diagonal matrix plus one of low rank.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from mmlp import Gram
    >>> A = Gram(jnp.array([[2.0, 1.0], [0.0, 3.0]]))
    >>> print(A.dense())
    [[ 4.  2.]
     [ 2. 10.]]
    >>> print(f"{A.logdet():.4f}")  # log(4 * 10 - 2 * 2)
    3.5835
    >>> print((A + A) @ jnp.array([1.0, 0.0]))
    [8. 4.]
    """

    factor: Array
    upper: bool = eqx.field(static=True)

    def __init__(self, factor: ArrayLike, *, upper: bool = False) -> None:
        self.factor = arguments.check_factor(factor, upper)
        self.upper = upper

    @classmethod
    @full_precision
    def trace_one(cls, T: ArrayLike, *, upper: bool = False) -> "Gram":
        """Return T'T / tr(T'T), the paper's normalisation H = K / tr(K).

        The factor is T / |T|.

        Parameters
        ----------
        T : array of shape (..., m, d)
            With m >= d.
        upper : bool, default=False
            A promise that T is square and upper triangular.

        Returns
        -------
        Gram

        Raises
        ------
        ValueError
            If T is not a valid factor, or zero.

        Examples
        --------
        >>> import jax.numpy as jnp
        >>> from mmlp import Gram
        >>> print(Gram.trace_one(jnp.diag(jnp.array([1.0, 3.0]))).diagonal())
        [0.1 0.9]
        """
        argument = "Gram.trace_one(T=...)"
        T = jnp.asarray(arguments.check_array(T, argument, "(..., m, d)", ndim=2))
        return cls(T / arguments.frobenius_norm(T, (-2, -1), argument), upper=upper)

    @classmethod
    def from_dense(cls, A: ArrayLike) -> "Gram":
        """Return the Gram of a dense matrix, by a Cholesky decomposition A = LL'.

        The factor is T = L'. Concrete values are checked, factored in float64 and then
        cast, because float32 fails at condition numbers that data has. Under `jit` or
        `vmap` an element that is not positive definite becomes NaN, and no other.

        Parameters
        ----------
        A : array of shape (..., d, d)

        Returns
        -------
        Gram

        Raises
        ------
        ValueError
            If a concrete matrix is not symmetric positive definite. The message names
            its index in the batch.

        Examples
        --------
        >>> import jax.numpy as jnp
        >>> from mmlp import Gram
        >>> A = Gram.from_dense(jnp.array([[4.0, 2.0], [2.0, 10.0]]))
        >>> print(A.factor)
        [[2. 1.]
         [0. 3.]]
        """
        argument = "Gram.from_dense(A=...)"
        array = arguments.check_array(A, argument, "(..., d, d)", ndim=2)
        if isinstance(array, Tracer):
            return cls(jnp.linalg.cholesky(jnp.asarray(array), upper=True), upper=True)
        factor = arguments.cholesky_or_raise(np.asarray(array))
        return cls(jnp.asarray(factor.astype(array.dtype)), upper=True)

    @property
    def dim(self) -> int:
        """The size d of the matrix."""
        return self.factor.shape[-1]

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """The batch dimensions."""
        return self.factor.shape[:-2]

    def root(self) -> tuple[Array, bool]:
        return (self.factor, True) if self.upper else super().root()

    def logdet(self) -> Array:
        T, upper = self.root()
        return 2 * log_abs_det(factorise(T, upper=upper))

    def scaled(self, c: ArrayLike) -> "Gram":
        root = arguments.positive_sqrt(c, "Gram.scaled(c=...)")[..., None, None]
        return Gram(root * self.factor, upper=self.upper)
