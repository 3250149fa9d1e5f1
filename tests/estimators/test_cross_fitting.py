"""Folds, the rows that networks are trained on, and training settings."""

import numpy as np
import pytest

from mmlp.estimators import MultivariateRegressor, batches, cross_fitting, mean
from mmlp.estimators.cross_fitting import (
    CrossFit,
    fit_networks,
    out_of_fold,
    restrict_folds,
    split_into_folds,
)
from mmlp.estimators.training_settings import TrainingSettings


def test_each_row_is_held_out_once():
    folds = split_into_folds(11, 3, np.random.default_rng(0))
    held_out = np.concatenate([fold.held_out_rows for fold in folds])
    assert sorted(held_out) == list(range(11))
    for training_rows, held_out_rows in folds:
        assert sorted([*training_rows, *held_out_rows]) == list(range(11))


def test_out_of_fold_predictions_are_those_of_the_network_without_the_row():
    folds = split_into_folds(11, 3, np.random.default_rng(0))
    predictions = np.broadcast_to(np.arange(3.0), (11, 3))
    picked = out_of_fold(predictions, folds)
    for k, fold in enumerate(folds):
        assert np.all(picked[fold.held_out_rows] == k)


def test_a_subset_of_rows_keeps_its_folds():
    folds = split_into_folds(50, 3, np.random.default_rng(0))
    rows = np.array([3, 4, 10, 40])
    for restricted, fold in zip(restrict_folds(folds, rows), folds, strict=True):
        training_rows, held_out_rows = restricted
        assert set(rows[held_out_rows]) == set(rows) & set(fold.held_out_rows)
        assert sorted([*training_rows, *held_out_rows]) == [0, 1, 2, 3]


def test_many_rows_are_not_copied_and_each_is_seen_in_turn(monkeypatch):
    """Seven networks' rows in parts of whole batches; what fills them up has no weight."""
    arguments = {}
    monkeypatch.setattr(batches, "MAX_ROWS_PER_EPOCH", 100)
    monkeypatch.setattr(batches, "MAX_VALIDATION_ROWS", 30)
    monkeypatch.setattr(
        cross_fitting, "fit_many", lambda **options: arguments.update(options)
    )
    rng = np.random.default_rng(0)
    data = rng.standard_normal((333, 2))
    folds = split_into_folds(333, 7, rng)
    task = CrossFit(
        build=mean.PerceptronBuilder((2, 3)),
        sample_loss=mean.squared_error,
        arrays=(data,),
        row_weights=rng.uniform(1, 2, 333),
        folds=folds,
        seed=0,
    )
    fit_networks(task, TrainingSettings(batch_size=16))

    (table,), weights = arguments["data"]
    assert (len(table), weights[-1]) == (334, 0)
    assert weights[:-1].mean() == pytest.approx(1)
    assert arguments["rows"].shape == (7, 3, 96)
    for rows, fold in zip(arguments["rows"], folds, strict=True):
        assert sorted(rows[rows < 333]) == fold.training_rows.tolist()
        assert np.ptp(np.sum(rows == 333, axis=1)) <= 1
        assert len(fold.held_out_rows) > 30
    (validation,), _ = arguments["validation"]
    assert validation.shape == (7, 32, 2)
    for rows, fold in zip(validation, folds, strict=True):
        held_out = data[fold.held_out_rows, 0].astype(np.float32)
        assert set(rows[:30, 0].tolist()) <= set(held_out.tolist())


@pytest.mark.parametrize(
    ("n_rows", "epochs", "batch_size", "patience", "learning_rate"),
    [
        (2, 500, 64, 50, 0.02),
        (600, 500, 64, 50, 0.02),
        (10_000, 30, 256, 50, 0.02),
        (31_623, 20, 256, 32, 0.02 / 2**0.5),
        (100_000, 20, 256, 10, 0.01),
        (10**6, 20, 256, 8, 0.01),
        (10**8, 20, 256, 8, 0.01),
    ],
)
def test_training_depends_on_the_number_of_rows(
    n_rows, epochs, batch_size, patience, learning_rate
):
    training = MultivariateRegressor()._plan_training(n_rows)
    assert training.max_epochs == epochs
    assert training.batch_size == batch_size
    assert training.patience == patience
    assert training.learning_rate == pytest.approx(learning_rate, rel=1e-4)

    chosen = {"max_epochs": 7, "batch_size": 5, "patience": 1, "learning_rate": 0.5}
    training = MultivariateRegressor(**chosen)._plan_training(n_rows)
    assert chosen.items() <= vars(training).items()
    assert MultivariateRegressor(patience=None)._plan_training(n_rows).patience is None
