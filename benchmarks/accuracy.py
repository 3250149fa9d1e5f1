"""Question: what does conditioning cost in float32, if A = T'T is held by T, and if it is formed?

Answer (2 CPU cores, jax 0.9.0.1): the tables this prints, quoted in docs/numerics.md. Held by T,
errors grow like cond(T) at most, and float32 is usable to cond(T) = 1e5 and beyond. Formed and
factored, they grow like its square, and Cholesky fails from about 1e4 on. Gradients err by about
eps cond(T) or less too, also where the ratio of two matrices has the square of that condition. Low
rank plus diagonal, held as such, errs no more than its dense factor does
(`python benchmarks/low_rank_accuracy.py` prints that part alone).

    python benchmarks/accuracy.py                  2 minutes
"""

import jax
import jax.numpy as jnp
import low_rank_accuracy
import multiprecision
import numpy as np

import mmlp
from mmlp import Gram

D, TRIALS = 24, 100
CONDITIONS = (1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7)  # of the gradients' factors
SIZE, SAMPLES = 5, 10


def factors(rng, condition: float, count: int, d: int):
    """Random factors of trace one."""

    def orthogonal():
        return np.linalg.qr(rng.normal(size=(count, d, d)))[0]

    T = orthogonal() * np.geomspace(1, 1 / condition, d) @ orthogonal()
    return T / np.linalg.norm(T, axis=(1, 2), keepdims=True)


def random_factors(condition: float):
    rng = np.random.default_rng(0)
    T, x = factors(rng, condition, TRIALS, D), rng.normal(size=(TRIALS, D))
    return T.astype(np.float32), x.astype(np.float32)


def exact(T, x):
    """In float64, from the same float32 factor."""
    _, s, Vt = np.linalg.svd(T.astype(float))
    white = np.linalg.solve(
        np.swapaxes(T, 1, 2).astype(float), x.astype(float)[..., None]
    )
    logm = np.swapaxes(Vt, 1, 2) @ (2 * np.log(s)[..., None] * Vt)
    return 2 * np.log(s).sum(1), np.sum(white**2, (1, 2)), logm


@jax.jit
def held(T, x):
    A = Gram(T)
    logdet, white = A.logdet_and_whiten(x)
    return logdet, jnp.sum(white**2, -1), A.logm()


@jax.jit
def formed(T, x):
    A = jnp.matmul(T.mT, T, precision="highest")
    L = jnp.linalg.cholesky(A)
    white = jax.scipy.linalg.solve_triangular(L, x[..., None], lower=True)[..., 0]
    eigenvalues, V = jnp.linalg.eigh(A)
    logm = jnp.matmul(V * jnp.log(eigenvalues)[:, None], V.mT, precision="highest")
    return (
        2 * jnp.log(jnp.diagonal(L, axis1=1, axis2=2)).sum(-1),
        jnp.sum(white**2, -1),
        logm,
    )


def relative_error(value, reference):
    axes = tuple(range(1, reference.ndim))
    difference = np.sqrt(np.sum((np.asarray(value, float) - reference) ** 2, axes))
    return difference / np.sqrt(np.sum(reference**2, axes))


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


def log_prob(family, A, x, *tail):
    return family(jnp.zeros_like(x), A, 1.0, *tail).log_prob(x)


def divergence_errors(name: str, T, S) -> list[float]:
    """The larger of the errors by T and by S, of each pair."""
    f = DIVERGENCES[name]
    gradients = jax.jit(
        jax.vmap(jax.grad(lambda T, S: f(Gram(T), Gram(S)), argnums=(0, 1)))
    )(T, S)
    pairs = [
        multiprecision.divergence_gradients(name, t, s)
        for t, s in zip(T, S, strict=True)
    ]
    exact = [np.array(side) for side in zip(*pairs, strict=True)]  # by T, by S
    return np.max(
        [relative_error(g, e) for g, e in zip(gradients, exact, strict=True)], axis=0
    )


def value_errors(name: str, T, b, c) -> list[float]:
    gradient = jax.jit(jax.vmap(jax.grad(lambda T, b, c: VALUES[name](Gram(T), b, c))))(
        T, b, c
    )
    exact = [
        multiprecision.value_gradient(name, *row) for row in zip(T, b, c, strict=True)
    ]
    return relative_error(gradient, np.array(exact))


def gradients(dtype):
    print(
        f"\n{np.dtype(dtype)} gradients by the factor, d = {SIZE}, against 60 digits:"
    )
    print(f"median relative error over {SAMPLES} draws\n")
    print_row("cond(T)", CONDITIONS)
    drawn = []
    for condition in CONDITIONS:
        rng = np.random.default_rng(0)
        T, S = (factors(rng, condition, SAMPLES, SIZE).astype(dtype) for _ in range(2))
        e, c = rng.normal(size=(2, SAMPLES, SIZE)).astype(dtype)
        b = np.einsum("nij,ni->nj", T, e)  # b ~ N(0, A); S'S is not A at condition one
        drawn.append((T, dtype(1.5) * S, b, c))
    eps = np.finfo(dtype).eps
    print_row("eps cond(T)", [eps * c for c in CONDITIONS])
    ratios = [
        np.linalg.cond(T.astype(float) @ np.linalg.inv(S.astype(float)))
        for T, S, *_ in drawn
    ]
    print_row("eps cond(T S^-1)", [eps * np.median(ratio) for ratio in ratios])
    for name in DIVERGENCES:
        print_row(
            name, [np.median(divergence_errors(name, T, S)) for T, S, _, _ in drawn]
        )
    for name in VALUES:
        print_row(
            name, [np.median(value_errors(name, T, b, c)) for T, _, b, c in drawn]
        )


def print_row(name: str, numbers) -> None:
    print(f"{name:>26}" + "".join(f"{number:9.0e}" for number in numbers))


def divergence_values():
    """Call it with 64-bit numbers enabled."""
    print(f"\nfloat32 values of divergences, d = {SIZE}, against float64:")
    print(f"median relative error over {4 * SAMPLES} draws\n")
    print_row("cond(T)", CONDITIONS[1:6])
    for name, f in DIVERGENCES.items():
        value, errors = jax.jit(lambda T, S, f=f: f(Gram(T), Gram(S))), []
        for condition in CONDITIONS[1:6]:
            rng = np.random.default_rng(0)
            drawn = (k * factors(rng, condition, 4 * SAMPLES, SIZE) for k in (1, 1.5))
            T, S = (factor.astype(np.float32) for factor in drawn)
            reference = np.asarray(value(T.astype(float), S.astype(float)))
            errors.append(np.median(relative_error(value(T, S), reference)))
        print_row(name, errors)


def main():
    print(
        f"float32, d = {D}, trace one: largest relative error over {TRIALS} matrices,"
    )
    print("held by T / formed (failures)\n")
    print(f"{'cond(T)':>8}  {'log det':^26}  {'x A^-1 x':^26}  {'logm':^26}")
    for condition in (1e1, 1e2, 1e3, 1e4, 1e5, 1e6):
        T, x = random_factors(condition)
        row = f"{condition:8.0e}"
        for ours, dense, reference in zip(
            held(T, x), formed(T, x), exact(T, x), strict=True
        ):
            a, b = relative_error(ours, reference), relative_error(dense, reference)
            failed = np.isnan(b).sum()
            worst = f"{np.nanmax(b):.0e}" if failed < TRIALS else "  -  "
            row += f"  {np.max(a):.0e} / {worst} ({failed:3d} fail)"
        print(row)


if __name__ == "__main__":
    main()
    low_rank_accuracy.main()
    gradients(np.float32)
    with jax.enable_x64(True):
        gradients(np.float64)
        divergence_values()
        low_rank_accuracy.near()
