"""Heads: networks that return a distribution."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sweeps import sweep

import mmlp
from mmlp import (
    CholeskyMLP,
    Diagonal,
    DiagonalGram,
    GaussianHead,
    Gram,
    JointMatrixMLP,
    MatrixMLP,
    PowerExponentialHead,
    ShallowMatrixMLP,
    StudentTHead,
    TraceOneGaussian,
    TraceOnePowerExponential,
    TraceOneStudentT,
)
from mmlp.networks.heads import Head

HEADS: list = [
    (GaussianHead, TraceOneGaussian, 1),
    (PowerExponentialHead, TraceOnePowerExponential, 3),
    (StudentTHead, TraceOneStudentT, 2),
]


def network(cls, d, out, **options):
    return cls(3, d, (4, 4), out_features=out, key=jax.random.key(0), **options)


@pytest.mark.parametrize(("head", "family", "extra"), HEADS)
@pytest.mark.parametrize("cls", [MatrixMLP, JointMatrixMLP, CholeskyMLP])
@sweep("diagonal", [False, True])
def test_head_reads_the_vector_and_the_gram(head, family, extra, cls, diagonal):
    net = network(cls, 2, 2 + extra, **({"output": Diagonal()} if diagonal else {}))
    X = jax.random.normal(jax.random.key(1), (5, 3))
    p = jax.jit(jax.vmap(head(net)))(X)
    vector, omega = jax.jit(jax.vmap(net))(X)
    assert isinstance(p, family)
    assert isinstance(p.omega, DiagonalGram if diagonal else Gram)
    np.testing.assert_allclose(p.loc, vector[:, :2], rtol=1e-6)
    np.testing.assert_allclose(p.eta, np.exp(vector[:, 2]), rtol=1e-6)
    np.testing.assert_allclose(p.omega.dense(), omega.dense(), rtol=1e-5, atol=1e-7)
    if extra == 3:  # the paper's output activations
        np.testing.assert_allclose(
            p.alpha, 0.5 + jax.nn.sigmoid(vector[:, 3]), rtol=1e-6
        )
        np.testing.assert_allclose(
            p.beta, 0.5 + jax.nn.sigmoid(vector[:, 4]), rtol=1e-6
        )
    if family is TraceOneStudentT:
        np.testing.assert_allclose(p.df, 2.5 + 8 * jnp.exp(vector[:, 3]), rtol=1e-6)
    assert jax.eval_shape(p.log_prob, jnp.zeros((5, 2))).shape == (5,)
    assert jax.eval_shape(lambda key: p.sample(key, (7,)), jax.random.key(2)).shape == (
        7,
        5,
        2,
    )


@sweep(("head", "family", "extra"), HEADS)
def test_likelihood_has_a_gradient_by_every_weight(head, family, extra):
    model = head(network(MatrixMLP, 2, 2 + extra))
    loss = jax.jit(
        jax.grad(lambda model: model(jnp.ones(3)).log_prob(jnp.array([0.3, -0.4])))
    )
    leaves = jax.tree.leaves(loss(model))
    assert len(leaves) == len(jax.tree.leaves(model))
    assert all(np.all(np.isfinite(g)) and np.any(g != 0) for g in leaves)


def test_bounds_are_arguments():
    net = network(CholeskyMLP, 2, 5)
    p = PowerExponentialHead(net, alpha_bounds=(1.0, 2.0), beta_bounds=(0.1, 9.1))(
        jnp.ones(3)
    )
    z, _ = net(jnp.ones(3))
    np.testing.assert_allclose(
        [p.alpha, p.beta],
        [1 + jax.nn.sigmoid(z[3]), 0.1 + 9 * jax.nn.sigmoid(z[4])],
        rtol=1e-6,
    )
    for bad in ((0.0, 1.0), (2.0, 1.0), (1.0, np.inf), (1.0,)):
        with pytest.raises(
            ValueError,
            match=r"beta_bounds=...\)` must be \(low, high\) with 0 < low < high",
        ):
            PowerExponentialHead(net, beta_bounds=bad)


def test_the_least_df_is_an_argument(tmp_path):
    net = network(CholeskyMLP, 2, 4)
    head = StudentTHead(net, df_min=0.5)
    z, _ = net(jnp.ones(3))
    np.testing.assert_allclose(head(jnp.ones(3)).df, 0.5 + 8 * jnp.exp(z[3]), rtol=1e-6)
    mmlp.save(head, tmp_path / "head.safetensors")
    assert mmlp.load(tmp_path / "head.safetensors").df_min == 0.5
    for bad in (-1.0, np.inf, np.nan):
        with pytest.raises(
            ValueError, match=r"`StudentTHead\(df_min=...\)` must be a finite num"
        ):
            StudentTHead(net, df_min=bad)


@pytest.mark.parametrize(("head", "family", "extra"), HEADS)
@pytest.mark.parametrize("cls", [MatrixMLP, CholeskyMLP])
@pytest.mark.parametrize("out", [None, 2, 6, 7])
def test_out_features_that_do_not_fit_are_refused(head, family, extra, cls, out):
    with pytest.raises(
        ValueError,
        match=rf"with out_features=dim \+ {extra} = {2 + extra}, got .*MLP with "
        rf"out_features={out}",
    ):
        head(network(cls, 2, out))


def test_a_network_without_a_vector_is_refused():
    with pytest.raises(ValueError, match="got ShallowMatrixMLP with out_features=None"):
        GaussianHead(ShallowMatrixMLP(3, 2, (4,), key=jax.random.key(0)))
    with pytest.raises(ValueError, match="with out_features=None"):
        GaussianHead(jnp.tanh)


class LaplaceHead(Head):
    """A power exponential of beta = 1/2, whose alpha is learnt: a head of one's own."""

    extra, reads = 2, "(mu, log eta, log alpha)"
    distribution = TraceOnePowerExponential

    def tail(self, z):
        return jnp.exp(z[0]), jnp.asarray(0.5)


def test_a_head_of_ones_own_is_one_small_class():
    net = network(JointMatrixMLP, 2, 4)
    p, (vector, _) = LaplaceHead(net)(jnp.ones(3)), net(jnp.ones(3))
    np.testing.assert_allclose([p.alpha, p.beta], [np.exp(vector[3]), 0.5])
    with pytest.raises(
        ValueError, match=r"`LaplaceHead\(network=...\)` reads .*log alpha"
    ):
        LaplaceHead(network(JointMatrixMLP, 2, 3))
