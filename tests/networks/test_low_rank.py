"""The output `LowRank` of every network, and its start at principal directions."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sweeps import sweep

from mmlp import (
    VAE,
    CholeskyMLP,
    DiagonalGram,
    GaussianHead,
    JointMatrixMLP,
    LowRank,
    LowRankGram,
    MatrixMLP,
    PowerExponentialHead,
    ShallowMatrixMLP,
    TraceOneGaussian,
    calibrate,
    load,
    save,
)
from mmlp.networks.low_rank import PRINCIPAL_SHARE, SPARE_SHARE, principal_loadings

KEY = jax.random.key(0)
NETWORKS = [MatrixMLP, JointMatrixMLP, ShallowMatrixMLP, CholeskyMLP]
each_network = pytest.mark.parametrize("make", NETWORKS)
one_network = sweep("make", NETWORKS)
compiled = eqx.filter_jit(calibrate)
RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 4))
Y = (
    RNG.normal(size=(25, 3)) @ RNG.normal(size=(3, 6)) * 40
    + 0.1 * RNG.normal(size=(25, 6))
    + 300
)


@one_network
def test_every_network_feeds_it_and_comes_back_from_a_file(make, tmp_path):
    model = make(4, 6, (5,), output=LowRank(2), key=KEY)
    A = model(jnp.ones(4))
    assert isinstance(A, LowRankGram)
    assert (A.dim, model.dim, A.U.shape) == (6, 6, (2, 6))
    np.testing.assert_allclose(A.trace(), 1, rtol=1e-12)
    save(model, tmp_path / "model.safetensors")
    again = load(tmp_path / "model.safetensors")
    assert eqx.tree_equal(model, again)
    assert eqx.tree_equal(model(jnp.ones(4)), again(jnp.ones(4)))


@sweep("make", [MatrixMLP, JointMatrixMLP, CholeskyMLP])
def test_the_gradient_of_a_density_equals_finite_differences(make):
    head = GaussianHead(make(3, 4, (3,), out_features=5, output=LowRank(2), key=KEY))
    weights, structure = jax.tree.flatten(head)
    rng = np.random.default_rng(1)
    weights = [jnp.asarray(rng.normal(size=w.shape)) for w in weights]

    @jax.jit
    def loss(weights):
        p = jax.tree.unflatten(structure, weights)(jnp.array([0.3, -1.2, 0.7]))
        return p.log_prob(jnp.array([0.5, -0.4, 0.1, 0.2]))

    step = [rng.normal(size=w.shape) for w in weights]
    slope = sum(
        jnp.vdot(g, s) for g, s in zip(jax.grad(loss)(weights), step, strict=True)
    )
    ends = [
        loss([w + h * s for w, s in zip(weights, step, strict=True)])
        for h in (1e-6, -1e-6)
    ]
    np.testing.assert_allclose(slope, (ends[0] - ends[1]) / 2e-6, rtol=1e-6, atol=1e-7)


@one_network
def test_it_responds_to_inputs_once_calibrated(make):
    model = compiled(make(4, 6, (5,), output=LowRank(2), key=KEY), X, key=KEY)
    A = jax.vmap(model)(X)
    np.testing.assert_allclose(A.trace(), np.ones(30), rtol=1e-12)
    assert np.sqrt(np.mean(np.var(A.dense(), axis=0))) > 0.05 * np.mean(A.diagonal())


def at_the_start(model):
    """The value with all that depends on x at its mean."""
    if isinstance(model, CholeskyMLP):
        return model.output.read(
            jnp.mean(jax.vmap(model.perceptron)(X), axis=0), model.dim
        )
    last = model.last if isinstance(model, ShallowMatrixMLP) else model.matrices[-1]
    mean_log_scale = last.b
    if last.V is not None:
        mean_log_scale = mean_log_scale + last.V @ mean_hidden(model)
    return LowRankGram.trace_one(jnp.exp(mean_log_scale), last.L.T)


def mean_hidden(model):
    """The mean of h_1 over X."""
    if isinstance(model, ShallowMatrixMLP):
        return jnp.mean(jax.vmap(model.hidden)(X), axis=0)
    H = jax.vmap(model.matrices[0])(X)
    return jnp.mean(jnp.tanh(jax.vmap(model.vectors[0])(H, X)), axis=0)


@one_network
def test_targets_start_it_at_their_variances_and_principal_directions(make):
    model = compiled(
        make(4, 6, (5,), output=LowRank(3), key=KEY), X, key=KEY, targets=Y
    )
    A = at_the_start(model)
    total = np.var(Y, axis=0).sum()
    np.testing.assert_allclose(total * A.diagonal(), np.var(Y, axis=0), rtol=1e-9)
    first = np.linalg.svd(Y - Y.mean(0))[2][:3]  # three directions hold nearly all
    within = first.T @ first
    np.testing.assert_allclose(A.U @ within, A.U, atol=1e-9)
    covariance = np.cov(Y.T, bias=True)
    parallel = within @ covariance @ within
    np.testing.assert_allclose(
        total * A.U.T @ A.U, PRINCIPAL_SHARE * parallel, atol=1e-6 * total
    )


@pytest.mark.slow
@pytest.mark.parametrize("make", [JointMatrixMLP, CholeskyMLP])
def test_a_head_starts_at_the_mean_and_the_covariance_of_targets(make):
    network = make(4, 6, (5,), out_features=7, output=LowRank(3), key=KEY)
    head = compiled(GaussianHead(network), X, key=KEY, targets=Y)
    p = jax.vmap(head)(X)
    np.testing.assert_allclose(np.mean(p.mean, axis=0), Y.mean(0), atol=1e-9)
    np.testing.assert_allclose(
        np.mean(np.log(p.eta)), np.log(np.var(Y, axis=0).sum()), rtol=1e-9
    )
    average = np.mean(p.covariance.diagonal(), axis=0)
    assert np.all(np.abs(np.log(average / np.var(Y, axis=0))) < 1)
    diagonal = TraceOneGaussian.from_moments(Y.mean(0), DiagonalGram(np.std(Y, axis=0)))
    assert np.mean(p.log_prob(Y[:, None])) > np.mean(diagonal.log_prob(Y)) - 3


@pytest.mark.slow
def test_a_vae_starts_its_decoder_at_the_data():
    encoder = GaussianHead(JointMatrixMLP(6, 2, (4,), out_features=3, key=KEY))
    network = JointMatrixMLP(2, 6, (4,), out_features=9, output=LowRank(3), key=KEY)
    vae = VAE(encoder, PowerExponentialHead(network))
    plain, started = compiled(vae, Y, key=KEY), compiled(vae, Y, key=KEY, targets=Y)
    elbo = jax.jit(jax.vmap(lambda vae, y: vae.elbo(y, KEY, 10), (None, 0)))
    assert np.mean(elbo(started, Y)) > np.mean(elbo(plain, Y)) + 100


@sweep(
    ("targets", "rank"),
    [
        (Y, 9),  # more loadings than columns
        (Y[:3], 5),  # than rows
        (Y[:, :1], 2),
        (Y / 1e6, 2),
        (
            np.concatenate([Y[:, :5], np.full((25, 1), 0.1)], axis=1).astype("float32"),
            3,
        ),
    ],
    ids=["rank > d", "rank > n", "d = 1", "small", "constant column"],
    quick=2,
)
def test_the_diagonal_is_right_however_many_directions_there_are(targets, rank):
    L = RNG.normal(size=(targets.shape[1], rank)).astype(targets.dtype)
    log_scale, L = principal_loadings(jnp.asarray(targets), jnp.asarray(L))
    assert L.shape[1] == rank
    assert np.all(np.isfinite(L))
    variance = np.var(targets.astype(float), axis=0)
    variance[variance < 1e-12] = 1  # of the constant column
    variance /= variance.mean()
    got = np.exp(2 * log_scale) + np.sum(L**2, axis=1)
    np.testing.assert_allclose(
        got, variance, rtol=1e-4 if L.dtype == np.float32 else 1e-9
    )
    assert np.all(
        np.exp(2 * log_scale) > (1 - PRINCIPAL_SHARE - SPARE_SHARE**2 - 1e-4) * variance
    )
    assert np.all(np.any(L != 0, axis=0))  # each of them can learn


def test_many_rows_cost_no_more_than_their_columns():
    shapes = (
        jax.ShapeDtypeStruct((10**6, 3), float),
        jax.ShapeDtypeStruct((3, 2), float),
    )
    program = jax.make_jaxpr(principal_loadings)(*shapes)
    assert max(v.aval.size for e in program.eqns for v in e.outvars) <= 3 * 10**6


@pytest.mark.parametrize("rank", [0, -1, 2.0, True, "2"])
def test_what_is_no_rank_is_refused(rank):
    with pytest.raises(
        ValueError, match=r"`LowRank\(rank=...\)` must be a whole number of at"
    ):
        LowRank(rank)


def test_targets_of_another_size_are_refused():
    model = MatrixMLP(4, 6, (5,), output=LowRank(2), key=KEY)
    with pytest.raises(
        ValueError, match=r"`calibrate\(targets=...\)` must have 6 columns.*got 5"
    ):
        calibrate(model, X, key=KEY, targets=Y[:, :5])
    with pytest.raises(
        ValueError, match=r"`calibrate\(targets=...\)` must have .*two rows"
    ):
        calibrate(model, X, key=KEY, targets=Y[:1])
