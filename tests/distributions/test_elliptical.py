"""What `Elliptical` promises: a new family is one file, and all else follows from its radius."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import trace_one_factor
from scipy import stats
from student_t import StudentT

import mmlp
from mmlp import (
    DiagonalGram,
    Elliptical,
    Gram,
    TraceOneGaussian,
    TraceOnePowerExponential,
    kl_divergence,
)

D, NU = 3, 5.0
TAILS = {TraceOneGaussian: (), TraceOnePowerExponential: (0.8, 0.6), StudentT: (NU,)}
each = pytest.mark.parametrize("family", TAILS, ids=lambda family: family.__name__)


def one_of(family, dtype=float, *, eta=2.0):
    rng = np.random.default_rng(0)
    omega = Gram(trace_one_factor(rng, D, 5.0).astype(dtype))
    return family(rng.normal(size=D).astype(dtype), omega, eta, *TAILS[family])


def test_a_new_family_is_the_law_that_it_claims_to_be():
    p = one_of(StudentT)
    dispersion = float(p.eta) * np.asarray(p.omega.dense())
    reference = stats.multivariate_t(np.asarray(p.loc), dispersion, df=NU)
    x = np.random.default_rng(1).normal(size=(20, D)) * 3
    np.testing.assert_allclose(p.log_prob(x), reference.logpdf(x), rtol=1e-11)
    np.testing.assert_allclose(p.entropy(), reference.entropy(), rtol=1e-10)
    np.testing.assert_allclose(p.covariance.dense(), dispersion * NU / (NU - 2), rtol=1e-12)
    radius = stats.f(D, NU)
    r = np.linspace(0.1, 5, 7)
    np.testing.assert_allclose(p.radius_cdf(r), radius.cdf(r**2 / D), rtol=1e-10)


@each
def test_entropy_variance_and_radius_are_those_of_draws(family):
    """200,000 draws, seed 2: five standard errors, a failure in a million."""
    p, n = one_of(family), 200_000
    x = p.sample(jax.random.key(2), n)
    minus_log_p = -np.asarray(p.log_prob(x))
    error = 5 * minus_log_p.std() / n**0.5
    np.testing.assert_allclose(p.entropy(), minus_log_p.mean(), atol=error)
    r = np.asarray(p.mahalanobis(x))
    for level in (0.1, 0.5, 0.9, 0.99):
        quantile = float(p.radius_quantile(level))
        assert abs(np.mean(r <= quantile) - level) < 5 * (level * (1 - level) / n) ** 0.5
    squares = r**2 / D
    error = 5 * squares.std() / n**0.5
    np.testing.assert_allclose(p.variance_factor(), squares.mean(), atol=error)


@each
def test_density_is_that_of_the_radius(family):
    """P(|x - loc| <= r) integrates the generator over shells: d/dr = 2 pi^(d/2)/Gamma(d/2) ..."""
    p, r = one_of(family), jnp.linspace(0.2, 4, 9)
    shells = 4 * np.pi * r**2  # surface of a sphere in three dimensions
    derivative = jax.vmap(jax.grad(p.radius_cdf))(r)
    np.testing.assert_allclose(derivative, shells * jnp.exp(p.log_generator(r**2)), rtol=1e-8)


@each
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_quantiles_are_the_inverse_of_the_law_of_the_radius(family, dtype):
    p = one_of(family, dtype)
    for level, dim in ((0.05, None), (0.5, 2), (0.9, 1), (0.999, None)):
        r = p.radius_quantile(level, dim)
        assert r.dtype == dtype
        np.testing.assert_allclose(
            p.radius_cdf(r, dim), level, rtol=1e-5 if dtype == "float32" else 1e-12
        )


@each
@pytest.mark.parametrize("covariance", [Gram, DiagonalGram], ids=lambda kind: kind.__name__)
def test_from_moments_has_these_moments(family, covariance):
    rng = np.random.default_rng(3)
    V = covariance(rng.normal(size=(4, D, D) if covariance is Gram else (4, D)))
    mean = rng.normal(size=(4, D))
    p = family.from_moments(mean, V, *(np.full(4, t) for t in TAILS[family]))
    assert type(p) is family
    assert type(p.covariance) is covariance
    np.testing.assert_allclose(p.mean, mean)
    np.testing.assert_allclose(p.covariance.dense(), V.dense(), rtol=1e-11)
    np.testing.assert_allclose(p.omega.trace(), 1, rtol=1e-12)
    for parameter, value in zip(p.tail, TAILS[family], strict=True):
        np.testing.assert_array_equal(parameter, value)


@each
def test_kl_from_a_gaussian_is_the_mean_of_draws(family):
    """200,000 draws, seed 4: five standard errors, a failure in a million."""
    q, n = one_of(family), 200_000
    p = TraceOneGaussian(jnp.zeros(D), DiagonalGram.trace_one(jnp.array([1.0, 2.0, 3.0])), 4.0)
    x = q.sample(jax.random.key(4), n)
    terms = np.asarray(q.log_prob(x) - p.log_prob(x))
    np.testing.assert_allclose(kl_divergence(q, p), terms.mean(), atol=5 * terms.std() / n**0.5)


@each
def test_mahalanobis_is_the_distance_by_the_dispersion(family):
    p = one_of(family)
    x = np.array([[1.0, 2.0, 3.0], [np.inf, 0.0, 0.0]])
    e = x[0] - np.asarray(p.loc)
    expected = np.sqrt(e @ np.linalg.solve(np.asarray(p.omega.dense()), e) / float(p.eta))
    np.testing.assert_allclose(p.mahalanobis(x), [expected, np.inf], rtol=1e-11)
    assert p.log_prob(x)[1] == -np.inf
    with pytest.raises(ValueError, match=r"mahalanobis\(x=...\)` must have shape \(..., 3\)"):
        p.mahalanobis(np.ones(2))


def test_a_new_family_works_at_once_in_metrics_plots_and_files(tmp_path):
    from mmlp import metrics, plotting

    one = one_of(StudentT)
    p = jax.vmap(lambda loc: StudentT(loc, one.omega, one.eta, one.nu))(
        np.random.default_rng(5).normal(size=(500, D))
    )
    y = np.asarray(p.sample(jax.random.key(6)))
    pit = metrics.mahalanobis_pit(p, y)
    assert stats.kstest(pit, "uniform").pvalue > 1e-4  # seed 6: a failure in ten thousand
    assert abs(metrics.ellipsoid_coverage(p, y) - 0.9) < 5 * (0.09 / 500) ** 0.5
    assert np.isfinite(metrics.negative_log_likelihood(p, y))
    assert np.isfinite(metrics.energy_score(p, y))
    ax = plotting.plot_ellipses(p, y, columns=(0, 2))
    plotting.plt.close("all")
    share = np.mean(
        [
            patch.contains_point(ax.transData.transform(y[i, [0, 2]]))
            for i, patch in enumerate(ax.patches)
        ]
    )
    assert abs(share - 0.9) < 5 * (0.09 / 500) ** 0.5, "a marginal of Student's t is one"
    mmlp.save(p, tmp_path / "p.safetensors")
    again = mmlp.load(tmp_path / "p.safetensors")
    assert isinstance(again, StudentT)
    assert isinstance(again, Elliptical)
    np.testing.assert_array_equal(again.log_prob(y), p.log_prob(y))


@each
def test_levels_and_covariances_that_make_no_sense_are_refused(family):
    p = one_of(family)
    for level in (0.0, 1.0, 1.5, np.nan):
        with pytest.raises(ValueError, match=r"radius_quantile\(level=...\)` must lie between 0"):
            p.radius_quantile(level)
    with pytest.raises(ValueError, match=r"from_moments\(covariance=...\)` must be an SPD value"):
        family.from_moments(np.zeros(2), np.eye(2), *TAILS[family])
    huge = DiagonalGram(np.full(2, 1e20, "float32"))
    with pytest.raises(ValueError, match=r"trace of .*from_moments\(covariance=...\)` must be fin"):
        family.from_moments(np.zeros(2, "float32"), huge, *TAILS[family])


@each
def test_the_distance_has_a_gradient_at_the_mean(family):
    p = one_of(family)
    np.testing.assert_array_equal(jax.grad(p.mahalanobis)(p.loc), np.zeros(D))
