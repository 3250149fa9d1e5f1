import functools

import jax
import jax.numpy as jnp
import mpmath
import multiprecision
import numpy as np
import pytest
import scipy.linalg
from helpers import (
    DIVERGENCES,
    assert_derivatives,
    factor,
    orthogonal,
    trace_one_factor,
)
from pyriemann.geometry import distance as pyriemann
from sweeps import sweep

from mmlp import (
    DiagonalGram,
    Gram,
    affine_invariant,
    bures_wasserstein,
    log_euclidean,
    stein,
    von_neumann,
)

SYMMETRIC = [name for name in DIVERGENCES if "one-sided" not in name]
each = pytest.mark.parametrize("name", DIVERGENCES)


def dense_von_neumann(A, B):
    return np.trace(A @ scipy.linalg.logm(A) - A @ scipy.linalg.logm(B) - A + B)


def dense_stein(A, B):
    return (
        np.trace(np.linalg.solve(B, A - B)) - np.linalg.slogdet(A @ np.linalg.inv(B))[1]
    )


REFERENCES = {
    "von_neumann": lambda A, B: (dense_von_neumann(A, B) + dense_von_neumann(B, A)) / 2,
    "von_neumann one-sided": dense_von_neumann,
    "stein": lambda A, B: pyriemann.distance_logdet(A, B) ** 2,
    "stein one-sided": dense_stein,
    "quadratic": lambda A, B: pyriemann.distance_euclid(A, B) ** 2,
    "log_euclidean": lambda A, B: pyriemann.distance_logeuclid(A, B) ** 2,
    "affine_invariant": lambda A, B: pyriemann.distance_riemann(A, B) ** 2,
    "bures_wasserstein": lambda A, B: pyriemann.distance_wasserstein(A, B) ** 2,
}


# -- values


@each
@pytest.mark.parametrize("d", [1, 2, 7, 20])
def test_divergence_agrees_with_an_independent_library(name, d):
    rng = np.random.default_rng(d)
    T, S = trace_one_factor(rng, d, 10, 5), trace_one_factor(rng, d, 30, 5)
    computed = jax.jit(DIVERGENCES[name])(Gram(T), Gram(S))
    expected = [REFERENCES[name](t.T @ t, s.T @ s) for t, s in zip(T, S, strict=True)]
    np.testing.assert_allclose(computed, expected, rtol=1e-9, atol=1e-13)


def test_the_symmetrised_stein_divergence_is_the_papers():
    """Eq. (loss_stein): the mean of the two divergences from the average."""
    rng = np.random.default_rng(0)
    T, S = rng.normal(size=(2, 5, 5))
    average = Gram(np.concatenate([T, S]) / np.sqrt(2))
    paper = (
        stein(Gram(T), average, symmetric=False)
        + stein(Gram(S), average, symmetric=False)
    ) / 2
    np.testing.assert_allclose(stein(Gram(T), Gram(S)), paper, rtol=1e-12)


def test_an_ill_conditioned_von_neumann_divergence_agrees_with_multiprecision():
    mpmath.mp.dps = 50
    rng = np.random.default_rng(1)
    T, S = trace_one_factor(rng, 5, 1e5), trace_one_factor(rng, 5, 1e5)

    def matrix_and_log(T):
        M = mpmath.matrix(T.tolist())
        e, V = mpmath.eigsy(M.T * M)
        return M.T * M, V * mpmath.diag([mpmath.log(x) for x in e]) * V.T

    (A, log_A), (B, log_B) = matrix_and_log(T), matrix_and_log(S)
    product = (A - B) * (log_A - log_B)
    exact = float(sum(product[i, i] for i in range(5)) / 2)
    np.testing.assert_allclose(von_neumann(Gram(T), Gram(S)), exact, rtol=1e-10)


@each
def test_divergence_keeps_its_relative_precision_near_equality(name):
    """float32 at a distance of 1e-3 against float64.

    The divergence is of order 1e-6, below float32's rounding of one.
    """
    rng = np.random.default_rng(2)
    T = trace_one_factor(rng, 8, 10).astype(np.float32)
    S = (T + 1e-3 * rng.normal(size=T.shape) * np.abs(T).mean()).astype(np.float32)
    single = DIVERGENCES[name](Gram(T), Gram(S))
    double = DIVERGENCES[name](Gram(T.astype(float)), Gram(S.astype(float)))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, double, rtol=1e-2)


# -- laws


@each
def test_divergence_is_zero_only_at_equality_and_never_negative(name):
    rng = np.random.default_rng(3)
    T = rng.normal(size=(20, 4, 4))
    U = orthogonal(rng, 4, 20)
    assert np.all(
        np.abs(DIVERGENCES[name](Gram(T), Gram(U @ T))) < 1e-20 * np.linalg.cond(T) ** 4
    )  # one matrix, two factors
    steps = np.geomspace(1e-8, 1, 20)[:, None, None]
    values = DIVERGENCES[name](Gram(T), Gram(T + steps * rng.normal(size=T.shape)))
    assert np.all(values > 0)


@pytest.mark.parametrize("name", SYMMETRIC)
def test_symmetric_divergence_does_not_depend_on_the_order(name):
    T, S = np.random.default_rng(4).normal(size=(2, 3, 5, 5))
    np.testing.assert_allclose(
        DIVERGENCES[name](Gram(T), Gram(S)),
        DIVERGENCES[name](Gram(S), Gram(T)),
        rtol=1e-10,
    )


@pytest.mark.parametrize("name", ["stein", "stein one-sided", "affine_invariant"])
def test_congruence_invariance(name):
    """D(WAW', WBW') = D(A, B): Sra (2016) for Stein, Pennec et al. (2006)."""
    rng = np.random.default_rng(5)
    A, B, W = (
        Gram(rng.normal(size=(4, 4))),
        Gram(rng.normal(size=(4, 4))),
        rng.normal(size=(4, 4)),
    )
    np.testing.assert_allclose(
        DIVERGENCES[name](A.congruence(W), B.congruence(W)),
        DIVERGENCES[name](A, B),
        rtol=1e-8,
    )


@each
def test_rotation_invariance(name):
    rng = np.random.default_rng(6)
    A, B, U = (
        Gram(rng.normal(size=(4, 4))),
        Gram(rng.normal(size=(4, 4))),
        orthogonal(rng, 4),
    )
    np.testing.assert_allclose(
        DIVERGENCES[name](A.congruence(U), B.congruence(U)),
        DIVERGENCES[name](A, B),
        rtol=1e-10,
    )


def test_commuting_matrices_reduce_to_numbers():
    a, b = np.array([0.5, 1.0, 2.0]), np.array([0.7, 0.2, 3.0])
    A, B = DiagonalGram(a), DiagonalGram(b)
    x, y = a**2, b**2
    np.testing.assert_allclose(von_neumann(A, B), np.sum((x - y) * np.log(x / y)) / 2)
    np.testing.assert_allclose(
        von_neumann(A, B, symmetric=False), np.sum(x * np.log(x / y) - x + y)
    )
    np.testing.assert_allclose(
        stein(A, B), np.sum(np.log((x + y) / 2) - np.log(x * y) / 2)
    )
    np.testing.assert_allclose(affine_invariant(A, B), np.sum(np.log(x / y) ** 2))
    np.testing.assert_allclose(log_euclidean(A, B), np.sum(np.log(x / y) ** 2))
    np.testing.assert_allclose(bures_wasserstein(A, B), np.sum((a - b) ** 2))


# -- derivatives

SPECTRA = {
    "generic": [0.8, 0.5, 0.3, 0.1],
    "all equal": [1.0, 1.0, 1.0, 1.0],
    "two nearly equal": [0.8, 0.5 + 1e-9, 0.5, 0.3],
    "a tiny eigenvalue": [0.8, 0.5, 0.3, 1e-5],
}


@functools.cache
def by_factor(name, argument):
    f = DIVERGENCES[name]
    return (
        (lambda T, other: f(Gram(T), other))
        if argument == 0
        else (lambda T, other: f(other, Gram(T)))
    )


@each
@sweep("argument", [0, 1])
@sweep("spectrum", SPECTRA, quick=2)
def test_derivatives_to_second_order(name, argument, spectrum):
    rng = np.random.default_rng(7)
    s = SPECTRA[spectrum]
    T = jnp.asarray(factor(rng, s)) if spectrum != "all equal" else jnp.eye(4)
    other, direction = (
        Gram(factor(rng, [0.9, 0.6, 0.4, 0.2])),
        jnp.asarray(rng.normal(size=(4, 4))),
    )
    assert_derivatives(
        by_factor(name, argument), T, direction, other, step=3e-3 * min(s), rtol=1e-5
    )


@each
def test_gradient_vanishes_and_curvature_is_finite_at_equality(name):
    T = jnp.asarray(trace_one_factor(np.random.default_rng(8), 4, 10))
    f = jax.jit(jax.grad(lambda S: DIVERGENCES[name](Gram(S), Gram(T))))
    np.testing.assert_allclose(f(T), 0, atol=1e-11)
    assert np.all(np.isfinite(jax.jacfwd(f)(T)))


def relative_error(computed, expected):
    return np.linalg.norm(np.asarray(computed, float) - expected) / np.linalg.norm(
        expected
    )


@pytest.mark.parametrize(
    ("dtype", "conditions"),
    [
        (np.float32, (1, 1e2, 1e5)),
        pytest.param(np.float64, (1e4, 1e7), marks=pytest.mark.slow),
    ],
)
def test_gradient_error_grows_like_cond_of_the_factor_not_of_the_ratio(
    dtype, conditions
):
    """Against 60 digits, d = 5, median of three.

    At most about eps cond(T), though cond(T S^-1) is up to its square.
    """
    rng = np.random.default_rng(12)
    T, S = (
        np.stack([trace_one_factor(rng, 5, c, 3) for c in conditions]).astype(dtype)
        for _ in range(2)
    )
    S *= 1.5  # apart at equal eigenvalues too

    def sums(T, S):
        return {name: jnp.sum(f(Gram(T), Gram(S))) for name, f in DIVERGENCES.items()}

    gradients = jax.jit(lambda T, S: {
        name: jax.grad(lambda T, S, name=name: sums(T, S)[name], (0, 1))(T, S)
        for name in DIVERGENCES
    })(T, S)  # fmt: skip
    for name, by_both in gradients.items():
        for i, condition in enumerate(conditions):
            errors = [
                [
                    relative_error(g[i, j], exact)
                    for g, exact in zip(by_both, references, strict=True)
                ]
                for j, references in enumerate(
                    multiprecision.divergence_gradients(name, *pair)
                    for pair in zip(T[i], S[i], strict=True)
                )
            ]
            assert np.all(
                np.median(errors, axis=0) < 2 * np.finfo(dtype).eps * (condition + 5)
            ), (
                name,
                condition,
            )


def test_the_one_sided_von_neumann_gradient_is_finite_at_a_singular_matrix():
    """d D(A||B) = 2 <T (log A - log B), dT> with T log A = U diag(2 s log s) V'.

    The last is zero where s is.
    """
    T, S = jnp.diag(jnp.array([1.0, 0.5, 0.0])), jnp.diag(jnp.array([0.5, 1.0, 2.0]))
    gradient = jax.jit(
        jax.grad(lambda T: von_neumann(Gram(T), Gram(S), symmetric=False))
    )(T)
    expected = np.diag([4 * np.log(2), -2 * np.log(2), 0])
    np.testing.assert_allclose(gradient, expected, atol=1e-14)


# -- batches, bad input


@each
def test_batch_dimensions_broadcast(name):
    rng = np.random.default_rng(9)
    A, B = Gram(rng.normal(size=(3, 1, 2, 2))), Gram(rng.normal(size=(4, 5, 2)))
    values = DIVERGENCES[name](A, B)
    assert values.shape == (3, 4)
    np.testing.assert_allclose(
        values[1, 2],
        DIVERGENCES[name](Gram(A.factor[1, 0]), Gram(B.factor[2])),
        rtol=1e-10,
    )


@each
def test_a_sample_does_not_feel_its_neighbours(name):
    rng = np.random.default_rng(10)
    T, S = rng.normal(size=(2, 6, 4, 4))
    loud = T.copy()
    loud[3] *= 1000
    f = jax.jit(
        jax.vmap(jax.value_and_grad(lambda T, S: DIVERGENCES[name](Gram(T), Gram(S))))
    )
    keep = np.arange(6) != 3
    for quiet, disturbed in zip(f(T, S), f(loud, S), strict=True):
        np.testing.assert_array_equal(quiet[keep], disturbed[keep])


@each
def test_bad_input_is_named(name):
    function = name.split()[0]
    with pytest.raises(
        ValueError,
        match=rf"`{function}\(A, B\)` needs matrices of one size, got 2 x 2 and 3 x 3",
    ):
        DIVERGENCES[name](Gram(np.eye(2)), Gram(np.eye(3)))
    with pytest.raises(
        ValueError,
        match=rf"`{function}\(A, B\)` cannot broadcast .* \(2,\) and \(3,\)",
    ):
        DIVERGENCES[name](
            Gram(np.ones((2, 2, 2)) + np.eye(2)), Gram(np.ones((3, 2, 2)) + np.eye(2))
        )
    with pytest.raises(
        ValueError, match=r"use `Gram.from_dense\(A\)` for a dense matrix"
    ):
        DIVERGENCES[name](np.eye(2), Gram(np.eye(2)))


@each
def test_large_matrices_too(name):
    """Sizes above 32 choose their decomposition by platform."""
    rng = np.random.default_rng(11)
    T, S = trace_one_factor(rng, 40, 10, 2), trace_one_factor(rng, 40, 30, 2)
    computed, gradient = jax.jit(
        jax.value_and_grad(lambda T: jnp.sum(DIVERGENCES[name](Gram(T), Gram(S))))
    )(T)
    np.testing.assert_allclose(
        computed,
        sum(REFERENCES[name](t.T @ t, s.T @ s) for t, s in zip(T, S, strict=True)),
        rtol=1e-8,
    )
    assert np.all(np.isfinite(gradient))


def test_a_singular_matrix_is_infinitely_far_in_the_divergences_that_see_it():
    regular, singular = Gram(np.diag([1.0, 0.5])), Gram(np.diag([1.0, 0.0]))
    for name in (
        "von_neumann",
        "stein",
        "stein one-sided",
        "affine_invariant",
        "log_euclidean",
    ):
        assert DIVERGENCES[name](singular, regular) == np.inf, name
        assert DIVERGENCES[name](regular, singular) == np.inf, name
    assert von_neumann(regular, singular, symmetric=False) == np.inf
    full = Gram(np.array([[1.0, 1.0], [1.0, 1.0]]))  # singular, without a zero in it
    for name in ("stein", "stein one-sided", "affine_invariant"):
        assert (
            DIVERGENCES[name](full, regular)
            == DIVERGENCES[name](regular, full)
            == np.inf
        ), name
    np.testing.assert_allclose(
        von_neumann(singular, regular, symmetric=False), 0.25
    )  # 0 log 0 = 0
    tiny = DiagonalGram.trace_one(np.array([1, 1e-20], np.float32))
    value = von_neumann(
        tiny, Gram.trace_one(np.eye(2, dtype=np.float32)), symmetric=False
    )
    np.testing.assert_allclose(value, np.log(2), rtol=1e-6)


@each
def test_dtypes_are_promoted(name):
    A, B = Gram(np.eye(2, dtype=np.float32)), Gram(2 * np.eye(2))
    assert DIVERGENCES[name](A, B).dtype == DIVERGENCES[name](B, A).dtype == np.float64
