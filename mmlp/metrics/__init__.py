"""Proper scores and calibration of multivariate predictions, and scikit-learn scorers.

A prediction of y (n, d) is a distribution of batch shape (n,), as returned by
`predict_distribution`; two of the scores also take samples (m, n, d), m draws for each
row. Scores are means over the n rows, optionally weighted by `sample_weight` (n,).
Smaller scores are better, larger scorers are better.
"""

from mmlp.metrics.scorers import (
    Scorer,
    coverage_scorer,
    energy_score_scorer,
    log_score_scorer,
    make_coverage_scorer,
)
from mmlp.metrics.scores import (
    calibration_curve,
    calibration_error,
    ellipsoid_coverage,
    energy_score,
    mahalanobis_pit,
    negative_log_likelihood,
    variogram_score,
)

__all__ = [
    "Scorer",
    "calibration_curve",
    "calibration_error",
    "coverage_scorer",
    "ellipsoid_coverage",
    "energy_score",
    "energy_score_scorer",
    "log_score_scorer",
    "mahalanobis_pit",
    "make_coverage_scorer",
    "negative_log_likelihood",
    "variogram_score",
]
