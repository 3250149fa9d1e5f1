"""`TableEncoder` as a transformer of scikit-learn."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import mmlp
from mmlp.tables.encoder import ColumnsWarning, TableEncoder
from mmlp.tables.problems import ProblemsError

N = 30
FRAME = pd.DataFrame(
    {
        "height": [None, *np.linspace(1, 2, N - 1)],
        "station": ["north", "south", "west"] * (N // 3),
        "day": pd.date_range("2020-01-01", periods=N, freq="30D"),
        "code": [1, 2, 3] * (N // 3),
    }
)


@parametrize_with_checks([TableEncoder(), TableEncoder(dates="ignore")])
def test_the_rules_of_scikit_learn(estimator, check):
    check(estimator)


def test_it_is_one_name_in_three_places():
    assert mmlp.TableEncoder is mmlp.tables.TableEncoder is TableEncoder


def test_columns_of_a_data_frame_and_their_names():
    encoder = TableEncoder(categories=["code"]).fit(FRAME)
    assert encoder.n_features_in_ == 4
    assert encoder.feature_names_in_.tolist() == list(FRAME)
    names = encoder.get_feature_names_out().tolist()
    assert names == [
        "height",
        "day",
        "day_season_sin",
        "day_season_cos",
        "missingindicator_height",
        "station_north",
        "station_south",
        "station_west",
        "code_1",
        "code_2",
        "code_3",
    ]
    numbers = encoder.transform(FRAME)
    assert numbers.shape == (N, len(names))
    assert numbers.dtype == np.float64
    assert numbers[0, 0] == FRAME.height.median()
    assert numbers[:, 4].tolist() == [1, *[0] * (N - 1)]
    assert np.array_equal(numbers[:, 1], 30.0 * np.arange(N))
    assert np.array_equal(numbers[:, 5:8], np.tile(np.eye(3), (N // 3, 1)))


def test_data_frames_come_out_on_request():
    encoder = TableEncoder().set_output(transform="pandas")
    encoded = encoder.fit_transform(FRAME)
    assert encoded.columns.tolist() == encoder.get_feature_names_out().tolist()
    assert encoded.index.equals(FRAME.index)


def test_clones_and_pickles_are_equal():
    encoder = TableEncoder(dates="ignore").fit(FRAME)
    numbers = encoder.transform(FRAME)
    again = pickle.loads(pickle.dumps(encoder))
    assert np.array_equal(again.transform(FRAME), numbers)
    fresh = clone(encoder)
    assert fresh.get_params() == encoder.get_params()
    assert not hasattr(fresh, "kinds_")


def test_it_is_the_first_step_of_a_pipeline():
    y = FRAME.code + 0.1 * np.arange(N)
    model = make_pipeline(TableEncoder(), Ridge(1e-6)).fit(FRAME, y)
    assert model.score(FRAME, y) > 0.99
    with pytest.warns(ColumnsWarning, match="'east'"):
        model.predict(FRAME.replace({"station": {"north": "east"}}))


def test_median_and_impute_are_one():
    numbers = [
        TableEncoder(missing=name).fit_transform(FRAME) for name in ("median", "impute")
    ]
    assert np.array_equal(*numbers)


def test_incomplete_rows_are_not_learnt_from_but_transformed():
    encoder = TableEncoder(missing="drop")
    with pytest.warns(ColumnsWarning, match="1 missing cells, but had none"):
        numbers = encoder.fit_transform(FRAME[["height"]])
    assert numbers.shape == (N, 1)
    assert encoder.kinds_[0].missing == 0


def test_problems_are_facts():
    table = FRAME.assign(height=["high", *np.linspace(1, 2, N - 1)])
    with pytest.raises(ProblemsError) as info:
        TableEncoder().fit(table)
    (problem,) = info.value.problems
    assert (problem.kind, problem.column) == ("not a number", "height")
    assert (problem.row, problem.value) == (0, "high")


@pytest.mark.parametrize("argument", ["missing", "categories", "dates"])
def test_unknown_arguments_are_refused(argument):
    with pytest.raises(ValueError, match=rf"TableEncoder\({argument}=...\)"):
        TableEncoder(**{argument: "perhaps"}).fit(FRAME)
