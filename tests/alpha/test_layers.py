"""Appendices E to G: formulas against finite differences; the paper's misprints."""

import numpy as np
import pytest
from alpha_numbers import differences, disagreement, spd
from paper_weights import BASIC, GENERAL, network, paper_layers

from mmlp.alpha import activations, basic, general, losses
from mmlp.alpha.calculus import unvec


@pytest.fixture
def rng():
    return np.random.default_rng(5)


def test_derivatives_by_the_weights_of_a_matrix_layer_equal_finite_differences(rng):
    W, H, x = rng.standard_normal((3, 4)), spd(rng, 4), rng.standard_normal(4)
    assert (
        disagreement(
            basic.matrix_by_weight(W, H), differences(lambda W: W @ H @ W.T, W)
        )
        < 1e-7
    )
    assert (
        disagreement(basic.matrix_by_matrix(W), differences(lambda H: W @ H @ W.T, H))
        < 1e-7
    )
    by_input_weight = differences(lambda W: np.outer(W @ x, W @ np.ones(4)), W)
    assert disagreement(basic.matrix_by_input_weight(W, x), by_input_weight) < 1e-7


def test_input_weight_formula_belongs_to_the_input_layer():
    """Appendix E prints D_{W_{j+1}} Z_l; it has d_{j+1}^2 rows, those of Z_{j+1}."""
    layers = paper_layers(network(**BASIC["deep"]))
    x = np.ones(6)
    formula = basic.matrix_by_input_weight(layers[-1].W, x)

    def latent(index, W):
        return basic.feedforward([*layers[:-1], layers[-1]._replace(W=W)], x).Z[index]

    assert (
        disagreement(formula, differences(lambda W: latent(-1, W), layers[-1].W)) < 1e-7
    )
    assert formula.shape != differences(lambda W: latent(0, W), layers[-1].W).shape


def test_learning_step_needs_the_shape_of_the_input_in_P_for_the_input_weight():
    """Appendix E prints P_(d_l, d_{l+1}) up to l = j+1; W_{j+1} is d_{j+1} x p."""
    layers = paper_layers(network(**BASIC["deep"]))
    d = [len(layer.B) for layer in layers]  # d_0, ..., d_{j+1}
    x, Y = np.ones(6), spd(np.random.default_rng(0), 3)
    D_W = differences(
        lambda W: losses.quadratic(
            basic.feedforward([*layers[:-1], layers[-1]._replace(W=W)], x).H[0], Y
        ),
        layers[-1].W,
    )[0]
    assert all(
        D_W.size != d[-1] * size for size in d
    )  # no width of the network will do
    gradient = basic.backpropagation(
        layers, x, lambda Y_hat: losses.d_quadratic(Y_hat, Y)
    )[-1]["W"]
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
            general.vector_by_outer_weight(H, A, h, 2),
            differences(lambda C: C @ H @ A @ h, C),
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
        disagreement(
            general.vector_by_matrix(C, A, h), differences(lambda H: C @ H @ A @ h, H)
        )
        < 1e-7
    )


def test_derivative_by_A_has_the_factor_h(rng):
    """Appendix F prints D_A z = C H, which has too few columns without h' kron."""
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
    """Appendix F prints P_(d_l, r_{l+1}) up to l = j+1, and ones 1_{j+1}.

    There is no r_{j+2}: A_{j+1} meets r_{j+1} ones.
    """
    layers = paper_layers(network(**GENERAL["deep"]))
    A, d, r, j = layers[-1].A, len(layers[-1].B), len(layers[-1].b), len(layers) - 2
    gradients = general.backpropagation(
        layers, np.ones(6), lambda y, Y: (np.ones(2), np.ones(9))
    )
    assert gradients[-1]["A"].shape == A.shape == (d, r)
    with pytest.raises(ValueError, match="mismatch"):
        A @ np.ones(j + 1)
    with pytest.raises(ValueError, match="mismatch"):
        general.feedforward(
            [*layers[:-1], layers[-1]._replace(A=A[:, :-1])], np.ones(6)
        )


def test_derivative_by_the_output_counts_both_ways_to_the_loss():
    """In D_Yhat l = D_{z_0} l D_Yhat z_0 + D_Yhat l (App. F) no term vanishes."""
    layers = paper_layers(network(**GENERAL["deep"]))
    x, Y, y = np.ones(6), spd(np.random.default_rng(0), 3), np.ones(2)

    def loss(B):
        latent = general.feedforward([layers[0]._replace(B=B), *layers[1:]], x)
        return losses.quadratic(latent.H[0], Y) + np.sum((latent.h[0] - y) ** 2)

    Z, H, _, h = general.feedforward(layers, x)
    direct = losses.d_quadratic(H[0], Y)
    through_z = (
        2 * (h[0] - y) @ general.vector_by_matrix(layers[0].C, layers[0].A, h[1])
    )
    D_Z_H, numbers = layers[0].H.derivative(Z[0]), differences(loss, layers[0].B)[0]
    assert disagreement((through_z + direct) @ D_Z_H, numbers) < 1e-6
    assert disagreement(direct @ D_Z_H, numbers) > 0.1


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
                block = (
                    slope
                    * (1 - f_i * f_i)
                    / trace**2
                    * (trace * inner - 2 * K[m, n] * f_i)
                )
                D[m + d * n, d * i : d * (i + 1)] = block
    return D


@pytest.mark.parametrize("diagonal", [False, True])
@pytest.mark.parametrize("kernel", [activations.mercer_sigmoid, activations.linear])
def test_derivative_of_the_kernel_equals_finite_differences(rng, kernel, diagonal):
    numbers = (
        {"slope": 0.8, "intercept": 0.3} if kernel is activations.mercer_sigmoid else {}
    )
    H, Z = kernel(**numbers, diagonal=diagonal), rng.standard_normal((4, 4))
    assert disagreement(H.derivative(Z), differences(H.value, Z)) < 1e-7


def test_intercept_has_one_sign_in_the_kernel_and_its_derivative(rng):
    """Eq. (msk) has tanh(alpha z + beta), Appendix G tanh(alpha z - beta)."""
    Z = rng.standard_normal((3, 3))
    numbers = differences(activations.mercer_sigmoid(0.8, 0.3).value, Z)
    assert (
        disagreement(activations.mercer_sigmoid(0.8, 0.3).derivative(Z), numbers) < 1e-7
    )
    assert (
        disagreement(activations.mercer_sigmoid(0.8, -0.3).derivative(Z), numbers) > 0.1
    )


@pytest.mark.parametrize("intercept", [0.0, 0.3])
def test_kernel_derivative_does_not_apply_f_to_a_derivative(rng, intercept):
    """f(d(z_m o z_n) / dz_i) is f(2 z_i), not 2 f(z_i), where i = m = n."""
    d, Z = 3, rng.standard_normal((3, 3))
    numbers = differences(activations.mercer_sigmoid(0.8, intercept).value, Z)
    printed = appendix_g(Z, 0.8, lambda z: np.tanh(0.8 * z + intercept))
    wrong = (
        np.abs(printed - numbers).reshape(d, d, d, d).max(axis=-1) > 1e-4
    )  # [n, m, i]
    for n, m, i in np.ndindex(d, d, d):
        assert wrong[n, m, i] == ((i == m == n) or (intercept != 0 and i not in (m, n)))
