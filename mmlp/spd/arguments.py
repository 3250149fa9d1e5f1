"""What the values check and convert: factors, scales, vectors, and dense matrices."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer
from jax.typing import ArrayLike

from mmlp.argument_checks import check_floats
from mmlp.errors import MatrixError


def checked(x: ArrayLike, argument: str, shape: str, *, ndim: int):
    """Floating-point numbers of 32 or 64 bits: decompositions have no others."""
    array = check_floats(x, argument, shape, ndim=ndim)
    if array.dtype.itemsize < 4:
        got = f'got {array.dtype}; use `.astype("float32")`'
        raise ValueError(f"`{argument}` must be of float32 or float64, {got}.")
    return array


def checked_factor(factor: ArrayLike, upper: bool) -> Array:
    """The factor of a `Gram`, square or tall, or if `upper` a triangle."""
    T = jnp.asarray(checked(factor, "Gram(factor=...)", "(..., m, d)", ndim=2))
    m, d = T.shape[-2:]
    if m < d or (upper and m != d):
        tall = "have at least as many rows as columns, or T'T is singular"
        wanted = "be square to be `upper`" if upper else tall
        raise ValueError(f"`Gram(factor=...)` must {wanted}, got shape {T.shape}.")
    if upper and not isinstance(T, Tracer) and np.any(np.tril(T, -1)):
        name = "`Gram(factor=..., upper=True)`"
        raise ValueError(f"{name} must be zero below the diagonal; leave out `upper`.")
    return T


def check_pair(A, B, call: str) -> None:
    """Refuse what is not two SPD values of one size, with batch dimensions that broadcast."""
    for value in (A, B):
        if not hasattr(value, "logdet_and_whiten"):
            use = "use `Gram.from_dense(A)` for a dense matrix"
            raise ValueError(
                f"`{call}` takes two SPD values, got {type(value).__name__}; {use}."
            )
    if A.dim != B.dim:
        got = f"got {A.dim} x {A.dim} and {B.dim} x {B.dim}"
        raise ValueError(f"`{call}` needs matrices of one size, {got}.")
    try:
        jnp.broadcast_shapes(A.batch_shape, B.batch_shape)
    except ValueError:
        batches = f"{A.batch_shape} and {B.batch_shape}"
        raise ValueError(
            f"`{call}` cannot broadcast batch dimensions {batches}."
        ) from None


def together(A, B, trailing: int = 2) -> tuple:
    """Two trees in one dtype and batch shape, before `trailing` axes of the first array of each."""
    a, b = (jax.tree.leaves(tree)[0] for tree in (A, B))
    batch = jnp.broadcast_shapes(a.shape[:-trailing], b.shape[:-trailing])
    dtype = jnp.promote_types(a.dtype, b.dtype)

    def expand(tree, lead: int):
        return jax.tree.map(
            lambda x: jnp.broadcast_to(x, batch + x.shape[lead:]).astype(dtype), tree
        )

    return expand(A, a.ndim - trailing), expand(B, b.ndim - trailing)


def norm(x: Array, axis, argument: str) -> Array:
    """The Frobenius norm, of numbers scaled to one first: squares of tiny or huge ones overflow."""
    largest = jax.lax.stop_gradient(jnp.max(jnp.abs(x), axis=axis, keepdims=True))
    if not isinstance(largest, Tracer) and np.any(np.asarray(largest) == 0):
        why = "the zero matrix has no multiple of trace one"
        raise ValueError(f"`{argument}` must not be all zeros: {why}.")
    return largest * jnp.sqrt(jnp.sum((x / largest) ** 2, axis=axis, keepdims=True))


def root_of(c: ArrayLike, argument: str) -> Array:
    c = jnp.asarray(c)
    if not isinstance(c, Tracer) and not np.all(np.asarray(c) > 0):
        raise ValueError(f"`{argument}` must be positive, got {np.min(np.asarray(c))}.")
    return jnp.sqrt(c)


def rows_of(T: Array, x: Array | None, batch: tuple[int, ...]) -> Array:
    """The rows of T (..., m, d), and x (..., d) if given, in front of these batch dimensions."""
    if x is not None:
        T = jnp.concatenate(together(T, x[..., None, :]), axis=-2)
    batch = jnp.broadcast_shapes(batch, T.shape[:-2])
    return jnp.moveaxis(jnp.broadcast_to(T, batch + T.shape[-2:]), -2, 0)


def rectangle(W: ArrayLike, d: int, argument: str) -> Array:
    """W (..., k, d) of a congruence, with k <= d."""
    W = jnp.asarray(check_floats(W, argument, "(..., k, d)", ndim=2))
    if W.shape[-1] != d or W.shape[-2] > d:
        wanted = f"have shape (..., k, {d}) with k <= {d}, or W A W' is singular"
        raise ValueError(f"`{argument}` must {wanted}, got shape {W.shape}.")
    return W


def some_of(columns, d: int, argument: str) -> np.ndarray:
    """Distinct places from 0 to d - 1, from a slice or a list of whole numbers."""
    if isinstance(columns, Tracer):
        raise ValueError(
            f"`{argument}` must be known numbers, not traced ones; use NumPy for it."
        )
    try:
        index = list(columns) if isinstance(columns, tuple) else columns
        chosen = np.atleast_1d(np.arange(d)[index])
    except (IndexError, TypeError, ValueError):
        chosen = np.array([], int)
    if chosen.ndim != 1 or len(chosen) == 0 or len(set(chosen.tolist())) < len(chosen):
        wanted = f"must be distinct columns of 0 to {d - 1}, such as {[0, d - 1][: min(d, 2)]}"
        raise ValueError(f"`{argument}` {wanted}, got {columns!r:.80}.")
    return chosen


class Columns:
    """Vectors x (..., d) as columns, so that many of them share one factorisation of a matrix.

    Dimensions of x in front of the matrix's batch dimensions become columns; the others broadcast,
    and so does the matrix where its dimensions have length one.
    """

    def __init__(self, own: tuple[int, ...], x: Array, argument: str):
        theirs = ((1,) * len(own) + x.shape[:-1])[len(x.shape) - 1 :]
        self.batch = tuple(b if a == 1 else a for a, b in zip(own, theirs, strict=True))
        if any(b not in (1, a) for a, b in zip(self.batch, theirs, strict=True)):
            dimensions = f"{x.shape[:-1]} against batch dimensions {own}"
            raise ValueError(f"`{argument}` cannot broadcast {dimensions}.")
        self.extra = x.shape[: max(x.ndim - 1 - len(own), 0)]
        x = x.reshape(-1, *x.shape[len(self.extra) :])  # (k, ..., d)
        x = jnp.broadcast_to(x, (x.shape[0], *self.batch, x.shape[-1]))
        self.array = jnp.moveaxis(x, 0, -1)  # (..., d, k)

    def matrix(self, T: Array) -> Array:
        """T with the batch dimensions and the dtype of the columns."""
        return jnp.broadcast_to(T, self.batch + T.shape[-2:]).astype(self.array.dtype)

    def restore(self, columns: Array) -> Array:
        x = jnp.moveaxis(columns, -1, 0)
        return x.reshape(*self.extra, *x.shape[1:])


def cholesky_or_explain(A: np.ndarray) -> np.ndarray:
    """Upper Cholesky factors in float64, or what is wrong with the first matrix that has none."""
    if A.shape[-1] != A.shape[-2]:
        raise ValueError(
            f"`Gram.from_dense(A=...)` must have shape (..., d, d), got shape {A.shape}."
        )
    tolerance = np.sqrt(
        np.finfo(A.dtype).eps
    )  # half the digits: rounding passes, a slip does not
    matrices = A.astype(np.float64).reshape(-1, *A.shape[-2:])
    factors = np.empty_like(matrices)
    for i, matrix in enumerate(matrices):
        index = tuple(int(k) for k in np.unravel_index(i, A.shape[:-2]))
        asymmetry = np.abs(matrix - matrix.T).max()
        if asymmetry > tolerance * np.abs(matrix).max():
            raise MatrixError(
                "must be symmetric",
                f"has entries across the diagonal that differ by {asymmetry:.3g}",
                index=index,
                call="Gram.from_dense",
                argument="A",
                remedy="use (A + A.T) / 2 if that is meant",
            )
        try:
            factors[i] = np.linalg.cholesky((matrix + matrix.T) / 2).T
        except np.linalg.LinAlgError:
            smallest = np.linalg.eigvalsh(matrix)[0]
            raise MatrixError(
                "must be positive definite",
                f"has smallest eigenvalue {smallest:.3g}",
                index=index,
                call="Gram.from_dense",
                argument="A",
                remedy="a sample covariance needs more samples than dimensions, or shrinkage",
            ) from None
    return factors.reshape(A.shape)
