"""Divergences of the ratio T_A T_B^-1 of two factors: Stein, and the affine-invariant distance."""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
from jax import Array

from mmlp.divergences.base import bregman_of_log, by_traces, roots
from mmlp.linalg.lu import Root, log_abs_det, solve
from mmlp.linalg.matrix_log import log_gram, singular_values, spectrum, symmetric_part
from mmlp.linalg.primitive import is_zero, primitive
from mmlp.spd import SPD


def stein(A: SPD, B: SPD, *, symmetric: bool = True) -> Array:
    """The Stein (log-det) divergence.

        D(A||B) = tr(B^-1 (A - B)) - log det(A B^-1)       symmetric=False, Eq. (div)
        (D(A||C) + D(B||C)) / 2, C = (A + B) / 2           symmetric=True,  Eq. (loss_stein)

    The second is log det C - log det(AB) / 2. In the singular values s of T_A T_B^-1 they are
    sum(s^2 - 1 - log s^2) and sum(log cosh log s).
    """
    if by_traces(A, B, "stein"):
        return _stein_by_traces(A, B, symmetric)
    divergence = _stein_symmetric if symmetric else _stein
    return jnp.sum(divergence(*roots(A, B, "stein")), axis=-1)


def affine_invariant(A: SPD, B: SPD) -> Array:
    """The squared affine-invariant distance |log(B^-1/2 A B^-1/2)|^2 (Pennec et al., 2006)."""
    return jnp.sum(_affine_invariant(*roots(A, B, "affine_invariant")), axis=-1)


def _stein_by_traces(A: SPD, B: SPD, symmetric: bool) -> Array:
    """The textbook formulas; near A = B their error is absolute, that of the terms."""
    if symmetric:
        return (A + B).scaled(0.5).logdet() - (A.logdet() + B.logdet()) / 2
    logdet, trace = B.logdet_and_trace_solve(A)
    return trace - A.dim - A.logdet() + logdet


def _ratio(T: Array, denominator: Root) -> Array:
    """T D^-1 for the factors T and D of two matrices; infinite when D is singular."""
    return solve(denominator.factorise(), T.mT, transpose=True, refine=True).mT


def _finite_ratio(T: Array, denominator: Root) -> Array:
    """The ratio, or zero where it is infinite: an SVD needs finite numbers, zero is as far away."""
    R = _ratio(T, denominator)
    return jnp.where(jnp.any(jnp.isinf(R), axis=(-2, -1), keepdims=True), 0, R)


def _singular(T: Root) -> Array:
    """Whether T has no inverse: the singular values of a ratio show it only to rounding."""
    return jnp.isneginf(log_abs_det(T.factorise()))


def _of_ratio(
    name: str, term: Callable[[Array], Array], weight: Callable[[Array], Array]
):
    """sum term(s) over the singular values s of R = T_B T_A^-1, where term(s) = term(1/s).

    d = -<weight(R'R), dT_A T_A^-1> - <weight(R'R), dT_B T_B^-1>, R = T_A T_B^-1 in the second: each
    factor's derivative by the ratio that has it below. The singular vectors of that ratio are
    accurate where the inverse of the factor is large, so that nothing is squared, and weight(R'R)
    is smooth where singular values meet. Infinite at a singular factor.
    """

    def value(A: Root, B: Root) -> Array:
        s = spectrum(_finite_ratio(B.matrix, A)).s
        return jnp.where(_singular(B), jnp.inf, jnp.sum(term(s), axis=-1))

    def rule(primals, tangents):
        total = jnp.zeros(primals[0].matrix.shape[:-2], primals[0].matrix.dtype)
        for T, other, T_dot in zip(primals, primals[::-1], tangents, strict=True):
            if not is_zero(T_dot.matrix):
                G = weight(_finite_ratio(other.matrix, T))
                total -= jnp.sum(G * _ratio(T_dot.matrix, T), axis=(-2, -1))
        return total

    value.__name__ = name
    return primitive(value, rule)


def _log_cosh(s: Array) -> Array:
    """log cosh log s = log(1 + sinh(log s)^2) / 2."""
    sinh, u = (s - 1 / s) / 2, jnp.abs(jnp.log(s))
    return jnp.where(
        u < 1, jnp.log1p(sinh**2) / 2, u + jnp.log1p(jnp.exp(-2 * u)) - jnp.log(2)
    )


def _tanh_log(R: Array) -> Array:
    """(R'R - I)(R'R + I)^-1, with eigenvalues tanh log s."""
    return jnp.eye(R.shape[-1], dtype=R.dtype) - _resolvent(spectrum(R))


def _resolvent_rule(primals, tangents):
    """dN = -N (R'dR + dR'R) N / 2."""
    (S,), N = primals, _resolvent(*primals)
    return -N @ symmetric_part(S.factor.mT @ tangents[0].factor) @ N


@partial(primitive, rule=_resolvent_rule)
def _resolvent(S):
    """N = 2 (I + R'R)^-1."""
    return (S.V * (2 / (1 + S.s**2))[..., None, :]) @ S.V.mT


_stein_symmetric = _of_ratio("stein_symmetric", _log_cosh, _tanh_log)
_affine_invariant = _of_ratio(
    "affine_invariant",
    lambda s: (2 * jnp.log(s)) ** 2,
    lambda R: 4 * log_gram(spectrum(R)),
)


def _stein_rule(primals, tangents):
    """The same function is |Q|^2 - d - 2 log|det T_A| + 2 log|det T_B|, Q = T_A T_B^-1."""

    def formula(A: Root, B: Root) -> Array:
        logdet = log_abs_det(A.factorise()) - log_abs_det(B.factorised())
        return jnp.sum(_ratio(A.matrix, B) ** 2, axis=(-2, -1)) - 2 * logdet

    def known(T, T_dot):
        return jnp.zeros_like(T) if is_zero(T_dot) else T_dot

    return jax.jvp(
        formula, primals, jax.tree.map(known, primals, tangents, is_leaf=is_zero)
    )[1]


@partial(primitive, rule=_stein_rule)
def _stein(A: Root, B: Root) -> Array:
    s = singular_values(_finite_ratio(A.matrix, B))
    terms = bregman_of_log(s, jnp.ones_like(s))
    return jnp.where(_singular(A), jnp.inf, jnp.sum(terms, axis=-1))
