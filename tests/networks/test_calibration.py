import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sweeps import sweep

from mmlp import (
    CholeskyMLP,
    Dense,
    Diagonal,
    GaussianHead,
    Gram,
    JointMatrixMLP,
    LowRank,
    MatrixMLP,
    ShallowMatrixMLP,
    Triangular,
    calibrate,
)
from mmlp.networks.layers import MATRIX_SPREAD, VECTOR_SPREAD, Perceptron, gain

KEY = jax.random.key(0)
X = (
    np.random.default_rng(0).normal(size=(200, 6)) * 100 + 1000
)  # badly scaled on purpose
compiled = eqx.filter_jit(calibrate)  # step by step it takes longer


def spread(values):
    return np.sqrt(np.mean(np.var(values, axis=0)))


@pytest.mark.slow
def test_every_layer_of_a_matrix_mlp_varies_by_the_set_amount():
    model = compiled(MatrixMLP(6, 4, (7, 5), 3, (8, 9), key=KEY), X, key=KEY)
    H, h = X, None
    for matrix, vector in zip(model.matrices, model.vectors, strict=True):
        np.testing.assert_allclose(
            spread(jax.vmap(matrix.product)(H)), MATRIX_SPREAD, rtol=1e-6
        )
        H = jax.vmap(matrix)(H)
        h = jnp.ones((200, 8)) if h is None else jnp.tanh(h)
        h = jax.vmap(vector)(H, h)
        np.testing.assert_allclose(spread(h), VECTOR_SPREAD, rtol=1e-6)
        np.testing.assert_allclose(np.mean(h, axis=0), 0, atol=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("output", [Dense(), Triangular()])
@pytest.mark.parametrize("out_features", [None, 3])
def test_both_parts_of_a_joint_mlp_vary_by_the_set_amount(output, out_features):
    model = JointMatrixMLP(6, 4, (7, 5), out_features, (8, 9), output=output, key=KEY)
    model = compiled(model, X, key=KEY)
    H = jax.vmap(lambda x: model.matrices[1](model.matrices[0](x)))(X)
    h = X
    for i, layer in enumerate(model.vectors[:2]):
        source = jax.vmap(model.matrices[0])(X) if i == 0 else H
        h = jax.vmap(layer)(source, h)
        np.testing.assert_allclose(spread(h), VECTOR_SPREAD, rtol=1e-6)
        h = jnp.tanh(h)
    last, wanted = (
        model.matrices[-1],
        MATRIX_SPREAD / (2 if output == Triangular() else 1),
    )
    np.testing.assert_allclose(spread(jax.vmap(last.product)(H)), wanted, rtol=1e-6)
    np.testing.assert_allclose(spread(h @ last.V.T), wanted, rtol=1e-6)
    centre = np.mean(jax.vmap(last.product)(H) + jax.vmap(last.bias)(h), axis=0)
    if output == Triangular():  # the identity
        np.testing.assert_allclose(centre, np.zeros(10), atol=1e-9)
    else:  # draw_bias: orthogonal up to scale
        square = centre @ centre.T
        np.testing.assert_allclose(square, np.trace(square) / 4 * np.eye(4), atol=1e-9)
    if out_features is not None:
        z = jax.vmap(model.vectors[-1])(H, h)
        np.testing.assert_allclose(spread(z), VECTOR_SPREAD, rtol=1e-6)


@pytest.mark.parametrize("make", [ShallowMatrixMLP, CholeskyMLP])
@sweep("output", [Dense(), Diagonal(), Triangular()])
def test_the_other_networks_respond_too(make, output):
    model = compiled(make(6, 4, (7, 5), output=output, key=KEY), X, key=KEY)
    assert np.mean(np.var(jax.vmap(model)(X).dense(), axis=0)) > 1e-4


def test_a_head_is_calibrated_by_its_network():
    network = MatrixMLP(6, 4, (7, 5), 5, key=KEY)
    head = calibrate(GaussianHead(network), X, key=KEY)
    assert jax.tree.all(
        jax.tree.map(np.array_equal, head.network, calibrate(network, X, key=KEY))
    )


class Scaled(eqx.Module):
    """A network of one's own; without `in_features`, like many."""

    weight: jax.Array

    def __call__(self, x):
        return self.weight * x

    def calibrated(self, X, *, key):
        return Scaled(gain(X, 1.0) * self.weight)


class Without(eqx.Module):
    dim, out_features = 2, 3


def test_a_network_of_ones_own_calibrates_itself():
    model = calibrate(Scaled(jnp.ones(6)), X, key=KEY)
    np.testing.assert_allclose(spread(jax.vmap(model)(X)), 1, rtol=1e-6)
    with pytest.raises(ValueError, match=r"or have a method `calibrated.*got Without"):
        calibrate(GaussianHead(Without()), X, key=KEY)


def test_the_model_passed_in_survives_and_the_result_is_reproducible():
    model = MatrixMLP(6, 4, (7, 5), 3, key=KEY)
    before = jax.tree.map(np.array, model)
    a, b = calibrate(model, X, key=KEY), calibrate(model, X, key=KEY)
    assert jax.tree.all(jax.tree.map(np.array_equal, before, model))
    assert jax.tree.all(jax.tree.map(np.array_equal, a, b))
    assert jax.tree.structure(a) == jax.tree.structure(model)


@sweep("dtype", [np.float32, np.float64])
def test_what_does_not_vary_is_left_alone(dtype):
    """Size one is always the matrix 1: rounding is not amplified."""
    single = MatrixMLP(6, 1, (1,), 2, key=KEY)
    constant = MatrixMLP(6, 4, (7,), 2, key=KEY)
    for model, inputs in ((single, X), (constant, np.ones((10, 6)))):
        result = compiled(
            jax.tree.map(lambda w: w.astype(dtype), model),
            inputs.astype(dtype),
            key=KEY,
        )
        weights = jax.tree.leaves(result)
        assert all(w.dtype == dtype for w in weights)
        assert all(np.all(np.isfinite(w)) and np.max(np.abs(w)) < 100 for w in weights)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda m: calibrate(m, X[:1], key=KEY),
            r"at least two rows, got shape \(1, 6\)",
        ),
        (lambda m: calibrate(m, X[:0], key=KEY), r"no axis of length 0"),
        (lambda m: calibrate(m, X[0], key=KEY), r"must have shape \(n, p\)"),
        (
            lambda m: calibrate(m, X.astype(int), key=KEY),
            r"must hold floating-point numbers",
        ),
        (
            lambda m: calibrate(m, np.where(X > 1000, np.nan, X), key=KEY),
            r"must be finite",
        ),
        (
            lambda m: calibrate(m, X[:, :5], key=KEY),
            r"`calibrate\(X=...\)` must have 6 columns.*got 5",
        ),
        (
            lambda m: calibrate(jnp.tanh, X, key=KEY),
            r"must be one of the library's networks, .*, or have .*, got Pjit",
        ),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call(MatrixMLP(6, 2, (3,), key=KEY))


class Own(eqx.Module):
    """A network of one's own that takes no targets."""

    dim, out_features, in_features = 2, 3, 6

    def __call__(self, x):
        return jnp.zeros(3), Gram(jnp.eye(2) / 2**0.5)

    def calibrated(self, X, *, key):
        return self


def test_targets_that_nothing_reads_or_no_float_holds_are_refused():
    Y = np.random.default_rng(0).normal(size=(20, 2))
    with pytest.raises(
        ValueError, match=r"`calibrated\(X, \*, key, targets\)`, got Own"
    ):
        calibrate(Own(), X, key=KEY, targets=Y)
    with pytest.raises(
        ValueError, match=r"needs a network with a method `shifted\(offset\)`"
    ):
        calibrate(GaussianHead(Own()), X, key=KEY, targets=Y)
    with pytest.raises(ValueError, match=r"got Perceptron"):
        calibrate(Perceptron((6, 4, 2), key=KEY), X, key=KEY, targets=Y)
    head = GaussianHead(JointMatrixMLP(6, 2, (3,), 3, output=LowRank(1), key=KEY))
    head = jax.tree.map(lambda x: x.astype("float32"), head)
    for size in (1e20, 1e-21):
        with pytest.raises(
            ValueError, match=r"must have squares in float32, got deviations"
        ):
            calibrate(head, X, key=KEY, targets=size * Y)
