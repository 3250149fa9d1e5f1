"""Scores against another library and closed forms; calibration against the laws it rests on."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scoringrules
from scipy import stats

from mmlp import (
    Gram,
    TraceOneGaussian,
    TraceOnePowerExponential,
    TraceOneStudentT,
    metrics,
)
from mmlp.metrics import scores
from mmlp.training import forks

RNG = np.random.default_rng(0)


def gaussian(n=6, d=3):
    T = RNG.standard_normal((n, d, d))
    return TraceOneGaussian(
        RNG.standard_normal((n, d)), Gram.trace_one(T), np.exp(RNG.standard_normal(n))
    )


def test_negative_log_likelihood_is_scipys():
    p, y = gaussian(), RNG.standard_normal((6, 3))
    V = p.covariance.dense()
    expected = np.mean(
        [-stats.multivariate_normal(p.loc[i], V[i]).logpdf(y[i]) for i in range(6)]
    )
    assert metrics.negative_log_likelihood(p, y) == pytest.approx(expected)


@pytest.mark.parametrize(
    "score",
    [
        metrics.negative_log_likelihood,
        metrics.energy_score,
        metrics.variogram_score,
        metrics.mahalanobis_pit,
        metrics.ellipsoid_coverage,
    ],
)
def test_scores_of_a_distribution_are_refused_in_a_forked_process(score, monkeypatch):
    """They waited for ever."""
    monkeypatch.setattr(forks._Fork, "lost_threads", True)
    with pytest.raises(RuntimeError, match=r"`metrics\.\w+` cannot run.* was forked"):
        score(gaussian(), np.zeros((6, 3)))


def test_scores_of_samples_are_those_of_scoringrules():
    x, y = RNG.standard_normal((40, 5, 3)), RNG.standard_normal((5, 3))
    ours = metrics.energy_score(x, y)
    theirs = scoringrules.es_ensemble(y, np.moveaxis(x, 0, 1), estimator="fair")
    assert ours == pytest.approx(np.mean(theirs))
    theirs = scoringrules.vs_ensemble(y, np.moveaxis(x, 0, 1), p=0.7)
    assert metrics.variogram_score(x, y, order=0.7) == pytest.approx(np.mean(theirs))


def test_energy_score_in_one_dimension_is_the_continuous_ranked_probability_score():
    p = TraceOneGaussian(
        np.zeros((200, 1)), Gram(np.ones((200, 1, 1))), np.full(200, 4.0)
    )
    y = RNG.standard_normal((200, 1))
    exact = np.mean(scoringrules.crps_normal(y[:, 0], 0.0, 2.0))
    assert metrics.energy_score(p, y[:, 0], key=jax.random.key(1)) == pytest.approx(
        exact, rel=0.02
    )


def test_scores_do_not_depend_on_the_origin():
    """Without 64-bit numbers in JAX as well, where 1e9 + x has none of the digits of x."""
    offset, scores = 1e9, (metrics.energy_score, metrics.variogram_score)
    p, x, y = gaussian(), RNG.standard_normal((10, 6, 3)), RNG.standard_normal((6, 3))
    p = TraceOneGaussian(np.zeros((6, 3)), p.omega, p.eta)
    expected = [(score(x, y), score(p, y)) for score in scores]
    with jax.enable_x64(False):
        moved = jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf), jnp.float32), p)
        moved = TraceOneGaussian(moved.loc + np.float32(offset), moved.omega, moved.eta)
        for score, (of_samples, of_distribution) in zip(scores, expected, strict=True):
            assert score(x + offset, y + offset) == pytest.approx(of_samples, rel=1e-6)
            assert score(moved, y + offset) == pytest.approx(
                of_distribution, rel=0.1
            )  # by other draws


def test_draws_of_many_rows_are_made_in_pieces(monkeypatch):
    p, y = gaussian(), RNG.standard_normal((6, 3))
    shapes = []
    white = TraceOneGaussian.numpy_white
    monkeypatch.setattr(
        TraceOneGaussian,
        "numpy_white",
        lambda self, rng, batch: shapes.append(batch) or white(self, rng, batch),
    )
    whole = metrics.energy_score(p, y)
    monkeypatch.setattr(scores, "MAX_NUMBERS_AT_ONCE", 500 * y.size)
    assert metrics.energy_score(p, y) == pytest.approx(whole, rel=0.1)
    assert shapes == [(1000, 6), (500, 6), (500, 6)]


@pytest.mark.slow
def test_the_true_distribution_has_the_best_scores_on_average():
    p = gaussian(1, 2)
    n = 500
    true, wide, alone = (
        TraceOneGaussian(
            jnp.broadcast_to(p.loc, (n, 2)),
            Gram.trace_one(jnp.broadcast_to(T, (n, 2, 2))),
            jnp.broadcast_to(eta, (n,)),
        )
        for T, eta in (
            (p.omega.factor[0], p.eta),
            (p.omega.factor[0], 4 * p.eta),
            (jnp.eye(2), p.eta),
        )
    )
    y = true.sample(jax.random.key(2))
    for score in (
        metrics.negative_log_likelihood,
        metrics.energy_score,
        metrics.variogram_score,
    ):
        assert score(true, y) < min(score(wide, y), score(alone, y))


@pytest.mark.parametrize("beta", [0.6, 1.0, 1.4])
def test_probability_integral_transform_is_uniform_under_the_model(beta):
    T = Gram.trace_one(np.broadcast_to(RNG.standard_normal((3, 3)), (2000, 3, 3)))
    p = TraceOnePowerExponential(np.zeros((2000, 3)), T, np.full(2000, 2.0), 1.3, beta)
    pit = metrics.mahalanobis_pit(p, p.sample(jax.random.key(3)))
    assert stats.kstest(pit, "uniform").pvalue > 1e-3
    assert metrics.calibration_error(pit) < 0.03
    assert metrics.ellipsoid_coverage(
        p, p.sample(jax.random.key(4)), 0.8
    ) == pytest.approx(0.8, abs=0.05)


def test_power_exponential_at_one_is_the_gaussian():
    p, y = gaussian(), RNG.standard_normal((6, 3))
    q = TraceOnePowerExponential(p.loc, p.omega, p.eta, 1.0, 1.0)
    np.testing.assert_allclose(
        metrics.mahalanobis_pit(q, y), metrics.mahalanobis_pit(p, y), rtol=1e-12
    )
    whitened = p.covariance.whiten(y - p.loc)
    np.testing.assert_allclose(
        metrics.mahalanobis_pit(p, y),
        stats.chi2(3).cdf(np.sum(whitened**2, -1)),
        rtol=1e-9,
    )


def test_a_new_family_has_every_score_and_its_calibration():
    """Student's t, of which the library knows nothing, with nu = 7 degrees of freedom."""
    T = np.broadcast_to(RNG.standard_normal((3, 3)), (500, 3, 3))
    p = TraceOneStudentT(
        RNG.standard_normal((500, 3)), Gram.trace_one(T), np.full(500, 2.0), 7.0
    )
    y = np.asarray(p.sample(jax.random.key(5)))
    shape = 2 * np.asarray(p.omega.dense()[0])
    expected = -stats.multivariate_t(shape=shape, df=7).logpdf(y - p.loc)
    assert metrics.negative_log_likelihood(p, y) == pytest.approx(np.mean(expected))
    pit = metrics.mahalanobis_pit(p, y)
    squared = np.einsum("ni,ij,nj->n", y - p.loc, np.linalg.inv(shape), y - p.loc)
    np.testing.assert_allclose(pit, stats.f(3, 7).cdf(squared / 3), rtol=1e-9)
    assert stats.kstest(pit, "uniform").pvalue > 1e-3
    wide = TraceOneStudentT(p.loc, p.omega, 9 * p.eta, p.df)
    for score in (metrics.energy_score, metrics.variogram_score):
        assert score(p[:60], y[:60]) < score(wide[:60], y[:60])


def test_calibration_error_is_the_area_between_the_curve_and_the_diagonal():
    pit = RNG.random(17) ** 2
    levels = (np.arange(200_000) + 0.5) / 200_000
    area = np.mean(np.abs(metrics.calibration_curve(pit, levels)[1] - levels))
    assert metrics.calibration_error(pit) == pytest.approx(area, abs=1e-4)
    assert metrics.calibration_error([1.0]) == pytest.approx(0.5)


def test_weights_repeat_rows():
    x, y, weight = (
        RNG.standard_normal((10, 3, 2)),
        RNG.standard_normal((3, 2)),
        np.array([1, 2, 0]),
    )
    assert metrics.energy_score(x, y, sample_weight=weight) == pytest.approx(
        metrics.energy_score(np.repeat(x, weight, axis=1), np.repeat(y, weight, axis=0))
    )


def test_errors_name_call_and_remedy():
    p = gaussian()
    with pytest.raises(
        ValueError, match=r"negative_log_likelihood.*y of shape \(6, 2\)"
    ):
        metrics.negative_log_likelihood(p, np.zeros((6, 2)))
    with pytest.raises(ValueError, match="predict_distribution"):
        metrics.mahalanobis_pit(np.zeros(3), np.zeros(3))
    with pytest.raises(ValueError, match="finite"):
        metrics.negative_log_likelihood(p, np.full((6, 3), np.nan))
    with pytest.raises(ValueError, match=r"samples \(m, n, d\)"):
        metrics.energy_score(np.zeros((1, 6, 3)), np.zeros((6, 3)))
    with pytest.raises(ValueError, match="level"):
        metrics.ellipsoid_coverage(p, np.zeros((6, 3)), 90)
    with pytest.raises(ValueError, match="order"):
        metrics.variogram_score(p, np.zeros((6, 3)), order=0)
    with pytest.raises(ValueError, match="probabilities"):
        metrics.calibration_curve([2.0])
