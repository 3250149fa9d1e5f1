"""Differentiable draws of log gamma variables, and stable ratios of gamma functions.

The draws are of y = a log x with x ~ Gamma(a, 1), and are differentiable with respect
to a. The radius of a power exponential needs this product, r = exp((y + a log 2) / d)
with a = d / (2 beta), and unlike log x it stays of order one for tiny a. With
s = log x, P and p the distribution function and density of x, and psi the digamma
function, its derivative at a fixed quantile (implicit reparameterisation; Figurnov,
Mohamed and Mnih, 2018) is

    dy/da = s - a (dP/da) / (x p)
          = s + a int_0^inf (s - psi(a) + w) exp(a w - x (e^w - 1)) dw
                                                                      s > psi(a + 1)
          = psi(b) + x int_0^inf (psi(b) - s + w) exp(-b w + x (1 - e^-w)) dw
                                                                      s <= psi(a + 1)

with b = a + 1, where 1 - P and P are written as integrals over t = x e^w and x e^-w.
All terms under the integrals are positive, so nothing cancels, and x may underflow.
Measured against 40 digits, for shapes from 1e-4 to 1e4 and quantiles from 1e-12 to
1 - 1e-12, the error relative to 1 + |dy/da| is at most 1e-12 in float64 and 1e-5 in
float32.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.special import digamma

from mmlp.linalg.primitive import primitive

# Integrands are cut where they are below exp(-36) = 2e-16 of their value at w = 0.
CUT = 36.0

# Gauss-Legendre quadrature on [0, 1].
_NODES_AROUND_ZERO, _WEIGHTS_AROUND_ZERO = np.polynomial.legendre.leggauss(32)
NODES = 0.5 * _NODES_AROUND_ZERO + 0.5
WEIGHTS = 0.5 * _WEIGHTS_AROUND_ZERO

# The asymptotic series of log Gamma and psi are used from here on. Smaller arguments
# are raised in this many steps of the recurrence.
STIRLING_SHIFT = 8

# Coefficients B_2k / (2k) and B_2k / (2k (2k - 1)), k = 7, ..., 1.
DIGAMMA_COEFFICIENTS = (
    1 / 12,
    -691 / 32760,
    1 / 132,
    -1 / 240,
    1 / 252,
    -1 / 120,
    1 / 12,
)
STIRLING_COEFFICIENTS = (
    1 / 156,
    -691 / 360360,
    1 / 1188,
    -1 / 1680,
    1 / 1260,
    -1 / 360,
    1 / 12,
)


def a_log_gamma_draw(key: Array, a: Array) -> Array:
    """Draw a log x with x ~ Gamma(a, 1), differentiable with respect to a.

    Parameters
    ----------
    key : JAX random key
    a : array of shape (...)

    Returns
    -------
    array of shape (...)
    """
    s = jax.random.loggamma(key, jax.lax.stop_gradient(a), dtype=a.dtype)
    return _at_fixed_quantile(a, s)


def _at_fixed_quantile_rule(primals, tangents) -> Array:
    """Return the derivative by a; s is fixed by its quantile."""
    a, s = primals
    y = _at_fixed_quantile(a, s)
    # y / a instead of s: the next derivative sees that it depends on a.
    return a_log_gamma_derivative(a, y / a) * tangents[0]


@partial(primitive, rule=_at_fixed_quantile_rule)
def _at_fixed_quantile(a: Array, s: Array) -> Array:
    """Return a s, where s is a quantile of log x and so depends on a."""
    return a * s


def a_log_gamma_derivative(a: Array, s: Array) -> Array:
    """Return dy/da at a fixed quantile, for y = a s, s = log x.

    The formula is at the head of this module.

    Examples
    --------
    >>> s = jnp.log(jnp.log(2.0))  # at the median of an exponential
    >>> print(f"{a_log_gamma_derivative(jnp.array(1.0), s):.4f}")
    1.0301
    """
    x = jnp.exp(s)
    psi = digamma(a + 1)
    below = s <= psi
    b = jnp.where(below, a + 1, a)
    offset = jnp.where(below, psi - s, s - digamma(a))
    width = jnp.where(below, _width_below(a + 1, x), _width_above(a, x))
    width = jax.lax.stop_gradient(width)

    w = width[..., None] * NODES.astype(x.dtype)
    z = jnp.where(below[..., None], -w, w)
    exponent = b[..., None] * z - x[..., None] * jnp.expm1(z)
    integrand = (offset[..., None] + w) * jnp.exp(exponent)
    integral = width * jnp.sum(WEIGHTS.astype(x.dtype) * integrand, axis=-1)
    return jnp.where(below, psi + x * integral, s + a * integral)


def _width_below(b: Array, x: Array) -> Array:
    """Return a W with b W - x (1 - e^-W) >= CUT.

    As e^-W >= (2 - W)/(2 + W), it is the root of b W^2 + (2 (b - x) - CUT) W = 2 CUT.
    """
    c = 2 * (b - x) - CUT
    return 4 * CUT / (c + jnp.sqrt(c**2 + 8 * b * CUT))


def _width_above(a: Array, x: Array) -> Array:
    """Return a W with x (e^W - 1) - a W >= CUT, for x >= a: the smaller of two.

    As e^W - 1 - W >= W^2/2, one is the root of x W^2/2 + (x - a) W = CUT. The other
    uses e^W - 1 - W >= (e^W - 1)/2, which holds from W = 1.257 on.
    """
    root = 2 * CUT / (x - a + jnp.sqrt((x - a) ** 2 + 2 * x * CUT))
    return jnp.minimum(root, jnp.maximum(1.257, jnp.log1p(2 * CUT / x)))


def log_gamma_ratio(z: Array, delta: Array) -> Array:
    """Return log Gamma(z + delta) - log Gamma(z) without cancellation, z, delta > 0.

    Eight steps of Gamma(z + 1) = z Gamma(z) are followed by the difference of two
    Stirling series at z + 8.

    Examples
    --------
    >>> print(f"{log_gamma_ratio(jnp.array(3.0), jnp.array(1.0)):.4f}")  # log(3)
    1.0986
    """
    steps = -sum(jnp.log1p(delta / (z + k)) for k in range(STIRLING_SHIFT))
    z = z + STIRLING_SHIFT
    y = z + delta
    stirling = delta * jnp.log(z) + (y - 0.5) * jnp.log1p(delta / z) - delta
    return steps + stirling + stirling_tail(y) - stirling_tail(z)


def log_scaled_gamma_ratio(z: Array, delta: Array) -> Array:
    """Return log(Gamma(z + delta) / (Gamma(z) z^delta)) for z, delta > 0.

    It vanishes as z grows. The method is that of `log_gamma_ratio`, with delta log z
    taken out of the terms before they are summed.

    Examples
    --------
    >>> ratio = log_scaled_gamma_ratio(jnp.array(3.0), jnp.array(2.0))
    >>> print(f"{ratio:.4f}")  # log(4 / 3)
    0.2877
    """
    steps = delta * jnp.log1p(STIRLING_SHIFT / z) - sum(
        jnp.log1p(delta / (z + k)) for k in range(STIRLING_SHIFT)
    )
    z = z + STIRLING_SHIFT
    y = z + delta
    stirling = (y - 0.5) * jnp.log1p(delta / z) - delta
    return steps + stirling + stirling_tail(y) - stirling_tail(z)


def digamma_difference(z: Array, delta: Array) -> Array:
    """Return psi(z + delta) - psi(z) for z, delta > 0, without cancellation.

    Eight steps of psi(z + 1) = psi(z) + 1 / z are followed by the difference of the
    asymptotic series psi(z) = log z - 1 / (2 z) - sum_k B_2k / (2k z^2k) at z + 8.

    Examples
    --------
    >>> print(f"{digamma_difference(jnp.array(3.0), jnp.array(1.0)):.4f}")  # 1 / 3
    0.3333
    """
    steps = sum(delta / ((z + k) * (z + k + delta)) for k in range(STIRLING_SHIFT))
    z = z + STIRLING_SHIFT
    y = z + delta
    leading = jnp.log1p(delta / z) + delta / (2 * z * y)
    return steps + leading + digamma_tail(z) - digamma_tail(y)


def digamma_tail(z: Array) -> Array:
    """Return sum_k B_2k / (2k z^2k): seven terms leave less than 2e-15 for z >= 8."""
    tail = jnp.zeros_like(z)
    for coefficient in DIGAMMA_COEFFICIENTS:
        tail = (tail + coefficient) / z**2
    return tail


def stirling_tail(z: Array) -> Array:
    """Return sum_k B_2k / (2k (2k - 1) z^(2k - 1)).

    Seven terms leave less than 2e-16 for z >= 8.
    """
    tail = jnp.zeros_like(z)
    for coefficient in STIRLING_COEFFICIENTS:
        tail = tail / z**2 + coefficient
    return tail / z
