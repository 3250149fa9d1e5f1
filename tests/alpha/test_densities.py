"""The alpha-derivatives of densities and samples, against automatic differentiation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
from helpers import symmetric_root
from sweeps import sweep

from mmlp import Gram, TraceOneGaussian, TraceOnePowerExponential
from mmlp.alpha import densities
from mmlp.distributions.gamma import _at_fixed_quantile

D = 3
RNG = np.random.default_rng(0)
OMEGA = np.cov(RNG.normal(size=(D, 20)))
OMEGA /= np.trace(OMEGA)
MU, THETA, EPS = RNG.normal(size=(3, D))
NU = EPS / np.linalg.norm(EPS)
ETA, ALPHA = 1.7, 0.8


def log_density(theta, mu, Omega, log_eta, *shape):
    """Evaluate the library's density; the trace of Omega moves into eta."""
    trace = jnp.trace(Omega)
    omega, eta = (
        Gram(jnp.linalg.cholesky(Omega / trace, upper=True), upper=True),
        jnp.exp(log_eta) * trace,
    )
    p = (
        TraceOnePowerExponential(mu, omega, eta, *shape)
        if shape
        else TraceOneGaussian(mu, omega, eta)
    )
    return p.log_prob(theta)


def compare(ours, names, function, *arguments):
    """Each derivative is the Jacobian by its argument; Omega moves symmetrically."""
    assert list(ours) == list(names)
    for i, name in enumerate(names):
        exact = np.asarray(jax.jit(jax.jacobian(function, argnums=i))(*arguments))
        if name == "Omega":
            exact, mine = (
                exact.reshape(-1, D, D),
                ours[name].reshape(-1, D, D, order="F"),
            )
            exact, mine = (
                exact + exact.transpose(0, 2, 1),
                mine + mine.transpose(0, 2, 1),
            )
        else:
            mine = ours[name]
        np.testing.assert_allclose(
            mine, exact.reshape(mine.shape), rtol=1e-9, atol=1e-11
        )


def test_gaussian_log_density():
    ours = densities.gaussian_log_density(THETA, MU, OMEGA, ETA)
    compare(
        ours,
        ["mu", "Omega", "log_eta"],
        lambda *a: log_density(THETA, *a),
        MU,
        OMEGA,
        np.log(ETA),
    )


@pytest.mark.parametrize("beta", [0.6, 1.0, 2.3])
def test_power_exponential_log_density(beta):
    ours = densities.power_exponential_log_density(THETA, MU, OMEGA, ETA, ALPHA, beta)
    names = ["mu", "Omega", "log_eta", "alpha", "beta"]
    compare(
        ours,
        names,
        lambda *a: log_density(THETA, *a),
        MU,
        OMEGA,
        np.log(ETA),
        ALPHA,
        beta,
    )


def test_gaussian_sample():
    ours = densities.gaussian_sample(EPS, OMEGA, ETA)
    compare(
        ours,
        ["mu", "Omega", "log_eta"],
        lambda mu, Omega, log_eta: mu + symmetric_root(jnp.exp(log_eta) * Omega) @ EPS,
        *(MU, OMEGA, np.log(ETA)),
    )


def check_sample(radius_of_beta, radius, D_radius, beta):
    ours = densities.power_exponential_sample(NU, radius, D_radius, OMEGA, ETA, ALPHA)

    def sample(mu, Omega, log_eta, alpha, beta):
        return (
            mu
            + radius_of_beta(beta)
            * symmetric_root(alpha * jnp.exp(log_eta) * Omega)
            @ NU
        )

    compare(
        ours,
        ["mu", "Omega", "log_eta", "alpha", "beta"],
        sample,
        MU,
        OMEGA,
        np.log(ETA),
        ALPHA,
        beta,
    )


@pytest.mark.parametrize("beta", [0.6, 1.0, 2.3])
def test_power_exponential_sample_with_the_normal_radius(beta):
    def radius(b):
        return (D / b + 0.3 * jnp.sqrt(2 * D / b)) ** (1 / (2 * b))

    value, slope = densities.normal_radius(0.3, beta, D)
    np.testing.assert_allclose(value, radius(beta), rtol=1e-12)
    check_sample(radius, value, slope, beta)


@pytest.mark.parametrize("beta", [0.6, 1.0, 2.3, 20.0])
@sweep("quantile", [0.1, 0.5, 0.97])
def test_power_exponential_sample_with_the_gamma_radius(beta, quantile):
    x = scipy.special.gammaincinv(D / (2 * beta), quantile)

    def radius(b):
        a = D / (2 * b)
        return jnp.exp((_at_fixed_quantile(a, jnp.log(x)) + a * jnp.log(2.0)) / D)

    value, slope = densities.gamma_radius(x, beta, D)
    np.testing.assert_allclose(value, radius(beta), rtol=1e-12)
    check_sample(radius, value, slope, beta)


def test_the_papers_derivative_by_Omega_with_a_half_moves_the_covariance_rightly():
    """dPhi = dA Phi^-T / 2 obeys dPhi Phi' + Phi dPhi' = dA, but no root has it."""
    Phi = np.linalg.cholesky(ETA * OMEGA)
    dA = OMEGA @ OMEGA
    dPhi = dA @ np.linalg.inv(Phi).T / 2
    np.testing.assert_allclose(dPhi @ Phi.T + Phi @ dPhi.T, dA, rtol=1e-12)
    assert not np.allclose(np.triu(dPhi, 1), 0)  # not the triangular root
    S = densities.symmetric_root(ETA * OMEGA)
    W = np.diag([1.0, 2.0, 3.0])
    dS = W @ np.linalg.inv(S).T / 2
    assert not np.allclose(dS, dS.T)  # not the symmetric root


def test_the_papers_derivatives_by_log_eta_and_alpha_are_twice_too_large():
    Phi = densities.symmetric_root(ETA * OMEGA)
    printed = (
        ETA
        * np.kron(EPS[None], np.eye(D))
        @ np.ravel(OMEGA @ np.linalg.inv(Phi).T, order="F")
    )
    np.testing.assert_allclose(
        printed / 2,
        densities.gaussian_sample(EPS, OMEGA, ETA)["log_eta"][:, 0],
        rtol=1e-11,
    )
    Phi = densities.symmetric_root(ALPHA * ETA * OMEGA)
    printed = (
        1.3
        * ETA
        * np.kron(NU[None], np.eye(D))
        @ np.ravel(OMEGA @ np.linalg.inv(Phi).T, order="F")
    )
    right = densities.power_exponential_sample(NU, 1.3, 0.0, OMEGA, ETA, ALPHA)[
        "alpha"
    ][:, 0]
    np.testing.assert_allclose(printed / 2, right, rtol=1e-11)


def test_the_papers_derivative_of_the_radius_lacks_its_exponent():
    beta, eps = 1.4, 0.3
    radius, slope = densities.normal_radius(eps, beta, D)
    printed = (
        -D
        / (2 * beta**3 * radius ** (2 * beta - 1))
        * (1 + eps * (2 * D / beta) ** -0.5)
    )
    np.testing.assert_allclose(
        slope - printed, -radius * np.log(radius) / beta, rtol=1e-12
    )
    assert abs(slope / printed - 1) > 0.1
