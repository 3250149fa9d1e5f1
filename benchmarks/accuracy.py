"""What does conditioning cost in float32, if A = T'T is kept as T, and if it is formed?

    python benchmarks/accuracy.py

Takes 2 minutes and prints tables of errors against float64 or 60 digits.

Answer (2 CPU cores, jax 0.9.0.1): the tables, quoted in docs/numerics.md. With A kept
as T, errors grow at most like cond(T), and float32 is usable to cond(T) = 1e5 and
beyond. With A formed and decomposed, they grow like its square, and Cholesky fails from
about 1e4. Gradients also have errors of about eps cond(T) or less, even where the ratio
of two matrices has the square of that condition. Low rank plus diagonal, kept as such,
has no larger errors than its dense factor (`python benchmarks/low_rank_accuracy.py`
prints that part alone).
"""

from collections.abc import Callable, Iterable
from typing import Any

import jax
import jax.numpy as jnp
import low_rank_accuracy
import multiprecision
import numpy as np

import mmlp
from mmlp import Gram

# Values of log det, x'A^-1 x and logm
VALUE_SIZE = 24
VALUE_DRAWS = 100
VALUE_CONDITIONS = (1e1, 1e2, 1e3, 1e4, 1e5, 1e6)

# Gradients, and values of divergences
GRADIENT_SIZE = 5
GRADIENT_DRAWS = 10
GRADIENT_CONDITIONS = (1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7)
DIVERGENCE_DRAWS = 40
DIVERGENCE_CONDITIONS = (1e1, 1e2, 1e3, 1e4, 1e5)
SCALE_OF_SECOND_FACTOR = 1.5  # so that the matrices differ at condition one


def make_factors(
    rng: np.random.Generator, condition: float, n: int, d: int
) -> np.ndarray:
    """Draw factors T (n, d, d) of this condition, with tr(T'T) = 1."""

    def draw_orthogonal() -> np.ndarray:
        return np.linalg.qr(rng.normal(size=(n, d, d)))[0]

    left = draw_orthogonal()
    T = left * np.geomspace(1, 1 / condition, d) @ draw_orthogonal()
    return T / np.linalg.norm(T, axis=(1, 2), keepdims=True)


def relative_error(value: Any, reference: np.ndarray) -> np.ndarray:
    """Return |value - reference| / |reference| for each entry of the first axis."""
    axes = tuple(range(1, reference.ndim))
    difference = np.sqrt(np.sum((np.asarray(value, float) - reference) ** 2, axes))
    return difference / np.sqrt(np.sum(reference**2, axes))


def print_row(name: str, numbers: Iterable[float]) -> None:
    """Print one line of a table."""
    print(f"{name:>26}" + "".join(f"{number:9.0e}" for number in numbers))


# log det A, x'A^-1 x and logm A, with A kept as T or formed


def draw_factors_and_vectors(condition: float) -> tuple[np.ndarray, np.ndarray]:
    """Return T (n, d, d) and x (n, d) in float32."""
    rng = np.random.default_rng(0)
    T = make_factors(rng, condition, VALUE_DRAWS, VALUE_SIZE)
    x = rng.normal(size=(VALUE_DRAWS, VALUE_SIZE))
    return T.astype(np.float32), x.astype(np.float32)


def compute_in_float64(
    T: np.ndarray, x: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return log det, x'A^-1 x and logm in float64, from the same float32 factor."""
    _, s, Vt = np.linalg.svd(T.astype(float))
    transposed = np.swapaxes(T, 1, 2).astype(float)
    whitened = np.linalg.solve(transposed, x.astype(float)[..., None])
    logm = np.swapaxes(Vt, 1, 2) @ (2 * np.log(s)[..., None] * Vt)
    return 2 * np.log(s).sum(1), np.sum(whitened**2, (1, 2)), logm


@jax.jit
def compute_from_factor(
    T: jax.Array, x: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return log det, x'A^-1 x and logm from T."""
    A = Gram(T)
    logdet, whitened = A.logdet_and_whiten(x)
    return logdet, jnp.sum(whitened**2, -1), A.logm()


@jax.jit
def compute_from_formed_matrix(
    T: jax.Array, x: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return log det, x'A^-1 x and logm from A = T'T."""
    A = jnp.matmul(T.mT, T, precision="highest")
    L = jnp.linalg.cholesky(A)
    logdet = 2 * jnp.log(jnp.diagonal(L, axis1=1, axis2=2)).sum(-1)
    whitened = jax.scipy.linalg.solve_triangular(L, x[..., None], lower=True)[..., 0]
    eigenvalues, V = jnp.linalg.eigh(A)
    logm = jnp.matmul(V * jnp.log(eigenvalues)[:, None], V.mT, precision="highest")
    return logdet, jnp.sum(whitened**2, -1), logm


def print_value_errors() -> None:
    """Print the errors of log det, x'A^-1 x and logm in float32."""
    print(
        f"float32, d = {VALUE_SIZE}, trace one: "
        f"largest relative error over {VALUE_DRAWS} matrices,"
    )
    print("held by T / formed (failures)\n")
    print(f"{'cond(T)':>8}  {'log det':^26}  {'x A^-1 x':^26}  {'logm':^26}")
    for condition in VALUE_CONDITIONS:
        T, x = draw_factors_and_vectors(condition)
        line = f"{condition:8.0e}"
        for ours, formed, exact in zip(
            compute_from_factor(T, x),
            compute_from_formed_matrix(T, x),
            compute_in_float64(T, x),
            strict=True,
        ):
            our_errors = relative_error(ours, exact)
            formed_errors = relative_error(formed, exact)
            n_failed = np.isnan(formed_errors).sum()
            worst = "  -  "
            if n_failed < VALUE_DRAWS:
                worst = f"{np.nanmax(formed_errors):.0e}"
            line += f"  {np.max(our_errors):.0e} / {worst} ({n_failed:3d} fail)"
        print(line)


# Gradients by the factor


def log_prob(family: Callable, A: Gram, x: jax.Array, *parameters: float) -> jax.Array:
    """Return the log density of x for location zero and eta one."""
    return family(jnp.zeros_like(x), A, 1.0, *parameters).log_prob(x)


DIVERGENCES = {
    "von_neumann": mmlp.von_neumann,
    "von_neumann one-sided": lambda A, B: mmlp.von_neumann(A, B, symmetric=False),
    "stein": mmlp.stein,
    "stein one-sided": lambda A, B: mmlp.stein(A, B, symmetric=False),
    "quadratic": mmlp.quadratic,
    "log_euclidean": mmlp.log_euclidean,
    "affine_invariant": mmlp.affine_invariant,
    "bures_wasserstein": mmlp.bures_wasserstein,
}
VALUES = {
    "logdet": lambda A, b, c: A.logdet(),
    "whiten": lambda A, b, c: jnp.sum(A.whiten(b) ** 2),
    "solve": lambda A, b, c: c @ A.solve(b),
    "logm": lambda A, b, c: b @ A.logm() @ c,
    "matmul": lambda A, b, c: c @ (A @ b),
    "gaussian log_prob": lambda A, b, c: log_prob(mmlp.TraceOneGaussian, A, b),
    "power exponential log_prob": lambda A, b, c: log_prob(
        mmlp.TraceOnePowerExponential, A, b, 1.0, multiprecision.BETA
    ),
}


def measure_divergence_errors(name: str, T: np.ndarray, S: np.ndarray) -> np.ndarray:
    """Return, for each pair, the larger error of the gradients by T and by S."""
    divergence = DIVERGENCES[name]

    def compute(T: jax.Array, S: jax.Array) -> jax.Array:
        return divergence(Gram(T), Gram(S))

    by_T, by_S = jax.jit(jax.vmap(jax.grad(compute, argnums=(0, 1))))(T, S)
    exact = [
        multiprecision.divergence_gradients(name, t, s)
        for t, s in zip(T, S, strict=True)
    ]
    exact_by_T = np.array([pair[0] for pair in exact])
    exact_by_S = np.array([pair[1] for pair in exact])
    return np.maximum(
        relative_error(by_T, exact_by_T), relative_error(by_S, exact_by_S)
    )


def measure_value_errors(
    name: str, T: np.ndarray, b: np.ndarray, c: np.ndarray
) -> np.ndarray:
    """Return the errors of the gradients by T of a number computed from T'T."""

    def compute(T: jax.Array, b: jax.Array, c: jax.Array) -> jax.Array:
        return VALUES[name](Gram(T), b, c)

    gradient = jax.jit(jax.vmap(jax.grad(compute)))(T, b, c)
    exact = [
        multiprecision.value_gradient(name, *row) for row in zip(T, b, c, strict=True)
    ]
    return relative_error(gradient, np.array(exact))


def draw_pairs_and_vectors(condition: float, dtype: Any) -> tuple[np.ndarray, ...]:
    """Return factors T and S (n, d, d), b ~ N(0, T'T) and c ~ N(0, I), both (n, d)."""
    rng = np.random.default_rng(0)
    T = make_factors(rng, condition, GRADIENT_DRAWS, GRADIENT_SIZE).astype(dtype)
    S = make_factors(rng, condition, GRADIENT_DRAWS, GRADIENT_SIZE).astype(dtype)
    noise, c = rng.normal(size=(2, GRADIENT_DRAWS, GRADIENT_SIZE)).astype(dtype)
    b = np.einsum("nij,ni->nj", T, noise)
    return T, dtype(SCALE_OF_SECOND_FACTOR) * S, b, c


def print_gradient_errors(dtype: Any) -> None:
    """Print the errors of gradients by the factor."""
    print(
        f"\n{np.dtype(dtype)} gradients by the factor, d = {GRADIENT_SIZE}, "
        "against 60 digits:"
    )
    print(f"median relative error over {GRADIENT_DRAWS} draws\n")
    print_row("cond(T)", GRADIENT_CONDITIONS)

    draws = [
        draw_pairs_and_vectors(condition, dtype) for condition in GRADIENT_CONDITIONS
    ]
    eps = np.finfo(dtype).eps
    print_row("eps cond(T)", [eps * condition for condition in GRADIENT_CONDITIONS])
    ratios = [
        np.linalg.cond(T.astype(float) @ np.linalg.inv(S.astype(float)))
        for T, S, _, _ in draws
    ]
    print_row("eps cond(T S^-1)", [eps * np.median(ratio) for ratio in ratios])

    for name in DIVERGENCES:
        errors = [measure_divergence_errors(name, T, S) for T, S, _, _ in draws]
        print_row(name, map(np.median, errors))
    for name in VALUES:
        errors = [measure_value_errors(name, T, b, c) for T, _, b, c in draws]
        print_row(name, map(np.median, errors))


def print_divergence_value_errors() -> None:
    """Print the errors of divergences in float32; needs 64-bit numbers enabled."""
    print(f"\nfloat32 values of divergences, d = {GRADIENT_SIZE}, against float64:")
    print(f"median relative error over {DIVERGENCE_DRAWS} draws\n")
    print_row("cond(T)", DIVERGENCE_CONDITIONS)
    for name, divergence in DIVERGENCES.items():

        @jax.jit
        def compute(
            T: jax.Array, S: jax.Array, divergence: Callable = divergence
        ) -> jax.Array:
            return divergence(Gram(T), Gram(S))

        errors = []
        for condition in DIVERGENCE_CONDITIONS:
            rng = np.random.default_rng(0)
            T = make_factors(rng, condition, DIVERGENCE_DRAWS, GRADIENT_SIZE)
            S = make_factors(rng, condition, DIVERGENCE_DRAWS, GRADIENT_SIZE)
            T = T.astype(np.float32)
            S = (SCALE_OF_SECOND_FACTOR * S).astype(np.float32)
            exact = np.asarray(compute(T.astype(float), S.astype(float)))
            errors.append(np.median(relative_error(compute(T, S), exact)))
        print_row(name, errors)


def main() -> None:
    print_value_errors()
    low_rank_accuracy.print_errors()
    print_gradient_errors(np.float32)
    with jax.enable_x64(True):
        print_gradient_errors(np.float64)
        print_divergence_value_errors()
        low_rank_accuracy.print_errors_near_equality()


if __name__ == "__main__":
    main()
