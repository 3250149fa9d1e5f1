"""Decompositions of large float32 matrices in float64, on GPUs where that is faster.

On GPUs an LU decomposition of a matrix larger than 32 takes ten times as long as a
Cholesky decomposition, and a batch of SVDs takes a second. The decompositions T'T = LL'
and T'T = V diag(s^2) V' are fast, and in float64 squaring T loses nothing that float32
had: errors are of the order 1e-16 cond(T)^2, those of float32 6e-8 cond(T).

A program in float32 carries L as its bits. Every use of float64 is inside a primitive:
it sees whole batches, so that the fallback for a few singular matrices is computed only
if there are any, and derivatives never pass through it. Arguments share their leading
dimensions.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from mmlp.linalg.primitive import primitive

# Up to this size the standard decompositions are fast on every device.
MAX_STANDARD_DIM = 32

# The compute capabilities of NVIDIA GPUs with full-rate float64 units.
CAPABILITIES_WITH_FAST_FLOAT64 = ("6.0", "7.0", "8.0", "9.0", "10.0")


def uses_float64(T: Array) -> bool:
    """Return whether T (..., m, d) is decomposed in float64."""
    return (
        T.dtype == jnp.float32
        and T.shape[-1] > MAX_STANDARD_DIM
        and _has_fast_float64()
    )


def _has_fast_float64() -> bool:
    """Return whether a local device computes in float64 at full rate."""
    return any(
        getattr(device, "compute_capability", None) in CAPABILITIES_WITH_FAST_FLOAT64
        for device in jax.local_devices()
    )


def _refuse_derivative(primals, tangents):
    raise NotImplementedError("a decomposition has no derivative of its own")


@partial(primitive, rule=_refuse_derivative)
def spectrum_of_square(T: Array) -> Array:
    """Decompose T'T = V diag(s^2) V', with the largest s first.

    Returns V and s in one array of shape (..., d + 1, d): s is its last row.
    """
    with jax.enable_x64(True):
        squares, V = jnp.linalg.eigh(_square(T), symmetrize_input=False)
        rows = jnp.concatenate([V, jnp.sqrt(jnp.abs(squares))[..., None, :]], axis=-2)
        return rows[..., ::-1].astype(T.dtype)


@partial(primitive, rule=_refuse_derivative)
def polar_by_eigh(M: Array) -> Array:
    """Return the orthogonal factor UV' of M = USV' (..., d, d).

    [0 M'; M 0] has eigenvalues s and eigenvectors (v, u) / sqrt(2). Where s is zero
    they are not determined, and the SVD is taken.
    """
    d = M.shape[-1]
    with jax.enable_x64(True):
        wide = M.astype(jnp.float64)
        eigenvalues, vectors = jnp.linalg.eigh(
            jordan_wielandt(wide), symmetrize_input=False
        )
        s = eigenvalues[..., d:]
        v = vectors[..., :d, d:]
        u = vectors[..., d:, d:]
        undetermined = s[..., 0] <= d * jnp.finfo(s.dtype).eps * s[..., -1]

        def compute_by_svd():
            U, _, Vt = jnp.linalg.svd(wide, full_matrices=False)
            return U @ Vt

        W = 2 * u @ v.mT
        return _replace_where(undetermined, compute_by_svd, W).astype(M.dtype)


@partial(primitive, rule=_refuse_derivative)
def cholesky_bits(T: Array) -> Array:
    """Return the bits (..., d, d, 2) of L in float64, with T'T = LL'.

    L is NaN where T'T has no Cholesky factor.
    """
    with jax.enable_x64(True):
        L = jnp.linalg.cholesky(_square(T), symmetrize_input=False)
        return lax.bitcast_convert_type(L, jnp.uint32)


@partial(primitive, rule=_refuse_derivative)
def log_abs_det(T: Array, bits: Array) -> Array:
    """Return log|det T|, shape (...), from T and the bits of its Cholesky factor."""
    with jax.enable_x64(True):
        L = _from_bits(bits)

        def compute_by_lu():
            return log_abs_diagonal(lax.linalg.lu(T.astype(L.dtype))[0])

        failed = jnp.isnan(L[..., -1, -1])
        value = _replace_where(failed, compute_by_lu, log_abs_diagonal(L))
        return value.astype(T.dtype)


def get_solver(transpose: bool, refine: bool) -> Callable[..., Array]:
    """Return the function (T, bits, b) -> T^-1 b or T^-T b for b (..., d, k)."""
    return _SOLVERS[transpose, refine]


def _make_solver(transpose: bool, refine: bool) -> Callable[..., Array]:
    """Make the primitive that solves with the Cholesky factor L of T'T.

    T^-1 b = (T'T)^-1 T'b and T^-T b = T (T'T)^-1 b. With `refine`, a second step solves
    for the residual of the first.
    """

    def solve_by_cholesky(T: Array, bits: Array, b: Array) -> Array:
        with jax.enable_x64(True):
            L = _from_bits(bits)
            wide = T.astype(jnp.float64)
            y = b.astype(jnp.float64)
            solve_triangle = partial(
                lax.linalg.triangular_solve, L, left_side=True, lower=True
            )

            def solve_once(y):
                y = y if transpose else wide.mT @ y
                y = solve_triangle(solve_triangle(y), transpose_a=True)
                return wide @ y if transpose else y

            def compute_by_lu() -> Any:
                lu = lax.linalg.lu(wide)[0]
                singular = jnp.any(jnp.diagonal(lu, axis1=-2, axis2=-1) == 0, axis=-1)
                x = jnp.linalg.solve(wide.mT if transpose else wide, y)
                return jnp.where(singular[..., None, None], jnp.inf, x)

            x = solve_once(y)
            if refine:
                residual = y - (wide.mT if transpose else wide) @ x
                x = x + solve_once(residual)
            failed = jnp.isnan(L[..., -1, -1])
            return _replace_where(failed, compute_by_lu, x).astype(b.dtype)

    return primitive(solve_by_cholesky, _refuse_derivative)


_SOLVERS = {
    (transpose, refine): _make_solver(transpose, refine)
    for transpose in (False, True)
    for refine in (False, True)
}


def jordan_wielandt(T: Array) -> Array:
    """Return [0 T'; T 0], whose eigenvalues are s, -s and zeros.

    Its eigenvectors are (v, u) / sqrt(2). Unlike T'T it does not square T.
    """
    m, d = T.shape[-2:]
    zeros = jnp.zeros((*T.shape[:-2], d + m, d + m), T.dtype)
    return zeros.at[..., d:, :d].set(T).at[..., :d, d:].set(T.mT)


def log_abs_diagonal(T: Array) -> Array:
    """Return the sum of log|T_ii|, shape (...)."""
    return jnp.sum(jnp.log(jnp.abs(jnp.diagonal(T, axis1=-2, axis2=-1))), axis=-1)


def _square(T: Array) -> Array:
    """Return T'T in float64."""
    T = T.astype(jnp.float64)
    return T.mT @ T


def _from_bits(bits: Array) -> Array:
    return lax.bitcast_convert_type(bits, jnp.float64)


def _replace_where(mask: Array, compute: Callable[[], Array], x: Array) -> Array:
    """Replace the entries of a batch x where `mask` (...) is true by compute().

    Nothing is computed if the mask is false everywhere.
    """
    where = mask.reshape(mask.shape + (1,) * (x.ndim - mask.ndim))
    return lax.cond(jnp.any(mask), lambda: jnp.where(where, compute(), x), lambda: x)
