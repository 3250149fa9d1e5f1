"""Scorers of distributions in scikit-learn's searches, with weights, in pipelines."""

import pickle

import numpy as np
import pytest
import sklearn
from sklearn.compose import TransformedTargetRegressor
from sklearn.inspection import permutation_importance
from sklearn.model_selection import (
    GridSearchCV,
    TimeSeriesSplit,
    cross_val_score,
    cross_validate,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from small_estimators import REGRESSION, X, Y

from mmlp import metrics
from mmlp.estimators import MultivariateRegressor

SCORERS = (
    metrics.log_score_scorer,
    metrics.energy_score_scorer,
    metrics.coverage_scorer,
)
WEIGHT = np.arange(60.0)


def test_scorers_are_the_scores_with_the_larger_one_better(tailed):
    p = tailed.predict_distribution(X)
    log_score, energy, coverage = (scorer(tailed, X, Y) for scorer in SCORERS)
    assert log_score == pytest.approx(tailed.log_score(X, Y))
    assert energy == pytest.approx(-metrics.energy_score(p, Y))
    assert coverage == pytest.approx(-abs(metrics.ellipsoid_coverage(p, Y) - 0.9))
    half = metrics.make_coverage_scorer(0.5)(tailed, X, Y)
    assert half == pytest.approx(-abs(metrics.ellipsoid_coverage(p, Y, 0.5) - 0.5))
    for scorer in SCORERS:
        assert scorer(tailed, X, Y[::-1]) < scorer(tailed, X, Y), scorer


def test_weights_are_those_of_the_rows(tailed):
    assert metrics.log_score_scorer(
        tailed, X, Y, sample_weight=WEIGHT
    ) == pytest.approx(tailed.log_score(X, Y, WEIGHT))
    rows = np.repeat(np.arange(60), WEIGHT.astype(int))
    for scorer in (metrics.log_score_scorer, metrics.coverage_scorer):
        repeated = scorer(tailed, X[rows], Y[rows])
        assert scorer(tailed, X, Y, sample_weight=WEIGHT) == pytest.approx(repeated)


def test_a_pipeline_is_scored_by_its_last_estimator(tailed):
    scaler = StandardScaler(with_std=False).fit(X + 3)
    pipe = make_pipeline(scaler, tailed)
    for scorer in SCORERS:
        assert scorer(pipe, X + 3 - X.mean(axis=0), Y) == scorer(
            tailed, scaler.transform(X + 3 - X.mean(axis=0)), Y
        )
    assert metrics.log_score_scorer(make_pipeline(tailed), X, Y) == tailed.log_score(
        X, Y
    )


def test_densities_are_scored_and_others_are_refused(density, spd, regressor):
    expected = pytest.approx(density.score(X))
    assert metrics.log_score_scorer(density, X) == expected
    with pytest.raises(
        ValueError, match=r"needs an estimator with `score_samples`.*SPDRegressor"
    ):
        metrics.log_score_scorer(spd, X, Y)
    with pytest.raises(
        ValueError, match=r"with `predict_distribution`.* got StandardScaler"
    ):
        metrics.coverage_scorer(StandardScaler(), X, Y)
    wrapped = TransformedTargetRegressor(regressor)
    wrapped.regressor_, wrapped.transformer_ = regressor, None
    with pytest.raises(
        ValueError, match=r"cannot score a TransformedTargetRegressor.*Leave it"
    ):
        metrics.log_score_scorer(wrapped, X, Y)
    with pytest.raises(ValueError, match=r"level=...\)` must be in \(0, 1\), got 90"):
        metrics.make_coverage_scorer(90)


@pytest.mark.filterwarnings("ignore:.*reached max_epochs")
def test_searches_and_validations_use_them():
    pipe = make_pipeline(StandardScaler(), MultivariateRegressor(**REGRESSION))
    grid = {"multivariateregressor__max_epochs": [1, 30]}
    search = GridSearchCV(
        pipe, grid, scoring=metrics.log_score_scorer, cv=2, error_score="raise"
    )
    search.fit(X, Y)
    assert search.best_params_ == {"multivariateregressor__max_epochs": 30}
    assert metrics.log_score_scorer(search, X, Y) == search.score(X, Y)
    # rows of time: each is predicted by earlier ones
    splits = TimeSeriesSplit(2)
    scores = cross_validate(
        pipe, X, Y, cv=splits, scoring={str(s): s for s in SCORERS}, error_score="raise"
    )
    assert all(np.isfinite(scores[f"test_{scorer}"]).all() for scorer in SCORERS)
    alone = cross_val_score(
        pipe, X, Y, cv=splits, scoring=metrics.log_score_scorer, error_score="raise"
    )
    np.testing.assert_allclose(alone, scores["test_log_score_scorer"])


def test_weights_are_routed_to_them(regressor):
    scorer = metrics.log_score_scorer.set_score_request(sample_weight=True)
    with sklearn.config_context(enable_metadata_routing=True):
        model = MultivariateRegressor(**REGRESSION).set_fit_request(sample_weight=False)
        options = {"cv": 2, "scoring": scorer, "params": {"sample_weight": WEIGHT}}
        scores = cross_val_score(model, X, Y, error_score="raise", **options)
    model = MultivariateRegressor(**REGRESSION)
    first, second = np.arange(30), np.arange(30, 60)
    expected = [
        model.fit(X[a], Y[a]).log_score(X[b], Y[b], WEIGHT[b])
        for a, b in ((second, first), (first, second))
    ]
    np.testing.assert_allclose(scores, expected)
    with pytest.raises(ValueError, match="sample_weight, got weights"):
        scorer.set_score_request(weights=True)


def test_importance_of_inputs_is_that_of_the_scorer(regressor):
    options = {"n_repeats": 2, "random_state": 0, "sample_weight": WEIGHT}
    found = permutation_importance(
        regressor, X, Y, scoring=metrics.log_score_scorer, **options
    )
    assert found.importances.shape == (3, 2)
    assert np.argmin(found.importances_mean) == 2, (
        "y does not depend on the last column"
    )
    again = pickle.loads(pickle.dumps(metrics.log_score_scorer))
    assert again(regressor, X, Y) == metrics.log_score_scorer(regressor, X, Y)
    assert repr(again) == "log_score_scorer"
