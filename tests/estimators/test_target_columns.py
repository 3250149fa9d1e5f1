"""Targets that are constant, and the names of targets."""

import numpy as np
import pandas
import pytest
from sklearn.base import clone
from sklearn.metrics import r2_score
from small_estimators import REGRESSION, X, Y

from mmlp import estimators, metrics
from mmlp.estimators import MultivariateRegressor
from mmlp.estimators.target_columns import ConstantTargetWarning, is_constant
from mmlp.reporting import report
from mmlp.serialization import files

CONSTANT = 0.3
ROUNDED = np.where(np.arange(len(Y)) % 3, 0.3, 0.1 + 0.2)
WITH_CONSTANT = np.column_stack([Y[:, 0], ROUNDED, Y[:, 1]])
FRAME = pandas.DataFrame(WITH_CONSTANT, columns=["u", "k", "v"])
VARYING = [0, 2]
LINEAR = {**REGRESSION, "hidden_dims": (), "hidden_features": (), "max_epochs": 3}


@pytest.fixture(scope="module")
def constant():
    with pytest.warns(
        ConstantTargetWarning, match=r"target 'k' is constant, 0\.3, and is kept"
    ):
        return MultivariateRegressor(**REGRESSION).fit(X, FRAME)


def test_a_constant_target_changes_nothing_for_the_others(constant, regressor):
    mean, std = constant.predict(X, return_std=True)
    V = constant.predict_covariance(X)
    np.testing.assert_array_equal(mean[:, VARYING], regressor.predict(X))
    np.testing.assert_array_equal(mean[:, 1], CONSTANT)
    np.testing.assert_array_equal(std[:, 1], 0)
    np.testing.assert_array_equal(V[:, 1], 0)
    np.testing.assert_array_equal(V[:, :, 1], 0)
    np.testing.assert_array_equal(
        V[np.ix_(range(60), VARYING, VARYING)],
        np.asarray(regressor.predict_covariance(X)),
    )
    np.testing.assert_array_equal(
        constant.predict_covariance(X, columns=[1, 2])[:, 0], 0
    )
    interval = constant.predict_interval(X)
    np.testing.assert_array_equal(interval[:, 1], CONSTANT)
    np.testing.assert_array_equal(interval[:, VARYING], regressor.predict_interval(X))
    results = constant.predict_results(X, text=True)
    np.testing.assert_array_equal(results["mean"], mean)
    np.testing.assert_array_equal(results["covariance"], V)


def test_densities_and_scores_are_those_of_the_other_targets(constant, regressor):
    np.testing.assert_array_equal(
        constant.log_density(X, WITH_CONSTANT), regressor.log_density(X, Y)
    )
    assert constant.predict_distribution(X).dim == 2
    assert constant.score(X, WITH_CONSTANT) == regressor.score(X, Y)
    assert constant.scores(X, WITH_CONSTANT) == regressor.scores(X, Y)
    for scorer in (
        metrics.log_score_scorer,
        metrics.energy_score_scorer,
        metrics.coverage_scorer,
    ):
        assert scorer(constant, X, FRAME) == scorer(regressor, X, Y)
    np.testing.assert_array_equal(constant.constant_targets_, [1])
    np.testing.assert_array_equal(constant.varying_targets_, VARYING)
    p = constant.predict_distribution(X)
    with pytest.raises(
        ValueError, match=r"leaves out constant targets.*y\[:, model\.varying"
    ):
        metrics.energy_score(p, WITH_CONSTANT)


def test_another_value_than_the_constant_is_warned_of(constant):
    other = WITH_CONSTANT.copy()
    other[[3, 5], 1] = 7.0
    match = r"2 of 60 rows differ from the constant of training in target 'k'.*density .* is zero"
    with pytest.warns(ConstantTargetWarning, match=match):
        values = constant.log_density(X, other)
    np.testing.assert_array_equal(values, constant.log_density(X, WITH_CONSTANT))


def test_a_constant_target_is_kept_in_files(constant, tmp_path):
    constant.save(tmp_path / "model")
    again = estimators.load(tmp_path / "model")
    np.testing.assert_array_equal(
        again.predict_covariance(X), constant.predict_covariance(X)
    )
    np.testing.assert_array_equal(again.predict(X), constant.predict(X))
    assert list(again.target_names_) == ["u", "k", "v"]
    with pytest.raises(ValueError, match="must be in the same order"):
        again.log_score(X, FRAME[["v", "k", "u"]])


@pytest.mark.parametrize(
    ("name", "value", "match"),
    [
        (
            "constant_targets_",
            {"array": [3]},
            "constant_targets_ are not some of 3 columns",
        ),
        (
            "constant_targets_",
            {"array": [0.5]},
            "constant_targets_ are not some of 3 columns",
        ),
        ("constant_targets_", 1, "are not arrays"),
        (
            "constant_values_",
            {"array": [1.0, 2.0]},
            "constant_values_ are not 1 finite",
        ),
        (
            "constant_values_",
            {"array": [float("nan")]},
            "constant_values_ are not 1 finite",
        ),
    ],
)
def test_constant_targets_of_a_damaged_file_are_refused(
    name, value, match, constant, tmp_path
):
    constant.save(tmp_path / "model")
    arrays, header = files.read(tmp_path / "model")
    header["fitted"][name] = value
    files.write(tmp_path / "model", arrays, header)
    with pytest.raises(ValueError, match=match):
        estimators.load(tmp_path / "model")


def test_a_file_from_before_constant_targets_has_none(regressor, tmp_path):
    regressor.save(tmp_path / "model")
    arrays, header = files.read(tmp_path / "model")
    del header["fitted"]["constant_targets_"], header["fitted"]["constant_values_"]
    files.write(tmp_path / "model", arrays, header)
    again = estimators.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict(X), regressor.predict(X))


@pytest.mark.slow
def test_a_report_leaves_out_constant_targets(constant, tmp_path):
    page = report(constant, X, FRAME, tmp_path, progress=False).read_text()
    assert "left out of this page: k." in page
    with pytest.raises(ValueError, match=r"`report\(y=...\)`.*same order"):
        report(constant, X, FRAME[["v", "k", "u"]], tmp_path, progress=False)


@pytest.mark.slow
def test_a_longer_fit_keeps_which_targets_are_constant(constant):
    model = clone(constant).set_params(**LINEAR)
    with pytest.warns(ConstantTargetWarning):
        model.fit(X, FRAME)
    model.set_params(warm_start=True).fit(X, FRAME)
    np.testing.assert_array_equal(model.constant_targets_, [1])
    with pytest.raises(
        ValueError, match="y is constant now in target 'v', and varied in the first"
    ):
        model.fit(X, FRAME.assign(v=1.0))
    with pytest.raises(
        ValueError, match="differs now from the constant of the first fit in target"
    ):
        model.fit(X, FRAME.assign(k=FRAME["u"]))
    with pytest.raises(ValueError, match="must be in the same order"):
        model.fit(X, FRAME[["v", "k", "u"]])


@pytest.mark.slow
def test_low_rank_covariances_leave_constant_targets_out():
    sizes = {**LINEAR, "covariance": "low_rank"}
    with pytest.warns(ConstantTargetWarning, match=r"target 1 \(from 0\)"):
        model = MultivariateRegressor(**sizes).fit(X, WITH_CONSTANT)
    alone = MultivariateRegressor(**sizes).fit(X, Y)
    V = model.predict_covariance(X)
    np.testing.assert_array_equal(V[:, 1], 0)
    np.testing.assert_array_equal(
        V[:, VARYING][:, :, VARYING], alone.predict_covariance(X)
    )
    assert {name: x.shape for name, x in model.predict_results(X).items()} == {
        "mean": (60, 3),
        "std": (60, 3),
        "scale": (60, 3),
        "loadings": (60, alone.rank_, 3),
    }


def test_a_target_is_constant_among_the_rows_that_count():
    weight = np.ones(60)
    weight[0] = 0
    y = WITH_CONSTANT.copy()
    y[0, 1] = 1e3
    with pytest.warns(ConstantTargetWarning, match="is constant"):
        model = MultivariateRegressor(**LINEAR).fit(X, y, weight)
    np.testing.assert_array_equal(model.predict(X)[:, 1], CONSTANT)


@pytest.mark.parametrize(
    ("y", "match"),
    [
        (np.full(60, 2.5), "the target is constant over the 60 rows"),
        (ROUNDED[:, None], "the target is constant over the 60 rows"),
        (np.ones((60, 3)), "all 3 targets are constant over the 60 rows"),
    ],
)
def test_nothing_but_constant_targets_is_refused(y, match, tmp_path):
    with pytest.raises(ValueError, match=match):
        MultivariateRegressor(**LINEAR).fit(X, y, checkpoint=tmp_path / "checkpoint")
    assert not (tmp_path / "checkpoint").exists()


def test_constant_means_up_to_the_rounding_of_float64():
    rng = np.random.default_rng(0)
    noise = rng.integers(-5, 6, (100, 1))
    for size in (1e-300, 1e-9, 1.0, 1e6, 1e15, 1e300):
        rounded = size + noise * np.spacing(size)
        assert is_constant(rounded).all(), size
        assert not is_constant(size + 100 * noise * np.spacing(size)).any(), size
    assert is_constant(np.zeros((2, 1))).all()
    assert is_constant(np.full((5, 1), np.float32(0.1), np.float32).astype(float)).all()
    assert not is_constant(noise * 1e-200).any()


@pytest.mark.parametrize("size", [1e-9, 1e9])
def test_a_target_that_varies_little_beside_its_mean_is_learnt(size, regressor):
    """scikit-learn's scaler would take it for constant, and give it scale one."""
    spacing = np.spacing(size)
    y = size + np.round(Y * 1e4) * spacing
    model = MultivariateRegressor(**REGRESSION).fit(X, y)
    expected = regressor.predict_covariance(X) * (1e4 * spacing) ** 2
    np.testing.assert_allclose(model.predict_covariance(X), expected, rtol=0.05)


REORDERED = FRAME[["v", "k", "u"]]
RENAMED = FRAME.rename(columns={"u": "w"})


@pytest.mark.parametrize(
    "method", ["log_density", "log_score", "score", "scores", "scored_targets"]
)
def test_targets_in_another_order_or_of_other_names_are_refused(method, constant):
    call = getattr(constant, method)
    with pytest.raises(
        ValueError, match="same order as they were in `fit`: 'u', 'k', 'v'; got 'v'"
    ):
        call(X, REORDERED)
    match = r"unseen at fit time: 'w'\. Names seen at fit time, yet now missing: 'u'"
    with pytest.raises(ValueError, match=match):
        call(X, RENAMED)


@pytest.mark.parametrize(
    "scorer",
    [metrics.log_score_scorer, metrics.energy_score_scorer, metrics.coverage_scorer],
)
def test_scorers_check_the_names_of_targets(scorer, constant):
    with pytest.raises(ValueError, match="must be in the same order"):
        scorer(constant, X, REORDERED)


def test_rows_of_validation_have_the_targets_of_training():
    frame = FRAME[["u", "v"]]
    with pytest.raises(
        ValueError, match=r"fit\(y_val=...\)`: the target names .* same order"
    ):
        MultivariateRegressor(**LINEAR).fit(
            X, frame, X_val=X[:20], y_val=frame[["v", "u"]][:20]
        )


@pytest.mark.slow
def test_arrays_and_series_have_no_names_to_check(constant):
    assert constant.log_score(X, WITH_CONSTANT) == constant.log_score(X, FRAME)
    model = MultivariateRegressor(**LINEAR).fit(X, FRAME["u"])
    assert not hasattr(model, "target_names_")
    assert model.score(X, FRAME["u"].rename("other")) == model.score(X, Y[:, 0])
    numbered = pandas.DataFrame(WITH_CONSTANT)
    assert constant.score(X, numbered) == constant.score(X, FRAME)


DATES = pandas.Series(pandas.date_range("2020-01-01", periods=len(X)))


@pytest.mark.parametrize(
    "y",
    [
        DATES,
        DATES.where(DATES.index > 0),  # NumPy makes -9e18 of the missing date
        DATES.dt.tz_localize("UTC"),
        (DATES - DATES[0]).to_numpy(),
        pandas.DataFrame({"u": Y[:, 0], "day": DATES}),
    ],
)
def test_dates_and_durations_are_no_targets(y, regressor):
    with pytest.raises(
        ValueError, match=r"fit\(y=\.\.\.\)` holds dates or durations.*count them"
    ):
        MultivariateRegressor(**REGRESSION).fit(X, y)
    with pytest.raises(
        ValueError, match=r"log_density\(y=\.\.\.\)` holds dates or durations"
    ):
        regressor.log_density(X, y)


def test_a_missing_target_of_any_type_of_pandas_leaves_its_row_out():
    y = pandas.DataFrame(
        {"u": pandas.array([None, *Y[1:, 0]], "Float64"), "v": Y[:, 1]}
    )
    with pytest.warns(
        UserWarning, match="1 of 60 rows are left out: a target is missing"
    ):
        nullable = MultivariateRegressor(**LINEAR).fit(X, y)
    with pytest.warns(
        UserWarning, match="1 of 60 rows are left out: a target is missing"
    ):
        plain = MultivariateRegressor(**LINEAR).fit(X, y.astype(float))
    np.testing.assert_array_equal(nullable.predict(X), plain.predict(X))


def test_two_targets_of_one_name_are_refused():
    y = pandas.DataFrame(Y, columns=["u", "u"])
    with pytest.raises(
        ValueError, match=r"fit\(y=\.\.\.\)` has two columns called 'u'; rename one"
    ):
        MultivariateRegressor(**REGRESSION).fit(X, y)


@pytest.mark.parametrize("labels", [[0, 1], [("a", "u"), ("a", "v")], [2020, "v"]])
def test_the_order_of_labels_that_are_not_text_is_checked(labels):
    y = pandas.DataFrame(Y)
    y.columns = pandas.Index(labels)
    model = MultivariateRegressor(**LINEAR).fit(X, y)
    swapped = y.iloc[:, ::-1]
    assert (
        model.score(X, y) == model.score(X, Y) == model.score(X, y.rename(columns=str))
    )
    with pytest.raises(
        ValueError, match=r"score\(y=.*in the same order as they were in `fit`"
    ):
        model.score(X, swapped)
    with pytest.raises(
        ValueError, match=r"fit\(y_val=.*in the same order as they were in `fit`"
    ):
        MultivariateRegressor(**LINEAR).fit(X, y, X_val=X, y_val=swapped)


def test_r_squared_of_equal_rows_does_not_come_from_rounding(regressor, spd):
    """The mean of 30 times 0.1 is not 0.1; so R squared was -1e31, and 0 for 40 rows."""
    for n in (30, 40, 50):
        assert regressor.score(X[:n], np.full((n, 2), 0.1)) == 0
        assert spd.score(X[:n], np.full((n, 1, 1), 0.1) * np.eye(2)) == 0
    assert regressor.score(X, Y) == pytest.approx(
        r2_score(Y, regressor.predict(X)), abs=1e-12
    )
