"""Fit many random tables of two rows: `python tests/support/two_rows.py 200`.

The fast tests fit twenty of them (`tests/estimators/test_bounds.py`).
"""

import sys
import warnings

import numpy as np

from mmlp.estimators import MultivariateRegressor

SIZES = {"hidden_dims": (3,), "hidden_features": (4,), "n_models": 2, "max_epochs": 2}


def check_table(seed: int) -> None:
    """Fit a table of two rows and two targets, and ask for everything that is predicted."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((2, 2))
    y = rng.standard_normal((2, 2))
    model = MultivariateRegressor(**SIZES, random_state=0).fit(X, y)
    assert np.linalg.eigvalsh(model.predict_covariance(X)).min() > 0, seed
    assert np.isfinite(model.log_density(X, y)).all(), seed
    assert np.isfinite(model.predict_quantiles(X, [0.1, 0.9])).all(), seed
    assert np.isfinite(list(model.scores(X, y).values())).all(), seed


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    for number in range(count):
        check_table(number)
    print(f"{count} tables of two rows were fitted.")
