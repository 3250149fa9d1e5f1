"""How far apart two SPD matrices are: (Gram, Gram) -> number, over leading batch dimensions.

Each is a sum of terms of one sign, so that it keeps its relative precision when A is close to B, and no determinant is
formed. Derivatives come from the textbook formula of each, which is smooth where eigenvalues meet.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from mmlp._linalg import (
    Spectrum,
    dlog_gram,
    factorise,
    log_abs_det,
    log_gram,
    log_ratio,
    polar,
    singular_values,
    solve,
    spectrum,
)
from mmlp._primitive import full_precision, is_zero, primitive
from mmlp.gram import SPD, DiagonalGram, Gram


def von_neumann(A: SPD, B: SPD, *, symmetric: bool = True) -> Array:
    """The von Neumann divergence (quantum relative entropy), the paper's loss.

        D(A||B) = tr(A log A - A log B - A + B)      symmetric=False, Eq. (qre) at trace one
        (D(A||B) + D(B||A)) / 2                      symmetric=True,  Eq. (loss_qre)

    >>> A, B = Gram.trace_one(jnp.eye(2)), Gram.trace_one(jnp.diag(jnp.array([1.0, 2.0])))
    >>> print(f"{von_neumann(A, B):.4f}")
    0.2079
    """
    S_A, S_B = _together(spectrum(_factor(A)), spectrum(_factor(B)), "von_neumann")
    return (_von_neumann_symmetric if symmetric else _von_neumann)(*S_A, *S_B)


def stein(A: SPD, B: SPD, *, symmetric: bool = True) -> Array:
    """The Stein (log-det) divergence.

        D(A||B) = tr(B^-1 (A - B)) - log det(A B^-1)                               symmetric=False, Eq. (div)
        (D(A||C) + D(B||C)) / 2 = log det C - log det(AB) / 2,  C = (A + B) / 2    symmetric=True,  Eq. (loss_stein)

    In the singular values s of T_A T_B^-1: sum(s^2 - 1 - log s^2), and sum(log cosh log s).
    """
    Q = _relative_factor(A, B, "stein")
    return _infinite_with(Q, (_log_cosh_log if symmetric else _stein)(Q))


@full_precision
def quadratic(A: SPD, B: SPD) -> Array:
    """The squared Euclidean distance tr((A - B)(A - B)'), the paper's quadratic loss."""
    (T_A,), (T_B,) = _together((_factor(A),), (_factor(B),), "quadratic")
    return jnp.sum((T_A.mT @ T_A - T_B.mT @ T_B) ** 2, axis=(-2, -1))


def log_euclidean(A: SPD, B: SPD) -> Array:
    """The squared log-Euclidean distance |log A - log B|^2 (Arsigny et al., 2006)."""
    S_A, S_B = _together(spectrum(_factor(A)), spectrum(_factor(B)), "log_euclidean")
    return jnp.sum((log_gram(S_A) - log_gram(S_B)) ** 2, axis=(-2, -1))


def affine_invariant(A: SPD, B: SPD) -> Array:
    """The squared affine-invariant distance |log(B^-1/2 A B^-1/2)|^2 (Pennec et al., 2006)."""
    Q = _relative_factor(A, B, "affine_invariant")
    return _infinite_with(Q, jnp.sum(log_gram(spectrum(Q)) ** 2, axis=(-2, -1)))


def bures_wasserstein(A: SPD, B: SPD) -> Array:
    """The squared Bures-Wasserstein distance tr A + tr B - 2 tr (A^1/2 B A^1/2)^1/2 = min_W |T_A - W T_B|^2, W orthogonal.

    The minimum is at the orthogonal factor of T_A T_B' (Bhatia, Jain and Lim, 2019).
    """
    (T_A,), (T_B,) = _together((_square_factor(A),), (_square_factor(B),), "bures_wasserstein")
    return _procrustes(T_A, T_B)


# -- von Neumann ------------------------------------------------------------------------------------------------------


def _spectral_sum(S_A: Spectrum, S_B: Spectrum, term: Callable[[Array, Array], Array]) -> Array:
    """sum_ij (v_i . w_j)^2 term(a_i, b_j) over singular values a, b and eigenvectors v, w of A and B; 0 inf is 0."""
    overlap = (S_A.V.mT @ S_B.V) ** 2
    terms = overlap * term(S_A.s[..., :, None], S_B.s[..., None, :])
    return jnp.sum(jnp.where(overlap == 0, 0, terms), axis=(-2, -1))


def _von_neumann_symmetric_value(*arrays):
    def term(a, b):
        return (a - b) * (a + b) * jnp.where(a == b, 0, log_ratio(a, b))

    return _spectral_sum(Spectrum(*arrays[:3]), Spectrum(*arrays[3:]), term)


def _von_neumann_symmetric_rule(primals, tangents):
    """d = (<dA, G + dlog_A(A - B)> - <dB, G + dlog_B(A - B)>) / 2 with G = log A - log B."""
    S_A, S_B = Spectrum(*primals[:3]), Spectrum(*primals[3:])
    G = log_gram(S_A) - log_gram(S_B)
    difference = S_A.factor.mT @ S_A.factor - S_B.factor.mT @ S_B.factor
    by_A = _along(S_A, tangents[0], lambda: (G + dlog_gram(S_A, difference)) / 2)
    by_B = _along(S_B, tangents[3], lambda: (G + dlog_gram(S_B, difference)) / 2)
    return by_A - by_B


_von_neumann_symmetric = primitive(_von_neumann_symmetric_value, _von_neumann_symmetric_rule)


def _von_neumann_value(*arrays):
    return _spectral_sum(Spectrum(*arrays[:3]), Spectrum(*arrays[3:]), lambda a, b: _bregman_of_log(b, a))


def _von_neumann_rule(primals, tangents):
    """d = <dA, log A - log B> + <dB, I - dlog_B(A)>."""
    S_A, S_B = Spectrum(*primals[:3]), Spectrum(*primals[3:])
    identity = jnp.eye(S_B.s.shape[-1], dtype=S_B.s.dtype)
    by_A = _along(S_A, tangents[0], lambda: log_gram(S_A) - log_gram(S_B))
    by_B = _along(S_B, tangents[3], lambda: identity - dlog_gram(S_B, S_A.factor.mT @ S_A.factor))
    return by_A + by_B


_von_neumann = primitive(_von_neumann_value, _von_neumann_rule)


def _along(S: Spectrum, T_dot, gradient) -> Array:
    """<dA, gradient> with dA = T'dT + dT'T, for a symmetric gradient by A; zero at no cost where A is constant."""
    if is_zero(T_dot):
        return jnp.zeros(S.s.shape[:-1], S.s.dtype)
    return 2 * jnp.sum((S.factor @ gradient()) * T_dot, axis=(-2, -1))


def _bregman_of_log(p: Array, q: Array) -> Array:
    """p^2 - q^2 - q^2 log(p^2/q^2) >= 0, to relative precision near p = q.

    With r = (p/q)^2, x = r - 1 and z = x/(2 + x), log r = 2 atanh z, so that r - 1 - log r = x z - 2 (z^3/3 + z^5/5 + ...).
    """
    difference = (p - q) * (p + q)
    close = jnp.abs(difference) < 0.3 * q**2
    x = jnp.where(close, difference / jnp.where(close, q**2, 1), 0)
    z = x / (2 + x)
    series = jnp.polyval(jnp.array([1 / (2 * k + 1) for k in range(9, 0, -1)], z.dtype), z**2) * z**3
    apart = jnp.where(q == 0, p**2, difference - 2 * q**2 * log_ratio(p, q))
    return jnp.where(close, q**2 * (x * z - 2 * series), apart)


# -- Stein ------------------------------------------------------------------------------------------------------------


def _relative_factor(A: SPD, B: SPD, name: str) -> Array:
    """Q = T_A T_B^-1, so that Q'Q has the eigenvalues of A B^-1."""
    (T_A,), (T_B,) = _together((_square_factor(A),), (_square_factor(B),), name)
    return solve(factorise(T_B), T_A.mT, transpose=True, refine=True).mT


def _infinite_with(Q: Array, value: Array) -> Array:
    """A singular B makes Q infinite, and the divergence with it."""
    return jnp.where(jnp.any(jnp.isinf(Q), axis=(-2, -1)), jnp.inf, value)


def _log_cosh_log_value(Q):
    """sum log cosh log s = sum log(1 + sinh(log s)^2) / 2 over the singular values s of Q."""
    s = singular_values(Q)
    sinh = (s - 1 / s) / 2
    u = jnp.abs(jnp.log(s))
    return jnp.sum(jnp.where(u < 1, jnp.log1p(sinh**2) / 2, u + jnp.log1p(jnp.exp(-2 * u)) - jnp.log(2)), axis=-1)


def _log_cosh_log_rule(primals, tangents):
    """The same function is log det((I + Q'Q)/2) - log|det Q|; I + Q'Q = R'R with R from a QR of Q above I."""

    def formula(Q):
        identity = jnp.broadcast_to(jnp.eye(Q.shape[-1], dtype=Q.dtype), Q.shape)
        R = jnp.linalg.qr(jnp.concatenate([Q, identity], axis=-2), mode="r")
        return 2 * log_abs_det(factorise(R, upper=True)) - log_abs_det(factorise(Q))

    return jax.jvp(formula, primals, tangents)[1]


_log_cosh_log = primitive(_log_cosh_log_value, _log_cosh_log_rule)


def _stein_value(Q):
    s = singular_values(Q)
    return jnp.sum(_bregman_of_log(s, jnp.ones_like(s)), axis=-1)


def _stein_rule(primals, tangents):
    """The same function is tr(Q'Q) - d - 2 log|det Q|."""

    def formula(Q):
        return jnp.sum(Q**2, axis=(-2, -1)) - 2 * log_abs_det(factorise(Q))

    return jax.jvp(formula, primals, tangents)[1]


_stein = primitive(_stein_value, _stein_rule)


# -- Bures-Wasserstein ------------------------------------------------------------------------------------------------


def _procrustes_value(T_A, T_B):
    return jnp.sum((T_A - polar(T_A @ T_B.mT) @ T_B) ** 2, axis=(-2, -1))


def _procrustes_rule(primals, tangents):
    """W minimises, so that only the explicit factors count to first order."""
    T_A, T_B = primals
    W = polar(T_A @ T_B.mT)
    total = jnp.zeros(T_A.shape[:-2], T_A.dtype)
    for residual, T_dot in zip((T_A - W @ T_B, T_B - W.mT @ T_A), tangents, strict=True):
        if not is_zero(T_dot):
            total += 2 * jnp.sum(residual * T_dot, axis=(-2, -1))
    return total


_procrustes = primitive(_procrustes_value, _procrustes_rule)


# -- arguments --------------------------------------------------------------------------------------------------------


def _factor(A: SPD) -> Array:
    if not isinstance(A, Gram | DiagonalGram):
        raise ValueError(
            f"a divergence takes two Grams, got {type(A).__name__}; use `Gram.from_dense(A)` for a dense matrix."
        )
    return A.factor


def _square_factor(A: SPD) -> Array:
    T = _factor(A)
    return T if T.shape[-2] == T.shape[-1] else jnp.linalg.qr(T, mode="r")


def _together(A: tuple, B: tuple, name: str) -> tuple[Any, Any]:
    """The arrays of A and B (first the factor) with their batch dimensions broadcast against each other."""
    a, b = A[0].shape, B[0].shape
    try:
        batch = jnp.broadcast_shapes(a[:-2], b[:-2])
    except ValueError:
        raise ValueError(f"`{name}(A, B)` cannot broadcast batch dimensions {a[:-2]} and {b[:-2]}.") from None
    if a[-1] != b[-1]:
        raise ValueError(f"`{name}(A, B)` needs matrices of one size, got {a[-1]} x {a[-1]} and {b[-1]} x {b[-1]}.")

    dtype = jnp.promote_types(A[0].dtype, B[0].dtype)

    def expand(arrays, lead):
        return jax.tree.map(lambda x: jnp.broadcast_to(x, batch + x.shape[lead:]).astype(dtype), arrays)

    return expand(A, len(a) - 2), expand(B, len(b) - 2)
