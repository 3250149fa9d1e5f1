"""What a first fit compiles, and when."""

import threading

import jax
import numpy as np
import pytest
from sweeps import sweep

from mmlp.estimators import (
    MatrixVAE,
    MultivariateRegressor,
    SPDRegressor,
    background_compilation,
)

COMPILATION = "/jax/core/compile/backend_compile_duration"
rng = np.random.default_rng(0)
X = rng.standard_normal((70, 3))
SIZES = {"hidden_dims": (3,), "max_epochs": 2, "patience": None, "random_state": 0}
KINDS = {
    "regression": (
        MultivariateRegressor(**SIZES, hidden_features=(5,), n_models=2),
        X[:, :2],
    ),
    "spd": (
        SPDRegressor(**SIZES, hidden_features=(5,), n_models=2),
        np.eye(2) + X[:, :2, None] * X[:, None, :2],
    ),
    "vae": (MatrixVAE(1, **SIZES), None),
}


@pytest.fixture
def compilations():
    """The thread of each."""
    found = []

    def listen(event, duration_secs, **kwargs):
        if event == COMPILATION:
            found.append(threading.current_thread().name)

    jax.monitoring.register_event_duration_secs_listener(listen)
    yield found
    jax.monitoring.unregister_event_duration_listener(listen)


@sweep(("kind", "most"), [("spd", 20), ("regression", 12), ("vae", 8)])
def test_a_first_fit_compiles_few_programs_and_a_few_rows_more_none(
    compilations, kind, most
):
    estimator, Y = KINDS[kind]
    for n in (65, 70):
        compilations.clear()
        estimator.fit(X[:n], None if Y is None else Y[:n])
        assert 3 * (n == 65) <= len(compilations) <= (most if n == 65 else 0)


@pytest.mark.slow
@pytest.mark.parametrize("fails", [False, True])
def test_the_covariance_is_compiled_meanwhile_with_the_same_result(
    monkeypatch, compilations, fails
):
    model, y = KINDS["regression"]
    model.set_params(hidden_features=(6,))  # which no other test has compiled
    monkeypatch.setattr(background_compilation, "count_cores", lambda: 1)
    alone = model.fit(X, y).predict_covariance(X)
    monkeypatch.setattr(background_compilation, "count_cores", lambda: 2)
    if fails:
        monkeypatch.setattr(
            "mmlp.estimators.regression.compile_covariance", lambda *_, **__: 1 / 0
        )
    model.set_params(hidden_features=(7,) if not fails else (8,)).fit(X, y)
    others = [name for name in compilations if name == "mmlp compiles ahead"]
    assert len(others) == 0 if fails else len(others) >= 3
    again = model.set_params(hidden_features=(6,)).fit(X, y).predict_covariance(X)
    np.testing.assert_array_equal(again, alone)
