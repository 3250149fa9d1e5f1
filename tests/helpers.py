"""Factors with a chosen spectrum, and finite differences that stay accurate at tiny singular values."""

import jax
import jax.numpy as jnp
import numpy as np


def orthogonal(rng, d, *batch):
    return np.linalg.qr(rng.normal(size=(*batch, d, d)))[0]


def factor(rng, singular_values, *batch):
    """A random T with these singular values."""
    s = np.asarray(singular_values, dtype=float)
    return orthogonal(rng, s.size, *batch) * s @ orthogonal(rng, s.size, *batch)


def trace_one_factor(rng, d, condition, *batch):
    T = factor(rng, np.geomspace(1, 1 / condition, d), *batch)
    return T / np.linalg.norm(T, axis=(-2, -1), keepdims=True)


def directional(f, x, direction, step):
    """Five-point central difference of f at x along `direction`: error of order step^4."""
    stencil = ((-2, 1 / 12), (-1, -2 / 3), (1, 2 / 3), (2, -1 / 12))
    return sum(weight * f(x + k * step * direction) for k, weight in stencil) / step


def assert_derivatives(f, x, direction, step, *, rtol):
    """First and second derivative of the scalar f at x along `direction`: all modes agree, and agree with differences."""
    f = jax.jit(f)
    gradient = jax.jit(jax.grad(f))
    _, slope = jax.jvp(f, (x,), (direction,))
    expected = directional(f, x, direction, step)
    scale = float(jnp.linalg.norm(gradient(x)) * jnp.linalg.norm(direction))
    assert np.isfinite(scale)
    np.testing.assert_allclose(slope, expected, rtol=0, atol=rtol * scale)
    np.testing.assert_allclose(jnp.vdot(gradient(x), direction), slope, rtol=0, atol=1e-10 * scale)

    curvature = jax.jit(lambda x: jax.jvp(gradient, (x,), (direction,))[1])(x)
    expected = directional(gradient, x, direction, step)
    scale = float(jnp.max(jnp.abs(expected)))
    np.testing.assert_allclose(curvature, expected, rtol=0, atol=rtol * scale)
    reverse = jax.jit(jax.grad(lambda x: jnp.vdot(gradient(x), direction)))(x)
    np.testing.assert_allclose(reverse, curvature, rtol=0, atol=1e-8 * scale)
