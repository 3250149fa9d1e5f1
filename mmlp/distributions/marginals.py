"""The law of one coordinate of an elliptical distribution, in units of its standard deviation.

A coordinate is r v, with the radius r and a coordinate v of a point on the unit sphere, whose
square is of the law Beta(1/2, (d - 1)/2). With S(t) = P(r > t), and I that law's 1 - P(v^2 <= .),

    P(|r v| > t) = S(t) int_0^1 I(t^2 / r(q S(t))^2) dq,        S(r(q)) = q

The integrand has singularities at the ends alone, which a double exponential rule (Takahasi and
Mori, 1974) bears: 33 nodes leave less than 1e-8 for power exponentials with beta from 0.3 to 10 and
d from 2 to 500 (tests/distributions/test_marginals.py). All is float64, on the host.
"""

import abc
import dataclasses
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

NODES = 33
REACH = 3.0  # of the rule: what is beyond has a weight of 1e-12
STEPS = 60  # of finding a quantile; about ten are needed
MANY = 32  # tails, from which on quantiles are interpolated between so many


class Radius(abc.ABC):
    """The law of a radius in `dim` dimensions, for a batch of tails."""

    dim: int

    @abc.abstractmethod
    def unit(self) -> np.ndarray:
        """The standard deviation of a coordinate, (...)."""

    @abc.abstractmethod
    def survival(self, r: np.ndarray) -> np.ndarray:
        """P(radius > r)."""

    @abc.abstractmethod
    def beyond(self, q: np.ndarray) -> np.ndarray:
        """The radius with P(radius > r) = q, for q in [0, 1]."""

    def exceeding(self, t: np.ndarray) -> np.ndarray:
        """P(|coordinate| > t) for t >= 0, (..., *batch)."""
        return _exceeding(self, t)

    def quantile(self, tail: np.ndarray) -> np.ndarray:
        """z with P(|coordinate| > z) = tail, in standard deviations; tail (..., *batch)."""
        return _solved(self, tail) / self.unit()


@dataclasses.dataclass(frozen=True)
class PowerRadius(Radius):
    """That of a power exponential: (r / scale)^(2 beta) is 2 Gamma(d / (2 beta)), scale^2 alpha."""

    dim: int
    beta: np.ndarray
    scale: np.ndarray

    def unit(self) -> np.ndarray:
        from scipy.special import gammaln

        a, b = self.dim / (2 * self.beta), (self.dim + 2) / (2 * self.beta)
        log_square = np.log(2) / self.beta + gammaln(b) - gammaln(a) - np.log(self.dim)
        return self.scale * np.exp(log_square / 2)

    def survival(self, r: np.ndarray) -> np.ndarray:
        from scipy.special import gammaincc

        with np.errstate(over="ignore"):  # infinite: nothing is beyond
            half = (r / self.scale) ** (2 * self.beta) / 2
        return gammaincc(self.dim / (2 * self.beta), half)

    def beyond(self, q: np.ndarray) -> np.ndarray:
        from scipy.special import gammainccinv

        half = gammainccinv(self.dim / (2 * self.beta), q)
        return self.scale * (2 * half) ** (1 / (2 * self.beta))

    def draws(self, rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        """Draws of r v, (*shape, d), where shape ends with that of the batch."""
        x = rng.standard_normal((*shape, self.dim))
        half = rng.standard_gamma(np.broadcast_to(self.dim / (2 * self.beta), shape))
        r = self.scale * (2 * half) ** (1 / (2 * self.beta))
        x *= (r / np.linalg.norm(x, axis=-1))[..., None]
        return x

    def quantile(self, tail: np.ndarray) -> np.ndarray:
        """Of many beta by interpolation in log beta, between Chebyshev's points."""
        alike = tail.shape[-1:] in ((), (1,))  # for all beta
        if self.beta.size <= MANY or self.beta.ndim > 1 or not alike:
            return super().quantile(tail)
        low, high = np.log(self.beta.min()), np.log(self.beta.max())
        x = np.cos(np.pi * (np.arange(MANY) + 0.5) / MANY)
        some = PowerRadius(
            self.dim, np.exp((low + high + x * (high - low)) / 2), np.ones(())
        )
        found = some.quantile(tail)  # (..., MANY)
        where = (2 * np.log(self.beta) - low - high) / (high - low or 1.0)
        sums = np.polynomial.chebyshev.chebfit(x, found.reshape(-1, MANY).T, MANY - 1)
        return np.polynomial.chebyshev.chebval(where, sums).reshape(
            *found.shape[:-1], -1
        )


class NormalRadius(PowerRadius):
    """That of N(0, I), whose coordinates are known."""

    def exceeding(self, t: np.ndarray) -> np.ndarray:
        from scipy.special import ndtr

        return 2 * ndtr(-t)

    def quantile(self, tail: np.ndarray) -> np.ndarray:
        from scipy.special import ndtri

        return -ndtri(tail / 2)


class ByBisection(Radius):
    """That of a distribution of any family, by its `radius_cdf`."""

    def __init__(self, family: Any):
        self.family, self.dim = family, family.dim

    def unit(self) -> np.ndarray:
        return np.sqrt(np.asarray(self.family.variance_factor(), np.float64))

    def survival(self, r: np.ndarray) -> np.ndarray:
        return 1 - np.asarray(self.family.radius_cdf(jnp.asarray(r)), np.float64)

    def beyond(self, q: np.ndarray) -> np.ndarray:
        return np.asarray(_radius(self.family, jnp.asarray(1 - q)), np.float64)


@eqx.filter_jit
def _radius(family, level):
    return family.radius_at(level)


def _exceeding(law: Radius, t: np.ndarray) -> np.ndarray:
    from scipy.special import betainc

    S = law.survival(t)
    if law.dim == 1:
        return S
    total = np.zeros(np.shape(S))
    for q, weight in zip(
        *_rule(), strict=True
    ):  # one at a time: no more memory than t takes
        with np.errstate(invalid="ignore"):  # of inf / inf, where S is zero
            inside = 1 - (t / law.beyond(q * S)) ** 2
        inside = np.where(inside > 0, inside, 0.0)  # but for rounding it is
        total += weight * betainc((law.dim - 1) / 2, 0.5, inside)
    return S * total


def cdf(law: Radius, z: np.ndarray) -> np.ndarray:
    """P(coordinate <= z standard deviations)."""
    half = law.exceeding(np.abs(z) * law.unit()) / 2
    return np.where(z < 0, half, 1 - half)


def quantile(law: Radius, level: np.ndarray) -> np.ndarray:
    """The z with cdf(z) = level."""
    tail = 2 * np.minimum(level, 1 - level)
    middle = tail == 1
    return np.where(
        middle, 0, np.sign(level - 0.5) * law.quantile(np.where(middle, 0.5, tail))
    )


def _solved(law: Radius, tail: np.ndarray) -> np.ndarray:
    """t with P(|coordinate| > t) = tail: as |r v| <= r, it is at most the radius of that tail.

    And as P(r v > ab) >= P(r > a) P(v > b), it is at least the product of those of its root.
    """
    from scipy.special import betaincinv, ndtri

    if law.dim == 1:
        return law.beyond(tail)
    root = np.sqrt(tail)
    direction = np.sqrt(betaincinv(0.5, (law.dim - 1) / 2, 1 - root))
    low, high = np.log(law.beyond(root) * direction), np.log(law.beyond(tail))

    def above(log_t: np.ndarray) -> np.ndarray:  # as a score: almost linear in t
        return ndtri(tail / 2) - ndtri(law.exceeding(np.exp(log_t)) / 2)

    return np.exp(_root(above, low, high))


def _root(function: Callable, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Where an increasing function is zero, between arrays of bounds (Dowell and Jarratt, 1971)."""
    below, above = function(low), function(high)
    middle = low
    for _ in range(STEPS):
        gap = above - below
        share = np.where(
            (gap > 0) & np.isfinite(gap), -below / np.where(gap > 0, gap, 1), 0.5
        )
        middle = low + share * (high - low)
        value = function(middle)
        if np.max(np.abs(value)) < 1e-12 or np.max(high - low) < 1e-13:
            break
        left = value < 0
        # the end that stays counts for less
        low, below, high, above = (
            np.where(left, middle, low),
            np.where(left, value, below * _less(value, above)),
            np.where(left, high, middle),
            np.where(left, above * _less(value, below), value),
        )
    return middle


def _less(value: np.ndarray, replaced: np.ndarray) -> np.ndarray:
    share = 1 - value / np.where(replaced == 0, 1, replaced)
    return np.where(share > 0, share, 0.5)


def _rule() -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights on (0, 1)."""
    x = np.linspace(-REACH, REACH, NODES)
    nodes = 1 / (1 + np.exp(np.pi * np.sinh(x)))
    weights = np.cosh(x) * nodes * (1 - nodes)
    return nodes, weights / weights.sum()
