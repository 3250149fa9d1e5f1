"""How far apart two SPD matrices are: (Gram, Gram) -> number, over leading batch dimensions.

Each is a sum of non-negative terms over singular values, so that it keeps its relative precision when A is close to B,
and no determinant is formed. Derivatives come from the textbook formula of each, which is smooth where eigenvalues meet.
"""

import functools

import jax
import jax.numpy as jnp
from jax import Array
from jax.custom_derivatives import SymbolicZero

from mmlp._linalg import (
    Spectrum,
    dlog_gram,
    factorise,
    full_precision,
    log_abs_det,
    log_gram,
    log_ratio,
    polar,
    singular_values,
    solve,
    spectrum,
)
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
    return (_von_neumann_symmetric if symmetric else _von_neumann)(S_A, S_B)


def stein(A: SPD, B: SPD, *, symmetric: bool = True) -> Array:
    """The Stein (log-det) divergence.

        D(A||B) = tr(B^-1 (A - B)) - log det(A B^-1)                               symmetric=False, Eq. (div)
        (D(A||C) + D(B||C)) / 2 = log det C - log det(AB) / 2,  C = (A + B) / 2    symmetric=True,  Eq. (loss_stein)

    In the singular values s of T_A T_B^-1: sum(s^2 - 1 - log s^2), and sum(log cosh log s).
    """
    return (_log_cosh_log if symmetric else _stein)(_relative_factor(A, B, "stein"))


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
    return jnp.sum(log_gram(spectrum(Q)) ** 2, axis=(-2, -1))


def bures_wasserstein(A: SPD, B: SPD) -> Array:
    """The squared Bures-Wasserstein distance tr A + tr B - 2 tr (A^1/2 B A^1/2)^1/2 = min_W |T_A - W T_B|^2, W orthogonal.

    The minimum is at the orthogonal factor of T_A T_B' (Bhatia, Jain and Lim, 2019).
    """
    (T_A,), (T_B,) = _together((_square_factor(A),), (_square_factor(B),), "bures_wasserstein")
    return _procrustes(T_A, T_B)


# -- von Neumann ------------------------------------------------------------------------------------------------------


def _spectral_sum(S_A: Spectrum, S_B: Spectrum, term) -> Array:
    """sum_ij (v_i . w_j)^2 term(a_i, b_j) over singular values a, b and eigenvectors v, w of A and B."""
    overlap = (S_A.V.mT @ S_B.V) ** 2
    return jnp.sum(overlap * term(S_A.s[..., :, None], S_B.s[..., None, :]), axis=(-2, -1))


@jax.custom_jvp
@full_precision
def _von_neumann_symmetric(S_A, S_B):
    return _spectral_sum(S_A, S_B, lambda a, b: (a - b) * (a + b) * log_ratio(a, b))


@functools.partial(_von_neumann_symmetric.defjvp, symbolic_zeros=True)
@full_precision
def _von_neumann_symmetric_jvp(primals, tangents):
    """d = (<dA, G + dlog_A(A - B)> - <dB, G + dlog_B(A - B)>) / 2 with G = log A - log B."""
    S_A, S_B = primals
    G = log_gram(S_A) - log_gram(S_B)
    difference = S_A.factor.mT @ S_A.factor - S_B.factor.mT @ S_B.factor
    by_A = _along(S_A, tangents[0], lambda: (G + dlog_gram(S_A, difference)) / 2)
    by_B = _along(S_B, tangents[1], lambda: (G + dlog_gram(S_B, difference)) / 2)
    return _von_neumann_symmetric(S_A, S_B), by_A - by_B


@jax.custom_jvp
@full_precision
def _von_neumann(S_A, S_B):
    # a^2 log(a^2/b^2) - a^2 + b^2 = a^2 (x - log(1 + x)) with 1 + x = (b/a)^2
    return _spectral_sum(S_A, S_B, lambda a, b: a**2 * _square_minus_one_minus_log(b, a))


@functools.partial(_von_neumann.defjvp, symbolic_zeros=True)
@full_precision
def _von_neumann_jvp(primals, tangents):
    """d = <dA, log A - log B> + <dB, I - dlog_B(A)>."""
    S_A, S_B = primals
    identity = jnp.eye(S_B.s.shape[-1], dtype=S_B.s.dtype)
    by_A = _along(S_A, tangents[0], lambda: log_gram(S_A) - log_gram(S_B))
    by_B = _along(S_B, tangents[1], lambda: identity - dlog_gram(S_B, S_A.factor.mT @ S_A.factor))
    return _von_neumann(S_A, S_B), by_A + by_B


def _along(S: Spectrum, S_dot: Spectrum, gradient) -> Array:
    """<dA, gradient> with dA = T'dT + dT'T, for a symmetric gradient by A; zero at no cost where A is constant."""
    if isinstance(S_dot.factor, SymbolicZero):
        return jnp.zeros(S.s.shape[:-1], S.s.dtype)
    return 2 * jnp.sum((S.factor @ gradient()) * S_dot.factor, axis=(-2, -1))


def _square_minus_one_minus_log(p: Array, q: Array) -> Array:
    """r - 1 - log r at r = (p/q)^2, to relative precision near r = 1.

    With x = r - 1 and z = x/(2 + x), log r = 2 atanh z, so that r - 1 - log r = x z - 2 (z^3/3 + z^5/5 + ...).
    """
    x = (p - q) * (p + q) / q**2
    z = x / (2 + x)
    series = sum(z ** (2 * k + 1) / (2 * k + 1) for k in range(1, 10))
    return jnp.where(jnp.abs(x) < 0.3, x * z - 2 * series, x - 2 * log_ratio(p, q))


# -- Stein ------------------------------------------------------------------------------------------------------------


@full_precision
def _relative_factor(A: SPD, B: SPD, name: str) -> Array:
    """Q = T_A T_B^-1, so that Q'Q has the eigenvalues of A B^-1."""
    (T_A,), (T_B,) = _together((_square_factor(A),), (_square_factor(B),), name)
    return solve(factorise(T_B), T_A.mT, transpose=True).mT


@jax.custom_jvp
def _log_cosh_log(Q: Array) -> Array:
    """sum log cosh log s = sum log(1 + sinh(log s)^2) / 2 over the singular values s of Q."""
    s = singular_values(Q)
    sinh = (s - 1 / s) / 2
    u = jnp.abs(jnp.log(s))
    return jnp.sum(jnp.where(u < 1, jnp.log1p(sinh**2) / 2, u + jnp.log1p(jnp.exp(-2 * u)) - jnp.log(2)), axis=-1)


@_log_cosh_log.defjvp
@full_precision
def _log_cosh_log_jvp(primals, tangents):
    """The same function is log det((I + Q'Q)/2) - log|det Q|; I + Q'Q = R'R with R from a QR of Q above I."""

    def formula(Q):
        identity = jnp.broadcast_to(jnp.eye(Q.shape[-1], dtype=Q.dtype), Q.shape)
        R = jnp.linalg.qr(jnp.concatenate([Q, identity], axis=-2), mode="r")
        return 2 * log_abs_det(factorise(R, upper=True)) - log_abs_det(factorise(Q))

    return _log_cosh_log(*primals), jax.jvp(formula, primals, tangents)[1]


@jax.custom_jvp
def _stein(Q: Array) -> Array:
    s = singular_values(Q)
    return jnp.sum(_square_minus_one_minus_log(s, jnp.ones_like(s)), axis=-1)


@_stein.defjvp
@full_precision
def _stein_jvp(primals, tangents):
    def formula(Q):
        return jnp.sum(Q**2, axis=(-2, -1)) - 2 * log_abs_det(factorise(Q))

    return _stein(*primals), jax.jvp(formula, primals, tangents)[1]


# -- Bures-Wasserstein ------------------------------------------------------------------------------------------------


@jax.custom_jvp
@full_precision
def _procrustes(T_A: Array, T_B: Array) -> Array:
    return jnp.sum((T_A - polar(T_A @ T_B.mT) @ T_B) ** 2, axis=(-2, -1))


@_procrustes.defjvp
@full_precision
def _procrustes_jvp(primals, tangents):
    """W minimises, so that only the explicit factors count to first order."""
    (T_A, T_B), (T_A_dot, T_B_dot) = primals, tangents
    W = polar(T_A @ T_B.mT)
    gradient = (T_A - W @ T_B) * T_A_dot + (T_B - W.mT @ T_A) * T_B_dot
    return _procrustes(T_A, T_B), 2 * jnp.sum(gradient, axis=(-2, -1))


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


def _together(A: tuple, B: tuple, name: str) -> tuple[tuple, tuple]:
    """The arrays of A and B (first the factor) with their batch dimensions broadcast against each other."""
    a, b = A[0].shape, B[0].shape
    try:
        batch = jnp.broadcast_shapes(a[:-2], b[:-2])
    except ValueError:
        raise ValueError(f"`{name}(A, B)` cannot broadcast batch dimensions {a[:-2]} and {b[:-2]}.") from None
    if a[-1] != b[-1]:
        raise ValueError(f"`{name}(A, B)` needs matrices of one size, got {a[-1]} x {a[-1]} and {b[-1]} x {b[-1]}.")

    def expand(arrays, lead):
        return jax.tree.map(lambda x: jnp.broadcast_to(x, batch + x.shape[lead:]), arrays)

    return expand(A, len(a) - 2), expand(B, len(b) - 2)
