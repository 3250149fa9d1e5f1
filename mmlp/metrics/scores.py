"""Proper scores of distributions and samples, and the calibration of distributions."""

import functools
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial.distance import pdist

from mmlp.compilation import Compiled
from mmlp.distributions import Elliptical
from mmlp.training.forks import check_not_forked

DRAWS = 1000  # for each row, where a score needs samples of a distribution
NUMBERS = 2**22  # of these draws, held at once


def negative_log_likelihood(
    distribution: Elliptical, y: ArrayLike, *, sample_weight=None
) -> float:
    """The mean of -log p(y).

    >>> from mmlp import Gram, TraceOneGaussian
    >>> p = TraceOneGaussian(jnp.zeros((3, 1)), Gram(jnp.ones((3, 1, 1))), 1.0)
    >>> print(f"{negative_log_likelihood(p, np.zeros((3, 1))):.4f}")  # log(2 pi) / 2
    0.9189
    """
    y = _targets(distribution, y, "negative_log_likelihood")
    call = "negative_log_likelihood"
    return weighted_mean(-_log_prob((), *_errors(distribution, y)), sample_weight, call)


def energy_score(prediction, y: ArrayLike, *, key=None, sample_weight=None) -> float:
    """The mean of E|x - y| - E|x - x'| / 2 for independent draws x, x', estimated without bias.

    `prediction` is samples (m, n, d), m at least 2, or a distribution, of which 1000 draws are
    taken for each row, others with another `key` of `jax.random`. In one dimension this is the
    continuous ranked probability score (Gneiting and Raftery, 2007).

    >>> samples = np.array([[[0.0]], [[2.0]]])
    >>> print(energy_score(samples, np.zeros((1, 1))))
    0.0
    """
    if isinstance(prediction, Elliptical):
        y = _targets(prediction, y, "energy_score")

        def score(x):  # draws are cheap: each is compared with one other, not with all
            return _norm(x - y) - _norm(x - np.roll(x, 1, axis=0)) / 2

        scores = _expected(score, prediction, key, y.size)
        return weighted_mean(scores, sample_weight, "energy_score")
    x, y = _samples(prediction, y, "energy_score")
    scores = [
        np.mean(_norm(x[:, i] - y[i])) - np.mean(pdist(x[:, i])) / 2
        for i in range(len(y))
    ]
    return weighted_mean(scores, sample_weight, "energy_score")


def variogram_score(
    prediction, y: ArrayLike, *, order: float = 0.5, key=None, sample_weight=None
) -> float:
    """The mean of sum_ij (|y_i - y_j|^order - E|x_i - x_j|^order)^2 (Scheuerer and Hamill, 2015).

    It is sensitive to correlations, where the energy score is not. Arguments as in `energy_score`.

    >>> samples = np.array([[[0.0, 4.0]], [[1.0, 5.0]]])
    >>> print(variogram_score(samples, np.array([[0.0, 1.0]])))  # 2 (1 - 2)^2
    2.0
    """
    call = "variogram_score"
    if not order > 0:
        raise ValueError(
            f"`{call}(order=...)` must be positive, got {order!r}; 0.5 is usual."
        )
    if isinstance(prediction, Elliptical):
        y = _targets(prediction, y, call)
        expected = _expected(
            lambda x: _variogram(x, order), prediction, key, y.size * y.shape[1]
        )
    else:
        x, y = _samples(prediction, y, call)
        expected = np.stack(
            [np.mean(_variogram(x[:, i], order), axis=0) for i in range(len(y))]
        )
    # twice: a variogram holds i < j only
    scores = 2 * np.sum((_variogram(y, order) - expected) ** 2, axis=-1)
    return weighted_mean(scores, sample_weight, call)


def mahalanobis_pit(distribution: Elliptical, y: ArrayLike) -> np.ndarray:
    """The probability of the ellipsoid about the mean that has y on its surface, shape (n,).

    If the predictions are right, these probabilities are uniform on (0, 1).

    >>> from mmlp import Gram, TraceOneGaussian
    >>> p = TraceOneGaussian(jnp.zeros((1, 2)), Gram.trace_one(jnp.eye(2)), 2.0)  # N(0, I)
    >>> print(mahalanobis_pit(p, np.array([[1.0, 1.0]])).round(4))  # 1 - exp(-1)
    [0.6321]
    """
    y = _targets(distribution, y, "mahalanobis_pit")
    r = np.asarray(_mahalanobis((), *_errors(distribution, y)), np.float64)
    return 1 - distribution.radius_distribution().survival(r)


def ellipsoid_coverage(
    distribution: Elliptical, y: ArrayLike, level: float = 0.9, *, sample_weight=None
) -> float:
    """The share of rows whose y is in the ellipsoid of probability `level`; at best `level`."""
    if not 0 < level < 1:
        raise ValueError(
            f"`ellipsoid_coverage(level=...)` must be in (0, 1), got {level!r}."
        )
    inside = mahalanobis_pit(distribution, y) <= level
    return weighted_mean(inside, sample_weight, "ellipsoid_coverage")


def calibration_curve(
    pit: ArrayLike, levels: ArrayLike | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """(levels, shares): the shares of `mahalanobis_pit` values up to each level; equal at best.

    >>> levels, shares = calibration_curve(np.array([0.1, 0.6]), np.array([0.5, 1.0]))
    >>> print(shares)
    [0.5 1. ]
    """
    levels = np.linspace(0, 1, 21) if levels is None else np.asarray(levels, float)
    return levels, np.mean(
        _probabilities(pit, "calibration_curve") <= levels[:, None], axis=1
    )


def calibration_error(pit: ArrayLike) -> float:
    """The area between the calibration curve and the diagonal, exactly: 0 is best, 0.5 worst.

    >>> print(f"{calibration_error((np.arange(100) + 0.5) / 100):.4f}")
    0.0025
    """
    u = np.sort(_probabilities(pit, "calibration_error"))
    edges = np.concatenate([[0.0], u, [1.0]])
    height = np.arange(len(u) + 1) / len(u)  # of the curve between two edges
    below, above = (edges[1:] - height), (edges[:-1] - height)
    # the integral of |level - height|
    return float(np.sum(below * np.abs(below) - above * np.abs(above)) / 2)


def _variogram(x: np.ndarray, order: float) -> np.ndarray:
    """|x_i - x_j|^order for i < j, of x (..., d)."""
    i, j = np.triu_indices(x.shape[-1], 1)
    return np.abs(x[..., i] - x[..., j]) ** order


def _norm(x: np.ndarray) -> np.ndarray:
    return np.linalg.norm(x, axis=-1)


def _expected(
    function: Callable, distribution: Elliptical, key, numbers: int
) -> np.ndarray:
    """The mean of function(x) (m, n, ...) over `DRAWS` draws x (m, n, d) in float64.

    The function needs so many `numbers` for each draw; m is what fits into `NUMBERS`.
    """
    fits = [m for m in range(2, DRAWS + 1) if DRAWS % m == 0 and m * numbers <= NUMBERS]
    at_once = max(fits, default=2)
    seed = 0 if key is None else np.asarray(jax.random.key_data(key)).ravel()
    rng, loc, mean = (
        np.random.default_rng(seed),
        np.asarray(distribution.loc, np.float64),
        0.0,
    )
    for _ in range(DRAWS // at_once):
        white = distribution.numpy_white(rng, (at_once, *distribution.batch_shape))
        x = loc + np.asarray(
            _coloured((), distribution, white.astype(distribution.loc.dtype))
        )
        mean += np.mean(function(x), axis=0) * (at_once / DRAWS)
    return np.asarray(mean)


def _errors(distribution: Elliptical, y: np.ndarray) -> tuple[Elliptical, np.ndarray]:
    """The distribution about zero, where its dtype has its digits, and y from its location."""
    loc = np.asarray(distribution.loc)
    centred = eqx.tree_at(lambda p: p.loc, distribution, np.zeros_like(loc))
    return centred, y - loc.astype(np.float64)


# each is one program: operation by operation, they would be a hundred


@functools.partial(Compiled, effort="least")
def _log_prob(_, p: Elliptical, x):
    return p.log_prob(x)


@functools.partial(Compiled, effort="least")
def _mahalanobis(_, p: Elliptical, x):
    return p.mahalanobis(x)


@functools.partial(Compiled, effort="least")
def _coloured(_, p: Elliptical, white):
    return jnp.sqrt(p.eta)[..., None] * p.omega.color(white)


def _samples(prediction, y, call: str) -> tuple[np.ndarray, np.ndarray]:
    x, y = np.asarray(prediction), np.asarray(y)
    if x.ndim != 3 or y.shape != x.shape[1:] or len(x) < 2:
        needs = "samples (m, n, d) with m at least 2 and y (n, d)"
        got = f"got shapes {x.shape} and {y.shape}"
        raise ValueError(f"`{call}(prediction, y)` needs {needs}, {got}.")
    _check_finite(x, f"{call}(prediction=...)")
    _check_finite(y, f"{call}(y=...)")
    return x.astype(np.float64), y.astype(np.float64)


def _targets(distribution, y, call: str) -> np.ndarray:
    """Return y (n, d) of a score of a distribution, checked; every such score begins here."""
    check_not_forked(f"metrics.{call}")
    if not isinstance(distribution, Elliptical):
        got = f"got {type(distribution).__name__}; use `predict_distribution`"
        raise ValueError(
            f"`{call}(distribution, y)` needs a distribution of this library, {got}."
        )
    batch, d, y = distribution.batch_shape, distribution.dim, np.asarray(y)
    y = y[:, None] if y.ndim == 1 and d == 1 else y
    if len(batch) != 1 or y.shape != (*batch, d):
        needs = "needs a distribution of batch shape (n,) and y (n, d)"
        got = f"got batch shape {batch}, dimension {d} and y of shape {y.shape}"
        remedy = ""
        if y.ndim == 2 and y.shape[1] > d:
            remedy = (
                " `MultivariateRegressor.predict_distribution` leaves out constant targets, which "
                "have no density: pass y[:, model.varying_targets_]."
            )
        raise ValueError(f"`{call}(distribution, y)` {needs}, {got}.{remedy}")
    _check_finite(y, f"{call}(y=...)")
    return y


def _check_finite(array: np.ndarray, argument: str) -> None:
    if not np.issubdtype(array.dtype, np.number) or not np.all(np.isfinite(array)):
        raise ValueError(
            f"`{argument}` must hold finite numbers only; drop or fill the others."
        )


def _probabilities(pit, call: str) -> np.ndarray:
    pit = np.asarray(pit, float)
    if pit.ndim != 1 or not len(pit) or not np.all((pit >= 0) & (pit <= 1)):
        wanted = "probabilities (n,), as `mahalanobis_pit` returns"
        raise ValueError(f"`{call}(pit=...)` must hold {wanted}, got {pit!r:.80}.")
    return pit


def rescaled_weights(weight: np.ndarray) -> np.ndarray:
    """Return weights times a power of two, so that the largest lies between one and two.

    Only their ratios count. This rounds nothing, and sums of weights cannot overflow.

    >>> print(rescaled_weights(np.array([3e300, 0.75e300])).round(2))
    [1.12 0.28]
    """
    largest = float(np.max(weight, initial=0.0))
    return weight if largest == 0 else np.ldexp(weight, 1 - int(np.frexp(largest)[1]))


def checked_weight(sample_weight: ArrayLike, n: int, call: str) -> np.ndarray:
    """Return the weights of n rows, or one number for all, as `rescaled_weights`.

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
            f"`{call}(sample_weight=...)` must have shape ({n},), a weight for each row, got shape "
            f"{weight.shape}."
        )
    if not np.all(np.isfinite(weight)) or np.any(weight < 0) or not np.any(weight):
        raise ValueError(
            f"`{call}(sample_weight=...)` must be finite and not negative, and not zero for all "
            "rows."
        )
    return rescaled_weights(weight)


def weighted_mean(values: ArrayLike, sample_weight, call: str) -> float:
    """Return the mean of values (n,), with `sample_weight` (n,) where it is not None."""
    values = np.asarray(values, np.float64)
    if sample_weight is None:
        return float(np.mean(values))
    weight = checked_weight(sample_weight, len(values), call)
    return float(np.average(values, weights=weight))
