"""float32 by way of float64, as on GPUs above d = 32, against float64 on the CPU."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sweeps import sweep

import mmlp
from mmlp.linalg import float64, lu, matrix_log

D = float64.MAX_STANDARD_DIM + 2


@pytest.fixture(params=[True, False], ids=["double", "usual"])
def way(request, monkeypatch):
    monkeypatch.setattr(float64, "_has_fast_float64", lambda: request.param)
    return request.param


def factors(condition: float, seed: int, n: int = 3) -> np.ndarray:
    """Of float32 numbers, with singular values spread evenly in their logarithms."""
    rng = np.random.default_rng(seed)
    U, V = np.linalg.qr(rng.standard_normal((2, n, D, D)))[0]
    return (U * np.geomspace(1, 1 / condition, D) @ V).astype(np.float32)


def density(T, x):
    logdet, y = mmlp.Gram(T).logdet_and_whiten(x)
    return jnp.sum(logdet) + jnp.sum(y**2)


def error(found, exact) -> float:
    found, exact = (np.asarray(x, np.float64) for x in (found, exact))
    return np.max(np.abs(found - exact)) / np.max(np.abs(exact))


# condition, error of values, of gradients; the usual errors are above 6e-8 cond(T)
@pytest.mark.parametrize(
    ("condition", "value", "slope"), [(1e2, 1e-6, 1e-6), (1e6, 1e-6, 1e-4)]
)
def test_a_density_and_its_gradient_are_those_of_float64(
    condition, value, slope, monkeypatch
):
    monkeypatch.setattr(float64, "_has_fast_float64", lambda: True)
    T = factors(condition, 0)
    x = (np.random.default_rng(1).standard_normal((3, 1, D)).astype(np.float32) @ T)[
        :, 0
    ]
    both = jax.jit(jax.value_and_grad(density, (0, 1)))
    found, exact = both(T, x), both(T.astype(np.float64), x.astype(np.float64))
    assert error(found[0], exact[0]) < value
    assert max(map(error, found[1], exact[1])) < slope
    under_vmap = jax.vmap(lambda T, x: mmlp.Gram(T).whiten(x))(T, x)
    np.testing.assert_array_equal(under_vmap, mmlp.Gram(T).whiten(x))


@sweep("name", ["von_neumann", "bures_wasserstein", "stein", "log_euclidean"])
def test_divergences_and_their_gradients_are_no_worse(name, way):
    A, B = factors(1e3, 2, 2), factors(1e2, 3, 2)

    def total(A, B):
        return jnp.sum(
            getattr(mmlp, name)(mmlp.Gram.trace_one(A), mmlp.Gram.trace_one(B))
        )

    both = jax.jit(jax.value_and_grad(total, (0, 1)))
    found, exact = both(A, B), both(A.astype(np.float64), B.astype(np.float64))
    assert error(found[0], exact[0]) < 1e-4
    assert max(map(error, found[1], exact[1])) < (2e-3 if way else 2e-2)


def test_a_singular_matrix_is_infinite_and_its_neighbours_do_not_notice(way):
    T = factors(10, 4, 2)
    T[1, :, -1] = 0
    F = lu.factorise(jnp.asarray(T))
    assert (F.cholesky is not None) == way
    logdet = np.asarray(lu.log_abs_det(F))
    solved = np.asarray(lu.solve(F, jnp.ones((2, D, 1), np.float32), refine=True))
    assert np.isneginf(logdet[1])
    assert np.all(np.isinf(solved[1]))
    alone = lu.factorise(jnp.asarray(T[:1]))
    np.testing.assert_array_equal(logdet[:1], lu.log_abs_det(alone))
    ones = jnp.ones((1, D, 1), np.float32)
    np.testing.assert_array_equal(solved[:1], lu.solve(alone, ones, refine=True))


def test_a_singular_product_has_an_orthogonal_factor(monkeypatch):
    monkeypatch.setattr(float64, "_has_fast_float64", lambda: True)
    M = factors(10, 5, 2)
    M[1, :, :3] = 0
    W = np.asarray(float64.polar_by_eigh(jnp.asarray(M)), np.float64)
    np.testing.assert_allclose(W.mT @ W, np.broadcast_to(np.eye(D), W.shape), atol=1e-6)


def test_only_float32_above_the_size_goes_this_way(monkeypatch):
    monkeypatch.setattr(float64, "_has_fast_float64", lambda: True)
    for dtype, d, taken in (
        (np.float32, D, True),
        (np.float64, D, False),
        (np.float32, 32, False),
    ):
        assert float64.uses_float64(jnp.ones((2, d, d), dtype)) == taken
    V, s = matrix_log.spectrum(jnp.asarray(factors(10, 6)))[1:]
    assert V.dtype == s.dtype == np.float32
    assert np.all(np.diff(s) <= 0)
