"""What the divergences share: how they take two values, and sums that do not cancel.

All of them are additive over blocks along the diagonal, so that they ask two values for the factors
of blocks of one size: a dense matrix is one block, a diagonal has d blocks of size one, and two
diagonals stay diagonal. Where both values are compact (`SPD.compact`) and not diagonal, those that
can be written in determinants, traces and products are, and nothing of size d^2 is made.
"""

from collections.abc import Callable

import jax.numpy as jnp
from jax import Array

from mmlp.linalg.float64 import uses_float64
from mmlp.linalg.lu import Root
from mmlp.linalg.matrix_log import Spectrum, log_ratio, spectrum
from mmlp.linalg.primitive import is_zero
from mmlp.spd import SPD
from mmlp.spd.arguments import check_pair, together


def by_traces(A: SPD, B: SPD, name: str) -> bool:
    """Whether two values, checked, are to be compared without dense factors."""
    check_pair(A, B, f"{name}(A, B)")
    return A.compact and B.compact and max(A.block, B.block) > 1


def factors(A: SPD, B: SPD, name: str) -> tuple[Array, Array]:
    """The factors of both (..., k, m, b), of k blocks."""
    return together(*_blocks(A, B, name), trailing=3)


def spectra(A: SPD, B: SPD, name: str) -> tuple[Spectrum, Spectrum]:
    """The decompositions of both factors, each taken once, before batch dimensions broadcast."""
    T_A, T_B = _blocks(A, B, name)
    if T_A.shape != T_B.shape or T_A.dtype != T_B.dtype or not uses_float64(T_A):
        return together(spectrum(T_A), spectrum(T_B), trailing=3)
    _, V, s = spectrum(
        jnp.stack([T_A, T_B])
    )  # on a GPU both take little longer than one
    return Spectrum(T_A, V[0], s[0]), Spectrum(T_B, V[1], s[1])


def roots(A: SPD, B: SPD, name: str) -> tuple[Root, Root]:
    """Square factors of both (..., k, b, b)."""
    check_pair(A, B, f"{name}(A, B)")
    if A.block == B.block < A.dim:
        T_A, T_B = (Root(T, T.shape[-1] == 1) for T in factors(A, B, name))
        return T_A, T_B
    (T_A, upper_A), (T_B, upper_B) = A.root(), B.root()
    T_A, T_B = together(T_A[..., None, :, :], T_B[..., None, :, :], trailing=3)
    return Root(T_A, upper_A), Root(T_B, upper_B)


def _blocks(A: SPD, B: SPD, name: str) -> tuple[Array, Array]:
    check_pair(A, B, f"{name}(A, B)")
    if A.block == B.block:
        return A.block_factors(), B.block_factors()
    return A.factor[..., None, :, :], B.factor[..., None, :, :]


def along(T: Array, T_dot, gradient: Callable[[], Array]) -> Array:
    """<dA, G> = 2 <T G, dT>, given T G for a symmetric G; zero at no cost where A is constant."""
    if is_zero(T_dot):
        return jnp.zeros(T.shape[:-2], T.dtype)
    return 2 * jnp.sum(gradient() * T_dot, axis=(-2, -1))


def bregman_of_log(p: Array, q: Array) -> Array:
    """p^2 - q^2 - q^2 log(p^2/q^2) >= 0, to relative precision near p = q.

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
