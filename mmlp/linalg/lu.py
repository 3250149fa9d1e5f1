"""log|det T| and T^-1 b from one LU decomposition PT = LU, with all derivatives.

A small T is decomposed with the identity at its side: P(T, I) = L(U, N). Then
N = L^-1 P gives T^-1 = U^-1 N without a permutation, which would take longer than the
solution itself. On some GPUs a Cholesky decomposition takes the place of LU
(`linalg/float64.py`). Functions do not broadcast: their arguments share the leading
(batch) dimensions.
"""

from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jax import Array, lax

from mmlp.linalg import float64
from mmlp.linalg.primitive import full_precision, match_varying_axes, primitive


class Factorised(NamedTuple):
    """A square T, which carries the derivatives, and its decomposition.

    All but the matrix are None where T is an upper triangle.
    """

    matrix: Array  # (..., d, d)
    lu: Array | None = None  # U on and above the diagonal
    permutation: Array | None = None  # (..., d): row i of PT is row permutation[i] of T
    reduced: Array | None = None  # N = L^-1 P, in place of the permutation
    cholesky: Array | None = None  # bits of L, T'T = LL', in place of all of them


def factorise(T: Array, *, upper: bool = False) -> Factorised:
    """Decompose T (..., d, d), unless it is an upper triangle."""
    if upper or T.shape[-1] == 1:
        return Factorised(T)

    d = T.shape[-1]
    constant = lax.stop_gradient(T)
    if float64.uses_float64(T):
        return Factorised(T, cholesky=float64.cholesky_bits(constant))
    if d <= float64.MAX_STANDARD_DIM:
        lu = lax.platform_dependent(
            constant, cuda=_lu_of_square, default=_lu_with_identity
        )
        return Factorised(T, lu[..., :d], reduced=lu[..., d:])
    lu, _, permutation = lax.linalg.lu(constant)
    return Factorised(T, lu, permutation)


def _lu_with_identity(T: Array) -> Array:
    """Return (U, L^-1 P), shape (..., d, 2d), with L below the diagonal of U."""
    identity = jnp.broadcast_to(jnp.eye(T.shape[-1], dtype=T.dtype), T.shape)
    return lax.linalg.lu(jnp.concatenate([T, identity], axis=-1))[0]


def _lu_of_square(T: Array) -> Array:
    """Return the same from the square matrix (T, I) above (0, I).

    CUDA decomposes only square matrices as a batch.
    """
    d = T.shape[-1]
    identity = jnp.broadcast_to(jnp.eye(d, dtype=T.dtype), T.shape)
    rows = [[T, identity], [jnp.zeros_like(T), identity]]
    return lax.linalg.lu(jnp.block(rows))[0][..., :d, :]


class Root(eqx.Module):
    """A square factor T, and whether it is an upper triangle.

    An upper triangle is not decomposed.
    """

    matrix: Array  # (..., d, d)
    upper: bool = eqx.field(static=True)

    def factorise(self) -> Factorised:
        """Decompose the matrix."""
        return factorise(self.matrix, upper=self.upper)


def log_abs_det(F: Factorised) -> Array:
    """Return log|det T|, shape (...); -inf where T is singular."""
    if F.lu is None and F.cholesky is None:
        return float64.log_abs_diagonal(F.matrix)
    return _log_abs_det(F)


def _log_abs_det_rule(primals, tangents):
    """d log|det T| = tr(T^-1 dT)."""
    return jnp.trace(solve(primals[0], tangents[0].matrix), axis1=-2, axis2=-1)


@partial(primitive, rule=_log_abs_det_rule)
def _log_abs_det(F):
    if F.cholesky is not None:
        return float64.log_abs_det(F.matrix, F.cholesky)
    return float64.log_abs_diagonal(F.lu)


@full_precision
def solve(
    F: Factorised, b: Array, *, transpose: bool = False, refine: bool = False
) -> Array:
    """Return T^-1 b, or T^-T b, for columns b; infinite where T is singular.

    d(T^-1 b) = T^-1 (db - dT T^-1 b).

    Parameters
    ----------
    F : Factorised
    b : Array of shape (..., d, k)
    transpose : bool, default=False
        Whether to solve with T'.
    refine : bool, default=False
        Whether to take a second step from the residual in about twice the precision.
        In float32 it recovers the digits that conditioning had cost, for cond(T) of up
        to about 1e6. float64 has digits to spare and is not refined.

    Returns
    -------
    Array of shape (..., d, k)
    """
    F, b = match_varying_axes((F, b))
    T = F.matrix.mT if transpose else F.matrix
    if F.cholesky is not None:
        return _solve_by_cholesky(F, b, T, transpose=transpose, refine=refine)

    triangle = F.matrix if F.lu is None else F.lu
    zero_on_diagonal = jnp.diagonal(triangle, axis1=-2, axis2=-1) == 0
    singular = jnp.any(zero_on_diagonal, axis=-1)[..., None, None]

    def solve_once(y, transpose):
        if F.lu is not None and F.reduced is not None:
            x = _reduced_solve(F.lu, F.reduced, y, transpose=transpose)
        elif F.lu is None or F.permutation is None:
            x = lax.linalg.triangular_solve(
                F.matrix, y, left_side=True, transpose_a=transpose
            )
        else:
            x = _lu_solve(F.lu, F.permutation, y, transpose=transpose)
        return jnp.where(singular, jnp.inf, x)

    def solve_and_refine(_, y):
        x = solve_once(y, transpose)
        if refine and y.dtype == jnp.float32:
            correction = solve_once(_residual(lax.stop_gradient(T), x, y), transpose)
            x = jnp.where(jnp.isfinite(correction), x + correction, x)
        return x

    return lax.custom_linear_solve(
        lambda x: T @ x,
        b,
        solve_and_refine,
        lambda _, y: solve_once(y, not transpose),
    )


def _solve_by_cholesky(
    F: Factorised, b: Array, T: Array, *, transpose: bool, refine: bool
) -> Array:
    """Solve with T, the matrix of F or its transpose, by the Cholesky factor of F."""
    matrix = lax.stop_gradient(F.matrix)
    solve_forward = float64.get_solver(transpose, refine)
    solve_backward = float64.get_solver(not transpose, False)
    return lax.custom_linear_solve(
        lambda x: T @ x,
        b,
        lambda _, y: solve_forward(matrix, F.cholesky, y),
        lambda _, y: solve_backward(matrix, F.cholesky, y),
    )


def _residual(T: Array, x: Array, b: Array) -> Array:
    """Return b - Tx of float32 arrays, several digits more accurate than float32.

    Each array is split into a leading part, of so few bits that the product of leading
    parts is exact in whatever order its terms are added, and a remainder (the idea of
    Ozaki et al., 2012). The exact product cancels b; the other products are smaller,
    and so are their rounding errors.
    """
    bits = (24 - (T.shape[-1] - 1).bit_length()) // 2
    T_lead = _leading_bits(T, bits, axis=-1)
    x_lead = _leading_bits(x, bits, axis=-2)
    return (b - T_lead @ x_lead) - (T_lead @ (x - x_lead) + (T - T_lead) @ x)


def _leading_bits(x: Array, bits: int, axis: int) -> Array:
    """Round x, of float32, to `bits` bits below the largest entry along `axis`."""
    largest = jnp.max(jnp.abs(x), axis=axis, keepdims=True)
    exponent = lax.bitcast_convert_type(largest, jnp.int32) & 0x7F800000
    grid = lax.bitcast_convert_type(exponent, jnp.float32) * 2.0 ** (25 - bits)
    return (x + grid) - grid


def _reduced_solve(lu: Array, N: Array, b: Array, *, transpose: bool) -> Array:
    """Return U^-1 (N b), or N' (U^-T b)."""
    solve_triangle = partial(
        lax.linalg.triangular_solve, lu, left_side=True, transpose_a=transpose
    )
    return N.mT @ solve_triangle(b) if transpose else solve_triangle(N @ b)


def _lu_solve(lu: Array, permutation: Array, b: Array, *, transpose: bool) -> Array:
    """Return T^-1 b for T = P'LU, or T^-T b for T' = U'L'P."""
    solve_triangle = partial(
        lax.linalg.triangular_solve, lu, left_side=True, transpose_a=transpose
    )
    rows = permutation[..., None]
    if transpose:
        y = solve_triangle(b, lower=False)
        y = solve_triangle(y, lower=True, unit_diagonal=True)
        return jnp.take_along_axis(y, jnp.argsort(rows, axis=-2), axis=-2)
    y = jnp.take_along_axis(b, rows, axis=-2)
    y = solve_triangle(y, lower=True, unit_diagonal=True)
    return solve_triangle(y, lower=False)
