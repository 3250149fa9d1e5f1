"""Log densities of n Gaussians of size d with gradients by mean and factor, one call at a time.

All are given the same numbers: means, and factors T (n, d, d), or upper triangles U, of covariances
T'T / tr(T'T), cond(T) = 10: normal random factors of size 100 have a T'T whose Cholesky fails in
float32. This library holds the factor; the others form the covariance, or are given the triangle as
`scale_tril`.
"""

import jax
import jax.numpy as jnp
import numpy as np
from accuracy import factors

import mmlp

CALLS = {10: 50, 100: 4}  # by d


def inputs(n: int, d: int, triangle: bool):
    """(x, means, factors) in float32."""
    rng = np.random.default_rng(0)
    T = factors(rng, 10.0, n, d)
    if triangle:
        T = np.linalg.qr(T)[1]
        T *= np.sign(np.diagonal(T, axis1=1, axis2=2))[..., None]
    x, mean = rng.normal(size=(2, n, d))
    return x.astype(np.float32), mean.astype(np.float32), T.astype(np.float32)


def repeated(call, d: int, wait):
    def run():
        result = None
        for _ in range(CALLS[d]):
            result = call()
        wait(result)

    return run, CALLS[d], {}


def in_jax(log_prob, n: int, d: int, triangle: bool):
    """`log_prob(x, mean, T)` of one, with T of norm one."""
    x, mean, T = map(jnp.asarray, inputs(n, d, triangle))

    def total(mean, T):
        T = T / jnp.linalg.norm(T, axis=(-2, -1), keepdims=True)
        return jnp.sum(jax.vmap(log_prob)(x, mean, T))

    gradient = jax.jit(jax.value_and_grad(total, argnums=(0, 1)))
    return repeated(lambda: gradient(mean, T), d, jax.block_until_ready)


def library(n: int, d: int, triangle: bool):
    def log_prob(x, mean, T):
        return mmlp.TraceOneGaussian(mean, mmlp.Gram(T, upper=triangle), 1.0).log_prob(
            x
        )

    return in_jax(log_prob, n, d, triangle)


def numpyro(n: int, d: int, triangle: bool):
    from numpyro.distributions import MultivariateNormal

    def log_prob(x, mean, T):
        given = {"scale_tril": T.T} if triangle else {"covariance_matrix": T.T @ T}
        return MultivariateNormal(mean, **given).log_prob(x)

    return in_jax(log_prob, n, d, triangle)


def pytorch(n: int, d: int, triangle: bool):
    import torch  # pyright: ignore[reportMissingImports]
    from torch.distributions import MultivariateNormal  # pyright: ignore[reportMissingImports]

    x, mean, T = map(torch.from_numpy, inputs(n, d, triangle))

    def call():
        m, F = mean.clone().requires_grad_(), T.clone().requires_grad_()
        S = F / torch.linalg.matrix_norm(F, keepdim=True)
        given = {"scale_tril": S.mT} if triangle else {"covariance_matrix": S.mT @ S}
        total = MultivariateNormal(m, **given, validate_args=False).log_prob(x).sum()
        return torch.autograd.grad(total, (m, F))

    return repeated(call, d, lambda result: None)
