"""Networks of the library in the paper's weights, and their gradients compared."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import mmlp
from mmlp.alpha import activations, basic, general

MERCER = mmlp.MercerSigmoid(slope=0.8, intercept=0.3)


def sizes(p, d, hidden, output, **vectors):
    return {
        "in_features": p,
        "dim": d,
        "hidden_dims": hidden,
        "output": output,
        **vectors,
    }


BASIC = {
    "deep": sizes(6, 3, (5, 2, 4), mmlp.Dense(MERCER)),
    "one hidden layer": sizes(2, 4, (5,), mmlp.Dense(mmlp.MercerSigmoid(1.2, -0.2))),
    "linear output": sizes(3, 3, (4, 5), mmlp.Dense(mmlp.Linear())),
    "diagonal": sizes(3, 3, (4, 2), mmlp.Diagonal(MERCER)),
}
GENERAL = {
    "deep": {**BASIC["deep"], "out_features": 2, "hidden_features": (4, 6, 2)},
    "default widths": {**BASIC["linear output"], "out_features": 4},
    "diagonal": sizes(
        3, 3, (4, 2), mmlp.Diagonal(), out_features=5, hidden_features=(2, 4)
    ),
}


def network(cls=mmlp.MatrixMLP, *, seed=2, **configuration):
    """A network with every weight random: a constructed b is zero."""
    shapes = eqx.filter_eval_shape(
        cls, **configuration, kernel=MERCER, key=jax.random.key(0)
    )
    rng = np.random.default_rng(seed)
    return jax.tree.map(
        lambda w: jnp.asarray(rng.standard_normal(w.shape) / w.shape[-1] ** 0.5), shapes
    )


def weights(model):
    """[{letter: weight}] of the layers, output first as in the paper."""
    assert not model.joint  # which the paper does not have
    matrices = [{"W": layer.W, "B": layer.B} for layer in model.matrices]
    vectors = [
        {"A": layer.A, "C": layer.C, "b": layer.b} for layer in model.vectors
    ] or [{}] * len(matrices)
    return [
        {**matrix, **vector} for matrix, vector in zip(matrices, vectors, strict=True)
    ][::-1]


def paper_constants(model):
    """[{letter: paper's weight / mmlp's weight}]: mmlp carries d_l H_l for H_l."""
    d = [layer.B.shape[0] for layer in model.matrices]
    constants = [
        {
            "W": d[i - 1] ** 0.5 if i else 1.0,
            "B": 1.0,
            "A": 1.0,
            "C": float(d[i]),
            "b": 1.0,
        }
        for i in range(len(d))
    ]
    return constants[::-1]


def paper_kernel(kernel, diagonal):
    if isinstance(kernel, mmlp.Linear):
        return activations.linear(diagonal=diagonal)
    return activations.mercer_sigmoid(kernel.slope, kernel.intercept, diagonal=diagonal)


def paper_layers(model, output=activations.identity):
    """The network's layers, output first; `output` is the last vector activation."""
    layers = []
    for index, (own, constant) in enumerate(
        zip(weights(model), paper_constants(model), strict=True)
    ):
        layer = model.matrices[-1 - index]
        paper = {
            letter: constant[letter] * np.asarray(weight)
            for letter, weight in own.items()
        }
        H = paper_kernel(layer.output.kernel, isinstance(layer.output, mmlp.Diagonal))
        if model.vectors:
            layers.append(
                general.Layer(
                    **paper, H=H, h=output if index == 0 else activations.tanh
                )
            )
        else:
            layers.append(basic.Layer(**paper, H=H))
    return layers


def assert_gradients_equal(fast, model, literal, loss):
    """`fast` is JAX's gradient, a model; no weight of any layer has a zero one."""
    for own, constant, by_weight in zip(
        weights(fast), paper_constants(model), literal, strict=True
    ):
        assert by_weight.keys() == own.keys()
        for name, gradient in by_weight.items():
            expected = (
                constant[name] * gradient
            )  # the chain rule: paper's weight = constant * mmlp's weight
            largest = np.abs(expected).max()
            assert largest > 1e-8, f"gradient of {loss} by {name} is zero"
            np.testing.assert_allclose(
                own[name],
                expected,
                rtol=0,
                atol=1e-9 * largest,
                err_msg=f"{loss} by {name}",
            )
