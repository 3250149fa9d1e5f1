"""Divided differences of log against 60 digits; promises of the derivative rules."""

import re

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from sweeps import sweep

from mmlp.linalg import float64, lu, matrix_log
from mmlp.spd import Gram

mpmath.mp.dps = 60


def exact_first(a, b):
    a, b = mpmath.mpf(float(a)) ** 2, mpmath.mpf(float(b)) ** 2
    return 1 / a if a == b else (mpmath.log(a) - mpmath.log(b)) / (a - b)


def exact_second(a, b, c):
    a, b, c = sorted((float(a), float(b), float(c)))
    if a == c:
        return -1 / (2 * mpmath.mpf(a) ** 4)
    return (exact_first(a, b) - exact_first(b, c)) / (
        mpmath.mpf(a) ** 2 - mpmath.mpf(c) ** 2
    )


# Around each switch of formulas, at equality, at neighbouring floats, at a wide spread.
RATIOS = [
    1,
    1 + 2**-52,
    1 + 1e-12,
    1 + 1e-9,
    1 + 1e-4,
    16 / 15 - 1e-12,
    16 / 15 + 1e-12,
    1.3,
    1.499999,
    1.500001,
    2,
    1e3,
    1e6,
]


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(np.float64, 2e-15), (np.float32, 1e-6)]
)
def test_first_divided_difference_of_log_is_accurate_across_all_ratios(
    dtype, tolerance
):
    a = np.array([0.7 * r for r in RATIOS], dtype)
    b = np.full_like(a, 0.7)
    for computed in (
        matrix_log._log_difference(a, b),
        matrix_log._log_difference(b, a),
    ):
        expected = np.array(
            [float(exact_first(x, y)) for x, y in zip(a, b, strict=True)]
        )
        np.testing.assert_allclose(computed, expected, rtol=tolerance)


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(np.float64, 2e-13), (np.float32, 1e-4)]
)
def test_second_divided_difference_of_log_is_accurate_across_all_ratios(
    dtype, tolerance
):
    triples = np.array([(0.7, 0.7 * r, 0.7 * s) for r in RATIOS for s in RATIOS], dtype)
    expected = np.array([float(exact_second(*t)) for t in triples])
    for order in ((0, 1, 2), (1, 2, 0), (2, 1, 0)):
        computed = matrix_log._log_second_difference(
            *(jnp.asarray(triples[:, i]) for i in order)
        )
        np.testing.assert_allclose(computed, expected, rtol=tolerance)


@sweep(
    "loop",
    [lambda f, t: f(t), lambda f, t: jax.lax.map(f, t[None])[0]],
    ids=["plain", "loop"],
)
def test_third_derivatives_are_refused_not_wrong(loop):
    f = jax.grad(
        jax.grad(
            jax.grad(
                lambda t: loop(
                    lambda t: Gram(jnp.array([[1.0, t], [0.0, 2.0]])).logm().sum(), t
                )
            )
        )
    )
    with pytest.raises(NotImplementedError, match="third derivatives"):
        f(jnp.array(0.5))


def test_log_det_has_third_derivatives():
    f = jax.grad(jax.grad(jax.grad(lambda t: Gram(t * jnp.eye(2)).logdet())))
    np.testing.assert_allclose(f(0.5), 2 * 2 * 2 / 0.5**3)  # log det = 4 log t


def test_one_lu_serves_value_and_gradient():
    def density(T, x):
        logdet, white = Gram(T).logdet_and_whiten(x)
        return logdet + jnp.sum(white**2)

    for d in (4, float64.MAX_STANDARD_DIM + 1):
        program = (
            jax.jit(jax.value_and_grad(density))
            .lower(jnp.eye(d), jnp.ones(d))
            .as_text()
        )
        assert len(re.findall(r"@lapack_dgetrf", program)) == 1


def test_both_ways_to_a_small_lu_are_one():
    T = jnp.asarray(np.random.default_rng(0).standard_normal((3, 5, 5)))
    np.testing.assert_allclose(lu._lu_of_square(T), lu._lu_with_identity(T), atol=1e-13)


def test_residual_of_float32_is_several_digits_better_than_float32():
    rng = np.random.default_rng(0)
    T, x = (
        rng.normal(size=(64, 64)).astype(np.float32),
        rng.normal(size=(64, 1)).astype(np.float32),
    )
    exact = T.astype(float) @ x.astype(float)
    b = exact.astype(np.float32)
    residual = lu._residual(jnp.asarray(T), jnp.asarray(x), jnp.asarray(b))
    plain = jnp.asarray(b) - jnp.matmul(T, x, precision="highest")
    error, plain_error = (np.linalg.norm(r - (b - exact)) for r in (residual, plain))
    assert error < plain_error / 30


@pytest.mark.parametrize("rows", [5, 8])
def test_the_svd_for_accelerators_agrees_with_the_svd(rows):
    T = np.random.default_rng(1).normal(size=(3, rows, 5))
    for decompose in (matrix_log._svd, matrix_log._svd_by_eigh):
        V, s = decompose(jnp.asarray(T))
        np.testing.assert_allclose(s, np.linalg.svd(T, compute_uv=False), rtol=1e-12)
        np.testing.assert_allclose(
            (V * s[:, None] ** 2) @ V.mT, np.swapaxes(T, 1, 2) @ T, atol=1e-12
        )
        values = jnp.linalg.eigvalsh(float64.jordan_wielandt(jnp.asarray(T)))[..., -5:]
        np.testing.assert_allclose(values[:, ::-1], s, rtol=1e-12)
        np.testing.assert_allclose(
            V.mT @ V, np.broadcast_to(np.eye(5), (3, 5, 5)), atol=1e-13
        )
