"""Distributions of SPD matrices: densities, draws, marginals and derivatives."""

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
import scipy.stats

import mmlp
from mmlp.distributions.wishart import GammaWishart, MatrixF, Wishart
from mmlp.spd import DiagonalGram, Gram

N_DRAWS = 100_000


def random_spd(d, seed):
    A = np.random.default_rng(seed).standard_normal((d, 2 * d))
    return A @ A.T / (2 * d)


def make_kinds(mean, df, dim):
    return {
        "Wishart": Wishart(mean, df),
        "MatrixF": MatrixF(mean, df, dim + 6.5),
        "GammaWishart": GammaWishart(mean, df, 4.5),
    }


KINDS = ("Wishart", "MatrixF", "GammaWishart")
each_kind = pytest.mark.parametrize("kind", KINDS)


@pytest.mark.parametrize(("d", "df"), [(1, 0.7), (2, 1.5), (3, 7.0), (5, 300.0)])
def test_the_wishart_density_and_entropy_are_those_of_scipy(d, df):
    P = random_spd(d, 0)
    Y = random_spd(d, 1)
    p = Wishart(Gram.from_dense(P), df)
    reference = scipy.stats.wishart(df=df, scale=P / df)
    np.testing.assert_allclose(
        p.log_prob(Gram.from_dense(Y)), reference.logpdf(Y), rtol=1e-11
    )
    np.testing.assert_allclose(p.entropy(), reference.entropy(), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("y", [0.03, 0.7, 12.0])
def test_in_one_dimension_they_are_gamma_and_f_distributions(y):
    Y = Gram.from_dense(np.array([[y]]))
    P = Gram.from_dense(np.array([[2.0]]))
    n = 3.0
    gamma = scipy.stats.gamma(n / 2, scale=2 * 2.0 / n)
    np.testing.assert_allclose(Wishart(P, n).log_prob(Y), gamma.logpdf(y), rtol=1e-12)

    # P F(n, m) (m - 2) / m has mean P
    m = 5.0
    f = scipy.stats.f(n, m, scale=2.0 * (m - 2) / m)
    np.testing.assert_allclose(MatrixF(P, n, m).log_prob(Y), f.logpdf(y), rtol=1e-12)

    # a level with shape a is the same as m = 2 a
    gamma_wishart = GammaWishart(P, n, m / 2)
    np.testing.assert_allclose(gamma_wishart.log_prob(Y), f.logpdf(y), rtol=1e-12)


@pytest.mark.slow
@each_kind
def test_densities_integrate_to_one_in_two_dimensions(kind):
    """Quadrature over log y11, log y22 and the correlation, by the trapezoidal rule."""
    p = make_kinds(Gram.from_dense(random_spd(2, 3)), 6.0, 2)[kind]
    logs = np.linspace(-12, 9, 120)
    angles = np.linspace(-np.pi / 2, np.pi / 2, 82)[1:-1]  # rho = sin(angle)
    a, b, angle = np.meshgrid(logs, logs, angles, indexing="ij")
    off = np.sin(angle) * np.exp((a + b) / 2)
    Y = np.stack([np.exp(a), off, off, np.exp(b)], axis=-1).reshape(-1, 2, 2)
    log_density = np.asarray(jax.vmap(lambda y: p.log_prob(Gram.from_dense(y)))(Y))
    # dy11 dy22 dy12 = e^a e^b e^((a + b) / 2) cos(angle) da db dangle
    log_jacobian = (1.5 * (a + b) + np.log(np.cos(angle))).ravel()
    step = (logs[1] - logs[0]) ** 2 * (angles[1] - angles[0])
    total = np.sum(np.exp(log_density + log_jacobian)) * step
    np.testing.assert_allclose(total, 1, atol=2e-4)


@pytest.mark.slow
@each_kind
def test_draws_have_the_mean_and_the_density(kind):
    """Seed 0; each z-score is beyond 5 with probability 6e-7.

    E[p(Y) / q(Y)] is one for draws Y of q, here a slightly wider distribution.
    """
    d = 3
    P = random_spd(d, 4)
    mean = Gram.from_dense(P)
    p = make_kinds(mean, 12.0, d)[kind]
    Y = p.sample(jax.random.key(0), (N_DRAWS,))
    dense = np.asarray(Y.dense())
    error = dense.std(axis=0) / np.sqrt(N_DRAWS)
    assert np.abs((dense.mean(axis=0) - P) / error).max() < 5

    other = GammaWishart(mean, 11.0, 2.5)
    ratio = np.asarray(jnp.exp(Wishart(mean, 13.0).log_prob(Y) - p.log_prob(Y)))
    assert abs(ratio.mean() - 1) < 5 * ratio.std() / np.sqrt(N_DRAWS)
    Z = other.sample(jax.random.key(1), (N_DRAWS,))
    ratio = np.asarray(jnp.exp(p.log_prob(Z) - other.log_prob(Z)))
    assert abs(ratio.mean() - 1) < 5 * ratio.std() / np.sqrt(N_DRAWS)


@pytest.mark.slow
@each_kind
def test_a_marginal_is_the_distribution_of_a_principal_submatrix(kind):
    """The trace of the submatrix of draws, by a two-sample Kolmogorov-Smirnov test."""
    p = make_kinds(Gram.from_dense(random_spd(4, 5)), 9.0, 4)[kind]
    columns = np.array([0, 2])
    whole = np.asarray(p.sample(jax.random.key(2), (20_000,)).dense())
    part = np.asarray(p.marginal(columns).sample(jax.random.key(3), (20_000,)).dense())
    np.testing.assert_allclose(
        p.marginal(columns).mean.dense(), np.asarray(p.mean)[np.ix_(columns, columns)]
    )
    taken = np.trace(whole[:, columns][:, :, columns], axis1=1, axis2=2)
    own = np.trace(part, axis1=1, axis2=2)
    assert scipy.stats.ks_2samp(taken, own).pvalue > 1e-4


@pytest.mark.parametrize("df", [2.5, 20.0, 1e4, 1e7])
def test_float32_densities_agree_with_50_digits(df):
    """The normalising constant, where the textbook formula cancels for large df."""
    d = 3
    p = Wishart(Gram(jnp.eye(d, dtype=jnp.float32)), np.float32(df))
    value = p.log_prob(Gram(jnp.eye(d, dtype=jnp.float32)))
    assert value.dtype == jnp.float32
    with mpmath.workdps(50):
        a = mpmath.mpf(float(np.float32(df))) / 2
        exact = -d * (d - 1) * mpmath.log(mpmath.pi) / 4
        for i in range(d):
            exact += a * mpmath.log(a) - a - mpmath.loggamma(a - mpmath.mpf(i) / 2)
    np.testing.assert_allclose(float(value), float(exact), rtol=2e-6)


@pytest.mark.parametrize("df", [2.5, 20.0, 1e4, 1e7])
def test_float32_expected_log_determinants_agree_with_50_digits(df):
    d = 3
    p = Wishart(Gram(jnp.eye(d, dtype=jnp.float32)), np.float32(df))
    with mpmath.workdps(50):
        a = mpmath.mpf(float(np.float32(df))) / 2
        exact = -sum(
            mpmath.log(a) - mpmath.digamma(a - mpmath.mpf(i) / 2) for i in range(d)
        )
    np.testing.assert_allclose(float(p.expected_logdet()), float(exact), rtol=1e-5)


@pytest.mark.slow
@each_kind
def test_derivatives_of_the_density_are_differences(kind):
    d = 3
    T = np.linalg.cholesky(random_spd(d, 6)).T
    Y = Gram.from_dense(random_spd(d, 7))
    extra = {"Wishart": (), "MatrixF": (9.5,), "GammaWishart": (3.5,)}[kind]
    make = {"Wishart": Wishart, "MatrixF": MatrixF, "GammaWishart": GammaWishart}[kind]

    def density(parameters):
        T, *rest = parameters
        return make(Gram(T), *rest).log_prob(Y)

    parameters = (jnp.asarray(T), jnp.asarray(7.5), *map(jnp.asarray, extra))
    gradient = jax.grad(density)(parameters)
    rng = np.random.default_rng(8)
    direction = jax.tree.map(lambda x: rng.standard_normal(x.shape), parameters)
    h = 1e-5

    def moved(t):
        return density(jax.tree.map(lambda x, v: x + t * v, parameters, direction))

    difference = (moved(h) - moved(-h)) / (2 * h)
    along = sum(
        jnp.sum(g * v)
        for g, v in zip(
            jax.tree.leaves(gradient), jax.tree.leaves(direction), strict=True
        )
    )
    np.testing.assert_allclose(along, difference, rtol=1e-7)


@pytest.mark.slow
@each_kind
def test_draws_are_differentiable_in_every_parameter(kind):
    """d E[log det Y] / d parameter: the draws' average against differences of it."""
    d = 2

    def expected(parameters):
        T, df, extra = parameters
        mean = Gram(T)
        p = {
            "Wishart": lambda: Wishart(mean, df),
            "MatrixF": lambda: MatrixF(mean, df, extra + d + 1),
            "GammaWishart": lambda: GammaWishart(mean, df, extra),
        }[kind]()
        return jnp.mean(p.sample(jax.random.key(4), (4_000,)).logdet())

    parameters = (jnp.eye(d), jnp.asarray(6.0), jnp.asarray(3.0))
    gradient = jax.grad(expected)(parameters)
    np.testing.assert_allclose(gradient[0], 2 * np.eye(d), atol=1e-10)
    if kind == "Wishart":
        exact = jax.grad(lambda df: Wishart(Gram(jnp.eye(d)), df).expected_logdet())
        np.testing.assert_allclose(gradient[1], exact(6.0), rtol=0.1)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_for_large_second_parameters_they_tend_to_the_wishart_distribution(dtype):
    """What is left is of the order d^2 / m, and rounding does not grow with m."""
    mean = Gram.from_dense(random_spd(3, 9).astype(dtype))
    Y = Gram.from_dense(random_spd(3, 10).astype(dtype))
    limit = Wishart(mean, 8.0).log_prob(Y)
    tolerance = 1e-4 if dtype == np.float32 else 1e-7
    for p in (MatrixF(mean, 8.0, 1e9), GammaWishart(mean, 8.0, 1e9)):
        np.testing.assert_allclose(p.log_prob(Y), limit, atol=tolerance)


def test_the_likelihood_of_a_mean_is_the_directed_stein_divergence():
    Y = Gram.from_dense(random_spd(3, 11))
    P = Gram.from_dense(random_spd(3, 12))
    Q = Gram.from_dense(random_spd(3, 13))
    difference = Wishart(P, 9.0).log_prob(Y) - Wishart(Q, 9.0).log_prob(Y)
    divergence = mmlp.stein(Y, Q, symmetric=False) - mmlp.stein(Y, P, symmetric=False)
    np.testing.assert_allclose(difference, 9.0 / 2 * divergence, rtol=1e-10)


@each_kind
def test_batches_broadcast_and_every_kind_of_mean_works(kind):
    scale = np.array([[1.0, 2.0], [0.5, 3.0]])
    p = make_kinds(DiagonalGram(scale), np.array([3.0, 8.0]), 2)[kind]
    dense = make_kinds(Gram(scale[:, None, :] * np.eye(2)), np.array([3.0, 8.0]), 2)[
        kind
    ]
    Y = Gram.from_dense(random_spd(2, 14))
    np.testing.assert_allclose(p.log_prob(Y), dense.log_prob(Y), rtol=1e-12)
    assert p.batch_shape == (2,)
    assert p.sample(jax.random.key(5), (3,)).shape == (3, 2, 2, 2)
    np.testing.assert_allclose(p[1].log_prob(Y), p.log_prob(Y)[1], rtol=1e-12)


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda mean: Wishart(mean, 1.0), "df"),
        (lambda mean: Wishart(mean, np.nan), "df"),
        (lambda mean: MatrixF(mean, 4.0, 3.0), "scale_df"),
        (lambda mean: GammaWishart(mean, 4.0, 1.0), "level_shape"),
        (lambda mean: Wishart(np.eye(2), 4.0), "mean"),
    ],
)
def test_parameters_that_make_no_sense_are_named(call, argument):
    with pytest.raises(ValueError, match=argument):
        call(Gram(jnp.eye(2)))


@each_kind
def test_they_are_kept_in_files(kind, tmp_path):
    p = make_kinds(Gram.from_dense(random_spd(2, 15)), 5.0, 2)[kind]
    mmlp.save(p, tmp_path / "p.safetensors")
    again = mmlp.load(tmp_path / "p.safetensors")
    Y = Gram.from_dense(random_spd(2, 16))
    np.testing.assert_array_equal(again.log_prob(Y), p.log_prob(Y))
