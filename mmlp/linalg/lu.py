"""One LU decomposition PT = LU of a square T: log|det T| and T^-1 b, with all orders of derivative.

That of a small T is taken with the identity at its side: P(T, I) = L(U, N), and N = L^-1 P makes
T^-1 = U^-1 N, without a permutation, which takes longer than all the rest. On some GPUs a Cholesky
decomposition takes its place (`linalg/double.py`).
Functions broadcast nothing: their arguments share the leading (batch) dimensions.
"""

from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jax import Array, lax

from mmlp.linalg import double
from mmlp.linalg.primitive import full_precision, primitive, varying_alike


class Factorised(NamedTuple):
    """A square T, which carries the derivatives, and its LU; None for an upper triangle."""

    matrix: Array  # (..., d, d)
    lu: Array | None = None  # U on and above the diagonal
    permutation: Array | None = None  # (..., d): row i of PT is row permutation[i] of T
    reduced: Array | None = None  # L^-1 P, in place of the permutation
    cholesky: Array | None = None  # bits of L, T'T = LL', in place of all of them


def factorise(T: Array, *, upper: bool = False) -> Factorised:
    if upper or T.shape[-1] == 1:
        return Factorised(T)
    if double.by_double(T):
        return Factorised(T, cholesky=double.cholesky_bits(lax.stop_gradient(T)))
    d, constant = T.shape[-1], lax.stop_gradient(T)
    if d <= double.SMALL:
        lu = lax.platform_dependent(
            constant, cuda=_lu_of_square, default=_lu_with_identity
        )
        return Factorised(T, lu[..., :d], reduced=lu[..., d:])
    lu, _, permutation = lax.linalg.lu(constant)
    return Factorised(T, lu, permutation)


def _lu_with_identity(T: Array) -> Array:
    """(U, L^-1 P), shape (..., d, 2d), with L below the diagonal of U."""
    identity = jnp.broadcast_to(jnp.eye(T.shape[-1], dtype=T.dtype), T.shape)
    return lax.linalg.lu(jnp.concatenate([T, identity], axis=-1))[0]


def _lu_of_square(T: Array) -> Array:
    """The same of (T, I) above (0, I): on CUDA only square matrices are decomposed together."""
    d = T.shape[-1]
    identity = jnp.broadcast_to(jnp.eye(d, dtype=T.dtype), T.shape)
    rows = [[T, identity], [jnp.zeros_like(T), identity]]
    return lax.linalg.lu(jnp.block(rows))[0][..., :d, :]


class Root(eqx.Module):
    """A square factor T, and whether it is upper triangular: then it is not decomposed."""

    matrix: Array  # (..., d, d)
    upper: bool = eqx.field(static=True)

    def factorised(self) -> Factorised:
        return factorise(self.matrix, upper=self.upper)


def log_abs_det(F: Factorised) -> Array:
    """log|det T|, shape (...); -inf when T is singular. d log|det T| = tr(T^-1 dT)."""
    if F.lu is None and F.cholesky is None:
        return double.log_abs_diagonal(F.matrix)
    return _log_abs_det(F)


def _log_abs_det_rule(primals, tangents):
    return jnp.trace(solve(primals[0], tangents[0].matrix), axis1=-2, axis2=-1)


@partial(primitive, rule=_log_abs_det_rule)
def _log_abs_det(F):
    if F.cholesky is not None:
        return double.log_abs_det(F.matrix, F.cholesky)
    return double.log_abs_diagonal(F.lu)


@full_precision
def solve(
    F: Factorised, b: Array, *, transpose: bool = False, refine: bool = False
) -> Array:
    """T^-1 b, or T^-T b, for columns b (..., d, k); infinite when T is singular.

    d(T^-1 b) = T^-1 (db - dT T^-1 b). `refine` takes a second step from the residual in about twice
    the precision. In float32 that gains the digits that conditioning had cost, up to cond(T) of
    1e6 or so; float64 has digits to spare and is left as it is.
    """
    F, b = varying_alike((F, b))
    T = F.matrix.mT if transpose else F.matrix
    if F.cholesky is not None:
        given = lax.stop_gradient(F.matrix), F.cholesky
        there, back = (
            double.solver(transpose, refine),
            double.solver(not transpose, False),
        )
        return lax.custom_linear_solve(
            lambda x: T @ x,
            b,
            lambda _, y: there(*given, y),
            lambda _, y: back(*given, y),
        )
    triangle = F.matrix if F.lu is None else F.lu
    singular = jnp.any(jnp.diagonal(triangle, axis1=-2, axis2=-1) == 0, axis=-1)[
        ..., None, None
    ]

    def once(y, transpose):
        if F.lu is not None and F.reduced is not None:
            x = _reduced_solve(F.lu, F.reduced, y, transpose=transpose)
        elif F.lu is None or F.permutation is None:
            x = lax.linalg.triangular_solve(
                F.matrix, y, left_side=True, transpose_a=transpose
            )
        else:
            x = _lu_solve(F.lu, F.permutation, y, transpose=transpose)
        return jnp.where(singular, jnp.inf, x)

    def refined(_, y):
        x = once(y, transpose)
        if refine and y.dtype == jnp.float32:
            correction = once(_residual(lax.stop_gradient(T), x, y), transpose)
            x = jnp.where(jnp.isfinite(correction), x + correction, x)
        return x

    return lax.custom_linear_solve(
        lambda x: T @ x, b, refined, lambda _, y: once(y, not transpose)
    )


def _residual(T: Array, x: Array, b: Array) -> Array:
    """b - Tx of float32 arrays to several digits more than float32, in float32 products.

    Each is cut into a leading part of so few bits that the product of leading parts is exact, in
    whatever order its terms are added (the idea of Ozaki et al., 2012). It cancels b exactly; the
    rest is smaller, and so is its rounding.
    """
    bits = (24 - (T.shape[-1] - 1).bit_length()) // 2
    T_lead, x_lead = _leading_bits(T, bits, axis=-1), _leading_bits(x, bits, axis=-2)
    return (b - T_lead @ x_lead) - (T_lead @ (x - x_lead) + (T - T_lead) @ x)


def _leading_bits(x: Array, bits: int, axis: int) -> Array:
    """x, of float32, rounded to `bits` bits below the largest entry along `axis`."""
    largest = jnp.max(jnp.abs(x), axis=axis, keepdims=True)
    exponent = lax.bitcast_convert_type(largest, jnp.int32) & 0x7F800000
    grid = lax.bitcast_convert_type(exponent, jnp.float32) * 2.0 ** (25 - bits)
    return (x + grid) - grid


def _reduced_solve(lu: Array, N: Array, b: Array, *, transpose: bool) -> Array:
    """U^-1 (N b), or N' (U^-T b)."""
    triangle = partial(
        lax.linalg.triangular_solve, lu, left_side=True, transpose_a=transpose
    )
    return N.mT @ triangle(b) if transpose else triangle(N @ b)


def _lu_solve(lu: Array, permutation: Array, b: Array, *, transpose: bool) -> Array:
    triangle = partial(
        lax.linalg.triangular_solve, lu, left_side=True, transpose_a=transpose
    )
    rows = permutation[..., None]
    if transpose:  # T = P'LU, so T' = U'L'P
        y = triangle(triangle(b, lower=False), lower=True, unit_diagonal=True)
        return jnp.take_along_axis(y, jnp.argsort(rows, axis=-2), axis=-2)
    y = triangle(jnp.take_along_axis(b, rows, axis=-2), lower=True, unit_diagonal=True)
    return triangle(y, lower=False)
