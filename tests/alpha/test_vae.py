"""Appendix J: both estimators of the ELBO against automatic differentiation.

The noise is held fixed. The draws are made with the symmetric root of the covariance,
as in `mmlp.alpha.densities`; those of `sample` use the factor of the network, another
root.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
from helpers import symmetric_root
from paper_weights import MERCER, assert_gradients_equal, network, paper_layers

from mmlp import (
    Dense,
    Diagonal,
    DiagonalGram,
    GaussianHead,
    Gram,
    Linear,
    PowerExponentialHead,
    TraceOneGaussian,
    kl_divergence,
)
from mmlp.alpha import activations, basic, densities, vae
from mmlp.alpha.calculus import unvec
from mmlp.distributions.gamma import _at_fixed_quantile

P, K, R = 3, 2, 3  # features, latent dimension, draws
PRIOR = TraceOneGaussian(jnp.zeros(K), DiagonalGram.trace_one(jnp.ones(K)), float(K))
RNG = np.random.default_rng(6)
X, EPS, EPS_RADIUS, QUANTILES = (
    RNG.normal(size=P),
    RNG.normal(size=(R, K)),
    [0.3, -0.4, 1.2],
    np.array([0.2, 0.6, 0.9]),
)
NU = EPS / np.linalg.norm(EPS, axis=1, keepdims=True)
EXTRA = {"N": 1, "E": 3}  # outputs beside mu
HEADS = {"N": GaussianHead, "E": PowerExponentialHead}
D_LOG_DENSITY = {
    "N": densities.gaussian_log_density,
    "E": densities.power_exponential_log_density,
}


@functools.cache
def model(name):
    """A tiny (decoder, encoder) of one of the paper's names, with random weights."""
    decoder = network(
        in_features=K,
        dim=P,
        hidden_dims=(3, 4),
        **_options(name[:2], P, MERCER),
        seed=7,
    )
    encoder = network(
        in_features=P,
        dim=K,
        hidden_dims=(4, 2),
        **_options(name[2:], K, Linear()),
        seed=8,
    )
    return HEADS[name[0]](decoder), HEADS[name[2]](encoder)


def _options(half, d, kernel):
    return {
        "out_features": d + EXTRA[half[0]],
        "hidden_features": (2, 3),
        "output": Diagonal(kernel) if half[1] == "d" else Dense(kernel),
    }


def paper_model(name):
    """Decoder, encoder, and derivatives of the decoder's log density."""
    outputs = {
        "N": lambda d: activations.identity,
        "E": activations.power_exponential_output,
    }
    decoder, encoder = (head.network for head in model(name))
    layers = (
        paper_layers(decoder, outputs[name[0]](P)),
        paper_layers(encoder, outputs[name[2]](K)),
    )
    return *layers, D_LOG_DENSITY[name[0]]


def est_n(decoder, encoder):
    q = encoder(X)
    s = q.loc + EPS @ symmetric_root(q.eta * q.omega.dense())
    return jnp.mean(jax.vmap(decoder)(s).log_prob(X)) - kl_divergence(q, PRIOR)


def est_mpe(decoder, encoder, radius):
    q = encoder(X)
    s = q.loc + radius(q.beta)[:, None] * NU @ symmetric_root(
        q.alpha * q.eta * q.omega.dense()
    )
    return jnp.mean(
        jax.vmap(decoder)(s).log_prob(X) + PRIOR.log_prob(s) - q.log_prob(s)
    )


def normal_radius(beta):
    return (K / beta + jnp.array(EPS_RADIUS) * jnp.sqrt(2 * K / beta)) ** (
        1 / (2 * beta)
    )


def gamma_radius(beta):
    a = K / (2 * beta)
    return jnp.exp(
        (_at_fixed_quantile(jnp.full(R, a), jnp.log(gamma_draws())) + a * jnp.log(2.0))
        / K
    )


def gamma_draws():
    return scipy.special.gammaincinv(K / (2 * encoder_beta()), QUANTILES)


@functools.cache
def encoder_beta():
    return vae.read_output(paper_model("EfEf")[1], X)[-1]


def assert_equals_automatic(estimator, name, by_theta, by_phi):
    decoder, encoder = model(name)
    fast_decoder, fast_encoder = jax.jit(jax.grad(estimator, argnums=(0, 1)))(
        decoder, encoder
    )
    assert_gradients_equal(
        fast_decoder.network, decoder.network, by_theta, f"{name} by theta,"
    )
    assert_gradients_equal(
        fast_encoder.network, encoder.network, by_phi, f"{name} by phi,"
    )


@pytest.mark.parametrize(
    "name", ["NdNd", "EfNf", pytest.param("NfNf", marks=pytest.mark.slow)]
)
def test_est_n(name):
    assert_equals_automatic(est_n, name, *vae.d_est_n(*paper_model(name), X, EPS))


def test_est_mpe_with_the_normal_radius():
    assert_equals_automatic(
        functools.partial(est_mpe, radius=normal_radius), "EfEf", *d_est_mpe()
    )


@pytest.mark.slow
def test_est_mpe_with_the_gamma_radius():
    radius = [densities.gamma_radius(x, encoder_beta(), K) for x in gamma_draws()]
    by_weights = vae.d_est_mpe(*paper_model("EfEf"), X, NU, radius)
    assert_equals_automatic(
        functools.partial(est_mpe, radius=gamma_radius), "EfEf", *by_weights
    )


@functools.cache
def d_est_mpe():
    radius = [densities.normal_radius(eps, encoder_beta(), K) for eps in EPS_RADIUS]
    return vae.d_est_mpe(*paper_model("EfEf"), X, NU, radius)


# -- what the paper misprints or leaves out
# ---------------------------------------------


def test_the_last_term_of_est_mpe_stands_inside_the_sum():
    """As printed, 1/r sum_l (...) - D_phi log q(s_l | x) has an l without value.

    The gradient by b_0 is D_phi by (mu, log eta); held to automatic differentiation
    above.
    """
    right = d_est_mpe()[1][0]["b"][: K + 1]
    mu, Omega, eta, alpha, beta = vae.read_output(paper_model("EfEf")[1], X)
    Phi = densities.symmetric_root(alpha * eta * Omega)
    last = []
    for eps, nu in zip(EPS_RADIUS, NU, strict=True):
        s = mu + densities.normal_radius(eps, beta, K)[0] * Phi @ nu
        D = densities.power_exponential_log_density(s, mu, Omega, eta, alpha, beta)
        last.append(np.concatenate([D["mu"][0], D["log_eta"][0]]))
    first = right + np.mean(last, axis=0)  # the sum without its last term
    for printed in (first - term for term in last):
        assert np.abs(printed - right).max() > 0.1 * np.abs(right).max()


def test_the_derivative_by_the_input_of_a_network():
    """D_s log p(x | s) needs D_x Z_{j+1} = (W 1) kron W, which no appendix gives."""
    W, x = RNG.normal(size=(4, 3)), RNG.normal(size=3)
    for i, e in enumerate(np.eye(3)):  # Z is linear in x
        Z = np.outer(W @ (x + e), W.sum(axis=1)) - np.outer(W @ x, W.sum(axis=1))
        np.testing.assert_allclose(
            unvec(basic.matrix_by_input(W)[:, i], (4, 4)), Z, atol=1e-13
        )
    decoder, s = model("EfNf")[0], EPS[0]
    paper, _, d_log_p = paper_model("EfNf")
    exact = jax.jit(jax.grad(lambda s: decoder(s).log_prob(X)))(s)
    np.testing.assert_allclose(
        vae.d_log_likelihood(paper, d_log_p, X, s)[1], exact, rtol=1e-8
    )


def test_the_derivative_of_the_kl():
    """Appendix J refers to Appendices H and I for it, which do not have it."""
    mu, Omega, eta = vae.read_output(paper_model("EfNf")[1], X)

    def kl(mu, T, log_eta):
        return kl_divergence(
            TraceOneGaussian(mu, Gram.trace_one(T), jnp.exp(log_eta)), PRIOR
        )

    T = densities.symmetric_root(Omega)
    exact = jax.jit(jax.grad(kl, argnums=(0, 1, 2)))(mu, T, np.log(eta))
    D = vae.d_kl(mu, Omega, eta)
    np.testing.assert_allclose(D["mu"][0], exact[0], rtol=1e-9)
    np.testing.assert_allclose(D["log_eta"][0, 0], exact[2], rtol=1e-9)
    by_Omega = unvec(D["Omega"][0], (K, K))
    by_T = (
        2 * T @ (by_Omega - np.sum(by_Omega * Omega) * np.eye(K))
    )  # Omega = T'T / tr(T'T), at trace one
    np.testing.assert_allclose(by_T, exact[1], rtol=1e-8, atol=1e-12)
