"""The factors that divergences compare, and sums that do not cancel.

All divergences are additive over diagonal blocks, so that they ask two values for the
factors of blocks of one size: a dense matrix is one block, a diagonal matrix has d
blocks of size one, and two diagonal matrices stay diagonal. Where both values are
compact (`SPD.compact`) and not diagonal, those divergences that can be written in
determinants, traces and products are, and nothing of size d^2 is made.
"""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jax import Array

from mmlp.linalg.float64 import uses_float64
from mmlp.linalg.lu import Root
from mmlp.linalg.matrix_log import Spectrum, log_ratio, spectrum
from mmlp.linalg.primitive import is_zero
from mmlp.spd import SPD
from mmlp.spd.arguments import broadcast_together, check_pair


def uses_traces(A: SPD, B: SPD, name: str) -> bool:
    """Return whether two values are compared by traces, without dense factors."""
    check_pair(A, B, f"{name}(A, B)")
    return A.compact and B.compact and max(A.block, B.block) > 1


def factors(A: SPD, B: SPD, name: str) -> tuple[Array, Array]:
    """Return the factors of both values, (..., k, m, b) for k blocks."""
    return broadcast_together(*_get_blocks(A, B, name), trailing=3)


def spectra(A: SPD, B: SPD, name: str) -> tuple[Spectrum, Spectrum]:
    """Decompose both factors once, before batch dimensions broadcast."""
    T_A, T_B = _get_blocks(A, B, name)
    alike = T_A.shape == T_B.shape and T_A.dtype == T_B.dtype
    if not alike or not uses_float64(T_A):
        return broadcast_together(spectrum(T_A), spectrum(T_B), trailing=3)

    # On a GPU both decompositions together take little longer than one.
    _, V, s = spectrum(jnp.stack([T_A, T_B]))
    return Spectrum(T_A, V[0], s[0]), Spectrum(T_B, V[1], s[1])


def roots(A: SPD, B: SPD, name: str) -> tuple[Root, Root]:
    """Return square factors of both values, (..., k, b, b) for k blocks."""
    check_pair(A, B, f"{name}(A, B)")
    if A.block == B.block < A.dim:
        T_A, T_B = factors(A, B, name)
        upper = T_A.shape[-1] == 1
        return Root(T_A, upper), Root(T_B, upper)

    T_A, upper_A = A.root()
    T_B, upper_B = B.root()
    T_A, T_B = broadcast_together(
        T_A[..., None, :, :], T_B[..., None, :, :], trailing=3
    )
    return Root(T_A, upper_A), Root(T_B, upper_B)


def _get_blocks(A: SPD, B: SPD, name: str) -> tuple[Array, Array]:
    """Return the factors of the diagonal blocks, or of A and B if sizes differ."""
    check_pair(A, B, f"{name}(A, B)")
    if A.block == B.block:
        return A.block_factors(), B.block_factors()
    return A.factor[..., None, :, :], B.factor[..., None, :, :]


def derivative_along(T: Array, T_dot: Any, gradient: Callable[[], Array]) -> Array:
    """Return <dA, G> = 2 <T G, dT> for a symmetric G, where `gradient()` is T G.

    Where A is constant the result is zero, and the gradient is not computed.
    """
    if is_zero(T_dot):
        return jnp.zeros(T.shape[:-2], T.dtype)
    return 2 * jnp.sum(gradient() * T_dot, axis=(-2, -1))


def bregman_of_log(p: Array, q: Array) -> Array:
    """Return p^2 - q^2 - q^2 log(p^2/q^2) >= 0, to relative precision near p = q.

    With r = (p/q)^2, x = r - 1 and z = x/(2 + x), log r = 2 atanh z, and so
    r - 1 - log r = x z - 2 (z^3/3 + z^5/5 + ...).
    """
    difference = (p - q) * (p + q)
    close = jnp.abs(difference) < 0.3 * q**2
    x = jnp.where(close, difference / jnp.where(close, q**2, 1), 0)
    z = x / (2 + x)
    coefficients = jnp.array([1 / (2 * k + 1) for k in range(9, 0, -1)], z.dtype)
    series = jnp.polyval(coefficients, z**2) * z**3
    apart = jnp.where(q == 0, p**2, difference - 2 * q**2 * log_ratio(p, q))
    return jnp.where(close, q**2 * (x * z - 2 * series), apart)
