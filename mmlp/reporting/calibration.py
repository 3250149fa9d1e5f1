"""Calibration: whether predicted probabilities agree with observed frequencies."""

import numpy as np

from mmlp.reporting.baselines import PredictionErrors

MIN_ROWS = 20
SIGNIFICANT_STANDARD_ERRORS = 3.0


def target_pit(errors: PredictionErrors, max_targets: int) -> np.ndarray:
    """Return the probability integral transform of single targets.

    This is P(target <= observation) under the predictive distribution.

    Returns
    -------
    array of shape (n_targets, n_rows)
        Of the first targets.
    """
    variances = np.asarray(errors.distribution.covariance.diagonal(), float)
    deviations = np.sqrt(variances)[:, :max_targets]
    standardized = errors.values[:, :max_targets] / deviations
    return errors.distribution.marginal_cdf(standardized.T)


def interval_coverage(pit: np.ndarray, level: float) -> np.ndarray:
    """Return the share of rows inside the central interval of a probability.

    Parameters
    ----------
    pit : array of shape (..., n_rows)
    level : float
        Probability of the interval.

    Returns
    -------
    array of shape (...)
    """
    return np.mean(np.abs(pit - 0.5) <= level / 2, axis=-1)


def coverage_error(level: float, n_rows: int) -> float:
    """Return the standard error of a share of n_rows, if its probability is `level`."""
    return float(np.sqrt(level * (1 - level) / n_rows))


def is_miscalibrated(shares: np.ndarray, level: float, n_rows: int) -> np.ndarray:
    """Return which shares differ from their probability by more than chance."""
    allowed = SIGNIFICANT_STANDARD_ERRORS * coverage_error(level, n_rows)
    return np.abs(shares - level) > allowed
