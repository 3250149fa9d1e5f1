"""Squared distances: Euclidean, of logarithms, and Bures-Wasserstein."""

from functools import partial

import jax.numpy as jnp
from jax import Array

from mmlp.divergences.base import by_traces, factors, roots, spectra
from mmlp.linalg.matrix_log import log_gram
from mmlp.linalg.polar import polar
from mmlp.linalg.primitive import full_precision, is_zero, primitive
from mmlp.spd import SPD


@full_precision
def quadratic(A: SPD, B: SPD) -> Array:
    """The squared Euclidean distance tr((A - B)(A - B)'), the paper's quadratic loss."""
    if by_traces(A, B, "quadratic"):
        return A.inner(A) - 2 * A.inner(B) + B.inner(B)
    T_A, T_B = factors(A, B, "quadratic")
    return jnp.sum((T_A.mT @ T_A - T_B.mT @ T_B) ** 2, axis=(-3, -2, -1))


def log_euclidean(A: SPD, B: SPD) -> Array:
    """The squared log-Euclidean distance |log A - log B|^2 (Arsigny et al., 2006)."""
    S_A, S_B = spectra(A, B, "log_euclidean")
    return jnp.sum((log_gram(S_A) - log_gram(S_B)) ** 2, axis=(-3, -2, -1))


def bures_wasserstein(A: SPD, B: SPD) -> Array:
    """The squared Bures-Wasserstein distance tr A + tr B - 2 tr (A^1/2 B A^1/2)^1/2.

    It is the minimum of |T_A - W T_B|^2 over orthogonal W, at the orthogonal factor of T_A T_B'
    (Bhatia, Jain and Lim, 2019).
    """
    T_A, T_B = roots(A, B, "bures_wasserstein")
    return jnp.sum(_procrustes(T_A.matrix, T_B.matrix), axis=-1)


def _procrustes_rule(primals, tangents):
    """W minimises, so that only the explicit factors count to first order."""
    T_A, T_B = primals
    W = polar(T_A @ T_B.mT)
    total = jnp.zeros(T_A.shape[:-2], T_A.dtype)
    for residual, T_dot in zip(
        (T_A - W @ T_B, T_B - W.mT @ T_A), tangents, strict=True
    ):
        if not is_zero(T_dot):
            total += 2 * jnp.sum(residual * T_dot, axis=(-2, -1))
    return total


@partial(primitive, rule=_procrustes_rule)
def _procrustes(T_A, T_B):
    return jnp.sum((T_A - polar(T_A @ T_B.mT) @ T_B) ** 2, axis=(-2, -1))
