"""Cells absurdly far out are named, or refused before any work; heavy tails are left alone."""

import os
from pathlib import Path

import numpy as np
import pandas
import pytest
from sweeps import sweep

from mmlp import tables
from mmlp.estimators import MatrixVAE, MultivariateRegressor, SPDRegressor
from mmlp.estimators.outliers import FarCellWarning, find_far_cells

RNG = np.random.default_rng(0)


def cells(values):
    return [
        (cell.row, cell.column) for cell in find_far_cells(np.asarray(values, float))
    ]


SANE = {
    "normal": lambda rng, shape: rng.normal(10, 1, shape),
    "Student t with 2 degrees of freedom": lambda rng, shape: rng.standard_t(2, shape),
    "Cauchy": lambda rng, shape: rng.standard_cauchy(shape),
    "lognormal with sigma 2": lambda rng, shape: rng.lognormal(0, 2, shape),
    "sparse": lambda rng, shape: (
        rng.lognormal(0, 2, shape) * (rng.uniform(size=shape) < 0.03)
    ),
    "indicator": lambda rng, shape: rng.uniform(size=shape) < 0.002,
    "counts": lambda rng, shape: rng.poisson(0.05, shape),
    "constant": lambda rng, shape: np.full(shape, 7.0),
    "constant but for one": lambda rng, shape: np.where(
        np.arange(shape[0])[:, None] == 5, 1e9, np.zeros(shape)
    ),
    "a part at another place": lambda rng, shape: (
        rng.normal(size=shape) + 1e5 * (rng.uniform(size=shape) < 0.05)
    ),
}


@pytest.mark.parametrize("n", [2, 12, 400, 10_000])
@pytest.mark.parametrize("name", SANE)
def test_no_alarm_in_sane_columns(name, n):
    """20 columns of seed 0. In the Cauchy columns the chance of an alarm is 1e-5 for each."""
    assert cells(SANE[name](np.random.default_rng(0), (n, 20))) == []


@pytest.mark.skipif(
    "MMLP_DATA" not in os.environ,
    reason="needs the tables: set MMLP_DATA to their folder",
)
@pytest.mark.parametrize("name", ["enb", "jura"])
def test_no_alarm_in_tables_of_the_benchmarks(name):
    table = tables.read(Path(os.environ["MMLP_DATA"], f"{name}.arff"))
    assert cells(table.select_columns(table.names)) == []


@pytest.mark.parametrize("name", ["normal", "indicator", "counts"])
def test_one_bad_cell_is_named(name):
    values = np.asarray(SANE[name](np.random.default_rng(0), (10_000, 3)), float)
    values[17, 1] = 1e6
    assert cells(values) == [(17, 1)]


def test_some_bad_cells_are_named_the_farthest_first():
    values = RNG.normal(10, 1, (10_000, 3))
    values[[17, 9_000, 30], [1, 1, 2]] = 1e6, -1e7, 1e8
    assert cells(values) == [(30, 2), (9_000, 1), (17, 1)]


def test_a_cell_is_named_whatever_the_units():
    values = RNG.normal(10, 1, (400, 2))
    values[17, 1] = 1e4
    for unit in (1e-300, 1e-3, 1e303):
        assert cells(values * unit) == [(17, 1)]


class TrainingError(Exception):
    pass


def fit(estimator, X, y, monkeypatch, **options):
    """`fit` up to its training."""

    def stop(*_, **__):
        raise TrainingError

    monkeypatch.setattr("mmlp.estimators.cross_fitting.fit_many", stop)
    with pytest.raises(TrainingError):
        estimator.fit(X, y, **options)


ESTIMATORS = [MultivariateRegressor(), SPDRegressor(), MatrixVAE()]
each = pytest.mark.parametrize(
    "estimator", ESTIMATORS, ids=lambda estimator: type(estimator).__name__
)


def data(estimator):
    rng = np.random.default_rng(0)
    X, y = rng.normal(10, 1, (400, 3)), rng.normal(10, 1, (400, 2))
    return X, y[:, :, None] * np.eye(2) if isinstance(estimator, SPDRegressor) else y


@sweep("estimator", ESTIMATORS, ids=lambda estimator: type(estimator).__name__)
def test_a_bad_input_is_named_at_fit(estimator, monkeypatch):
    X, y = data(estimator)
    X[17, 1] = 1e6
    name = type(estimator).__name__
    text = rf"{name}\.fit`: X in row 17, column 1 \(from 0\) is 1e\+06, 2\.6e\+05 times .*remove"
    with pytest.warns(FarCellWarning, match=text) as caught:
        fit(estimator, X, y, monkeypatch)
    assert len(caught) == 1
    assert caught[0].filename == __file__, "at the call of `fit`"
    with pytest.warns(
        FarCellWarning, match=r"X in row 17 \(from 0\), column 'b' is 1e\+06"
    ):
        fit(estimator, pandas.DataFrame(X, columns=["a", "b", "c"]), y, monkeypatch)
    fit(estimator, X, y, monkeypatch, sample_weight=np.arange(400) != 17)


def test_rows_keep_their_numbers_when_others_have_no_weight(monkeypatch):
    X, y = data(ESTIMATORS[0])
    X[17, 1] = 1e6
    with pytest.warns(FarCellWarning, match="X in row 17,"):
        fit(ESTIMATORS[0], X, y, monkeypatch, sample_weight=np.arange(400) >= 10)


def test_a_bad_target_is_named_at_fit(monkeypatch):
    X, y = data(ESTIMATORS[0])
    y[3, 1] = -1e6
    with pytest.warns(
        FarCellWarning, match=r"y in row 3, column 1 \(from 0\) is -1e\+06"
    ):
        fit(ESTIMATORS[0], X, y, monkeypatch)
    with pytest.warns(
        FarCellWarning, match=r"y in row 3 \(from 0\), column 'v' is -1e\+06"
    ):
        fit(ESTIMATORS[0], X, pandas.DataFrame(y, columns=["u", "v"]), monkeypatch)
    for name, place in (
        (None, r"row 3, column 0 \(from 0\)"),
        (0, r"row 3 \(from 0\), column '0'"),
    ):
        with pytest.warns(FarCellWarning, match=f"y in {place} is -1e"):
            fit(ESTIMATORS[0], X, pandas.Series(y[:, 1], name=name), monkeypatch)
    X, Y = data(ESTIMATORS[1])
    Y[3, 1, 1] = 1e6
    with pytest.warns(
        FarCellWarning,
        match=r"the diagonal of y in row 3, column 1 \(from 0\) is 1e\+06",
    ):
        fit(ESTIMATORS[1], X, Y, monkeypatch)


def test_many_bad_cells_are_one_warning(monkeypatch):
    X, y = RNG.normal(size=(2000, 3)), RNG.normal(size=(2000, 2))
    X[[1, 2, 3, 4], [0, 1, 2, 0]], y[7, 0] = [1e6, 1e7, 1e8, 1e9], 1e10
    with pytest.warns(
        FarCellWarning,
        match=r"fit`: y in row 7, .*; X in row 4, .*; X in row 3, .*; and 2 more",
    ) as caught:
        fit(ESTIMATORS[0], X, y, monkeypatch)
    assert len(caught) == 1


@each
@pytest.mark.parametrize(
    ("value", "match"),
    [
        (
            1e30,
            r"X in row 17, column 1 \(from 0\) is 1e\+30, .* square overflows in float32; "
            "correct it, or remove the row",
        ),
        (
            1e300,
            r"X in row 17, column 1 \(from 0\) is 1e\+300, whose square overflows; correct it",
        ),
    ],
)
def test_what_training_cannot_bear_is_refused_before_any_work(
    estimator, value, match, monkeypatch
):
    X, y = data(estimator)
    X[17, 1] = value
    monkeypatch.setattr("mmlp.estimators.cross_fitting.fit_many", pytest.fail)
    with pytest.raises(
        ValueError, match=rf"`{type(estimator).__name__}\.fit`: {match}"
    ):
        estimator.fit(X, y)


def test_a_target_that_training_cannot_bear_is_refused_too():
    X, y = data(ESTIMATORS[0])
    y[17, 0] = 1e300
    with pytest.raises(
        ValueError,
        match=r"y in row 17, column 0 \(from 0\) is 1e\+300, whose square overflows",
    ):
        MultivariateRegressor().fit(X, y)


def test_a_cell_that_is_large_for_its_column_only_is_not_refused(monkeypatch):
    """The column is learnt in units that include the cell."""
    X, y = data(ESTIMATORS[0])
    X[:, 1] *= 1e-21
    X[3, 1] = 1.0
    with pytest.warns(FarCellWarning, match=r"X in row 3, column 1 \(from 0\) is 1, "):
        fit(ESTIMATORS[0], X, y, monkeypatch)


def test_one_name_for_several_targets_is_no_name_of_a_column(monkeypatch):
    class Named(np.ndarray):
        name = "y"

    X, y = data(ESTIMATORS[0])
    y[3, 1] = -1e6
    with pytest.warns(FarCellWarning, match=r"y in row 3, column 1 \(from 0\) is -1e"):
        fit(ESTIMATORS[0], X, y.view(Named), monkeypatch)
