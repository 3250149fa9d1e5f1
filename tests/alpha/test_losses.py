"""Appendices A to D: formulas against finite differences; the paper's misprints."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from alpha_numbers import LOSSES, differences, disagreement, spd, symmetric_differences

import mmlp
from mmlp.alpha import activations, basic, calculus, losses
from mmlp.alpha.calculus import unvec, vec


@pytest.fixture
def rng():
    return np.random.default_rng(5)


def test_rearrangement_and_commutation_follow_their_definitions(rng):
    A = rng.standard_normal((3, 4))
    np.testing.assert_array_equal(unvec(vec(A), A.shape), A)
    np.testing.assert_array_equal(calculus.commutation(3, 4) @ vec(A), vec(A.T))


def test_alpha_derivative_of_an_m_by_p_function_has_mp_rows(rng):
    """Appendix B has F (m, n) with mp rows; for F (m, p) the product rule holds."""
    m, p, r, n, q = 2, 5, 3, 4, 2
    L, R, S = (
        rng.standard_normal((m, n)),
        rng.standard_normal((q, p)),
        rng.standard_normal((p, n)),
    )
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
        disagreement(
            d_value(Y_hat, Y),
            symmetric_differences(lambda Y_hat: value(Y_hat, Y), Y_hat),
        )
        < 1e-6
    )


def test_stein_derivative_is_right_as_printed(rng):
    """D log|Y (Y+Yhat)^-1|, D log|Yhat (Y+Yhat)^-1| use D(Y (Y+Yhat)^-1): no slip."""
    Y, Y_hat = spd(rng, 4), spd(rng, 4)
    inverse = np.linalg.inv(Y + Y_hat)
    D = -np.kron(np.eye(4), Y) @ np.kron(inverse.T, inverse)
    first = vec(np.linalg.inv(Y @ inverse).T) @ D
    second = -vec(np.linalg.inv(Y_hat @ inverse).T) @ D
    of_Y = differences(
        lambda Y_hat: np.linalg.slogdet(Y @ np.linalg.inv(Y + Y_hat))[1], Y_hat
    )
    of_Y_hat = differences(
        lambda Y_hat: np.linalg.slogdet(Y_hat @ np.linalg.inv(Y + Y_hat))[1], Y_hat
    )
    assert disagreement(first, of_Y[0]) < 1e-7
    assert disagreement(second, of_Y_hat[0]) < 1e-6
    np.testing.assert_allclose(
        -(first + second) / 2, losses.d_stein(Y_hat, Y), rtol=1e-10
    )


def test_derivative_of_a_log_eigenvalue_needs_one_over_the_eigenvalue(rng):
    Y_hat = spd(rng, 4)
    eigenvalues, V = np.linalg.eigh(Y_hat)
    numbers = symmetric_differences(lambda Y: np.log(np.linalg.eigvalsh(Y)), Y_hat)
    printed = np.stack([vec(np.outer(V[:, k], V[:, k])) for k in range(4)])
    assert disagreement(printed / eigenvalues[:, None], numbers) < 1e-6
    assert disagreement(printed, numbers) > 0.1
    of_eigenvalues = symmetric_differences(np.linalg.eigvalsh, Y_hat)
    assert (
        disagreement(printed, of_eigenvalues) < 1e-6
    )  # without the logarithm it is right


def test_eigenvector_derivative_divides_by_differences_of_eigenvalues(rng):
    Y_hat = spd(rng, 4)
    eigenvalues, V = np.linalg.eigh(Y_hat)

    def eigenvectors(Y):
        moved = np.linalg.eigh(Y)[1]
        return moved * np.sign(
            np.sum(moved * V, axis=0)
        )  # a decomposition leaves signs open

    def by_eigenvectors(values):
        """vec(d V / d Yhat_ij), Xi_kl = (V_ik V_jl + V_il V_jk) / (2 (v_l - v_k))."""
        gaps = 2 * (values[None, :] - values[:, None]) + np.eye(4)
        columns = []
        for j in range(4):
            for i in range(4):
                Xi = (
                    (np.outer(V[i], V[j]) + np.outer(V[j], V[i]))
                    * (1 - np.eye(4))
                    / gaps
                )
                columns.append(vec(V @ Xi))
        return np.stack(columns, axis=1)

    numbers = symmetric_differences(eigenvectors, Y_hat)
    assert disagreement(by_eigenvectors(eigenvalues), numbers) < 1e-6
    assert disagreement(by_eigenvectors(np.log(eigenvalues)), numbers) > 0.1


def test_appendix_d_as_printed_is_the_derivative_of_the_identity(rng):
    """Both of its slips put d Yhat for d log Yhat: it gives d Yhat / d Yhat_ij."""
    Y_hat = spd(rng, 4)
    eigenvalues, V = np.linalg.eigh(Y_hat)
    Lambda = np.diag(np.log(eigenvalues))
    gaps = 2 * (np.log(eigenvalues)[None, :] - np.log(eigenvalues)[:, None]) + np.eye(4)
    printed = []
    for j in range(4):
        for i in range(4):
            Xi = (np.outer(V[i], V[j]) + np.outer(V[j], V[i])) * (1 - np.eye(4)) / gaps
            printed.append(
                vec(V @ (Xi @ Lambda + np.diag(V[i] * V[j]) - Lambda @ Xi) @ V.T)
            )
    printed = np.stack(printed, axis=1)
    numbers = symmetric_differences(losses.logm, Y_hat)
    assert disagreement(losses.d_logm(Y_hat), numbers) < 1e-6
    assert disagreement(printed, numbers) > 0.1
    np.testing.assert_allclose(
        printed, symmetric_differences(lambda Y: Y, Y_hat), atol=1e-9
    )


def test_eigenvalues_can_repeat_and_the_eigenvector_method_fails_there():
    """The paper excludes equal eigenvalues; orthonormal columns of Z_0 have them."""
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
    fast = jax.jit(
        jax.grad(lambda T: mmlp.von_neumann(mmlp.Gram(T), mmlp.Gram.from_dense(Y)))
    )(T)
    np.testing.assert_allclose(
        fast, 2 * T @ unvec(numbers, (2, 2)), atol=1e-8
    )  # l(T'T) has the gradient 2 T D


def test_mercer_sigmoid_is_only_semidefinite():
    """The paper has SPD matrices in all layers; equal columns of Z are singular."""
    Z = np.array([[0.5, 0.5, 1.0], [-1.0, -1.0, 0.2], [0.3, 0.3, 0.7]])
    assert abs(np.linalg.eigvalsh(activations.mercer_sigmoid().value(Z))[0]) < 1e-15
