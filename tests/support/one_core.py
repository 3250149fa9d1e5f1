"""A program on one core: gradients of what calls LAPACK in batches, and whole fits.

Prints what it begins.

    python one_core.py SECONDS {float32,float64} NAME [NAME ...]

Where a jaxlib waits for itself for ever, it ends after SECONDS with the stacks of all threads.
"""

import faulthandler
import os
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from helpers import DIVERGENCES

import mmlp


def decompositions(d: int):
    """Value and gradient of every divergence and both densities, for a batch of matrices (d, d)."""
    rng = np.random.default_rng(d)
    T, S = (
        jnp.asarray(np.eye(d) + 0.1 * rng.normal(size=(4, d, d)) / np.sqrt(d), float)
        for _ in range(2)
    )
    x = jnp.asarray(rng.normal(size=(4, d)), float)

    def gaussian(A, x):
        return mmlp.TraceOneGaussian(jnp.zeros(d), A, 1.0).log_prob(x)

    def power_exponential(A, x):
        return mmlp.TraceOnePowerExponential(jnp.zeros(d), A, 1.0, 1.0, 0.7).log_prob(x)

    functions = {
        name: lambda A, f=f: f(A, mmlp.Gram.trace_one(S))
        for name, f in DIVERGENCES.items()
    }
    functions |= {
        f.__name__: lambda A, f=f: f(A, x) for f in (gaussian, power_exponential)
    }
    for name, f in functions.items():
        print(name, flush=True)
        both = jax.jit(
            jax.value_and_grad(lambda T, f=f: jnp.sum(f(mmlp.Gram.trace_one(T))))
        )
        for _ in range(20):
            values = both(T)
        assert all(np.all(np.isfinite(v)) for v in values), name


def vae_step():
    key = jax.random.key(0)
    model = mmlp.paper_vae("EfNf", 3, 2, (4, 4), key=key)
    X = jax.random.normal(key, (8, 3))

    @eqx.filter_jit
    def step(model, key):
        def loss(model):
            return -jnp.mean(jax.vmap(lambda x: model.elbo(x, key))(X))

        return eqx.filter_value_and_grad(loss)(model)

    for i in range(5):
        assert np.isfinite(step(model, jax.random.key(i))[0])


def loss(model, batch, key, t):
    return mmlp.stein(jax.vmap(model)(batch), mmlp.Gram.trace_one(jnp.eye(3))).mean()


def network(key):
    return mmlp.MatrixMLP(2, 3, (4,), key=key)


OPTIONS = {"epochs": 3, "batch_size": 8, "progress": False}


def fit():
    X, key = np.random.default_rng(0).normal(size=(20, 2)), jax.random.key(0)
    result = mmlp.fit(network(key), loss, X, key=key, validation=X, **OPTIONS)
    assert np.all(np.isfinite(result.history["loss"]))


def fit_many():
    X, keys = (
        np.random.default_rng(0).normal(size=(20, 2)),
        jax.random.split(jax.random.key(0), 3),
    )
    result = mmlp.fit_many(
        eqx.filter_vmap(network)(keys), loss, X, keys=keys, validation=X, **OPTIONS
    )
    assert np.all(np.isfinite(result.history["loss"]))


def regressor():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 3)), rng.normal(size=(40, 2))
    options = {"max_epochs": 5, "n_models": 2, "patience": None, "random_state": 0}
    model = mmlp.MultivariateRegressor(**options).fit(X, y)
    assert np.isfinite(model.log_score(X, y))


PROGRAMS = {
    "d=40": lambda: decompositions(40),
    "d=5": lambda: decompositions(5),
    **{f.__name__: f for f in (vae_step, fit, fit_many, regressor)},
}

if __name__ == "__main__":
    seconds, precision, *names = sys.argv[1:]
    faulthandler.dump_traceback_later(float(seconds), exit=True)
    if hasattr(
        os, "sched_setaffinity"
    ):  # where cores can be chosen; XLA counts them at its first computation
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    jax.config.update("jax_enable_x64", precision == "float64")
    for name in names:
        PROGRAMS[name]()
    print("all done")
