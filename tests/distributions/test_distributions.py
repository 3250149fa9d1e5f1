"""The two families: density four ways, samples against density, closed-form KL, float32, checks."""

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
import scipy.special
import scipy.stats
from helpers import equations
from sweeps import sweep

from mmlp import (
    DiagonalGram,
    Gram,
    TraceOneGaussian,
    TraceOnePowerExponential,
    kl_divergence,
)

log_prob = jax.jit(lambda p, x: p.log_prob(x))
sample = jax.jit(lambda p, key, shape=(): p.sample(key, shape), static_argnums=2)
kl = jax.jit(kl_divergence)
value_and_gradient = jax.jit(
    jax.vmap(jax.value_and_grad(lambda x, p: p.log_prob(x)), in_axes=(0, None))
)
gradient = jax.jit(jax.grad(lambda p, x: p.log_prob(x), argnums=1))
gradient_of_sum = jax.jit(jax.grad(lambda p, x: jnp.sum(p.log_prob(x))))

SHAPES = [0.3, 0.5, 1.0, 2.0, 5.0]


def random_factor(d, seed=0, condition=10.0):
    rng = np.random.default_rng(seed)
    U, V = (np.linalg.qr(rng.normal(size=(d, d)))[0] for _ in range(2))
    return U @ np.diag(np.geomspace(1, 1 / condition, d)) @ V


def power_exponential(d, alpha, beta, seed=0, **options):
    loc = np.random.default_rng(seed).normal(size=d)
    return TraceOnePowerExponential(
        loc, Gram.trace_one(random_factor(d, seed)), 2.0, alpha, beta, **options
    )


def integral(f, loc, spread):
    """int f(x) dx over R or R^2.

    The trapezium rule in log r (and the angle) about loc, exponentially convergent.
    """
    t = np.arange(np.log(spread) - 40, np.log(spread) + 12, 0.02)
    if len(loc) == 1:
        directions, weight = np.array([[1.0], [-1.0]]), 1.0
    else:
        angle = np.arange(256) * (2 * np.pi / 256)
        directions, weight = (
            np.stack([np.cos(angle), np.sin(angle)], axis=1),
            2 * np.pi / 256,
        )
    x = loc + np.exp(t)[:, None, None] * directions
    return float(jnp.sum(f(x) * np.exp(len(loc) * t)[:, None]) * 0.02 * weight)


# -- density


@sweep("d", [1, 2])
def test_density_integrates_to_one(d):
    errors = []
    for alpha in SHAPES:
        for beta in SHAPES:
            p = power_exponential(d, alpha, beta)
            errors.append(
                integral(lambda x, p=p: jnp.exp(log_prob(p, x)), np.asarray(p.loc), 1.0)
                - 1
            )
    assert np.max(np.abs(errors)) < 1e-6


@sweep("dtype", ["float32", "float64"])
@pytest.mark.parametrize("omega", [Gram, DiagonalGram])
def test_density_is_zero_at_infinity_and_nan_stays_nan(omega, dtype):
    T = (
        np.array([[1.0, 0.5], [0.0, 2.0]], dtype)
        if omega is Gram
        else np.array([1.0, 2.0], dtype)
    )
    loc, omega, one = (
        np.array([0.5, -1.0], dtype),
        omega.trace_one(T),
        np.ones((), dtype),
    )
    far = [
        [np.inf, 0],
        [0, np.inf],
        [np.inf, np.inf],
        [-np.inf, np.inf],
        [-np.inf, -np.inf],
    ]
    x = np.array([*far, [np.nan, 0], [np.nan, np.inf], [0, 0], [3, -2]], dtype)
    for p in (
        TraceOneGaussian(loc, omega, one),
        TraceOnePowerExponential(loc, omega, one, one, one / 2),
    ):
        values = np.asarray(log_prob(p, x))
        np.testing.assert_array_equal(values[:5], -np.inf)
        assert np.isnan(values[5:7]).all()
        np.testing.assert_allclose(values[7:], log_prob(p, x[7:]), rtol=1e-6)
        if dtype == "float64":
            finite = np.concatenate([x[:5], x[7:]])
            assert all(
                np.isfinite(g).all()
                for g in jax.tree.leaves(gradient_of_sum(p, finite))
            )


def test_density_at_d_1_is_scipy_gennorm():
    x = np.linspace(-30, 30, 101)
    for alpha in SHAPES:
        for beta in SHAPES:
            p = TraceOnePowerExponential(
                np.array([0.7]), Gram(np.eye(1)), 1.9, alpha, beta
            )
            reference = scipy.stats.gennorm.logpdf(
                x, 2 * beta, 0.7, np.sqrt(alpha * 1.9) * 2 ** (1 / (2 * beta))
            )
            np.testing.assert_allclose(log_prob(p, x[:, None]), reference, rtol=1e-11)


@pytest.mark.parametrize("d", [1, 2, 10])
def test_density_at_alpha_beta_one_is_the_multivariate_normal(d):
    T, loc = random_factor(d), np.random.default_rng(1).normal(size=d)
    omega = Gram.trace_one(T)
    x = np.random.default_rng(2).normal(size=(20, d))
    reference = scipy.stats.multivariate_normal(
        loc, 2.5 * np.asarray(omega.dense())
    ).logpdf(x)
    np.testing.assert_allclose(
        log_prob(TraceOneGaussian(loc, omega, 2.5), x), reference, rtol=1e-12
    )
    np.testing.assert_allclose(
        log_prob(TraceOnePowerExponential(loc, omega, 2.5, 1.0, 1.0), x),
        reference,
        rtol=1e-12,
    )


@pytest.mark.parametrize("d", [3, 10, pytest.param(100, marks=pytest.mark.slow)])
def test_density_agrees_with_high_precision(d):
    with mpmath.workdps(40):
        T = random_factor(d)
        x = np.random.default_rng(3).normal(size=d)
        M = mpmath.matrix(T.tolist())
        LU, _ = mpmath.mp.LU_decomp(M.T)
        log_det = 2 * sum(mpmath.log(abs(LU[i, i])) for i in range(d))
        trace = sum(entry**2 for entry in M)
        y = mpmath.lu_solve(M.T, mpmath.matrix(x.tolist()))
        t = trace * sum(entry**2 for entry in y)
        for alpha, beta, eta in [
            (0.7, 0.3, 1.3),
            (1.2, 1.4, 0.01),
            (3.0, 5.0, 40.0 * d**2),
        ]:
            a, b, e = mpmath.mpf(alpha), mpmath.mpf(beta), mpmath.mpf(eta)
            half = mpmath.mpf(d) / 2
            log_c = (
                mpmath.log(b)
                + mpmath.loggamma(half)
                - half * mpmath.log(mpmath.pi)
                - mpmath.loggamma(half / b)
            )
            log_c -= half / b * mpmath.log(2) + half * mpmath.log(a)
            exact = (
                log_c
                - (d * mpmath.log(e) + log_det - d * mpmath.log(trace)) / 2
                - (t / (a * e)) ** b / 2
            )
            p = TraceOnePowerExponential(
                np.zeros(d), Gram.trace_one(T), eta, alpha, beta
            )
            assert abs(float(log_prob(p, x)) / float(exact) - 1) < 1e-9


def test_large_beta_tends_to_the_uniform_ball():
    p = TraceOnePowerExponential(np.zeros(2), Gram.trace_one(np.eye(2)), 2.0, 1.0, 1e6)
    np.testing.assert_allclose(
        log_prob(p, np.array([0.5, 0.5])), -np.log(np.pi), rtol=1e-5
    )


@pytest.mark.parametrize("d", [1, 2])
def test_entropy_is_the_integral_of_minus_p_log_p(d):
    for beta in (0.5, 1.0, 3.0):
        p = power_exponential(d, 0.8, beta)
        exact = integral(
            lambda x, p=p: -jnp.exp(log_prob(p, x)) * log_prob(p, x),
            np.asarray(p.loc),
            1.0,
        )
        np.testing.assert_allclose(p.entropy(), exact, atol=1e-8)
    q = TraceOneGaussian(p.loc, p.omega, p.eta)
    np.testing.assert_allclose(
        q.entropy(), power_exponential(d, 1.0, 1.0).entropy(), rtol=1e-12
    )


@sweep("beta", [0.6, 0.9, 1.0, 1.5, 4.0], quick=2)
def test_gradient_at_loc_is_zero_above_one_half(beta):
    p = power_exponential(3, 1.3, beta)
    by_x = gradient(p, p.loc)
    by_loc = jax.grad(
        lambda loc: TraceOnePowerExponential(loc, p.omega, p.eta, 1.3, beta).log_prob(
            p.loc
        )
    )(p.loc)
    np.testing.assert_array_equal([by_x, by_loc], np.zeros((2, 3)))
    others = jax.grad(lambda p: log_prob(p, p.loc))(p)
    assert all(np.all(np.isfinite(x)) for x in jax.tree.leaves(others))
    steps = [np.linalg.norm(gradient(p, p.loc + h)) for h in (1e-3, 1e-6)]
    np.testing.assert_allclose(steps[1] / steps[0], 1e-3 ** (2 * beta - 1), rtol=1e-6)


@pytest.mark.parametrize("beta", [0.3, 0.5])
def test_gradient_at_loc_is_zero_by_convention_at_the_cusp(beta):
    p = power_exponential(3, 1.3, beta)
    np.testing.assert_array_equal(gradient(p, p.loc), np.zeros(3))
    steps = [np.linalg.norm(gradient(p, p.loc + h)) for h in (1e-3, 1e-6)]
    np.testing.assert_allclose(steps[1] / steps[0], 1e-3 ** (2 * beta - 1), rtol=1e-6)


# -- samples


@sweep("d", [10, 1, 2, 100])
@sweep("beta", [0.3, 0.5, 1.0, 1.5, 5.0, 50.0], quick=3)
def test_samples_agree_with_the_density(beta, d):
    """Radius, direction and second moment of 20000 draws.

    72 tests at level 1e-4: a random seed fails at a rate of 0.7 %.
    """
    p, n = power_exponential(d, 1.7, beta), 20_000
    x = sample(p, jax.random.key(10 * d + int(beta)), (n,))
    y = np.asarray(p.omega.whiten(x - p.loc)) / np.sqrt(1.7 * 2.0)
    r2 = np.sum(y**2, axis=1)
    gamma = np.exp(beta * np.log(r2)) / 2
    assert (
        scipy.stats.kstest(gamma, scipy.stats.gamma(d / (2 * beta)).cdf).pvalue > 1e-4
    )
    v = y @ np.random.default_rng(4).normal(size=d)
    v /= np.linalg.norm(np.random.default_rng(4).normal(size=d)) * np.sqrt(r2)
    if d == 1:
        assert scipy.stats.binomtest(int(np.sum(v > 0)), n).pvalue > 1e-4
    else:  # the cosine to a fixed direction: (1 + cos)/2 is Beta((d-1)/2, (d-1)/2)
        assert (
            scipy.stats.kstest(
                (1 + v) / 2, scipy.stats.beta((d - 1) / 2, (d - 1) / 2).cdf
            ).pvalue
            > 1e-4
        )
    nu = (
        2 ** (1 / beta)
        * np.exp(
            scipy.special.loggamma((d + 2) / (2 * beta))
            - scipy.special.loggamma(d / (2 * beta))
        )
        / d
    )
    np.testing.assert_allclose(
        p.covariance.dense(), 1.7 * 2.0 * nu * p.omega.dense(), rtol=1e-11
    )
    assert abs(np.mean(r2) - d * nu) < 3.9 * np.std(r2) / np.sqrt(n)  # two-sided 1e-4


def test_gaussian_samples_agree_with_the_density():
    """Two tests at level 1e-4."""
    p = TraceOneGaussian(
        np.array([1.0, -2.0, 0.5]), Gram.trace_one(random_factor(3)), 2.0
    )
    y = p.omega.whiten(sample(p, jax.random.key(0), (20_000,)) - p.loc) / np.sqrt(2.0)
    assert (
        scipy.stats.kstest(np.sum(y**2, axis=1), scipy.stats.chi2(3).cdf).pvalue > 1e-4
    )
    assert scipy.stats.kstest(np.ravel(y), scipy.stats.norm.cdf).pvalue > 1e-4
    np.testing.assert_allclose(p.covariance.dense(), 2 * p.omega.dense(), rtol=1e-12)


@pytest.mark.parametrize(("d", "beta"), [(2, 1.5), (10, 0.5)])
def test_normal_radius_is_the_absolute_value_of_the_papers_normal(d, beta):
    """KS at level 1e-4.

    A fifth of the paper's draws at d = 2, beta = 1.5 is negative; none is dropped.
    """
    p, n = power_exponential(d, 1.0, beta, radius="normal"), 20_000
    y = p.omega.whiten(sample(p, jax.random.key(1), (n,)) - p.loc) / np.sqrt(2.0)
    folded = scipy.stats.foldnorm(np.sqrt(d / (2 * beta)), scale=np.sqrt(2 * d / beta))
    assert scipy.stats.kstest(np.sum(y**2, axis=1) ** beta, folded.cdf).pvalue > 1e-4
    if d == 2:
        assert scipy.stats.norm.cdf(-np.sqrt(d / (2 * beta))) == pytest.approx(
            0.207, abs=1e-3
        )


@pytest.mark.slow
def test_tiny_shapes_do_not_underflow_in_float32():
    p = TraceOnePowerExponential(
        np.zeros(1, np.float32), Gram(np.eye(1, dtype=np.float32)), 1.0, 1.0, 50.0
    )
    x, slope = jax.jvp(
        lambda beta: TraceOnePowerExponential(p.loc, p.omega, 1.0, 1.0, beta).sample(
            jax.random.key(2), (100_000,)
        ),
        (p.beta,),
        (jnp.ones_like(p.beta),),
    )
    assert x.dtype == slope.dtype == jnp.float32
    assert np.all(np.isfinite(x))
    assert np.all(x != 0)
    assert np.all(np.isfinite(slope))
    assert np.all(slope != 0)


# -- KL


@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("beta", [None, 0.6, 1.0, 3.0])
def test_kl_from_a_gaussian_is_the_integral(d, beta):
    q = power_exponential(d, 0.8, beta or 1.0)
    q = q if beta else TraceOneGaussian(q.loc, q.omega, q.eta)
    p = TraceOneGaussian(
        np.full(d, 0.3), DiagonalGram.trace_one(np.arange(1.0, d + 1)), 3.0
    )
    exact = integral(
        lambda x: jnp.exp(log_prob(q, x)) * (log_prob(q, x) - log_prob(p, x)),
        np.asarray(q.loc),
        1.0,
    )
    np.testing.assert_allclose(kl(q, p), exact, atol=1e-8)


def grams(d, seed):
    return [
        Gram.trace_one(random_factor(d, seed, 1e3)),
        DiagonalGram.trace_one(np.geomspace(1, 10 + seed, d)),
    ]


@pytest.mark.parametrize("i", [0, 1])
@pytest.mark.parametrize("j", [0, 1])
def test_gaussian_kl_agrees_with_dense_float64(i, j):
    d = 8
    q = TraceOneGaussian(np.ones(d), grams(d, 1)[i], 2.0)
    p = TraceOneGaussian(np.zeros(d), grams(d, 2)[j], 3.0)
    S_q, S_p = (np.asarray(x.covariance.dense()) for x in (q, p))
    inverse = np.linalg.inv(S_p)
    log_det = np.linalg.slogdet(S_p)[1] - np.linalg.slogdet(S_q)[1]
    exact = (
        np.trace(inverse @ S_q) + np.ones(d) @ inverse @ np.ones(d) - d + log_det
    ) / 2
    np.testing.assert_allclose(kl(q, p), exact, rtol=1e-10)


@sweep("i", [0, 1])
@pytest.mark.parametrize("j", [0, 1])
@sweep("beta", [0.6, None, 2.0])
def test_kl_agrees_with_monte_carlo(i, j, beta):
    """12 tests at 4.5 standard errors (7e-6 each): fails for one seed in 10^4."""
    d = 10
    q = TraceOneGaussian(np.ones(d), grams(d, 1)[i], 2.0)
    q = TraceOnePowerExponential(q.loc, q.omega, q.eta, 1.3, beta) if beta else q
    p = TraceOneGaussian(np.zeros(d), grams(d, 2)[j], 3.0)
    x = sample(q, jax.random.key(7), (50_000,))
    terms = log_prob(q, x) - log_prob(p, x)
    assert abs(np.mean(terms) - kl(q, p)) < 4.5 * np.std(terms) / np.sqrt(len(terms))


@pytest.mark.slow
def test_kl_broadcasts_batches():
    d, rng = 3, np.random.default_rng(5)
    T = rng.normal(size=(4, d, d))
    q = TraceOnePowerExponential(
        rng.normal(size=(5, 1, d)), Gram.trace_one(T), 1.0, 1.0, np.array([[0.7]])
    )
    p = TraceOneGaussian(np.zeros(d), Gram.trace_one(np.eye(d)), 3.0)
    batched = kl_divergence(q, p)
    assert batched.shape == (5, 4)
    one = TraceOnePowerExponential(q.loc[2, 0], Gram.trace_one(T[3]), 1.0, 1.0, 0.7)
    np.testing.assert_allclose(batched[2, 3], kl(one, p), rtol=1e-12)
    r = TraceOneGaussian(np.zeros((5, 1, d)), Gram.trace_one(T), 2.0)
    assert kl_divergence(p, r).shape == (5, 4)
    np.testing.assert_allclose(
        kl(p, r)[1, 2], kl(p, TraceOneGaussian(p.loc, Gram.trace_one(T[2]), 2.0))
    )


def test_kl_from_a_power_exponential_points_to_monte_carlo():
    q = power_exponential(2, 1.0, 1.0)
    with pytest.raises(ValueError, match="Monte Carlo"):
        kl_divergence(q, q)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="dimension, got 2 and 3"):
        kl_divergence(q, TraceOneGaussian(np.zeros(3), Gram.trace_one(np.eye(3)), 1.0))


# -- precision


@sweep("seed", range(5))
@pytest.mark.parametrize("beta", [None, 0.6, 1.4])
def test_float32_holds_at_condition_number_1e10(beta, seed):
    d = 20
    T = np.float32(random_factor(d, seed, 1e5))

    def distribution(dtype):
        loc, omega = (
            np.linspace(-1, 1, d).astype(dtype),
            Gram.trace_one(jnp.asarray(T, dtype)),
        )
        return (
            TraceOnePowerExponential(loc, omega, 2.0, 1.2, beta)
            if beta
            else TraceOneGaussian(loc, omega, 2.0)
        )

    p, reference = distribution(np.float32), distribution(np.float64)
    x = sample(p, jax.random.key(seed), (100,))
    value, by_x = value_and_gradient(x, p)
    assert x.dtype == value.dtype == by_x.dtype == jnp.float32
    by_parameters = gradient_of_sum(p, x)
    assert all(
        np.all(np.isfinite(a))
        for a in (x, value, by_x, *jax.tree.leaves(by_parameters))
    )
    exact, exact_by_x = value_and_gradient(jnp.asarray(x, jnp.float64), reference)
    np.testing.assert_allclose(value, exact, rtol=1e-3)
    relative = np.linalg.norm(by_x - exact_by_x, axis=1) / np.linalg.norm(
        exact_by_x, axis=1
    )
    assert np.median(relative) < 1e-2


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("diagonal", [False, True])
def test_a_thousand_dimensions(dtype, diagonal):
    d = 1000
    scale = np.geomspace(1, 30, d)
    omega = DiagonalGram.trace_one(scale.astype(dtype))
    omega = omega if diagonal else Gram(omega.factor)
    for beta in (0.3, 1.0, 5.0):
        p = TraceOnePowerExponential(np.zeros(d, dtype), omega, float(d), 1.0, beta)
        x = sample(p, jax.random.key(0), (4,))
        assert x.dtype == dtype
        wide = TraceOnePowerExponential(
            np.zeros(d), DiagonalGram.trace_one(scale), float(d), 1.0, beta
        )
        np.testing.assert_allclose(
            log_prob(p, x), log_prob(wide, np.float64(x)), rtol=1e-5
        )
        np.testing.assert_allclose(
            p.covariance.trace(), wide.covariance.trace(), rtol=1e-5
        )


def test_dtype_follows_the_arrays_not_python_numbers():
    omega = Gram.trace_one(np.eye(2, dtype=np.float32))
    p = TraceOnePowerExponential(np.zeros(2, np.float32), omega, 1, 1.0, 2)
    for x in (
        log_prob(p, p.loc),
        sample(p, jax.random.key(0)),
        p.mean,
        p.covariance.dense(),
        p.entropy(),
    ):
        assert x.dtype == jnp.float32


@pytest.mark.parametrize("shape", [5, np.int64(5), [5]])
def test_a_number_of_draws_is_short_for_a_shape(shape):
    p, key = (
        TraceOneGaussian(np.zeros(2), Gram.trace_one(np.eye(2)), 1.0),
        jax.random.key(0),
    )
    np.testing.assert_array_equal(p.sample(key, shape), p.sample(key, (5,)))
    for wrong in (2.5, "5", (-1,), None):
        with pytest.raises(
            ValueError,
            match=r"TraceOneGaussian\.sample\(shape=...\)` must be a whole number or a tuple",
        ):
            p.sample(key, wrong)


# -- batches and compilation


@sweep("kind", [Gram, DiagonalGram])
def test_batch_dimensions_broadcast_and_agree_with_vmap(kind):
    rng, d = np.random.default_rng(6), 3
    omega = kind.trace_one(rng.normal(size=(4, d, d) if kind is Gram else (4, d)))
    eta, alpha, beta = (
        np.exp(rng.normal(size=(5, 1))),
        np.exp(rng.normal(size=4)),
        np.exp(rng.normal(size=(5, 4))),
    )
    p = TraceOnePowerExponential(rng.normal(size=d), omega, eta, alpha, beta)
    assert (p.batch_shape, p.dim, p.mean.shape) == ((5, 4), d, (5, 4, d))
    assert p.entropy().shape == (5, 4)
    assert p.covariance.dense().shape == (5, 4, d, d)
    x = p.sample(jax.random.key(0), (6,))
    assert x.shape == (6, 5, 4, d)
    values = p.log_prob(x)
    assert values.shape == (6, 5, 4)
    for i, j in [(0, 0), (3, 2), (4, 3)]:
        one = TraceOnePowerExponential(
            p.loc,
            jax.tree.map(lambda a, j=j: a[j], omega),
            eta[i, 0],
            alpha[j],
            beta[i, j],
        )
        np.testing.assert_allclose(
            values[:, i, j], one.log_prob(x[:, i, j]), rtol=1e-12
        )
    rows = jax.jit(
        jax.vmap(
            lambda e, b, x: TraceOnePowerExponential(
                p.loc, omega, e, alpha, b
            ).log_prob(x)
        )
    )(eta, beta, x[0])
    np.testing.assert_allclose(rows, values[0], rtol=1e-12)


@pytest.mark.slow
def test_omega_of_batch_one_stretches():
    T = random_factor(2)
    p = TraceOneGaussian(np.zeros((5, 2)), Gram.trace_one(T[None]), 1.0)
    q = TraceOneGaussian(np.zeros(2), Gram.trace_one(T), 1.0)
    x = p.sample(jax.random.key(0), (3,))
    assert x.shape == (3, 5, 2)
    np.testing.assert_allclose(p.log_prob(x), q.log_prob(x), rtol=1e-12)
    np.testing.assert_allclose(kl_divergence(p, q), np.zeros(5), atol=1e-12)


def primitives(function, *args):
    return [e.primitive.name for e in equations(jax.make_jaxpr(function)(*args).jaxpr)]


def test_density_factorises_once():
    def log_prob(T, x):
        return TraceOneGaussian(jnp.zeros(4), Gram.trace_one(T), 1.0).log_prob(x)

    program = (
        jax.jit(jax.value_and_grad(log_prob))
        .lower(random_factor(4), np.ones(4))
        .as_text()
    )
    assert program.count("@lapack_dgetrf") == 1


# -- bad input


@pytest.mark.parametrize("name", ["eta", "alpha", "beta"])
@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, np.inf, np.array([1.0, -2.0])])
def test_nonpositive_scalars_are_refused(name, value):
    arguments = {"eta": 1.0, "alpha": 1.0, "beta": 1.0, name: value}
    with pytest.raises(
        ValueError,
        match=rf"TraceOnePowerExponential\({name}=...\)` must be (positive|finite)",
    ):
        TraceOnePowerExponential(np.zeros(2), Gram.trace_one(np.eye(2)), **arguments)
    if name == "eta":
        with pytest.raises(
            ValueError, match=r"TraceOneGaussian\(eta=...\)` must be (positive|finite)"
        ):
            TraceOneGaussian(np.zeros(2), Gram.trace_one(np.eye(2)), value)


def test_mismatched_dimensions_are_refused():
    omega = Gram.trace_one(np.eye(2))
    with pytest.raises(
        ValueError,
        match=r"loc=...\)` must have shape \(..., 2\) to fit omega, got shape \(3,\)",
    ):
        TraceOneGaussian(np.zeros(3), omega, 1.0)
    with pytest.raises(
        ValueError,
        match=r"cannot broadcast batch dimensions loc \(3,\), omega \(\), eta \(4,\)",
    ):
        TraceOneGaussian(np.zeros((3, 2)), omega, np.ones(4))
    with pytest.raises(
        ValueError, match=r"log_prob\(x=...\)` must have shape \(..., 2\)"
    ):
        TraceOneGaussian(np.zeros(2), omega, 1.0).log_prob(np.zeros(3))
    with pytest.raises(
        ValueError,
        match="must be an SPD value such as Gram or DiagonalGram, got ndarray",
    ):
        TraceOneGaussian(np.zeros(2), np.eye(2) / 2, 1.0)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match=r'must be "gamma" or "normal", got'):
        TraceOnePowerExponential(np.zeros(2), omega, 1.0, 1.0, 1.0, radius="exact")


@pytest.mark.parametrize("kind", [Gram, DiagonalGram])
def test_trace_must_be_one_to_a_thousandth(kind):
    root = np.eye(2) / np.sqrt(2) if kind is Gram else np.ones(2) / np.sqrt(2)
    TraceOneGaussian(np.zeros(2), kind(root * np.sqrt(1.0009)), 1.0)
    for factor in (1.0011, 0.9989, 2.0):
        with pytest.raises(ValueError, match=r"must have trace one to 0\.001, got"):
            TraceOneGaussian(np.zeros(2), kind(root * np.sqrt(factor)), 1.0)


@pytest.mark.slow
def test_checks_cost_compiled_code_nothing():
    def build(loc, T, eta, alpha, beta):
        return TraceOnePowerExponential(loc, Gram(T), eta, alpha, beta)

    assert primitives(build, np.zeros(2), np.eye(2), 1.0, 1.0, 1.0) == []
    bad = jax.jit(build)(
        np.zeros(2), np.eye(2), -1.0, 1.0, 1.0
    )  # not refused, and not repaired
    assert np.isnan(bad.log_prob(np.ones(2)))


@pytest.mark.slow
def test_curvature_at_loc_is_the_gaussian_one_at_beta_one():
    omega = Gram.trace_one(np.array([[1.0, 0.3], [0.0, 0.5]]))
    power = TraceOnePowerExponential(np.zeros(2), omega, 2.0, 1.0, 1.0)
    gaussian = TraceOneGaussian(np.zeros(2), omega, 2.0)
    np.testing.assert_allclose(
        jax.hessian(power.log_prob)(jnp.zeros(2)),
        jax.hessian(gaussian.log_prob)(jnp.zeros(2)),
    )
