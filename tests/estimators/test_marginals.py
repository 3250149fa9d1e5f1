"""Deviations, intervals and quantiles of each target: those of the distribution, by its draws."""

import jax
import numpy as np
import pytest
from scipy.stats import norm
from small_estimators import REGRESSION, X, Y

from mmlp.estimators import MultivariateRegressor


@pytest.fixture(scope="module")
def single():
    return MultivariateRegressor(**REGRESSION).fit(X, Y[:, 0])


def test_deviations_and_covariances_come_with_the_mean(regressor, single):
    mean, std = regressor.predict(X, return_std=True)
    again, covariance = regressor.predict(X, return_cov=True)
    for array in (mean, again):
        np.testing.assert_array_equal(array, regressor.predict(X))
    np.testing.assert_array_equal(covariance, regressor.predict_covariance(X))
    np.testing.assert_allclose(std**2, np.diagonal(covariance, axis1=1, axis2=2))
    mean, std = single.predict(X, return_std=True)
    assert mean.shape == std.shape == (60,)
    np.testing.assert_allclose(std**2, single.predict_covariance(X)[:, 0, 0])
    with pytest.raises(ValueError, match="choose one of them"):
        regressor.predict(X, return_std=True, return_cov=True)


def test_those_of_a_gaussian_are_known(regressor, single):
    mean, std = regressor.predict(X, return_std=True)
    quantiles = regressor.predict_quantiles(X, [0.1, 0.5, 0.9])
    expected = mean[..., None] + std[..., None] * norm.ppf([0.1, 0.5, 0.9])
    np.testing.assert_allclose(quantiles, expected)
    interval = regressor.predict_interval(X, 0.8)
    np.testing.assert_allclose(interval, quantiles[..., [0, 2]])
    assert single.predict_interval(X).shape == (60, 2)
    assert single.predict_quantiles(X, [0.3]).shape == (60, 1)


@pytest.mark.slow
def test_quantiles_of_a_power_exponential_are_those_of_its_draws(tailed):
    p, levels = tailed.predict_distribution(X), np.array([0.05, 0.25, 0.5, 0.9, 0.99])
    assert np.ptp(np.asarray(p.tail[1])) > 0, "rows have tails of their own"
    quantiles = tailed.predict_quantiles(X, levels)
    assert quantiles.shape == (60, 2, 5)
    np.testing.assert_allclose(quantiles[..., 2], tailed.predict(X))
    draws = np.asarray(p.sample(jax.random.key(0), 4000), float)  # (m, n, d)
    shares = np.mean(draws[..., None] <= quantiles, axis=(0, 1))
    errors = np.sqrt(levels * (1 - levels) / (4000 * 60))
    assert np.all(np.abs(shares - levels) < 4 * errors), shares  # (d, q)
    few = tailed.predict_quantiles(X[:5], levels)  # each by itself, not interpolated
    np.testing.assert_allclose(few, quantiles[:5], rtol=1e-8)


def test_a_median_level_or_a_wrong_one(regressor):
    interval = regressor.predict_interval(X, level=1e-9)
    np.testing.assert_allclose(interval.mean(axis=-1), regressor.predict(X))
    for level in (0, 1, 90, np.nan, [0.5]):
        with pytest.raises(
            ValueError, match=r"predict_interval\(level=...\)` must be a number"
        ):
            regressor.predict_interval(X, level)
    for levels in ([], 0.5, [0.1, 1.0], [[0.5]]):
        with pytest.raises(
            ValueError, match=r"predict_quantiles\(levels=...\)` must be numbers"
        ):
            regressor.predict_quantiles(X, levels)


@pytest.mark.parametrize("rate", [True, False, 0.0, -1, np.inf, np.nan, "fast"])
def test_a_learning_rate_that_is_none_is_refused(rate):
    with pytest.raises(
        ValueError, match=r"learning_rate=...\)` must be a positive number"
    ):
        MultivariateRegressor(**REGRESSION, learning_rate=rate).fit(X, Y)
