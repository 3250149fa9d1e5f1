"""tr(A^-1 diag(b^2)) for A = diag(s^2) + U'U, and its derivatives, to all digits of float32.

    (A^-1)_ij = (delta_ij - W_i . W_j) / (s_i s_j),   W = C^-1 P as in `mmlp.linalg.low_rank`

cancels where s_i is tiny, so that value and first derivatives are each computed in float64.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jax import Array, lax

from mmlp.linalg.low_rank import Thin, in_float64, inverted, root, shares
from mmlp.linalg.primitive import is_zero


def _wide(formula):
    """`formula` of s, C, W and b in float64; its derivatives are those of the given precision."""

    def value(arrays, dtype):
        (scale, U, C, rest), b = arrays
        W = inverted(C + rest) @ (U / scale[..., None, :])
        return lax.convert_element_type(formula(scale, C + rest, W, b), dtype)

    def narrow(F: Thin, b: Array) -> Array:
        return formula(F.scale, root(F), shares(F), b)

    def known(x, x_dot):
        return jnp.zeros_like(x) if is_zero(x_dot) else x_dot

    def rule(primals, tangents):
        return jax.jvp(
            narrow, primals, jax.tree.map(known, primals, tangents, is_leaf=is_zero)
        )[1]

    value.__name__ = formula.__name__
    return in_float64(value, rule)


@_wide
def _by_diagonal(s, C, W, b):
    """2 b_i (A^-1)_ii."""
    return 2 * (b / s) * (1 - jnp.sum(W**2, axis=-2)) / s


@_wide
def _by_scale(s, C, W, b):
    """-2 s_i (A^-1 diag(b^2) A^-1)_ii."""
    h = (b / s) ** 2
    own = h * (1 - 2 * jnp.sum(W**2, axis=-2))
    return -2 * (own + jnp.sum(W * ((h[..., None, :] * W) @ W.mT @ W), axis=-2)) / s


@_wide
def _by_loadings(s, C, W, b):
    """-2 U A^-1 diag(b^2) A^-1, where U A^-1 = C^-T W diag(1/s)."""
    K = (inverted(C).mT @ W) * ((b / s) ** 2)[..., None, :]
    return -2 * (K - (K @ W.mT) @ W) / s[..., None, :]


def _trace_rule(primals, tangents):
    (F, b), (F_dot, b_dot) = primals, tangents
    total = jnp.zeros(b.shape[:-1], b.dtype)
    if not is_zero(b_dot):
        total += jnp.sum(_by_diagonal(F, b) * b_dot, axis=-1)
    if not is_zero(F_dot.scale):
        total += jnp.sum(_by_scale(F, b) * F_dot.scale, axis=-1)
    if not is_zero(F_dot.U):
        total += jnp.sum(_by_loadings(F, b) * F_dot.U, axis=(-2, -1))
    return total


@partial(in_float64, rule=_trace_rule)
def trace_solve(arrays, dtype):
    """tr(A^-1 diag(b^2)) for b (..., d)."""
    (scale, U, C, rest), b = arrays
    W = inverted(C + rest) @ (U / scale[..., None, :])
    terms = (b / scale) ** 2 * (1 - jnp.sum(W**2, axis=-2))
    return lax.convert_element_type(jnp.sum(terms, axis=-1), dtype)
