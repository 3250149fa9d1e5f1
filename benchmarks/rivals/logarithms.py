"""The symmetric von Neumann divergence of n pairs of size d with its gradient by one factor.

All are given the same factors T and S in float32. This library takes singular values of the
factors; the others form A = T'T and B = S'S and take a library's logarithm of each,
tr((A - B)(log A - log B)) / 2. Errors are those of the gradient by T, relative, against 60 digits.
"""

import warnings

import jax
import jax.numpy as jnp
import multiprecision
import numpy as np
from accuracy import factors, relative_error

import mmlp

CALLS = {10: 20, 64: 2, 128: 1}  # by d
CONDITIONS = {"cond 1e2": 1e2, "cond 1e4": 1e4, "equal eigenvalues": 1e0}
SIZE, DRAWS = 5, 10


def made(gradient, wait, n: int, d: int, errors: bool):
    """`gradient(T, S)` takes and gives NumPy's arrays, or those of its library, by `wait`."""
    T, S = (
        factors(np.random.default_rng(i), 10.0, n, d).astype(np.float32) for i in (0, 1)
    )

    def run():
        result = None
        for _ in range(CALLS[d]):
            result = gradient(T, S)
        wait(result)

    return run, CALLS[d], {"errors": accuracy(gradient)} if errors else {}


def accuracy(gradient) -> dict[str, float | None]:
    """Median errors over draws; None where more than half are not finite."""
    medians = {}
    for name, condition in CONDITIONS.items():
        rng = np.random.default_rng(0)
        T, S = (k * factors(rng, condition, DRAWS, SIZE) for k in (1, 1.5))
        T, S = T.astype(np.float32), S.astype(np.float32)
        exact = [
            multiprecision.divergence_gradients("von_neumann", t, s)[0]
            for t, s in zip(T, S, strict=True)
        ]
        error = np.median(relative_error(np.asarray(gradient(T, S)), np.array(exact)))
        medians[name] = float(error) if np.isfinite(error) else None
    return medians


def library(n: int, d: int, errors: bool):
    @jax.jit
    @jax.value_and_grad
    def value_and_gradient(T, S):
        return jnp.sum(mmlp.von_neumann(mmlp.Gram(T), mmlp.Gram(S)))

    return made(
        lambda T, S: value_and_gradient(T, S)[1], jax.block_until_ready, n, d, errors
    )


def by_logarithm(log, n: int, d: int, errors: bool):
    import torch  # pyright: ignore[reportMissingImports]

    warnings.simplefilter("ignore")

    def gradient(T, S):
        T, S = torch.from_numpy(T).requires_grad_(), torch.from_numpy(S)
        A, B = T.mT @ T, S.mT @ S
        total = ((A - B) * (log(A) - log(B))).sum() / 2
        return torch.autograd.grad(total, T)[0]

    return made(gradient, lambda result: None, n, d, errors)


def spd_learn(n: int, d: int, errors: bool):
    from spd_learn.functional import matrix_log  # pyright: ignore[reportMissingImports]

    return by_logarithm(matrix_log.apply, n, d, errors)


def geoopt(n: int, d: int, errors: bool):
    from geoopt.linalg import sym_logm  # pyright: ignore[reportMissingImports]

    return by_logarithm(sym_logm, n, d, errors)
