"""One SVD T = USV' of a factor: the logarithm of A = T'T, with two orders of derivative.

Differentiating through eigenvectors divides by differences of eigenvalues, which is NaN or noise
where they meet. The rules here use divided differences of log instead (Daleckii and Krein; Higham,
"Functions of Matrices", 2008, ch. 3), accurate for equal, close and widely spread singular values.
Nothing is clamped. Functions broadcast nothing: their arguments share the leading dimensions.
"""

from functools import partial, reduce
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array, lax

from mmlp.linalg.double import SMALL, by_double, doubled, spectrum_of_square
from mmlp.linalg.primitive import is_zero, last_order, primitive


def symmetric_part(M: Array) -> Array:
    return (M + M.mT) / 2


class Spectrum(NamedTuple):
    """A factor T, which carries the derivatives, and T'T = V diag(s^2) V', which is constant."""

    factor: Array  # (..., m, d)
    V: Array  # (..., d, d), eigenvectors in columns
    s: Array  # (..., d), singular values of T


def spectrum(T: Array) -> Spectrum:
    return Spectrum(T, *_decomposed(lax.stop_gradient(T)))


def singular_values(T: Array) -> Array:
    """The singular values of T (..., m, d), m >= d, in no order and without derivatives."""
    T = lax.stop_gradient(T)
    if T.shape[-2:] == (1, 1) or by_double(T):
        return _decomposed(T)[1]

    def on_cuda(T):
        return jnp.abs(jnp.linalg.eigvalsh(doubled(T))[..., -T.shape[-1] :])

    usual = partial(jnp.linalg.svd, compute_uv=False)
    return usual(T) if T.shape[-1] <= SMALL else _by_platform(usual, on_cuda, T)


def _decomposed(T: Array) -> tuple[Array, Array]:
    """V and s. On CUDA, SVDs larger than 32 run one after another; eigenproblems do not."""
    if by_double(T):
        rows = spectrum_of_square(T)
        return rows[..., :-1, :], rows[..., -1, :]
    return _svd(T) if T.shape[-1] <= SMALL else _by_platform(_svd, _svd_by_eigh, T)


def _by_platform(usual, on_cuda, T: Array):
    return lax.platform_dependent(T, cuda=on_cuda, default=usual)


def _svd(T: Array) -> tuple[Array, Array]:
    if T.shape[-2:] == (1, 1):  # a block of a diagonal
        return jnp.ones_like(T), jnp.abs(T[..., 0])
    _, s, Vt = jnp.linalg.svd(T, full_matrices=False)
    return Vt.mT, s


def _svd_by_eigh(T: Array) -> tuple[Array, Array]:
    d = T.shape[-1]
    s, vectors = jnp.linalg.eigh(doubled(T))
    s, V = jnp.abs(s[..., -d:][..., ::-1]), vectors[..., :d, -d:][..., ::-1]
    return jnp.linalg.qr(V)[
        0
    ], s  # orthogonal to rounding, the largest directions first


def _log_gram_rule(primals, tangents):
    (S,), (S_dot,) = primals, tangents
    return dlog_gram(S, 2 * symmetric_part(S.factor.mT @ S_dot.factor))


@partial(primitive, rule=_log_gram_rule)
def log_gram(S: Spectrum) -> Array:
    """log A = V diag(2 log s) V' of A = T'T, shape (..., d, d); all -inf when T is singular."""
    log_A = symmetric_part((S.V * (2 * jnp.log(S.s))[..., None, :]) @ S.V.mT)
    return jnp.where(jnp.any(S.s == 0, axis=-1)[..., None, None], -jnp.inf, log_A)


def _factor_log_gram_rule(primals, tangents):
    (S,), ((T_dot, *_),) = primals, tangents
    return T_dot @ log_gram(S) + S.factor @ dlog_gram(
        S, 2 * symmetric_part(S.factor.mT @ T_dot)
    )


@partial(primitive, rule=_factor_log_gram_rule)
def factor_log_gram(S: Spectrum) -> Array:
    """T log A, shape (..., m, d): finite also when T is singular, because s log s tends to zero."""
    T, V, s = S
    return (T @ V * jnp.where(s == 0, 0, 2 * jnp.log(s))[..., None, :]) @ V.mT


def _dlog_gram_rule(primals, tangents):
    ((T, V, s), H), ((T_dot, *_), H_dot) = primals, tangents
    terms = []  # never empty: V and s have no tangents, and JAX does not call with none at all
    if not is_zero(H_dot):
        terms.append(dlog_gram(primals[0], H_dot))
    if not is_zero(T_dot):
        terms.append(_d2log(V, last_order(s, T), H, 2 * symmetric_part(T.mT @ T_dot)))
    return reduce(jnp.add, terms)


@partial(primitive, rule=_dlog_gram_rule, self_adjoint=True)
def dlog_gram(S: Spectrum, H: Array) -> Array:
    """The derivative of log at T'T along H, V (log[s_i^2, s_j^2] o V'HV) V'; self-adjoint."""
    _, V, s = S
    return (
        V @ (_log_difference(s[..., :, None], s[..., None, :]) * (V.mT @ H @ V)) @ V.mT
    )


def _d2log(V: Array, s: Array, H: Array, K: Array) -> Array:
    """The second derivative V (sum_k log[s_i^2, s_k^2, s_j^2] (H_ik K_kj + K_ik H_kj)) V'."""
    H, K = V.mT @ H @ V, V.mT @ K @ V
    i, k, j = s[..., :, None, None], s[..., None, :, None], s[..., None, None, :]
    f, sums = _log_second_difference(i, k, j), "...ikj,...ik,...kj->...ij"
    return V @ (jnp.einsum(sums, f, H, K) + jnp.einsum(sums, f, K, H)) @ V.mT


def log_ratio(p: Array, q: Array) -> Array:
    """log(p/q) for p, q > 0, to relative precision when p and q are close."""
    close = jnp.abs(p - q) < q / 2
    return jnp.where(close, jnp.log1p((p - q) / q), jnp.log(p) - jnp.log(q))


def _log_difference(a: Array, b: Array) -> Array:
    """log[a^2, b^2] = 2 log(a/b) / ((a - b)(a + b)), and its limit 1/a^2 where a = b."""
    equal = a == b
    gap = jnp.where(equal, 1, a - b)
    return jnp.where(equal, 1 / (a * b), 2 * log_ratio(a, b) / gap / (a + b))


def _log_second_difference(a: Array, b: Array, c: Array) -> Array:
    """log[a^2, b^2, c^2]: a quotient across the widest gap, or a series where that cancels."""
    p = jnp.maximum(jnp.maximum(a, b), c)
    q = jnp.minimum(jnp.minimum(a, b), c)
    middle = jnp.maximum(jnp.minimum(a, b), jnp.minimum(jnp.maximum(a, b), c))
    close = (p - q) < p / 16
    gap = jnp.where(close, 1, (p - q) * (p + q))
    quotient = (_log_difference(p, middle) - _log_difference(middle, q)) / gap
    return jnp.where(close, _log_second_series(p, middle, q), quotient)


def _log_second_series(a: Array, b: Array, c: Array, terms: int = 18) -> Array:
    """sum_k (-1)^(k+1) h_k(x, y, z) / ((k+2) m^2), x = a^2/m - 1 and so on, m their mean square.

    h_k are complete homogeneous polynomials; x + y + z = 0, so h_k = -e_2 h_{k-2} + e_3 h_{k-3}.
    With |x| below 1/8, 18 terms leave less than 1e-14 of the sum.
    """
    m = (a * a + b * b + c * c) / 3
    x, y, z = a * a / m - 1, b * b / m - 1, c * c / m - 1
    e2, e3 = x * y + y * z + z * x, x * y * z
    h = [jnp.ones_like(m), jnp.zeros_like(m), -e2]
    total = -h[0] / 2 - h[2] / 4
    for k in range(3, terms):
        h.append(-e2 * h[k - 2] + e3 * h[k - 3])
        total += (-1) ** (k + 1) * h[k] / (k + 2)
    return total / (m * m)
