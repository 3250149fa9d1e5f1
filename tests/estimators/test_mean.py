"""The mean: the inputs that matter, weights of errors, and a Gaussian process in it."""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression
from small_estimators import REGRESSION

from mmlp import estimators
from mmlp.estimators import MultivariateRegressor, batches, cross_fitting, mean
from mmlp.estimators.cross_fitting import split_into_folds
from mmlp.estimators.scaling import StandardizedTable
from mmlp.estimators.training_settings import TrainingSettings
from mmlp.training import fit_many


@pytest.fixture
def stages(monkeypatch):
    """The names under which trainings are shown."""
    names = []

    def fit_and_note(*, progress, **options):
        names.append(progress)
        return fit_many(progress=False, **options)

    monkeypatch.setattr(cross_fitting, "fit_many", fit_and_note)
    return names


@pytest.mark.slow
def test_a_smooth_table_is_learnt_from_few_rows(stages, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 3))
    directions = rng.standard_normal((3, 2))
    y = np.sin(X @ directions) + 0.05 * rng.standard_normal((40, 2))
    fitted = MultivariateRegressor(**REGRESSION | {"verbose": 1}).fit(X, y)
    assert stages == ["1/2 mean", "2/2 covariance"]

    new = np.random.default_rng(3).standard_normal((200, 3))
    truth = np.sin(new @ directions)
    linear = LinearRegression().fit(X, y).score(new, truth)
    assert fitted.score(new, truth) > linear + 0.1
    assert fitted.share_.max() > 0.5

    fitted.save(tmp_path / "model")
    again = estimators.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict(new), fitted.predict(new))
    assert "smooth" in again.models_


@pytest.mark.slow
def test_inputs_that_do_not_matter_are_left_out(monkeypatch, stages):
    """In a training of many rows, in three parts."""
    monkeypatch.setattr(mean, "MAX_ROWS_FOR_GAUSSIAN_PROCESS", 10)
    monkeypatch.setattr(mean, "MAX_ROWS_FOR_IMPORTANCE", 300)
    monkeypatch.setattr(batches, "MAX_ROWS_PER_EPOCH", 90)
    monkeypatch.setattr(batches, "MAX_VALIDATION_ROWS", 100)
    rng = np.random.default_rng(0)
    x = rng.standard_normal((400, 6))
    z = x[:, [0, 3]] + 0.3 * rng.standard_normal((400, 2))
    partitions = [split_into_folds(400, 2, rng) for _ in range(2)]
    settings = mean.MeanSettings(
        hidden_features=(8,),
        training=TrainingSettings(max_epochs=60, show_progress=True),
        seed=0,
    )
    fitted = mean.fit_mean(StandardizedTable(x, z, np.ones(400)), partitions, settings)

    W = np.asarray(fitted.networks.W[0])  # (networks, 8, 6)
    used = np.flatnonzero(np.abs(W).sum(axis=(0, 1)))
    assert {0, 3} <= set(used)
    assert len(used) < 6
    assert fitted.gaussian_process is None
    assert stages == ["1/4 first mean", "2/4 size of errors", "3/4 mean"]


def test_inputs_that_matter_only_together_are_kept(monkeypatch):
    """60 weak ones, and 20 that do not matter."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((1100, 80))
    slope = np.repeat([60**-0.5, 0.0], [60, 20])
    z = x @ slope + rng.standard_normal(1100)
    monkeypatch.setattr(
        mean,
        "out_of_fold_error_lengths",
        lambda networks, x, z, folds: np.abs(x @ slope - z),
    )
    mask = mean.select_inputs(None, x, z, np.ones(1100), [], rng=rng)
    assert np.sum(mask[:60]) > 45
    error = np.mean((x @ slope - z) ** 2)
    assert np.mean((x @ (slope * mask) - z) ** 2) < 1.1 * error


def test_the_size_of_errors_is_their_mean_length():
    """Of the lengths 1 and 3 it is 2, where squares would give the root of 5."""

    def loss(size):
        return sum(
            mean.laplace_loss(lambda x: np.log(size), None, 0, None, error)
            for error in (1.0, -3.0)
        )

    assert loss(2.0) < min(loss(1.9), loss(2.1))


def test_no_error_is_weighed_beyond_the_usual():
    rng = np.random.default_rng(0)
    errors = np.stack([rng.standard_normal(1000), np.zeros(1000)], axis=1)
    log_sizes = np.zeros((1000, 2))
    log_sizes[:2] = [[-1e7, -1e7], [1e30, 1e30]]
    weights = mean.weigh_errors(log_sizes, errors, np.ones(1000))
    assert np.isfinite(weights).all()
    assert np.all(weights[:, 1] == 1)  # exact: not weighed
    assert weights[0, 0] < 20 * weights[2, 0]
    assert weights[1, 0] > weights[2, 0] / 20
    np.testing.assert_allclose(np.mean(weights**2, axis=0), 1)
