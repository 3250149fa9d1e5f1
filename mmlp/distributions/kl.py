"""The Kullback-Leibler divergence."""

import math

import jax.numpy as jnp
from jax import Array

from mmlp.distributions.base import Elliptical
from mmlp.distributions.gaussian import TraceOneGaussian


def kl_divergence(q: Elliptical, p: TraceOneGaussian) -> Array:
    """E_q[log q - log p], the divergence of q from a Gaussian p, in closed form, shape (...).

        KL = -H(q) + (d log(2 pi eta_p) + log det omega_p + tr(omega_p^-1 (V + mm')) / eta_p) / 2

    with H(q) and V the entropy and covariance of q and m = mu_q - mu_p. The cross term needs no
    other moment, so that every elliptical q has a closed form (the paper has only the Gaussian's).

    >>> from mmlp.spd import DiagonalGram, Gram
    >>> p = TraceOneGaussian(jnp.zeros(2), DiagonalGram.trace_one(jnp.ones(2)), eta=2.0)  # N(0, I)
    >>> q = TraceOneGaussian(jnp.array([1.0, 0.0]), Gram.trace_one(jnp.eye(2)), eta=2.0)
    >>> print(f"{kl_divergence(q, p):.4f}")
    0.5000
    """
    if not isinstance(q, Elliptical):
        got = f"got {type(q).__name__} for q"
        raise ValueError(
            f"`kl_divergence(q, p)` takes two distributions of this library, {got}."
        )
    if not isinstance(p, TraceOneGaussian):
        raise ValueError(
            "`kl_divergence(q, p)` has a closed form for a `TraceOneGaussian` p only, got "
            f"{type(p).__name__}; use the Monte Carlo estimate: x = q.sample(key, (n,)), then "
            "jnp.mean(q.log_prob(x) - p.log_prob(x), axis=0)."
        )
    if q.dim != p.dim:
        got = f"got {q.dim} and {p.dim}"
        raise ValueError(
            f"`kl_divergence(q, p)` needs distributions of one dimension, {got}."
        )
    batch = jnp.broadcast_shapes(q.batch_shape, p.batch_shape)
    shift = jnp.broadcast_to(q.loc - p.loc, (*batch, q.dim))
    logdet, trace = p.omega.logdet_and_trace_solve(q.covariance, shift)
    cross = q.dim * jnp.log(2 * math.pi * p.eta) + logdet + trace / p.eta
    return cross / 2 - q.entropy()
