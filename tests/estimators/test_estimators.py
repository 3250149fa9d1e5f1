"""The estimators keep scikit-learn's conventions, name what is wrong, and bear small tables."""

import copy
import warnings

import numpy as np
import pandas
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from small_estimators import DENSITY, MATRICES, REGRESSION, SPD, X, Y, outputs
from sweeps import sweep

from mmlp.estimators import (
    MatrixVAE,
    MultivariateRegressor,
    SPDRegressor,
    training_settings,
)


@pytest.mark.parametrize("name", ["regressor", "spd", "density"])
def test_inputs_too_large_for_float32_are_named(name, request):
    far = X.copy()
    far[3, 1] = 1e39
    with pytest.raises(
        ValueError,
        match=r"X in row 3, column 1 .*e\+39 in standard units, too large for float32",
    ):
        outputs(request.getfixturevalue(name), far)


@sweep("name", ["regressor", "spd", "density"])
def test_a_fit_that_is_interrupted_leaves_what_was_learnt_before(
    name, request, monkeypatch
):
    estimator = copy.copy(request.getfixturevalue(name))
    expected, held = outputs(estimator), set(vars(estimator))

    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("mmlp.estimators.cross_fitting.fit_many", stop)
    with pytest.raises(KeyboardInterrupt):
        estimator.fit(X[:, :2] * 9, MATRICES if name == "spd" else Y * 9)
    assert set(vars(estimator)) == held
    for key, value in outputs(estimator).items():
        np.testing.assert_array_equal(value, expected[key])


def test_a_row_does_not_depend_on_its_neighbours(regressor, spd, density):
    for estimator in (regressor, spd, density):
        for name, value in outputs(estimator).items():
            np.testing.assert_array_equal(getattr(estimator, name)(X[7:9]), value[7:9])


def test_rows_of_weight_zero_are_as_if_absent(regressor):
    more = np.concatenate([X, X[:9] + 1]), np.concatenate([Y, Y[:9] - 9])
    again = clone(regressor).fit(*more, sample_weight=[1.0] * 60 + [0.0] * 9)
    np.testing.assert_array_equal(
        again.predict_covariance(X), regressor.predict_covariance(X)
    )
    with pytest.raises(ValueError, match="at least two rows of positive weight"):
        clone(regressor).fit(X, Y, sample_weight=[1.0] + [0.0] * 59)


def test_data_frames_give_names_that_are_checked(regressor):
    frame = pandas.DataFrame(X, columns=["a", "b", "c"])
    again = clone(regressor).fit(frame, pandas.DataFrame(Y, columns=["u", "v"]))
    np.testing.assert_array_equal(again.predict(frame), regressor.predict(X))
    assert list(again.feature_names_in_) == ["a", "b", "c"]
    with pytest.raises(ValueError, match="feature names"):
        again.predict(frame.rename(columns={"a": "z"}))


def test_a_fit_that_ends_at_its_limit_says_so(regressor, spd):
    for estimator, y, networks, epochs in (
        (regressor, Y, 6, 30),
        (spd, MATRICES, 2, 5),
    ):
        name, reached = type(estimator).__name__, f"reached max_epochs={epochs}"
        text = (
            rf"{name}\.fit`: \d of {networks} networks {reached} .* raise `max_epochs`"
        )
        with pytest.warns(ConvergenceWarning, match=text) as caught:
            clone(estimator).set_params(max_epochs=epochs).fit(X, y)
        assert caught[0].filename == __file__, "at the call of `fit`"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clone(regressor).set_params(patience=None).fit(X, Y)
        clone(regressor).set_params(patience=1).fit(X, Y)


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ([[5.0, 4.0, 3.0, 2.0, 1.0]], True),
        ([[5.0, 2.0, 1.0, 1.0, 2.0]], False),  # ended by patience in the last epoch
        ([[5.0, 2.0, 2.0, 1.0, 2.0]], True),
        ([[5.0, 1.0, 1.0, 1.0, 1.0]], False),  # flat since long
        ([[5.0, 1.0, 1.0, 1.0, 0.99]], False),  # by a hair
        ([[5.0, 1.0, 2.0, 2.0, np.nan]], False),  # ended before
        ([[5.0, 1.0, 2.0, 2.0]], False),
        ([[np.inf] * 5], False),
        ([[5.0, 4.0, 3.0, 2.0, 1.0], [5.0, 2.0, 1.0, 1.0, 2.0]], [True, False]),
    ],
)
def test_a_network_is_unfinished_if_its_last_epochs_brought_much(scores, expected):
    history = {"validation": np.array(scores).T}
    np.testing.assert_array_equal(
        training_settings.find_unfinished(history, 5, 2), expected
    )
    np.testing.assert_array_equal(
        training_settings.find_unfinished(history, 5, 50), expected
    )
    assert not training_settings.find_unfinished(history, 5, None).any()


def test_a_pipeline_is_searched():
    search = GridSearchCV(
        make_pipeline(StandardScaler(), MultivariateRegressor(**REGRESSION)),
        {"multivariateregressor__patience": [2, None]},
        cv=2,
        scoring=lambda pipeline, X, y: pipeline[-1].log_score(
            pipeline[:-1].transform(X), y
        ),
    )
    search.fit(X, Y)
    assert np.isfinite(search.best_score_)
    assert search.predict(X).shape == Y.shape


FEW = X[:10].copy()
FEW[:, 0], FEW[5:] = 3.0, FEW[:5]


@pytest.mark.filterwarnings("ignore:.*rows are too few to judge")
def test_ten_rows_with_constant_columns_and_duplicates_work(regressor, spd):
    targets = Y[:10].copy()
    targets[5:] = targets[:5]
    V = clone(regressor).fit(FEW, targets).predict_covariance(FEW)
    assert np.isfinite(V).all()
    assert np.linalg.eigvalsh(V).min() > 0
    assert np.isfinite(clone(spd).fit(FEW, MATRICES[:10]).predict(FEW)).all()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*rows are too few to judge")
def test_a_density_of_ten_rows_with_duplicates_works():
    rows = FEW[:, 1:]
    assert np.isfinite(MatrixVAE(**DENSITY).fit(rows).score_samples(rows)).all()


def test_a_density_refuses_constant_columns():
    """Along one the density grows with every epoch, without a bound."""
    with pytest.raises(
        ValueError, match=r"`MatrixVAE.fit`: column 0 \(from 0\) is constant over"
    ):
        MatrixVAE(**DENSITY).fit(FEW)
    frame = pandas.DataFrame(FEW, columns=["a", "b", "c"])
    with pytest.raises(ValueError, match="column 'a' is constant over the 10 rows"):
        MatrixVAE(**DENSITY).fit(frame)


@pytest.mark.slow
@pytest.mark.parametrize(("p", "d"), [(1, 1), (1, 2), (3, 50)])
def test_one_feature_one_target_and_fifty_work(p, d):
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((40, p)), rng.standard_normal((40, d))
    V = MultivariateRegressor(**REGRESSION).fit(X, y).predict_covariance(X)
    assert V.shape == (40, d, d)
    assert np.linalg.eigvalsh(V).min() > 0
    targets = np.einsum("ni,nj->nij", y, y) + np.eye(d)
    assert np.linalg.eigvalsh(SPDRegressor(**SPD).fit(X, targets).predict(X)).min() > 0
    assert np.isfinite(MatrixVAE(**DENSITY).fit(y).score_samples(y)).all()


def test_scale_and_shape_of_matrices_are_learnt(spd):
    assert spd.score(X, MATRICES) > 0.5
    assert np.linalg.eigvalsh(spd.predict(X)).min() > 0


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_rounding_of_traces_that_are_all_one_is_not_learnt(dtype):
    Y = MATRICES + np.linspace(0, 1, len(X))[:, None, None] * np.eye(2)
    Y = (Y / np.trace(Y, axis1=1, axis2=2)[:, None, None]).astype(dtype).astype(float)
    assert len(np.unique(np.trace(Y.astype(float), axis1=1, axis2=2))) > 1
    fitted = SPDRegressor(**SPD | {"max_epochs": 1}).fit(X, Y)
    assert fitted.trace_.scale == 1
    weight = np.arange(len(X)) % 2.0  # rows without weight count for nothing
    weighted = np.where(weight[:, None, None] > 0, Y, 5 * Y)
    assert (
        SPDRegressor(**SPD | {"max_epochs": 1}).fit(X, weighted, weight).trace_.scale
        == 1
    )
    larger = SPDRegressor(**SPD | {"max_epochs": 1}).fit(
        X, Y * np.linspace(1, 1.01, len(Y))[:, None, None]
    )
    assert larger.trace_.scale < 0.01


def test_latent_variables_and_draws(density, monkeypatch):
    S = density.transform(X)
    assert density.inverse_transform(S).shape == X.shape
    with pytest.raises(ValueError, match="0 sample"):
        density.inverse_transform(S[:0])
    np.testing.assert_array_equal(
        density.sample(4, random_state=1), density.sample(4, random_state=1)
    )
    monkeypatch.setattr("mmlp.estimators.density.ROWS_PER_DRAW", 4)  # rows at once
    rows = density.sample(10, random_state=1)
    assert rows.shape == (10, X.shape[1])
    assert len(np.unique(rows, axis=0)) == 10
    assert density.score(X) == pytest.approx(density.score_samples(X).mean())
    assert list(density.get_feature_names_out()) == ["matrixvae0"]


def test_what_is_not_positive_definite_is_named():
    bad = MATRICES.copy()
    bad[7] = -bad[7]
    with pytest.raises(ValueError, match=r"SPDRegressor\.fit.*element \(7,\)"):
        SPDRegressor(**SPD).fit(X, bad)
    with pytest.raises(ValueError, match=r"y of shape \(60, 2\)"):
        SPDRegressor(**SPD).fit(X, Y)


@pytest.mark.parametrize(
    ("estimator", "match"),
    [
        (MultivariateRegressor(family="cauchy"), "family"),
        (MultivariateRegressor(network="deep"), "network"),
        (MultivariateRegressor(n_models=1), "n_models"),
        (MultivariateRegressor(hidden_features=8), "hidden_features"),
        (MultivariateRegressor(learning_rate=0.0), "learning_rate"),
        (MultivariateRegressor(dtype="int32"), "dtype"),
        (MultivariateRegressor(dtype="single precision"), "dtype"),
        (MultivariateRegressor(patience=-1), "patience"),
        (MultivariateRegressor(batch_size=0), "batch_size"),
        (SPDRegressor(loss="l2"), "loss"),
        (MatrixVAE(model="XX"), "model"),
        (MatrixVAE(n_components=0), "n_components"),
        (MatrixVAE(patience=-1), "patience"),
        (MatrixVAE(validation_fraction=1), "validation_fraction"),
    ],
)
def test_wrong_arguments_are_named(estimator, match):
    with pytest.raises(ValueError, match=rf"{type(estimator).__name__}.*{match}"):
        estimator.fit(X, MATRICES if isinstance(estimator, SPDRegressor) else Y)
