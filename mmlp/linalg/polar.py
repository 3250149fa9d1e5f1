"""The orthogonal factor of the polar decomposition of a square matrix."""

from functools import partial

import jax.numpy as jnp
from jax import Array

from mmlp.linalg.float64 import polar_by_eigh, uses_float64
from mmlp.linalg.primitive import last_order, primitive


def _polar_rule(primals, tangents):
    """dW = U ((X - X') / (s_i + s_j)) V' with X = U' dM V."""
    (M,) = primals
    (M_dot,) = tangents
    if M.shape[-1] == 1:
        return jnp.zeros_like(M)

    U, s, Vt = jnp.linalg.svd(last_order(M, M), full_matrices=False)
    X = U.mT @ M_dot @ Vt.mT
    return U @ ((X - X.mT) / (s[..., :, None] + s[..., None, :])) @ Vt


@partial(primitive, rule=_polar_rule)
def polar(M: Array) -> Array:
    """Return W = UV' for M = USV' (..., d, d), the nearest orthogonal matrix.

    Its derivative divides by sums of singular values, never by differences.
    """
    if M.shape[-1] == 1:
        return jnp.where(M < 0, -1, 1).astype(M.dtype)
    if uses_float64(M):
        return polar_by_eigh(M)
    U, _, Vt = jnp.linalg.svd(M, full_matrices=False)
    return U @ Vt
