"""Inside scikit-learn's tools: pipelines, transformed targets, held predictions, data frames."""

import copy

import numpy as np
import pandas
import pytest
import sklearn
from sklearn.compose import TransformedTargetRegressor
from sklearn.inspection import permutation_importance
from sklearn.model_selection import TimeSeriesSplit, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from small_estimators import MATRICES, REGRESSION, SPD, X, Y

from mmlp.estimators import MultivariateRegressor, SPDRegressor


def pipeline(regressor):
    """One that is fitted, whose scaler is not the identity."""
    return make_pipeline(StandardScaler().fit(X * 5 + 1), regressor)


def test_the_arguments_of_predict_pass_through_a_pipeline(regressor):
    pipe = pipeline(regressor)
    inside = pipe[:-1].transform(X)
    for option in ("return_std", "return_cov"):
        given, expected = (
            model.predict(rows, **{option: True})
            for model, rows in ((pipe, X), (regressor, inside))
        )
        for one, other in zip(given, expected, strict=True):
            np.testing.assert_array_equal(one, other)
    with sklearn.config_context(enable_metadata_routing=True):
        asking = copy.copy(regressor).set_predict_request(return_std=True)
        mean, std = pipeline(asking).predict(X, return_std=True)
        assert mean.shape == std.shape == (60, 2)


def test_other_methods_are_those_of_the_last_step(regressor, density):
    pipe = pipeline(regressor)
    inside = pipe[:-1].transform(X)
    interval = pipe[-1].predict_interval(inside)
    assert np.all(interval[..., 0] < pipe.predict(X))
    assert pipe[-1].predict_distribution(inside).batch_shape == (60,)
    assert pipe.score(X, Y) == pipe[-1].score(inside, Y)
    latent = pipeline(density)
    np.testing.assert_array_equal(latent.transform(X), density.transform(inside))
    np.testing.assert_array_equal(
        latent.score_samples(X), density.score_samples(inside)
    )
    assert latent.inverse_transform(latent.transform(X)).shape == X.shape


def test_transformed_targets_have_means_only():
    model = TransformedTargetRegressor(
        MultivariateRegressor(**REGRESSION),
        func=np.exp,
        inverse_func=np.log,
        check_inverse=False,
    )
    y = Y / 10
    model.fit(X, y)
    np.testing.assert_allclose(model.predict(X), np.log(model.regressor_.predict(X)))
    with pytest.raises(AttributeError):  # scikit-learn would transform a pair
        model.predict(X, return_std=True)
    mean, std = model.regressor_.predict(X, return_std=True)  # of exp(y)
    assert mean.shape == std.shape == (60, 2)


def test_held_rows_are_predicted_and_scored_in_folds():
    for model, y in (
        (MultivariateRegressor(**REGRESSION), Y),
        (SPDRegressor(**SPD), MATRICES),
    ):
        held = cross_val_predict(model, X, y, cv=2)
        assert held.shape == y.shape
        first = model.fit(X[30:], y[30:]).predict(X[:30])
        np.testing.assert_array_equal(held[:30], first)
        scores = cross_val_score(
            model, X, y, cv=TimeSeriesSplit(2), error_score="raise"
        )
        assert scores[-1] == model.fit(X[:40], y[:40]).score(X[40:], y[40:])


def test_importance_is_that_of_the_inputs_that_matter(regressor, spd):
    for model, y in ((regressor, Y), (spd, MATRICES)):
        found = permutation_importance(model, X, y, n_repeats=2, random_state=0)
        assert np.argmin(found.importances_mean) == 2, (
            "neither depends on the last column"
        )


def test_latent_variables_come_as_a_data_frame(density):
    model = copy.deepcopy(density).set_output(transform="pandas")
    frame = pandas.DataFrame(X, columns=list("abc"), index=np.arange(60) + 7)
    latent = model.transform(X)
    assert list(latent.columns) == list(model.get_feature_names_out()) == ["matrixvae0"]
    np.testing.assert_array_equal(latent, density.transform(X))
    same = FunctionTransformer(feature_names_out="one-to-one").fit(frame)
    pipe = make_pipeline(same, copy.deepcopy(density)).set_output(transform="pandas")
    pipe[-1].feature_names_in_ = np.array(list("abc"), object)
    assert list(pipe.transform(frame).index) == list(frame.index)
    assert list(pipe.get_feature_names_out()) == ["matrixvae0"]
