"""What does it cost in digits to represent A = diag(s^2) + U'U by s and U?

    python benchmarks/low_rank_accuracy.py

Takes half a minute and prints, in float32,

- errors of log det A and of x'A^-1 x, x ~ N(0, A), with A as `LowRankGram`, as the
  dense `Gram` of diag(s) on top of U, and by the textbook formula (Woodbury)

      x'A^-1 x = |y|^2 - |C^-1 P y|^2,    y = x / s,    P = U / s,    CC' = I + PP'

- errors of the gradients of the log density of x with respect to s and U;
- absolute errors near A = B of quantities computed from determinants and traces, also
  in float64.

Answer: the tables, a part of benchmarks/accuracy.py. In float32 nothing is lost against
a dense factor, where the textbook formula has no correct digit left.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import mmlp
from mmlp import Gram, LowRankGram

SIZE = 60
RANK = 4
DRAWS = 50
CONDITIONS = (1e0, 1e2, 1e4, 1e6, 1e8, 1e10)  # of A
# What makes A ill-conditioned, see `draw_matrices`.
SHAPES = ("loadings", "scales", "both", "alike", "tiny")

NEAR_SIZE = 1000
NEAR_RANK = 8
EPSILONS = (1e-1, 1e-3, 1e-5, 1e-7)


def draw_matrices(
    shape: str, condition: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw scale (n, d), U (n, m, d) and x (n, d) in float32.

    The condition of A comes from long loadings ("loadings"), from scales of all sizes
    ("scales"), from both, from loadings that differ by a hundredth ("alike"), or from
    three tiny scales ("tiny").
    """
    rng = np.random.default_rng(0)
    U = rng.normal(size=(DRAWS, RANK, SIZE))
    U /= np.linalg.norm(U, axis=-1, keepdims=True)
    scale = np.exp(rng.uniform(-0.1, 0.1, (DRAWS, SIZE)))
    root = condition**0.5

    if shape == "loadings":
        U *= root
    elif shape in ("scales", "both"):
        ratio = root if shape == "scales" else root**0.5
        spread = np.broadcast_to(np.geomspace(1, 1 / ratio, SIZE), (DRAWS, SIZE))
        scale = rng.permuted(spread, axis=1)
        if shape == "both":
            U *= ratio
    elif shape == "alike":
        scale = scale / root
        U = U[:, :1] + 0.01 * U
    else:
        scale[:, :3] /= root

    noise = rng.normal(size=(DRAWS, SIZE))
    factors = rng.normal(size=(DRAWS, RANK))
    x = scale * noise + np.einsum("nmd,nm->nd", U, factors)
    return scale.astype(np.float32), U.astype(np.float32), x.astype(np.float32)


def make_dense(scale: Any, U: Any) -> Gram:
    """Return the `Gram` of diag(s) on top of U."""
    diagonal = jnp.eye(scale.shape[-1]) * scale[:, None]
    return Gram(jnp.concatenate([diagonal, U], axis=1))


def compute_in_float64(
    scale: np.ndarray, U: np.ndarray, x: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return log det and x'A^-1 x by QR in float64, from the same numbers.

    At condition 1e10 this is correct to 1e-11.
    """
    T = np.concatenate([np.eye(SIZE) * scale[:, None], U], axis=1, dtype=float)
    R = np.linalg.qr(T, mode="r")
    y = np.linalg.solve(np.swapaxes(R, 1, 2), x.astype(float)[..., None])
    logdet = 2 * np.log(np.abs(np.diagonal(R, axis1=1, axis2=2))).sum(1)
    return logdet, np.sum(y**2, (1, 2))


def compute_from_value(A: Gram | LowRankGram, x: Any) -> tuple[jax.Array, jax.Array]:
    """Return log det and x'A^-1 x by the methods of A."""
    logdet, y = A.logdet_and_whiten(x)
    return logdet, jnp.sum(y**2, -1)


def compute_by_textbook(scale: Any, U: Any, x: Any) -> tuple[jax.Array, jax.Array]:
    """Return log det and x'A^-1 x by the formula of Woodbury."""
    P = U / scale[:, None]
    y = x / scale
    C = jnp.linalg.cholesky(jnp.eye(RANK, dtype=P.dtype) + P @ P.mT)
    w = jax.scipy.linalg.solve_triangular(C, P @ y[..., None], lower=True)[..., 0]
    logdet = jnp.log(scale).sum(-1) + jnp.log(jnp.diagonal(C, axis1=1, axis2=2)).sum(-1)
    return 2 * logdet, jnp.sum(y**2, -1) - jnp.sum(w**2, -1)


METHODS = {
    "low rank": jax.jit(lambda s, U, x: compute_from_value(LowRankGram(s, U), x)),
    "dense": jax.jit(lambda s, U, x: compute_from_value(make_dense(s, U), x)),
    "textbook": jax.jit(compute_by_textbook),
}


def measure_errors(shape: str, condition: float) -> dict[str, list[float]]:
    """Return the largest relative errors of log det and x'A^-1 x of each method.

    NaN counts as infinite.
    """
    arrays = draw_matrices(shape, condition)
    references = compute_in_float64(*arrays)
    errors = {}
    for name, method in METHODS.items():
        errors[name] = []
        for value, exact in zip(method(*arrays), references, strict=True):
            error = np.abs(np.asarray(value, float) - exact) / np.abs(exact)
            largest = np.max(np.where(np.isnan(error), np.inf, error))
            errors[name].append(float(largest))
    return errors


def make_density_gradient(make: Callable) -> Callable:
    """Compile the gradient of log det + x'A^-1 x by s and U, for A = make(s, U)."""

    def log_density(scale: jax.Array, U: jax.Array, x: jax.Array) -> jax.Array:
        logdet, square = compute_from_value(make(scale[None], U[None]), x[None])
        return jnp.sum(logdet + square)

    return jax.jit(jax.vmap(jax.grad(log_density, (0, 1))))


GRADIENTS = {
    "low rank": make_density_gradient(LowRankGram),
    "dense": make_density_gradient(make_dense),
}


def measure_gradient_errors(shape: str, condition: float) -> dict[str, list[float]]:
    """Return the largest relative errors of the gradients by s and by U."""
    arrays = draw_matrices(shape, condition)
    with jax.enable_x64(True):
        float64_arrays = [array.astype(float) for array in arrays]
        exact = [np.asarray(g) for g in GRADIENTS["dense"](*float64_arrays)]

    errors = {}
    for name, compute_gradient in GRADIENTS.items():
        errors[name] = []
        for gradient, reference in zip(compute_gradient(*arrays), exact, strict=True):
            difference = np.asarray(gradient, float) - reference
            lengths = np.linalg.norm(difference.reshape(DRAWS, -1), axis=1)
            scales = np.linalg.norm(reference.reshape(DRAWS, -1), axis=1)
            errors[name].append(float(np.max(lengths / scales)))
    return errors


def make_trace_of_solution(make: Callable) -> Callable:
    """Compile tr(A^-1 B) for A = make(s, U) and B = make(r, V)."""
    return jax.jit(lambda s, U, r, V: make(s, U).trace_solve(make(r, V)))


# Compiled once for all conditions.
TRACES = {
    "low rank": make_trace_of_solution(LowRankGram),
    "dense": make_trace_of_solution(make_dense),
}


def measure_trace_errors(shape: str, condition: float) -> tuple[float, float]:
    """Return the largest relative errors of tr(A^-1 B): low rank, dense.

    B has condition one.
    """
    scale_A, U_A, _ = draw_matrices(shape, condition)
    scale_B, U_B, _ = draw_matrices("loadings", 1e0)
    arrays = (scale_A, U_A, scale_B, U_B)

    with jax.enable_x64(True):
        float64_arrays = [array.astype(float) for array in arrays]
        exact = np.asarray(TRACES["dense"](*float64_arrays))

    def measure(trace: Callable) -> float:
        value = np.asarray(trace(*arrays), float)
        return float(np.max(np.abs(value - exact) / exact))

    return measure(TRACES["low rank"]), measure(TRACES["dense"])


def measure_errors_near_equality(dtype: Any) -> dict[str, np.ndarray]:
    """Return the absolute errors at B = (1 + eps) A, for each of `EPSILONS`.

    Scales are between 1/2 and 2, and loadings have length one, so that tr(A^2) is of
    the order of d.
    """
    d = NEAR_SIZE
    rng = np.random.default_rng(0)
    scale = rng.uniform(0.5, 2, d)
    U = rng.normal(size=(NEAR_RANK, d)) / d**0.5
    A = LowRankGram(scale.astype(dtype), U.astype(dtype))
    eps = np.asarray(EPSILONS)
    one_sided = d * (np.log1p(eps) - eps / (1 + eps))
    exact = {
        "stein": d * (np.log1p(eps / 2) - np.log1p(eps) / 2),
        "stein one-sided": one_sided,
        "kl": one_sided / 2,
        "quadratic": eps**2 * float(A.inner(A)),
    }

    def compute(A: LowRankGram, eps: jax.Array) -> jax.Array:
        B = A.scaled(1 + eps)
        zero = jnp.zeros(d, dtype)
        p = mmlp.TraceOneGaussian.from_moments(zero, B)
        q = mmlp.TraceOneGaussian.from_moments(zero, A)
        return jnp.stack(
            [
                mmlp.stein(A, B),
                mmlp.stein(A, B, symmetric=False),
                mmlp.kl_divergence(q, p),
                mmlp.quadratic(A, B),
            ]
        )

    values = jax.jit(jax.vmap(compute, (None, 0)))(A, eps.astype(dtype))
    columns = np.asarray(values, float).T
    return {
        name: np.abs(column - exact[name])
        for name, column in zip(exact, columns, strict=True)
    }


def print_errors() -> None:
    """Print the errors of values, gradients and traces in float32."""
    print(
        f"\nfloat32, A = diag(s^2) + U'U with d = {SIZE}, m = {RANK}: "
        "largest relative error over"
    )
    print(f"{DRAWS} draws of log det A, x'A^-1 x: low rank / dense factor / textbook;")
    print("of the gradient by s, U, and of tr(A^-1 B): low rank / dense factor\n")
    for shape in SHAPES:
        print(shape)
        for condition in CONDITIONS:
            columns = [f"  cond(A) = {condition:.0e} "]
            for errors in (
                measure_errors(shape, condition),
                measure_gradient_errors(shape, condition),
            ):
                pairs = [
                    " ".join(f"{error:5.0e}" for error in pair)
                    for pair in errors.values()
                ]
                columns.append(" / ".join(pairs))
            trace_errors = measure_trace_errors(shape, condition)
            columns.append(" / ".join(f"{error:5.0e}" for error in trace_errors))
            print("    ".join(columns))


def print_errors_near_equality() -> None:
    """Print the errors near A = B; needs 64-bit numbers enabled."""
    print(
        f"\nabsolute errors at B = (1 + eps) A, d = {NEAR_SIZE}, m = {NEAR_RANK}, "
        "by determinants and traces\n"
    )
    print(f"{'eps':>34}" + "".join(f"{eps:9.0e}" for eps in EPSILONS))
    for dtype in (np.float32, np.float64):
        for name, errors in measure_errors_near_equality(dtype).items():
            label = f"{np.dtype(dtype)} {name}"
            print(f"{label:>34}" + "".join(f"{error:9.0e}" for error in errors))


def main() -> None:
    print_errors()
    with jax.enable_x64(True):
        print_errors_near_equality()


if __name__ == "__main__":
    main()
