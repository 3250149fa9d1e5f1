"""The paper's networks and their backpropagation, literally, against the fast path."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from alpha_numbers import LOSSES, spd
from paper_weights import (
    BASIC,
    GENERAL,
    MERCER,
    assert_gradients_equal,
    network,
    paper_constants,
    paper_kernel,
    paper_layers,
    sizes,
    weights,
)

import mmlp
from mmlp.alpha import activations, basic, general

SIZE_ONE = {
    "size one": sizes(1, 1, (1, 3, 1), mmlp.Dense(MERCER)),
    "no hidden layer": sizes(3, 2, (), mmlp.Dense(MERCER)),
}


def sample(model):
    """An input, a target matrix of trace one and a target vector."""
    rng = np.random.default_rng(3)
    Y = spd(rng, model.matrices[-1].B.shape[0])
    y = rng.standard_normal(model.vectors[-1].b.shape) if model.vectors else None
    return rng.standard_normal(model.matrices[0].W.shape[1]), Y, y


# -- feedforward ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "configuration", [*BASIC.values(), *SIZE_ONE.values()], ids=[*BASIC, *SIZE_ONE]
)
def test_feedforward_of_the_basic_form_equals_the_fast_path(configuration):
    model = network(**configuration)
    x, _, _ = sample(model)
    np.testing.assert_allclose(
        eqx.filter_jit(model)(x).dense(),
        basic.feedforward(paper_layers(model), x).H[0],
        rtol=0,
        atol=1e-12,
    )


@pytest.mark.parametrize(
    "configuration",
    [*GENERAL.values(), *({**one, "out_features": 1} for one in SIZE_ONE.values())],
    ids=[*GENERAL, *SIZE_ONE],
)
def test_feedforward_of_the_general_form_equals_the_fast_path(configuration):
    model = network(**configuration)
    x, _, _ = sample(model)
    y_hat, Y_hat = eqx.filter_jit(model)(x)
    latent = general.feedforward(paper_layers(model), x)
    np.testing.assert_allclose(Y_hat.dense(), latent.H[0], rtol=0, atol=1e-12)
    np.testing.assert_allclose(y_hat, latent.h[0], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("dim", "hidden_features"), [(3, (4, 2, 5)), (4, (3,)), (1, (2, 2))]
)
def test_feedforward_of_the_shallow_design_equals_the_fast_path(dim, hidden_features):
    model = network(
        mmlp.ShallowMatrixMLP, in_features=3, dim=dim, hidden_features=hidden_features
    )
    x = np.random.default_rng(4).standard_normal(3)
    W = [np.asarray(W) for W in (model.last.W, *model.perceptron.W[::-1])]
    b = [np.asarray(b) for b in model.perceptron.b[::-1]]
    H = paper_kernel(model.last.output.kernel, diagonal=False)
    Y_hat = basic.feedforward_shallow(
        W, b, np.asarray(model.last.B), x, activations.tanh, H
    )
    np.testing.assert_allclose(
        eqx.filter_jit(model)(x).dense(), Y_hat, rtol=0, atol=1e-12
    )


# -- backpropagation ------------------------------------------------------------------


def gradients_of_all_losses(of_model, model):
    """{loss: gradient by the model}, of all losses in one compiled program."""
    by_loss = jax.jit(jax.jacrev(of_model))(model)
    return {
        name: jax.tree.map(lambda gradient, k=k: gradient[k], by_loss)
        for k, name in enumerate(LOSSES)
    }


@pytest.mark.parametrize("configuration", BASIC.values(), ids=BASIC)
def test_backpropagation_of_the_basic_form_equals_automatic_differentiation(
    configuration,
):
    model = network(**configuration)
    x, Y, _ = sample(model)

    def of_model(model):
        Y_hat = model(x)
        return jnp.stack(
            [
                fast_loss(Y_hat, mmlp.Gram.from_dense(Y))
                for fast_loss, _, _ in LOSSES.values()
            ]
        )

    for loss, fast in gradients_of_all_losses(of_model, model).items():
        d_loss = LOSSES[loss][2]
        literal = basic.backpropagation(
            paper_layers(model), x, lambda Y_hat, d_loss=d_loss: d_loss(Y_hat, Y)
        )
        assert_gradients_equal(fast, model, literal, loss)


@pytest.mark.parametrize("configuration", GENERAL.values(), ids=GENERAL)
def test_backpropagation_of_the_general_form_equals_automatic_differentiation(
    configuration,
):
    """Under each loss of the matrix plus |yhat - y|^2."""
    model = network(**configuration)
    x, Y, y = sample(model)

    def of_model(model):
        y_hat, Y_hat = model(x)
        matrix = jnp.stack(
            [
                fast_loss(Y_hat, mmlp.Gram.from_dense(Y))
                for fast_loss, _, _ in LOSSES.values()
            ]
        )
        return matrix + jnp.sum((y_hat - y) ** 2)

    for loss, fast in gradients_of_all_losses(of_model, model).items():

        def d_loss(y_hat, Y_hat, loss=loss):
            return 2 * (y_hat - y), LOSSES[loss][2](Y_hat, Y)

        assert_gradients_equal(
            fast, model, general.backpropagation(paper_layers(model), x, d_loss), loss
        )


def test_a_matrix_of_size_one_has_no_derivative():
    """Of trace one it is the number one, and the vector path alone learns."""
    model = network(
        in_features=2,
        dim=1,
        hidden_dims=(3,),
        output=mmlp.Dense(MERCER),
        out_features=2,
    )
    x, _, y = sample(model)
    fast = jax.jit(jax.grad(lambda model: jnp.sum((model(x)[0] - y) ** 2)))(model)
    literal = general.backpropagation(
        paper_layers(model), x, lambda y_hat, Y_hat: (2 * (y_hat - y), np.zeros(1))
    )
    for name in ("W", "B"):
        np.testing.assert_allclose(literal[0][name], 0, atol=1e-14)
        np.testing.assert_allclose(weights(fast)[0][name], 0, atol=1e-14)
    for name in ("A", "C", "b"):
        expected = paper_constants(model)[0][name] * literal[0][name]
        np.testing.assert_allclose(
            weights(fast)[0][name], expected, rtol=1e-9, atol=1e-12
        )
