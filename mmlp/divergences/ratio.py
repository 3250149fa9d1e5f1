"""Divergences of the ratio T_A T_B^-1: Stein, and the affine-invariant distance."""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
from jax import Array

from mmlp.divergences.base import bregman_of_log, roots, uses_traces
from mmlp.linalg.lu import Root, log_abs_det, solve
from mmlp.linalg.matrix_log import log_gram, singular_values, spectrum, symmetric_part
from mmlp.linalg.primitive import is_zero, primitive
from mmlp.spd import SPD


def stein(A: SPD, B: SPD, *, symmetric: bool = True) -> Array:
    """Return the Stein (log-det) divergence.

        D(A||B) = tr(B^-1 (A - B)) - log det(A B^-1)    symmetric=False, Eq. (div)
        (D(A||C) + D(B||C)) / 2, C = (A + B) / 2        symmetric=True, Eq. (loss_stein)

    The second is log det C - log det(AB) / 2. In the singular values s of T_A T_B^-1
    they are sum(s^2 - 1 - log s^2) and sum(log cosh log s).

    Parameters
    ----------
    A, B : SPD
        Matrices of one size, whose batch dimensions broadcast.
    symmetric : bool, default=True
        Whether to return the symmetric form.

    Returns
    -------
    Array of shape (...)
        Infinite where one of the matrices is singular.

    Raises
    ------
    ValueError
        If A and B are not SPD values of one size.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from mmlp import DiagonalGram, stein
    >>> A = DiagonalGram(jnp.array([1.0, 2.0]))
    >>> B = DiagonalGram(jnp.array([1.0, 1.0]))
    >>> print(f"{stein(A, B):.4f}")  # log(2.5) - log(4) / 2
    0.2231
    """
    if uses_traces(A, B, "stein"):
        return _stein_by_traces(A, B, symmetric)
    divergence = _stein_symmetric if symmetric else _stein
    return jnp.sum(divergence(*roots(A, B, "stein")), axis=-1)


def affine_invariant(A: SPD, B: SPD) -> Array:
    """Return the squared affine-invariant distance.

    It is the sum of squares of log(B^-1/2 A B^-1/2).

    Parameters
    ----------
    A, B : SPD
        Matrices of one size, whose batch dimensions broadcast.

    Returns
    -------
    Array of shape (...)
        Infinite where one of the matrices is singular.

    Raises
    ------
    ValueError
        If A and B are not SPD values of one size.

    References
    ----------
    Pennec, Fillard and Ayache (2006), "A Riemannian framework for tensor computing".

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from mmlp import DiagonalGram, affine_invariant
    >>> A = DiagonalGram(jnp.array([1.0, 2.0]))
    >>> B = DiagonalGram(jnp.array([1.0, 1.0]))
    >>> print(f"{affine_invariant(A, B):.4f}")  # log(4)^2
    1.9218
    """
    return jnp.sum(_affine_invariant(*roots(A, B, "affine_invariant")), axis=-1)


def _stein_by_traces(A: SPD, B: SPD, symmetric: bool) -> Array:
    """Evaluate the textbook formulas, whose error near A = B is that of their terms."""
    if symmetric:
        return (A + B).scaled(0.5).logdet() - (A.logdet() + B.logdet()) / 2
    logdet, trace = B.logdet_and_trace_solve(A)
    return trace - A.dim - A.logdet() + logdet


def _divide(T: Array, denominator: Root) -> Array:
    """Return T D^-1 for the factors T and D of two matrices; infinite at singular D."""
    F = denominator.factorise()
    return solve(F, T.mT, transpose=True, refine=True).mT


def _divide_finitely(T: Array, denominator: Root) -> Array:
    """Return T D^-1, or zero where it is infinite.

    An SVD needs finite numbers, and a ratio of zero is as far away as an infinite one.
    """
    R = _divide(T, denominator)
    return jnp.where(jnp.any(jnp.isinf(R), axis=(-2, -1), keepdims=True), 0, R)


def _is_singular(T: Root) -> Array:
    """Return whether T has no inverse.

    The singular values of a ratio show that only up to rounding.
    """
    return jnp.isneginf(log_abs_det(T.factorise()))


def _make_function_of_ratio(
    name: str, term: Callable[[Array], Array], weight: Callable[[Array], Array]
) -> Callable[[Root, Root], Array]:
    """Make sum term(s) over the singular values s of R = T_B T_A^-1 a primitive.

    term(s) = term(1/s), so that the function is symmetric in A and B, and

        d = -<weight(R'R), dT_A T_A^-1> - <weight(R'R), dT_B T_B^-1>,

    with R = T_A T_B^-1 in the second term: each factor's derivative is written in the
    ratio that has this factor as its denominator. The singular vectors of that ratio
    are accurate where the inverse of the factor is large, so that nothing is squared,
    and weight(R'R) is smooth where singular values meet. Infinite at a singular factor.
    """

    def value(A: Root, B: Root) -> Array:
        s = spectrum(_divide_finitely(B.matrix, A)).s
        return jnp.where(_is_singular(B), jnp.inf, jnp.sum(term(s), axis=-1))

    def rule(primals, tangents):
        total = jnp.zeros(primals[0].matrix.shape[:-2], primals[0].matrix.dtype)
        for T, other, T_dot in zip(primals, primals[::-1], tangents, strict=True):
            if not is_zero(T_dot.matrix):
                G = weight(_divide_finitely(other.matrix, T))
                total -= jnp.sum(G * _divide(T_dot.matrix, T), axis=(-2, -1))
        return total

    value.__name__ = name
    return primitive(value, rule)


def _log_cosh(s: Array) -> Array:
    """log cosh log s = log(1 + sinh(log s)^2) / 2."""
    sinh = (s - 1 / s) / 2
    u = jnp.abs(jnp.log(s))
    close_to_one = u < 1
    close = jnp.log1p(sinh**2) / 2
    apart = u + jnp.log1p(jnp.exp(-2 * u)) - jnp.log(2)
    return jnp.where(close_to_one, close, apart)


def _tanh_log(R: Array) -> Array:
    """(R'R - I)(R'R + I)^-1, with eigenvalues tanh log s."""
    return jnp.eye(R.shape[-1], dtype=R.dtype) - _resolvent(spectrum(R))


def _resolvent_rule(primals, tangents):
    """dN = -N (R'dR + dR'R) N / 2."""
    (S,) = primals
    N = _resolvent(S)
    return -N @ symmetric_part(S.factor.mT @ tangents[0].factor) @ N


@partial(primitive, rule=_resolvent_rule)
def _resolvent(S):
    """N = 2 (I + R'R)^-1."""
    return (S.V * (2 / (1 + S.s**2))[..., None, :]) @ S.V.mT


_stein_symmetric = _make_function_of_ratio(
    "stein_symmetric", term=_log_cosh, weight=_tanh_log
)
_affine_invariant = _make_function_of_ratio(
    "affine_invariant",
    term=lambda s: (2 * jnp.log(s)) ** 2,
    weight=lambda R: 4 * log_gram(spectrum(R)),
)


def _stein_rule(primals, tangents):
    """Differentiate |Q|^2 - d - 2 log|det T_A| + 2 log|det T_B|, Q = T_A T_B^-1.

    It is the same function.
    """

    def formula(A: Root, B: Root) -> Array:
        logdet = log_abs_det(A.factorise()) - log_abs_det(B.factorise())
        return jnp.sum(_divide(A.matrix, B) ** 2, axis=(-2, -1)) - 2 * logdet

    def materialise(T, T_dot):
        return jnp.zeros_like(T) if is_zero(T_dot) else T_dot

    tangents = jax.tree.map(materialise, primals, tangents, is_leaf=is_zero)
    return jax.jvp(formula, primals, tangents)[1]


@partial(primitive, rule=_stein_rule)
def _stein(A: Root, B: Root) -> Array:
    """sum(s^2 - 1 - log s^2) over the singular values s of T_A T_B^-1."""
    s = singular_values(_divide_finitely(A.matrix, B))
    terms = bregman_of_log(s, jnp.ones_like(s))
    return jnp.where(_is_singular(A), jnp.inf, jnp.sum(terms, axis=-1))
