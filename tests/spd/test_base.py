"""What `SPD` promises.

A new kind is one file, and what two values have in common needs no kinds.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from helpers import DIVERGENCES, factor, program
from scaled_identity import ScaledIdentity
from sweeps import sweep

import mmlp
from mmlp import (
    SPD,
    DiagonalGram,
    GaussianHead,
    Gram,
    LowRankGram,
    TraceOneGaussian,
    TraceOnePowerExponential,
    kl_divergence,
)

D = 4


def values(seed=0, batch=()):
    rng = np.random.default_rng(seed)
    T = factor(rng, np.geomspace(1, 0.1, D), *batch)
    return {
        "square": Gram(T),
        "tall": Gram(np.concatenate([T, rng.normal(size=(*batch, 3, D))], axis=-2)),
        "upper": Gram(np.triu(T) + 2 * np.eye(D), upper=True),
        "diagonal": DiagonalGram(rng.uniform(0.5, 2, size=(*batch, D))),
        "low rank": LowRankGram(
            rng.uniform(0.5, 2, size=(*batch, D)), rng.normal(size=(*batch, 2, D))
        ),
        "new": ScaledIdentity(jnp.asarray(rng.uniform(0.5, 2, size=batch)), D),
    }


KINDS = list(values())
each = pytest.mark.parametrize("kind", KINDS)
pairs = pytest.mark.parametrize(
    ("one", "other"), [(a, b) for a in KINDS for b in KINDS]
)


@each
def test_every_kind_has_the_methods_of_its_dense_matrix(kind):
    A = values()[kind]
    x, W, dense = np.arange(1.0, D + 1), np.eye(D)[:2] + 0.5, np.asarray(A.dense())
    plain = Gram.from_dense(dense)
    assert isinstance(A, SPD)
    np.testing.assert_allclose(A.diagonal(), np.diag(dense), rtol=1e-13)
    np.testing.assert_allclose(A.trace(), np.trace(dense), rtol=1e-13)
    np.testing.assert_allclose(
        A.logdet(), np.linalg.slogdet(dense)[1], rtol=1e-12, atol=1e-12
    )
    np.testing.assert_allclose(A.logm(), plain.logm(), rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(A @ x, dense @ x, rtol=1e-12)
    np.testing.assert_allclose(A.solve(x), np.linalg.solve(dense, x), rtol=1e-11)
    np.testing.assert_allclose(A.color(A.whiten(x)), x, rtol=1e-12)
    np.testing.assert_allclose(
        np.sum(A.whiten(x) ** 2), x @ np.linalg.solve(dense, x), rtol=1e-11
    )
    np.testing.assert_allclose(A.scaled(3.0).dense(), 3 * dense, rtol=1e-12)
    np.testing.assert_allclose(A.congruence(W).dense(), W @ dense @ W.T, rtol=1e-12)
    root, upper = A.root()
    np.testing.assert_allclose(root.mT @ root, dense, rtol=1e-12, atol=1e-14)
    assert not upper or not np.any(np.tril(root, -1))


@pairs
def test_sums_products_and_traces_of_two_values(one, other):
    A, B = values(1, (3,))[one], values(2, (2, 1))[other]
    a, b = np.asarray(A.dense()), np.asarray(B.dense())
    np.testing.assert_allclose((A + B).dense(), a + b, rtol=1e-12)
    np.testing.assert_allclose(
        A.inner(B), np.trace(a @ b, axis1=-2, axis2=-1), rtol=1e-12
    )
    ratio = np.linalg.solve(*np.broadcast_arrays(a, b))
    np.testing.assert_allclose(
        A.trace_solve(B), np.trace(ratio, axis1=-2, axis2=-1), rtol=1e-10
    )
    x = np.arange(1.0, D + 1)
    logdet, trace = A.logdet_and_trace_solve(B, x)
    square = np.linalg.solve(*np.broadcast_arrays(a, b + np.outer(x, x)))
    np.testing.assert_allclose(trace, np.trace(square, axis1=-2, axis2=-1), rtol=1e-10)
    np.testing.assert_allclose(logdet, A.logdet(), rtol=1e-12, atol=1e-12)


def test_a_sum_stays_diagonal_where_it_can_and_squares_nothing():
    diagonal = DiagonalGram(np.array([3.0, 5.0])) + DiagonalGram(np.array([4.0, 12.0]))
    assert isinstance(diagonal, DiagonalGram)
    np.testing.assert_allclose(diagonal.scale, [5.0, 13.0], rtol=1e-15)
    rng = np.random.default_rng(0)
    T = factor(rng, np.geomspace(1, 1e-5, D)).astype(
        np.float32
    )  # T'T is singular in float32
    total = Gram(T) + Gram(T)
    mpmath.mp.dps = 40
    exact = float(mpmath.log(mpmath.det(2 * mpmath.matrix(T).T * mpmath.matrix(T))))
    assert total.logdet().dtype == np.float32
    np.testing.assert_allclose(total.logdet(), exact, rtol=1e-3)


@sweep("name", DIVERGENCES, quick=3)
def test_divergences_of_all_pairs_of_kinds_are_those_of_the_dense_matrices(name):
    first, second = values(3, (2,)), values(4)
    for one, A in first.items():
        for other in {one, "square", "diagonal"}:
            B = second[other]
            dense = [Gram(jnp.linalg.cholesky(X.dense(), upper=True)) for X in (A, B)]
            expected = DIVERGENCES[name](*dense)
            got = DIVERGENCES[name](A, B)
            np.testing.assert_allclose(
                got, expected, rtol=1e-8, err_msg=f"{one}, {other}"
            )


@sweep("name", [*DIVERGENCES, "kl"], quick=2)
def test_two_diagonals_stay_diagonal(name):
    d = 60

    def compare(a, b):
        if name != "kl":
            return DIVERGENCES[name](DiagonalGram(a), DiagonalGram(b))
        p, q = (
            TraceOneGaussian(jnp.ones(d), DiagonalGram.trace_one(x), jnp.sum(x**2))
            for x in (a, b)
        )
        return kl_divergence(q, p)

    a, b = np.linspace(1, 2, d), np.linspace(2, 0.5, d)
    assert program(compare, a, b)[1] <= 2 * d
    gradients = jax.grad(compare, (0, 1))(a, b)
    if name != "kl":
        dense = jax.grad(
            lambda a, b: DIVERGENCES[name](Gram(jnp.diag(a)), Gram(jnp.diag(b))), (0, 1)
        )(a, b)
        np.testing.assert_allclose(gradients, dense, rtol=1e-9, atol=1e-12)


@sweep("name", ["stein", "stein one-sided", "affine_invariant"])
def test_upper_factors_are_not_decomposed_again(name):
    rng = np.random.default_rng(5)
    T, S = (np.triu(rng.normal(size=(D, D))) + 3 * np.eye(D) for _ in range(2))

    def compare(T, S, upper):
        return DIVERGENCES[name](Gram(T, upper=upper), Gram(S, upper=upper))

    assert "lu" in program(lambda T, S: compare(T, S, False), T, S)[0]
    assert "lu" not in program(lambda T, S: compare(T, S, True), T, S)[0]
    plain, upper = (jax.grad(compare, (0, 1))(T, S, flag) for flag in (False, True))
    np.testing.assert_allclose(np.triu(upper), np.triu(plain), rtol=1e-10)


class Flat(SPD):
    """A compact kind A = scale^2 I, which nobody may ask for a dense factor."""

    scale: jax.Array  # (...)
    dim: int = eqx.field(static=True)
    compact = True
    batch_shape = property(lambda self: self.scale.shape)

    @property
    def factor(self):
        raise AssertionError("a dense factor was asked for")

    def diagonal(self):
        return jnp.full(self.dim, self.scale**2)

    def trace(self):
        return self.dim * self.scale**2

    def scaled(self, c):
        return Flat(jnp.sqrt(c) * self.scale, self.dim)

    def logdet(self):
        return 2 * self.dim * jnp.log(self.scale)

    def __matmul__(self, x):
        return self.scale**2 * x

    def inner(self, other):
        return self.scale**2 * other.trace()

    def logdet_and_trace_solve(self, other, x=None):
        total = other.trace() if x is None else other.trace() + x @ x
        return self.logdet(), total / self.scale**2


@pytest.mark.slow
@pytest.mark.parametrize("name", ["stein one-sided", "quadratic", "kl"])
def test_a_compact_kind_needs_nothing_of_size_d_squared(name):
    """It is one class: neither divergences nor densities know of it."""
    d = 60
    s = np.random.default_rng(6).uniform(0.5, 2, d)

    def compare(scale, s, kind=Flat):
        A, B = kind(scale, d), DiagonalGram.trace_one(s)
        if name != "kl":
            return DIVERGENCES[name](A, B) + DIVERGENCES[name](B, A)
        p, q = (
            TraceOneGaussian(loc, V.scaled(1 / V.trace()), V.trace())
            for loc, V in ((0 * s, A), (s, B))
        )
        return kl_divergence(q, p)

    scale = jnp.array(0.7)
    assert program(compare, scale, s)[1] <= 2 * d
    got = jax.grad(compare, (0, 1))(scale, s)
    expected = jax.grad(lambda *x: compare(*x, kind=ScaledIdentity), (0, 1))(scale, s)
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


class Round(mmlp.networks.Perceptron):
    """A user's network for the new kind: x -> ((mu, log eta), I / d)."""

    dim = 2
    out_features = 3

    def __call__(self, x):
        omega = ScaledIdentity(jnp.full((), 0.5**0.5, x.dtype), 2)
        return super().__call__(x), omega


def test_a_new_kind_works_at_once_under_heads_in_densities_plots_and_files(tmp_path):
    head = GaussianHead(Round((3, 5, 3), key=jax.random.key(0)))
    p = jax.vmap(head)(np.ones((7, 3)))
    y = np.zeros((7, 2))
    dense = TraceOneGaussian(p.loc, Gram(p.omega.factor), p.eta)
    np.testing.assert_allclose(p.log_prob(y), dense.log_prob(y), rtol=1e-12)
    np.testing.assert_allclose(p.entropy(), dense.entropy(), rtol=1e-12)
    np.testing.assert_allclose(kl_divergence(dense, p), 0, atol=1e-14)
    np.testing.assert_allclose(kl_divergence(p, dense), 0, atol=1e-14)
    heavy = TraceOnePowerExponential(p.loc, p.omega, p.eta, 1.0, 0.7)
    assert heavy.sample(jax.random.key(1), 5).shape == (5, 7, 2)
    assert isinstance(heavy.covariance, ScaledIdentity)

    from mmlp import metrics, plotting

    assert np.isfinite(metrics.negative_log_likelihood(heavy, y))
    plotting.plot_ellipses(p, y)
    plotting.plot_covariance(ScaledIdentity(jnp.ones(()), 2))
    plotting.plt.close("all")

    mmlp.save(p, tmp_path / "p.safetensors")
    again = mmlp.load(tmp_path / "p.safetensors")
    assert isinstance(again.omega, ScaledIdentity)
    np.testing.assert_array_equal(again.log_prob(y), p.log_prob(y))


def test_what_is_no_value_is_refused():
    A = Gram(np.eye(2))
    for call in (A.inner, A.trace_solve):
        with pytest.raises(
            ValueError, match=r"takes two SPD values, got ndarray; use `Gram.from"
        ):
            call(np.eye(2))
        with pytest.raises(
            ValueError, match="needs matrices of one size, got 2 x 2 and 3 x 3"
        ):
            call(Gram(np.eye(3)))
    with pytest.raises(
        ValueError, match=r"`A \+ B` cannot broadcast batch dimensions \(2,\)"
    ):
        Gram(np.eye(2)[None].repeat(2, 0)) + DiagonalGram(np.ones((3, 2)))
    with pytest.raises(TypeError):
        A + np.eye(2)


@pytest.mark.slow
@pytest.mark.parametrize(("s", "r"), [(1.0, 1.0), (1.0, -1.0), (2.0, 0.5), (1e-3, 1e3)])
def test_a_sum_of_diagonals_has_right_second_derivatives(s, r):
    def logdet(x, add):
        A, B = add
        return (A(x[:1]) + B(x[1:])).logdet()

    def dense(x):
        return Gram(x[:, None])

    x = np.array([s, r])
    hessians = [
        jax.hessian(lambda x, k=k: logdet(x, (k, k)))(x) for k in (DiagonalGram, dense)
    ]
    np.testing.assert_allclose(
        *hessians, rtol=1e-9, atol=1e-9 * np.abs(hessians[1]).max()
    )


@pytest.mark.slow
def test_diagonals_at_the_edge_of_float32_are_not_squared_first():
    tiny, one = jnp.array([1e-20], "float32"), jnp.array([1.0], "float32")
    total = jax.grad(lambda s, r: (DiagonalGram(s) + DiagonalGram(r)).logdet())(
        tiny, tiny
    )
    np.testing.assert_allclose(total, 1e20, rtol=1e-6)
    zero = jax.grad(lambda s: (DiagonalGram(s) + DiagonalGram(0 * s)).trace())(0 * one)
    np.testing.assert_array_equal(zero, 0)
    huge = DiagonalGram(1e18 * one)
    np.testing.assert_allclose(DiagonalGram(tiny).inner(huge), 1e-4, rtol=1e-6)
    np.testing.assert_allclose(
        DiagonalGram(tiny).inner(Gram(huge.factor)), 1e-4, rtol=1e-6
    )
    s = jnp.array([1.0, 1e-21], "float32")
    p, q = (
        TraceOneGaussian(0 * s, A, 1.0) for A in (DiagonalGram(s), Gram(jnp.diag(s)))
    )
    np.testing.assert_allclose(kl_divergence(q, p), 0, atol=1e-6)
