"""Calibrate learnt covariances on held-out rows: common shape, contrast and gain.

- The covariance of all residuals gives the *shape* by which residuals are standardized.
- log V varies too much over rows, as the output of any fitted network does. Its
  deviations from its centre are multiplied by the factor (`contrast_`) that makes
  held-out residuals most likely. For low-rank covariances, the diagonal and the
  loadings are each multiplied by a number instead.
- The mean of all networks errs less than the out-of-fold predictions. Rows are split
  into folds twice, and the difference of the two predictions tells by how much
  (`gain_`).

Residuals e have shape (n, d), and V (n, d, d) are their covariances according to
networks that were not trained on the rows.
"""

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import brentq

from mmlp.compilation import Compiled
from mmlp.distributions import Elliptical
from mmlp.estimators.chunks import ROWS_PER_CHUNK, round_up_to_few_sizes
from mmlp.spd import DiagonalGram


def fit_shape(residuals: np.ndarray, row_weights: np.ndarray) -> np.ndarray:
    """Return L (d, d) with LL' / d a shrunk covariance of the residuals, of full rank.

    The covariance is shrunk as Ledoit and Wolf (2004) do. They do not shrink at all
    where the products of residuals are the same in all rows, as they often are in two
    rows. If their result is not of full rank, oracle approximating shrinkage is used
    instead (Chen et al., 2010), which is never zero. A column whose residuals are all
    zero keeps the scale of the target.

    Parameters
    ----------
    residuals : array of shape (n, d)
    row_weights : array of shape (n,)

    Returns
    -------
    array of shape (d, d), lower triangular
    """
    # Imported here, because predictions start faster without it.
    from sklearn.covariance import ledoit_wolf, oas

    scale = np.sqrt(np.average(residuals**2, axis=0, weights=row_weights))
    is_exact = scale == 0
    scale = np.where(is_exact, 1.0, scale)

    root_weights = np.sqrt(row_weights / row_weights.mean())
    rows = residuals / scale * root_weights[:, None]
    unit_variances = np.diag(1.0 * is_exact)
    V = ledoit_wolf(rows, assume_centered=True)[0] + unit_variances
    if np.linalg.matrix_rank(V, hermitian=True) < len(V):
        V = oas(rows, assume_centered=True)[0] + unit_variances
    return scale[:, None] * np.linalg.cholesky(V * len(V))


def fit_contrast(
    family: type[Elliptical],
    log_V: np.ndarray,
    tail: Sequence[np.ndarray],
    residuals: np.ndarray,
    row_weights: np.ndarray,
) -> float:
    """Find the contrast c in [0, 1] for which the residuals are most likely.

        -log p = log det V / 2 - log_generator(u) + const
             u = k e'V^-1 e,   V = k Sigma

    where k is the `variance_factor`, and c multiplies log V - log(I / d). The zero of
    the derivative with respect to c is found, not the minimum: this needs fewer digits
    of the generator, which may be computed in float32.

    Parameters
    ----------
    family : subclass of Elliptical
    log_V : array of shape (n, d, d)
    tail : arrays of shape (n,)
        The further parameters of the family.
    residuals : array of shape (n, d)
    row_weights : array of shape (n,)
    """
    n, d = residuals.shape
    eigenvalues, eigenvectors = np.linalg.eigh(log_V)
    _, variance_factor = _generator_slopes(family, d, np.ones(n), tail)
    projections = np.einsum("nij,ni->nj", eigenvectors, residuals)
    squares = projections**2 * variance_factor[:, None]

    # The deviations of the eigenvalues of log V from those of log(I / d).
    deviations = eigenvalues + np.log(d)

    def derivative(c: float) -> float:
        terms = squares * np.exp(np.log(d) - c * deviations)
        u = np.sum(terms, axis=1)
        u_derivative = -np.sum(terms * deviations, axis=1)
        slopes, _ = _generator_slopes(family, d, u, tail)
        by_row = np.sum(deviations, axis=1) / 2 - slopes * u_derivative
        return float(np.average(by_row, weights=row_weights))

    if derivative(0.0) >= 0:
        return 0.0
    if derivative(1.0) <= 0:
        return 1.0
    zero: Any = brentq(derivative, 0.0, 1.0, xtol=1e-6)
    return float(zero)


def _generator_slopes(
    family: type[Elliptical], d: int, u: np.ndarray, tail: Sequence[np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Return the derivative of `log_generator` at u (n,), and the `variance_factor`."""
    n_rows = len(u)
    n_padding = round_up_to_few_sizes(n_rows, ROWS_PER_CHUNK) - n_rows
    dtype = jax.dtypes.canonicalize_dtype(np.float64)
    padded = [
        np.pad(array, (0, n_padding), mode="edge").astype(dtype) for array in (u, *tail)
    ]
    slopes, factors = _compiled_slopes((family, d), *padded)
    return (
        np.asarray(slopes, np.float64)[:n_rows],
        np.asarray(factors, np.float64)[:n_rows],
    )


@functools.partial(Compiled, effort="least")
def _compiled_slopes(family_and_dim, u, *tail):
    family, d = family_and_dim
    shape = (len(u), d)
    identity = DiagonalGram(jnp.ones(shape, u.dtype))
    distribution = family.from_moments(jnp.zeros(shape, u.dtype), identity, *tail)
    slope = jax.grad(lambda u: jnp.sum(distribution.log_generator(u)))(u)
    return slope, jnp.broadcast_to(distribution.variance_factor(), u.shape)


def fit_gain(
    log_V: np.ndarray,
    residuals: np.ndarray,
    disagreement: np.ndarray,
    row_weights: np.ndarray,
    n_mean_networks: int,
) -> float:
    """Return what V is multiplied by, if the mean averages `n_mean_networks` networks.

    V is the covariance of residuals of a mean of two networks, one per partition; see
    `gain_from_squares`.
    """
    eigenvalues, eigenvectors = np.linalg.eigh(log_V)

    def mean_square(x: np.ndarray) -> float:
        squares = np.einsum("nij,ni->nj", eigenvectors, x) ** 2
        by_row = np.sum(squares * np.exp(-eigenvalues), axis=1)
        return float(np.average(by_row, weights=row_weights))

    return gain_from_squares(
        mean_square(residuals), mean_square(disagreement), n_mean_networks
    )


def gain_from_squares(
    residual_square: float, disagreement_square: float, n_mean_networks: int
) -> float:
    """Return the gain, from mean squares of residuals and disagreement in units of V.

    The covariance of residuals is E + B / 2 for the mean of two networks, and
    E + B / n_mean_networks for that of all, where B, the covariance of a network about
    the mean of many, is half the covariance of the disagreement of two. B is at most
    twice E + B / 2: an estimate above that means E = 0.
    """
    share = 0.0
    if residual_square > 0:
        share = min(disagreement_square / 2, 2 * residual_square) / residual_square
    return 1 - (1 / 2 - 1 / n_mean_networks) * share
