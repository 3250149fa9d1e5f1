import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mmlp import Dense, Diagonal, DiagonalGram, Gram, Linear, MercerSigmoid, RadialBasis

Z = np.random.default_rng(0).normal(size=(3, 5, 5))
KAPPA = {
    MercerSigmoid(): lambda a, b: np.tanh(a) @ np.tanh(b),
    MercerSigmoid(slope=0.7, intercept=0.3): lambda a, b: (
        np.tanh(0.7 * a + 0.3) @ np.tanh(0.7 * b + 0.3)
    ),
    Linear(): lambda a, b: a @ b,
    Linear(floor=0.5): lambda a, b: a @ b + 0.25 * np.array_equal(a, b),
    RadialBasis(scale=2.0): lambda a, b: np.exp(-np.sum((a - b) ** 2) / (2 * 2.0**2)),
}
each = pytest.mark.parametrize("kernel", KAPPA, ids=str)


def kernel_matrix(kernel, Z):
    return np.array([[KAPPA[kernel](a, b) for b in Z.T] for a in Z.T])


@each
def test_factor_is_a_root_of_the_kernel_matrix_over_columns(kernel):
    T = np.asarray(kernel(jnp.asarray(Z)))
    for i in range(3):
        np.testing.assert_allclose(
            T[i].T @ T[i], kernel_matrix(kernel, Z[i]), atol=1e-12
        )


@each
def test_activation_has_trace_one_and_its_diagonal_variant_keeps_the_diagonal(kernel):
    dense, diagonal = (
        jax.vmap(output(kernel))(jnp.asarray(Z)) for output in (Dense, Diagonal)
    )
    assert isinstance(dense, Gram)
    assert isinstance(diagonal, DiagonalGram)
    for i in range(3):
        K = kernel_matrix(kernel, Z[i])
        np.testing.assert_allclose(dense.dense()[i], K / np.trace(K), atol=1e-12)
        np.testing.assert_allclose(
            diagonal.dense()[i], np.diag(np.diag(K)) / np.trace(K), atol=1e-12
        )


def test_radial_basis_of_coinciding_columns_is_singular_for_that_element_alone():
    coinciding = np.array(Z)
    coinciding[1, :, 0] = coinciding[1, :, 1]
    T = np.asarray(
        jax.jit(RadialBasis())(coinciding)
    )  # NaN, or a pivot of rounding size
    smallest = np.min(np.diagonal(T, axis1=-2, axis2=-1), axis=-1)
    np.testing.assert_array_equal(smallest > 1e-6, [True, False, True])


def test_any_function_of_Z_is_a_kernel():
    assert Dense(jnp.exp)(jnp.zeros((2, 2))).dense().shape == (2, 2)
