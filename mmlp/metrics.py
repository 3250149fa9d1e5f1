"""How good multivariate predictions are: proper scores and calibration, of distributions or of samples, against y (n, d).

A distribution is one of this library's with batch shape (n,), as `predict_distribution` returns it; samples are an array
(m, n, d) of m draws a row. Scores are means over the n rows, and smaller is better; `sample_weight` (n,) weighs rows.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammainc
from numpy.typing import ArrayLike

from mmlp.distributions import TraceOneGaussian, TraceOnePowerExponential

Distribution = TraceOneGaussian | TraceOnePowerExponential
DRAWS = 1000  # a row, where a score needs samples of a distribution
PAIRS = 2**22  # numbers held at once by the scores of samples


def negative_log_likelihood(distribution: Distribution, y: ArrayLike, *, sample_weight=None) -> float:
    """The mean of -log p(y).

    >>> from mmlp.gram import Gram
    >>> p = TraceOneGaussian(jnp.zeros((3, 1)), Gram(jnp.ones((3, 1, 1))), 1.0)
    >>> print(f"{negative_log_likelihood(p, np.zeros((3, 1))):.4f}")  # log(2 pi) / 2
    0.9189
    """
    y = _targets(distribution, y, "negative_log_likelihood")
    return _mean(-distribution.log_prob(jnp.asarray(y)), sample_weight)


def energy_score(prediction, y: ArrayLike, *, key=None, sample_weight=None) -> float:
    """The mean of E|x - y| - E|x - x'| / 2 for independent draws x, x' (Gneiting and Raftery, 2007), without bias.

    `prediction` is samples (m, n, d), m at least 2, or a distribution, of which 1000 draws a row are taken with `key`
    (default `jax.random.key(0)`). In one dimension it is the continuous ranked probability score.

    >>> samples = np.array([[[0.0]], [[2.0]]])
    >>> print(energy_score(samples, np.zeros((1, 1))))
    0.0
    """
    x, y = _samples(prediction, y, key, "energy_score")
    if isinstance(prediction, Distribution):  # draws are cheap: each is compared with one other, not with all
        distances = jnp.mean(_norm(x - y) - _norm(x - jnp.roll(x, 1, axis=0)) / 2, axis=0)
    else:
        distances = _row_by_row(_energy, x, y, len(x) ** 2)
    return _mean(distances, sample_weight)


def variogram_score(prediction, y: ArrayLike, *, order: float = 0.5, key=None, sample_weight=None) -> float:
    """The mean of sum_ij (|y_i - y_j|^order - E|x_i - x_j|^order)^2 (Scheuerer and Hamill, 2015).

    It is sensitive to correlations, where the energy score is not. Arguments as in `energy_score`.

    >>> samples = np.array([[[0.0, 4.0]], [[1.0, 5.0]]])
    >>> print(variogram_score(samples, np.array([[0.0, 1.0]])))  # 2 (1 - 2)^2
    2.0
    """
    x, y = _samples(prediction, y, key, "variogram_score")
    if not order > 0:
        raise ValueError(f"`variogram_score(order=...)` must be positive, got {order!r}; 0.5 is usual.")
    return _mean(_row_by_row(lambda x, y: _variogram(x, y, order), x, y, x.shape[0] * x.shape[2] ** 2), sample_weight)


def mahalanobis_pit(distribution: Distribution, y: ArrayLike) -> np.ndarray:
    """The probability of the ellipsoid about the mean that has y on its surface, (n,): uniform if predictions are right.

    With u = |omega.whiten(y - loc)|^2 / (alpha eta): u^beta / 2 is Gamma(d / (2 beta)), for a Gaussian u is chi-squared.

    >>> from mmlp.gram import Gram
    >>> p = TraceOneGaussian(jnp.zeros((1, 2)), Gram.trace_one(jnp.eye(2)), 2.0)  # N(0, I)
    >>> print(mahalanobis_pit(p, np.array([[1.0, 1.0]])).round(4))  # 1 - exp(-1)
    [0.6321]
    """
    y = _targets(distribution, y, "mahalanobis_pit")
    alpha, beta = (1.0, 1.0)
    if isinstance(distribution, TraceOnePowerExponential):
        alpha, beta = distribution.alpha, distribution.beta
    z = distribution.omega.whiten(jnp.asarray(y) - distribution.loc) / jnp.sqrt(alpha * distribution.eta)[..., None]
    return np.asarray(gammainc(distribution.dim / (2 * beta), jnp.sum(z**2, axis=-1) ** beta / 2), float)


def ellipsoid_coverage(distribution: Distribution, y: ArrayLike, level: float = 0.9, *, sample_weight=None) -> float:
    """The share of rows whose y lies in the ellipsoid of probability `level` about the mean; `level` if all is right."""
    if not 0 < level < 1:
        raise ValueError(f"`ellipsoid_coverage(level=...)` must lie between 0 and 1, got {level!r}.")
    return _mean(mahalanobis_pit(distribution, y) <= level, sample_weight)


def calibration_curve(pit: ArrayLike, levels: ArrayLike | None = None) -> tuple[np.ndarray, np.ndarray]:
    """(levels, shares): for each level the share of `mahalanobis_pit` values below it; equal if predictions are right.

    >>> levels, shares = calibration_curve(np.array([0.1, 0.6]), np.array([0.5, 1.0]))
    >>> print(shares)
    [0.5 1. ]
    """
    levels = np.linspace(0, 1, 21) if levels is None else np.asarray(levels, float)
    return levels, np.mean(_probabilities(pit, "calibration_curve") <= levels[:, None], axis=1)


def calibration_error(pit: ArrayLike) -> float:
    """The area between the calibration curve and the diagonal, exact for the n values: 0 is best, 0.5 worst.

    >>> print(f"{calibration_error((np.arange(100) + 0.5) / 100):.4f}")
    0.0025
    """
    u = np.sort(_probabilities(pit, "calibration_error"))
    edges = np.concatenate([[0.0], u, [1.0]])
    height = np.arange(len(u) + 1) / len(u)  # of the curve between two edges
    below, above = (edges[1:] - height), (edges[:-1] - height)
    return float(np.sum(below * np.abs(below) - above * np.abs(above)) / 2)  # the integral of |level - height|


def _energy(x, y):
    m = x.shape[0]
    spread = jnp.sum(_norm(x[:, None] - x[None])) / (m * (m - 1))
    return jnp.mean(_norm(x - y)) - spread / 2


def _variogram(x, y, order):
    def differences(v):
        return jnp.abs(v[..., :, None] - v[..., None, :]) ** order

    return jnp.sum((differences(y) - jnp.mean(differences(x), axis=0)) ** 2)


def _norm(x):
    return jnp.linalg.norm(x, axis=-1)


def _row_by_row(score, x: jax.Array, y: jax.Array, numbers: int):
    """score(x (m, d), y (d,)) for each of the n rows, as many at once as fit."""
    return jax.lax.map(lambda row: score(*row), (jnp.moveaxis(x, 1, 0), y), batch_size=max(1, PAIRS // numbers))


def _samples(prediction, y, key, call: str):
    if isinstance(prediction, Distribution):
        y = _targets(prediction, y, call)
        key = jax.random.key(0) if key is None else key
        x = prediction.sample(key, (DRAWS,))
    else:
        x, y = np.asarray(prediction), np.asarray(y)
        if x.ndim != 3 or y.shape != x.shape[1:] or len(x) < 2:
            raise ValueError(
                f"`{call}(prediction, y)` needs samples (m, n, d) with m at least 2 and y (n, d), got shapes {x.shape} and "
                f"{y.shape}."
            )
        _check_finite(x, f"{call}(prediction=...)")
        _check_finite(y, f"{call}(y=...)")
    x = jnp.asarray(x, jnp.result_type(x, jnp.float32))
    return x, jnp.asarray(y, x.dtype)


def _targets(distribution, y, call: str) -> np.ndarray:
    if not isinstance(distribution, Distribution):
        raise ValueError(
            f"`{call}(distribution, y)` needs a distribution of this library, got {type(distribution).__name__}; use "
            "`predict_distribution`."
        )
    y = np.asarray(y)
    y = y[:, None] if y.ndim == 1 and distribution.dim == 1 else y
    if len(distribution.batch_shape) != 1 or y.shape != (*distribution.batch_shape, distribution.dim):
        raise ValueError(
            f"`{call}(distribution, y)` needs a distribution of batch shape (n,) and y (n, d), got batch shape "
            f"{distribution.batch_shape}, dimension {distribution.dim} and y of shape {y.shape}."
        )
    _check_finite(y, f"{call}(y=...)")
    return y


def _check_finite(array: np.ndarray, argument: str) -> None:
    if not np.issubdtype(array.dtype, np.number) or not np.all(np.isfinite(array)):
        raise ValueError(f"`{argument}` must hold finite numbers only; drop or fill the others.")


def _probabilities(pit, call: str) -> np.ndarray:
    pit = np.asarray(pit, float)
    if pit.ndim != 1 or not len(pit) or not np.all((pit >= 0) & (pit <= 1)):
        raise ValueError(f"`{call}(pit=...)` must hold probabilities (n,), as `mahalanobis_pit` returns, got {pit!r:.80}.")
    return pit


def _mean(values, sample_weight) -> float:
    return float(np.average(np.asarray(values, float), weights=sample_weight))
