"""Scores of predictive distributions on the rows of a report, and their comparison."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from mmlp import metrics
from mmlp.reporting.baselines import (
    MIN_ROWS,
    ConstantTargetError,
    PredictionErrors,
    evaluate_baseline,
    fit_constant,
    fit_linear,
)
from mmlp.reporting.rows import Rows

BASELINES = {"linear": fit_linear, "constant": fit_constant}
MAX_NUMBERS_OF_ENERGY_SCORE = 20_000  # rows times targets
MIN_ROWS_OF_ENERGY_SCORE = 50
SIGNIFICANT_STANDARD_ERRORS = 2.0


@dataclasses.dataclass(frozen=True)
class Scores:
    """Scores of one predictor.

    Attributes
    ----------
    negative_log_density : array of shape (n_rows,)
    energy_score : float
    pit : array of shape (n_rows,)
        Probability of the ellipsoid on which each observation lies.
    errors : PredictionErrors
    """

    negative_log_density: np.ndarray
    energy_score: float
    pit: np.ndarray
    errors: PredictionErrors

    @property
    def rmse(self) -> np.ndarray:
        """Root mean squared error of each target."""
        return np.sqrt(np.mean(self.errors.values**2, axis=0))


@dataclasses.dataclass(frozen=True)
class BaselineScores:
    """Scores of the baselines by name; where there are none, the reason."""

    by_name: dict[str, Scores]
    reason: str = ""


@dataclasses.dataclass(frozen=True)
class Gain:
    """Mean gain of a model over a baseline and its standard error over rows."""

    mean: float
    error: float

    @property
    def is_significant(self) -> bool:
        """Whether the gain is more than chance; it may be negative."""
        if not np.isfinite(self.mean):
            return False
        return abs(self.mean) > SIGNIFICANT_STANDARD_ERRORS * self.error


def score_errors(
    errors: PredictionErrors, negative_log_density: np.ndarray | None = None
) -> Scores:
    """Score predictions by their errors.

    Parameters
    ----------
    errors : PredictionErrors
    negative_log_density : array of shape (n_rows,), optional
        That of the errors, by default.

    Returns
    -------
    Scores
    """
    values = errors.values
    distribution = errors.distribution
    if negative_log_density is None:
        typed_values = np.asarray(values, distribution.loc.dtype)
        negative_log_density = -np.asarray(distribution.log_prob(typed_values), float)

    # The energy score compares draws with draws, which takes long for many numbers.
    max_rows = max(
        MAX_NUMBERS_OF_ENERGY_SCORE // values.shape[1], MIN_ROWS_OF_ENERGY_SCORE
    )
    first_rows = distribution
    if len(values) > max_rows:
        first_rows = select_rows(distribution, slice(max_rows))
    return Scores(
        negative_log_density=negative_log_density,
        energy_score=metrics.energy_score(first_rows, values[:max_rows]),
        pit=metrics.mahalanobis_pit(distribution, values),
        errors=errors,
    )


def score_baselines(
    model: Any, rows: Rows, train: Rows | None, progress: Callable[[str], None]
) -> BaselineScores:
    """Score the baselines on the same rows.

    Parameters
    ----------
    model : fitted MultivariateRegressor
        Its encoding of the inputs serves the baselines too.
    rows : Rows
    train : Rows, optional
        Rows that the baselines are fitted to.
    progress : callable

    Returns
    -------
    BaselineScores
    """
    n_training_rows = len(rows if train is None else train)
    if n_training_rows < MIN_ROWS:
        reason = f"Baselines need {MIN_ROWS} training rows, got {n_training_rows}."
        return BaselineScores({}, reason)

    x = np.asarray(model._standardize(rows.X), float)
    training_rows = None
    if train is not None:
        training_rows = (np.asarray(model._standardize(train.X), float), train.y)

    scores = {}
    for name, fit in BASELINES.items():
        progress(f"the baseline: {name}")
        try:
            errors = evaluate_baseline(fit, x, rows.y, training_rows)
        except ConstantTargetError:
            reason = (
                "A target is constant, or a linear function of the inputs, so there is "
                "no baseline."
            )
            return BaselineScores({}, reason)
        scores[name] = score_errors(errors)
    return BaselineScores(scores)


def measure_gain(gains: np.ndarray) -> Gain:
    """Return the mean of the gains of rows and its standard error."""
    error = gains.std(ddof=1) / np.sqrt(len(gains))
    return Gain(float(gains.mean()), float(error))


def select_rows(distribution: Any, index: Any) -> Any:
    """Return the distribution of some rows, of one with batch shape (n_rows,)."""
    n = distribution.batch_shape[0]

    def select(x: Any) -> Any:
        return x[index] if x.ndim and len(x) == n else x

    return jax.tree.map(select, distribution)
