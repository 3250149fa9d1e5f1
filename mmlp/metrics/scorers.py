"""Scores of whole distributions for `cross_val_score`, `GridSearchCV` and `permutation_importance`.

scikit-learn's own scorers see the mean alone. These take an estimator of this library or a pipeline
that ends with one.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from mmlp.metrics.scores import ellipsoid_coverage, energy_score, weighted_mean


@dataclasses.dataclass(frozen=True)
class Scorer:
    """scorer(estimator, X, y, sample_weight=None) -> a number, of which larger is better.

    With scikit-learn's metadata routing `set_score_request(sample_weight=True)` gives one that
    asks for the weights of the rows that it scores.
    """

    name: str
    function: Callable[
        ..., float
    ]  # of the last estimator, the rows that it is given, y, weights
    requests: tuple[tuple[str, Any], ...] = ()

    def __call__(self, estimator, X, y=None, sample_weight=None) -> float:
        last, X = _last(estimator, X, self.name)
        return self.function(last, X, y, sample_weight)

    def __repr__(self) -> str:
        return self.name

    def set_score_request(self, **requests) -> "Scorer":
        """With these requests, such as sample_weight=True."""
        wrong = requests.keys() - {"sample_weight"}
        if wrong:
            raise ValueError(
                f"`{self.name}.set_score_request(...)` knows sample_weight alone, got "
                f"{', '.join(sorted(wrong))}."
            )
        return dataclasses.replace(self, requests=tuple(requests.items()))

    def get_metadata_routing(self):
        """What scikit-learn asks a scorer for."""
        from sklearn.utils.metadata_routing import MetadataRequest

        request = MetadataRequest(owner=self.name)
        for name, alias in self.requests:
            request.score.add_request(param=name, alias=alias)
        return request


def log_score(estimator, X, y, sample_weight) -> float:
    name = "log_density" if hasattr(estimator, "log_density") else "score_samples"
    given = (X, y) if name == "log_density" else (X,)
    values = _method(estimator, name, "log_score_scorer")(*given)
    return weighted_mean(values, sample_weight, "log_score_scorer")


def minus_energy_score(estimator, X, y, sample_weight) -> float:
    p = _method(estimator, "predict_distribution", "energy_score_scorer")(X)
    y = _scored_targets(estimator, X, y)
    return -energy_score(p, y, sample_weight=sample_weight)


def minus_coverage_error(level: float, estimator, X, y, sample_weight) -> float:
    p = _method(estimator, "predict_distribution", "coverage_scorer")(X)
    y = _scored_targets(estimator, X, y)
    return -abs(ellipsoid_coverage(p, y, level, sample_weight=sample_weight) - level)


def make_coverage_scorer(level: float = 0.9) -> Scorer:
    """Minus how far `ellipsoid_coverage` is from `level`: 0 is best.

    It tells calibration alone: a forecast that ignores X may have it too.
    """
    if not (np.ndim(level) == 0 and 0 < level < 1):
        raise ValueError(
            f"`make_coverage_scorer(level=...)` must be in (0, 1), got {level!r}."
        )
    return Scorer("coverage_scorer", functools.partial(minus_coverage_error, level))


log_score_scorer = Scorer("log_score_scorer", log_score)
energy_score_scorer = Scorer("energy_score_scorer", minus_energy_score)
coverage_scorer = make_coverage_scorer()


def _last(estimator, X, name: str) -> tuple[Any, Any]:
    """The estimator at the end of pipelines and searches, and X as it is given to it."""
    if hasattr(estimator, "best_estimator_"):
        return _last(estimator.best_estimator_, X, name)
    if hasattr(estimator, "named_steps"):
        before = estimator[:-1]
        return _last(estimator[-1], before.transform(X) if len(before) else X, name)
    if hasattr(estimator, "regressor_") and hasattr(estimator, "transformer_"):
        raise ValueError(
            f"`{name}` cannot score a {type(estimator).__name__}: it transforms means back, and "
            "there is no density of y. Leave it out: `MultivariateRegressor` standardises targets "
            "itself; or transform y before `fit`, and score the transformed one."
        )
    return estimator, X


def _scored_targets(estimator, X, y) -> Any:
    """Return the columns of y that the estimator's distribution is of, their names checked."""
    select = getattr(estimator, "scored_targets", None)
    return y if select is None else select(X, y)


def _method(estimator, name: str, scorer: str) -> Callable:
    if not hasattr(estimator, name):
        raise ValueError(
            f"`{scorer}` needs an estimator with `{name}`, such as `MultivariateRegressor`, got "
            f"{type(estimator).__name__}."
        )
    return getattr(estimator, name)
