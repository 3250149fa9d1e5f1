"""Gaussian processes for the mean of `MultivariateRegressor`, on small tables.

    k(x, x') = a exp(-|s (x - x')|^2 / 2) + b (1 + x . x') / (1 + p)
    noise = v / weight

There is one for each target; s, a, b and v maximize the marginal likelihood.
Out-of-fold predictions need no further fit: with P = (K + noise)^-1, the errors of a
held-out fold f are P_ff^-1 (P z)_f.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy.linalg import get_lapack_funcs
from scipy.optimize import minimize

from mmlp.estimators.chunks import ROWS_PER_CHUNK, round_up_to_few_sizes
from mmlp.estimators.cross_fitting import Fold
from mmlp.estimators.scaling import StandardizedTable
from mmlp.registry import register

# Solving takes n^3 operations for each target.
MAX_ROWS_FOR_GAUSSIAN_PROCESS = 1000
MAX_TARGETS_FOR_GAUSSIAN_PROCESS = 30

# A kernel is chosen by at most this many rows.
MAX_ROWS_FOR_KERNEL = 250

# Each input has a rate of its own only with this many rows for each rate: held-out rows
# are among those that choose the kernel, and must not be learnt by heart.
MIN_ROWS_PER_RATE = 20

# With less noise, the weights of the posterior mean would be too large for float32.
MIN_NOISE = 1e-5

MAX_KERNEL_ITERATIONS = 60

# Bounds of log s, of log a and log b, and the upper bound of log v.
LOG_RATE_BOUNDS = (-7, 4)
LOG_AMPLITUDE_BOUNDS = (-7, 7)
MAX_LOG_NOISE = 2


@register(name="SmoothMean")
class GaussianProcessMean(eqx.Module):
    """The posterior mean of the Gaussian processes of all targets.

    x -> sum_i weights_i exp(-|s (x - c_i)|^2 / 2) + slopes x + offset
    """

    centres: Array  # (n, p)
    rates: Array  # s, (d, p)
    weights: Array  # (d, n)
    slopes: Array  # (d, p)
    offset: Array  # (d,)

    def __call__(self, x: Array) -> Array:
        def smooth_part(rate, weights):
            squared_distances = jnp.sum((rate * (x - self.centres)) ** 2, axis=1)
            return weights @ jnp.exp(-squared_distances / 2)

        smooth = jax.vmap(smooth_part)(self.rates, self.weights)
        return smooth + self.slopes @ x + self.offset


class Kernel(NamedTuple):
    """The parameters of one target's kernel, in the letters of the formula above."""

    s: np.ndarray  # (p,)
    a: float
    b: float
    v: float

    @classmethod
    def from_logs(cls, logs: np.ndarray, n_inputs: int) -> "Kernel":
        """Return the kernel of (log s, log a, log b, log v), with one s or p."""
        rates = np.broadcast_to(np.exp(logs[:-3]), n_inputs)
        return cls(rates, *np.exp(logs[-3:]))

    def parts(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the smooth part and the linear part, (n, n) each."""
        scaled = x * self.s
        squares = np.sum(scaled**2, axis=1)
        differences = squares[:, None] + squares - 2 * scaled @ scaled.T
        squared_distances = np.maximum(differences, 0)
        smooth = self.a * np.exp(-squared_distances / 2)
        linear = self.b * (1 + x @ x.T) / (1 + x.shape[1])
        return smooth, linear

    def covariance(self, x: np.ndarray, noise: np.ndarray) -> np.ndarray:
        """Return the covariance (n, n) of values at x; noise (n,) is in units of v."""
        return sum(self.parts(x)) + np.diag(self.v * noise)


def fit_gaussian_process(
    table: StandardizedTable,
    partitions: list[list[Fold]],
    *,
    dtype: str,
    rng: np.random.Generator,
) -> tuple[GaussianProcessMean, list[np.ndarray]]:
    """Fit a Gaussian process to each target.

    Parameters
    ----------
    table : StandardizedTable
    partitions : lists of folds
    dtype : of the result
    rng : generator that chooses the rows for the kernel

    Returns
    -------
    GaussianProcessMean
    list of arrays of shape (n_rows, n_targets)
        Out-of-fold predictions, for each partition.
    """
    noise = table.row_weights.mean() / table.row_weights
    kernel_rows = rng.permutation(table.n_rows)[:MAX_ROWS_FOR_KERNEL]

    kernels = []
    alphas = []
    predictions = [np.empty(table.targets.shape) for _ in partitions]
    for j, target in enumerate(table.targets.T):
        kernel = choose_kernel(
            table.inputs[kernel_rows], target[kernel_rows], noise[kernel_rows]
        )
        P, _ = invert(kernel.covariance(table.inputs, noise))
        alpha = P @ target
        kernels.append(kernel)
        alphas.append(alpha)
        for values, folds in zip(predictions, partitions, strict=True):
            for _, rows in folds:
                errors = np.linalg.solve(P[np.ix_(rows, rows)], alpha[rows])
                values[rows, j] = target[rows] - errors

    mean = _posterior_mean(table.inputs, kernels, np.array(alphas), dtype)
    return mean, predictions


def _posterior_mean(
    inputs: np.ndarray, kernels: list[Kernel], alpha: np.ndarray, dtype: str
) -> GaussianProcessMean:
    """Return the posterior mean for kernels and dual weights alpha (d, n)."""
    n_rows, n_inputs = inputs.shape
    s, a, b, _ = (np.array(values) for values in zip(*kernels, strict=True))
    linear = (b / (1 + n_inputs))[:, None]

    # Rows of weight zero are added: few shapes mean few compilations.
    n_padding = round_up_to_few_sizes(n_rows, ROWS_PER_CHUNK) - n_rows
    centres = np.pad(inputs, ((0, n_padding), (0, 0)))
    weights = a[:, None] * np.pad(alpha, ((0, 0), (0, n_padding)))

    def cast(array: np.ndarray) -> Array:
        return jnp.asarray(np.asarray(array, dtype))

    return GaussianProcessMean(
        centres=cast(centres),
        rates=cast(s),
        weights=cast(weights),
        slopes=cast(linear * (alpha @ inputs)),
        offset=cast(linear[:, 0] * alpha.sum(axis=1)),
    )


def choose_kernel(x: np.ndarray, z: np.ndarray, noise: np.ndarray) -> Kernel:
    """Return the kernel of largest marginal likelihood for z (n,) at x (n, p).

    `noise` (n,) are multiples of v.
    """
    n_rows, n_inputs = x.shape
    n_rates = n_inputs if n_rows >= MIN_ROWS_PER_RATE * n_inputs else 1
    start = np.r_[np.full(n_rates, -np.log(n_inputs) / 2), np.log([1.0, 0.5, 0.1])]
    bounds = [
        *[LOG_RATE_BOUNDS] * n_rates,
        *[LOG_AMPLITUDE_BOUNDS] * 2,
        (np.log(MIN_NOISE), MAX_LOG_NOISE),
    ]
    result = minimize(
        minus_log_evidence,
        start,
        args=(x, z, noise),
        method="L-BFGS-B",
        jac=True,
        bounds=bounds,
        options={"maxiter": MAX_KERNEL_ITERATIONS},
    )
    return Kernel.from_logs(result.x, n_inputs)


def minus_log_evidence(
    logs: np.ndarray, x: np.ndarray, z: np.ndarray, noise: np.ndarray
) -> tuple[float, np.ndarray]:
    """Return z'Pz / 2 + log det(K + noise) / 2, and its gradient by logs."""
    kernel = Kernel.from_logs(logs, x.shape[1])
    smooth, linear = kernel.parts(x)
    P, half_logdet = invert(smooth + linear + np.diag(kernel.v * noise))
    alpha = P @ z

    M = (P - np.outer(alpha, alpha)) / 2  # the derivative with respect to K
    S = M * smooth
    # The sum of S_ij (x_i - x_j)^2 over i, j, for each input.
    squares = 2 * (S.sum(axis=1) @ x**2 - np.sum(x * (S @ x), axis=0))
    by_rates = -(kernel.s**2) * squares
    if len(logs) != len(by_rates) + 3:
        by_rates = by_rates.sum()
    by_a = S.sum()
    by_b = np.sum(M * linear)
    by_v = kernel.v * np.diag(M) @ noise
    value = float(z @ alpha / 2 + half_logdet)
    return value, np.r_[by_rates, by_a, by_b, by_v]


def invert(A: np.ndarray) -> tuple[np.ndarray, float]:
    """Return A^-1 and log det A / 2, for an SPD matrix."""
    cholesky, invert_factor = get_lapack_funcs(("potrf", "potri"), (A,))
    factor = cholesky(A, lower=True)[0]
    P = invert_factor(factor, lower=True)[0]
    half_logdet = float(np.sum(np.log(np.diag(factor))))
    return np.tril(P) + np.tril(P, -1).T, half_logdet


def choose_blending_weights(
    targets: np.ndarray,
    row_weights: np.ndarray,
    network_mean: np.ndarray,
    process_mean: np.ndarray,
) -> np.ndarray:
    """Return the weights (d,) of the Gaussian process, from 0 to 1.

    They minimize the squared error of the mean of each target (n, d),

        (1 - weight) network_mean + weight process_mean
    """
    difference = process_mean - network_mean
    error = targets - network_mean
    size = np.average(difference**2, axis=0, weights=row_weights)
    along = np.average(difference * error, axis=0, weights=row_weights)
    return np.clip(along / np.where(size > 0, size, 1), 0, 1)
