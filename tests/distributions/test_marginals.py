"""The law of one coordinate: closed forms, SciPy's quadrature, draws, and its own inverse."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from scipy.integrate import quad
from scipy.special import gammaincc, gammaln
from sweeps import sweep

from mmlp import (
    DiagonalGram,
    Elliptical,
    TraceOneGaussian,
    TraceOnePowerExponential,
    TraceOneStudentT,
)
from mmlp.distributions import marginals

LEVELS = np.array([0.05, 0.5, 0.75, 0.975, 0.9995])


def power_exponential(d, beta, dtype=jnp.float64):
    omega = DiagonalGram.trace_one(jnp.ones(d, dtype))
    return TraceOnePowerExponential(
        jnp.zeros(d, dtype), omega, 2.0, 3.0, jnp.asarray(beta, dtype)
    )


def survival(z, d, beta):
    """P(|x_1| > z) by SciPy: over the angle between x and the first axis, d >= 2."""
    a = d / (2 * beta)
    unit = (
        np.exp((np.log(2) / beta + gammaln((d + 2) / (2 * beta)) - gammaln(a)) / 2)
        / d**0.5
    )
    log_c = np.log(2) + gammaln(d / 2) - gammaln(0.5) - gammaln((d - 1) / 2)

    def integrand(angle):
        beyond = gammaincc(a, (z * unit / np.cos(angle)) ** (2 * beta) / 2)
        return np.exp(log_c + (d - 2) * np.log(np.sin(angle))) * beyond

    points = [x for x in np.pi / 2 - np.array([0.3, 1, 2, 3, 4]) / np.sqrt(d) if x > 0]
    return quad(integrand, 0, np.pi / 2, points=points, limit=2000, epsabs=1e-10)[0]


@pytest.mark.parametrize("beta", [0.3, 0.5, 1.0, 3.0, 10.0])
@pytest.mark.parametrize("d", [2, 3, 10, 500])
def test_marginals_of_a_power_exponential_agree_with_scipys_quadrature(d, beta):
    p = power_exponential(d, beta)
    for z in (0.01, 0.3, 1.0, 1.7, 3.0):
        half = survival(z, d, beta) / 2
        np.testing.assert_allclose(p.marginal_cdf(z), 1 - half, atol=1e-8)
        np.testing.assert_allclose(p.marginal_cdf(-z), half, atol=1e-8)


@pytest.mark.parametrize("d", [1, 2, 3, 10, 500])
def test_quantiles_are_the_inverse_also_far_out(d):
    levels = np.array([1e-9, 1e-4, 0.3, 0.5, 0.500001, 0.9, 0.9999])
    for beta in (0.3, 1.0, 10.0):
        p = power_exponential(d, beta)
        np.testing.assert_allclose(
            p.marginal_cdf(p.marginal_quantile(levels)), levels, rtol=1e-6
        )


def test_in_one_dimension_and_of_a_gaussian_they_are_known():
    normal = scipy.stats.norm.ppf(LEVELS)
    np.testing.assert_allclose(
        power_exponential(7, 1.0).marginal_quantile(LEVELS), normal, 1e-8
    )
    np.testing.assert_allclose(
        power_exponential(1, 0.5).marginal_quantile(LEVELS),
        scipy.stats.laplace.ppf(LEVELS) / np.sqrt(2),
        atol=1e-12,
    )
    p = TraceOneGaussian(jnp.zeros(3), DiagonalGram.trace_one(jnp.ones(3)), 5.0)
    np.testing.assert_allclose(p.marginal_quantile(LEVELS), normal, atol=1e-12)
    np.testing.assert_allclose(p.marginal_cdf(normal), LEVELS, atol=1e-12)


def test_those_of_many_tails_are_interpolated_to_nine_digits():
    beta = np.exp(np.random.default_rng(0).uniform(np.log(0.3), np.log(10), 200))
    for d in (1, 2, 3, 10, 500):
        many = power_exponential(d, beta).marginal_quantile(LEVELS[:, None])
        few = power_exponential(d, beta[:20]).marginal_quantile(LEVELS[:, None])
        assert many.shape == (5, 200)
        np.testing.assert_allclose(many[:, :20], few, atol=1e-9)
    alike = power_exponential(3, np.full(100, 0.7)).marginal_quantile(0.9)
    np.testing.assert_allclose(
        alike, power_exponential(3, 0.7).marginal_quantile(0.9), 1e-12
    )


@pytest.mark.slow
def test_draws_agree_in_float32_and_beyond_both_ends():
    p = power_exponential(3, 0.6, jnp.float32)
    x = np.asarray(p.sample(jax.random.key(0), 20_000))
    u = p.marginal_cdf(x / np.sqrt(np.asarray(p.covariance.diagonal())))
    assert scipy.stats.kstest(u[:, 1], "uniform").pvalue > 0.01
    np.testing.assert_array_equal(p.marginal_cdf([-np.inf, np.inf, -1e9]), [0, 1, 0])
    assert np.isnan(p.marginal_cdf(np.nan))


class BisectedStudentT(TraceOneStudentT):
    """Without the closed forms of its marginals: as a family that has none."""

    radius_law = classmethod(Elliptical.radius_law.__func__)


@sweep("nu", [3.0, 30.0])
def test_any_family_has_marginals_by_the_law_of_its_radius(nu):
    p = BisectedStudentT(jnp.zeros(4), DiagonalGram.trace_one(jnp.ones(4)), 1.0, nu)
    unit = scipy.stats.t.std(nu)
    np.testing.assert_allclose(
        p.marginal_quantile(LEVELS), scipy.stats.t.ppf(LEVELS, nu) / unit, atol=1e-6
    )
    z = np.array([-2.0, 0.0, 0.5])
    np.testing.assert_allclose(
        p.marginal_cdf(z), scipy.stats.t.cdf(z * unit, nu), atol=1e-8
    )


def test_levels_outside_of_0_and_1_are_refused():
    with pytest.raises(
        ValueError, match=r"marginal_quantile\(level=...\)` must lie between 0 and"
    ):
        power_exponential(2, 1.0).marginal_quantile([0.5, 1.0])


def test_a_root_is_found_beside_an_infinite_value():
    found = marginals._find_root(
        lambda x: np.where(x > 5, np.inf, x - 3), np.zeros(1), np.full(1, 9.0)
    )
    np.testing.assert_allclose(found, 3)
