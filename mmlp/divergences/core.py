"""How far apart two SPD matrices are: (Gram, Gram) -> number, over leading batch dimensions.

Each is a sum of terms of one sign, so that it keeps its relative precision when A is close to B, and no determinant is
formed. Derivatives come from the textbook formula of each, which is smooth where eigenvalues meet.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from mmlp.linalg.core import (
    Spectrum,
    dlog_gram,
    factor_log_gram,
    factorise,
    log_abs_det,
    log_gram,
    log_ratio,
    polar,
    singular_values,
    solve,
    spectrum,
    symmetric_part,
)
from mmlp.linalg.primitive import full_precision, is_zero, primitive
from mmlp.spd.gram import SPD, DiagonalGram, Gram


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
    (T_A,), (T_B,) = _together((_square_factor(A),), (_square_factor(B),), "stein")
    return (_stein_symmetric if symmetric else _stein)(T_A, T_B)


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
    (T_A,), (T_B,) = _together((_square_factor(A),), (_square_factor(B),), "affine_invariant")
    return _affine_invariant(T_A, T_B)


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
    by_A = _along(
        S_A.factor, tangents[0], lambda: S_A.factor @ (G + dlog_gram(S_A, difference)) / 2
    )
    by_B = _along(
        S_B.factor, tangents[3], lambda: S_B.factor @ (G + dlog_gram(S_B, difference)) / 2
    )
    return by_A - by_B


_von_neumann_symmetric = primitive(_von_neumann_symmetric_value, _von_neumann_symmetric_rule)


def _von_neumann_value(*arrays):
    return _spectral_sum(
        Spectrum(*arrays[:3]), Spectrum(*arrays[3:]), lambda a, b: _bregman_of_log(b, a)
    )


def _von_neumann_rule(primals, tangents):
    """d = <dA, log A - log B> + <dB, I - dlog_B(A)>; T_A log A is finite where A is singular."""
    S_A, S_B = Spectrum(*primals[:3]), Spectrum(*primals[3:])
    T_A, T_B, identity = S_A.factor, S_B.factor, jnp.eye(S_B.s.shape[-1], dtype=S_B.s.dtype)
    by_A = _along(T_A, tangents[0], lambda: factor_log_gram(S_A) - T_A @ log_gram(S_B))
    by_B = _along(T_B, tangents[3], lambda: T_B @ (identity - dlog_gram(S_B, T_A.mT @ T_A)))
    return by_A + by_B


_von_neumann = primitive(_von_neumann_value, _von_neumann_rule)


def _along(T: Array, T_dot, gradient: Callable[[], Array]) -> Array:
    """<dA, G> = 2 <T G, dT> with dA = T'dT + dT'T, given T G for a symmetric G; zero at no cost where A is constant."""
    if is_zero(T_dot):
        return jnp.zeros(T.shape[:-2], T.dtype)
    return 2 * jnp.sum(gradient() * T_dot, axis=(-2, -1))


def _bregman_of_log(p: Array, q: Array) -> Array:
    """p^2 - q^2 - q^2 log(p^2/q^2) >= 0, to relative precision near p = q.

    With r = (p/q)^2, x = r - 1 and z = x/(2 + x), log r = 2 atanh z, so that r - 1 - log r = x z - 2 (z^3/3 + z^5/5 + ...).
    """
    difference = (p - q) * (p + q)
    close = jnp.abs(difference) < 0.3 * q**2
    x = jnp.where(close, difference / jnp.where(close, q**2, 1), 0)
    z = x / (2 + x)
    series = (
        jnp.polyval(jnp.array([1 / (2 * k + 1) for k in range(9, 0, -1)], z.dtype), z**2) * z**3
    )
    apart = jnp.where(q == 0, p**2, difference - 2 * q**2 * log_ratio(p, q))
    return jnp.where(close, q**2 * (x * z - 2 * series), apart)


# -- divergences of the ratio -----------------------------------------------------------------------------------------


def _ratio(T: Array, denominator: Array) -> Array:
    """T D^-1 for the factors T and D of two matrices; infinite when D is singular."""
    return solve(factorise(denominator), T.mT, transpose=True, refine=True).mT


def _finite_ratio(T: Array, denominator: Array) -> Array:
    """The ratio, or zero where it is infinite: an SVD needs finite numbers, and zero is infinitely far, too."""
    R = _ratio(T, denominator)
    return jnp.where(jnp.any(jnp.isinf(R), axis=(-2, -1), keepdims=True), 0, R)


def _singular(T: Array) -> Array:
    """Whether T has no inverse: the singular values of a ratio show it only to rounding."""
    return jnp.isneginf(log_abs_det(factorise(T)))


def _of_ratio(name: str, term: Callable[[Array], Array], weight: Callable[[Array], Array]):
    """sum term(s) over the singular values s of R = T_B T_A^-1, where term(s) = term(1/s); infinite at a singular factor.

    d = -<weight(R'R), dT_A T_A^-1> - <weight(R'R), dT_B T_B^-1> with R = T_A T_B^-1 in the second: each factor's derivative
    by the ratio that has it below. The singular vectors of that ratio are accurate where the inverse of the factor is large,
    so that nothing is squared, and weight(R'R) is smooth where singular values meet.
    """

    def value(T_A, T_B):
        s = spectrum(_finite_ratio(T_B, T_A)).s
        return jnp.where(_singular(T_B), jnp.inf, jnp.sum(term(s), axis=-1))

    def rule(primals, tangents):
        total = jnp.zeros(primals[0].shape[:-2], primals[0].dtype)
        for T, other, T_dot in zip(primals, primals[::-1], tangents, strict=True):
            if not is_zero(T_dot):
                total -= jnp.sum(weight(_finite_ratio(other, T)) * _ratio(T_dot, T), axis=(-2, -1))
        return total

    value.__name__ = name
    return primitive(value, rule)


def _log_cosh(s: Array) -> Array:
    """log cosh log s = log(1 + sinh(log s)^2) / 2."""
    sinh, u = (s - 1 / s) / 2, jnp.abs(jnp.log(s))
    return jnp.where(u < 1, jnp.log1p(sinh**2) / 2, u + jnp.log1p(jnp.exp(-2 * u)) - jnp.log(2))


def _tanh_log(R: Array) -> Array:
    """(R'R - I)(R'R + I)^-1, with eigenvalues tanh log s."""
    return jnp.eye(R.shape[-1], dtype=R.dtype) - _resolvent(*spectrum(R))


def _resolvent_value(R, V, s):
    """N = 2 (I + R'R)^-1."""
    return (V * (2 / (1 + s**2))[..., None, :]) @ V.mT


def _resolvent_rule(primals, tangents):
    """dN = -N (R'dR + dR'R) N / 2."""
    N = _resolvent(*primals)
    return -N @ symmetric_part(primals[0].mT @ tangents[0]) @ N


_resolvent = primitive(_resolvent_value, _resolvent_rule)
_stein_symmetric = _of_ratio("stein_symmetric", _log_cosh, _tanh_log)
_affine_invariant = _of_ratio(
    "affine_invariant", lambda s: (2 * jnp.log(s)) ** 2, lambda R: 4 * log_gram(spectrum(R))
)


def _stein_value(T_A, T_B):
    s = singular_values(_finite_ratio(T_A, T_B))
    return jnp.where(
        _singular(T_A), jnp.inf, jnp.sum(_bregman_of_log(s, jnp.ones_like(s)), axis=-1)
    )


def _stein_rule(primals, tangents):
    """The same function is |Q|^2 - d - 2 log|det T_A| + 2 log|det T_B|."""

    def formula(T_A, T_B):
        logdet = log_abs_det(factorise(T_A)) - log_abs_det(factorise(T_B))
        return jnp.sum(_ratio(T_A, T_B) ** 2, axis=(-2, -1)) - 2 * logdet

    tangents = [
        jnp.zeros_like(T) if is_zero(T_dot) else T_dot
        for T, T_dot in zip(primals, tangents, strict=True)
    ]
    return jax.jvp(formula, primals, tuple(tangents))[1]


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
        raise ValueError(
            f"`{name}(A, B)` cannot broadcast batch dimensions {a[:-2]} and {b[:-2]}."
        ) from None
    if a[-1] != b[-1]:
        raise ValueError(
            f"`{name}(A, B)` needs matrices of one size, got {a[-1]} x {a[-1]} and {b[-1]} x {b[-1]}."
        )

    dtype = jnp.promote_types(A[0].dtype, B[0].dtype)

    def expand(arrays, lead):
        return jax.tree.map(
            lambda x: jnp.broadcast_to(x, batch + x.shape[lead:]).astype(dtype), arrays
        )

    return expand(A, len(a) - 2), expand(B, len(b) - 2)
