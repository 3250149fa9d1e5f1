"""The paper's appendices, literally, against the fast path; misprinted formulas against numbers."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from paper_weights import (
    MERCER,
    assert_gradients_equal,
    network,
    paper_constants,
    paper_kernel,
    paper_layers,
    weights,
)

import mmlp
from mmlp.alpha import activations, basic, calculus, general, losses
from mmlp.alpha.calculus import unvec, vec

LOSSES = {
    "von_neumann": (mmlp.von_neumann, losses.von_neumann, losses.d_von_neumann),
    "stein": (mmlp.stein, losses.stein, losses.d_stein),
    "quadratic": (mmlp.quadratic, losses.quadratic, losses.d_quadratic),
}
BASIC = {
    "deep": {"in_features": 6, "dim": 3, "hidden_dims": (5, 2, 4), "output": mmlp.Dense(MERCER)},
    "one hidden layer": {
        "in_features": 2,
        "dim": 4,
        "hidden_dims": (5,),
        "output": mmlp.Dense(mmlp.MercerSigmoid(1.2, -0.2)),
    },
    "linear output": {
        "in_features": 3,
        "dim": 3,
        "hidden_dims": (4, 5),
        "output": mmlp.Dense(mmlp.Linear()),
    },
    "diagonal": {
        "in_features": 3,
        "dim": 3,
        "hidden_dims": (4, 2),
        "output": mmlp.Diagonal(MERCER),
    },
}
GENERAL = {
    "deep": {**BASIC["deep"], "out_features": 2, "hidden_features": (4, 6, 2)},
    "default widths": {**BASIC["linear output"], "out_features": 4},
    "diagonal": {
        **BASIC["diagonal"],
        "output": mmlp.Diagonal(),
        "out_features": 5,
        "hidden_features": (2, 4),
    },
}
SIZE_ONE = {
    "size one": {
        "in_features": 1,
        "dim": 1,
        "hidden_dims": (1, 3, 1),
        "output": mmlp.Dense(MERCER),
    },
    "no hidden layer": {
        "in_features": 3,
        "dim": 2,
        "hidden_dims": (),
        "output": mmlp.Dense(MERCER),
    },
}


def sample(model):
    """An input, a target matrix of trace one and a target vector."""
    rng = np.random.default_rng(3)
    Y = spd(rng, model.matrices[-1].B.shape[0])
    y = rng.standard_normal(model.vectors[-1].b.shape) if model.vectors else None
    return rng.standard_normal(model.matrices[0].W.shape[1]), Y, y


def spd(rng, d):
    T = 0.4 * rng.standard_normal((d, d)) + np.eye(d)
    return T.T @ T / np.sum(T**2)


# -- feedforward -----------------------------------------------------------------------------------


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


@pytest.mark.parametrize(("dim", "hidden_features"), [(3, (4, 2, 5)), (4, (3,)), (1, (2, 2))])
def test_feedforward_of_the_shallow_design_equals_the_fast_path(dim, hidden_features):
    model = network(mmlp.ShallowMatrixMLP, in_features=3, dim=dim, hidden_features=hidden_features)
    x = np.random.default_rng(4).standard_normal(3)
    W = [np.asarray(W) for W in (model.last.W, *model.perceptron.W[::-1])]
    b = [np.asarray(b) for b in model.perceptron.b[::-1]]
    H = paper_kernel(model.last.output.kernel, diagonal=False)
    Y_hat = basic.feedforward_shallow(W, b, np.asarray(model.last.B), x, activations.tanh, H)
    np.testing.assert_allclose(eqx.filter_jit(model)(x).dense(), Y_hat, rtol=0, atol=1e-12)


# -- backpropagation -------------------------------------------------------------------------------


def gradients_of_all_losses(of_model, model):
    """{loss: gradient by the model}, from all losses at once: compiling takes most of the time."""
    by_loss = jax.jit(jax.jacrev(of_model))(model)
    return {
        name: jax.tree.map(lambda gradient, k=k: gradient[k], by_loss)
        for k, name in enumerate(LOSSES)
    }


@pytest.mark.parametrize("configuration", BASIC.values(), ids=BASIC)
def test_backpropagation_of_the_basic_form_equals_automatic_differentiation(configuration):
    model = network(**configuration)
    x, Y, _ = sample(model)

    def of_model(model):
        Y_hat = model(x)
        return jnp.stack(
            [fast_loss(Y_hat, mmlp.Gram.from_dense(Y)) for fast_loss, _, _ in LOSSES.values()]
        )

    for loss, fast in gradients_of_all_losses(of_model, model).items():
        d_loss = LOSSES[loss][2]
        literal = basic.backpropagation(
            paper_layers(model), x, lambda Y_hat, d_loss=d_loss: d_loss(Y_hat, Y)
        )
        assert_gradients_equal(fast, model, literal, loss)


@pytest.mark.parametrize("configuration", GENERAL.values(), ids=GENERAL)
def test_backpropagation_of_the_general_form_equals_automatic_differentiation(configuration):
    """Under each loss of the matrix plus |yhat - y|^2."""
    model = network(**configuration)
    x, Y, y = sample(model)

    def of_model(model):
        y_hat, Y_hat = model(x)
        matrix = jnp.stack(
            [fast_loss(Y_hat, mmlp.Gram.from_dense(Y)) for fast_loss, _, _ in LOSSES.values()]
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
        in_features=2, dim=1, hidden_dims=(3,), output=mmlp.Dense(MERCER), out_features=2
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
        np.testing.assert_allclose(weights(fast)[0][name], expected, rtol=1e-9, atol=1e-12)


# -- each formula against finite differences; what the paper misprints -----------------------------


def differences(f, X, step=1e-5):
    """D_X f by central differences, a column for each entry of vec X."""
    columns = []
    for k in range(X.size):
        E = np.zeros(X.size)
        E[k] = step
        columns.append(
            (np.ravel(f(X + unvec(E, X.shape)), "F") - np.ravel(f(X - unvec(E, X.shape)), "F"))
            / (2 * step)
        )
    return np.stack(columns, axis=1)


def symmetric_differences(f, X):
    """The same for a function of a symmetric matrix: X_ij and X_ji move by half each."""
    return differences(lambda X: f((X + X.T) / 2), X)


def disagreement(formula, numbers):
    return np.abs(formula - numbers).max() / np.abs(numbers).max()


@pytest.fixture
def rng():
    return np.random.default_rng(5)


def test_rearrangement_and_commutation_follow_their_definitions(rng):
    A = rng.standard_normal((3, 4))
    np.testing.assert_array_equal(unvec(vec(A), A.shape), A)
    np.testing.assert_array_equal(calculus.commutation(3, 4) @ vec(A), vec(A.T))


def test_alpha_derivative_of_an_m_by_p_function_has_mp_rows(rng):
    """Appendix B defines it for F (m, n) with mp rows; for F (m, p) the product rule holds."""
    m, p, r, n, q = 2, 5, 3, 4, 2
    L, R, S = rng.standard_normal((m, n)), rng.standard_normal((q, p)), rng.standard_normal((p, n))
    X, T = rng.standard_normal((n, q)), rng.standard_normal((q, r))
    D_F, D_G = differences(lambda X: L @ X @ R, X), differences(lambda X: S @ X @ T, X)
    assert D_F.shape == (m * p, n * q)
    formula = calculus.product_rule(L @ X @ R, S @ X @ T, D_F, D_G)
    assert disagreement(formula, differences(lambda X: L @ X @ R @ S @ X @ T, X)) < 1e-7


@pytest.mark.parametrize("loss", LOSSES)
def test_losses_equal_those_of_the_fast_path(rng, loss):
    Y, Y_hat = spd(rng, 4), spd(rng, 4)
    fast, value, _ = LOSSES[loss]
    np.testing.assert_allclose(
        jax.jit(fast)(mmlp.Gram.from_dense(Y_hat), mmlp.Gram.from_dense(Y)),
        value(Y_hat, Y),
        rtol=1e-10,
    )


@pytest.mark.parametrize("loss", LOSSES)
def test_derivatives_of_the_losses_equal_finite_differences(rng, loss):
    Y, Y_hat = spd(rng, 4), spd(rng, 4)
    _, value, d_value = LOSSES[loss]
    assert (
        disagreement(d_value(Y_hat, Y), symmetric_differences(lambda Y_hat: value(Y_hat, Y), Y_hat))
        < 1e-6
    )


def test_stein_derivative_is_right_as_printed(rng):
    """D log|Y (Y+Yhat)^-1| and D log|Yhat (Y+Yhat)^-1| use D(Y (Y+Yhat)^-1): no slip."""
    Y, Y_hat = spd(rng, 4), spd(rng, 4)
    inverse = np.linalg.inv(Y + Y_hat)
    D = -np.kron(np.eye(4), Y) @ np.kron(inverse.T, inverse)
    first = vec(np.linalg.inv(Y @ inverse).T) @ D
    second = -vec(np.linalg.inv(Y_hat @ inverse).T) @ D
    of_Y = differences(lambda Y_hat: np.linalg.slogdet(Y @ np.linalg.inv(Y + Y_hat))[1], Y_hat)
    of_Y_hat = differences(
        lambda Y_hat: np.linalg.slogdet(Y_hat @ np.linalg.inv(Y + Y_hat))[1], Y_hat
    )
    assert disagreement(first, of_Y[0]) < 1e-7
    assert disagreement(second, of_Y_hat[0]) < 1e-6
    np.testing.assert_allclose(-(first + second) / 2, losses.d_stein(Y_hat, Y), rtol=1e-10)


def test_derivative_of_a_log_eigenvalue_needs_one_over_the_eigenvalue(rng):
    Y_hat = spd(rng, 4)
    eigenvalues, V = np.linalg.eigh(Y_hat)
    numbers = symmetric_differences(lambda Y: np.log(np.linalg.eigvalsh(Y)), Y_hat)
    printed = np.stack([vec(np.outer(V[:, k], V[:, k])) for k in range(4)])
    assert disagreement(printed / eigenvalues[:, None], numbers) < 1e-6
    assert disagreement(printed, numbers) > 0.1
    of_eigenvalues = symmetric_differences(np.linalg.eigvalsh, Y_hat)
    assert disagreement(printed, of_eigenvalues) < 1e-6  # without the logarithm it is right


def test_eigenvector_derivative_divides_by_differences_of_eigenvalues(rng):
    Y_hat = spd(rng, 4)
    eigenvalues, V = np.linalg.eigh(Y_hat)

    def eigenvectors(Y):
        moved = np.linalg.eigh(Y)[1]
        return moved * np.sign(np.sum(moved * V, axis=0))  # a decomposition leaves signs open

    def by_eigenvectors(values):
        """vec(d V / d Yhat_ij), d V = V Xi, Xi_kl = (V_ik V_jl + V_il V_jk) / (2 (v_l - v_k))."""
        gaps = 2 * (values[None, :] - values[:, None]) + np.eye(4)
        columns = []
        for j in range(4):
            for i in range(4):
                Xi = (np.outer(V[i], V[j]) + np.outer(V[j], V[i])) * (1 - np.eye(4)) / gaps
                columns.append(vec(V @ Xi))
        return np.stack(columns, axis=1)

    numbers = symmetric_differences(eigenvectors, Y_hat)
    assert disagreement(by_eigenvectors(eigenvalues), numbers) < 1e-6
    assert disagreement(by_eigenvectors(np.log(eigenvalues)), numbers) > 0.1


def test_appendix_d_as_printed_is_the_derivative_of_the_identity(rng):
    """Both of its slips put d Yhat for d log Yhat: it gives d Yhat / d Yhat_ij instead."""
    Y_hat = spd(rng, 4)
    eigenvalues, V = np.linalg.eigh(Y_hat)
    Lambda = np.diag(np.log(eigenvalues))
    gaps = 2 * (np.log(eigenvalues)[None, :] - np.log(eigenvalues)[:, None]) + np.eye(4)
    printed = []
    for j in range(4):
        for i in range(4):
            Xi = (np.outer(V[i], V[j]) + np.outer(V[j], V[i])) * (1 - np.eye(4)) / gaps
            printed.append(vec(V @ (Xi @ Lambda + np.diag(V[i] * V[j]) - Lambda @ Xi) @ V.T))
    printed = np.stack(printed, axis=1)
    numbers = symmetric_differences(losses.logm, Y_hat)
    assert disagreement(losses.d_logm(Y_hat), numbers) < 1e-6
    assert disagreement(printed, numbers) > 0.1
    np.testing.assert_allclose(printed, symmetric_differences(lambda Y: Y, Y_hat), atol=1e-9)


def test_eigenvalues_can_repeat_and_the_eigenvector_method_fails_there():
    """ "By construction, we do not have repeating eigenvalues": orthonormal columns of Z_0 do."""
    H = activations.mercer_sigmoid()
    layers = [
        basic.Layer(np.zeros((2, 2)), np.array([[1.0, 1.0], [1.0, -1.0]]), H),
        basic.Layer(np.ones((2, 1)), np.eye(2), H),
    ]
    Y_hat, Y = basic.feedforward(layers, np.ones(1)).H[0], np.diag([0.25, 0.75])
    np.testing.assert_allclose(Y_hat, np.eye(2) / 2, rtol=0, atol=1e-16)
    with np.errstate(divide="ignore", invalid="ignore"):
        assert not np.isfinite(losses.d_von_neumann(Y_hat, Y)).all()
    numbers = symmetric_differences(lambda Y_hat: losses.von_neumann(Y_hat, Y), Y_hat)[
        0
    ]  # the derivative exists
    T = jnp.asarray(np.linalg.cholesky(Y_hat).T)
    fast = jax.jit(jax.grad(lambda T: mmlp.von_neumann(mmlp.Gram(T), mmlp.Gram.from_dense(Y))))(T)
    np.testing.assert_allclose(
        fast, 2 * T @ unvec(numbers, (2, 2)), atol=1e-8
    )  # l(T'T) has the gradient 2 T D


def test_mercer_sigmoid_is_only_semidefinite():
    """The text has SPD matrices in all layers; two equal columns of Z make log Yhat infinite."""
    Z = np.array([[0.5, 0.5, 1.0], [-1.0, -1.0, 0.2], [0.3, 0.3, 0.7]])
    assert abs(np.linalg.eigvalsh(activations.mercer_sigmoid().value(Z))[0]) < 1e-15


def test_derivatives_by_the_weights_of_a_matrix_layer_equal_finite_differences(rng):
    W, H, x = rng.standard_normal((3, 4)), spd(rng, 4), rng.standard_normal(4)
    assert disagreement(basic.matrix_by_weight(W, H), differences(lambda W: W @ H @ W.T, W)) < 1e-7
    assert disagreement(basic.matrix_by_matrix(W), differences(lambda H: W @ H @ W.T, H)) < 1e-7
    by_input_weight = differences(lambda W: np.outer(W @ x, W @ np.ones(4)), W)
    assert disagreement(basic.matrix_by_input_weight(W, x), by_input_weight) < 1e-7


def test_input_weight_formula_belongs_to_the_input_layer():
    """Appendix E prints D_{W_{j+1}} Z_l; it has the d_{j+1}^2 rows of Z_{j+1}, Z_0 has d_0^2."""
    layers = paper_layers(network(**BASIC["deep"]))
    x = np.ones(6)
    formula = basic.matrix_by_input_weight(layers[-1].W, x)

    def latent(index, W):
        return basic.feedforward([*layers[:-1], layers[-1]._replace(W=W)], x).Z[index]

    assert disagreement(formula, differences(lambda W: latent(-1, W), layers[-1].W)) < 1e-7
    assert formula.shape != differences(lambda W: latent(0, W), layers[-1].W).shape


def test_learning_step_needs_the_shape_of_the_input_in_P_for_the_input_weight():
    """Appendix E prints P_(d_l, d_{l+1}) up to l = j+1; without d_{j+2}, W_{j+1} is d_{j+1} x p."""
    layers = paper_layers(network(**BASIC["deep"]))
    d = [len(layer.B) for layer in layers]  # d_0, ..., d_{j+1}
    x, Y = np.ones(6), spd(np.random.default_rng(0), 3)
    D_W = differences(
        lambda W: losses.quadratic(
            basic.feedforward([*layers[:-1], layers[-1]._replace(W=W)], x).H[0], Y
        ),
        layers[-1].W,
    )[0]
    assert all(D_W.size != d[-1] * size for size in d)  # no width of the network will do
    gradient = basic.backpropagation(layers, x, lambda Y_hat: losses.d_quadratic(Y_hat, Y))[-1]["W"]
    assert disagreement(gradient, unvec(D_W, (d[-1], len(x)))) < 1e-6


def test_derivatives_of_a_vector_layer_equal_finite_differences(rng):
    C, H, A, h = (
        rng.standard_normal((2, 3)),
        spd(rng, 3),
        rng.standard_normal((3, 5)),
        rng.standard_normal(5),
    )
    assert (
        disagreement(
            general.vector_by_outer_weight(H, A, h, 2), differences(lambda C: C @ H @ A @ h, C)
        )
        < 1e-7
    )
    assert (
        disagreement(
            general.vector_by_vector(C, H, A),
            differences(lambda h: C @ H @ A @ h[:, 0], h[:, None]),
        )
        < 1e-7
    )
    assert (
        disagreement(general.vector_by_matrix(C, A, h), differences(lambda H: C @ H @ A @ h, H))
        < 1e-7
    )


def test_derivative_by_A_has_the_factor_h(rng):
    """Appendix F prints D_A z = C H, which has too few columns; with h' kron it is right."""
    C, H, A, h = (
        rng.standard_normal((2, 3)),
        spd(rng, 3),
        rng.standard_normal((3, 5)),
        rng.standard_normal(5),
    )
    numbers = differences(lambda A: C @ H @ A @ h, A)
    assert (C @ H).shape != numbers.shape
    assert disagreement(general.vector_by_inner_weight(C, H, h), numbers) < 1e-7
    A_1, h_1 = A[:, :1], h[:1]  # r_{l+1} = 1: the shape fits, the value does not
    numbers = differences(lambda A: C @ H @ A @ h_1, A_1)
    assert (C @ H).shape == numbers.shape
    assert disagreement(C @ H, numbers) > 0.1
    ones = np.ones(5)  # the input layer's formula is right as printed
    printed = C @ H @ np.kron(ones[None, :], np.eye(3))
    assert disagreement(printed, differences(lambda A: C @ H @ A @ ones, A)) < 1e-7


def test_input_A_has_as_many_columns_as_its_layer_has_features():
    """Appendix F prints P_(d_l, r_{l+1}) up to l = j+1, and ones 1_{j+1} in D_{H_{j+1}} z_{j+1}.

    There is no r_{j+2}: A_{j+1} meets r_{j+1} ones.
    """
    layers = paper_layers(network(**GENERAL["deep"]))
    A, d, r, j = layers[-1].A, len(layers[-1].B), len(layers[-1].b), len(layers) - 2
    gradients = general.backpropagation(layers, np.ones(6), lambda y, Y: (np.ones(2), np.ones(9)))
    assert gradients[-1]["A"].shape == A.shape == (d, r)
    with pytest.raises(ValueError, match="mismatch"):
        A @ np.ones(j + 1)
    with pytest.raises(ValueError, match="mismatch"):
        general.feedforward([*layers[:-1], layers[-1]._replace(A=A[:, :-1])], np.ones(6))


def test_derivative_by_the_output_counts_both_ways_to_the_loss():
    """In D_Yhat l = D_{z_0} l D_Yhat z_0 + D_Yhat l (Appendix F) the first term does not vanish."""
    layers = paper_layers(network(**GENERAL["deep"]))
    x, Y, y = np.ones(6), spd(np.random.default_rng(0), 3), np.ones(2)

    def loss(B):
        latent = general.feedforward([layers[0]._replace(B=B), *layers[1:]], x)
        return losses.quadratic(latent.H[0], Y) + np.sum((latent.h[0] - y) ** 2)

    Z, H, _, h = general.feedforward(layers, x)
    direct = losses.d_quadratic(H[0], Y)
    through_z = 2 * (h[0] - y) @ general.vector_by_matrix(layers[0].C, layers[0].A, h[1])
    D_Z_H, numbers = layers[0].H.derivative(Z[0]), differences(loss, layers[0].B)[0]
    assert disagreement((through_z + direct) @ D_Z_H, numbers) < 1e-6
    assert disagreement(direct @ D_Z_H, numbers) > 0.1


# -- Appendix G ------------------------------------------------------------------------------------


def appendix_g(Z, slope, f):
    """D_Z H with f applied to d(z_m o z_n) / dz_i, as printed."""
    d = len(Z)
    K = f(Z).T @ f(Z)
    trace, D = np.trace(K), np.zeros((d * d, d * d))
    for n in range(d):
        for m in range(d):
            for i in range(d):
                inner = f((i == m) * Z[:, n] + (i == n) * Z[:, m])
                f_i = f(Z[:, i])
                block = slope * (1 - f_i * f_i) / trace**2 * (trace * inner - 2 * K[m, n] * f_i)
                D[m + d * n, d * i : d * (i + 1)] = block
    return D


@pytest.mark.parametrize("diagonal", [False, True])
@pytest.mark.parametrize("kernel", [activations.mercer_sigmoid, activations.linear])
def test_derivative_of_the_kernel_equals_finite_differences(rng, kernel, diagonal):
    numbers = {"slope": 0.8, "intercept": 0.3} if kernel is activations.mercer_sigmoid else {}
    H, Z = kernel(**numbers, diagonal=diagonal), rng.standard_normal((4, 4))
    assert disagreement(H.derivative(Z), differences(H.value, Z)) < 1e-7


def test_intercept_has_one_sign_in_the_kernel_and_its_derivative(rng):
    """Eq. (msk) has tanh(alpha z + beta), Appendix G tanh(alpha z - beta)."""
    Z = rng.standard_normal((3, 3))
    numbers = differences(activations.mercer_sigmoid(0.8, 0.3).value, Z)
    assert disagreement(activations.mercer_sigmoid(0.8, 0.3).derivative(Z), numbers) < 1e-7
    assert disagreement(activations.mercer_sigmoid(0.8, -0.3).derivative(Z), numbers) > 0.1


@pytest.mark.parametrize("intercept", [0.0, 0.3])
def test_kernel_derivative_does_not_apply_f_to_a_derivative(rng, intercept):
    """f(d(z_m o z_n) / dz_i) is f(2 z_i) for 2 f(z_i) where i = m = n, and f(0) for 0 elsewhere."""
    d, Z = 3, rng.standard_normal((3, 3))
    numbers = differences(activations.mercer_sigmoid(0.8, intercept).value, Z)
    printed = appendix_g(Z, 0.8, lambda z: np.tanh(0.8 * z + intercept))
    wrong = np.abs(printed - numbers).reshape(d, d, d, d).max(axis=-1) > 1e-4  # [n, m, i]
    for n, m, i in np.ndindex(d, d, d):
        assert wrong[n, m, i] == ((i == m == n) or (intercept != 0 and i not in (m, n)))
