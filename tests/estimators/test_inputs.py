"""Data frames as they come, in the regressors."""

import warnings

import numpy as np
import pandas as pd
import pytest

import mmlp
from mmlp.estimators import base
from mmlp.tables.encoder import ColumnsWarning, preserve_cells
from mmlp.tables.kinds import Categories, Dates, Numbers
from mmlp.tables.problems import ProblemsError

TINY = {"max_epochs": 2, "hidden_dims": (), "hidden_features": (4,), "n_models": 2}
rng = np.random.default_rng(0)
X = pd.DataFrame(
    {
        "a": rng.normal(size=60),
        "t": ["x", "y", "z"] * 20,
        "c": pd.date_range("2020-01-01", periods=60, freq="W"),
        "code": [1, 2, 3] * 20,
    }
)
Y = rng.normal(size=(60, 2))
GAP = X.assign(a=X.a.where(X.index != 5))


def regressor(**options):
    return mmlp.MultivariateRegressor(**TINY, random_state=0, **options)


@pytest.fixture(scope="module")
def fitted():
    return regressor(categories=["code"]).fit(GAP, Y)


def test_each_column_is_of_its_kind_and_stays_so_in_a_file(fitted, tmp_path):
    kinds = [type(kind) for kind in fitted.columns_.kinds_]
    assert kinds == [Numbers, Categories, Dates, Categories]
    assert fitted.n_features_in_ == 4
    assert fitted.input_.scale[fitted.columns_.indicator_mask].tolist() == [0.5] * 7
    fitted.save(tmp_path / "model")
    again = mmlp.estimators.load(tmp_path / "model")
    assert again.columns_.kinds_ == fitted.columns_.kinds_
    assert np.array_equal(again.predict(GAP), fitted.predict(GAP))
    as_text = GAP.assign(code=["1.0", "2", "3"] * 20, c=X.c.astype(str))
    assert np.array_equal(fitted.predict(as_text), fitted.predict(GAP))
    with pytest.warns(
        ColumnsWarning, match="column 't' has values that were not in training: 'w'"
    ):
        fitted.predict(GAP.replace({"t": {"x": "w"}}))
    with pytest.raises(
        ProblemsError, match=r"row 3 \(from 0\), column 'a': 'high' is not a numb"
    ):
        fitted.predict(GAP.astype({"a": object}).assign(a=[1, 2, 3, "high"] * 15))


def test_rows_without_a_target_are_left_out_and_counted():
    y = Y.copy()
    y[[3, 7], 0] = np.nan
    numbers, known = X[["a"]], ~np.isnan(y).any(axis=1)
    with pytest.warns(
        UserWarning, match=r"`MultivariateRegressor.fit`: 2 of 60 rows are left out"
    ):
        model = regressor().fit(numbers, y, sample_weight=np.arange(60.0))
    other = regressor().fit(
        numbers[known], y[known], sample_weight=np.arange(60.0)[known]
    )
    assert np.array_equal(model.predict(numbers), other.predict(numbers))
    for weight, rows in ((None, 50), (np.ones(67), 60)):
        with pytest.raises(ValueError, match="inconsistent numbers of samples"):
            regressor().fit(numbers, y[:rows], sample_weight=weight)
    with pytest.raises(ValueError, match="0 of 60 rows have all targets: too few"):
        regressor().fit(numbers, np.full(60, np.nan))


@pytest.mark.parametrize(
    ("options", "table", "y", "match"),
    [
        (
            {"missing": "refuse"},
            GAP,
            Y,
            r"row 5 \(from 0\), column 'a': the value is missing",
        ),
        (
            {"missing": "skip"},
            X,
            Y,
            r"`MultivariateRegressor\(missing=...\)` must be one of med",
        ),
        ({"categories": ["tt"]}, X, Y, "names the column 'tt', which X does not have"),
        ({"categories": "refuse"}, X, Y, "column 't': 'x' is text"),
        ({"dates": "refuse"}, X, Y, "is a date"),
        (
            {},
            X.set_axis(["a", "t", "a", "b"], axis=1),
            Y,
            "two columns called 'a'; rename one",
        ),
        ({}, X["a"], Y, "2-dimensional"),
        (
            {},
            X[["a"]].assign(a=np.nan),
            Y,
            r"no input has anything to learn from \(a: no values",
        ),
        ({}, X, ["1", "x"] * 30, "could not convert string"),
    ],
)
def test_what_cannot_be_used_is_refused_before_any_work(options, table, y, match):
    with pytest.raises(ValueError, match=match):
        regressor(**options).fit(table, y)


def test_dropped_rows_are_dropped_in_training_alone():
    numbers = GAP[["a"]]
    with pytest.warns(
        UserWarning, match="1 of 60 rows are left out: a value is missing"
    ):
        model = regressor(missing="drop").fit(numbers, Y)
    other = regressor().fit(numbers.drop(5), np.delete(Y, 5, 0))
    assert np.array_equal(model.predict(X[["a"]]), other.predict(X[["a"]]))
    with pytest.warns(
        ColumnsWarning, match="column 'a' has 1 missing cells, but had none"
    ):
        assert np.isfinite(model.predict(numbers)).all()


@pytest.mark.slow
def test_a_warm_start_needs_the_same_way_with_columns():
    warm = regressor(warm_start=True).fit(X[["a", "code"]], Y)
    for options in ({"missing": "refuse"}, {"categories": ["code"]}):
        warm.set_params(missing="impute", categories="auto").set_params(**options)
        with pytest.raises(
            ValueError, match="warm_start resumes with the `missing` and `categ"
        ):
            warm.fit(X[["a", "code"]], Y)


@pytest.mark.slow
def test_matrices_from_a_data_frame():
    matrices = np.eye(2) * (1 + X.code.to_numpy())[:, None, None]
    model = mmlp.SPDRegressor(
        max_epochs=2, hidden_dims=(4,), n_models=2, random_state=0
    )
    assert model.fit(GAP, matrices).predict(GAP).shape == (60, 2, 2)


@pytest.mark.parametrize(
    "as_table", [pd.DataFrame, lambda columns: pd.DataFrame(columns).to_numpy()]
)
def test_a_stray_word_is_refused_by_its_row_among_all_rows_given(as_table):
    """Rows without a target and rows of weight zero count, though they are not encoded."""
    cells = [4, 6, 8] * 20
    cells[30] = "unknown"
    table = as_table({"a": X.a.to_numpy(), "cylinders": np.array(cells, object)})
    y = Y.copy()
    y[[3, 7], 0] = np.nan
    weight = np.ones(60)
    weight[[0, 1, 45]] = 0
    with (
        pytest.warns(UserWarning, match="2 of 60 rows are left out"),
        pytest.raises(
            ProblemsError, match=r"row 30 \(from 0\), column .*'unknown' is not a numb"
        ),
    ):
        regressor().fit(table, y, sample_weight=weight)


def test_pieces_of_a_table_are_read_like_the_whole(fitted, monkeypatch):
    """One row shows that dates begin with the day; the pieces after it do not."""
    monkeypatch.setattr(base, "ROWS_PER_RESULT", 4)
    table = X.assign(
        c=["25/03/2021", *["05/03/2021"] * 59], a=[*X.a[:30], *[None] * 30]
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pieces = list(fitted.predict_results_in_chunks(table))
    assert len(pieces) == 15
    whole = fitted.predict_results(table)
    for name, values in whole.items():
        assert np.array_equal(np.concatenate([piece[name] for piece in pieces]), values)
    with pytest.raises(ProblemsError, match="may begin with the day or the month"):
        fitted.predict(table[4:8])


def test_pieces_of_a_table_repeat_no_warning(fitted, monkeypatch):
    monkeypatch.setattr(base, "ROWS_PER_RESULT", 4)
    table = X.assign(t=["x", "w"] * 30)
    with pytest.warns(ColumnsWarning, match="'w'") as warned:
        list(fitted.predict_results_in_chunks(table))
    assert len(warned) == 1


def test_long_codes_of_a_data_frame_stay_different_beside_floats():
    codes = [2**60, 2**60 + 1, 2**60 + 2] * 20
    table = pd.DataFrame({"a": X.a, "code": codes})
    assert preserve_cells(table).to_numpy()[:3, 1].tolist() == codes[:3]
    assert len(preserve_cells(table[:0])) == 0
    assert (
        preserve_cells(X[["a", "code"]]).dtypes.tolist()
        == X[["a", "code"]].dtypes.tolist()
    )
