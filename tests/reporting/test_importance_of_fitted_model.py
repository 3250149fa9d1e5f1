"""A model that was really fitted, to a data frame with words, dates and blanks."""

import numpy as np
import pandas as pd
import pytest
from oracle import Oracle, inputs

import mmlp
from mmlp.reporting.importance import log_score_function, permutation_importance
from mmlp.reporting.model_report import arrange_rows

pytestmark = pytest.mark.slow
WORDS = np.array(["calm", "storm", None], object)


def table(n, seed):
    """Inputs as of `Oracle`, with words for the spread, and two idle columns."""
    X = inputs(n, seed).astype(object)
    X[:, 1] = np.random.default_rng(seed).choice(WORDS, n)
    y = Oracle(text=True).draw(X, seed)
    frame = pd.DataFrame(
        {
            "level": X[:, 0].astype(float),
            "gust": pd.Series(X[:, 1], dtype="category"),
            "front": X[:, 2].astype(float),
            "day": pd.date_range("2020-01-01", periods=n),
            "idle": X[:, 3].astype(float),
        }
    )
    return frame, pd.DataFrame(y, columns=["u", "v"])


def test_inputs_that_matter_are_found_and_the_others_are_not(tmp_path):
    """Shuffling an idle input is expected to cost nothing on held-out rows.

    By chance it costs more than 3 standard errors for one of 400 seeds.
    """
    sizes = {
        "hidden_dims": (6,),
        "hidden_features": (24,),
        "n_models": 3,
        "max_epochs": 100,
    }
    model = mmlp.MultivariateRegressor(**sizes, random_state=0).fit(*table(1500, 0))
    X, y = table(600, 1)
    rows = arrange_rows(model, X, y, inputs=None, targets=None, describe_row=str)
    found = permutation_importance(log_score_function(model, rows), rows)
    found = {rows.inputs[one.column]: one for one in found}
    for name in ("level", "gust", "front"):
        assert found[name].means[0] > 4 * found[name].errors[0]
    for name in ("gust", "front"):
        assert found[name].means[1] > 4 * found[name].errors[1]
        assert found[name].means[1] > 5 * abs(found["idle"].means[1])
    for name in ("day", "idle"):
        assert abs(found[name].means[0]) < 0.05 * found["gust"].means[0]
        assert found[name].means[0] < 3 * found[name].errors[0]
    page = mmlp.report(model, X, y, tmp_path, progress=False).read_text()
    assert "5 inputs (level, gust, front, day, idle), 2 targets (u, v)" in page
    assert "by gust." in page
