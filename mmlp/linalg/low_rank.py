"""A square root of A = diag(s)(I + P'P) diag(s), P = U / s (..., m, d), in O(d m^2).

    A = MM',   M = diag(s) R,   R = I + P'(I + C)^-1 P,   R^-1 = I - P'(I + C)^-T C^-1 P

for the lower triangle C with CC' = I + PP'. Proof: with Q = I + C, RR' = I + P'P holds
if QQ' = Q + Q' + PP', which is (Q - I)(Q - I)' = I + PP'. Only a matrix of size m is
decomposed, and derivatives are not singular at equal eigenvalues.

R^-1 x is small where x, P and R are large, so that float32 would lose digits like
cond(R). Values are therefore computed in float64 and rounded, at the cost of products
of size d m^2 at most. So is W = C^-1 P, in terms of which the derivatives are written:
its entries are below one, and 1 - |W_i|^2 is tiny where s_i is.

Functions do not broadcast: their arguments share the leading dimensions.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from mmlp.linalg.primitive import (
    full_precision,
    is_zero,
    match_varying_axes,
    primitive,
)


class Factorised(NamedTuple):
    """`scale` and U, which carry the derivatives, and the triangle C, a constant.

    C is rounded to the dtype of the other arrays. `remainder` is what rounding left
    off.
    """

    scale: Array  # s, (..., d)
    U: Array  # (..., m, d)
    C: Array  # (..., m, m)
    remainder: Array  # (..., m, m)


def factorise(scale: Array, U: Array) -> Factorised:
    """Compute C; a NaN in one matrix of a batch does not spread to the others."""
    constants = (lax.stop_gradient(scale), lax.stop_gradient(U))
    both = _decompose(*match_varying_axes(constants))
    return Factorised(scale, U, both[..., 0, :, :], both[..., 1, :, :])


def half_log_det(F: Factorised) -> Array:
    """Return log det(A) / 2 = sum log|s| + sum log C_ii, shape (...)."""
    return _sum_of_logs(F.scale, jnp.diagonal(root(F), axis1=-2, axis2=-1))


@full_precision
def multiply_by_root(F: Factorised, e: Array) -> Array:
    """Return M e = s o e + U' Q^-1 P e for columns e (..., d, k), with Q = I + C.

    Q^-1 P = W - Q^-1 W.
    """
    w = whitened_loadings(F) @ e
    C = root(F)
    w -= _solve_triangle(jnp.eye(C.shape[-1], dtype=C.dtype) + C, w)
    return F.scale[..., None] * e + F.U.mT @ w


def solve_root(F: Factorised, x: Array, *, transpose: bool = False) -> Array:
    """Return M^-1 x, or M^-T x, for columns x (..., d, k)."""
    F, x = match_varying_axes((F, x))
    constant = lax.stop_gradient(F)

    def solve(_, y):
        return _apply_inverse(constant, y)

    def solve_transposed(_, y):
        return _apply_inverse_transposed(constant, y)

    multiply = partial(multiply_by_root, F)
    if not transpose:
        return lax.custom_linear_solve(multiply, x, solve, solve_transposed)

    # JAX derives the product with M' from that with M.
    multiply_transposed = jax.linear_transpose(multiply, x)
    return lax.custom_linear_solve(
        lambda y: multiply_transposed(y)[0], x, solve_transposed, solve
    )


def _solve_triangle(C: Array, b: Array, *, transpose: bool = False) -> Array:
    """Return C^-1 b or C^-T b.

    The rows of b' are solved for: LAPACK stores matrices by column and need not copy.
    """
    return lax.linalg.triangular_solve(
        C, b.mT, lower=True, transpose_a=not transpose
    ).mT


def _refuse_derivative(primals, tangents):
    raise NotImplementedError("constants have no derivatives")


def in_float64(
    function: Callable, rule: Callable = _refuse_derivative
) -> Callable[..., Array]:
    """Make a primitive of `function(arrays, dtype)` that is computed in float64.

    The function gets its arguments as one tuple, in float64, and the dtype to which it
    rounds its result: that of the last array.
    """

    def widen(x):
        return lax.convert_element_type(x, jnp.float64)

    def wrapped(*arrays):
        dtype = jax.tree.leaves(arrays)[-1].dtype
        with jax.enable_x64(True):
            return function(jax.tree.map(widen, arrays), dtype)

    wrapped.__name__ = function.__name__
    return primitive(wrapped, rule)


@in_float64
def _decompose(arrays: Any, dtype: Any) -> Array:
    """Return C, rounded to the dtype, and the remainder, shape (..., 2, m, m)."""
    scale, U = arrays
    P = U / scale[..., None, :]
    identity = jnp.broadcast_to(
        jnp.eye(P.shape[-2], dtype=P.dtype), P.shape[:-1] + P.shape[-2:-1]
    )

    if dtype == jnp.float64:
        # PP' would cost half of the digits, which float32 does not have anyway.
        R: Array = jnp.linalg.qr(jnp.concatenate([identity, P.mT], axis=-2), mode="r")
        C = (R * jnp.sign(jnp.diagonal(R, axis1=-2, axis2=-1))[..., None]).mT
    else:
        C = lax.linalg.cholesky(identity + P @ P.mT, symmetrize_input=False)

    rounded = lax.convert_element_type(C, dtype)
    remainder = C - lax.convert_element_type(rounded, jnp.float64)
    return jnp.stack([rounded, lax.convert_element_type(remainder, dtype)], axis=-3)


@in_float64
def _apply_inverse(arrays: Any, dtype: Any) -> Array:
    """Return M^-1 x = R^-1 (x / s)."""
    (scale, U, C, remainder), x = arrays
    P = U / scale[..., None, :]
    C = C + remainder
    y = x / scale[..., None]
    w = _solve_triangle(
        jnp.eye(C.shape[-1]) + C, _solve_triangle(C, P @ y), transpose=True
    )
    return lax.convert_element_type(y - P.mT @ w, dtype)


@in_float64
def _apply_inverse_transposed(arrays: Any, dtype: Any) -> Array:
    """Return M^-T y = (R^-T y) / s."""
    (scale, U, C, remainder), y = arrays
    P = U / scale[..., None, :]
    C = C + remainder
    w = _solve_triangle(
        C, _solve_triangle(jnp.eye(C.shape[-1]) + C, P @ y), transpose=True
    )
    return lax.convert_element_type((y - P.mT @ w) / scale[..., None], dtype)


def _sum_of_logs_rule(primals, tangents):
    pairs = zip(primals, tangents, strict=True)
    return sum(jnp.sum(x_dot / x, axis=-1) for x, x_dot in pairs if not is_zero(x_dot))


@partial(in_float64, rule=_sum_of_logs_rule)
def _sum_of_logs(arrays: Any, dtype: Any) -> Array:
    """Return sum log|s| + sum log C_ii, which cancel where s is tiny and C large."""
    total = sum(jnp.sum(jnp.log(jnp.abs(x)), axis=-1) for x in arrays)
    return lax.convert_element_type(total, dtype)


def _differentiate_triangle(F: Factorised, F_dot: Factorised) -> tuple[Array, Array]:
    """Return B = C^-1 dP and the triangle C^-1 dC.

    C^-1 dC is tril(N + N') with half of its diagonal, N = B W'.
    """
    W = whitened_loadings(F)
    B = jnp.zeros_like(W)
    if not is_zero(F_dot.U):
        B += _inverse_of_triangle(F) @ (F_dot.U / F.scale[..., None, :])
    if not is_zero(F_dot.scale):
        B -= W * (F_dot.scale / F.scale)[..., None, :]
    N = B @ W.mT
    N = N + N.mT
    return B, jnp.tril(N, -1) + jnp.tril(jnp.triu(N)) / 2


def _root_rule(primals, tangents):
    """dC = C (C^-1 dC)."""
    return root(*primals) @ _differentiate_triangle(*primals, *tangents)[1]


@partial(primitive, rule=_root_rule)
def root(F: Factorised) -> Array:
    """Return C (..., m, m) as a function of scale and U."""
    return F.C


def _whitened_loadings_rule(primals, tangents):
    """dW = B - (C^-1 dC) W."""
    B, triangle = _differentiate_triangle(*primals, *tangents)
    return B - triangle @ whitened_loadings(*primals)


@partial(in_float64, rule=_whitened_loadings_rule)
def whitened_loadings(arrays: Any, dtype: Any) -> Array:
    """Return W = C^-1 P (..., m, d), whose entries are below one.

    A^-1 = diag(1/s)(I - W'W) diag(1/s).
    """
    ((scale, U, C, remainder),) = arrays
    W = invert_triangle(C + remainder) @ (U / scale[..., None, :])
    return lax.convert_element_type(W, dtype)


def _inverse_of_triangle_rule(primals, tangents):
    """d(C^-1) = -(C^-1 dC) C^-1."""
    triangle = _differentiate_triangle(*primals, *tangents)[1]
    return -triangle @ _inverse_of_triangle(*primals)


@partial(in_float64, rule=_inverse_of_triangle_rule)
def _inverse_of_triangle(arrays: Any, dtype: Any) -> Array:
    """Return C^-1 (..., m, m) as a function of scale and U."""
    ((_, _, C, remainder),) = arrays
    return lax.convert_element_type(invert_triangle(C + remainder), dtype)


def invert_triangle(C: Array) -> Array:
    """Return C^-1 (..., m, m).

    On a CPU, multiplying d columns by it is many times faster than solving for them:
    LAPACK is called for each matrix, and would use all cores for each.
    """
    identity = jnp.broadcast_to(jnp.eye(C.shape[-1], dtype=C.dtype), C.shape)
    return _solve_triangle(C, identity)
