"""scikit-learn scorers that judge whole predictive distributions.

They work in `cross_val_score`, `GridSearchCV` and `permutation_importance`. The scorers
of scikit-learn itself see only the mean. These take an estimator of this library or a
pipeline that ends with one.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mmlp.metrics.scores import ellipsoid_coverage, energy_score, weighted_mean


@dataclasses.dataclass(frozen=True)
class Scorer:
    """A scikit-learn scorer: scorer(estimator, X, y, sample_weight=None) -> float.

    Larger is better.

    Parameters
    ----------
    name : str
        The name in errors and in the representation.
    function : callable
        Called as function(estimator, X, y, sample_weight), where `estimator` is the
        last estimator of a pipeline or search, and X its transformed input.
    requests : tuple of (str, bool or str or None) pairs, default=()
        Metadata requests, as set by `set_score_request`.

    Examples
    --------
    >>> from mmlp.metrics import log_score_scorer
    >>> log_score_scorer
    log_score_scorer
    """

    name: str
    function: Callable[..., float]
    requests: tuple[tuple[str, Any], ...] = ()

    def __call__(
        self,
        estimator: Any,
        X: Any,
        y: Any = None,
        sample_weight: ArrayLike | None = None,
    ) -> float:
        """Score an estimator.

        Parameters
        ----------
        estimator : estimator, pipeline or search
            A fitted estimator of this library, or a pipeline or search that ends with
            one.
        X : array or data frame of shape (n, p)
            The inputs.
        y : array or data frame of shape (n, d), optional
            The targets.
        sample_weight : array of shape (n,), optional
            The weights of the rows.

        Returns
        -------
        float
            The score; larger is better.

        Raises
        ------
        ValueError
            If the estimator does not predict distributions.
        """
        final_estimator, X = _final_estimator(estimator, X, self.name)
        return self.function(final_estimator, X, y, sample_weight)

    def __repr__(self) -> str:
        return self.name

    def set_score_request(self, **requests: Any) -> "Scorer":
        """Return a scorer that requests metadata from scikit-learn's routing.

        Parameters
        ----------
        **requests : bool, str or None
            Only `sample_weight` is known: True to get the weights of the scored rows.

        Returns
        -------
        Scorer
            A copy with these requests.

        Raises
        ------
        ValueError
            If anything other than `sample_weight` is requested.
        """
        unknown = requests.keys() - {"sample_weight"}
        if unknown:
            raise ValueError(
                f"`{self.name}.set_score_request(...)` knows only sample_weight, got "
                f"{', '.join(sorted(unknown))}."
            )
        return dataclasses.replace(self, requests=tuple(requests.items()))

    def get_metadata_routing(self) -> Any:
        """Return the metadata requests, in scikit-learn's protocol.

        Returns
        -------
        sklearn.utils.metadata_routing.MetadataRequest
            The requests of the method `score`.
        """
        from sklearn.utils.metadata_routing import MetadataRequest

        request = MetadataRequest(owner=self.name)
        for name, alias in self.requests:
            request.score.add_request(param=name, alias=alias)
        return request


def _log_score(
    estimator: Any, X: Any, y: Any, sample_weight: ArrayLike | None
) -> float:
    """Return the mean log density of y, or of X for a density estimator."""
    if hasattr(estimator, "log_density"):
        log_density = estimator.log_density(X, y)
    else:
        score_samples = _require_method(estimator, "score_samples", "log_score_scorer")
        log_density = score_samples(X)
    return weighted_mean(log_density, sample_weight, "log_score_scorer")


def _negative_energy_score(
    estimator: Any, X: Any, y: Any, sample_weight: ArrayLike | None
) -> float:
    """Return minus the energy score."""
    predict = _require_method(estimator, "predict_distribution", "energy_score_scorer")
    distribution = predict(X)
    targets = _select_scored_targets(estimator, X, y)
    return -energy_score(distribution, targets, sample_weight=sample_weight)


def _negative_coverage_error(
    level: float, estimator: Any, X: Any, y: Any, sample_weight: ArrayLike | None
) -> float:
    """Return minus the distance of the coverage from its level."""
    predict = _require_method(estimator, "predict_distribution", "coverage_scorer")
    distribution = predict(X)
    targets = _select_scored_targets(estimator, X, y)
    coverage = ellipsoid_coverage(
        distribution, targets, level, sample_weight=sample_weight
    )
    return -abs(coverage - level)


def make_coverage_scorer(level: float = 0.9) -> Scorer:
    """Return a scorer of calibration: minus |`ellipsoid_coverage` - level|.

    It measures calibration only. A forecast that ignores X can be calibrated too.

    Parameters
    ----------
    level : float, default=0.9
        The probability of the ellipsoids, in (0, 1).

    Returns
    -------
    Scorer
        The best value is 0.

    Raises
    ------
    ValueError
        If the level is not between 0 and 1.

    Examples
    --------
    >>> make_coverage_scorer(0.5)
    coverage_scorer
    """
    if not (np.ndim(level) == 0 and 0 < level < 1):
        raise ValueError(
            f"`make_coverage_scorer(level=...)` must be in (0, 1), got {level!r}."
        )
    return Scorer("coverage_scorer", functools.partial(_negative_coverage_error, level))


log_score_scorer = Scorer("log_score_scorer", _log_score)
energy_score_scorer = Scorer("energy_score_scorer", _negative_energy_score)
coverage_scorer = make_coverage_scorer()


def _final_estimator(estimator: Any, X: Any, scorer: str) -> tuple[Any, Any]:
    """Return the estimator at the end of pipelines and searches, and its input."""
    if hasattr(estimator, "best_estimator_"):
        return _final_estimator(estimator.best_estimator_, X, scorer)

    if hasattr(estimator, "named_steps"):
        transformers = estimator[:-1]
        if len(transformers):
            X = transformers.transform(X)
        return _final_estimator(estimator[-1], X, scorer)

    if hasattr(estimator, "regressor_") and hasattr(estimator, "transformer_"):
        raise ValueError(
            f"`{scorer}` cannot score a {type(estimator).__name__}: it transforms only "
            "means back, so there is no density of y. Leave it out, because "
            "`MultivariateRegressor` standardises targets itself; or transform y "
            "before `fit`, and score the transformed y."
        )
    return estimator, X


def _select_scored_targets(estimator: Any, X: Any, y: Any) -> Any:
    """Return the columns of y that the distribution covers; check their names."""
    if hasattr(estimator, "scored_targets"):
        return estimator.scored_targets(X, y)
    return y


def _require_method(estimator: Any, name: str, scorer: str) -> Callable:
    """Return a method of the estimator, or raise a ValueError that names the scorer."""
    if not hasattr(estimator, name):
        raise ValueError(
            f"`{scorer}` needs an estimator with `{name}`, such as "
            f"`MultivariateRegressor`, got {type(estimator).__name__}."
        )
    return getattr(estimator, name)
