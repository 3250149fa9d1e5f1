"""VAE: bounds, known answers, three forms of the KL term, the paper's six models."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp
from sweeps import sweep

import mmlp
from mmlp.vae import MODELS, von_neumann_kl

KEY = jax.random.key(0)
P, K = 4, 2


def small(name, **options):
    return mmlp.paper_vae(name, P, K, (5, 5), key=KEY, **options)


X = jax.random.normal(jax.random.key(1), (6, P))
KEYS = jax.random.split(jax.random.key(2), len(X))


class LinearGaussian(eqx.Module):
    """x = L s + noise, with known evidence N(0, L L' + sigma^2 I)."""

    L: jax.Array
    sigma: float = eqx.field(static=True)
    in_features: int = eqx.field(static=True)

    def __call__(self, s):
        p = len(self.L)
        return mmlp.TraceOneGaussian(
            self.L @ s, mmlp.DiagonalGram.trace_one(jnp.ones(p)), p * self.sigma**2
        )


class Posterior(eqx.Module):
    """The exact posterior of the linear-Gaussian model, widened by `wider`."""

    decoder: LinearGaussian
    wider: float = eqx.field(static=True)

    def __call__(self, x):
        L, sigma = self.decoder.L, self.decoder.sigma
        V = jnp.linalg.inv(jnp.eye(L.shape[1]) + L.T @ L / sigma**2)
        T = jnp.linalg.cholesky(self.wider * V).T
        return mmlp.TraceOneGaussian(
            V @ L.T @ x / sigma**2, mmlp.Gram.trace_one(T), jnp.sum(T**2)
        )


def linear_gaussian(wider):
    decoder = LinearGaussian(jax.random.normal(jax.random.key(3), (P, K)), 0.5, K)
    return mmlp.VAE(Posterior(decoder, wider), decoder)


def exact_evidence(vae):
    L, sigma = np.asarray(vae.decoder.L), vae.decoder.sigma
    S = L @ L.T + sigma**2 * np.eye(P)
    return (
        -(
            P * np.log(2 * np.pi)
            + np.linalg.slogdet(S)[1]
            + np.einsum("ni,ij,nj->n", X, np.linalg.inv(S), X)
        )
        / 2
    )


def test_with_the_exact_posterior_every_weight_is_the_evidence():
    vae = linear_gaussian(1.0)
    weights = jax.vmap(lambda x, key: vae.log_weights(x, key, 7))(X, KEYS)
    np.testing.assert_allclose(
        weights, np.broadcast_to(exact_evidence(vae)[:, None], (6, 7)), rtol=1e-10
    )


def test_the_importance_weighted_bound_agrees_with_the_exact_evidence():
    # 6 samples, 20000 draws, seed 2: each must be within 4.5 standard errors, which
    # fails once in 20,000 for a right program
    vae = linear_gaussian(1.5)
    log_w = jax.jit(jax.vmap(lambda x, key: vae.log_weights(x, key, 20_000)))(X, KEYS)
    estimate = jax.jit(jax.vmap(lambda x, key: vae.log_evidence(x, key, 20_000)))(
        X, KEYS
    )
    ratio = jnp.exp(
        log_w - estimate[:, None]
    )  # mean one; the delta method gives the error of the logarithm
    error = jnp.std(ratio, axis=1) / 20_000**0.5
    assert float(error.min()) > 1e-4
    assert np.all(np.abs(estimate - exact_evidence(vae)) < 4.5 * error)


@sweep(
    "name",
    [
        pytest.param(m, marks=() if m in ("NdNd", "EfEf") else pytest.mark.slow)
        for m in MODELS
    ],
)
def test_the_bound_is_never_below_the_elbo_of_the_same_draws(name):
    vae = small(name)
    bound = jax.jit(jax.vmap(lambda x, key: vae.log_evidence(x, key, 8)))(X, KEYS)
    elbo = jax.jit(jax.vmap(lambda x, key: vae.elbo(x, key, 8, kl="sampled")))(X, KEYS)
    assert np.all(bound >= elbo)
    assert np.all(np.isfinite(elbo))


@pytest.mark.slow
def test_the_bound_rises_with_the_number_of_samples():
    # from the same 4096 draws, groups of 1, 4, 16, 64: Jensen makes the mean over
    # groups rise, for any draws
    vae = small("EfEf")
    log_w = np.asarray(jax.jit(lambda x: vae.log_weights(x, KEY, 4096))(X[0]))
    means = [
        np.mean(logsumexp(log_w.reshape(-1, size), axis=1)) - np.log(size)
        for size in (1, 4, 16, 64)
    ]
    assert np.all(np.diff(means) > 0)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["NdNd", "EfEf"])
def test_the_sampled_kl_agrees_with_the_exact_one(name):
    # 20000 draws, 5 standard errors
    vae = small(name)
    q = vae.encode(X[0])
    s = q.sample(KEY, (20_000,))
    terms = q.log_prob(s) - vae.prior.log_prob(s)
    exact = mmlp.kl_divergence(q, vae.prior)
    assert abs(jnp.mean(terms) - exact) < 5 * jnp.std(terms) / 20_000**0.5
    _, sampled = vae.terms(X[0], KEY, 20_000, kl="sampled")
    np.testing.assert_allclose(sampled, jnp.mean(terms), rtol=1e-12)
    np.testing.assert_allclose(vae.terms(X[0], KEY, kl="exact")[1], exact, rtol=1e-12)


def test_von_neumann_kl_by_eigenvalues_and_to_second_order():
    k, beta = 3, 0.7
    T = jax.random.normal(KEY, (k, k))
    omega = mmlp.Gram.trace_one(T)
    q = mmlp.TraceOnePowerExponential(jnp.arange(3.0), omega, 2.0, 1.1, beta)
    lam = np.linalg.eigvalsh(omega.dense())
    prior = mmlp.vae._standard_normal(k, jnp.float64)
    wanted = (
        mmlp.kl_divergence(q, prior)
        + np.sum(np.log(k * lam)) / 2
        + k / 2 * np.sum(lam * np.log(k * lam))
    )
    np.testing.assert_allclose(von_neumann_kl(q), wanted, rtol=1e-12)
    for step, ratio in ((1e-2, 2e-2), (1e-3, 2e-3)):  # the difference is of third order
        near = mmlp.TraceOneGaussian(
            jnp.zeros(k), mmlp.Gram.trace_one(jnp.eye(k) + step * (T + T.T)), float(k)
        )
        exact = mmlp.kl_divergence(near, prior)
        assert abs(von_neumann_kl(near) - exact) < 10 * ratio * exact


@pytest.mark.parametrize("name", MODELS)
def test_the_six_models_have_the_families_they_are_named_for(name):
    families = {"N": mmlp.TraceOneGaussian, "E": mmlp.TraceOnePowerExponential}
    forms = {"d": mmlp.DiagonalGram, "f": mmlp.Gram}

    def outputs():
        vae = small(name)
        return vae.decode(jnp.zeros(K)), vae.encode(X[0])

    p, q = jax.eval_shape(outputs)
    assert (type(p), type(p.omega), p.dim) == (families[name[0]], forms[name[1]], P)
    assert (type(q), type(q.omega), q.dim) == (families[name[2]], forms[name[3]], K)


def test_outputs_say_what_the_letters_mean():
    outputs = {"f": mmlp.Triangular(), "d": mmlp.Diagonal()}
    vae = small("NfNd", network=mmlp.JointMatrixMLP, outputs=outputs)
    assert vae.decode(jnp.ones(K)).omega.upper
    assert isinstance(vae.encode(X[0]).omega, mmlp.DiagonalGram)
    papers = small("NfNd")
    assert papers.decoder.network.matrices[-1].output == mmlp.Dense(
        mmlp.MercerSigmoid()
    )
    assert papers.encoder.network.matrices[-1].output == mmlp.Diagonal(
        mmlp.MercerSigmoid()
    )


@sweep("network", [mmlp.MatrixMLP, mmlp.JointMatrixMLP, mmlp.CholeskyMLP])
def test_calibration_makes_both_halves_respond(network):
    vae = eqx.filter_jit(mmlp.calibrate)(small("NfNf", network=network), X, key=KEY)
    latent = jax.jit(jax.vmap(lambda x: vae.encode(x).mean))(X)
    s = jax.random.normal(KEY, (200, K))
    images = jax.jit(jax.vmap(lambda s: vae.decode(s).mean))(s)
    assert 0.2 < float(jnp.std(latent, axis=0).mean()) < 1
    assert 0.2 < float(jnp.std(images, axis=0).mean()) < 1


def test_samples_have_the_models_moments():
    # 20000 draws of a linear-Gaussian model; 6 standard errors of a variance
    vae = linear_gaussian(1.0)
    x = vae.sample(KEY, 20_000)
    S = vae.decoder.L @ vae.decoder.L.T + 0.25 * jnp.eye(P)
    np.testing.assert_allclose(
        np.cov(x.T), S, atol=6 * float(jnp.max(jnp.diag(S))) * (2 / 20_000) ** 0.5
    )


@pytest.mark.slow
def test_training_raises_the_bound_and_keeps_float32():
    vae = jax.tree.map(
        lambda x: x.astype(jnp.float32) if eqx.is_array(x) else x, small("NfNf")
    )
    X32 = X.astype(jnp.float32)

    def loss(model, batch, key, t):
        keys = jax.random.split(key, len(batch))
        return -jnp.mean(jax.vmap(model.elbo)(batch, keys))

    result = mmlp.fit(vae, loss, X32, key=KEY, epochs=40, batch_size=6, progress=False)
    assert result.history["loss"][-1] < result.history["loss"][0]
    assert result.model.elbo(X32[0], KEY).dtype == jnp.float32


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: mmlp.paper_vae("NfNx", 3, 2, key=KEY), "NfNx"),
        (lambda: mmlp.paper_vae("NfNf", 0, 2, key=KEY), "features"),
        (lambda: mmlp.paper_vae("NfNf", 3, 0, key=KEY), "latent"),
        (lambda: mmlp.VAE(lambda x: x, lambda s: s), "latent"),
        (lambda: small("NfNf").elbo(X[0], KEY, 0), "samples"),
        (lambda: small("NfNf").elbo(X[0], KEY, kl="none"), "none"),
        (lambda: small("NfNf").sample(KEY, 0), "n="),
    ],
)
def test_wrong_arguments_are_named(call, words):
    with pytest.raises(ValueError, match=words):
        call()


@pytest.mark.parametrize("outputs", [{"full": mmlp.Dense()}, mmlp.Dense()])
def test_outputs_of_a_paper_vae_are_those_of_its_letters(outputs):
    with pytest.raises(
        ValueError, match=r"`paper_vae\(outputs=...\)` must be a dict of"
    ):
        mmlp.paper_vae("NfNf", 3, 2, (4,), outputs=outputs, key=jax.random.key(0))
