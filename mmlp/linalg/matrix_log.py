"""The logarithm of A = T'T from one SVD T = USV', with two orders of derivative.

Differentiating through eigenvectors divides by differences of eigenvalues, which is NaN
or noise where they meet. The rules here use divided differences of log instead
(Daleckii and Krein; Higham, "Functions of Matrices", 2008, ch. 3), accurate for equal,
close and widely spread singular values. Nothing is clamped. Functions do not broadcast:
their arguments share the leading dimensions.
"""

from collections.abc import Callable
from functools import partial, reduce
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array, lax

from mmlp.linalg.float64 import (
    MAX_STANDARD_DIM,
    jordan_wielandt,
    spectrum_of_square,
    uses_float64,
)
from mmlp.linalg.primitive import is_zero, last_order, primitive


def symmetric_part(M: Array) -> Array:
    """Return (M + M') / 2."""
    return (M + M.mT) / 2


class Spectrum(NamedTuple):
    """A factor T and the spectrum of T'T = V diag(s^2) V'.

    The factor carries the derivatives; V and s are constants.
    """

    factor: Array  # (..., m, d)
    V: Array  # (..., d, d), eigenvectors in columns
    s: Array  # (..., d), singular values of T


def spectrum(T: Array) -> Spectrum:
    """Decompose T (..., m, d) with m >= d."""
    V, s = _decompose(lax.stop_gradient(T))
    return Spectrum(T, V, s)


def singular_values(T: Array) -> Array:
    """Return the singular values of T (..., m, d), m >= d, without derivatives.

    They are in no particular order.
    """
    T = lax.stop_gradient(T)
    if T.shape[-2:] == (1, 1) or uses_float64(T):
        return _decompose(T)[1]

    def compute_on_cuda(T):
        return jnp.abs(jnp.linalg.eigvalsh(jordan_wielandt(T))[..., -T.shape[-1] :])

    compute = partial(jnp.linalg.svd, compute_uv=False)
    if T.shape[-1] <= MAX_STANDARD_DIM:
        return compute(T)
    return _call_by_platform(compute, compute_on_cuda, T)


def _decompose(T: Array) -> tuple[Array, Array]:
    """Return V and s.

    On CUDA, SVDs larger than 32 run one after another; eigenproblems do not.
    """
    if uses_float64(T):
        rows = spectrum_of_square(T)
        return rows[..., :-1, :], rows[..., -1, :]
    if T.shape[-1] <= MAX_STANDARD_DIM:
        return _svd(T)
    return _call_by_platform(_svd, _svd_by_eigh, T)


def _call_by_platform(default: Callable, on_cuda: Callable, T: Array) -> Any:
    return lax.platform_dependent(T, cuda=on_cuda, default=default)


def _svd(T: Array) -> tuple[Array, Array]:
    """Return V and s of T = USV'."""
    if T.shape[-2:] == (1, 1):  # a block of a diagonal matrix
        return jnp.ones_like(T), jnp.abs(T[..., 0])
    _, s, Vt = jnp.linalg.svd(T, full_matrices=False)
    return Vt.mT, s


def _svd_by_eigh(T: Array) -> tuple[Array, Array]:
    """Return V and s from the eigenvectors of the Jordan-Wielandt matrix."""
    d = T.shape[-1]
    eigenvalues, vectors = jnp.linalg.eigh(jordan_wielandt(T))
    s = jnp.abs(eigenvalues[..., -d:][..., ::-1])
    V = vectors[..., :d, -d:][..., ::-1]

    # QR makes V orthogonal to rounding; the largest directions come first and are kept.
    return jnp.linalg.qr(V)[0], s


def _log_gram_rule(primals, tangents):
    """d log A = dlog_A(dA) with dA = T'dT + dT'T."""
    (S,) = primals
    (S_dot,) = tangents
    return dlog_gram(S, 2 * symmetric_part(S.factor.mT @ S_dot.factor))


@partial(primitive, rule=_log_gram_rule)
def log_gram(S: Spectrum) -> Array:
    """Return log A = V diag(2 log s) V' of A = T'T, shape (..., d, d).

    All entries are -inf where T is singular.
    """
    log_A = symmetric_part((S.V * (2 * jnp.log(S.s))[..., None, :]) @ S.V.mT)
    return jnp.where(jnp.any(S.s == 0, axis=-1)[..., None, None], -jnp.inf, log_A)


def _factor_log_gram_rule(primals, tangents):
    """d(T log A) = dT log A + T dlog_A(dA)."""
    (S,) = primals
    T_dot = tangents[0].factor
    return T_dot @ log_gram(S) + S.factor @ dlog_gram(
        S, 2 * symmetric_part(S.factor.mT @ T_dot)
    )


@partial(primitive, rule=_factor_log_gram_rule)
def factor_log_gram(S: Spectrum) -> Array:
    """Return T log A, shape (..., m, d).

    It is finite also where T is singular, because s log s tends to zero.
    """
    T, V, s = S
    return (T @ V * jnp.where(s == 0, 0, 2 * jnp.log(s))[..., None, :]) @ V.mT


def _dlog_gram_rule(primals, tangents):
    """d(dlog_A(H)) = dlog_A(dH) + d2log_A(H, dA)."""
    S, H = primals
    S_dot, H_dot = tangents
    T, V, s = S
    T_dot = S_dot.factor

    # At least one term remains: V and s have no tangents, and JAX does not call a rule
    # in which every tangent is zero.
    terms = []
    if not is_zero(H_dot):
        terms.append(dlog_gram(S, H_dot))
    if not is_zero(T_dot):
        terms.append(_d2log(V, last_order(s, T), H, 2 * symmetric_part(T.mT @ T_dot)))
    return reduce(jnp.add, terms)


@partial(primitive, rule=_dlog_gram_rule, self_adjoint=True)
def dlog_gram(S: Spectrum, H: Array) -> Array:
    """Return the derivative of log at T'T along H, V (log[s_i^2, s_j^2] o V'HV) V'.

    It is self-adjoint as a linear function of H.
    """
    _, V, s = S
    differences = _log_difference(s[..., :, None], s[..., None, :])
    return V @ (differences * (V.mT @ H @ V)) @ V.mT


def _d2log(V: Array, s: Array, H: Array, K: Array) -> Array:
    """Return the second derivative of log along H and K.

    V (sum_k log[s_i^2, s_k^2, s_j^2] (H_ik K_kj + K_ik H_kj)) V', with H and K in the
    basis of the eigenvectors.
    """
    H = V.mT @ H @ V
    K = V.mT @ K @ V
    f = _log_second_difference(
        s[..., :, None, None], s[..., None, :, None], s[..., None, None, :]
    )
    sums = "...ikj,...ik,...kj->...ij"
    return V @ (jnp.einsum(sums, f, H, K) + jnp.einsum(sums, f, K, H)) @ V.mT


def log_ratio(p: Array, q: Array) -> Array:
    """Return log(p/q) for p, q > 0, to relative precision where p and q are close."""
    close = jnp.abs(p - q) < q / 2
    return jnp.where(close, jnp.log1p((p - q) / q), jnp.log(p) - jnp.log(q))


def _log_difference(a: Array, b: Array) -> Array:
    """log[a^2, b^2] = 2 log(a/b) / ((a - b)(a + b)), or its limit 1/a^2 at a = b."""
    equal = a == b
    gap = jnp.where(equal, 1, a - b)
    return jnp.where(equal, 1 / (a * b), 2 * log_ratio(a, b) / gap / (a + b))


def _log_second_difference(a: Array, b: Array, c: Array) -> Array:
    """Return the second divided difference log[a^2, b^2, c^2].

    It is a quotient across the widest gap, or a series where that quotient cancels.
    """
    p = jnp.maximum(jnp.maximum(a, b), c)
    q = jnp.minimum(jnp.minimum(a, b), c)
    middle = jnp.maximum(jnp.minimum(a, b), jnp.minimum(jnp.maximum(a, b), c))
    close = (p - q) < p / 16
    gap = jnp.where(close, 1, (p - q) * (p + q))
    quotient = (_log_difference(p, middle) - _log_difference(middle, q)) / gap
    return jnp.where(close, _log_second_series(p, middle, q), quotient)


def _log_second_series(a: Array, b: Array, c: Array, terms: int = 18) -> Array:
    """Return log[a^2, b^2, c^2] for close a, b and c.

    sum_k (-1)^(k+1) h_k(x, y, z) / ((k+2) m^2), where m is the mean of a^2, b^2 and
    c^2, x = a^2/m - 1 and likewise y and z. The h_k are complete homogeneous
    polynomials; since x + y + z = 0, h_k = -e_2 h_{k-2} + e_3 h_{k-3}. With |x| below
    1/8, 18 terms leave less than 1e-14 of the sum.
    """
    m = (a * a + b * b + c * c) / 3
    x = a * a / m - 1
    y = b * b / m - 1
    z = c * c / m - 1
    e2 = x * y + y * z + z * x
    e3 = x * y * z

    h = [jnp.ones_like(m), jnp.zeros_like(m), -e2]
    total = -h[0] / 2 - h[2] / 4
    for k in range(3, terms):
        h.append(-e2 * h[k - 2] + e3 * h[k - 3])
        total += (-1) ** (k + 1) * h[k] / (k + 2)
    return total / (m * m)
