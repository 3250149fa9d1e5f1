"""Products in the form that compilers make least of: few passes over an array, few kernels."""

from functools import partial

import jax.numpy as jnp
from jax import Array, lax

from mmlp.linalg.primitive import primitive


def _gram_rule(primals, tangents):
    """d(M'M) = P + P' with P = M'dM: one product, where that of two factors would take two."""
    (M,), (M_dot,) = primals, tangents
    P = M.mT @ M_dot
    return P + P.mT


@partial(primitive, rule=_gram_rule)
def gram(M: Array) -> Array:
    """M'M, shape (..., d, d), for M (..., m, d).

    On CPUs many small products whose left factor is transposed are slower than a copy of it.
    """
    return lax.optimization_barrier(M.mT) @ M


def sum_of_squares(S: Array) -> Array:
    """|S|^2, shape (...), of S (..., m, d), if squares neither overflow nor vanish.

    Down the columns and then along: the first is done for many columns at once.
    """
    return jnp.sum(S * S, axis=-2) @ jnp.ones(S.shape[-1], S.dtype)
