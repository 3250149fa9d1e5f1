"""A = diag(s)(I + P'P) diag(s) with P = U / s (..., m, d): a square root of it in O(d m^2).

    A = MM',   M = diag(s) R,   R = I + P'(I + C)^-1 P,   R^-1 = I - P'(I + C)^-T C^-1 P

for the lower triangle C with CC' = I + PP'. Indeed RR' = I + P'P holds where Q = I + C, the inverse
of the matrix in the middle, has QQ' = Q + Q' + PP', and that is (Q - I)(Q - I)' = I + PP'. Nothing
but a triangle of size m is decomposed, and derivatives know no equal eigenvalues.

R^-1 x is small where x, P and R are large, so that float32 loses digits like cond(R). Values are
therefore computed in float64, and rounded; products of size d m^2 and less are all that costs. So
is W = C^-1 P, in which derivatives are written: its entries are below one, and 1 - |W_i|^2 tiny
where s_i is.
Functions broadcast nothing: their arguments share the leading dimensions.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from mmlp.linalg.primitive import full_precision, is_zero, primitive, varying_alike


class Thin(NamedTuple):
    """scale and U, which carry the derivatives, and C, rounded, with what the rounding left."""

    scale: Array  # (..., d)
    U: Array  # (..., m, d)
    C: Array  # (..., m, m)
    rest: Array  # (..., m, m)


def factorise(scale: Array, U: Array) -> Thin:
    """Both parts of C; a NaN of one matrix stays its own."""
    both = _triangle(*varying_alike((lax.stop_gradient(scale), lax.stop_gradient(U))))
    return Thin(scale, U, both[..., 0, :, :], both[..., 1, :, :])


def half_log_det(F: Thin) -> Array:
    """log det(A) / 2 = sum log|s| + sum log C_ii, shape (...)."""
    return _sum_of_logs(F.scale, jnp.diagonal(root(F), axis1=-2, axis2=-1))


@full_precision
def times_root(F: Thin, e: Array) -> Array:
    """M e = s o e + U' Q^-1 P e for columns e (..., d, k), with Q = I + C: Q^-1 P = W - Q^-1 W."""
    w, C = shares(F) @ e, root(F)
    w -= _solve(jnp.eye(C.shape[-1], dtype=C.dtype) + C, w)
    return F.scale[..., None] * e + F.U.mT @ w


def solve_root(F: Thin, x: Array, *, transpose: bool = False) -> Array:
    """M^-1 x, or M^-T x, for columns x (..., d, k)."""
    F, x = varying_alike((F, x))
    fixed = lax.stop_gradient(F)
    solves = partial(_inverse, fixed), partial(_inverse_transposed, fixed)
    if not transpose:
        return lax.custom_linear_solve(
            partial(times_root, F),
            x,
            lambda _, x: solves[0](x),
            lambda _, x: solves[1](x),
        )
    # of M', which JAX finds from M
    forward = jax.linear_transpose(partial(times_root, F), x)
    return lax.custom_linear_solve(
        lambda y: forward(y)[0], x, lambda _, x: solves[1](x), lambda _, x: solves[0](x)
    )


def _solve(C: Array, b: Array, *, transpose: bool = False) -> Array:
    """C^-1 b or C^-T b, by the rows of b: LAPACK counts along columns, and so need not copy."""
    return lax.linalg.triangular_solve(
        C, b.mT, lower=True, transpose_a=not transpose
    ).mT


def _no_rule(primals, tangents):
    raise NotImplementedError("constants have no derivatives")


def in_float64(function, rule=_no_rule):
    """`function` of arrays, computed in float64; its result has the dtype of the last one."""

    def wide(x):
        return lax.convert_element_type(x, jnp.float64)

    def wrapped(*arrays):
        dtype = jax.tree.leaves(arrays)[-1].dtype
        with jax.enable_x64(True):
            return function(jax.tree.map(wide, arrays), dtype)

    wrapped.__name__ = function.__name__
    return primitive(wrapped, rule)


@in_float64
def _triangle(arrays, dtype):
    """C (..., m, m), rounded to the dtype, and what is left of it, shape (..., 2, m, m)."""
    scale, U = arrays
    P = U / scale[..., None, :]
    eye = jnp.broadcast_to(
        jnp.eye(P.shape[-2], dtype=P.dtype), P.shape[:-1] + P.shape[-2:-1]
    )
    if (
        dtype == jnp.float64
    ):  # PP' would cost half of the digits; of float32 none are lost
        R: Array = jnp.linalg.qr(jnp.concatenate([eye, P.mT], axis=-2), mode="r")
        C = (R * jnp.sign(jnp.diagonal(R, axis1=-2, axis2=-1))[..., None]).mT
    else:
        C = lax.linalg.cholesky(eye + P @ P.mT, symmetrize_input=False)
    rounded = lax.convert_element_type(C, dtype)
    rest = lax.convert_element_type(
        C - lax.convert_element_type(rounded, jnp.float64), dtype
    )
    return jnp.stack([rounded, rest], axis=-3)


@in_float64
def _inverse(arrays, dtype):
    """R^-1 (x / s)."""
    (scale, U, C, rest), x = arrays
    P, C, y = U / scale[..., None, :], C + rest, x / scale[..., None]
    w = _solve(jnp.eye(C.shape[-1]) + C, _solve(C, P @ y), transpose=True)
    return lax.convert_element_type(y - P.mT @ w, dtype)


@in_float64
def _inverse_transposed(arrays, dtype):
    """(R^-T y) / s."""
    (scale, U, C, rest), y = arrays
    P, C = U / scale[..., None, :], C + rest
    w = _solve(C, _solve(jnp.eye(C.shape[-1]) + C, P @ y), transpose=True)
    return lax.convert_element_type((y - P.mT @ w) / scale[..., None], dtype)


def _logs_rule(primals, tangents):
    pairs = zip(primals, tangents, strict=True)
    return sum(jnp.sum(x_dot / x, axis=-1) for x, x_dot in pairs if not is_zero(x_dot))


@partial(in_float64, rule=_logs_rule)
def _sum_of_logs(arrays, dtype):
    """sum log|s| + sum log C_ii: where s is tiny, C is large."""
    total = sum(jnp.sum(jnp.log(jnp.abs(x)), axis=-1) for x in arrays)
    return lax.convert_element_type(total, dtype)


def _moved(F: Thin, F_dot: Thin) -> tuple[Array, Array]:
    """B = C^-1 dP, and the triangle C^-1 dC = tril(N + N') with half of its diagonal, N = B W'."""
    W = shares(F)
    B = jnp.zeros_like(W)
    if not is_zero(F_dot.U):
        B += _inverse_root(F) @ (F_dot.U / F.scale[..., None, :])
    if not is_zero(F_dot.scale):
        B -= W * (F_dot.scale / F.scale)[..., None, :]
    N = B @ W.mT
    N = N + N.mT
    return B, jnp.tril(N, -1) + jnp.tril(jnp.triu(N)) / 2


def _root_rule(primals, tangents):
    return root(*primals) @ _moved(*primals, *tangents)[1]


@partial(primitive, rule=_root_rule)
def root(F: Thin) -> Array:
    """C, which depends on scale and U."""
    return F.C


def _shares_rule(primals, tangents):
    B, triangle = _moved(*primals, *tangents)
    return B - triangle @ shares(*primals)


@partial(in_float64, rule=_shares_rule)
def shares(arrays, dtype):
    """W = C^-1 P, with A^-1 = diag(1/s)(I - W'W) diag(1/s): entries are below one."""
    ((scale, U, C, rest),) = arrays
    return lax.convert_element_type(
        inverted(C + rest) @ (U / scale[..., None, :]), dtype
    )


def _inverse_rule(primals, tangents):
    return -_moved(*primals, *tangents)[1] @ _inverse_root(*primals)


@partial(in_float64, rule=_inverse_rule)
def _inverse_root(arrays, dtype):
    """C^-1, to all digits."""
    ((_, _, C, rest),) = arrays
    return lax.convert_element_type(inverted(C + rest), dtype)


def inverted(C: Array) -> Array:
    """C^-1 (..., m, m): on a CPU, times d columns it is many times faster than to solve for them.

    LAPACK is called for each matrix, and would use all cores for each.
    """
    return _solve(C, jnp.broadcast_to(jnp.eye(C.shape[-1], dtype=C.dtype), C.shape))
