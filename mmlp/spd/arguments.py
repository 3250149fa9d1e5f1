"""Checks and conversions of what the SPD values take: factors, vectors, columns."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer
from jax.typing import ArrayLike

from mmlp.argument_checks import check_floats
from mmlp.errors import MatrixError


def check_array(x: ArrayLike, argument: str, shape: str, *, ndim: int) -> Any:
    """Return `x` as an array of float32 or float64, the dtypes of decompositions.

    The arguments are those of `mmlp.argument_checks.check_floats`.
    """
    array = check_floats(x, argument, shape, ndim=ndim)
    if array.dtype.itemsize < 4:
        raise ValueError(
            f"`{argument}` must be of float32 or float64, got {array.dtype}; "
            'use `.astype("float32")`.'
        )
    return array


def check_factor(factor: ArrayLike, upper: bool) -> Array:
    """Return the factor of a `Gram`: square or tall, and a triangle if `upper`."""
    T = jnp.asarray(check_array(factor, "Gram(factor=...)", "(..., m, d)", ndim=2))
    m, d = T.shape[-2:]

    if upper and m != d:
        raise ValueError(
            f"`Gram(factor=...)` must be square to be `upper`, got shape {T.shape}."
        )
    if m < d:
        raise ValueError(
            "`Gram(factor=...)` must have at least as many rows as columns, "
            f"or T'T is singular, got shape {T.shape}."
        )
    if upper and not isinstance(T, Tracer) and np.any(np.tril(T, -1)):
        raise ValueError(
            "`Gram(factor=..., upper=True)` must be zero below the diagonal; "
            "leave out `upper`."
        )
    return T


def check_pair(A: Any, B: Any, call: str) -> None:
    """Raise unless A and B are SPD values of one size whose batches broadcast."""
    for value in (A, B):
        if not hasattr(value, "logdet_and_whiten"):
            raise ValueError(
                f"`{call}` takes two SPD values, got {type(value).__name__}; "
                "use `Gram.from_dense(A)` for a dense matrix."
            )
    if A.dim != B.dim:
        raise ValueError(
            f"`{call}` needs matrices of one size, "
            f"got {A.dim} x {A.dim} and {B.dim} x {B.dim}."
        )
    try:
        jnp.broadcast_shapes(A.batch_shape, B.batch_shape)
    except ValueError:
        raise ValueError(
            f"`{call}` cannot broadcast batch dimensions "
            f"{A.batch_shape} and {B.batch_shape}."
        ) from None


def broadcast_together(A: Any, B: Any, trailing: int = 2) -> tuple[Any, Any]:
    """Return two trees of arrays in one dtype and with one batch shape.

    The batch dimensions of a tree are those of its first array, before its last
    `trailing` axes.
    """
    a = jax.tree.leaves(A)[0]
    b = jax.tree.leaves(B)[0]
    batch = jnp.broadcast_shapes(a.shape[:-trailing], b.shape[:-trailing])
    dtype = jnp.promote_types(a.dtype, b.dtype)

    def expand(tree: Any, n_batch_axes: int) -> Any:
        def expand_array(x: Array) -> Array:
            return jnp.broadcast_to(x, batch + x.shape[n_batch_axes:]).astype(dtype)

        return jax.tree.map(expand_array, tree)

    return expand(A, a.ndim - trailing), expand(B, b.ndim - trailing)


def frobenius_norm(x: Array, axis: Any, argument: str) -> Array:
    """Return the Frobenius norm over the given axes, which are kept.

    Entries are scaled to one first, because squares of tiny or huge ones leave the
    range of float32.
    """
    largest = jax.lax.stop_gradient(jnp.max(jnp.abs(x), axis=axis, keepdims=True))
    if not isinstance(largest, Tracer) and np.any(np.asarray(largest) == 0):
        raise ValueError(
            f"`{argument}` must not be all zeros: "
            "the zero matrix has no multiple of trace one."
        )
    return largest * jnp.sqrt(jnp.sum((x / largest) ** 2, axis=axis, keepdims=True))


def positive_sqrt(c: ArrayLike, argument: str) -> Array:
    """Return the square root of positive numbers."""
    c = jnp.asarray(c)
    if not isinstance(c, Tracer) and not np.all(np.asarray(c) > 0):
        raise ValueError(f"`{argument}` must be positive, got {np.min(np.asarray(c))}.")
    return jnp.sqrt(c)


def list_rows(T: Array, x: Array | None, batch: tuple[int, ...]) -> Array:
    """Return the rows of T (..., m, d), and x (..., d) if given, as a leading axis.

    The other leading dimensions broadcast with `batch`.
    """
    if x is not None:
        T = jnp.concatenate(broadcast_together(T, x[..., None, :]), axis=-2)
    batch = jnp.broadcast_shapes(batch, T.shape[:-2])
    return jnp.moveaxis(jnp.broadcast_to(T, batch + T.shape[-2:]), -2, 0)


def check_congruence(W: ArrayLike, d: int, argument: str) -> Array:
    """Return W (..., k, d) of a congruence, with k <= d."""
    W = jnp.asarray(check_floats(W, argument, "(..., k, d)", ndim=2))
    if W.shape[-1] != d or W.shape[-2] > d:
        raise ValueError(
            f"`{argument}` must have shape (..., k, {d}) with k <= {d}, "
            f"or W A W' is singular, got shape {W.shape}."
        )
    return W


def check_columns(columns: Any, d: int, argument: str) -> np.ndarray:
    """Return distinct column indices from 0 to d - 1, from a slice or a list."""
    if isinstance(columns, Tracer):
        raise ValueError(
            f"`{argument}` must be known numbers, not traced ones; use NumPy for it."
        )
    try:
        index = list(columns) if isinstance(columns, tuple) else columns
        indices = np.atleast_1d(np.arange(d)[index])
    except (IndexError, TypeError, ValueError):
        indices = np.array([], int)

    distinct = len(set(np.ravel(indices).tolist())) == indices.size
    if indices.ndim != 1 or len(indices) == 0 or not distinct:
        example = [0, d - 1][: min(d, 2)]
        raise ValueError(
            f"`{argument}` must be distinct columns of 0 to {d - 1}, "
            f"such as {example}, got {columns!r:.80}."
        )
    return indices


class Columns:
    """Vectors x (..., d) as columns, which share one decomposition of a matrix.

    Dimensions of x in front of the matrix's batch dimensions become columns. The others
    broadcast, and so does the matrix where its dimensions have length one.

    Parameters
    ----------
    matrix_batch : tuple of int
        Batch dimensions of the matrix.
    x : Array of shape (..., d)
    argument : str
        Name of the argument in errors.
    """

    def __init__(self, matrix_batch: tuple[int, ...], x: Array, argument: str) -> None:
        n_batch = len(matrix_batch)
        vector_batch = ((1,) * n_batch + x.shape[:-1])[len(x.shape) - 1 :]
        self.batch = tuple(
            b if a == 1 else a for a, b in zip(matrix_batch, vector_batch, strict=True)
        )
        if any(b not in (1, a) for a, b in zip(self.batch, vector_batch, strict=True)):
            raise ValueError(
                f"`{argument}` cannot broadcast {x.shape[:-1]} "
                f"against batch dimensions {matrix_batch}."
            )

        self.extra = x.shape[: max(x.ndim - 1 - n_batch, 0)]
        x = x.reshape(-1, *x.shape[len(self.extra) :])  # (k, ..., d)
        x = jnp.broadcast_to(x, (x.shape[0], *self.batch, x.shape[-1]))
        self.array = jnp.moveaxis(x, 0, -1)  # (..., d, k)

    def match(self, T: Array) -> Array:
        """Return a matrix with the batch dimensions and the dtype of the columns."""
        return jnp.broadcast_to(T, self.batch + T.shape[-2:]).astype(self.array.dtype)

    def restore(self, columns: Array) -> Array:
        """Return columns (..., d, k) as vectors in the shape of x."""
        x = jnp.moveaxis(columns, -1, 0)
        return x.reshape(*self.extra, *x.shape[1:])


def cholesky_or_raise(A: np.ndarray) -> np.ndarray:
    """Return upper Cholesky factors in float64.

    The error names the first matrix that has none, and what is wrong with it.
    """
    if A.shape[-1] != A.shape[-2]:
        raise ValueError(
            "`Gram.from_dense(A=...)` must have shape (..., d, d), "
            f"got shape {A.shape}."
        )

    # Half of the digits: rounding errors pass, mistakes do not.
    tolerance = np.sqrt(np.finfo(A.dtype).eps)
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
                remedy="a sample covariance needs more samples than dimensions, "
                "or shrinkage",
            ) from None
    return factors.reshape(A.shape)
