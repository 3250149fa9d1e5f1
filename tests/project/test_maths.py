"""Identities of docs/maths.md: the four parts of KL from N(0, I) and the von Neumann shape."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import orthogonal

from mmlp import (
    DiagonalGram,
    Gram,
    TraceOneGaussian,
    TraceOnePowerExponential,
    kl_divergence,
    stein,
    von_neumann,
)
from mmlp.vae import von_neumann_kl

K = 4
ROUND = DiagonalGram.trace_one(jnp.ones(K))  # I/k
PRIOR = TraceOneGaussian(jnp.zeros(K), ROUND, float(K))
RNG = np.random.default_rng(0)
MU, OMEGA = RNG.normal(size=K), Gram.trace_one(jnp.asarray(RNG.normal(size=(K, K))))
ETA, ALPHA = 2.3, 0.8


def gram(w):
    """Omega with the eigenvalues w / sum w."""
    T = np.sqrt(np.asarray(w))[:, None] * orthogonal(np.random.default_rng(1), K)
    return Gram.trace_one(jnp.asarray(T))


@jax.jit
def shapes(omega):
    """The log-det and the von Neumann shape part."""
    log_det = stein(omega, ROUND, symmetric=False)
    return log_det / 2, K / 2 * von_neumann(omega, ROUND, symmetric=False)


@pytest.mark.parametrize("beta", [None, 0.6])
def test_kl_from_the_standard_normal_is_family_scale_location_and_shape(beta):
    if beta is None:
        q = TraceOneGaussian(MU, OMEGA, ETA)
    else:
        q = TraceOnePowerExponential(MU, OMEGA, ETA, ALPHA, beta)
    tau = q.covariance.trace()
    as_gaussian = TraceOneGaussian(MU, OMEGA, tau)  # N(mu, V)
    parts = [
        kl_divergence(q, as_gaussian),
        K / 2 * (tau / K - 1 - np.log(tau / K)),
        MU @ MU / 2,
        -(OMEGA.logdet() + K * np.log(K)) / 2,
    ]
    np.testing.assert_allclose(kl_divergence(q, PRIOR), sum(parts), rtol=1e-12)
    np.testing.assert_allclose(shapes(OMEGA)[0], parts[3], rtol=1e-12)
    assert abs(parts[0]) < 1e-12 if beta is None else parts[0] > 1e-3
    isotropic = eqx.tree_at(lambda q: q.omega, q, ROUND)
    np.testing.assert_allclose(
        kl_divergence(isotropic, PRIOR), sum(parts[:3]), rtol=1e-12
    )
    np.testing.assert_allclose(
        von_neumann_kl(q), sum(parts[:3]) + shapes(OMEGA)[1], rtol=1e-12
    )


def test_the_two_shape_parts_agree_to_second_order():
    e = np.array([0.9, -0.2, -0.4, -0.3])
    for step in (1e-2, 1e-3):
        log_det, quantum = shapes(gram(1 + step * e))
        np.testing.assert_allclose(
            [log_det, quantum], step**2 * np.sum(e**2) / 4, rtol=5 * step
        )
        np.testing.assert_allclose(
            quantum - log_det, step**3 * np.sum(e**3) / 12, rtol=5 * step
        )


def test_the_von_neumann_shape_part_is_bounded_where_the_log_det_is_not():
    values = [shapes(gram([1, small, small, small])) for small in (1e-3, 1e-6, 1e-12)]
    log_det, quantum = np.array(values).T
    np.testing.assert_allclose(
        np.diff(log_det), [1.5 * np.log(1e3), 1.5 * np.log(1e6)], rtol=1e-2
    )
    assert np.all(np.diff(quantum) > 0)
    np.testing.assert_allclose(quantum[-1], K / 2 * np.log(K), rtol=1e-9)


def test_neither_shape_part_bounds_the_other():
    log_det, quantum = shapes(gram([2.0, 1.0, 1.0, 1.0]))
    assert quantum > log_det > 0
    log_det, quantum = shapes(gram([1.0, 1.0, 1.0, 0.2]))
    assert log_det > quantum > 0
