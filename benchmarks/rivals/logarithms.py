"""The symmetric von Neumann divergence of n pairs of size d, with a gradient.

The gradient is with respect to the first factor. All rivals get the same factors T and
S in float32. This library takes singular values of the factors; the others form A = T'T
and B = S'S and use the matrix logarithm of their library in

    tr((A - B)(log A - log B)) / 2

Errors are relative errors of the gradient, measured against 60 digits.

Each `run_` function returns (run, n_steps, facts), see `rivals.turns`.
"""

import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import multiprecision
import numpy as np
from accuracy import make_factors, relative_error

import mmlp

CALLS_PER_RUN = {10: 20, 64: 2, 128: 1}  # by the size d
CONDITION = 10.0

# The errors are measured on small matrices of these conditions.
ERROR_CONDITIONS = {"cond 1e2": 1e2, "cond 1e4": 1e4, "equal eigenvalues": 1e0}
ERROR_SIZE = 5
ERROR_DRAWS = 10

RunAndFacts = tuple[Callable[[], None], int, dict[str, Any]]


def repeat_gradient(
    gradient: Callable, wait: Callable, n: int, d: int, errors: bool
) -> RunAndFacts:
    """Return a run of several gradients, and their errors if asked for.

    `gradient(T, S)` gets arrays of NumPy and returns an array of its own library.
    """
    T = make_factors(np.random.default_rng(0), CONDITION, n, d).astype(np.float32)
    S = make_factors(np.random.default_rng(1), CONDITION, n, d).astype(np.float32)
    n_calls = CALLS_PER_RUN[d]

    def run() -> None:
        result = None
        for _ in range(n_calls):
            result = gradient(T, S)
        wait(result)

    facts = {"errors": measure_errors(gradient)} if errors else {}
    return run, n_calls, facts


def measure_errors(gradient: Callable) -> dict[str, float | None]:
    """Return median errors over draws; None if more than half are not finite."""
    medians = {}
    for name, condition in ERROR_CONDITIONS.items():
        rng = np.random.default_rng(0)
        T = make_factors(rng, condition, ERROR_DRAWS, ERROR_SIZE).astype(np.float32)
        S = 1.5 * make_factors(rng, condition, ERROR_DRAWS, ERROR_SIZE)
        S = S.astype(np.float32)
        exact = [
            multiprecision.divergence_gradients("von_neumann", t, s)[0]
            for t, s in zip(T, S, strict=True)
        ]
        error = np.median(relative_error(np.asarray(gradient(T, S)), np.array(exact)))
        medians[name] = float(error) if np.isfinite(error) else None
    return medians


def run_mmlp(n: int, d: int, errors: bool) -> RunAndFacts:
    """Use `von_neumann` of this library."""

    @jax.jit
    @jax.value_and_grad
    def value_and_gradient(T: jax.Array, S: jax.Array) -> jax.Array:
        return jnp.sum(mmlp.von_neumann(mmlp.Gram(T), mmlp.Gram(S)))

    def gradient(T: np.ndarray, S: np.ndarray) -> jax.Array:
        return value_and_gradient(T, S)[1]

    return repeat_gradient(gradient, jax.block_until_ready, n, d, errors)


def run_with_logarithm(log: Callable, n: int, d: int, errors: bool) -> RunAndFacts:
    """Use a matrix logarithm of a PyTorch library."""
    import torch  # pyright: ignore[reportMissingImports]

    warnings.simplefilter("ignore")

    def gradient(T: np.ndarray, S: np.ndarray) -> Any:
        T_tensor = torch.from_numpy(T).requires_grad_()
        S_tensor = torch.from_numpy(S)
        A = T_tensor.mT @ T_tensor
        B = S_tensor.mT @ S_tensor
        total = ((A - B) * (log(A) - log(B))).sum() / 2
        return torch.autograd.grad(total, T_tensor)[0]

    return repeat_gradient(gradient, lambda result: None, n, d, errors)


def run_spd_learn(n: int, d: int, errors: bool) -> RunAndFacts:
    """Use the logarithm of spd-learn."""
    from spd_learn.functional import matrix_log  # pyright: ignore[reportMissingImports]

    return run_with_logarithm(matrix_log.apply, n, d, errors)


def run_geoopt(n: int, d: int, errors: bool) -> RunAndFacts:
    """Use the logarithm of geoopt."""
    from geoopt.linalg import sym_logm  # pyright: ignore[reportMissingImports]

    return run_with_logarithm(sym_logm, n, d, errors)
