"""The von Neumann divergence: the quantum relative entropy of two matrices."""

from collections.abc import Callable
from functools import partial

import jax.numpy as jnp
from jax import Array

from mmlp.divergences.base import bregman_of_log, derivative_along, spectra
from mmlp.linalg.matrix_log import (
    Spectrum,
    dlog_gram,
    factor_log_gram,
    log_gram,
    log_ratio,
)
from mmlp.linalg.primitive import primitive
from mmlp.spd import SPD


def von_neumann(A: SPD, B: SPD, *, symmetric: bool = True) -> Array:
    """Return the von Neumann divergence (quantum relative entropy), the paper's loss.

        D(A||B) = tr(A log A - A log B - A + B)    symmetric=False, Eq. (qre)
        (D(A||B) + D(B||A)) / 2                    symmetric=True,  Eq. (loss_qre)

    Eq. (qre) is printed for matrices of trace one, where - A + B cancels in the trace.

    Parameters
    ----------
    A, B : SPD
        Matrices of one size, whose batch dimensions broadcast.
    symmetric : bool, default=True
        Whether to return the symmetric form.

    Returns
    -------
    Array of shape (...)
        Non-negative.

    Raises
    ------
    ValueError
        If A and B are not SPD values of one size.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from mmlp import Gram, von_neumann
    >>> A = Gram.trace_one(jnp.eye(2))
    >>> B = Gram.trace_one(jnp.diag(jnp.array([1.0, 2.0])))
    >>> print(f"{von_neumann(A, B):.4f}")
    0.2079
    """
    S_A, S_B = spectra(A, B, "von_neumann")
    divergence = _von_neumann_symmetric if symmetric else _von_neumann
    return jnp.sum(divergence(S_A, S_B), axis=-1)


def _spectral_sum(
    S_A: Spectrum, S_B: Spectrum, term: Callable[[Array, Array], Array]
) -> Array:
    """Return sum_ij (v_i . w_j)^2 term(a_i, b_j), where zero times infinity is zero.

    v_i and w_j are the eigenvectors of A and B, a_i and b_j the singular values.
    """
    overlap = (S_A.V.mT @ S_B.V) ** 2
    terms = overlap * term(S_A.s[..., :, None], S_B.s[..., None, :])
    return jnp.sum(jnp.where(overlap == 0, 0, terms), axis=(-2, -1))


def _von_neumann_symmetric_rule(primals, tangents):
    """d = (<dA, G + dlog_A(A - B)> - <dB, G + dlog_B(A - B)>) / 2.

    G = log A - log B.
    """
    S_A, S_B = primals
    G = log_gram(S_A) - log_gram(S_B)
    difference = S_A.factor.mT @ S_A.factor - S_B.factor.mT @ S_B.factor

    def differentiate_by(S, S_dot):
        return derivative_along(
            S.factor,
            S_dot.factor,
            lambda: S.factor @ (G + dlog_gram(S, difference)) / 2,
        )

    return differentiate_by(S_A, tangents[0]) - differentiate_by(S_B, tangents[1])


@partial(primitive, rule=_von_neumann_symmetric_rule)
def _von_neumann_symmetric(S_A, S_B):
    """tr((A - B)(log A - log B)) / 2."""

    def term(a, b):
        return (a - b) * (a + b) * jnp.where(a == b, 0, log_ratio(a, b))

    return _spectral_sum(S_A, S_B, term)


def _von_neumann_rule(primals, tangents):
    """d = <dA, log A - log B> + <dB, I - dlog_B(A)>.

    T_A log A is finite also where A is singular.
    """
    S_A, S_B = primals
    T_A = S_A.factor
    T_B = S_B.factor
    identity = jnp.eye(S_B.s.shape[-1], dtype=S_B.s.dtype)
    by_A = derivative_along(
        T_A,
        tangents[0].factor,
        lambda: factor_log_gram(S_A) - T_A @ log_gram(S_B),
    )
    by_B = derivative_along(
        T_B,
        tangents[1].factor,
        lambda: T_B @ (identity - dlog_gram(S_B, T_A.mT @ T_A)),
    )
    return by_A + by_B


@partial(primitive, rule=_von_neumann_rule)
def _von_neumann(S_A, S_B):
    """tr(A log A - A log B - A + B)."""
    return _spectral_sum(S_A, S_B, lambda a, b: bregman_of_log(b, a))
