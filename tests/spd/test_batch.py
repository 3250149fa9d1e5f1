"""Values and distributions as arrays: an index, a length, a loop, a short text."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import factor
from scaled_identity import ScaledIdentity
from sweeps import sweep

from mmlp import (
    DiagonalGram,
    Gram,
    LowRankGram,
    TraceOneGaussian,
    TraceOnePowerExponential,
    TraceOneStudentT,
)

D, BATCH = 3, (4, 2)
rng = np.random.default_rng(0)
T = factor(rng, np.geomspace(1, 0.1, D), *BATCH)
VALUES = {
    "square": Gram(T),
    "tall": Gram(rng.normal(size=(*BATCH, 5, D))),
    "upper": Gram(np.triu(T) + 2 * np.eye(D), upper=True),
    "diagonal": DiagonalGram(rng.uniform(0.5, 2, size=(*BATCH, D))),
    "low rank": LowRankGram(
        rng.uniform(0.5, 2, size=(*BATCH, D)), rng.normal(size=(*BATCH, 2, D))
    ),
    "new": ScaledIdentity(jnp.asarray(rng.uniform(0.5, 2, size=BATCH)), D),
}
INDICES = [
    *(
        0,
        -1,
        np.int64(2),
        (1, 1),
        (),
        slice(1, 3),
        (slice(None), 1),
        (slice(None, None, -1), 0),
    ),
    *(
        ...,
        (..., None),
        (..., 1),
        (1, ...),
        None,
        (0, None, ...),
        [0, 2],
        [],
        jnp.array([3, 0, 3]),
    ),
    *(
        np.array([True, False, True, False]),
        rng.uniform(size=BATCH) < 0.5,
        jnp.array(1),
    ),
    *(([0, 3], [1, 0]), ([0, 3], None, [1, 0])),
]
each = pytest.mark.parametrize("kind", VALUES)


@sweep("kind", VALUES, quick=2)
def test_an_index_takes_the_matrices_that_numpy_would_take(kind):
    A, numbers = VALUES[kind], np.arange(8).reshape(BATCH)
    for index in INDICES if kind in ("low rank", "new") else INDICES[::4]:
        chosen = numbers[index]
        some, expected = A[index], np.asarray(A).reshape(8, D, D)[chosen]
        assert type(some) is type(A)
        assert (some.batch_shape, some.shape) == (
            chosen.shape,
            (*chosen.shape, D, D),
        ), index
        np.testing.assert_array_equal(some.dense(), expected)
    assert getattr(A[0], "upper", None) == getattr(A, "upper", None)


@each
def test_len_and_loops_go_over_the_first_batch_dimension(kind):
    A = VALUES[kind]
    assert len(A) == 4
    assert (A.ndim, A.shape) == (4, (*BATCH, D, D))
    rows = list(A)
    assert [row.batch_shape for row in rows] == [(2,)] * 4
    np.testing.assert_array_equal(np.stack(rows), A.dense())
    with pytest.raises(
        TypeError, match="without batch dimensions, and so without a length"
    ):
        len(A[0, 0])
    assert all([A[0, 0], A[:0]])  # as of other objects, `A or B` is A


@each
def test_the_repr_is_short_and_has_no_arrays(kind):
    A = VALUES[kind]
    kinds = {
        "diagonal": "DiagonalGram",
        "low rank": "LowRankGram",
        "new": "ScaledIdentity",
    }
    assert repr(A) == f"{kinds.get(kind, 'Gram')}(batch_shape=(4, 2), dim=3, float64)"
    shapes = []
    jax.vmap(lambda row: shapes.append(repr(row)) or row.trace())(A)
    assert "batch_shape=(2,)" in shapes[0]
    assert "(...)" in repr(jax.tree.map(lambda x: None, A))


@each
def test_to_numpy_a_value_is_its_dense_matrix(kind):
    A = VALUES[kind]
    dense = np.asarray(A)
    assert type(dense) is np.ndarray
    np.testing.assert_array_equal(dense, A.dense())
    assert np.asarray(A, "float32").dtype == np.float32
    dense = np.array(A)
    dense[:] = 0  # a copy of its own
    np.testing.assert_allclose(
        np.linalg.eigvalsh(A).sum(axis=-1), A.trace(), rtol=1e-12
    )
    with pytest.raises(ValueError, match="copy=False"):
        np.array(A, copy=False)


@each
def test_products_on_both_sides_are_those_of_vectors(kind):
    A, x = VALUES[kind], rng.normal(size=(*BATCH, D))
    expected = np.einsum("...ij,...j", A, x)
    for vectors in (x, jnp.asarray(x)):
        np.testing.assert_allclose(A @ vectors, expected, rtol=1e-12)
        np.testing.assert_allclose(vectors @ A, expected, rtol=1e-12)
    for wrong in (lambda: A + np.eye(D), lambda: np.eye(D) + A, lambda: jnp.sum(A)):
        with pytest.raises(TypeError):
            wrong()


@pytest.mark.parametrize(
    "index", [4, (0, 2), (0, 0, 0), [5], (..., ...), 1.5, "a", [True, False]]
)
def test_an_index_that_is_none_of_the_batch_is_refused(index):
    with pytest.raises(
        IndexError, match=r"`Gram\[.*\]`: .* batch dimensions are \(4, 2\)"
    ):
        VALUES["square"][index]
    p = LAWS[0](jnp.zeros((*BATCH, D)), Gram(np.eye(D) / D**0.5), 1.0)
    with pytest.raises(IndexError, match=r"`TraceOneGaussian\[.*\(4, 2\)"):
        p[index]


def test_entries_of_a_matrix_are_no_batch():
    with pytest.raises(
        IndexError, match=r"`Gram\[0\]`: .* dimensions are \(\).*use `dense\(\)`"
    ):
        Gram(np.eye(2))[0]


@pytest.mark.slow
@each
def test_an_index_works_inside_of_compiled_functions(kind):
    A = VALUES[kind]
    found = jax.jit(lambda A, i: A[i, 1].dense())(A, 2)
    np.testing.assert_array_equal(found, A[2, 1].dense())
    each_trace = jax.vmap(lambda row: row[0].trace() + row[..., None].trace().sum())(A)
    np.testing.assert_allclose(
        each_trace, A.trace()[:, 0] + A.trace().sum(axis=1), rtol=1e-13
    )
    gradient = jax.grad(lambda A: A[1:3].logdet().sum())(A)
    zero = [np.all(np.asarray(x)[[0, 3]] == 0) for x in jax.tree.leaves(gradient)]
    other = [np.any(np.asarray(x)[1:3] != 0) for x in jax.tree.leaves(gradient)]
    assert all(zero)
    assert all(other)


LAWS = [TraceOneGaussian, TraceOnePowerExponential, TraceOneStudentT]


def law(family, *, shared=()):
    """Of batch shape (4, 2), however its parameters have it."""
    own = {
        name: () if name in shared else BATCH
        for name in ("loc", "omega", "eta", "tail")
    }
    if "omega" in shared:
        own["tail"] = (2,)  # broadcasts against the others
    omega = Gram.trace_one(factor(rng, np.geomspace(1, 0.1, D), *own["omega"]))
    count = {TraceOneGaussian: 0, TraceOnePowerExponential: 2, TraceOneStudentT: 1}[
        family
    ]
    eta, *tail = (rng.uniform(0.5, 2, size=own[n]) for n in ("eta", *["tail"] * count))
    return family(rng.normal(size=(*own["loc"], D)), omega, eta, *tail)


@sweep(
    ("family", "shared"),
    [
        *((family, ("omega",)) for family in LAWS),
        *(
            (TraceOneStudentT, names)
            for names in ((), ("loc", "eta", "tail"), ("loc", "omega"))
        ),
    ],
)
def test_an_index_of_a_distribution_takes_the_laws_of_these_elements(family, shared):
    p, x = law(family, shared=shared), rng.normal(size=D)
    densities = np.asarray(p.log_prob(x))
    assert p.batch_shape == BATCH
    for index in ((1, 1), slice(1, 3), (..., None), densities < densities.mean()):
        some = p[index]
        assert type(some) is family
        assert some.batch_shape == densities[index].shape, index
        np.testing.assert_allclose(some.log_prob(x), densities[index], rtol=1e-12)
        chosen = np.arange(8).reshape(BATCH)[index]
        np.testing.assert_array_equal(
            some.mean, np.asarray(p.mean).reshape(8, D)[chosen]
        )
    if "omega" in shared:
        assert p[0].omega.batch_shape == ()  # it stays common to all
    assert [row.batch_shape for row in p] == [(2,)] * len(p) == [(2,)] * 4
    text = f"{family.__name__}(batch_shape=(4, 2), dim=3, float64)"
    assert (repr(p), str(p)) == (text, text)


def test_a_distribution_keeps_what_is_not_an_array_and_one_element_its_axis():
    omega = Gram(np.eye(D) / D**0.5)
    p = TraceOnePowerExponential(
        np.zeros((1, D)), omega, [1.0], 1.0, 1.0, radius="normal"
    )
    assert p[0:1].batch_shape == (1,)
    assert (p[0].batch_shape, p[0].radius) == ((), "normal")
    found = eqx.filter_jit(lambda p, i: p[i].log_prob(jnp.zeros(D)))(p, jnp.array(0))
    np.testing.assert_allclose(found, p[0].log_prob(jnp.zeros(D)), rtol=1e-14)
