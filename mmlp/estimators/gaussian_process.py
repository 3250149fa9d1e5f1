"""Gaussian processes for the mean of `MultivariateRegressor`, where rows are few.

    k(x, x') = a exp(-|s (x - x')|^2 / 2) + b (1 + x . x') / (1 + p),    noise v / weight

one for each target: s, a, b and v make its values most likely. What it would say of rows that it
has not seen is known without fitting it again: with P = (K + noise)^-1, a fold f of the rows errs
by P_ff^-1 (P z)_f.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy.linalg import get_lapack_funcs
from scipy.optimize import minimize

from mmlp.estimators.chunks import PIECE, one_of_few
from mmlp.estimators.cross_fitting import Part
from mmlp.registry import register

MOST = 1000  # rows for which there are any: solving takes n^3 for each target
SEEN = 250  # rows that a kernel is chosen by
PER_RATE = (
    20  # of them for each number s, or all inputs share one: held rows must stay unseen
)
SMALLEST = 1e-5  # of v: float32 would not hold the weights of less noise
STEPS = 60  # of choosing a kernel


@register
class SmoothMean(eqx.Module):
    """x -> sum_i weights_i exp(-|s (x - c_i)|^2 / 2) + slopes x + offset, for each target."""

    centres: Array  # (n, p)
    rates: Array  # s, (d, p)
    weights: Array  # (d, n)
    slopes: Array  # (d, p)
    offset: Array  # (d,)

    def __call__(self, x: Array) -> Array:
        def bumps(rate, weight):
            return weight @ jnp.exp(
                -jnp.sum((rate * (x - self.centres)) ** 2, axis=1) / 2
            )

        return jax.vmap(bumps)(self.rates, self.weights) + self.slopes @ x + self.offset


class Kernel(NamedTuple):
    """The numbers of one target."""

    s: np.ndarray  # (p,)
    a: float
    b: float
    v: float

    @classmethod
    def of(cls, logs: np.ndarray, p: int) -> "Kernel":
        return cls(np.broadcast_to(np.exp(logs[:-3]), p), *np.exp(logs[-3:]))

    def parts(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The smooth part and the linear one, (n, n) each."""
        scaled = x * self.s
        squares = np.sum(scaled**2, axis=1)
        distances = np.maximum(squares[:, None] + squares - 2 * scaled @ scaled.T, 0)
        return self.a * np.exp(-distances / 2), self.b * (1 + x @ x.T) / (
            1 + x.shape[1]
        )

    def covariance(self, x: np.ndarray, noise: np.ndarray) -> np.ndarray:
        """Of values at x with this noise (n,), in units of v."""
        return sum(self.parts(x)) + np.diag(self.v * noise)


def smooth_mean(
    x: np.ndarray,
    z: np.ndarray,
    weight: np.ndarray,
    partitions: list[list[Part]],
    *,
    dtype,
    rng,
) -> tuple[SmoothMean, list[np.ndarray]]:
    """Of standardised rows x (n, p) and z (n, d), and what it says of held rows, (n, d) each."""
    (n, p), noise = x.shape, weight.mean() / weight
    some = rng.permutation(n)[:SEEN]
    kernels, weights, said = [], [], [np.empty(z.shape) for _ in partitions]
    for j, column in enumerate(z.T):
        kernels.append(chosen(x[some], column[some], noise[some]))
        P, _ = inverse(kernels[-1].covariance(x, noise))
        weights.append(P @ column)
        for values, parts in zip(said, partitions, strict=True):
            for _, rows in parts:
                errors = np.linalg.solve(P[np.ix_(rows, rows)], weights[-1][rows])
                values[rows, j] = column[rows] - errors
    s, a, b, _ = (np.array(numbers) for numbers in zip(*kernels, strict=True))
    alpha, linear = np.array(weights), (b / (1 + p))[:, None]
    more = (
        one_of_few(n, PIECE) - n
    )  # rows of weight zero: few shapes mean few compilations
    centres, bumps = (
        np.pad(x, ((0, more), (0, 0))),
        a[:, None] * np.pad(alpha, ((0, 0), (0, more))),
    )
    arrays = (centres, s, bumps, linear * (alpha @ x), linear[:, 0] * alpha.sum(axis=1))
    return SmoothMean(
        *(jnp.asarray(np.asarray(array, dtype)) for array in arrays)
    ), said


def chosen(x: np.ndarray, z: np.ndarray, noise: np.ndarray) -> Kernel:
    """The kernel that makes z (n,) most likely; `noise` (n,) are multiples of v."""
    n, p = x.shape
    rates = p if n >= PER_RATE * p else 1
    start = np.r_[np.full(rates, -np.log(p) / 2), np.log([1.0, 0.5, 0.1])]
    bounds = [(-7, 4)] * rates + [(-7, 7)] * 2 + [(np.log(SMALLEST), 2)]
    options = {"jac": True, "bounds": bounds, "options": {"maxiter": STEPS}}
    found = minimize(minus_evidence, start, (x, z, noise), "L-BFGS-B", **options)
    return Kernel.of(found.x, p)


def minus_evidence(logs: np.ndarray, x, z, noise) -> tuple[float, np.ndarray]:
    """z'Pz / 2 + log det(K + noise) / 2, and its derivative by log (s, a, b, v)."""
    kernel = Kernel.of(logs, x.shape[1])
    smooth, linear = kernel.parts(x)
    P, half = inverse(smooth + linear + np.diag(kernel.v * noise))
    alpha = P @ z
    M = (P - np.outer(alpha, alpha)) / 2  # the derivative by K
    S = M * smooth
    # of S_ij (x_i - x_j)^2, summed
    squares = 2 * (S.sum(axis=1) @ x**2 - np.sum(x * (S @ x), axis=0))
    rates = -(kernel.s**2) * squares
    rates = rates if len(logs) == len(rates) + 3 else rates.sum()
    rest = (S.sum(), np.sum(M * linear), kernel.v * np.diag(M) @ noise)
    return z @ alpha / 2 + half, np.r_[rates, rest]


def inverse(A: np.ndarray) -> tuple[np.ndarray, float]:
    """A^-1 and log det A / 2."""
    cholesky, invert = get_lapack_funcs(("potrf", "potri"), (A,))
    factor = cholesky(A, lower=True)[0]
    P = invert(factor, lower=True)[0]
    return np.tril(P) + np.tril(P, -1).T, float(np.sum(np.log(np.diag(factor))))


def shares(
    z: np.ndarray, weight: np.ndarray, mean: np.ndarray, smooth: np.ndarray
) -> np.ndarray:
    """The parts (d,), 0 to 1, of `smooth` in (1 - part) mean + part smooth nearest z (n, d)."""
    apart = smooth - mean
    size = np.average(apart**2, axis=0, weights=weight)
    along = np.average(apart * (z - mean), axis=0, weights=weight)
    return np.clip(along / np.where(size > 0, size, 1), 0, 1)
