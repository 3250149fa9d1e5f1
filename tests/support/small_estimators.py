"""A small table, and sizes of networks for it: one set for almost all tests of the estimators.

Each new one is compiled anew.
"""

import numpy as np

SMALL = {"hidden_dims": (4,), "max_epochs": 30, "random_state": 0}
# a Gaussian compiles faster
REGRESSION = {**SMALL, "family": "gaussian", "hidden_features": (8,), "n_models": 2}
SPD = {**SMALL, "n_models": 2}
DENSITY = {**SMALL, "n_components": 1, "n_samples": 10, "max_epochs": 5}


def rows(n=60, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    T = np.array([[1.0, 0.5], [0.0, 0.3]]) * np.exp(X[:, 1] / 2)[:, None, None]
    y = X[:, :2] * 3 + 5 + np.einsum("nij,ni->nj", T, rng.standard_normal((n, 2)))
    return X, y, 20 * T.mT @ T


X, Y, MATRICES = rows()


def outputs(estimator, X=X):
    names = ("predict", "predict_covariance", "transform", "score_samples")
    return {
        name: getattr(estimator, name)(X) for name in names if hasattr(estimator, name)
    }
