"""The gamma radius.

Tests of its derivative by the shape, and pathwise gradients of expectations through `sample`.
"""

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
import scipy.special
from sweeps import sweep

from mmlp import Gram, TraceOneGaussian, TraceOnePowerExponential
from mmlp.distributions.gamma import (
    a_log_gamma_derivative,
    a_log_gamma_draw,
    log_gamma_ratio,
)

derivative = jax.jit(a_log_gamma_derivative)


def log_quantile(a, probability, upper):
    """log x at P(a, x) = probability (or 1 - P, `upper`), also where x underflows.

    There P = x^a / Gamma(a + 1).
    """
    x = np.where(
        upper,
        scipy.special.gammainccinv(a, probability),
        scipy.special.gammaincinv(a, probability),
    )
    tiny = (np.log(probability) + scipy.special.gammaln(a + 1)) / a
    return np.where(x > 1e-250, np.log(np.maximum(x, 1e-300)), tiny)


def exact_derivative(a, s):
    """s - a (dP/da) / (x p) by a central difference in 40 digits."""
    with mpmath.workdps(40):
        a, s = mpmath.mpf(a), mpmath.mpf(s)
        x, h, upper = (
            mpmath.exp(s),
            a * mpmath.mpf(10) ** -13,
            s > mpmath.digamma(a + 1),
        )

        def probability(a):
            return (
                mpmath.gammainc(a, x, mpmath.inf, regularized=True)
                if upper
                else mpmath.gammainc(a, 0, x, regularized=True)
            )

        slope = (probability(a + h) - probability(a - h)) / (2 * h)
        return float(
            s
            + a
            * (slope if upper else -slope)
            / mpmath.exp(a * s - x - mpmath.loggamma(a))
        )


@pytest.mark.parametrize("a", [1e-4, 1e-2, 0.3, 1.0, 2.5, 10.0, 200.0, 2000.0, 1e4])
def test_shape_derivative_agrees_with_40_digits(a):
    """The accuracy that the samples rely on, relative to 1 + |dy/da|.

    1e-12 in float64, 1e-5 in float32.
    """
    for probability in (1e-12, 1e-3, 0.3, 0.5, 0.7, 0.999, 1 - 1e-12):
        upper = probability > 0.5
        s = float(log_quantile(a, 1 - probability if upper else probability, upper))
        for dtype, tolerance in ((np.float64, 1e-12), (np.float32, 1e-5)):
            a_, s_ = dtype(a), dtype(s)
            value, exact = (
                derivative(jnp.asarray(a_), jnp.asarray(s_)),
                exact_derivative(float(a_), float(s_)),
            )
            assert value.dtype == dtype
            assert abs(float(value) - exact) < tolerance * (1 + abs(exact))


def test_shape_derivative_of_tiny_draws_is_its_limit():
    """As x -> 0, ds/da tends to (psi(a + 1) - s) / a, so that d(a s)/da tends to psi(a + 1).

    The test is where x underflows.
    """
    a, s = jnp.array([0.01, 0.1, 1.0]), jnp.array([-2000.0, -900.0, -800.0])
    np.testing.assert_allclose(
        derivative(a, s), scipy.special.digamma(a + 1), rtol=1e-14
    )


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    "d", [1, *(pytest.param(d, marks=pytest.mark.slow) for d in (2, 10, 100))]
)
@sweep("beta", [0.3, 0.5, 1.0, 1.5, 5.0, 50.0], quick=2)
def test_sample_derivative_by_beta_agrees_with_the_exact_quantile(beta, d, dtype):
    """d log r / d beta at a fixed quantile of r, through `sample`, within 1e-4: 200 draws each."""

    def draw(beta):
        p = TraceOnePowerExponential(
            jnp.zeros(d, dtype), Gram.trace_one(jnp.eye(d, dtype=dtype)), 1.0, 1.0, beta
        )
        return p.sample(jax.random.key(d), (200,))

    x, slope = jax.jit(lambda b: jax.jvp(draw, (b,), (jnp.ones_like(b),)))(
        jnp.asarray(beta, dtype)
    )
    x, slope = np.float64(x), np.float64(slope)
    log_r = np.log(np.linalg.norm(x, axis=1)) + 0.5 * np.log(d)
    along = np.sum(slope * x, axis=1) / np.sum(
        x * x, axis=1
    )  # x moves along itself: d log r / d beta
    a, s, h = d / (2 * beta), 2 * beta * log_r - np.log(2), 1e-5 * beta
    upper = s > np.log(a)
    x = np.exp(s)
    direct = np.where(
        upper, scipy.special.gammaincc(a, x), scipy.special.gammainc(a, x)
    )
    probability = np.where(
        x > 1e-250, direct, np.exp(a * s - scipy.special.gammaln(a + 1))
    )
    ends = [
        (np.log(2) + log_quantile(d / (2 * b), probability, upper)) / (2 * b)
        for b in (beta + h, beta - h)
    ]
    difference = (ends[0] - ends[1]) / (2 * h)
    scale = (
        np.abs(difference) + np.sqrt(np.mean(difference**2)) * 1e-2
    )  # it changes sign: not relative to zero
    assert np.max(np.abs(along - difference) / scale) < 1e-4


def test_second_derivative_knows_that_the_draw_depends_on_the_shape():
    def log_draw(a):
        return a_log_gamma_draw(jax.random.key(0), a)

    second = jax.jit(jax.grad(jax.grad(log_draw)))(0.8)
    s, h = float(log_draw(jnp.array(0.8))) / 0.8, 1e-4
    P = scipy.special.gammainc(0.8, np.exp(s))
    f = [a * np.log(scipy.special.gammaincinv(a, P)) for a in (0.8 - h, 0.8, 0.8 + h)]
    assert float(second) == pytest.approx((f[0] - 2 * f[1] + f[2]) / h**2, rel=1e-4)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_log_gamma_ratio_does_not_cancel(dtype):
    """Relative to 1 + |ratio|.

    3e-15 in float64, 2e-6 in float32, where a difference of two gammaln loses 1e-3.
    """
    z, delta = (
        x.ravel()
        for x in np.meshgrid(np.geomspace(1e-3, 1e4, 30), np.geomspace(1e-3, 20, 20))
    )
    z, delta = z.astype(dtype), delta.astype(dtype)
    with mpmath.workdps(30):
        pairs = [
            (mpmath.mpf(float(a)), mpmath.mpf(float(b)))
            for a, b in zip(z, delta, strict=True)
        ]
        exact = np.array(
            [float(mpmath.loggamma(a + b) - mpmath.loggamma(a)) for a, b in pairs]
        )
    error = np.abs(jax.jit(log_gamma_ratio)(z, delta) - exact) / (1 + np.abs(exact))
    assert np.max(error) < (3e-15 if dtype is np.float64 else 2e-6)


# -- expectations

B = np.array([[1.0, 0.3, -0.2], [0.3, 2.0, 0.4], [-0.2, 0.4, 0.5]])
T = np.array([[1.0, 0.4, -0.3], [0.2, 0.8, 0.5], [0.0, -0.1, 0.6]])
MU = np.array([0.3, -1.0, 2.0])


def build(parameters):
    omega = Gram.trace_one(parameters["T"])
    if "beta" in parameters:
        return TraceOnePowerExponential(
            parameters["mu"],
            omega,
            parameters["eta"],
            parameters["alpha"],
            parameters["beta"],
        )
    return TraceOneGaussian(parameters["mu"], omega, parameters["eta"])


def closed_form(parameters):
    """E[x' B x] = mu' B mu + tr(B V)."""
    p = build(parameters)
    return parameters["mu"] @ B @ parameters["mu"] + jnp.sum(B * p.covariance.dense())


def chunk_gradients(parameters, chunks, size):
    """The gradient of the mean of x' B x over each of `chunks` independent sets of `size` draws."""

    def mean(parameters, key):
        x = build(parameters).sample(key, (size,))
        return jnp.mean(jnp.einsum("ni,ij,nj->n", x, B, x))

    keys = jax.random.split(jax.random.key(11), chunks)
    return jax.jit(lambda p: jax.lax.map(lambda key: jax.grad(mean)(p, key), keys))(
        parameters
    )


def check_gradients(parameters, chunks, size):
    """Every component within 4.5 standard errors.

    3 to 15 components, 7e-6 each, fail for one seed in 10^4.
    """
    exact, estimates = (
        jax.grad(closed_form)(parameters),
        chunk_gradients(parameters, chunks, size),
    )
    for name, values in estimates.items():
        error = np.abs(np.mean(values, axis=0) - exact[name])
        assert np.all(
            error <= 4.5 * np.std(values, axis=0, ddof=1) / np.sqrt(chunks)
        ), name
        assert np.all(error <= 0.05 * (1 + np.abs(exact[name]))), (
            name
        )  # the errors are small, not only their bars wide


@pytest.mark.slow
@pytest.mark.parametrize("beta", [None, 0.4, 1.0, 3.0, 20.0])
def test_pathwise_gradients_agree_with_the_closed_form_at_a_million_samples(beta):
    parameters = {"mu": MU, "T": T, "eta": jnp.array(2.0)}
    check_gradients(
        parameters
        | ({"alpha": jnp.array(1.3), "beta": jnp.array(beta)} if beta else {}),
        100,
        10_000,
    )


@pytest.mark.slow
def test_pathwise_gradients_agree_with_the_closed_form():
    check_gradients(
        {
            "mu": MU,
            "T": T,
            "eta": jnp.array(2.0),
            "alpha": jnp.array(1.3),
            "beta": jnp.array(0.7),
        },
        50,
        1000,
    )
