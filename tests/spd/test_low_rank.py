"""`LowRankGram` is the dense `Gram` of diag(scale) on top of U, without its size."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import DIVERGENCES, program
from sweeps import sweep

from mmlp import (
    DiagonalGram,
    Gram,
    LowRankGram,
    TraceOneGaussian,
    TraceOnePowerExponential,
    affine_invariant,
    bures_wasserstein,
    kl_divergence,
    load,
    log_euclidean,
    quadratic,
    save,
    stein,
    von_neumann,
)

SHAPES = [(5, 2), (3, 7), (1, 1), (4, 0), (200, 3)]  # d, m


def draw(seed, d, m, *batch):
    rng = np.random.default_rng(seed)
    scale = rng.uniform(0.5, 2, (*batch, d)) * rng.choice(
        [-1, 1], d
    )  # the sign is no matter
    return LowRankGram(scale, rng.normal(size=(*batch, m, d)))


def tall(A):
    """The same matrix by its dense factor."""
    return Gram(A.factor)


def close(got, expected, message=""):
    """To 1e-10 of the largest entry."""
    got, expected = np.asarray(got), np.asarray(expected)
    assert got.shape == expected.shape, message
    size = np.abs(expected).max(initial=1e-300)
    np.testing.assert_allclose(
        got, expected, rtol=1e-10, atol=1e-10 * size, err_msg=message
    )


@eqx.filter_jit
def of_one(A, x):
    d = A.dim
    noise = A.color(
        jnp.eye(d).reshape(d, *(1,) * len(A.batch_shape), d)
    )  # the columns of M
    return {
        "logdet": A.logdet(),
        "x'A^-1 x": jnp.sum(A.whiten(x) ** 2, axis=-1),
        "MM'": jnp.einsum("i...a,i...b->...ab", noise, noise),
        "there and back": (A.color(A.whiten(x)), A.whiten(A.color(x))),
        "solve": A.solve(x),
        "@": A @ x,
        "dense": A.dense(),
        "diagonal": A.diagonal(),
        "trace": A.trace(),
        "scaled": A.scaled(3.0).dense(),
        "marginal": A.marginal([d - 1, 0] if d > 1 else [0]).dense(),
        "congruence": A.congruence(jnp.eye(d)[: d // 2 + 1] + 0.1).dense(),
        "logm": A.logm() if d < 100 else 0.0,
    }


@sweep(("d", "m"), SHAPES, quick=2)
def test_methods_are_those_of_the_dense_gram(d, m):
    A, x = draw(0, d, m), np.random.default_rng(1).normal(size=d)
    got, expected = of_one(A, x), of_one(tall(A), x)
    for y in got.pop("there and back"):
        close(y, x)
    for name in got:
        close(got[name], expected[name], name)


@eqx.filter_jit
def of_two(A, B, x, dense):
    """Names to numbers; both directions of what has a direction."""
    both = {}
    for order, (P, Q) in {"AB": (A, B), "BA": (B, A)}.items():
        logdet, trace = P.logdet_and_trace_solve(Q, x)
        one, other = (
            TraceOneGaussian(loc, V.scaled(1 / V.trace()), V.trace())
            for loc, V in ((x, P), (0 * x, Q))
        )
        values = {
            "+": (P + Q).dense(),
            "log det of the sum": (P + Q).logdet(),
            "inner": P.inner(Q),
            "trace_solve": P.trace_solve(Q),
            "logdet": logdet,
            "with x": trace,
            "log_prob": one.log_prob(0.5 * x),
            "entropy": one.entropy(),
            "kl": kl_divergence(one, other),
            "stein": stein(P, Q),
            "stein one-sided": stein(P, Q, symmetric=False),
            "quadratic": quadratic(P, Q),
        }
        both |= {f"{name} {order}": value for name, value in values.items()}
    rest = (
        (von_neumann, log_euclidean, affine_invariant, bures_wasserstein)
        if dense
        else ()
    )
    return both | {f.__name__: f(A, B) for f in rest}


KINDS = {
    "low": lambda d, m: draw(3, d, m),
    "diagonal": lambda d, m: DiagonalGram(draw(3, d, m).scale),
    "gram": lambda d, m: tall(draw(3, d, m)),
}


@sweep(
    ("d", "m", "kind"),
    [*((5, 2, kind) for kind in KINDS), (1, 3, "low"), (200, 3, "low")],
)
def test_what_two_values_have_in_common_is_that_of_the_dense_grams(d, m, kind):
    A, B, x = (
        draw(2, d, m),
        KINDS[kind](d, m + 1),
        np.random.default_rng(1).normal(size=d),
    )
    got, expected = of_two(A, B, x, d < 9), of_two(tall(A), tall(B), x, d < 9)
    for name in expected:
        close(got[name], expected[name], name)
    assert isinstance(A + B, Gram if kind == "gram" else LowRankGram)
    assert isinstance(B + A, Gram if kind == "gram" else LowRankGram)


@pytest.mark.slow
def test_batch_dimensions_broadcast_as_those_of_a_gram():
    A, B, x = draw(4, 4, 2, 3, 1), draw(5, 4, 1, 2), np.arange(8.0).reshape(2, 4)
    assert A.batch_shape == (3, 1)
    pairs = of_two(A, B, x, False), of_two(tall(A), tall(B), x, False)
    ones = of_one(A, x), of_one(tall(A), x)
    for got, expected in (pairs, ones):
        for name in expected.keys() - {"there and back"}:
            close(got[name], expected[name], name)
    alone = LowRankGram(A.scale[1], B.U)  # scale (1, 4) and U (2, 1, 4)
    np.testing.assert_array_equal(alone.scale, np.repeat(A.scale[1], 2, axis=0))
    many = jax.vmap(lambda s, U, x: LowRankGram(s, U).solve(x))(alone.scale, B.U, x)
    close(many, alone.solve(x))


# -- size


def compare(name, s, U, r, V):
    A, B = LowRankGram.trace_one(s, U), LowRankGram.trace_one(r, V)
    if name in DIVERGENCES:
        return DIVERGENCES[name](A, B)
    p, q = (TraceOneGaussian(loc, omega, 2.0) for loc, omega in ((s, A), (r, B)))
    return kl_divergence(q, p) if name == "kl" else p.log_prob(r)


@sweep("name", ["stein", "stein one-sided", "quadratic", "kl", "log_prob"], quick=2)
def test_nothing_has_d_squared_numbers(name):
    d, m = 300, 2
    A, B = draw(11, d, m), draw(12, d, m)
    arguments = A.scale, A.U, B.scale, B.U
    assert program(lambda *x: compare(name, *x), *arguments)[1] <= 2 * (m + 1) * d
    step = jax.jit(jax.value_and_grad(lambda *x: compare(name, *x), (0, 1, 2, 3)))
    memory = (
        step.lower(*arguments).compile().memory_analysis()
    )  # inside our primitives, too
    assert memory.temp_size_in_bytes < 8 * d * d / 2


@pytest.mark.slow
def test_a_large_value_does_all_but_what_needs_a_dense_factor():
    A, B = draw(13, 5000, 2), draw(14, 5000, 1)
    arguments = A.scale, A.U, B.scale, B.U
    names = ("stein", "stein one-sided", "quadratic", "kl", "log_prob")
    values = jax.jit(lambda *x: [compare(name, *x) for name in names])(*arguments)
    assert np.all(np.isfinite(values))
    p = TraceOnePowerExponential(
        A.scale, LowRankGram.trace_one(A.scale, A.U), 1.0, 1.0, 0.7
    )
    assert p.sample(jax.random.key(0), 3).shape == (3, 5000)
    assert np.isfinite(p.entropy())
    remedy = "5000 x 5000 numbers .* above 4096.*use `stein` or `quadratic`, `marginal"
    dense = von_neumann, log_euclidean, affine_invariant, bures_wasserstein
    for call in (A.logm, A.root, *(lambda f=f: f(A, B) for f in dense)):
        with pytest.raises(ValueError, match=remedy):
            call()
    assert A.marginal([4999, 7]).logm().shape == (2, 2)


# -- files and bad input


def test_it_comes_back_from_a_file(tmp_path):
    A = draw(15, 4, 2, 3)
    save(A, tmp_path / "A.safetensors")
    assert eqx.tree_equal(load(tmp_path / "A.safetensors"), A)


def test_trace_one_divides_by_the_trace():
    A = draw(16, 4, 2, 3)
    unit = LowRankGram.trace_one(A.scale, A.U)
    np.testing.assert_allclose(unit.trace(), np.ones(3), rtol=1e-14)
    close(unit.dense(), A.dense() / A.trace()[:, None, None])


ONES, U = np.ones(3), np.ones((2, 3))
BAD_ARGUMENTS = [
    (
        ([1.0, 0, 1], U),
        r"`LowRankGram\(scale=...\)` must not be zero anywhere; use `Gram` of diag",
    ),
    (
        (np.ones(3, int), U),
        r"`LowRankGram\(scale=...\)` must hold floating.*use `.astype",
    ),
    ((ONES, U.astype(int)), r"`LowRankGram\(U=...\)` must hold floating.*use `.astype"),
    (
        (ONES, ONES),
        r"`LowRankGram\(U=...\)` must have shape \(..., m, 3\) to fit scale, got",
    ),
    ((ONES, np.ones((2, 4))), r"fit scale, got shape \(2, 4\)"),
    ((1.0, U), r"`LowRankGram\(scale=...\)` must have shape \(..., d\)"),
    (
        (ONES * np.nan, U),
        r"`LowRankGram\(scale=...\)` must be finite, got nan at index \(0",
    ),
    (
        (ONES, U * np.inf),
        r"`LowRankGram\(U=...\)` must be finite, got inf at index \(0, 0",
    ),
    ((ONES.astype("float16"), U), r'float16; use `.astype\("float32"\)`'),
    (
        (np.ones((2, 3)), np.ones((5, 2, 3))),
        r"U=...\)` must have batch.*broadcast.*\(5,\)",
    ),
]
BAD_CALLS = [
    ("solve", np.ones(2), r"`LowRankGram.solve\(b=...\)` must have shape \(..., 3\)"),
    (
        "marginal",
        [3],
        r"`LowRankGram.marginal\(columns=...\)` must be distinct.*0 to 2.*got \[3\]",
    ),
    ("marginal", [1, 1], r"must be distinct columns of 0 to 2, such as \[0, 2\]"),
    ("scaled", -1.0, r"`LowRankGram.scaled\(c=...\)` must be positive, got -1"),
    (
        "congruence",
        np.ones((4, 3)),
        r"LowRankGram.congruence\(W.*k <= 3, or W A W' is singular",
    ),
    ("inner", np.eye(3), r"takes two SPD values, got ndarray; use `Gram.from_dense"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD_ARGUMENTS)
def test_bad_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        LowRankGram(*arguments)


@pytest.mark.parametrize(("method", "argument", "message"), BAD_CALLS)
def test_bad_calls_are_named(method, argument, message):
    with pytest.raises(ValueError, match=message):
        getattr(LowRankGram(ONES, U), method)(argument)


def test_columns_of_a_marginal_may_be_a_tuple_but_not_traced():
    A = LowRankGram(jnp.ones(3), jnp.ones((1, 3)))
    np.testing.assert_array_equal(
        A.marginal((0, 2)).dense(), A.marginal([0, 2]).dense()
    )
    with pytest.raises(ValueError, match=r"of 0 to 0, such as \[0\], got \[3\]"):
        LowRankGram(jnp.ones(1), jnp.ones((1, 1))).marginal([3])
    with pytest.raises(ValueError, match="must be known numbers, not traced ones"):
        jax.jit(lambda i: A.marginal(i).trace())(jnp.arange(2))
    with pytest.raises(
        ValueError, match=r"`LowRankGram\(U=...\)` must be of float32 or float64"
    ):
        LowRankGram(jnp.ones(3), jnp.ones((0, 3), "float16"))
