"""The orthogonal factor of a square matrix."""

from functools import partial

import jax.numpy as jnp
from jax import Array

from mmlp.linalg.double import by_double, polar_by_eigh
from mmlp.linalg.primitive import last_order, primitive


def _polar_rule(primals, tangents):
    if primals[0].shape[-1] == 1:
        return jnp.zeros_like(primals[0])
    U, s, Vt = jnp.linalg.svd(last_order(primals[0], primals[0]), full_matrices=False)
    X = U.mT @ tangents[0] @ Vt.mT
    return U @ ((X - X.mT) / (s[..., :, None] + s[..., None, :])) @ Vt


@partial(primitive, rule=_polar_rule)
def polar(M: Array) -> Array:
    """W = UV' of M = USV', the nearest orthogonal matrix; its derivative divides by sums of s."""
    if M.shape[-1] == 1:
        return jnp.where(M < 0, -1, 1).astype(M.dtype)
    if by_double(M):
        return polar_by_eigh(M)
    U, _, Vt = jnp.linalg.svd(M, full_matrices=False)
    return U @ Vt
