"""Divergences by name, factors with a chosen spectrum, accurate differences."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr

from mmlp import (
    affine_invariant,
    bures_wasserstein,
    log_euclidean,
    quadratic,
    stein,
    von_neumann,
)

DIVERGENCES = {
    "von_neumann": von_neumann,
    "von_neumann one-sided": lambda A, B: von_neumann(A, B, symmetric=False),
    "stein": stein,
    "stein one-sided": lambda A, B: stein(A, B, symmetric=False),
    "quadratic": quadratic,
    "log_euclidean": log_euclidean,
    "affine_invariant": affine_invariant,
    "bures_wasserstein": bures_wasserstein,
}


def orthogonal(rng, d, *batch):
    return np.linalg.qr(rng.normal(size=(*batch, d, d)))[0]


def factor(rng, singular_values, *batch):
    """A random T with these singular values."""
    s = np.asarray(singular_values, dtype=float)
    return orthogonal(rng, s.size, *batch) * s @ orthogonal(rng, s.size, *batch)


def trace_one_factor(rng, d, condition, *batch):
    T = factor(rng, np.geomspace(1, 1 / condition, d), *batch)
    return T / np.linalg.norm(T, axis=(-2, -1), keepdims=True)


def symmetric_root(A):
    """The symmetric Phi with Phi Phi = A; not differentiable at equal eigenvalues."""
    values, V = jnp.linalg.eigh((A + A.T) / 2)
    return (V * jnp.sqrt(values)) @ V.T


def directional(f, x, direction, step):
    """Five-point central difference of f at x along `direction`, of order step^4."""
    stencil = ((-2, 1 / 12), (-1, -2 / 3), (1, 2 / 3), (2, -1 / 12))
    return sum(weight * f(x + k * step * direction) for k, weight in stencil) / step


@functools.cache
def _compiled(f):
    """Compile f(x, *args), its gradient by x, and the derivative of that in both modes.

    The forward one goes through `lax.map`: a loop in reverse mode forgets derivative
    rules that are not primitives'.
    """
    gradient = jax.grad(f)

    def looped(x, *args):
        return jax.lax.map(lambda x: f(x, *args), x[None])[0]

    def slope(x, direction, *args):
        return jax.jvp(lambda x: f(x, *args), (x,), (direction,))[1]

    def forward(x, direction, *args):
        return jax.jvp(lambda x: jax.grad(looped)(x, *args), (x,), (direction,))[1]

    def reverse(x, direction, *args):
        return jax.grad(lambda x: jnp.vdot(gradient(x, *args), direction))(x)

    return tuple(jax.jit(g) for g in (f, gradient, slope, forward, reverse))


def assert_derivatives(f, x, direction, *args, step, rtol):
    """Two derivatives of the scalar f along `direction` agree with differences."""
    value, gradient, slope, forward, reverse = _compiled(f)
    scale = float(jnp.linalg.norm(gradient(x, *args)) * jnp.linalg.norm(direction))
    assert np.isfinite(scale)
    expected = directional(lambda x: value(x, *args), x, direction, step)
    np.testing.assert_allclose(
        slope(x, direction, *args), expected, rtol=0, atol=rtol * scale
    )
    np.testing.assert_allclose(
        jnp.vdot(gradient(x, *args), direction), expected, rtol=0, atol=rtol * scale
    )

    expected = directional(lambda x: gradient(x, *args), x, direction, step)
    scale = float(jnp.max(jnp.abs(expected)))
    np.testing.assert_allclose(
        forward(x, direction, *args), expected, rtol=0, atol=rtol * scale
    )
    np.testing.assert_allclose(
        reverse(x, direction, *args), expected, rtol=0, atol=rtol * scale
    )


def equations(jaxpr: Jaxpr):
    """All equations of a program and of those inside it."""
    for equation in jaxpr.eqns:
        yield equation
        for parameter in jax.tree.leaves(
            equation.params, is_leaf=lambda x: isinstance(x, Jaxpr | ClosedJaxpr)
        ):
            if isinstance(parameter, Jaxpr | ClosedJaxpr):
                yield from equations(getattr(parameter, "jaxpr", parameter))


def program(function, *arguments):
    """All primitives of value and gradient, and the size of the largest array."""
    both = jax.value_and_grad(function, tuple(range(len(arguments))))
    found = list(equations(jax.make_jaxpr(both)(*arguments).jaxpr))
    sizes = [math.prod(v.aval.shape) for e in found for v in e.outvars]
    return {e.primitive.name for e in found}, max(sizes)
