"""float32 matrices larger than 32 by way of float64, on GPUs where that is as fast.

There an LU decomposition takes ten times as long as Cholesky's, and an SVD of many matrices takes
a second. T'T = LL' and T'T = V diag(s^2) V' are not slow, and in float64 a square costs nothing
that float32 had: errors are of the order 1e-16 cond(T)^2, those of float32 6e-8 cond(T).

What a program in float32 can carry of L are its bits. Every use of float64 stands inside a
primitive: it sees whole batches, so that what is needed for a few matrices only is not computed for
all, and derivatives never pass through it. Arguments share their leading dimensions.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jax import Array, lax

from mmlp.linalg.primitive import primitive

SMALL = 32  # up to here the usual decompositions are fast
FAST = (
    "6.0",
    "7.0",
    "8.0",
    "9.0",
    "10.0",
)  # compute capabilities with whole float64 units


def by_double(T: Array) -> bool:
    """Whether to take this way for T (..., m, d)."""
    return T.dtype == jnp.float32 and T.shape[-1] > SMALL and _is_fast()


def _is_fast() -> bool:
    return any(
        getattr(x, "compute_capability", None) in FAST for x in jax.local_devices()
    )


def _no_rule(primals, tangents):
    raise NotImplementedError("a decomposition has no derivative of its own")


@partial(primitive, rule=_no_rule)
def spectrum_of_square(T: Array) -> Array:
    """V (..., d, d) and, in a last row, s (..., 1, d): T'T = V diag(s^2) V', the largest first."""
    with jax.enable_x64(True):
        squares, V = jnp.linalg.eigh(_square(T), symmetrize_input=False)
        rows = jnp.concatenate([V, jnp.sqrt(jnp.abs(squares))[..., None, :]], axis=-2)
        return rows[..., ::-1].astype(T.dtype)


@partial(primitive, rule=_no_rule)
def polar_by_eigh(M: Array) -> Array:
    """The orthogonal factor UV' of M = USV' (..., d, d).

    [0 M'; M 0] has eigenvalues s and eigenvectors (v, u) / sqrt(2); where s is zero they say
    nothing, and the SVD is taken.
    """
    d = M.shape[-1]
    with jax.enable_x64(True):
        whole = M.astype(jnp.float64)
        s, vectors = jnp.linalg.eigh(doubled(whole), symmetrize_input=False)
        s, v, u = s[..., d:], vectors[..., :d, d:], vectors[..., d:, d:]
        unclear = s[..., 0] <= d * jnp.finfo(s.dtype).eps * s[..., -1]

        def by_svd():
            U, _, Vt = jnp.linalg.svd(whole, full_matrices=False)
            return U @ Vt

        W = 2 * u @ v.mT
        return _where_needed(unclear, by_svd, W).astype(M.dtype)


@partial(primitive, rule=_no_rule)
def cholesky_bits(T: Array) -> Array:
    """The bits (..., d, d, 2) of L, T'T = LL' in float64; NaN where that has no Cholesky factor."""
    with jax.enable_x64(True):
        L = jnp.linalg.cholesky(_square(T), symmetrize_input=False)
        return lax.bitcast_convert_type(L, jnp.uint32)


@partial(primitive, rule=_no_rule)
def log_abs_det(T: Array, bits: Array) -> Array:
    """log|det T|, shape (...)."""
    with jax.enable_x64(True):
        L = _from_bits(bits)

        def by_lu():
            return log_abs_diagonal(lax.linalg.lu(T.astype(L.dtype))[0])

        value = _where_needed(jnp.isnan(L[..., -1, -1]), by_lu, log_abs_diagonal(L))
        return value.astype(T.dtype)


def solver(transpose: bool, refine: bool):
    """b -> T^-1 b or T^-T b (..., d, k), for T and the bits of its Cholesky factor."""
    return _SOLVERS[transpose, refine]


def _solver(transpose: bool, refine: bool):
    """T^-1 b = (T'T)^-1 T'b, T^-T b = T (T'T)^-1 b; with `refine`, a second step from the rest."""

    def solve_by_cholesky(T: Array, bits: Array, b: Array) -> Array:
        with jax.enable_x64(True):
            L, whole, y = _from_bits(bits), T.astype(jnp.float64), b.astype(jnp.float64)
            triangle = partial(
                lax.linalg.triangular_solve, L, left_side=True, lower=True
            )

            def once(y):
                y = y if transpose else whole.mT @ y
                y = triangle(triangle(y), transpose_a=True)
                return whole @ y if transpose else y

            def by_lu():
                lu = lax.linalg.lu(whole)[0]
                singular = jnp.any(jnp.diagonal(lu, axis1=-2, axis2=-1) == 0, axis=-1)
                x = jnp.linalg.solve(whole.mT if transpose else whole, y)
                return jnp.where(singular[..., None, None], jnp.inf, x)

            x = once(y)
            if refine:
                x = x + once(y - (whole.mT if transpose else whole) @ x)
            return _where_needed(jnp.isnan(L[..., -1, -1]), by_lu, x).astype(b.dtype)

    return primitive(solve_by_cholesky, _no_rule)


_SOLVERS = {(t, r): _solver(t, r) for t in (False, True) for r in (False, True)}


def doubled(T: Array) -> Array:
    """[0 T'; T 0], which does not square T: eigenvalues s, -s and zeros, eigenvectors (v, u)."""
    m, d = T.shape[-2:]
    zeros = jnp.zeros((*T.shape[:-2], d + m, d + m), T.dtype)
    return zeros.at[..., d:, :d].set(T).at[..., :d, d:].set(T.mT)


def _square(T: Array) -> Array:
    T = T.astype(jnp.float64)
    return T.mT @ T


def _from_bits(bits: Array) -> Array:
    return lax.bitcast_convert_type(bits, jnp.float64)


def log_abs_diagonal(T: Array) -> Array:
    return jnp.sum(jnp.log(jnp.abs(jnp.diagonal(T, axis1=-2, axis2=-1))), axis=-1)


def _where_needed(needed: Array, other, x: Array) -> Array:
    """other() for the matrices (...) that need it, computed only if there are any; else x."""
    where = needed.reshape(needed.shape + (1,) * (x.ndim - needed.ndim))
    return lax.cond(jnp.any(needed), lambda: jnp.where(where, other(), x), lambda: x)
