"""The distribution of one coordinate of an elliptical distribution, in float64.

A coordinate of a standard member is r v, with the radius r and a coordinate v of a
uniform point on the unit sphere, whose square has the distribution
Beta(1/2, (d - 1)/2). With S(t) = P(r > t) and I(x) = P(v^2 > x),

    P(|r v| > t) = S(t) int_0^1 I(t^2 / r(q S(t))^2) dq,        S(r(q)) = q

The integrand has singularities only at the ends of the interval, which a double
exponential rule (Takahasi and Mori, 1974) tolerates: 33 nodes leave an error below 1e-8
for power exponentials with beta from 0.3 to 10 and d from 2 to 500
(tests/distributions/test_marginals.py). Everything runs in NumPy on the host.
"""

import abc
import dataclasses
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import Array

N_QUADRATURE_NODES = 33
# Beyond this argument of the double exponential rule the weights are below 1e-12.
QUADRATURE_RANGE = 3.0

# About ten steps of root finding are needed.
MAX_ROOT_STEPS = 60

# For more tails than this, quantiles are interpolated between this many tails.
N_INTERPOLATION_NODES = 32


class Radius(abc.ABC):
    """The distribution of a radius in `dim` dimensions, for a batch of tails."""

    dim: int

    @abc.abstractmethod
    def coordinate_std(self) -> np.ndarray:
        """Return the standard deviation of a coordinate, of shape (...)."""

    @abc.abstractmethod
    def survival(self, r: np.ndarray) -> np.ndarray:
        """Return P(radius > r)."""

    @abc.abstractmethod
    def inverse_survival(self, q: np.ndarray) -> np.ndarray:
        """Return the radius r with P(radius > r) = q, for q in [0, 1]."""

    def coordinate_tail(self, t: np.ndarray) -> np.ndarray:
        """Return P(|coordinate| > t) for t >= 0, of shape (..., *batch)."""
        return _integrate_coordinate_tail(self, t)

    def coordinate_quantile(self, tail: np.ndarray) -> np.ndarray:
        """Return the z with P(|coordinate| > z standard deviations) = tail.

        Parameters
        ----------
        tail : array of shape (..., *batch)
            Probabilities in (0, 1).

        Returns
        -------
        array of shape (..., *batch)
            In standard deviations.
        """
        return _solve_coordinate_tail(self, tail) / self.coordinate_std()


@dataclasses.dataclass(frozen=True)
class PowerRadius(Radius):
    """The radius of a power exponential: (r / scale)^(2 beta) ~ 2 Gamma(d / (2 beta)).

    Parameters
    ----------
    dim : int
        The number of dimensions d.
    beta : array of shape (...)
        The exponent.
    scale : array of shape (...)
        The square root of alpha.
    """

    dim: int
    beta: np.ndarray
    scale: np.ndarray

    def coordinate_std(self) -> np.ndarray:
        from scipy.special import gammaln

        a = self.dim / (2 * self.beta)
        b = (self.dim + 2) / (2 * self.beta)
        log_square = np.log(2) / self.beta + gammaln(b) - gammaln(a) - np.log(self.dim)
        return self.scale * np.exp(log_square / 2)

    def survival(self, r: np.ndarray) -> np.ndarray:
        from scipy.special import gammaincc

        # Beyond an infinite radius the probability is zero, which is right.
        with np.errstate(over="ignore"):
            half = (r / self.scale) ** (2 * self.beta) / 2
        return gammaincc(self.dim / (2 * self.beta), half)

    def inverse_survival(self, q: np.ndarray) -> np.ndarray:
        from scipy.special import gammainccinv

        half = gammainccinv(self.dim / (2 * self.beta), q)
        return self.scale * (2 * half) ** (1 / (2 * self.beta))

    def sample_vectors(
        self, rng: np.random.Generator, shape: tuple[int, ...]
    ) -> np.ndarray:
        """Draw r v, of shape (*shape, d), where `shape` ends with the batch shape."""
        x = rng.standard_normal((*shape, self.dim))
        half = rng.standard_gamma(np.broadcast_to(self.dim / (2 * self.beta), shape))
        r = self.scale * (2 * half) ** (1 / (2 * self.beta))
        x *= (r / np.linalg.norm(x, axis=-1))[..., None]
        return x

    def coordinate_quantile(self, tail: np.ndarray) -> np.ndarray:
        """Return quantiles; for many beta, interpolate between Chebyshev points.

        The interpolation is in log beta. It needs levels that all beta have in common.
        """
        same_levels_for_all = tail.shape[-1:] in ((), (1,))
        if (
            self.beta.size <= N_INTERPOLATION_NODES
            or self.beta.ndim > 1
            or not same_levels_for_all
        ):
            return super().coordinate_quantile(tail)

        low = np.log(self.beta.min())
        high = np.log(self.beta.max())
        n = N_INTERPOLATION_NODES
        x = np.cos(np.pi * (np.arange(n) + 0.5) / n)
        beta_at_nodes = np.exp((low + high + x * (high - low)) / 2)
        nodes = PowerRadius(self.dim, beta_at_nodes, np.ones(()))
        z_at_nodes = nodes.coordinate_quantile(tail)  # (..., n)

        position = (2 * np.log(self.beta) - low - high) / (high - low or 1.0)
        coefficients = np.polynomial.chebyshev.chebfit(
            x, z_at_nodes.reshape(-1, n).T, n - 1
        )
        z = np.polynomial.chebyshev.chebval(position, coefficients)
        return z.reshape(*z_at_nodes.shape[:-1], -1)


class NormalRadius(PowerRadius):
    """The radius of N(0, I), whose coordinates have closed forms."""

    def coordinate_tail(self, t: np.ndarray) -> np.ndarray:
        from scipy.special import ndtr

        return 2 * ndtr(-t)

    def coordinate_quantile(self, tail: np.ndarray) -> np.ndarray:
        from scipy.special import ndtri

        return -ndtri(tail / 2)


class BisectionRadius(Radius):
    """The radius of a standard member of any family, by bisection of `radius_cdf`.

    Parameters
    ----------
    distribution : Elliptical
        A member with loc 0 and a dispersion proportional to the identity.
    """

    def __init__(self, distribution: Any):
        self.distribution = distribution
        self.dim = distribution.dim

    def coordinate_std(self) -> np.ndarray:
        return np.sqrt(np.asarray(self.distribution.variance_factor(), np.float64))

    def survival(self, r: np.ndarray) -> np.ndarray:
        cdf = self.distribution.radius_cdf(jnp.asarray(r))
        return 1 - np.asarray(cdf, np.float64)

    def inverse_survival(self, q: np.ndarray) -> np.ndarray:
        radius = _radius_at(self.distribution, jnp.asarray(1 - q))
        return np.asarray(radius, np.float64)


@eqx.filter_jit
def _radius_at(distribution: Any, level: Array) -> Array:
    """Compile `Elliptical.radius_at`."""
    return distribution.radius_at(level)


def cdf(radius: Radius, z: np.ndarray) -> np.ndarray:
    """Return P(coordinate <= z standard deviations)."""
    half_tail = radius.coordinate_tail(np.abs(z) * radius.coordinate_std()) / 2
    return np.where(z < 0, half_tail, 1 - half_tail)


def quantile(radius: Radius, level: np.ndarray) -> np.ndarray:
    """Return the z with cdf(z) = level, in standard deviations."""
    tail = 2 * np.minimum(level, 1 - level)
    is_median = tail == 1
    distance = radius.coordinate_quantile(np.where(is_median, 0.5, tail))
    return np.where(is_median, 0, np.sign(level - 0.5) * distance)


def _integrate_coordinate_tail(radius: Radius, t: np.ndarray) -> np.ndarray:
    """Return P(|coordinate| > t) by the integral at the head of this module."""
    from scipy.special import betainc

    S = radius.survival(t)
    if radius.dim == 1:
        return S

    total = np.zeros(np.shape(S))
    nodes, weights = _double_exponential_rule()
    # One node at a time needs no more memory than t takes.
    for q, weight in zip(nodes, weights, strict=True):
        # Where S is zero, this is inf / inf.
        with np.errstate(invalid="ignore"):
            inside = 1 - (t / radius.inverse_survival(q * S)) ** 2
        # It is positive up to rounding, and NaN becomes zero.
        inside = np.where(inside > 0, inside, 0.0)
        total += weight * betainc((radius.dim - 1) / 2, 0.5, inside)
    return S * total


def _solve_coordinate_tail(radius: Radius, tail: np.ndarray) -> np.ndarray:
    """Return the t with P(|coordinate| > t) = tail.

    As |r v| <= r, it is at most the radius with this tail. As P(|r v| > ab) >=
    P(r > a) P(|v| > b), it is at least a b, if both probabilities are the square root
    of the tail.
    """
    from scipy.special import betaincinv, ndtri

    if radius.dim == 1:
        return radius.inverse_survival(tail)

    root = np.sqrt(tail)
    direction = np.sqrt(betaincinv(0.5, (radius.dim - 1) / 2, 1 - root))
    low = np.log(radius.inverse_survival(root) * direction)
    high = np.log(radius.inverse_survival(tail))

    def excess(log_t: np.ndarray) -> np.ndarray:
        """Compare tails as normal scores, which are almost linear in t."""
        return ndtri(tail / 2) - ndtri(radius.coordinate_tail(np.exp(log_t)) / 2)

    return np.exp(_find_root(excess, low, high))


def _find_root(
    function: Callable[[np.ndarray], np.ndarray], low: np.ndarray, high: np.ndarray
) -> np.ndarray:
    """Return where an increasing function is zero, between arrays of bounds.

    This is the regula falsi of Dowell and Jarratt (1971, "Pegasus").
    """
    value_low = function(low)
    value_high = function(high)
    middle = low
    for _ in range(MAX_ROOT_STEPS):
        gap = value_high - value_low
        secant = -value_low / np.where(gap > 0, gap, 1)
        share = np.where((gap > 0) & np.isfinite(gap), secant, 0.5)
        middle = low + share * (high - low)
        value = function(middle)
        if np.max(np.abs(value)) < 1e-12 or np.max(high - low) < 1e-13:
            break

        # The middle replaces one end. The value at the end that stays is reduced, so
        # that the next secant moves this end too.
        replaces_low = value < 0
        reduced_low = value_low * _reduction(value, value_high)
        reduced_high = value_high * _reduction(value, value_low)
        low = np.where(replaces_low, middle, low)
        high = np.where(replaces_low, high, middle)
        value_low = np.where(replaces_low, value, reduced_low)
        value_high = np.where(replaces_low, reduced_high, value)
    return middle


def _reduction(value: np.ndarray, replaced_value: np.ndarray) -> np.ndarray:
    """Return the factor for the value at the end of the interval that stays."""
    share = 1 - value / np.where(replaced_value == 0, 1, replaced_value)
    return np.where(share > 0, share, 0.5)


def _double_exponential_rule() -> tuple[np.ndarray, np.ndarray]:
    """Return nodes and weights on (0, 1)."""
    x = np.linspace(-QUADRATURE_RANGE, QUADRATURE_RANGE, N_QUADRATURE_NODES)
    nodes = 1 / (1 + np.exp(np.pi * np.sinh(x)))
    weights = np.cosh(x) * nodes * (1 - nodes)
    return nodes, weights / weights.sum()
