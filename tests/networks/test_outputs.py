"""Outputs: how a network's last layer becomes an SPD value."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import equations
from sweeps import sweep

from mmlp import (
    CholeskyMLP,
    Dense,
    Diagonal,
    DiagonalGram,
    GaussianHead,
    Gram,
    JointMatrixMLP,
    Linear,
    MatrixMLP,
    MercerSigmoid,
    ShallowMatrixMLP,
    Triangular,
    calibrate,
    load,
    register,
    save,
)
from mmlp.networks import MatrixLayer, Output

KEY = jax.random.key(0)
OUTPUTS = {"dense": Dense(), "diagonal": Diagonal(), "triangular": Triangular()}
each_output = pytest.mark.parametrize("output", OUTPUTS.values(), ids=OUTPUTS)
each_network = pytest.mark.parametrize(
    "make", [MatrixMLP, JointMatrixMLP, ShallowMatrixMLP, CholeskyMLP]
)
one_network = sweep("make", [MatrixMLP, JointMatrixMLP, ShallowMatrixMLP, CholeskyMLP])


@each_output
@each_network
def test_every_network_feeds_every_output(make, output):
    model = make(4, 3, (5,), output=output, key=KEY)
    A = model(jnp.ones(4))
    assert type(A) is (DiagonalGram if output == Diagonal() else Gram)
    assert A.dim == model.dim == 3
    np.testing.assert_allclose(A.trace(), 1)


@each_output
@sweep("make", [MatrixMLP, JointMatrixMLP, CholeskyMLP])
def test_the_gradient_of_a_density_equals_finite_differences(make, output):
    head = GaussianHead(make(3, 2, (3,), out_features=3, output=output, key=KEY))
    weights, structure = jax.tree.flatten(head)
    rng = np.random.default_rng(0)
    weights = [jnp.asarray(rng.normal(size=w.shape)) for w in weights]

    @jax.jit
    def loss(weights):
        p = jax.tree.unflatten(structure, weights)(jnp.array([0.3, -1.2, 0.7]))
        return p.log_prob(jnp.array([0.5, -0.4]))

    for _ in range(3):
        step = [rng.normal(size=w.shape) for w in weights]
        slope = sum(
            jnp.vdot(g, s) for g, s in zip(jax.grad(loss)(weights), step, strict=True)
        )
        ends = [
            loss([w + h * s for w, s in zip(weights, step, strict=True)])
            for h in (1e-6, -1e-6)
        ]
        np.testing.assert_allclose(
            slope, (ends[0] - ends[1]) / 2e-6, rtol=1e-6, atol=1e-7
        )


@sweep("output", OUTPUTS.values(), ids=OUTPUTS)
def test_a_network_of_size_one_gives_the_number_one(output):
    for make in (MatrixMLP, JointMatrixMLP, CholeskyMLP):
        model = make(2, 1, (1,), out_features=2, output=output, key=KEY)
        vector, A = jax.vmap(model)(np.random.default_rng(0).normal(size=(4, 2)))
        np.testing.assert_allclose(A.dense(), np.ones((4, 1, 1)), rtol=1e-6)
        assert vector.shape == (4, 2)


def test_a_triangular_output_reads_the_upper_triangle_with_exp_on_its_diagonal():
    Z = jnp.arange(1.0, 10).reshape(3, 3) / 10
    A = Triangular()(Triangular().entries(Z))
    T = np.triu(Z, 1) + np.diag(np.exp(np.diag(Z)))
    assert A.upper
    np.testing.assert_allclose(A.dense(), T.T @ T / np.sum(T**2), rtol=1e-12)
    layer = JointMatrixMLP(4, 3, (5,), output=Triangular(), key=KEY).matrices[-1]
    assert layer.B.shape == (6,)
    assert layer.V is not None
    assert layer.V.shape == (6, 5)


@pytest.mark.parametrize("make", [MatrixMLP, JointMatrixMLP, CholeskyMLP])
def test_a_triangular_density_needs_no_factorisation(make):
    head = GaussianHead(make(4, 3, (5,), out_features=4, output=Triangular(), key=KEY))
    program = jax.make_jaxpr(lambda x, y: head(x).log_prob(y))(jnp.ones(4), jnp.ones(3))
    names = {equation.primitive.name for equation in equations(program.jaxpr)}
    assert "triangular_solve" in names
    assert not names & {"lu", "geqrf", "qr", "cholesky", "svd"}


def test_a_diagonal_output_is_the_diagonal_of_the_dense_one():
    models = [
        MatrixMLP(4, 3, (5,), output=output(MercerSigmoid(2.0)), key=KEY)
        for output in (Dense, Diagonal)
    ]
    full, diagonal = (model(jnp.ones(4)) for model in models)
    np.testing.assert_allclose(
        jnp.diagonal(full.dense()), diagonal.scale**2, rtol=1e-12
    )


@each_output
@each_network
def test_every_network_comes_back_from_a_file_with_every_output(make, output, tmp_path):
    model = make(4, 3, (5,), output=output, key=KEY)
    save(model, tmp_path / "model.safetensors")
    again = load(tmp_path / "model.safetensors")
    assert eqx.tree_equal(model, again)
    assert eqx.tree_equal(model(jnp.ones(4)), again(jnp.ones(4)))


@register(name="tests.FactorLayer")
class FactorLayer(eqx.Module):
    """A small matrix, its loadings and learnt scales, unlike a `MatrixLayer`."""

    inner: MatrixLayer
    loadings: jax.Array  # (d, rank)
    log_scale: jax.Array  # (d,)

    @property
    def in_features(self):
        return self.inner.in_features

    @property
    def dim(self):
        return len(self.log_scale)

    def __call__(self, source, h=None):
        U = self.inner(source, h).factor @ self.loadings.T
        return Gram.trace_one(jnp.concatenate([U, jnp.diag(jnp.exp(self.log_scale))]))

    def calibrated(self, source, h=None, *, key):
        return eqx.tree_at(
            lambda m: m.inner, self, self.inner.calibrated(source, h, key=key)
        )


@register(name="tests.Factors")
class Factors(Output):
    rank: int = eqx.field(static=True)

    def layer(self, before, dim, *, r=0, joint=False, key):
        r = r if joint else 0
        inner = MatrixLayer(before, self.rank, Dense(MercerSigmoid()), r=r, key=key)
        return FactorLayer(
            inner, jax.random.normal(key, (dim, self.rank)), jnp.zeros(dim)
        )

    def size(self, dim):
        return dim * (self.rank + 1)

    def read(self, z, dim):
        U = z[dim:].reshape(self.rank, dim)
        return Gram.trace_one(jnp.concatenate([U, jnp.diag(jnp.exp(z[:dim]))]))


@one_network
def test_an_output_of_ones_own_may_have_a_layer_of_its_own(make, tmp_path):
    model = make(4, 6, (5,), output=Factors(2), key=KEY)
    X = np.random.default_rng(0).normal(size=(30, 4))
    model = calibrate(model, X, key=KEY)
    A = jax.vmap(model)(X)
    assert model.dim == A.dim == 6
    np.testing.assert_allclose(A.trace(), np.ones(30))
    assert np.var(A.dense(), axis=0).max() > 1e-4
    save(model, tmp_path / "model.safetensors")
    assert eqx.tree_equal(model, load(tmp_path / "model.safetensors"))


@pytest.mark.parametrize("output", [MercerSigmoid(), Diagonal, "diagonal", None])
@pytest.mark.parametrize("make", [MatrixMLP, JointMatrixMLP, CholeskyMLP])
def test_what_is_no_output_is_refused(make, output):
    with pytest.raises(
        ValueError,
        match=rf"`{make.__name__}\(output=...\)` must be an output such as `Dense\(\)`",
    ):
        make(4, 3, (5,), output=output, key=KEY)


def test_a_kernel_that_a_standard_mlp_cannot_feed_is_refused():
    with pytest.raises(ValueError, match=r"use `Diagonal\(\)`, got MercerSigmoid"):
        CholeskyMLP(4, 3, (5,), output=Diagonal(MercerSigmoid()), key=KEY)


def test_the_floor_of_a_linear_kernel_is_kept():
    model = CholeskyMLP(4, 3, (5,), output=Dense(Linear(floor=0.5)), key=KEY)
    assert model(jnp.ones(4)).factor.shape == (6, 3)


@pytest.mark.parametrize("kernel", [5, Dense(), MercerSigmoid])
@pytest.mark.parametrize("output", [Dense, Diagonal])
def test_what_is_no_kernel_is_refused_at_once(output, kernel):
    with pytest.raises(
        ValueError, match=rf"`{output.__name__}\(kernel=...\)` must be a function"
    ):
        output(kernel)
    with pytest.raises(ValueError, match=r"`Dense\(kernel=...\)` must be a function"):
        MatrixMLP(3, 2, (4,), kernel=kernel, key=KEY)
