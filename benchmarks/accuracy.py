"""Question: what does conditioning cost in float32, when A = T'T is held by T and when T'T is formed and factored?

Answer (2 CPU cores, jax 0.9.2): see the table this prints, quoted in docs/numerics.md. Held by T, errors grow like cond(T)
at most, and float32 is usable to cond(T) = 1e5 and beyond. Formed, they grow like its square, and Cholesky fails from
about 1e4 on. Run: python benchmarks/accuracy.py
"""

import jax
import jax.numpy as jnp
import numpy as np

from mmlp import Gram

D, TRIALS = 24, 100


def random_factors(condition: float):
    rng = np.random.default_rng(0)

    def orthogonal():
        return np.linalg.qr(rng.normal(size=(TRIALS, D, D)))[0]

    T = orthogonal() * np.geomspace(1, 1 / condition, D) @ orthogonal()
    T /= np.linalg.norm(T, axis=(1, 2), keepdims=True)  # trace one
    return T.astype(np.float32), rng.normal(size=(TRIALS, D)).astype(np.float32)


def exact(T, x):
    """In float64, from the same float32 factor."""
    _, s, Vt = np.linalg.svd(T.astype(float))
    white = np.linalg.solve(np.swapaxes(T, 1, 2).astype(float), x.astype(float)[..., None])
    return 2 * np.log(s).sum(1), np.sum(white**2, (1, 2)), np.swapaxes(Vt, 1, 2) @ (2 * np.log(s)[..., None] * Vt)


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


def main():
    print(f"float32, d = {D}, trace one: largest relative error over {TRIALS} matrices, held by T / formed (failures)\n")
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
