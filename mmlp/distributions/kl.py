"""The Kullback-Leibler divergence."""

import math

import jax.numpy as jnp
from jax import Array

from mmlp.distributions.base import Elliptical
from mmlp.distributions.gaussian import TraceOneGaussian


def kl_divergence(q: Elliptical, p: TraceOneGaussian) -> Array:
    """Return the Kullback-Leibler divergence E_q[log q - log p] from a Gaussian p.

        KL = -H(q) + (d log(2 pi eta_p) + log det omega_p
                      + tr(omega_p^-1 (V + mm')) / eta_p) / 2

    Here H(q) and V are the entropy and covariance of q, and m = mu_q - mu_p. The cross
    term needs no other moment, so every elliptical q has a closed form. (The paper has
    only that of a Gaussian q.)

    Parameters
    ----------
    q : Elliptical
        Any distribution of this library with a finite covariance.
    p : TraceOneGaussian
        A Gaussian of the same dimension. Batch dimensions broadcast.

    Returns
    -------
    array of shape (...)
        The divergence in nats.

    Raises
    ------
    ValueError
        If q is not a distribution of this library or has no finite covariance, if p is
        not a Gaussian, or if the dimensions differ.

    Examples
    --------
    >>> from mmlp.spd import Gram
    >>> omega = Gram.trace_one(jnp.eye(2))
    >>> p = TraceOneGaussian(jnp.zeros(2), omega, eta=2.0)  # N(0, I)
    >>> q = TraceOneGaussian(jnp.array([1.0, 0.0]), omega, eta=2.0)
    >>> print(f"{kl_divergence(q, p):.4f}")
    0.5000
    """
    if not isinstance(q, Elliptical):
        raise ValueError(
            "`kl_divergence(q, p)` takes two distributions of this library, "
            f"got {type(q).__name__} for q."
        )
    if not isinstance(p, TraceOneGaussian):
        raise ValueError(
            "`kl_divergence(q, p)` has a closed form for a `TraceOneGaussian` p only, "
            f"got {type(p).__name__}; use the Monte Carlo estimate: "
            "x = q.sample(key, (n,)), then "
            "jnp.mean(q.log_prob(x) - p.log_prob(x), axis=0)."
        )
    if q.dim != p.dim:
        raise ValueError(
            "`kl_divergence(q, p)` needs distributions of the same dimension, "
            f"got {q.dim} and {p.dim}."
        )

    batch = jnp.broadcast_shapes(q.batch_shape, p.batch_shape)
    shift = jnp.broadcast_to(q.loc - p.loc, (*batch, q.dim))
    logdet, trace = p.omega.logdet_and_trace_solve(q.covariance, shift)
    cross = q.dim * jnp.log(2 * math.pi * p.eta) + logdet + trace / p.eta
    return cross / 2 - q.entropy()
