import equinox as eqx
import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
import scipy.linalg
from helpers import assert_derivatives, factor, trace_one_factor
from sweeps import sweep

from mmlp import DiagonalGram, Gram


@eqx.filter_jit
def everything(A, x):
    return (
        A.dense(),
        A.trace(),
        A.logdet(),
        A.logm(),
        A.solve(x),
        A.whiten(x),
        A.color(x),
        A @ x,
    )


# -- right: independent references in float64


@sweep("d", sorted(range(1, 31), key=lambda d: d not in (1, 3, 20)), quick=3)
def test_methods_agree_with_scipy(d):
    """Random cases for each d from 1 to 30, square and with more rows than columns."""
    rng = np.random.default_rng(d)
    T = factor(rng, np.geomspace(1, 0.03, d), 4)
    if d % 2:  # a tall factor of the same matrices
        T = np.linalg.qr(rng.normal(size=(4, d + 3, d)))[0] @ T
    x = rng.normal(size=(4, d))
    dense, trace, logdet, logm, solution, white, _, product = everything(Gram(T), x)
    for i in range(4):
        A = T[i].T @ T[i]
        np.testing.assert_allclose(dense[i], A, atol=1e-14)
        np.testing.assert_allclose(trace[i], np.trace(A), rtol=1e-13)
        np.testing.assert_allclose(
            logdet[i], np.linalg.slogdet(A)[1], rtol=1e-10, atol=1e-14
        )
        np.testing.assert_allclose(logm[i], scipy.linalg.logm(A), atol=1e-10)
        expected = scipy.linalg.solve(A, x[i], assume_a="pos")
        np.testing.assert_allclose(
            solution[i], expected, rtol=0, atol=1e-10 * np.linalg.norm(expected)
        )
        np.testing.assert_allclose(
            np.sum(white[i] ** 2), x[i] @ np.linalg.solve(A, x[i]), rtol=1e-10
        )
        np.testing.assert_allclose(product[i], A @ x[i], atol=1e-13)


def test_ill_conditioned_values_agree_with_multiprecision():
    """cond(T) = 1e6, so cond(A) = 1e12.

    T in float64, the reference from the same T in 50 digits.
    """
    mpmath.mp.dps = 50
    rng = np.random.default_rng(0)
    T, x = factor(rng, np.geomspace(1, 1e-6, 6)), rng.normal(size=6)
    M = mpmath.matrix(T.tolist())
    A = M.T * M
    eigenvalues, V = mpmath.eigsy(A)
    logm = V * mpmath.diag([mpmath.log(e) for e in eigenvalues]) * V.T
    solution = np.array(
        [float(v) for v in mpmath.lu_solve(A, mpmath.matrix(x.tolist()))]
    )
    G = Gram(T)
    np.testing.assert_allclose(
        G.logdet(), float(sum(mpmath.log(e) for e in eigenvalues)), rtol=1e-10
    )
    np.testing.assert_allclose(
        G.logm(), np.array(logm.tolist(), dtype=float), rtol=0, atol=1e-10 * 28
    )
    np.testing.assert_allclose(G.solve(x), solution, rtol=1e-8)
    np.testing.assert_allclose(jnp.sum(G.whiten(x) ** 2), x @ solution, rtol=1e-9)


@pytest.mark.parametrize("rows", [5, 8])
def test_color_is_the_inverse_of_whiten_and_has_covariance_A(rows):
    rng = np.random.default_rng(1)
    A = Gram(rng.normal(size=(3, rows, 5)))
    x = rng.normal(size=(7, 3, 5))
    np.testing.assert_allclose(A.color(A.whiten(x)), x, atol=1e-12)
    noise_to_x = jax.vmap(A.color, in_axes=-1, out_axes=-1)(
        jnp.broadcast_to(jnp.eye(5), (3, 5, 5))
    )  # columns T'e_i
    np.testing.assert_allclose(noise_to_x @ noise_to_x.mT, A.dense(), atol=1e-12)


def test_scaled_and_congruence_act_on_the_matrix():
    rng = np.random.default_rng(2)
    T, W, c = rng.normal(size=(2, 4, 4)), rng.normal(size=(3, 4)), np.array([0.3, 7.0])
    A = Gram(T)
    np.testing.assert_allclose(
        A.scaled(c).dense(), c[:, None, None] * A.dense(), rtol=1e-12
    )
    np.testing.assert_allclose(A.congruence(W).dense(), W @ A.dense() @ W.T, rtol=1e-12)
    np.testing.assert_allclose(
        A.congruence(W).logdet(), np.linalg.slogdet(W @ A.dense() @ W.T)[1], rtol=1e-10
    )


def test_a_diagonal_gram_is_the_gram_of_its_diagonal():
    rng = np.random.default_rng(3)
    scale, x = rng.uniform(0.1, 2, size=(3, 4)), rng.normal(size=(2, 3, 4))
    diagonal = everything(DiagonalGram(scale), x)
    dense = everything(Gram(DiagonalGram(scale).factor), x)
    for a, b in zip(diagonal, dense, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-13)
    W = rng.normal(size=(2, 4))
    np.testing.assert_allclose(
        DiagonalGram(scale).scaled(2.0).congruence(W).dense(),
        2 * W @ DiagonalGram(scale).dense() @ W.T,
        rtol=1e-12,
    )
    np.testing.assert_allclose(DiagonalGram.trace_one(scale).trace(), 1, rtol=1e-14)


def test_an_upper_factor_gives_the_same_without_a_decomposition():
    rng = np.random.default_rng(4)
    T, x = np.triu(rng.normal(size=(3, 5, 5))), rng.normal(size=(3, 5))
    for a, b in zip(
        everything(Gram(T, upper=True), x), everything(Gram(T), x), strict=True
    ):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)
    assert "lu[" not in str(
        jax.make_jaxpr(lambda T: Gram(T, upper=True).logdet_and_whiten(x))(T)
    )


# -- right: float32


def float32_errors(condition):
    """Largest relative errors of log det, |whiten|^2 and logm of 40 matrices."""
    rng = np.random.default_rng(0)
    T = trace_one_factor(rng, 24, condition, 40).astype(np.float32)
    x = rng.normal(size=(40, 24)).astype(np.float32)
    _, _, logdet, logm, _, white, _, _ = everything(Gram(T), x)
    assert logdet.dtype == logm.dtype == white.dtype == np.float32
    _, s, Vt = np.linalg.svd(T.astype(float))
    exact_logm = np.swapaxes(Vt, 1, 2) @ (2 * np.log(s)[..., None] * Vt)
    exact_white = np.linalg.solve(
        np.swapaxes(T.astype(float), 1, 2), x.astype(float)[..., None]
    )
    exact_logdet, exact_square = 2 * np.log(s).sum(1), (exact_white**2).sum((1, 2))
    return (
        np.max(np.abs(logdet / exact_logdet - 1)),
        np.max(np.abs(np.sum(np.asarray(white, float) ** 2, 1) / exact_square - 1)),
        np.max(
            np.linalg.norm(logm - exact_logm, axis=(1, 2))
            / np.linalg.norm(exact_logm, axis=(1, 2))
        ),
    )


@pytest.mark.parametrize(
    ("condition", "limits"), [(1e3, (1e-6, 1e-5, 1e-5)), (1e5, (1e-5, 1e-3, 1e-3))]
)
def test_float32_is_accurate_where_the_squared_matrix_fails(condition, limits):
    assert np.all(np.array(float32_errors(condition)) < limits)


def test_float32_error_grows_like_cond_not_cond_squared():
    conditions = np.array([1e2, 1e3, 1e4, 1e5])
    errors = np.array([float32_errors(c) for c in conditions])
    for column in errors.T:
        slope = np.polyfit(np.log(conditions), np.log(column), 1)[0]
        assert slope < 1.2


# -- right: derivatives

SPECTRA = {
    "generic": [1.3, 0.9, 0.5, 0.2],
    "all equal": [1.0, 1.0, 1.0, 1.0],
    "two nearly equal": [1.0, 0.5 + 1e-9, 0.5, 0.3],
    "a tiny eigenvalue": [1.0, 0.5, 0.1, 1e-5],
}
METHODS = {
    "logdet": lambda T, x: Gram(T).logdet(),
    "logm": lambda T, x: jnp.vdot(
        Gram(T).logm(), jnp.sin(jnp.arange(16.0)).reshape(4, 4)
    ),
    "solve": lambda T, x: jnp.vdot(Gram(T).solve(x), jnp.cos(x)),
    "whiten": lambda T, x: jnp.sum(Gram(T).whiten(x) ** 2),
    "color": lambda T, x: jnp.sum(Gram(T).color(x) ** 3),
    "trace": lambda T, x: Gram(T).trace(),
}


@pytest.mark.parametrize("spectrum", SPECTRA)
@pytest.mark.parametrize("method", METHODS)
def test_derivatives_to_second_order(method, spectrum):
    rng = np.random.default_rng(5)
    s = SPECTRA[spectrum]
    T = jnp.asarray(factor(rng, s)) if spectrum != "all equal" else jnp.eye(4)
    x, direction = jnp.asarray(rng.normal(size=4)), jnp.asarray(rng.normal(size=(4, 4)))
    assert_derivatives(METHODS[method], T, direction, x, step=3e-3 * min(s), rtol=1e-6)


@pytest.mark.parametrize("method", ["logdet", "logm", "whiten"])
def test_derivatives_of_a_tall_factor(method):
    rng = np.random.default_rng(6)
    T, direction, x = (
        jnp.asarray(rng.normal(size=(6, 4))),
        jnp.asarray(rng.normal(size=(6, 4))),
        jnp.ones(4),
    )
    assert_derivatives(METHODS[method], T, direction, x, step=1e-3, rtol=1e-6)


# -- batches


@pytest.mark.slow
def test_batches_vmap_and_loops_agree_in_value_and_gradient():
    rng = np.random.default_rng(7)
    T, x = (
        jnp.asarray(rng.normal(size=(2, 3, 4, 4))),
        jnp.asarray(rng.normal(size=(2, 3, 4))),
    )

    def f(T, x):
        return sum(jnp.sum(jnp.sin(value)) for value in everything(Gram(T), x))

    gradient = jax.jit(jax.grad(f))
    batched = gradient(T, x)
    np.testing.assert_allclose(
        jax.vmap(jax.vmap(jax.grad(f)))(T, x), batched, rtol=1e-8, atol=1e-10
    )
    for i in range(2):
        for j in range(3):
            np.testing.assert_allclose(
                gradient(T[i, j], x[i, j]), batched[i, j], rtol=1e-8, atol=1e-10
            )


def test_vectors_in_front_of_the_batch_share_one_factorisation():
    A, x = Gram(jnp.eye(3)[None].repeat(2, 0)), jnp.ones((5, 4, 2, 3))
    assert A.whiten(x).shape == (5, 4, 2, 3)
    assert A.solve(jnp.ones(3)).shape == (2, 3)
    assert Gram(jnp.eye(3)).color(x).shape == x.shape


def test_batch_dimensions_of_length_one_stretch():
    rng = np.random.default_rng(11)
    T, x = rng.normal(size=(1, 4, 3, 3)), rng.normal(size=(6, 5, 4, 3))
    for method in ("whiten", "color", "solve", "__matmul__"):
        result = getattr(Gram(T), method)(x)
        np.testing.assert_allclose(
            result[2, 3, 1], getattr(Gram(T[0, 1]), method)(x[2, 3, 1]), rtol=1e-9
        )
    with pytest.raises(
        ValueError,
        match=r"`Gram.whiten\(x=...\)` cannot broadcast \(5,\) against .* \(4,\)",
    ):
        Gram(rng.normal(size=(4, 3, 3))).whiten(rng.normal(size=(5, 3)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_sample_does_not_feel_its_neighbours(dtype):
    rng = np.random.default_rng(8)
    T, x = (
        rng.normal(size=(6, 5, 5)).astype(dtype),
        rng.normal(size=(6, 5)).astype(dtype),
    )
    loud = T.copy()
    loud[3] *= 1000

    @jax.jit
    def each(T):
        return jax.vmap(
            jax.value_and_grad(
                lambda T, x: sum(jnp.sum(v) for v in everything(Gram(T), x))
            )
        )(T, x)

    keep = np.arange(6) != 3
    for quiet, disturbed in zip(each(T), each(loud), strict=True):
        np.testing.assert_array_equal(quiet[keep], disturbed[keep])


# -- from_dense, singular factors, bad input


def test_from_dense_round_trips_and_float32_is_factored_in_float64():
    rng = np.random.default_rng(9)
    T = factor(rng, np.geomspace(1, 10**-4.5, 20), 30)
    A = (
        np.swapaxes(T, 1, 2) @ T
    )  # condition number 1e9: float32 Cholesky fails on most of them
    np.testing.assert_allclose(Gram.from_dense(A).dense(), A, atol=1e-14)
    with jax.enable_x64(False):
        G = Gram.from_dense(A)
        assert G.factor.dtype == np.float32
        assert np.all(np.isfinite(G.factor))
        np.testing.assert_allclose(G.logdet(), np.linalg.slogdet(A)[1], rtol=1e-5)


def test_traced_from_dense_gives_nan_for_the_bad_element_alone():
    A = jnp.stack([jnp.eye(3), -jnp.eye(3), 2 * jnp.eye(3)])
    logdet = jax.jit(lambda A: Gram.from_dense(A).logdet())(A)
    np.testing.assert_allclose(logdet, [0, np.nan, 3 * np.log(2)], atol=1e-12)


@pytest.mark.parametrize("upper", [False, True])
def test_a_singular_factor_is_infinite_and_raises_nothing(upper):
    T = jnp.array([[[1.0, 2.0], [0.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]]])
    _, _, logdet, logm, solution, white, _, _ = everything(
        Gram(T, upper=upper), jnp.ones((2, 2))
    )
    np.testing.assert_array_equal(logdet, [-np.inf, 0])
    assert np.all(np.isinf(Gram(T[0], upper=upper).solve(np.array([0.0, 1.0]))))
    assert np.sum(white[0] ** 2) == np.inf
    assert np.all(np.isinf(solution[0]))
    np.testing.assert_array_equal(white[1], [1, 1])
    singular = jax.jit(lambda T: Gram(T).logm())(jnp.zeros((2, 2)))
    np.testing.assert_array_equal(singular, -np.inf)
    assert np.all(np.isfinite(logm[1]))


def test_a_singular_diagonal_gram_is_infinite_where_it_should_be():
    A = DiagonalGram(np.array([1.0, 0.0]))
    assert A.logdet() == -np.inf
    np.testing.assert_array_equal(A.logm(), [[0, 0], [0, -np.inf]])


@pytest.mark.parametrize("method", ["whiten", "solve", "color", "__matmul__"])
def test_dtypes_are_promoted_as_in_numpy(method):
    A = Gram(np.eye(2, dtype=np.float32) * 2)
    for x, dtype in (
        (np.ones(2), np.float64),
        (np.ones(2, int), np.float32),
        ([1, 2], np.float32),
    ):
        result = getattr(A, method)(x)
        assert result.dtype == dtype
        np.testing.assert_allclose(
            result,
            getattr(Gram(np.eye(2) * 2), method)(np.asarray(x, float)),
            rtol=1e-6,
        )


def test_trace_one_of_tiny_and_huge_float32_numbers():
    T = np.eye(3, dtype=np.float32) + 0.1
    for c in (1e-30, 1e-20, 1e20, 1e30):
        A = Gram.trace_one(np.float32(c) * T)
        np.testing.assert_allclose(A.trace(), 1, rtol=1e-6)
        np.testing.assert_allclose(A.dense(), Gram.trace_one(T).dense(), rtol=1e-5)


NAN_MATRIX = np.array([[1.0, np.nan], [np.nan, 1.0]])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: Gram(np.eye(2, dtype=int)),
            r"`Gram\(factor=...\)` must hold floating-point numbers, got dtype int64",
        ),
        (
            lambda: Gram(np.eye(2, dtype=np.float16)),
            r'must be of float32 or float64, got float16; use `.astype\("float32"\)`',
        ),
        (
            lambda: Gram(jnp.eye(2, dtype=jnp.bfloat16)),
            r"`Gram\(factor=...\)` must be of float32 or float64, got bfloat16",
        ),
        (
            lambda: Gram.from_dense(np.eye(2, dtype=np.float16)),
            r"`Gram.from_dense\(A=...\)` must be of float32",
        ),
        (
            lambda: DiagonalGram(np.ones(2, np.float16)),
            r"`DiagonalGram\(scale=...\)` must be of float32",
        ),
        (lambda: Gram(np.ones(3)), r"must have shape \(..., m, d\).*got shape \(3,\)"),
        (
            lambda: Gram(np.ones((2, 3))),
            r"at least as many rows as columns.*got shape \(2, 3\)",
        ),
        (lambda: Gram(np.ones((3, 2)), upper=True), r"must be square to be `upper`"),
        (lambda: Gram(np.ones((0, 0))), r"no axis of length 0, got shape \(0, 0\)"),
        (
            lambda: Gram(np.ones((0, 2, 2))),
            r"no axis of length 0, got shape \(0, 2, 2\)",
        ),
        (
            lambda: Gram(NAN_MATRIX),
            r"must be finite, got nan at index \(0, 1\); drop or fill",
        ),
        (
            lambda: Gram.trace_one(np.full((2, 2), np.inf)),
            r"`Gram.trace_one\(T=...\)` must be finite, got inf",
        ),
        (lambda: Gram([[1.0, "a"]]), r"must hold floating-point numbers"),
        (
            lambda: Gram.from_dense(np.ones((2, 3))),
            r"must have shape \(..., d, d\), got shape \(2, 3\)",
        ),
        (
            lambda: Gram.from_dense(NAN_MATRIX),
            r"`Gram.from_dense\(A=...\)` must be finite",
        ),
        (lambda: Gram.from_dense(np.eye(2, dtype=int)), r"use `.astype\(float\)`"),
        (
            lambda: Gram.from_dense(np.array([[1.0, 0.5], [0.1, 1.0]])),
            r"must be symmetric.*differ by 0.4; use \(A \+ A.T\) / 2",
        ),
        (
            lambda: Gram.from_dense(np.stack([np.eye(2), -np.eye(2)])),
            r"element \(1,\) has smallest eigenvalue -1",
        ),
        (
            lambda: Gram.from_dense(np.ones((2, 2))),
            r"the matrix has smallest eigenvalue.*more samples than dimensions",
        ),
        (
            lambda: Gram(np.eye(2)).whiten(np.ones(3)),
            r"`Gram.whiten\(x=...\)` must have shape \(..., 2\), got shape \(3,\)",
        ),
        (
            lambda: Gram(np.eye(2)).congruence(np.ones((3, 2))),
            r"k <= 2, or W A W' is singular, got shape \(3, 2\)",
        ),
        (
            lambda: DiagonalGram(np.ones(2)).solve(np.ones(1)),
            r"`DiagonalGram.solve\(b=...\)` must have shape",
        ),
        (
            lambda: Gram(np.ones((2, 2)), upper=True),
            r"must be zero below the diagonal; leave out `upper`",
        ),
        (
            lambda: Gram(np.eye(2)).scaled(-1.0),
            r"`Gram.scaled\(c=...\)` must be positive, got -1",
        ),
        (
            lambda: Gram.trace_one(np.zeros((2, 2))),
            r"`Gram.trace_one\(T=...\)` must not be all zeros",
        ),
        (
            lambda: DiagonalGram.trace_one(np.zeros(2)),
            r"`DiagonalGram.trace_one\(scale=...\)` must not be all zeros",
        ),
        (
            lambda: DiagonalGram(np.array(1.0)),
            r"`DiagonalGram\(scale=...\)` must have shape",
        ),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
