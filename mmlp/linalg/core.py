"""The few custom derivative rules; everything else in the library is plain JAX.

An SPD matrix is A = T'T and is never factored itself. Two decompositions of T are taken, each once per matrix and
shared by value and derivative:

    PT = LU    -> `log_abs_det`, `solve`              all orders of derivative
    T = USV'   -> `log_gram`, and its derivative       two orders: log has them in closed form, an SVD has not

Differentiating through eigenvectors divides by differences of eigenvalues, which is NaN or noise where they meet. The
rules here use divided differences of log instead (Daleckii and Krein; Higham, "Functions of Matrices", 2008, ch. 3),
computed so that they are accurate for equal, close and widely spread singular values. Nothing is clamped.

All functions broadcast nothing: their arguments share the leading (batch) dimensions.
"""

import functools
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array, lax

from mmlp.linalg.primitive import full_precision, is_zero, primitive, varying_alike


def symmetric_part(M: Array) -> Array:
    return (M + M.mT) / 2


# -- one LU: log|det T| and T^-1 b ------------------------------------------------------------------------------------


class Factorised(NamedTuple):
    """A square matrix T and its LU decomposition. T carries the derivatives; `lu` is None for an upper triangle."""

    matrix: Array  # (..., d, d)
    lu: Array | None
    permutation: Array | None  # (..., d): row i of PT is row permutation[i] of T


def factorise(T: Array, *, upper: bool = False) -> Factorised:
    if upper:
        return Factorised(T, None, None)
    lu, _, permutation = lax.linalg.lu(lax.stop_gradient(T))
    return Factorised(T, lu, permutation)


def log_abs_det(F: Factorised) -> Array:
    """log|det T|, shape (...); -inf when T is singular. d log|det T| = tr(T^-1 dT)."""
    if F.lu is None:
        return _log_abs_diagonal(F.matrix)
    return _log_abs_det(*F)


def _log_abs_diagonal(T: Array) -> Array:
    return jnp.sum(jnp.log(jnp.abs(jnp.diagonal(T, axis1=-2, axis2=-1))), axis=-1)


def _log_abs_det_value(T, lu, permutation):
    return _log_abs_diagonal(lu)


def _log_abs_det_rule(primals, tangents):
    return jnp.trace(solve(Factorised(*primals), tangents[0]), axis1=-2, axis2=-1)


_log_abs_det = primitive(_log_abs_det_value, _log_abs_det_rule)


@full_precision
def solve(F: Factorised, b: Array, *, transpose: bool = False, refine: bool = False) -> Array:
    """T^-1 b, or T^-T b, for columns b (..., d, k); infinite when T is singular. d(T^-1 b) = T^-1 (db - dT T^-1 b).

    `refine` takes a second step from the residual in about twice the precision. In float32 that gains the digits
    that conditioning had cost, up to cond(T) of 1e6 or so; float64 has digits to spare and is left as it is.
    """
    F, b = varying_alike((F, b))
    T = F.matrix.mT if transpose else F.matrix
    triangle = F.matrix if F.lu is None else F.lu
    singular = jnp.any(jnp.diagonal(triangle, axis1=-2, axis2=-1) == 0, axis=-1)[..., None, None]

    def once(y, transpose):
        if F.lu is None or F.permutation is None:
            x = lax.linalg.triangular_solve(
                F.matrix, y, left_side=True, lower=False, transpose_a=transpose
            )
        else:
            x = _lu_solve(F.lu, F.permutation, y, transpose=transpose)
        return jnp.where(singular, jnp.inf, x)

    def refined(_, y):
        x = once(y, transpose)
        if refine and y.dtype == jnp.float32:
            correction = once(_residual(lax.stop_gradient(T), x, y), transpose)
            x = jnp.where(jnp.isfinite(correction), x + correction, x)
        return x

    return lax.custom_linear_solve(lambda x: T @ x, b, refined, lambda _, y: once(y, not transpose))


def _residual(T: Array, x: Array, b: Array) -> Array:
    """b - Tx of float32 arrays to several digits more than float32, in float32 products.

    Each is cut into a leading part of so few bits that the product of leading parts is exact, in whatever order its
    terms are added (the idea of Ozaki et al., 2012). It cancels b exactly; the rest is smaller, and so is its rounding.
    """
    bits = (24 - (T.shape[-1] - 1).bit_length()) // 2
    T_lead, x_lead = _leading_bits(T, bits, axis=-1), _leading_bits(x, bits, axis=-2)
    return (b - T_lead @ x_lead) - (T_lead @ (x - x_lead) + (T - T_lead) @ x)


def _leading_bits(x: Array, bits: int, axis: int) -> Array:
    """x, of float32, rounded to `bits` bits below the largest entry along `axis`."""
    largest = jnp.max(jnp.abs(x), axis=axis, keepdims=True)
    exponent = lax.bitcast_convert_type(largest, jnp.int32) & 0x7F800000
    grid = lax.bitcast_convert_type(exponent, jnp.float32) * 2.0 ** (25 - bits)
    return (x + grid) - grid


def _lu_solve(lu: Array, permutation: Array, b: Array, *, transpose: bool) -> Array:
    triangle = functools.partial(
        lax.linalg.triangular_solve, lu, left_side=True, transpose_a=transpose
    )
    rows = permutation[..., None]
    if transpose:  # T = P'LU, so T' = U'L'P
        y = triangle(triangle(b, lower=False), lower=True, unit_diagonal=True)
        return jnp.take_along_axis(y, jnp.argsort(rows, axis=-2), axis=-2)
    y = triangle(jnp.take_along_axis(b, rows, axis=-2), lower=True, unit_diagonal=True)
    return triangle(y, lower=False)


# -- one SVD: log(T'T) ------------------------------------------------------------------------------------------------


class Spectrum(NamedTuple):
    """A factor T and the decomposition T'T = V diag(s^2) V'. T carries the derivatives, V and s are constants."""

    factor: Array  # (..., m, d)
    V: Array  # (..., d, d), eigenvectors in columns
    s: Array  # (..., d), singular values of T


def spectrum(T: Array) -> Spectrum:
    return Spectrum(T, *_by_size_and_platform(_svd, _svd_by_eigh, lax.stop_gradient(T)))


def singular_values(T: Array) -> Array:
    """The singular values of T (..., m, d), m >= d, in no order. Not differentiable: rules give the derivatives."""
    return _by_size_and_platform(
        lambda T: jnp.linalg.svd(T, compute_uv=False),
        lambda T: jnp.abs(jnp.linalg.eigvalsh(_doubled(T))[..., -T.shape[-1] :]),
        lax.stop_gradient(T),
    )


def _by_size_and_platform(usual, on_cuda, T: Array):
    """On CUDA, batched SVDs larger than 32 run one after another; symmetric eigenproblems do not."""
    return usual(T) if T.shape[-1] <= 32 else lax.platform_dependent(T, cuda=on_cuda, default=usual)


def _svd(T: Array) -> tuple[Array, Array]:
    _, s, Vt = jnp.linalg.svd(T, full_matrices=False)
    return Vt.mT, s


def _svd_by_eigh(T: Array) -> tuple[Array, Array]:
    d = T.shape[-1]
    s, vectors = jnp.linalg.eigh(_doubled(T))
    s, V = jnp.abs(s[..., -d:][..., ::-1]), vectors[..., :d, -d:][..., ::-1]
    return jnp.linalg.qr(V)[0], s  # orthogonal to rounding, the largest directions first


def _doubled(T: Array) -> Array:
    """[0 T'; T 0]: its eigenvalues are s, -s and zeros, its eigenvectors (v, u). Like an SVD it does not square T."""
    m, d = T.shape[-2:]
    zeros = jnp.zeros((*T.shape[:-2], d + m, d + m), T.dtype)
    return zeros.at[..., d:, :d].set(T).at[..., :d, d:].set(T.mT)


def log_gram(S: Spectrum) -> Array:
    """log A = V diag(2 log s) V' of A = T'T, shape (..., d, d); all -inf when T is singular."""
    return _log_gram(*S)


def _log_gram_value(T, V, s):
    log_A = (V * (2 * jnp.log(s))[..., None, :]) @ V.mT
    return jnp.where(jnp.any(s == 0, axis=-1)[..., None, None], -jnp.inf, symmetric_part(log_A))


def _log_gram_rule(primals, tangents):
    S = Spectrum(*primals)
    return dlog_gram(S, 2 * symmetric_part(S.factor.mT @ tangents[0]))


_log_gram = primitive(_log_gram_value, _log_gram_rule)


def factor_log_gram(S: Spectrum) -> Array:
    """T log A, shape (..., m, d): finite also when T is singular, because s log s tends to zero."""
    return _factor_log_gram(*S)


def _factor_log_gram_value(T, V, s):
    return (T @ V * jnp.where(s == 0, 0, 2 * jnp.log(s))[..., None, :]) @ V.mT


def _factor_log_gram_rule(primals, tangents):
    S, T_dot = Spectrum(*primals), tangents[0]
    return T_dot @ log_gram(S) + S.factor @ dlog_gram(S, 2 * symmetric_part(S.factor.mT @ T_dot))


_factor_log_gram = primitive(_factor_log_gram_value, _factor_log_gram_rule)


def dlog_gram(S: Spectrum, H: Array) -> Array:
    """The derivative of the logarithm at A = T'T in direction H: V (log[s_i^2, s_j^2] o V'HV) V'.

    Linear and self-adjoint in H, so that it is its own transpose.
    """
    return _dlog(*S, H)


def _dlog_value(T, V, s, H):
    return V @ (_log_difference(s[..., :, None], s[..., None, :]) * (V.mT @ H @ V)) @ V.mT


def _dlog_rule(primals, tangents):
    T, V, s, H = primals
    T_dot, _, _, H_dot = tangents
    terms = []  # never empty: V and s have no tangents, and JAX does not call with none at all
    if not is_zero(H_dot):
        terms.append(_dlog(T, V, s, H_dot))
    if not is_zero(T_dot):
        terms.append(_d2log(V, _last_order(s, T), H, 2 * symmetric_part(T.mT @ T_dot)))
    return functools.reduce(jnp.add, terms)


_dlog = primitive(
    _dlog_value, _dlog_rule, transpose=lambda cotangent, T, V, s: _dlog(T, V, s, cotangent)
)


def _d2log(V: Array, s: Array, H: Array, K: Array) -> Array:
    """The second derivative, V (sum_k log[s_i^2, s_k^2, s_j^2] (H_ik K_kj + K_ik H_kj)) V', bilinear in H and K."""
    H, K = V.mT @ H @ V, V.mT @ K @ V
    f = _log_second_difference(
        s[..., :, None, None], s[..., None, :, None], s[..., None, None, :]
    )  # [i, k, j]
    return (
        V
        @ (
            jnp.einsum("...ikj,...ik,...kj->...ij", f, H, K)
            + jnp.einsum("...ikj,...ik,...kj->...ij", f, K, H)
        )
        @ V.mT
    )


def log_ratio(p: Array, q: Array) -> Array:
    """log(p/q) for p, q > 0, to relative precision when p and q are close."""
    close = jnp.abs(p - q) < q / 2
    return jnp.where(close, jnp.log1p((p - q) / q), jnp.log(p) - jnp.log(q))


def _log_difference(a: Array, b: Array) -> Array:
    """log[a^2, b^2] = 2 log(a/b) / ((a - b)(a + b)), and 1/a^2 where a = b: exact in the limit, hence no switch."""
    equal = a == b
    gap = jnp.where(equal, 1, a - b)
    return jnp.where(equal, 1 / (a * b), 2 * log_ratio(a, b) / gap / (a + b))


def _log_second_difference(a: Array, b: Array, c: Array) -> Array:
    """log[a^2, b^2, c^2]: the quotient of first differences across the widest gap, or a series where that cancels."""
    p = jnp.maximum(jnp.maximum(a, b), c)
    q = jnp.minimum(jnp.minimum(a, b), c)
    middle = jnp.maximum(jnp.minimum(a, b), jnp.minimum(jnp.maximum(a, b), c))
    close = (p - q) < p / 16
    gap = jnp.where(close, 1, (p - q) * (p + q))
    quotient = (_log_difference(p, middle) - _log_difference(middle, q)) / gap
    return jnp.where(close, _log_second_series(p, middle, q), quotient)


def _log_second_series(a: Array, b: Array, c: Array, terms: int = 18) -> Array:
    """sum_k (-1)^(k+1) h_k(x, y, z) / ((k+2) m^2), with x = a^2/m - 1 and so on about the mean m of the squares.

    h_k are complete homogeneous polynomials; x + y + z = 0, so h_k = -e_2 h_{k-2} + e_3 h_{k-3}. With |x| below 1/8,
    18 terms leave less than 1e-14 of the sum.
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


# -- the orthogonal factor of a square matrix -------------------------------------------------------------------------


def _polar_value(M):
    U, _, Vt = jnp.linalg.svd(M, full_matrices=False)
    return U @ Vt


def _polar_rule(primals, tangents):
    U, s, Vt = jnp.linalg.svd(_last_order(primals[0], primals[0]), full_matrices=False)
    X = U.mT @ tangents[0] @ Vt.mT
    return U @ ((X - X.mT) / (s[..., :, None] + s[..., None, :])) @ Vt


_polar = primitive(_polar_value, _polar_rule)


def polar(M: Array) -> Array:
    """W = UV' of M = USV': the orthogonal matrix nearest to M. Its derivative divides by sums of singular values."""
    return _polar(M)


def _last_order_value(x, T):
    return x


def _last_order_rule(primals, tangents):
    raise NotImplementedError(
        "third derivatives of logm and of the divergences that use it are not implemented; differentiate twice at most"
    )


# (x, T) -> x, where x was computed from T: the point up to which derivatives by T are implemented
_last_order = primitive(_last_order_value, _last_order_rule)
