"""The mean: Gaussian processes beside MLPs where rows are few, inputs that matter where many."""

import numpy as np
import pytest
from scipy.optimize import check_grad
from sklearn.gaussian_process import GaussianProcessRegressor, kernels
from sklearn.linear_model import LinearRegression
from small_estimators import REGRESSION

from mmlp import estimators
from mmlp.estimators import (
    MultivariateRegressor,
    batches,
    cross_fitting,
    gaussian_process,
    mean,
)
from mmlp.estimators.cross_fitting import (
    CrossFit,
    fit_networks,
    restrict_folds,
    split_into_folds,
)
from mmlp.estimators.scaling import StandardizedTable
from mmlp.estimators.training_settings import TrainingSettings
from mmlp.training import fit_many

RNG = np.random.default_rng(0)
X = RNG.standard_normal((40, 3))
TURN = RNG.standard_normal((3, 2))
Z = np.sin(X @ TURN) + 0.05 * RNG.standard_normal((40, 2))
WEIGHT = RNG.uniform(0.5, 2, 40)
TWICE = [split_into_folds(40, 4, np.random.default_rng(seed)) for seed in range(2)]


def fit_gaussian_process(x, z, weights=None, partitions=TWICE):
    table = StandardizedTable(x, z, np.ones(len(x)) if weights is None else weights)
    rng = np.random.default_rng(1)
    return gaussian_process.fit_gaussian_process(
        table, partitions, dtype="float32", rng=rng
    )


@pytest.mark.parametrize("rates", [1, 3])
def test_the_derivative_of_the_evidence(rates):
    logs = np.r_[[0.2, -0.3, 0.1][:rates], 0.3, -0.5, -2.0]
    arguments = (X, Z[:, 0], 1 / WEIGHT)
    error = check_grad(
        lambda x: gaussian_process.minus_log_evidence(x, *arguments)[0],
        lambda x: gaussian_process.minus_log_evidence(x, *arguments)[1],
        logs,
    )
    assert error < 1e-4


def test_the_evidence_and_the_mean_are_those_of_scikit_learn():
    """Of one kernel: an RBF with three length scales, a linear part, and noise."""
    logs = np.array([0.2, -0.3, 0.1, 0.3, -0.5, -2.0])
    k = gaussian_process.Kernel.from_logs(logs, 3)
    kernel = kernels.ConstantKernel(k.a) * kernels.RBF(1 / k.s)
    kernel += kernels.ConstantKernel(k.b / 4) * kernels.DotProduct(1.0)
    model = GaussianProcessRegressor(
        kernel + kernels.WhiteKernel(k.v), alpha=0, optimizer=None
    )
    likelihood = model.fit(X, Z[:, 0]).log_marginal_likelihood_value_
    value = gaussian_process.minus_log_evidence(logs, X, Z[:, 0], np.ones(40))[0]
    assert -value - 20 * np.log(2 * np.pi) == pytest.approx(likelihood)
    P, _ = gaussian_process.invert(k.covariance(X, np.ones(40)))
    near = gaussian_process.Kernel(k.s, k.a, k.b, 0.0).covariance(X, np.ones(40))
    np.testing.assert_allclose(near @ P @ Z[:, 0], model.predict(X), atol=1e-8)


def between(kernel, x, others):
    """The kernel without noise, (len(x), len(others))."""
    both = np.r_[x, others]
    return kernel.covariance(both, np.zeros(len(both)))[: len(x), len(x) :]


def test_what_is_said_of_held_rows_is_that_of_a_fit_without_them(monkeypatch):
    k = gaussian_process.Kernel(np.array([1.0, 0.5, 0.7]), 1.0, 0.5, 0.01)
    monkeypatch.setattr(gaussian_process, "choose_kernel", lambda *_: k)
    said, noise = fit_gaussian_process(X, Z, WEIGHT)[1], WEIGHT.mean() / WEIGHT
    for values, parts in zip(said, TWICE, strict=True):
        for seen, rows in parts:
            alpha = np.linalg.solve(k.covariance(X[seen], noise[seen]), Z[seen])
            expected = between(k, X[rows], X[seen]) @ alpha
            np.testing.assert_allclose(values[rows], expected, atol=1e-8)


def test_a_weight_of_two_is_a_row_twice(monkeypatch):
    """Up to v, which is the noise of a row of mean weight."""
    weight, rows = np.r_[np.full(20, 2.0), np.ones(20)], np.r_[:40, :20]
    for v, x, z, w in ((0.02, X, Z, weight), (0.03, X[rows], Z[rows], np.ones(60))):
        k = gaussian_process.Kernel(np.ones(3), 1.0, 0.5, v)
        monkeypatch.setattr(gaussian_process, "choose_kernel", lambda *_, k=k: k)
        model = fit_gaussian_process(x, z, w, [])[0]
        said = [np.asarray(model(row)) for row in X[:5].astype("float32")]
        if v == 0.02:
            expected = said
    np.testing.assert_allclose(said, expected, atol=1e-4)


@pytest.mark.parametrize(
    ("x", "z"),
    [
        (X[:2], Z[:2]),
        (X * [1, 0, 1], Z * [1, 0]),
        (np.zeros((40, 3)), Z),
        (np.repeat(X[:4], 10, axis=0), Z),
        (RNG.standard_normal((40, 60)), Z),
    ],
    ids=[
        "two rows",
        "constant columns",
        "constant inputs",
        "equal rows",
        "many inputs",
    ],
)
def test_any_table_has_a_smooth_mean(x, z):
    partitions = [split_into_folds(len(x), 2, RNG) for _ in range(2)]
    model, said = fit_gaussian_process(x, z, partitions=partitions)
    assert np.isfinite(said).all()
    assert np.isfinite(model(x[0].astype("float32"))).all()


def _weights(z, weights, mean, process):
    return gaussian_process.choose_blending_weights(z, weights, mean, process)


def test_shares_are_those_of_the_nearest_mixture():
    one, other = RNG.standard_normal((2, 50, 4))
    parts = np.array([0.0, 0.3, 1.0, 1.7])
    found = _weights(one + parts * (other - one), np.ones(50), one, other)
    np.testing.assert_allclose(found, [0, 0.3, 1, 1], atol=1e-12)
    np.testing.assert_array_equal(_weights(one, np.ones(50), other, other), 0)


@pytest.fixture
def stages(monkeypatch):
    """The names under which trainings are shown."""
    names = []

    def noted(*given, progress, **options):
        names.append(progress)
        return fit_many(*given, progress=False, **options)

    monkeypatch.setattr(cross_fitting, "fit_many", noted)
    return names


@pytest.mark.slow
def test_a_smooth_table_is_learnt_by_few_rows(stages, tmp_path):
    fitted = MultivariateRegressor(**REGRESSION | {"verbose": 1}).fit(X, Z)
    assert stages == ["1/2 mean", "2/2 covariance"]
    new = np.random.default_rng(3).standard_normal((200, 3))
    truth = np.sin(new @ TURN)
    assert (
        fitted.score(new, truth) > LinearRegression().fit(X, Z).score(new, truth) + 0.1
    )
    assert fitted.share_.max() > 0.5
    fitted.save(tmp_path / "model")
    again = estimators.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict(new), fitted.predict(new))
    assert "smooth" in again.models_


@pytest.mark.slow
def test_inputs_that_do_not_matter_are_left_out(monkeypatch, stages):
    """By a training of rows that are many, in three parts."""
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
    table = StandardizedTable(x, z, np.ones(400))
    fitted = mean.fit_mean(table, partitions, settings)
    W = np.asarray(fitted.networks.W[0])  # (networks, 8, 6)
    used = np.flatnonzero(np.abs(W).sum(axis=(0, 1)))
    assert {0, 3} <= set(used)
    assert len(used) < 6
    assert fitted.gaussian_process is None
    assert stages == ["1/4 first mean", "2/4 size of errors", "3/4 mean"]


def test_inputs_that_matter_only_together_are_kept(monkeypatch):
    """60 weak ones, and 20 that do not matter."""
    rng = np.random.default_rng(0)
    x, slope = rng.standard_normal((1100, 80)), np.repeat([60**-0.5, 0.0], [60, 20])
    z = x @ slope + rng.standard_normal(1100)
    monkeypatch.setattr(
        mean,
        "out_of_fold_error_lengths",
        lambda networks, x, z, folds: np.abs(x @ slope - z),
    )
    used = mean.select_inputs(None, x, z, np.ones(1100), [], rng=rng)
    assert np.sum(used[:60]) > 45
    assert np.mean((x @ (slope * used) - z) ** 2) < 1.1 * np.mean((x @ slope - z) ** 2)


def test_the_size_of_errors_is_their_mean_length():
    """Of the lengths 1 and 3 it is 2, where squares would give the root of 5."""

    def loss(size):
        return sum(
            mean.laplace_loss(lambda x: np.log(size), None, 0, None, e)
            for e in (1.0, -3.0)
        )

    assert loss(2.0) < min(loss(1.9), loss(2.1))


@pytest.mark.parametrize(
    ("n", "epochs", "size", "patience", "rate"),
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
def test_training_goes_by_the_number_of_rows(n, epochs, size, patience, rate):
    training = MultivariateRegressor(random_state=0)._plan_training(n)
    found = (training.max_epochs, training.batch_size, training.patience)
    assert found == (epochs, size, patience)
    assert training.learning_rate == pytest.approx(rate, rel=1e-4)
    chosen = {"max_epochs": 7, "batch_size": 5, "patience": 1, "learning_rate": 0.5}
    given = MultivariateRegressor(**chosen)._plan_training(n)
    assert chosen.items() <= vars(given).items()
    assert MultivariateRegressor(patience=None)._plan_training(n).patience is None


def test_many_rows_are_not_copied_and_each_is_seen_in_turn(monkeypatch):
    """Seven networks' rows in parts of whole batches; what fills them up has no weight."""
    monkeypatch.setattr(batches, "MAX_ROWS_PER_EPOCH", 100)
    monkeypatch.setattr(batches, "MAX_VALIDATION_ROWS", 30)
    rng, given = np.random.default_rng(0), {}
    monkeypatch.setattr(
        cross_fitting, "fit_many", lambda *_, **options: given.update(options)
    )
    data, weight, parts = (
        rng.standard_normal((333, 2)),
        rng.uniform(1, 2, 333),
        split_into_folds(333, 7, rng),
    )
    build = mean.PerceptronBuilder((2, 3))
    task = CrossFit(build, mean.squared_error, (data,), weight, parts, seed=0)
    fit_networks(task, TrainingSettings(batch_size=16))
    (table,), weights = given["data"]
    assert (len(table), weights[-1]) == (334, 0)
    assert weights[:-1].mean() == pytest.approx(1)
    assert given["rows"].shape == (7, 3, 96)
    for rows, (seen, held) in zip(given["rows"], parts, strict=True):
        assert sorted(rows[rows < 333]) == seen.tolist()
        assert np.ptp(np.sum(rows == 333, axis=1)) <= 1
        assert len(held) > 30
    (judging,), _ = given["validation"]
    assert judging.shape == (7, 32, 2)
    for rows, (_, held) in zip(judging, parts, strict=True):
        assert set(rows[:30, 0].tolist()) <= set(
            data[held, 0].astype(np.float32).tolist()
        )


def test_some_rows_keep_their_parts():
    parts, some = (
        split_into_folds(50, 3, np.random.default_rng(0)),
        np.array([3, 4, 10, 40]),
    )
    for (seen, held), whole in zip(restrict_folds(parts, some), parts, strict=True):
        assert set(some[held]) == set(some) & set(whole[1])
        assert sorted([*seen, *held]) == [0, 1, 2, 3]


def test_no_row_is_weighed_beyond_what_is_seen():
    rng = np.random.default_rng(0)
    errors = np.stack([rng.standard_normal(1000), np.zeros(1000)], axis=1)
    logs = np.zeros((1000, 2))
    logs[:2] = [[-1e7, -1e7], [1e30, 1e30]]
    rates = mean.weigh_errors(logs, errors, np.ones(1000))
    assert np.isfinite(rates).all()
    assert np.all(rates[:, 1] == 1)  # exact: not weighed
    assert rates[0, 0] < 20 * rates[2, 0]
    assert rates[1, 0] > rates[2, 0] / 20
    np.testing.assert_allclose(np.mean(rates**2, axis=0), 1)
