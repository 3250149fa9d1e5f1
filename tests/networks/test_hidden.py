"""Hidden matrices, which are not divided by their size, against values that are."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mmlp import Gram, Linear, MatrixMLP, MercerSigmoid
from mmlp.linalg.products import gram, sum_of_squares
from mmlp.networks.hidden import Hidden, UpToScale

KEYS = jax.random.split(jax.random.key(0), 3)
S, W, x = (
    jax.random.normal(k, n)
    for k, n in zip(KEYS, ((2, 5, 4), (3, 4), (4,)), strict=True)
)


def test_a_value_up_to_scale_is_that_of_trace_one():
    A, B = UpToScale(7 * S), Gram.trace_one(S)
    assert (A.dim, A.batch_shape) == (B.dim, B.batch_shape)
    for f in (
        lambda H: H @ x,
        lambda H: H.sandwich(W),
        lambda H: H.dense(),
        lambda H: H.logm(),
    ):
        np.testing.assert_allclose(f(A), f(B), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(A.scaled(3).logdet(), B.scaled(3).logdet(), rtol=1e-12)


def test_both_orders_of_derivative_agree():
    def of(value):
        return lambda S: jnp.sum(jnp.sin(value(S).sandwich(W))) + jnp.sum(value(S) @ x)

    point = S[0, :4]
    pair = [
        jax.jit(derivative(of(v)))
        for derivative in (jax.grad, jax.hessian)
        for v in VALUES
    ]
    for ours, plain in (pair[:2], pair[2:]):
        np.testing.assert_allclose(ours(point), plain(point), rtol=1e-9, atol=1e-11)


VALUES = (UpToScale, Gram.trace_one)


def test_the_derivative_of_a_gram_takes_one_product():
    def total(M):
        return jnp.sum(jnp.cos(gram(M)))

    exact = jax.grad(lambda M: jnp.sum(jnp.cos(M.mT @ M)))(S)
    np.testing.assert_allclose(jax.grad(total)(S), exact, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(
        jax.vmap(jax.grad(total))(S), exact, rtol=1e-12, atol=1e-13
    )
    jaxpr = str(jax.make_jaxpr(jax.vjp(total, S)[1])(1.0))
    assert jaxpr.count("dot_general") == 1
    np.testing.assert_allclose(
        sum_of_squares(S), np.sum(np.asarray(S) ** 2, axis=(1, 2))
    )


@pytest.mark.parametrize("scale", [1e25, 1e-25])
def test_a_kernel_without_bounds_neither_overflows_nor_vanishes(scale):
    Z = (scale * S[0, :4]).astype(np.float32)
    value = Hidden(Linear())(Z)
    np.testing.assert_allclose(
        value.dense(), Gram.trace_one(S[0, :4]).dense(), rtol=1e-5, atol=1e-7
    )
    assert isinstance(Hidden(MercerSigmoid())(Z), UpToScale)


@pytest.mark.slow
def test_a_slope_so_small_that_squares_vanish_is_no_harm():
    def total(x):
        return MatrixMLP(3, 2, (4, 4), kernel=MercerSigmoid(1e-20), key=KEYS[0])(
            x
        ).logdet()

    assert np.all(np.isfinite(jax.grad(total)(jnp.ones(3, np.float32))))


def test_a_network_of_any_kernel_is_the_same_function():
    model = MatrixMLP(3, 2, (4, 4), kernel=MercerSigmoid(), key=KEYS[0])
    plain = MatrixMLP(3, 2, (4, 4), kernel=lambda Z: jnp.tanh(Z), key=KEYS[0])
    A, B = model(jnp.ones(3)), plain(jnp.ones(3))
    np.testing.assert_allclose(A.dense(), B.dense(), rtol=1e-12)
