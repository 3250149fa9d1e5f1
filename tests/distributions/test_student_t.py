"""Student's t: SciPy, 50 digits, the limits, draws, derivatives, float32, and infinite moments."""

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from helpers import directional, trace_one_factor
from scipy import stats
from sweeps import sweep

import mmlp
from mmlp import (
    DiagonalGram,
    Gram,
    LowRankGram,
    TraceOneGaussian,
    TraceOneStudentT,
    kl_divergence,
    metrics,
)
from mmlp.distributions.gamma import digamma_difference, log_scaled_gamma_ratio

DFS = [0.3, 1.0, 2.0, 2.5, 30.0, 1e4, 1e9]
each_df = pytest.mark.parametrize("df", DFS)
each_dtype = pytest.mark.parametrize("dtype", [np.float32, np.float64])
one_dtype = sweep("dtype", [np.float32, np.float64])
log_prob = jax.jit(lambda p, x: p.log_prob(x))


def student_t(d, df, *, dtype=np.float64, eta=2.0):
    rng = np.random.default_rng(d)
    omega = Gram(trace_one_factor(rng, d, 5.0).astype(dtype))
    return TraceOneStudentT(rng.normal(size=d).astype(dtype), omega, eta, df)


def standard(d, df, dtype=np.float64):
    """The t with identity scale matrix about zero."""
    omega = DiagonalGram.trace_one(np.ones(d, dtype))
    return TraceOneStudentT(np.zeros(d, dtype), omega, float(d), df)


def exact_log_density(u, df, d):
    """log p of `standard(d, df)` at squared distance u, to 50 digits."""
    with mpmath.workdps(50):
        u, df = mpmath.mpf(float(u)), mpmath.mpf(float(df))
        half = mpmath.mpf(d) / 2
        log_c = mpmath.loggamma(df / 2 + half) - mpmath.loggamma(df / 2)
        log_c -= half * mpmath.log(mpmath.pi * df)
        return log_c - (df / 2 + half) * mpmath.log1p(u / df)


# -- density and entropy


@pytest.mark.parametrize("d", [1, 3, 10])
@each_df
def test_density_and_entropy_are_those_of_scipy(d, df):
    p = student_t(d, df)
    scale = float(p.eta) * np.asarray(p.omega.dense())
    reference = stats.multivariate_t(np.asarray(p.loc), scale, df=df)
    x = (
        np.random.default_rng(1).normal(size=(20, d))
        * np.geomspace(0.1, 1e3, 20)[:, None]
    )
    # SciPy subtracts two gammaln: its error grows with df
    tolerance = 1e-11 + 1e-15 * df
    np.testing.assert_allclose(
        log_prob(p, x), reference.logpdf(x), rtol=tolerance, atol=tolerance
    )
    if df <= 1e4:
        np.testing.assert_allclose(p.entropy(), reference.entropy(), rtol=1e-10)


@pytest.mark.parametrize("d", [1, 7, 500])
@each_dtype
def test_density_agrees_with_50_digits(d, dtype):
    """Relative to the terms of the density, d and u: a few units in the last place, for all df.

    A difference of two gammaln in float32 is wrong by more than 1 at df = 1e7.
    """
    for df in (1e-2, 0.5, 1.0, 3.0, 50.0, 1e3, 1e5, 1e7, 1e12):
        p = standard(d, df, dtype)
        for share in (0.0, 0.1, 1.0, 9.0):
            x = np.full(d, np.sqrt(share), dtype)
            value = float(log_prob(p, x))
            exact = float(exact_log_density(np.sum(np.float64(x) ** 2), p.df, d))
            scale = d * (1 + share) * (1 + abs(np.log(df)) / df**0.5)
            assert abs(value - exact) < 16 * np.finfo(dtype).eps * scale, (df, share)


@one_dtype
def test_a_huge_df_is_a_gaussian_to_rounding(dtype):
    d = 20
    p = standard(d, 1e18, dtype)  # the difference is of order d^2 / df
    q = TraceOneGaussian(p.loc, p.omega, p.eta)
    x = np.random.default_rng(2).normal(size=(50, d)).astype(dtype)
    tolerance = 20 * np.finfo(dtype).eps
    np.testing.assert_allclose(log_prob(p, x), log_prob(q, x), rtol=tolerance)
    np.testing.assert_allclose(p.entropy(), q.entropy(), rtol=tolerance)
    np.testing.assert_allclose(p.variance_factor(), 1, rtol=tolerance)
    r = np.linspace(2, 7, 9).astype(dtype)
    np.testing.assert_allclose(p.radius_cdf(r), q.radius_cdf(r), rtol=300 * tolerance)
    levels = np.array([0.001, 0.3, 0.975])
    np.testing.assert_allclose(
        p.marginal_quantile(levels), q.marginal_quantile(levels), rtol=1e-9
    )


@each_dtype
def test_ratios_of_gammas_agree_with_50_digits(dtype):
    """Relative to their largest term, which vanishes with the result for large z."""
    z = np.repeat(np.geomspace(1e-3, 1e9, 25), 5).astype(dtype)
    delta = np.tile([0.5, 1.0, 3.5, 50.0, 400.0], 25).astype(dtype)
    ratios = np.asarray(log_scaled_gamma_ratio(z, delta), float)
    slopes = np.asarray(digamma_difference(z, delta), float)
    eps = np.finfo(dtype).eps
    with mpmath.workdps(50):
        for i in range(len(z)):
            a, b = mpmath.mpf(float(z[i])), mpmath.mpf(float(delta[i]))
            ratio = mpmath.loggamma(a + b) - mpmath.loggamma(a) - b * mpmath.log(a)
            slope = mpmath.digamma(a + b) - mpmath.digamma(a)
            assert abs(ratios[i] - float(ratio)) < 16 * eps * (
                float(b) + abs(float(ratio))
            )
            assert abs(slopes[i] / float(slope) - 1) < 16 * eps


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_quantiles_of_the_radius_are_right_beyond_all_moderate_numbers(dtype):
    """They ended at exp(60)."""
    p = TraceOneStudentT(
        np.zeros(2, dtype), DiagonalGram.trace_one(np.ones(2, dtype)), 1.0, df=0.1
    )
    expected = np.sqrt(2 * stats.f(2, float(p.df)).ppf([0.99, 0.9995]))  # 5e18 and 5e31
    rtol = 1e-3 if dtype == "float32" else 1e-10
    for level, radius in zip((0.99, 0.9995), expected, strict=True):
        np.testing.assert_allclose(p.radius_quantile(level), radius, rtol=rtol)
    huge = TraceOneStudentT(p.loc, p.omega, 1.0, df=1e-3)
    assert np.isinf(huge.radius_quantile(0.9))  # 1e1000


@pytest.mark.parametrize("d", [1, 3, 50])
@each_dtype
def test_entropy_agrees_with_50_digits(d, dtype):
    for df in (0.1, 1.0, 3.0, 1e3, 1e7):
        p = standard(d, df, dtype)
        with mpmath.workdps(50):
            half, dim = mpmath.mpf(float(p.df)) / 2, mpmath.mpf(d) / 2
            exact = (half + dim) * (mpmath.digamma(half + dim) - mpmath.digamma(half))
            exact -= exact_log_density(0.0, p.df, d)
        eps = np.finfo(dtype).eps
        assert abs(float(p.entropy()) - float(exact)) < 32 * eps * (
            d + abs(float(exact))
        )


# -- radius and marginals


@each_df
def test_the_radius_is_that_of_an_f_distribution(df):
    d = 4
    p = student_t(d, df)
    r = np.array([0.0, 0.01, 0.5, 1.9, 2.0, 2.1, 5.0, 1e3, np.inf])
    expected = stats.f(d, df).cdf(r**2 / d)
    np.testing.assert_allclose(p.radius_cdf(r), expected, atol=1e-11)
    law = p.radius_law(d, df)
    np.testing.assert_allclose(1 - law.survival(r), expected, atol=1e-11)
    q = np.array([1e-9, 0.1, 0.5, 0.999])
    np.testing.assert_allclose(law.survival(law.inverse_survival(q)), q, rtol=1e-7)
    assert np.isnan(p.radius_cdf(np.nan))


@one_dtype
def test_the_radius_keeps_its_digits_for_large_df(dtype):
    """Where the incomplete beta function of JAX has no digit left in float32."""
    for df in (1e3, 1e5, 1e7, 1e10):
        p = standard(3, df, dtype)
        r = np.array([0.1, 1.0, 2.0, 4.0], dtype)
        law = p.radius_law(3, np.float64(p.df))
        atol = 2e-6 if dtype is np.float32 else 1e-13
        np.testing.assert_allclose(
            p.radius_cdf(r), 1 - law.survival(np.float64(r)), atol=atol
        )
        np.testing.assert_allclose(law.survival(1e-3), 1 - 2.6596144e-10, atol=1e-12)


@sweep("df", [0.3, 3.0, 1e5])
def test_derivatives_of_the_radius_by_r_and_df_are_differences(df):
    def f(log_df, r):
        return standard(3, jnp.exp(log_df)).radius_cdf(r)

    for r in (0.5, 1.6, 3.0):
        by_df, by_r = jax.grad(f, argnums=(0, 1))(np.log(df), r)
        step = 1e-3
        np.testing.assert_allclose(
            by_df,
            directional(lambda t, r=r: f(t, r), np.log(df), 1.0, step),
            atol=2e-10,
        )
        np.testing.assert_allclose(
            by_r, directional(lambda r: f(np.log(df), r), r, 1.0, step), atol=2e-10
        )
    assert jax.grad(f, argnums=1)(np.log(df), 0.0) == 0


@pytest.mark.parametrize("df", [2.01, 3.0, 30.0, 1e6])
@pytest.mark.parametrize("d", [1, 4])
def test_marginals_are_those_of_one_t(d, df):
    p = student_t(d, df)
    levels = np.array([1e-6, 0.05, 0.5, 0.75, 0.9995])
    unit = stats.t.std(df)
    quantiles = stats.t.ppf(levels, df) / unit
    np.testing.assert_allclose(
        p.marginal_quantile(levels), quantiles, rtol=1e-9, atol=1e-12
    )
    np.testing.assert_allclose(p.marginal_cdf(quantiles), levels, rtol=1e-8)
    assert p.marginal_quantile(0.9).shape == ()


def test_marginals_of_a_batch_have_their_own_df():
    df = np.array([2.5, 4.0, 100.0])
    p = TraceOneStudentT(np.zeros((3, 2)), Gram.trace_one(np.eye(2)), 1.0, df)
    z = p.marginal_quantile(np.array([[0.9], [0.99]]))
    assert z.shape == (2, 3)
    np.testing.assert_allclose(
        z[1], stats.t.ppf(0.99, df) / stats.t.std(df), rtol=1e-10
    )


# -- draws


@sweep("df", [0.5, 1.0, 3.0, 50.0], quick=2)
@one_dtype
def test_draws_have_the_radius_the_direction_and_the_marginals_of_the_density(
    df, dtype
):
    """20,000 draws with seed 7: 24 tests at level 1e-4, a random seed fails at a rate of 0.3 %."""
    p = student_t(3, df, dtype=dtype)
    x = p.sample(jax.random.key(7), 20_000)
    assert x.dtype == dtype
    y = np.asarray(p.omega.whiten(x - p.loc), float) / np.sqrt(2.0)
    r = np.linalg.norm(y, axis=1)
    assert stats.kstest(1 - p.radius_law(3, df).survival(r), "uniform").pvalue > 1e-4
    assert stats.kstest(y[:, 0], stats.t(df).cdf).pvalue > 1e-4
    # a coordinate of a uniform direction in three dimensions is uniform
    assert stats.kstest(y[:, 1] / r, stats.uniform(-1, 2).cdf).pvalue > 1e-4


def test_moments_of_draws_are_those_of_the_distribution():
    """200,000 draws with seed 8: five standard errors; 12 numbers, a failure in 10^5."""
    p, n = student_t(3, 9.0), 200_000
    for x in (
        np.asarray(p.sample(jax.random.key(8), n)),
        np.asarray(p.loc)
        + np.sqrt(2.0)
        * np.asarray(p.omega.color(p.numpy_white(np.random.default_rng(8), (n,)))),
    ):
        assert np.all(np.abs(x.mean(axis=0) - p.mean) < 5 * x.std(axis=0) / n**0.5)
        e = x - np.asarray(p.loc)
        products = e[:, :, None] * e[:, None]
        error = 5 * products.std(axis=0) / n**0.5
        np.testing.assert_array_less(
            np.abs(products.mean(axis=0) - p.covariance.dense()), error + 1e-12
        )


@sweep("df", [0.5, 3.0, 200.0])
def test_draws_move_with_df_along_their_quantile(df):
    """d log g / d df at a fixed quantile of the chi-squared g behind a draw."""

    def draw(df):
        return standard(2, df).sample(jax.random.key(3), 50)

    x, slope = jax.jvp(draw, (jnp.array(df),), (jnp.array(1.0),))
    eps = jax.random.normal(jax.random.split(jax.random.key(3))[0], (50, 2))
    g = df * np.asarray((eps / x)[:, 0]) ** 2
    probability = stats.chi2(df).cdf(g)
    h = 1e-4 * df
    ends = [
        np.where(
            probability < 0.5, stats.chi2(v).ppf(probability), stats.chi2(v).isf(q)
        )
        / v
        for v in (df - h, df + h)
        for q in [stats.chi2(df).sf(g)]
    ]
    expected = -0.5 * (np.log(ends[1]) - np.log(ends[0])) / (2 * h)
    np.testing.assert_allclose((slope / x)[:, 0], expected, rtol=1e-5, atol=1e-7)


@pytest.mark.slow
def test_expectations_have_pathwise_derivatives_by_df():
    """E|x|^2 = d df / (df - 2); 40 sets of 5,000 draws, seed 5: 5 standard errors, 1e-6."""

    def mean(df, key):
        return jnp.mean(jnp.sum(standard(2, df).sample(key, 5000) ** 2, axis=-1))

    keys = jax.random.split(jax.random.key(5), 40)
    slopes = jax.jit(jax.vmap(jax.grad(mean), in_axes=(None, 0)))(12.0, keys)
    exact = jax.grad(lambda df: 2 * df / (df - 2))(12.0)
    assert abs(slopes.mean() - exact) < 5 * slopes.std() / 40**0.5
    assert slopes.std() / 40**0.5 < 0.1 * abs(exact)


# -- derivatives of the density


@sweep("df", [0.5, 3.0, 1e4])
def test_derivatives_of_the_density_are_differences(df):
    T = trace_one_factor(np.random.default_rng(0), 3, 5.0)
    x = np.array([0.4, -0.3, 1.0])

    def f(v):
        omega = Gram.trace_one(T * jnp.exp(v[3]) + v[4])
        return TraceOneStudentT(
            v[:3], omega, jnp.exp(v[5]), df * jnp.exp(v[6])
        ).log_prob(x)

    value, gradient = jax.jit(f), jax.jit(jax.grad(f))
    for v in (
        np.array([0.1, 0.2, -0.3, 0.0, 0.05, 0.3, 0.0]),
        np.r_[x, 0.0, 0.05, 0.3, 0.0],
    ):
        for i, direction in enumerate(np.eye(7)):
            expected = directional(value, v, direction, 1e-3)
            np.testing.assert_allclose(gradient(v)[i], expected, rtol=1e-7, atol=1e-9)
        hessian = jax.jit(jax.hessian(f))(v)
        expected = np.stack([directional(gradient, v, e, 1e-3) for e in np.eye(7)])
        np.testing.assert_allclose(hessian, expected, rtol=1e-6, atol=1e-8)


@pytest.mark.slow
def test_at_the_location_gradient_and_curvature_are_right():
    """The gradient is zero, the curvature -(df + d) / df (eta omega)^-1."""
    p = student_t(3, 4.0)
    np.testing.assert_array_equal(jax.grad(p.log_prob)(p.loc), np.zeros(3))
    curvature = jax.hessian(p.log_prob)(p.loc)
    scale = float(p.eta) * np.asarray(p.omega.dense())
    np.testing.assert_allclose(curvature, -7 / 4 * np.linalg.inv(scale), rtol=1e-10)


# -- infinite moments


def test_without_a_covariance_the_calls_that_need_one_are_refused():
    for df in (0.5, 1.0, 2.0):
        p = student_t(2, df)
        assert p.variance_factor() == np.inf
        gaussian = TraceOneGaussian(p.loc, p.omega, p.eta)
        no_covariance = "with this df there is no finite covariance"
        with pytest.raises(
            ValueError, match=f"TraceOneStudentT.covariance`: {no_covariance}"
        ):
            p.covariance  # noqa: B018
        with pytest.raises(ValueError, match=no_covariance):
            kl_divergence(p, gaussian)
        with pytest.raises(
            ValueError, match=f"TraceOneStudentT.from_moments`: {no_covariance}"
        ):
            TraceOneStudentT.from_moments(np.zeros(2), DiagonalGram(np.ones(2)), df)
        for call in (
            lambda p=p: p.marginal_quantile(0.9),
            lambda p=p: p.marginal_cdf(1.0),
        ):
            with pytest.raises(
                ValueError, match=r"infinite for df <= 2, got df = .*scipy.stats.t"
            ):
                call()
        np.testing.assert_array_equal(p.mean, p.loc)
        assert np.isfinite(p.entropy())
    assert np.isfinite(jax.grad(lambda df: student_t(2, df).variance_factor())(2.1))
    mixed = TraceOneStudentT(np.zeros((2, 2)), p.omega, 1.0, np.array([5.0, 1.5]))
    np.testing.assert_allclose(mixed.variance_factor(), [5 / 3, np.inf])


def test_scores_of_a_cauchy_that_need_no_moments():
    """2,000 rows, seed 9: five standard errors, a failure in a million."""
    n = 2000
    p = TraceOneStudentT(np.zeros((n, 2)), Gram.trace_one(np.eye(2)), 3.0, 1.0)
    y = np.asarray(p.sample(jax.random.key(9)))
    assert stats.kstest(metrics.mahalanobis_pit(p, y), "uniform").pvalue > 1e-6
    assert abs(metrics.ellipsoid_coverage(p, y) - 0.9) < 5 * (0.09 / n) ** 0.5
    terms = -np.asarray(p.log_prob(y))
    assert abs(terms.mean() - float(p.entropy()[0])) < 5 * terms.std() / n**0.5


@pytest.mark.parametrize("df", [0.0, -1.0, np.nan, np.inf])
def test_df_that_make_no_sense_are_refused(df):
    with pytest.raises(ValueError, match=r"`TraceOneStudentT\(df=...\)` must be"):
        standard(2, df)


def test_kl_from_a_student_t_points_to_monte_carlo():
    p = student_t(2, 5.0)
    with pytest.raises(
        ValueError, match="for a `TraceOneGaussian` p only, got TraceOneStudentT"
    ):
        kl_divergence(p, p)  # pyright: ignore[reportArgumentType]


# -- shapes, kinds of matrices, files


@sweep("kind", ["gram", "diagonal", "low_rank"], quick=3)
def test_kinds_of_omega_agree_with_their_dense_matrix(kind):
    rng = np.random.default_rng(6)
    omega = {
        "gram": lambda: Gram.trace_one(rng.normal(size=(5, 4))),
        "diagonal": lambda: DiagonalGram.trace_one(rng.normal(size=4)),
        "low_rank": lambda: LowRankGram.trace_one(np.ones(4), rng.normal(size=(2, 4))),
    }[kind]()
    p = TraceOneStudentT(rng.normal(size=4), omega, 3.0, 5.0)
    reference = stats.multivariate_t(
        np.asarray(p.loc), 3 * np.asarray(omega.dense()), df=5
    )
    x = rng.normal(size=(6, 4))
    np.testing.assert_allclose(p.log_prob(x), reference.logpdf(x), rtol=1e-10)
    np.testing.assert_allclose(p.covariance.dense(), 5 * omega.dense(), rtol=1e-10)
    assert type(p.covariance) is type(omega)


@pytest.mark.slow
def test_batches_broadcast_and_an_index_takes_one(tmp_path):
    rng = np.random.default_rng(4)
    omega = Gram.trace_one(rng.normal(size=(3, 1, 2, 2)))
    p = TraceOneStudentT(
        rng.normal(size=(4, 2)), omega, 2.0, rng.uniform(1, 9, size=(3, 4))
    )
    assert p.batch_shape == (3, 4)
    x = p.sample(jax.random.key(0), 5)
    assert x.shape == (5, 3, 4, 2)
    assert p.entropy().shape == p.radius_cdf(1.0).shape == (3, 4)
    np.testing.assert_allclose(
        p[1, 2].log_prob(x[:, 1, 2]), p.log_prob(x)[:, 1, 2], rtol=1e-12
    )
    mmlp.save(p, tmp_path / "p.safetensors")
    again = mmlp.load(tmp_path / "p.safetensors")
    np.testing.assert_array_equal(again.log_prob(x), p.log_prob(x))


def test_density_is_zero_at_infinity_and_nan_stays_nan():
    p = student_t(2, 1.0)
    x = np.array([[np.inf, 0.0], [np.inf, -np.inf], [np.nan, 0.0], [1e150, 0.0]])
    values = np.asarray(p.log_prob(x))
    np.testing.assert_array_equal(values[:2], -np.inf)
    assert np.isnan(values[2])
    assert np.isfinite(values[3])
