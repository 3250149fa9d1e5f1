"""Proper scores of distributions and samples, and the calibration of distributions."""

import functools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike
from scipy.spatial.distance import pdist

from mmlp.compilation import Compiled
from mmlp.distributions import Elliptical
from mmlp.training.forks import check_not_forked

# Draws for each row, where a score needs samples of a distribution.
DRAWS_PER_ROW = 1000

# Numbers that these draws may take in memory at once.
MAX_NUMBERS_AT_ONCE = 2**22


def negative_log_likelihood(
    distribution: Elliptical, y: ArrayLike, *, sample_weight: ArrayLike | None = None
) -> float:
    """Return the mean of -log p(y).

    Parameters
    ----------
    distribution : Elliptical of batch shape (n,)
        The predictive distributions of the rows.
    y : array of shape (n, d)
        The targets. Shape (n,) is allowed for d = 1.
    sample_weight : array of shape (n,), optional
        The weights of the rows.

    Returns
    -------
    float
        In nats; smaller is better.

    Raises
    ------
    ValueError
        If shapes do not match, or y or the weights are not finite.

    Examples
    --------
    >>> from mmlp import Gram, TraceOneGaussian
    >>> p = TraceOneGaussian(jnp.zeros((3, 1)), Gram(jnp.ones((3, 1, 1))), 1.0)
    >>> print(f"{negative_log_likelihood(p, np.zeros((3, 1))):.4f}")  # log(2 pi) / 2
    0.9189
    """
    targets = _check_targets(distribution, y, "negative_log_likelihood")
    scores = -_log_prob((), *_center(distribution, targets))
    return weighted_mean(scores, sample_weight, "negative_log_likelihood")


def energy_score(
    prediction: Elliptical | ArrayLike,
    y: ArrayLike,
    *,
    key: Array | None = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Return the mean of E|x - y| - E|x - x'| / 2, for independent draws x and x'.

    The estimate is unbiased. In one dimension this is the continuous ranked probability
    score (Gneiting and Raftery, 2007).

    Parameters
    ----------
    prediction : Elliptical of batch shape (n,), or array of shape (m, n, d)
        Predictive distributions, from each of which 1000 samples are drawn, or m >= 2
        samples for each row.
    y : array of shape (n, d)
        The targets. Shape (n,) is allowed for a distribution with d = 1.
    key : JAX random key, optional
        Selects other draws of a distribution.
    sample_weight : array of shape (n,), optional
        The weights of the rows.

    Returns
    -------
    float
        In the units of y; smaller is better.

    Raises
    ------
    ValueError
        If shapes do not match, or an argument is not finite.

    Examples
    --------
    >>> samples = np.array([[[0.0]], [[2.0]]])
    >>> print(energy_score(samples, np.zeros((1, 1))))
    0.0
    """
    if isinstance(prediction, Elliptical):
        targets = _check_targets(prediction, y, "energy_score")

        def score_draws(x: np.ndarray) -> np.ndarray:
            """Compare each draw with one other draw, because draws are cheap."""
            return _norm(x - targets) - _norm(x - np.roll(x, 1, axis=0)) / 2

        scores = _average_over_draws(
            score_draws, prediction, key, numbers_per_draw=targets.size
        )
    else:
        samples, targets = _check_samples(prediction, y, "energy_score")
        scores = [
            np.mean(_norm(samples[:, i] - targets[i]))
            - np.mean(pdist(samples[:, i])) / 2
            for i in range(len(targets))
        ]
    return weighted_mean(scores, sample_weight, "energy_score")


def variogram_score(
    prediction: Elliptical | ArrayLike,
    y: ArrayLike,
    *,
    order: float = 0.5,
    key: Array | None = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Return the mean of sum_ij (|y_i - y_j|^order - E|x_i - x_j|^order)^2.

    It is sensitive to correlations, where the energy score is not (Scheuerer and
    Hamill, 2015).

    Parameters
    ----------
    prediction : Elliptical of batch shape (n,), or array of shape (m, n, d)
        Predictive distributions or samples, as in `energy_score`.
    y : array of shape (n, d)
        The targets.
    order : float, default=0.5
        The power of the differences, positive.
    key : JAX random key, optional
        Selects other draws of a distribution.
    sample_weight : array of shape (n,), optional
        The weights of the rows.

    Returns
    -------
    float
        Smaller is better.

    Raises
    ------
    ValueError
        If shapes do not match, an argument is not finite, or `order` is not positive.

    Examples
    --------
    >>> samples = np.array([[[0.0, 4.0]], [[1.0, 5.0]]])
    >>> print(variogram_score(samples, np.array([[0.0, 1.0]])))  # 2 (1 - 2)^2
    2.0
    """
    if not order > 0:
        raise ValueError(
            f"`variogram_score(order=...)` must be positive, got {order!r}; "
            "0.5 is usual."
        )

    if isinstance(prediction, Elliptical):
        targets = _check_targets(prediction, y, "variogram_score")
        expected = _average_over_draws(
            lambda x: _variogram(x, order),
            prediction,
            key,
            numbers_per_draw=targets.size * targets.shape[1],
        )
    else:
        samples, targets = _check_samples(prediction, y, "variogram_score")
        expected = np.stack(
            [
                np.mean(_variogram(samples[:, i], order), axis=0)
                for i in range(len(targets))
            ]
        )

    # The sum is over all i and j, a variogram holds only i < j.
    scores = 2 * np.sum((_variogram(targets, order) - expected) ** 2, axis=-1)
    return weighted_mean(scores, sample_weight, "variogram_score")


def mahalanobis_pit(distribution: Elliptical, y: ArrayLike) -> np.ndarray:
    """Return the probability of the ellipsoid about the mean with y on its surface.

    This is the probability integral transform (PIT) of the Mahalanobis distance. If the
    predictions are right, these probabilities are uniform on (0, 1).

    Parameters
    ----------
    distribution : Elliptical of batch shape (n,)
        The predictive distributions of the rows.
    y : array of shape (n, d)
        The targets. Shape (n,) is allowed for d = 1.

    Returns
    -------
    NumPy array of shape (n,)
        The probabilities, in float64.

    Raises
    ------
    ValueError
        If shapes do not match, or y is not finite.

    Examples
    --------
    >>> from mmlp import Gram, TraceOneGaussian
    >>> omega = Gram.trace_one(jnp.eye(2))
    >>> p = TraceOneGaussian(jnp.zeros((1, 2)), omega, 2.0)  # N(0, I)
    >>> print(mahalanobis_pit(p, np.array([[1.0, 1.0]])).round(4))  # 1 - exp(-1)
    [0.6321]
    """
    targets = _check_targets(distribution, y, "mahalanobis_pit")
    radius = _mahalanobis((), *_center(distribution, targets))
    radius = np.asarray(radius, np.float64)
    return 1 - distribution.radius_distribution().survival(radius)


def ellipsoid_coverage(
    distribution: Elliptical,
    y: ArrayLike,
    level: float = 0.9,
    *,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Return the share of rows whose y lies in the ellipsoid of a given probability.

    Parameters
    ----------
    distribution : Elliptical of batch shape (n,)
        The predictive distributions of the rows.
    y : array of shape (n, d)
        The targets. Shape (n,) is allowed for d = 1.
    level : float, default=0.9
        The probability of the ellipsoids, in (0, 1).
    sample_weight : array of shape (n,), optional
        The weights of the rows.

    Returns
    -------
    float
        Ideally equal to `level`.

    Raises
    ------
    ValueError
        If shapes do not match, y is not finite, or the level is not in (0, 1).

    Examples
    --------
    >>> from mmlp import Gram, TraceOneGaussian
    >>> p = TraceOneGaussian(jnp.zeros((2, 1)), Gram(jnp.ones((2, 1, 1))), 1.0)
    >>> ellipsoid_coverage(p, np.array([[0.1], [9.0]]))
    0.5
    """
    if not 0 < level < 1:
        raise ValueError(
            f"`ellipsoid_coverage(level=...)` must be in (0, 1), got {level!r}."
        )
    inside = mahalanobis_pit(distribution, y) <= level
    return weighted_mean(inside, sample_weight, "ellipsoid_coverage")


def calibration_curve(
    pit: ArrayLike, levels: ArrayLike | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the share of `mahalanobis_pit` values up to each level.

    Parameters
    ----------
    pit : array of shape (n,)
        Probabilities, as returned by `mahalanobis_pit`.
    levels : array of shape (k,), optional
        Probabilities, by default 0, 0.05, ..., 1.

    Returns
    -------
    levels : NumPy array of shape (k,)
        The levels.
    shares : NumPy array of shape (k,)
        The share of values up to each level, ideally equal to the level.

    Raises
    ------
    ValueError
        If `pit` does not hold probabilities.

    Examples
    --------
    >>> levels, shares = calibration_curve(np.array([0.1, 0.6]), np.array([0.5, 1.0]))
    >>> print(shares)
    [0.5 1. ]
    """
    levels = np.linspace(0, 1, 21) if levels is None else np.asarray(levels, float)
    probabilities = _check_probabilities(pit, "calibration_curve")
    return levels, np.mean(probabilities <= levels[:, None], axis=1)


def calibration_error(pit: ArrayLike) -> float:
    """Return the area between the calibration curve and the diagonal.

    Parameters
    ----------
    pit : array of shape (n,)
        Probabilities, as returned by `mahalanobis_pit`.

    Returns
    -------
    float
        The exact area, from 0 (best) to 0.5 (worst).

    Raises
    ------
    ValueError
        If `pit` does not hold probabilities.

    Examples
    --------
    >>> print(f"{calibration_error((np.arange(100) + 0.5) / 100):.4f}")
    0.0025
    """
    sorted_pit = np.sort(_check_probabilities(pit, "calibration_error"))
    n = len(sorted_pit)
    edges = np.concatenate([[0.0], sorted_pit, [1.0]])
    height_between_edges = np.arange(n + 1) / n
    upper = edges[1:] - height_between_edges
    lower = edges[:-1] - height_between_edges
    # The integral of |level - height| is (level - height) |level - height| / 2.
    return float(np.sum(upper * np.abs(upper) - lower * np.abs(lower)) / 2)


def _variogram(x: np.ndarray, order: float) -> np.ndarray:
    """Return |x_i - x_j|^order for i < j, for x of shape (..., d)."""
    i, j = np.triu_indices(x.shape[-1], 1)
    return np.abs(x[..., i] - x[..., j]) ** order


def _norm(x: np.ndarray) -> np.ndarray:
    """Return the Euclidean norm over the last axis."""
    return np.linalg.norm(x, axis=-1)


def _average_over_draws(
    function: Callable[[np.ndarray], np.ndarray],
    distribution: Elliptical,
    key: Array | None,
    *,
    numbers_per_draw: int,
) -> np.ndarray:
    """Return the mean of function(x) over draws x of a distribution, in chunks.

    Parameters
    ----------
    function : callable
        From draws (m, n, d) in float64 to an array (m, n, ...).
    distribution : Elliptical of batch shape (n,)
    key : JAX random key or None
    numbers_per_draw : int
        How many numbers the function holds in memory for each draw.

    Returns
    -------
    array of shape (n, ...)
    """
    chunk_sizes = [
        m
        for m in range(2, DRAWS_PER_ROW + 1)
        if DRAWS_PER_ROW % m == 0 and m * numbers_per_draw <= MAX_NUMBERS_AT_ONCE
    ]
    chunk_size = max(chunk_sizes, default=2)
    seed = 0 if key is None else np.asarray(jax.random.key_data(key)).ravel()
    rng = np.random.default_rng(seed)
    loc = np.asarray(distribution.loc, np.float64)

    mean = 0.0
    for _ in range(DRAWS_PER_ROW // chunk_size):
        white = distribution.numpy_white(rng, (chunk_size, *distribution.batch_shape))
        white = white.astype(distribution.loc.dtype)
        x = loc + np.asarray(_color((), distribution, white))
        mean += np.mean(function(x), axis=0) * (chunk_size / DRAWS_PER_ROW)
    return np.asarray(mean)


def _center(distribution: Elliptical, y: np.ndarray) -> tuple[Elliptical, np.ndarray]:
    """Shift the distribution to zero and y with it.

    The difference is taken in float64, because the dtype of the distribution may not
    have the digits of a small error at a large location.
    """
    loc = np.asarray(distribution.loc)
    centered = eqx.tree_at(lambda p: p.loc, distribution, np.zeros_like(loc))
    return centered, y - loc.astype(np.float64)


# Each of these is a single program. Operation by operation there would be a hundred.


@functools.partial(Compiled, effort="least")
def _log_prob(_, p: Elliptical, x: np.ndarray) -> Array:
    return p.log_prob(x)


@functools.partial(Compiled, effort="least")
def _mahalanobis(_, p: Elliptical, x: np.ndarray) -> Array:
    return p.mahalanobis(x)


@functools.partial(Compiled, effort="least")
def _color(_, p: Elliptical, white: np.ndarray) -> Array:
    return jnp.sqrt(p.eta)[..., None] * p.omega.color(white)


def _check_samples(
    prediction: Any, y: ArrayLike, call: str
) -> tuple[np.ndarray, np.ndarray]:
    """Return samples (m, n, d) and targets (n, d) in float64, checked."""
    samples = np.asarray(prediction)
    targets = np.asarray(y)
    if samples.ndim != 3 or targets.shape != samples.shape[1:] or len(samples) < 2:
        raise ValueError(
            f"`{call}(prediction, y)` needs samples (m, n, d) with m at least 2 and "
            f"y (n, d), got shapes {samples.shape} and {targets.shape}."
        )
    _check_finite(samples, f"{call}(prediction=...)")
    _check_finite(targets, f"{call}(y=...)")
    return samples.astype(np.float64), targets.astype(np.float64)


def _check_targets(distribution: Any, y: ArrayLike, call: str) -> np.ndarray:
    """Return the targets y (n, d) for a score of a distribution, checked.

    Every such score begins here, so that none starts in a forked process.
    """
    check_not_forked(f"metrics.{call}")
    if not isinstance(distribution, Elliptical):
        raise ValueError(
            f"`{call}(distribution, y)` needs a distribution of this library, got "
            f"{type(distribution).__name__}; use `predict_distribution`."
        )

    batch_shape = distribution.batch_shape
    dim = distribution.dim
    targets = np.asarray(y)
    if targets.ndim == 1 and dim == 1:
        targets = targets[:, None]

    if len(batch_shape) != 1 or targets.shape != (*batch_shape, dim):
        remedy = ""
        if targets.ndim == 2 and targets.shape[1] > dim:
            remedy = (
                " `MultivariateRegressor.predict_distribution` leaves out constant "
                "targets, which have no density: pass y[:, model.varying_targets_]."
            )
        raise ValueError(
            f"`{call}(distribution, y)` needs a distribution of batch shape (n,) and "
            f"y (n, d), got batch shape {batch_shape}, dimension {dim} and y of shape "
            f"{targets.shape}.{remedy}"
        )
    _check_finite(targets, f"{call}(y=...)")
    return targets


def _check_finite(array: np.ndarray, argument: str) -> None:
    """Raise a ValueError unless the array holds finite numbers only."""
    if not np.issubdtype(array.dtype, np.number) or not np.all(np.isfinite(array)):
        raise ValueError(
            f"`{argument}` must hold finite numbers only; drop or fill the others."
        )


def _check_probabilities(pit: ArrayLike, call: str) -> np.ndarray:
    """Return probabilities (n,) as an array, checked."""
    pit = np.asarray(pit, float)
    if pit.ndim != 1 or not len(pit) or not np.all((pit >= 0) & (pit <= 1)):
        raise ValueError(
            f"`{call}(pit=...)` must hold probabilities (n,), as `mahalanobis_pit` "
            f"returns, got {pit!r:.80}."
        )
    return pit


def rescale_weights(weight: np.ndarray) -> np.ndarray:
    """Return weights times a power of two: the largest lies between one and two.

    Only the ratios of weights count. This rounds nothing, and sums of weights cannot
    overflow.

    Examples
    --------
    >>> print(rescale_weights(np.array([3e300, 0.75e300])).round(2))
    [1.12 0.28]
    """
    largest = float(np.max(weight, initial=0.0))
    if largest == 0:
        return weight
    _, exponent = np.frexp(largest)
    return np.ldexp(weight, 1 - int(exponent))


def check_sample_weight(sample_weight: ArrayLike, n: int, call: str) -> np.ndarray:
    """Return the weights of n rows, or one number for all, as `rescale_weights`.

    Raises
    ------
    ValueError
        If they are not n finite numbers of at least zero, or all of them are zero.
    """
    try:
        weight = np.asarray(sample_weight, np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            f"`{call}(sample_weight=...)` must hold numbers, got {sample_weight!r:.80}."
        ) from None
    if weight.ndim == 0:
        weight = np.full(n, weight)
    if weight.shape != (n,):
        raise ValueError(
            f"`{call}(sample_weight=...)` must have shape ({n},), a weight for each "
            f"row, got shape {weight.shape}."
        )
    if not np.all(np.isfinite(weight)) or np.any(weight < 0) or not np.any(weight):
        raise ValueError(
            f"`{call}(sample_weight=...)` must be finite and not negative, and not "
            "zero for all rows."
        )
    return rescale_weights(weight)


def weighted_mean(
    values: ArrayLike, sample_weight: ArrayLike | None, call: str
) -> float:
    """Return the mean of values (n,), weighted by `sample_weight` (n,) if given."""
    values = np.asarray(values, np.float64)
    if sample_weight is None:
        return float(np.mean(values))
    weight = check_sample_weight(sample_weight, len(values), call)
    return float(np.average(values, weights=weight))
