"""Beyond tests/alpha: saturation, float32, batches, bad input, the joint form."""

import subprocess
import sys
from pathlib import Path

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
    Gram,
    JointMatrixMLP,
    MatrixMLP,
    MercerSigmoid,
    RadialBasis,
    ShallowMatrixMLP,
    Triangular,
    von_neumann,
)

KEY = jax.random.key(0)
NETWORKS = {
    "basic": lambda: MatrixMLP(4, 3, (6, 5), key=KEY),
    "basic, the paper's output kernel": lambda: MatrixMLP(
        4, 3, (6, 5), output=Dense(MercerSigmoid()), key=KEY
    ),
    "general": lambda: MatrixMLP(4, 3, (6, 5), 2, (7, 8), key=KEY),
    "general, diagonal": lambda: MatrixMLP(4, 3, (6, 5), 2, output=Diagonal(), key=KEY),
    "general, triangular": lambda: MatrixMLP(
        4, 3, (6, 5), 2, output=Triangular(), key=KEY
    ),
    "joint": lambda: JointMatrixMLP(4, 3, (6, 5), 2, (7, 8), key=KEY),
    "joint, no vector": lambda: JointMatrixMLP(4, 3, (6, 5), None, (7, 8), key=KEY),
    "joint, triangular": lambda: JointMatrixMLP(
        4, 3, (6, 5), 2, output=Triangular(), key=KEY
    ),
    "joint, diagonal, size one": lambda: JointMatrixMLP(
        1, 1, (1,), 1, output=Diagonal(), key=KEY
    ),
    "joint, triangular, size one": lambda: JointMatrixMLP(
        1, 1, (1,), output=Triangular(), key=KEY
    ),
    "no hidden layer": lambda: MatrixMLP(4, 3, (), key=KEY),
    "size one": lambda: MatrixMLP(1, 1, (1, 1), 1, key=KEY),
    "shallow": lambda: ShallowMatrixMLP(4, 3, (6, 5), key=KEY),
    "shallow, triangular": lambda: ShallowMatrixMLP(
        4, 3, (6, 5), output=Triangular(), key=KEY
    ),
    "cholesky": lambda: CholeskyMLP(4, 3, (6, 5), key=KEY),
    "cholesky, diagonal": lambda: CholeskyMLP(
        4, 3, (6, 5), 2, output=Diagonal(), key=KEY
    ),
    "cholesky, dense": lambda: CholeskyMLP(4, 3, (6, 5), output=Dense(), key=KEY),
}
each = pytest.mark.parametrize("name", NETWORKS)


def matrix_of(output):
    return output[1] if isinstance(output, tuple) else output


@each
@sweep("dtype", [np.float32, np.float64])
def test_output_is_spd_with_trace_one_from_tiny_to_huge_inputs(name, dtype):
    model = jax.tree.map(lambda w: w.astype(dtype), NETWORKS[name]())
    directions = np.random.default_rng(0).normal(size=(5, model.in_features))
    X = np.concatenate(
        [directions * scale for scale in (1e-6, 1e-3, 1, 1e3, 1e6)]
    ).astype(dtype)
    output = jax.jit(lambda model, X: jax.vmap(model)(X))(model, X)
    A = matrix_of(output)
    for leaf in jax.tree.leaves(output):
        assert leaf.dtype == dtype
        assert np.all(np.isfinite(leaf))
    np.testing.assert_allclose(A.trace(), 1, rtol=10 * np.finfo(dtype).eps)
    s = np.linalg.svd(np.asarray(A.factor, float), compute_uv=False)
    # docs/maths.md: that one alone may saturate
    rounding = 0 if name == "no hidden layer" else np.finfo(dtype).eps
    assert np.all(s[:, -1] > rounding * s[:, 0])
    assert np.all(np.isfinite(A.logdet()))


@each
def test_a_batch_is_the_samples_one_by_one(name):
    model = NETWORKS[name]()
    X = np.random.default_rng(1).normal(size=(3, model.in_features))
    batch = jax.jit(lambda X: jax.vmap(model)(X))(X)
    compiled = jax.jit(lambda x: model(x))
    for i in range(3):
        for one, many in zip(
            jax.tree.leaves(compiled(X[i])), jax.tree.leaves(batch), strict=True
        ):
            np.testing.assert_allclose(one, many[i], rtol=1e-9, atol=1e-12)


@pytest.mark.slow
def test_a_sample_and_its_gradient_do_not_feel_their_neighbours():
    model = NETWORKS["general"]()
    X = np.random.default_rng(2).normal(size=(5, 4))
    loud = X.copy()
    loud[3] *= 1000
    target = Gram.trace_one(jnp.eye(3))

    @jax.jit
    def each_gradient(X):
        def loss(model, x):
            vector, A = model(x)
            return von_neumann(A, target) + jnp.sum(vector**2)

        return jax.vmap(jax.value_and_grad(loss), in_axes=(None, 0))(model, X)

    keep = np.arange(5) != 3
    for quiet, disturbed in zip(
        jax.tree.leaves(each_gradient(X)),
        jax.tree.leaves(each_gradient(loud)),
        strict=True,
    ):
        np.testing.assert_array_equal(quiet[keep], disturbed[keep])


def kernel_matrix(T):
    return T.T @ T / np.sum(T**2)


@sweep("out_features", [None, 2])
def test_the_equations_of_the_joint_form(out_features):
    """Written out, with the sizes d_l in place of the paper's constants."""
    model = JointMatrixMLP(4, 3, (6, 5), out_features, (7, 8), key=KEY)
    x = np.random.default_rng(4).normal(size=4)
    M2, M1, M0 = model.matrices

    def vector(layer, H, h):
        return (layer.C @ (len(H) * H) @ layer.A + layer.D) @ h + layer.b

    H2 = kernel_matrix(np.tanh(np.outer(M2.W @ x, M2.W.sum(axis=1)) + M2.B))
    H1 = kernel_matrix(np.tanh(M1.W @ (6 * H2) @ M1.W.T + M1.B))
    h1 = np.tanh(vector(model.vectors[1], H1, np.tanh(vector(model.vectors[0], H2, x))))
    Z0 = M0.W @ (5 * H1) @ M0.W.T + M0.B + (M0.V @ h1).reshape(3, 3)
    output = model(x)
    np.testing.assert_allclose(
        matrix_of(output).dense(), kernel_matrix(Z0), rtol=1e-11, atol=1e-13
    )
    if out_features is not None:
        np.testing.assert_allclose(
            output[0], vector(model.vectors[2], H1, h1), rtol=1e-11
        )
    assert model.out_features == out_features


def test_the_joint_form_contains_a_standard_mlp():
    model, x = NETWORKS["joint"](), np.random.default_rng(5).normal(size=4)
    model = without_matrices(model)
    h = x
    for layer in model.vectors[:-1]:
        h = np.tanh(layer.D @ h + layer.b)
    z0, H0 = model(x)
    last = model.matrices[-1]
    np.testing.assert_allclose(z0, model.vectors[-1].D @ h, rtol=1e-12)
    np.testing.assert_allclose(
        H0.dense(), kernel_matrix(last.B + (last.V @ h).reshape(3, 3))
    )


def without_matrices(model):
    where = lambda m: (*(v.C for v in m.vectors), m.matrices[-1].W)  # noqa: E731
    return eqx.tree_at(where, model, replace_fn=jnp.zeros_like)


def test_the_joint_form_with_a_triangular_output_contains_the_cholesky_mlp():
    cholesky = CholeskyMLP(4, 3, (7, 8), 2, key=KEY)
    W, b = (
        cholesky.perceptron.W,
        [jnp.arange(1.0, 1 + len(b)) / 10 for b in cholesky.perceptron.b],
    )
    cholesky = eqx.tree_at(lambda m: m.perceptron.b, cholesky, tuple(b))
    joint = JointMatrixMLP(4, 3, (6, 5), 2, (7, 8), output=Triangular(), key=KEY)
    joint = eqx.tree_at(
        lambda m: (
            *(layer.D for layer in m.vectors),
            *(layer.b for layer in m.vectors),
            m.matrices[-1].V,
            m.matrices[-1].B,
        ),
        without_matrices(joint),
        (W[0], W[1], W[2][:2], b[0], b[1], b[2][:2], W[2][2:], b[2][2:]),
    )
    for x in np.random.default_rng(6).normal(size=(5, 4)):
        for own, theirs in zip(
            jax.tree.leaves(joint(x)), jax.tree.leaves(cholesky(x)), strict=True
        ):
            np.testing.assert_allclose(own, theirs, rtol=1e-13, atol=1e-15)


def test_hidden_and_output_kernels_are_chosen_separately():
    output = Dense(MercerSigmoid(slope=2.0))
    model = MatrixMLP(4, 3, (6, 5), kernel=RadialBasis(), output=output, key=KEY)
    kernels = [type(layer.output.kernel) for layer in model.matrices]
    assert kernels == [RadialBasis, RadialBasis, MercerSigmoid]
    assert np.all(np.isfinite(model(jnp.ones(4)).dense()))


def test_cholesky_covers_every_spd_matrix_of_trace_one():
    """The baseline can be any trace-one matrix: its last layer is solved for one."""
    rng = np.random.default_rng(3)
    T = np.triu(rng.normal(size=(3, 3)))
    T[np.diag_indices(3)] = np.abs(np.diag(T))
    z = Triangular().entries(T + np.diag(np.log(np.diag(T)) - np.diag(T)))
    model = NETWORKS["cholesky"]()
    model = eqx.tree_at(
        lambda m: (m.perceptron.W[-1], m.perceptron.b[-1]),
        model,
        (jnp.zeros((6, 5)), jnp.asarray(z)),
    )
    np.testing.assert_allclose(
        model(jnp.ones(4)).dense(), T.T @ T / np.sum(T**2), atol=1e-12
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: MatrixMLP(4, 0, key=KEY),
            r"`MatrixMLP\(dim=...\)` must be a whole number of at least 1, got 0",
        ),
        (lambda: MatrixMLP(0, 3, key=KEY), r"`MatrixMLP\(in_features=...\)`.*got 0"),
        (lambda: MatrixMLP(4, 3.0, key=KEY), r"got 3.0"),
        (
            lambda: MatrixMLP(4, 3, (5, -1), key=KEY),
            r"`MatrixMLP\(hidden_dims=...\)`.*got -1",
        ),
        (
            lambda: MatrixMLP(4, 3, 20, key=KEY),
            r"must be a tuple of sizes such as \(20, 20\), got 20",
        ),
        (
            lambda: MatrixMLP(4, 3, (5,), hidden_features=(5,), key=KEY),
            r"need `out_features`",
        ),
        (
            lambda: MatrixMLP(4, 3, (5, 5), 2, (5,), key=KEY),
            r"one width for each of the 2 hidden_dims, got \(5,\)",
        ),
        (
            lambda: JointMatrixMLP(4, 3, (), 2, key=KEY),
            r"`JointMatrixMLP\(hidden_dims=...\)` must name a hidden layer, got \(\)",
        ),
        (
            lambda: JointMatrixMLP(4, 3, (5, 5), hidden_features=(5,), key=KEY),
            r"one width for each of the 2 hidden_dims, got \(5,\)",
        ),
        (
            lambda: JointMatrixMLP(4, 3, (5,), 0, key=KEY),
            r"MLP\(out_features=...\)`.*got 0",
        ),
        (
            lambda: CholeskyMLP(4, 3, (5,), 0, key=KEY),
            r"MLP\(out_features=...\)`.*got 0",
        ),
        (lambda: ShallowMatrixMLP(4, 3, (), key=KEY), r"must name a layer, got \(\)"),
        (lambda: CholeskyMLP(4, True, key=KEY), r"`CholeskyMLP\(dim=...\)`.*got True"),
        (
            lambda: NETWORKS["basic"]()(np.ones(3)),
            r"`MatrixMLP.__call__\(x=...\)` must have shape \(4,\), got shape \(3,\)",
        ),
        (lambda: NETWORKS["basic"]()(np.ones((2, 4))), r"use `jax.vmap` for a batch"),
        (
            lambda: NETWORKS["basic"]()(np.arange(4)),
            r"must hold floating-point numbers, got dtype int64",
        ),
        (
            lambda: NETWORKS["shallow"]()(np.array([1, np.nan, 1, 1])),
            r"must be finite, got nan at index \(1,\)",
        ),
        (lambda: NETWORKS["cholesky"]()(np.ones(0)), r"no axis of length 0"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.slow
def test_a_560_pixel_covariance_fits_in_memory():
    """Value and gradient of the von Neumann loss, batch 10, take below 1.5 GiB."""
    script = Path(__file__).parents[2] / "benchmarks" / "scaling.py"
    run = subprocess.run(
        [sys.executable, script, "von Neumann", "560"],
        capture_output=True,
        text=True,
        check=True,
    )
    peak = float(run.stdout.split()[-1])
    assert peak < 1536
