"""`warm_start` goes on from what was fitted, or says why not; own rows tell when to stop."""

import copy

import jax
import numpy as np
import pytest
from sklearn.base import clone
from small_estimators import DENSITY, MATRICES, REGRESSION, SPD, X, Y, rows
from sweeps import sweep

from mmlp import estimators
from mmlp.estimators import (
    MatrixVAE,
    MultivariateRegressor,
    SPDRegressor,
    cross_fitting,
    mean,
)
from mmlp.training import FitResult

X_VAL, Y_VAL, MATRICES_VAL = rows(20, seed=1)
FITS = {"regressor": (X, Y), "spd": (X, MATRICES), "density": (X,)}
VALIDATION = {
    "regressor": {"X_val": X_VAL, "y_val": Y_VAL},
    "spd": {"X_val": X_VAL, "y_val": MATRICES_VAL},
    "density": {"X_val": X_VAL},
}


@pytest.fixture
def seen(monkeypatch, regressor, spd, density):
    """What `fit_many` is given after these were fitted; nothing is trained."""
    calls = []

    def no_training(models, *_, validation, keys, **__):
        calls.append((models, validation))
        losses = np.zeros((3, len(keys)))
        return FitResult(models, {"loss": losses, "validation": losses})

    monkeypatch.setattr(cross_fitting, "fit_many", no_training)
    return calls


def again(fitted, **arguments):
    return copy.deepcopy(fitted).set_params(warm_start=True, **arguments)


@sweep("name", FITS)
def test_a_warm_start_goes_on_from_the_networks_in_their_units(name, seen, request):
    fitted = request.getfixturevalue(name)
    model = again(fitted)
    data = (X * 3 + 1, *FITS[name][1:])
    model.fit(*data)
    np.testing.assert_array_equal(model.input_.mean, fitted.input_.mean)
    stacks = [fitted.models_]
    if name == "regressor":
        stacks = [fitted.models_["mean"], fitted.models_["covariance"]]
    for (models, _), stack in zip(seen, stacks, strict=True):
        leaves = [jax.tree.leaves(tree) for tree in (models, stack)]
        assert all(np.array_equal(a, b) for a, b in zip(*leaves, strict=True))
    assert model.n_iter_ == 3


def test_it_is_trained_further(regressor):
    first = regressor.history_["loss"][0].mean()
    model = again(regressor, max_epochs=3, learning_rate=1e-3, patience=None).fit(X, Y)
    assert model.history_["loss"][0].mean() < first / 2
    assert model.n_iter_ == 3
    assert np.isfinite(model.log_score(X, Y))
    np.testing.assert_array_equal(model.shape_, regressor.shape_)
    cold = clone(model).fit(X, Y)
    assert cold.history_["loss"][0].mean() > first / 2, "of a clone nothing is known"


@pytest.mark.parametrize(
    ("name", "arguments", "text"),
    [
        (
            "regressor",
            {"hidden_features": (9,)},
            r"weights .* of shape \(4, 9, 3\), not \(4, 8",
        ),
        ("regressor", {"hidden_dims": (5,)}, "weights .* of shape"),
        ("regressor", {"family": "power_exponential"}, "other kinds of networks"),
        ("regressor", {"n_models": 3}, "weights .* of shape"),
        ("regressor", {"covariance": "low_rank"}, "other kinds of networks"),
        ("spd", {"hidden_dims": (3,)}, "weights .* of shape"),
        ("spd", {"network": "cholesky"}, "other kinds of networks"),
        ("density", {"n_components": 2}, "kinds of networks|of shape"),
        (
            "regressor",
            {"random_state": None},
            "only if `random_state` is a whole number",
        ),
        ("spd", {"warm_start": "yes"}, "warm_start=...)` must be True or False"),
    ],
)
def test_other_networks_are_refused_before_any_work(
    name, arguments, text, seen, request
):
    model = again(request.getfixturevalue(name)).set_params(**arguments)
    with pytest.raises(ValueError, match=text.replace("...)`", r"\.\.\.\)`")):
        model.fit(*FITS[name])
    assert not seen


def test_other_columns_are_refused(regressor, seen):
    with pytest.raises(ValueError, match="X has 2 features"):
        again(regressor).fit(X[:, :2], Y)
    with pytest.raises(
        ValueError, match="resumes with 2 targets, got y with 1 columns"
    ):
        again(regressor).fit(X, Y[:, :1])
    assert not seen


def test_a_model_of_a_file_goes_on_too(regressor, seen, tmp_path):
    regressor.save(tmp_path / "model")
    model = estimators.load(tmp_path / "model").set_params(warm_start=True).fit(X, Y)
    np.testing.assert_array_equal(model.predict(X), regressor.predict(X))


@pytest.mark.parametrize("name", FITS)
def test_own_rows_judge_in_place_of_folds(name, seen, request):
    model = clone(request.getfixturevalue(name))
    model.fit(*FITS[name], **VALIDATION[name])
    scaled = model.input_.forward(X_VAL)
    for _, (data, weight) in seen:
        np.testing.assert_allclose(data[0][0][:20], scaled, rtol=1e-5)
        assert np.all(weight[:, :20] == weight[0, 0])
        assert not weight[:, 20:].any()
    np.testing.assert_allclose(model.input_.mean, X.mean(axis=0))


def test_those_of_many_rows_judge_each_stage(seen, monkeypatch):
    monkeypatch.setattr(mean, "MAX_ROWS_FOR_GAUSSIAN_PROCESS", 10)
    MultivariateRegressor(**REGRESSION).fit(X, Y, X_val=X_VAL, y_val=Y_VAL)
    assert len(seen) == 4
    assert all(len(np.unique(weight[0])) == 2 for _, (_, weight) in seen)


def test_training_stops_by_own_rows():
    """Rows of another law: each epoch makes them worse, and the first weights are kept."""
    options = REGRESSION | {"max_epochs": 60, "patience": 5}
    wrong = {"X_val": X_VAL, "y_val": -50 * Y_VAL}
    model = MultivariateRegressor(**options).fit(X, Y, **wrong)
    alike = MultivariateRegressor(**options).fit(X, Y, X_val=X_VAL, y_val=Y_VAL)
    assert len(model.history_["loss"]) < len(alike.history_["loss"])
    assert alike.score(X_VAL, Y_VAL) > 0.8


def test_wrong_rows_of_validation_are_named(seen):
    fits: list = [
        (
            MultivariateRegressor(**REGRESSION),
            Y,
            {"X_val": X_VAL},
            r"fit\(X_val=...\)` needs y_val",
        ),
        (
            MultivariateRegressor(**REGRESSION),
            Y,
            {"y_val": Y_VAL},
            r"fit\(y_val=...\)` needs X_val",
        ),
        (
            SPDRegressor(**SPD),
            MATRICES,
            {"X_val": X_VAL},
            r"fit\(X_val=...\)` needs y_val",
        ),
    ]
    twelve = {"X_val": X_VAL, "y_val": Y_VAL[:12]}
    fits += [
        (
            MultivariateRegressor(**REGRESSION),
            Y,
            twelve,
            r"needs y_val of shape \(20, 2\)",
        )
    ]
    thin = {"X_val": X_VAL[:, :2], "y_val": Y_VAL}
    fits += [(MultivariateRegressor(**REGRESSION), Y, thin, "X has 2 features")]
    small = {"X_val": X_VAL, "y_val": MATRICES_VAL[:, :1, :1]}
    fits += [
        (SPDRegressor(**SPD), MATRICES, small, "must hold matrices of 2 x 2, as y does")
    ]
    fits += [(MatrixVAE(**DENSITY), None, {"X_val": X_VAL[:, :2]}, "X has 2 features")]
    for model, y, given, text in fits:
        with pytest.raises(ValueError, match=text):
            model.fit(X, y, **given)
    assert not seen
