"""Squared distances: quadratic, log-Euclidean and Bures-Wasserstein."""

from functools import partial

import jax.numpy as jnp
from jax import Array

from mmlp.divergences.base import factors, roots, spectra, uses_traces
from mmlp.linalg.matrix_log import log_gram
from mmlp.linalg.polar import polar
from mmlp.linalg.primitive import full_precision, is_zero, primitive
from mmlp.spd import SPD


@full_precision
def quadratic(A: SPD, B: SPD) -> Array:
    """Return the squared Euclidean distance tr((A - B)(A - B)').

    This is the paper's quadratic loss.

    Parameters
    ----------
    A, B : SPD
        Matrices of one size, whose batch dimensions broadcast.

    Returns
    -------
    Array of shape (...)

    Raises
    ------
    ValueError
        If A and B are not SPD values of one size.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from mmlp import DiagonalGram, quadratic
    >>> A = DiagonalGram(jnp.array([1.0, 2.0]))
    >>> B = DiagonalGram(jnp.array([1.0, 1.0]))
    >>> print(quadratic(A, B))
    9.0
    """
    if uses_traces(A, B, "quadratic"):
        return A.inner(A) - 2 * A.inner(B) + B.inner(B)
    T_A, T_B = factors(A, B, "quadratic")
    return jnp.sum((T_A.mT @ T_A - T_B.mT @ T_B) ** 2, axis=(-3, -2, -1))


def log_euclidean(A: SPD, B: SPD) -> Array:
    """Return the squared log-Euclidean distance, the sum of squares of log A - log B.

    Parameters
    ----------
    A, B : SPD
        Matrices of one size, whose batch dimensions broadcast.

    Returns
    -------
    Array of shape (...)

    Raises
    ------
    ValueError
        If A and B are not SPD values of one size.

    References
    ----------
    Arsigny, Fillard, Pennec and Ayache (2006), "Log-Euclidean metrics for fast and
    simple calculus on diffusion tensors".

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from mmlp import DiagonalGram, log_euclidean
    >>> A = DiagonalGram(jnp.array([1.0, 2.0]))
    >>> B = DiagonalGram(jnp.array([1.0, 1.0]))
    >>> print(f"{log_euclidean(A, B):.4f}")  # log(4)^2
    1.9218
    """
    S_A, S_B = spectra(A, B, "log_euclidean")
    return jnp.sum((log_gram(S_A) - log_gram(S_B)) ** 2, axis=(-3, -2, -1))


def bures_wasserstein(A: SPD, B: SPD) -> Array:
    """Return the squared Bures-Wasserstein distance.

        tr A + tr B - 2 tr (A^1/2 B A^1/2)^1/2

    It is the minimum of the squared norm of T_A - W T_B over orthogonal W, attained at
    the orthogonal factor of T_A T_B'.

    Parameters
    ----------
    A, B : SPD
        Matrices of one size, whose batch dimensions broadcast.

    Returns
    -------
    Array of shape (...)

    Raises
    ------
    ValueError
        If A and B are not SPD values of one size.

    References
    ----------
    Bhatia, Jain and Lim (2019), "On the Bures-Wasserstein distance between positive
    definite matrices".

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from mmlp import DiagonalGram, bures_wasserstein
    >>> A = DiagonalGram(jnp.array([1.0, 3.0]))
    >>> B = DiagonalGram(jnp.array([1.0, 1.0]))
    >>> print(bures_wasserstein(A, B))  # (3 - 1)^2
    4.0
    """
    T_A, T_B = roots(A, B, "bures_wasserstein")
    return jnp.sum(_procrustes(T_A.matrix, T_B.matrix), axis=-1)


def _procrustes_rule(primals, tangents):
    """d = 2 <T_A - W T_B, dT_A> + 2 <T_B - W' T_A, dT_B>.

    W minimises, so that to first order it does not contribute.
    """
    T_A, T_B = primals
    W = polar(T_A @ T_B.mT)
    total = jnp.zeros(T_A.shape[:-2], T_A.dtype)
    residuals = (T_A - W @ T_B, T_B - W.mT @ T_A)
    for residual, T_dot in zip(residuals, tangents, strict=True):
        if not is_zero(T_dot):
            total += 2 * jnp.sum(residual * T_dot, axis=(-2, -1))
    return total


@partial(primitive, rule=_procrustes_rule)
def _procrustes(T_A, T_B):
    """min over orthogonal W of |T_A - W T_B|^2."""
    return jnp.sum((T_A - polar(T_A @ T_B.mT) @ T_B) ** 2, axis=(-2, -1))
