"""What held rows say about covariances: contrast, gain and common shape."""

import jax
import numpy as np
import pytest

import mmlp
from mmlp.estimators import covariance_calibration
from mmlp.estimators.full_covariance import move_towards_centre


@pytest.mark.parametrize("excess", [1.0, 2.0])
def test_contrast_undoes_what_varies_too_much(excess):
    """4000 residuals of seed 0: the standard error is about 0.02, five of which are allowed."""
    rng, d = np.random.default_rng(0), 3
    vectors, values = (
        np.linalg.qr(rng.standard_normal((4000, d, d))).Q,
        rng.normal(0, 0.8, (4000, d)),
    )
    e = np.einsum(
        "nij,nj->ni",
        vectors,
        np.exp(values / 2) / d**0.5 * rng.standard_normal((4000, d)),
    )
    log_V = (vectors * (excess * values - np.log(d))[:, None]) @ vectors.mT
    ones = np.ones(4000)

    def contrast(n, weight):
        return covariance_calibration.fit_contrast(
            mmlp.TraceOneGaussian, log_V[:n], (), e[:n], weight
        )

    assert contrast(4000, ones) == pytest.approx(1 / excess, abs=0.1)
    half = contrast(2000, ones[:2000])
    assert contrast(4000, np.r_[ones[:2000], 0 * ones[:2000]]) == pytest.approx(
        half, abs=1e-4
    )


def test_contrast_is_judged_by_the_density_of_the_family():
    """At beta = 0.6, d = 2, by the library's power exponential with covariance V."""
    rng, n = np.random.default_rng(1), 50
    log_V, e, beta = np.zeros((n, 2, 2)), rng.standard_normal((n, 2)), np.full(n, 0.6)
    log_V[:, 0, 0], log_V[:, 1, 1] = rng.normal(size=(2, n)) - np.log(2)

    def loss(contrast):
        V = np.exp(np.diagonal(move_towards_centre(log_V, contrast), axis1=1, axis2=2))
        eta = V.sum(axis=1)
        omega = mmlp.DiagonalGram(np.sqrt(V / eta[:, None]))
        unit = mmlp.TraceOnePowerExponential(
            np.zeros((n, 2)), omega, np.ones(n), np.ones(n), beta
        )
        return -np.mean(
            mmlp.TraceOnePowerExponential(
                np.zeros((n, 2)),
                omega,
                eta / np.asarray(unit.covariance.trace()),
                np.ones(n),
                beta,
            ).log_prob(e)
        )

    family = mmlp.TraceOnePowerExponential
    best = covariance_calibration.fit_contrast(
        family, log_V, (np.ones(n), beta), e, np.ones(n)
    )
    assert 0.02 < best < 0.98
    assert loss(best) < min(loss(best - 0.02), loss(best + 0.02))
    with jax.enable_x64(False):
        single = covariance_calibration.fit_contrast(
            family, log_V, (np.ones(n), beta), e, np.ones(n)
        )
    assert single == pytest.approx(best, abs=1e-5)


def test_a_column_without_residuals_has_a_scale():
    L = covariance_calibration.fit_shape(
        np.c_[np.zeros(20), np.random.default_rng(0).standard_normal(20)], np.ones(20)
    )
    assert (np.diag(L) > 0).all()
    assert np.isfinite(
        covariance_calibration.fit_shape(np.zeros((5, 2)), np.ones(5))
    ).all()


def test_gain_is_what_more_networks_would_leave():
    """20,000 residuals of seed 0, E = V, B = 3 V: a standard error below 0.01, five are allowed."""
    rng, d, n, count = np.random.default_rng(0), 2, 20_000, 10
    noise, one, other = (
        rng.standard_normal((3, n, d)) * np.array([1.0, 3.0, 3.0])[:, None, None] ** 0.5
    )
    log_V = np.zeros((n, d, d))
    gain = covariance_calibration.fit_gain(
        log_V, noise + (one + other) / 2, one - other, np.ones(n), count
    )
    assert gain == pytest.approx((1 + 3 / count) / (1 + 3 / 2), rel=0.05)
    assert (
        covariance_calibration.fit_gain(
            log_V, 0 * noise, one - other, np.ones(n), count
        )
        == 1
    )
    assert covariance_calibration.fit_gain(
        log_V, 0.01 * noise, one - other, np.ones(n), count
    ) == pytest.approx(2 / count)
