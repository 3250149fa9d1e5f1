"""Question: what does conditioning cost in float32, when A = T'T is held by T and when T'T is formed and factored?

Answer (2 CPU cores, jax 0.9.0.1): the tables this prints, quoted in docs/numerics.md. Held by T, errors grow like cond(T)
at most, and float32 is usable to cond(T) = 1e5 and beyond. Formed, they grow like its square, and Cholesky fails from
about 1e4 on. Gradients err by about eps cond(T) or less too, also where the ratio of two matrices has the square of that
condition. Run: python benchmarks/accuracy.py (2 minutes)
"""

import jax
import jax.numpy as jnp
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
    return factors(rng, condition, TRIALS, D).astype(np.float32), rng.normal(
        size=(TRIALS, D)
    ).astype(np.float32)


def exact(T, x):
    """In float64, from the same float32 factor."""
    _, s, Vt = np.linalg.svd(T.astype(float))
    white = np.linalg.solve(np.swapaxes(T, 1, 2).astype(float), x.astype(float)[..., None])
    return (
        2 * np.log(s).sum(1),
        np.sum(white**2, (1, 2)),
        np.swapaxes(Vt, 1, 2) @ (2 * np.log(s)[..., None] * Vt),
    )


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
    return 2 * jnp.log(jnp.diagonal(L, axis1=1, axis2=2)).sum(-1), jnp.sum(white**2, -1), logm


def relative_error(value, reference):
    axes = tuple(range(1, reference.ndim))
    difference = np.sqrt(np.sum((np.asarray(value, float) - reference) ** 2, axes))
    return difference / np.sqrt(np.sum(reference**2, axes))


# -- gradients --------------------------------------------------------------------------------------------------------

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
    "gaussian log_prob": lambda A, b, c: mmlp.TraceOneGaussian(jnp.zeros_like(b), A, 1.0).log_prob(
        b
    ),
    "power exponential log_prob": lambda A, b, c: mmlp.TraceOnePowerExponential(
        jnp.zeros_like(b), A, 1.0, 1.0, multiprecision.BETA
    ).log_prob(b),
}


def divergence_errors(name: str, T, S) -> list[float]:
    """The larger of the errors by T and by S, of each pair."""
    f = DIVERGENCES[name]
    gradients = jax.jit(jax.vmap(jax.grad(lambda T, S: f(Gram(T), Gram(S)), argnums=(0, 1))))(T, S)
    exact = zip(
        *(multiprecision.divergence_gradients(name, t, s) for t, s in zip(T, S, strict=True)),
        strict=True,
    )
    return np.max(
        [relative_error(g, np.array(e)) for g, e in zip(gradients, exact, strict=True)], axis=0
    )


def value_errors(name: str, T, b, c) -> list[float]:
    gradient = jax.jit(jax.vmap(jax.grad(lambda T, b, c: VALUES[name](Gram(T), b, c))))(T, b, c)
    exact = np.array(
        [multiprecision.value_gradient(name, *row) for row in zip(T, b, c, strict=True)]
    )
    return relative_error(gradient, exact)


def gradients(dtype):
    print(
        f"\n{np.dtype(dtype)} gradients by the factor, d = {SIZE}: median relative error over {SAMPLES} draws, 60 digits\n"
    )
    print(f"{'cond(T)':>26}" + "".join(f"{c:9.0e}" for c in CONDITIONS))
    drawn = []
    for condition in CONDITIONS:
        rng = np.random.default_rng(0)
        T, S = (factors(rng, condition, SAMPLES, SIZE).astype(dtype) for _ in range(2))
        e, c = rng.normal(size=(2, SAMPLES, SIZE)).astype(dtype)
        drawn.append(
            (T, dtype(1.5) * S, np.einsum("nij,ni->nj", T, e), c)
        )  # b ~ N(0, A); S'S is not A at condition one
    print(f"{'eps cond(T)':>26}" + "".join(f"{np.finfo(dtype).eps * c:9.0e}" for c in CONDITIONS))
    ratios = [
        np.median(np.linalg.cond(T.astype(float) @ np.linalg.inv(S.astype(float))))
        for T, S, _, _ in drawn
    ]
    print(f"{'eps cond(T S^-1)':>26}" + "".join(f"{np.finfo(dtype).eps * q:9.0e}" for q in ratios))
    for name in DIVERGENCES:
        print(
            f"{name:>26}"
            + "".join(f"{np.median(divergence_errors(name, T, S)):9.0e}" for T, S, _, _ in drawn)
        )
    for name in VALUES:
        print(
            f"{name:>26}"
            + "".join(f"{np.median(value_errors(name, T, b, c)):9.0e}" for T, _, b, c in drawn)
        )


def divergence_values():
    """Call it with 64-bit numbers enabled."""
    print(
        f"\nfloat32 values of divergences, d = {SIZE}: median relative error over {4 * SAMPLES} draws, against float64\n"
    )
    print(f"{'cond(T)':>26}" + "".join(f"{c:9.0e}" for c in CONDITIONS[1:6]))
    for name, f in DIVERGENCES.items():
        value, row = jax.jit(lambda T, S, f=f: f(Gram(T), Gram(S))), f"{name:>26}"
        for condition in CONDITIONS[1:6]:
            rng = np.random.default_rng(0)
            T, S = (
                (k * factors(rng, condition, 4 * SAMPLES, SIZE)).astype(np.float32)
                for k in (1, 1.5)
            )
            reference = np.asarray(value(T.astype(float), S.astype(float)))
            row += f"{np.median(relative_error(value(T, S), reference)):9.0e}"
        print(row)


def main():
    print(
        f"float32, d = {D}, trace one: largest relative error over {TRIALS} matrices, held by T / formed (failures)\n"
    )
    print(f"{'cond(T)':>8}  {'log det':^26}  {'x A^-1 x':^26}  {'logm':^26}")
    for condition in (1e1, 1e2, 1e3, 1e4, 1e5, 1e6):
        T, x = random_factors(condition)
        row = f"{condition:8.0e}"
        for ours, dense, reference in zip(held(T, x), formed(T, x), exact(T, x), strict=True):
            a, b = relative_error(ours, reference), relative_error(dense, reference)
            failed = np.isnan(b).sum()
            worst = f"{np.nanmax(b):.0e}" if failed < TRIALS else "  -  "
            row += f"  {np.max(a):.0e} / {worst} ({failed:3d} fail)"
        print(row)


if __name__ == "__main__":
    main()
    gradients(np.float32)
    with jax.enable_x64(True):
        gradients(np.float64)
        divergence_values()
