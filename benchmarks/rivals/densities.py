"""Log densities of n Gaussians of size d with gradients, one call at a time.

Gradients are with respect to mean and factor. All rivals get the same numbers: means,
and factors T (n, d, d) or upper triangles of covariances T'T / tr(T'T) with
cond(T) = 10. (For normal random factors of size 100 the Cholesky decomposition of T'T
fails in float32.) This library keeps the factor; the others form the covariance, or get
the triangle as `scale_tril`.

Each function returns (run, n_steps, facts), see `rivals.turns`.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from accuracy import make_factors

import mmlp

CALLS_PER_RUN = {10: 50, 100: 4}  # by the size d
CONDITION = 10.0

RunAndFacts = tuple[Callable[[], None], int, dict[str, Any]]


def make_inputs(
    n: int, d: int, triangle: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return points (n, d), means (n, d) and factors (n, d, d) in float32."""
    rng = np.random.default_rng(0)
    T = make_factors(rng, CONDITION, n, d)
    if triangle:
        T = np.linalg.qr(T)[1]
        T *= np.sign(np.diagonal(T, axis1=1, axis2=2))[..., None]
    x, mean = rng.normal(size=(2, n, d))
    return x.astype(np.float32), mean.astype(np.float32), T.astype(np.float32)


def repeat_call(
    call: Callable[[], Any], d: int, wait: Callable[[Any], Any]
) -> RunAndFacts:
    """Return a run of several calls that waits for the last result."""
    n_calls = CALLS_PER_RUN[d]

    def run() -> None:
        result = None
        for _ in range(n_calls):
            result = call()
        wait(result)

    return run, n_calls, {}


def differentiate_in_jax(
    log_prob: Callable, n: int, d: int, triangle: bool
) -> RunAndFacts:
    """Compile the gradient of `log_prob(x, mean, T)`, which gets T of norm one."""
    x, mean, T = map(jnp.asarray, make_inputs(n, d, triangle))

    def total(mean: jax.Array, T: jax.Array) -> jax.Array:
        T = T / jnp.linalg.norm(T, axis=(-2, -1), keepdims=True)
        return jnp.sum(jax.vmap(log_prob)(x, mean, T))

    value_and_gradient = jax.jit(jax.value_and_grad(total, argnums=(0, 1)))
    return repeat_call(lambda: value_and_gradient(mean, T), d, jax.block_until_ready)


def run_mmlp(n: int, d: int, triangle: bool) -> RunAndFacts:
    """Use `TraceOneGaussian` of this library."""

    def log_prob(x: jax.Array, mean: jax.Array, T: jax.Array) -> jax.Array:
        omega = mmlp.Gram(T, upper=triangle)
        return mmlp.TraceOneGaussian(mean, omega, 1.0).log_prob(x)

    return differentiate_in_jax(log_prob, n, d, triangle)


def run_numpyro(n: int, d: int, triangle: bool) -> RunAndFacts:
    """Use `MultivariateNormal` of NumPyro."""
    from numpyro.distributions import MultivariateNormal

    def log_prob(x: jax.Array, mean: jax.Array, T: jax.Array) -> Any:
        if triangle:
            return MultivariateNormal(mean, scale_tril=T.T).log_prob(x)
        return MultivariateNormal(mean, covariance_matrix=T.T @ T).log_prob(x)

    return differentiate_in_jax(log_prob, n, d, triangle)


def run_pytorch(n: int, d: int, triangle: bool) -> RunAndFacts:
    """Use `MultivariateNormal` of PyTorch."""
    import torch  # pyright: ignore[reportMissingImports]
    from torch.distributions import (  # pyright: ignore[reportMissingImports]
        MultivariateNormal,
    )

    x, mean, T = map(torch.from_numpy, make_inputs(n, d, triangle))

    def call() -> Any:
        loc = mean.clone().requires_grad_()
        factor = T.clone().requires_grad_()
        S = factor / torch.linalg.matrix_norm(factor, keepdim=True)
        if triangle:
            normal = MultivariateNormal(loc, scale_tril=S.mT, validate_args=False)
        else:
            normal = MultivariateNormal(
                loc, covariance_matrix=S.mT @ S, validate_args=False
            )
        return torch.autograd.grad(normal.log_prob(x).sum(), (loc, factor))

    return repeat_call(call, d, lambda result: None)
