"""A regressor fitted to the text of a file predicts the same from the types of pandas."""

import numpy as np
import pandas as pd
import pytest

import mmlp
from mmlp.tables.problems import ProblemsError

rng = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {
        "flag": rng.random(40) < 0.4,
        "day": pd.date_range("2024-03-01", periods=40),
        "lag": pd.to_timedelta(rng.integers(0, 90, 40), "h"),
        "time": [pd.Timestamp(2024, 1, 1, i % 24, 30).time() for i in range(40)],
    }
)
TEXT = FRAME.astype(str)
Y = rng.normal(size=(40, 2)) + FRAME[["flag"]].to_numpy()


@pytest.fixture(scope="module")
def fitted():
    model = mmlp.MultivariateRegressor(
        max_epochs=2, hidden_dims=(), hidden_features=(4,), n_models=2, random_state=0
    )
    return model.fit(TEXT, Y)


@pytest.mark.slow
def test_text_and_types_of_pandas_predict_the_same(fitted):
    expected = fitted.predict(TEXT)
    for frame in (
        FRAME,
        FRAME.convert_dtypes(),
        FRAME.astype("category"),
        FRAME.astype(object),
    ):
        assert np.array_equal(fitted.predict(frame), expected)


def test_predict_refuses_what_fit_refuses(fitted):
    for column, cells, match in (
        ("day", "03/05/2024", "'03/05/2024' may begin with the day or the month"),
        (
            "day",
            FRAME.day.dt.tz_localize("Europe/Berlin"),
            "has a time zone, but this column has",
        ),
        ("lag", 3.5, r"'3\.5' is not a duration like those of training"),
    ):
        frame = TEXT.assign(**{column: cells})
        with pytest.raises(ProblemsError, match=match):
            fitted.predict(frame)
