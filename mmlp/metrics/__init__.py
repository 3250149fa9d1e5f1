"""How good multivariate predictions are: proper scores, calibration, and scorers of scikit-learn.

A prediction of y (n, d) is a distribution of batch shape (n,), as `predict_distribution` returns
it; two of the scores also take samples (m, n, d), m draws for each row. Scores are means over the n
rows, and smaller is better; `sample_weight` (n,) weighs the rows. Of scorers larger is better.
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
