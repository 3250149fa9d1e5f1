"""Scores of a small table: a few compiled programs, and the numbers of the distribution itself."""

import logging

import jax
import numpy as np
import pytest
from small_estimators import X, Y
from sweeps import sweep

from mmlp import metrics


@pytest.fixture
def compiled(caplog):
    """The names of programs that JAX compiles meanwhile."""

    def names():
        texts = [record.getMessage() for record in caplog.records]
        return [text.split()[1] for text in texts if text.startswith("Compiling ")]

    with caplog.at_level(logging.DEBUG, "jax"), jax.log_compiles():
        yield names


@pytest.mark.slow
@pytest.mark.parametrize("name", ["regressor", "tailed"])
def test_scores_take_a_few_programs(name, compiled, request):
    model = request.getfixturevalue(name)
    some = X[:37], Y[:37]
    model.predict(X)
    before = len(compiled())
    scores = model.scores(*some)
    assert 0 < len(compiled()) - before <= 8, compiled()[before:]
    p = model.predict_distribution(X[:37])
    log_density = np.asarray(p.log_prob(Y[:37].astype("float32")))
    np.testing.assert_allclose(
        model.log_density(*some), log_density, rtol=1e-3, atol=1e-4
    )
    assert scores["negative_log_likelihood"] == pytest.approx(
        -log_density.mean(), rel=1e-3
    )
    assert metrics.negative_log_likelihood(p, Y[:37]) == pytest.approx(
        -log_density.mean(), 1e-3
    )
    pit = np.asarray(p.radius_cdf(p.mahalanobis(Y[:37])))
    np.testing.assert_allclose(metrics.mahalanobis_pit(p, Y[:37]), pit, atol=1e-4)


def test_log_densities_of_many_rows_are_those_of_each(tailed):
    many = (
        np.tile(X, (9, 1)),
        np.tile(Y, (9, 1)),
    )  # more than a piece, and not a whole number
    expected = np.tile(tailed.log_density(X, Y), 9)
    np.testing.assert_allclose(tailed.log_density(*many), expected, rtol=1e-6)


@sweep("name", ["regressor", "tailed"])
def test_draws_of_numpy_have_the_law_of_those_of_jax(name, request):
    p = request.getfixturevalue(name).predict_distribution(X)
    draws = p.numpy_white(np.random.default_rng(0), (4000, 60))
    r = np.linalg.norm(draws, axis=-1)
    u = np.asarray(p.radius_cdf(r))
    errors = np.abs(
        np.mean(u[..., None] <= [0.1, 0.5, 0.9], axis=(0, 1)) - [0.1, 0.5, 0.9]
    )
    assert errors.max() < 4 * 0.5 / np.sqrt(u.size)
    np.testing.assert_allclose(np.mean(draws / r[..., None], axis=(0, 1)), 0, atol=0.01)
