"""The von Neumann divergence: the quantum relative entropy of two matrices."""

from collections.abc import Callable
from functools import partial

import jax.numpy as jnp
from jax import Array

from mmlp.divergences.base import along, bregman_of_log, spectra
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
    """The von Neumann divergence (quantum relative entropy), the paper's loss.

        D(A||B) = tr(A log A - A log B - A + B)      symmetric=False, Eq. (qre) at trace one
        (D(A||B) + D(B||A)) / 2                      symmetric=True,  Eq. (loss_qre)

    >>> from mmlp.spd import Gram
    >>> A, B = Gram.trace_one(jnp.eye(2)), Gram.trace_one(jnp.diag(jnp.array([1.0, 2.0])))
    >>> print(f"{von_neumann(A, B):.4f}")
    0.2079
    """
    S_A, S_B = spectra(A, B, "von_neumann")
    divergence = _von_neumann_symmetric if symmetric else _von_neumann
    return jnp.sum(divergence(S_A, S_B), axis=-1)


def _spectral_sum(
    S_A: Spectrum, S_B: Spectrum, term: Callable[[Array, Array], Array]
) -> Array:
    """sum_ij (v_i . w_j)^2 term(a_i, b_j) over eigenvectors and singular values; 0 inf is 0."""
    overlap = (S_A.V.mT @ S_B.V) ** 2
    terms = overlap * term(S_A.s[..., :, None], S_B.s[..., None, :])
    return jnp.sum(jnp.where(overlap == 0, 0, terms), axis=(-2, -1))


def _von_neumann_symmetric_rule(primals, tangents):
    """d = (<dA, G + dlog_A(A - B)> - <dB, G + dlog_B(A - B)>) / 2 with G = log A - log B."""
    S_A, S_B = primals
    G = log_gram(S_A) - log_gram(S_B)
    difference = S_A.factor.mT @ S_A.factor - S_B.factor.mT @ S_B.factor

    def by(S, S_dot):
        return along(
            S.factor, S_dot[0], lambda: S.factor @ (G + dlog_gram(S, difference)) / 2
        )

    return by(S_A, tangents[0]) - by(S_B, tangents[1])


@partial(primitive, rule=_von_neumann_symmetric_rule)
def _von_neumann_symmetric(S_A, S_B):
    def term(a, b):
        return (a - b) * (a + b) * jnp.where(a == b, 0, log_ratio(a, b))

    return _spectral_sum(S_A, S_B, term)


def _von_neumann_rule(primals, tangents):
    """d = <dA, log A - log B> + <dB, I - dlog_B(A)>; T_A log A is finite where A is singular."""
    S_A, S_B = primals
    T_A, T_B, identity = (
        S_A.factor,
        S_B.factor,
        jnp.eye(S_B.s.shape[-1], dtype=S_B.s.dtype),
    )
    by_A = along(
        T_A, tangents[0][0], lambda: factor_log_gram(S_A) - T_A @ log_gram(S_B)
    )
    by_B = along(
        T_B, tangents[1][0], lambda: T_B @ (identity - dlog_gram(S_B, T_A.mT @ T_A))
    )
    return by_A + by_B


@partial(primitive, rule=_von_neumann_rule)
def _von_neumann(S_A, S_B):
    return _spectral_sum(S_A, S_B, lambda a, b: bregman_of_log(b, a))
