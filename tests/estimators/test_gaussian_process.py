"""Gaussian processes: evidence, out-of-fold predictions and blending weights."""

import numpy as np
import pytest
from scipy.optimize import check_grad
from sklearn.gaussian_process import GaussianProcessRegressor, kernels

from mmlp.estimators import gaussian_process
from mmlp.estimators.cross_fitting import split_into_folds
from mmlp.estimators.gaussian_process import (
    Kernel,
    choose_blending_weights,
    invert,
    minus_log_evidence,
)
from mmlp.estimators.scaling import StandardizedTable

RNG = np.random.default_rng(0)
X = RNG.standard_normal((40, 3))
Z = np.sin(X @ RNG.standard_normal((3, 2))) + 0.05 * RNG.standard_normal((40, 2))
WEIGHTS = RNG.uniform(0.5, 2, 40)
LOGS = np.array([0.2, -0.3, 0.1, 0.3, -0.5, -2.0])  # of s, a, b, v
PARTITIONS = [split_into_folds(40, 4, np.random.default_rng(seed)) for seed in range(2)]


def fit(x, z, weights=None, partitions=PARTITIONS):
    if weights is None:
        weights = np.ones(len(x))
    return gaussian_process.fit_gaussian_process(
        StandardizedTable(x, z, weights),
        partitions,
        dtype="float32",
        rng=np.random.default_rng(1),
    )


def use_kernel(monkeypatch, kernel):
    monkeypatch.setattr(gaussian_process, "choose_kernel", lambda *_: kernel)


@pytest.mark.parametrize("n_rates", [1, 3])
def test_the_gradient_of_the_evidence(n_rates):
    logs = np.r_[LOGS[:n_rates], LOGS[3:]]
    arguments = (X, Z[:, 0], 1 / WEIGHTS)
    error = check_grad(
        lambda x: minus_log_evidence(x, *arguments)[0],
        lambda x: minus_log_evidence(x, *arguments)[1],
        logs,
    )
    assert error < 1e-4


def test_evidence_and_mean_are_those_of_scikit_learn():
    """For one kernel: an RBF with three length scales, a linear part, and noise."""
    noise = np.ones(40)
    kernel = Kernel.from_logs(LOGS, 3)
    reference_kernel = (
        kernels.ConstantKernel(kernel.a) * kernels.RBF(1 / kernel.s)
        + kernels.ConstantKernel(kernel.b / 4) * kernels.DotProduct(1.0)
        + kernels.WhiteKernel(kernel.v)
    )
    reference = GaussianProcessRegressor(reference_kernel, alpha=0, optimizer=None)
    reference.fit(X, Z[:, 0])

    value, _ = minus_log_evidence(LOGS, X, Z[:, 0], noise)
    likelihood = -value - 20 * np.log(2 * np.pi)
    assert likelihood == pytest.approx(reference.log_marginal_likelihood_value_)

    P, _ = invert(kernel.covariance(X, noise))
    noiseless = kernel._replace(v=0.0).covariance(X, noise)
    np.testing.assert_allclose(noiseless @ P @ Z[:, 0], reference.predict(X), atol=1e-8)


def cross_covariance(kernel, x, others):
    """Return the kernel without noise, (len(x), len(others))."""
    both = np.r_[x, others]
    return kernel.covariance(both, np.zeros(len(both)))[: len(x), len(x) :]


def test_out_of_fold_predictions_are_those_of_a_fit_without_the_fold(monkeypatch):
    kernel = Kernel(np.array([1.0, 0.5, 0.7]), 1.0, 0.5, 0.01)
    use_kernel(monkeypatch, kernel)
    _, predictions = fit(X, Z, WEIGHTS)
    noise = WEIGHTS.mean() / WEIGHTS
    for values, folds in zip(predictions, PARTITIONS, strict=True):
        for training, held_out in folds:
            covariance = kernel.covariance(X[training], noise[training])
            alpha = np.linalg.solve(covariance, Z[training])
            expected = cross_covariance(kernel, X[held_out], X[training]) @ alpha
            np.testing.assert_allclose(values[held_out], expected, atol=1e-8)


def test_a_weight_of_two_is_a_row_twice(monkeypatch):
    """Up to v, which is the noise of a row of mean weight."""
    weights = np.r_[np.full(20, 2.0), np.ones(20)]
    rows = np.r_[:40, :20]
    use_kernel(monkeypatch, Kernel(np.ones(3), 1.0, 0.5, 0.02))
    weighted, _ = fit(X, Z, weights, [])
    use_kernel(monkeypatch, Kernel(np.ones(3), 1.0, 0.5, 0.03))
    repeated, _ = fit(X[rows], Z[rows], np.ones(60), [])
    for x in X[:5].astype("float32"):
        np.testing.assert_allclose(weighted(x), repeated(x), atol=1e-4)


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
def test_any_table_has_a_gaussian_process(x, z):
    partitions = [split_into_folds(len(x), 2, RNG) for _ in range(2)]
    model, predictions = fit(x, z, partitions=partitions)
    assert np.isfinite(predictions).all()
    assert np.isfinite(model(x[0].astype("float32"))).all()


def test_blending_weights_are_those_of_the_nearest_mixture():
    mean, process = RNG.standard_normal((2, 50, 4))
    weights = np.array([0.0, 0.3, 1.0, 1.7])
    mixture = mean + weights * (process - mean)
    ones = np.ones(50)
    chosen = choose_blending_weights(mixture, ones, mean, process)
    np.testing.assert_allclose(chosen, [0, 0.3, 1, 1], atol=1e-12)
    chosen = choose_blending_weights(mean, ones, process, process)
    np.testing.assert_array_equal(chosen, 0)
