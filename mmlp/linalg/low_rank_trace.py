"""tr(A^-1 diag(b^2)) for A = diag(s^2) + U'U, to all digits of float32.

    (A^-1)_ij = (delta_ij - W_i . W_j) / (s_i s_j),

with W = C^-1 P as in `linalg/low_rank.py`, cancels where s_i is tiny. The value and its
first derivatives are therefore each computed in float64.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from mmlp.linalg.low_rank import (
    Factorised,
    in_float64,
    invert_triangle,
    root,
    whitened_loadings,
)
from mmlp.linalg.primitive import is_zero


def _compute_in_float64(formula: Callable) -> Callable[[Factorised, Array], Array]:
    """Evaluate a formula of s, C, W and b in float64.

    Its derivatives are computed in the precision of the arguments.
    """

    def value(arrays, dtype):
        (scale, U, C, remainder), b = arrays
        W = invert_triangle(C + remainder) @ (U / scale[..., None, :])
        return lax.convert_element_type(formula(scale, C + remainder, W, b), dtype)

    def evaluate_in_own_precision(F: Factorised, b: Array) -> Array:
        return formula(F.scale, root(F), whitened_loadings(F), b)

    def materialise(x, x_dot):
        return jnp.zeros_like(x) if is_zero(x_dot) else x_dot

    def rule(primals, tangents):
        tangents = jax.tree.map(materialise, primals, tangents, is_leaf=is_zero)
        return jax.jvp(evaluate_in_own_precision, primals, tangents)[1]

    value.__name__ = formula.__name__
    return in_float64(value, rule)


@_compute_in_float64
def _gradient_by_b(s, C, W, b):
    """2 b_i (A^-1)_ii."""
    return 2 * (b / s) * (1 - jnp.sum(W**2, axis=-2)) / s


@_compute_in_float64
def _gradient_by_scale(s, C, W, b):
    """-2 s_i (A^-1 diag(b^2) A^-1)_ii."""
    h = (b / s) ** 2
    diagonal_term = h * (1 - 2 * jnp.sum(W**2, axis=-2))
    product_term = jnp.sum(W * ((h[..., None, :] * W) @ W.mT @ W), axis=-2)
    return -2 * (diagonal_term + product_term) / s


@_compute_in_float64
def _gradient_by_loadings(s, C, W, b):
    """-2 U A^-1 diag(b^2) A^-1, where U A^-1 = C^-T W diag(1/s)."""
    K = (invert_triangle(C).mT @ W) * ((b / s) ** 2)[..., None, :]
    return -2 * (K - (K @ W.mT) @ W) / s[..., None, :]


def _trace_solve_rule(primals, tangents):
    F, b = primals
    F_dot, b_dot = tangents
    total = jnp.zeros(b.shape[:-1], b.dtype)
    if not is_zero(b_dot):
        total += jnp.sum(_gradient_by_b(F, b) * b_dot, axis=-1)
    if not is_zero(F_dot.scale):
        total += jnp.sum(_gradient_by_scale(F, b) * F_dot.scale, axis=-1)
    if not is_zero(F_dot.U):
        total += jnp.sum(_gradient_by_loadings(F, b) * F_dot.U, axis=(-2, -1))
    return total


@partial(in_float64, rule=_trace_solve_rule)
def trace_solve(arrays: Any, dtype: Any) -> Array:
    """Return tr(A^-1 diag(b^2)), shape (...), for a factorised A and b (..., d)."""
    (scale, U, C, remainder), b = arrays
    W = invert_triangle(C + remainder) @ (U / scale[..., None, :])
    terms = (b / scale) ** 2 * (1 - jnp.sum(W**2, axis=-2))
    return lax.convert_element_type(jnp.sum(terms, axis=-1), dtype)
