"""Matrix products in the form that compiles to few passes over an array."""

from functools import partial

import jax.numpy as jnp
from jax import Array, lax

from mmlp.linalg.primitive import primitive


def _gram_rule(primals, tangents):
    """d(M'M) = P + P' with P = M'dM.

    This is one product; the product rule for two factors would take two.
    """
    (M,) = primals
    (M_dot,) = tangents
    P = M.mT @ M_dot
    return P + P.mT


@partial(primitive, rule=_gram_rule)
def gram(M: Array) -> Array:
    """Return M'M, shape (..., d, d), for M (..., m, d)."""
    # On CPUs, batches of small products whose left factor is transposed are slower
    # than a transposed copy.
    return lax.optimization_barrier(M.mT) @ M


def sum_of_squares(S: Array) -> Array:
    """Return |S|^2, shape (...), for S (..., m, d) whose squares are in range.

    Columns are summed first, which vectorises well; their sums are added by a product.
    """
    return jnp.sum(S * S, axis=-2) @ jnp.ones(S.shape[-1], S.dtype)
