"""Two orders of derivatives, also at equal eigenvalues of PP'; digits of float32."""

import jax
import jax.numpy as jnp
import low_rank_accuracy
import numpy as np
from helpers import assert_derivatives, orthogonal
from sweeps import sweep

from mmlp import LowRankGram, quadratic, stein

D, M = 4, 2
RNG = np.random.default_rng(6)
ROWS = orthogonal(RNG, D)[:M]
POINTS = {
    "generic": np.concatenate([RNG.uniform(0.5, 2, (1, D)), RNG.normal(size=(M, D))]),
    "orthonormal rows": np.concatenate([np.ones((1, D)), ROWS]),
    "equal rows": np.concatenate([np.ones((1, D)), ROWS[:1], ROWS[:1]]),
    "no rows": np.concatenate([np.ones((1, D)), 0 * ROWS]),
}
C, E = RNG.normal(size=(2, D))


def low(theta):
    return LowRankGram(theta[0], theta[1:])


OTHER = LowRankGram(RNG.uniform(0.5, 2, D), RNG.normal(size=(3, D)))
NAMES = ("logdet", "square", "solve", "trace_solve", "stein", "quadratic")


def ours(theta):
    A = low(theta)
    square, solved = jnp.sum(A.whiten(C) ** 2), E @ A.solve(C)
    both = A.trace_solve(OTHER), stein(A, OTHER), quadratic(A, OTHER)
    return jnp.stack([A.logdet(), square, solved, *both])


def formulas(theta):
    A, B = jnp.diag(theta[0] ** 2) + theta[1:].T @ theta[1:], OTHER.dense()
    logdet, square, solved = (
        jnp.linalg.slogdet(A)[1],
        *jnp.linalg.solve(A, C) @ jnp.array([C, E]).T,
    )
    divergence = (
        jnp.linalg.slogdet((A + B) / 2)[1] - (logdet + jnp.linalg.slogdet(B)[1]) / 2
    )
    both = jnp.trace(jnp.linalg.solve(A, B)), divergence, jnp.sum((A - B) ** 2)
    return jnp.stack([logdet, square, solved, *both])


@sweep("derivative", [jax.jacrev, jax.hessian])
def test_derivatives_are_those_of_the_dense_formulas(derivative):
    got, expected = (jax.jit(derivative(f)) for f in (ours, formulas))
    for where, theta in POINTS.items():
        for name, a, b in zip(NAMES, got(theta), expected(theta), strict=True):
            np.testing.assert_allclose(
                a, b, rtol=1e-9, atol=1e-9, err_msg=f"{name}, {where}"
            )


def whitened(theta):
    return E @ low(theta).whiten(C)


def colored(theta):
    return E @ low(theta).color(C)


@sweep("f", [whitened, colored])
def test_derivatives_of_the_root_agree_with_differences_also_inside_a_loop(f):
    direction = np.random.default_rng(10).normal(size=(M + 1, D))
    for theta in POINTS.values():
        assert_derivatives(f, jnp.asarray(theta), direction, step=1e-3, rtol=1e-8)


@sweep("shape", low_rank_accuracy.SHAPES, quick=2)
def test_float32_errs_no_more_than_ten_times_a_dense_factor(shape):
    """At cond(A) from 1 to 1e10; the textbook's form has no digits left at 1e8."""
    with jax.enable_x64(False):
        for condition in low_rank_accuracy.CONDITIONS:
            errors = low_rank_accuracy.measure_errors(shape, condition)
            for ours, dense in zip(errors["low rank"], errors["dense"], strict=True):
                assert ours <= 10 * dense, (condition, errors)
            ours, dense = low_rank_accuracy.measure_trace_errors(shape, condition)
            assert ours <= 10 * dense, (condition, ours, dense)
        assert errors["textbook"][1] > 1


@sweep("shape", low_rank_accuracy.SHAPES, quick=2)
def test_float32_gradients_err_like_the_condition_of_a_factor(shape):
    with jax.enable_x64(False):
        for condition in low_rank_accuracy.CONDITIONS:
            errors = low_rank_accuracy.measure_gradient_errors(shape, condition)
            rounding = np.finfo(np.float32).eps * condition**0.5
            for ours, dense in zip(errors["low rank"], errors["dense"], strict=True):
                assert ours <= 10 * max(rounding, dense), (condition, errors)
