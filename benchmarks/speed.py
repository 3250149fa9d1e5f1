"""Question: what does `fit` cost over a bare compiled loop, and `fit_many` over one run?

A step is the gradient of the symmetric von Neumann divergence for MatrixMLP(20, 10, (30, 30, 30)) and one default update,
float32. "Bare" is `lax.scan` over the same steps with nothing around it: no shuffling, no check of finiteness, no
history. Both are timed in turns, in the same process; the ratio is of medians.

    python benchmarks/speed.py
"""

import statistics
import time
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

import mmlp
from mmlp.optimizers import default_optimizer

SAMPLES, EPOCHS, REPEATS, SEEDS = 1000, 4, 9, 8


def loss(model, batch, key, t):
    X, Y = batch
    return jnp.mean(mmlp.von_neumann(jax.vmap(model)(X), Y))


def make(key):
    return mmlp.MatrixMLP(20, 10, (30, 30, 30), key=key)


@partial(jax.jit, static_argnums=(0, 1), donate_argnums=(2, 3))
def bare(optimizer, static, params, state, batches, key):
    def step(carry, batch):
        params, state = carry
        gradient = jax.grad(lambda params: loss(eqx.combine(params, static), batch, key, 0.0))(params)
        updates, state = optimizer.update(gradient, state, params)
        return (optax.apply_updates(params, updates), state), None

    return jax.lax.scan(step, (params, state), batches)[0]


def seconds(function) -> float:
    start = time.perf_counter()
    jax.block_until_ready(function())
    return time.perf_counter() - start


def compare(one, other) -> tuple[float, float]:
    """Medians of both, taken in turns; the first turn compiles and is left out."""
    times = [(seconds(one), seconds(other)) for _ in range(REPEATS + 1)][1:]
    first, second = (statistics.median(column) for column in zip(*times, strict=True))
    return first, second


def main():
    keys = jax.random.split(jax.random.key(0), 3)
    X = jax.random.normal(keys[0], (SAMPLES, 20))
    Y = mmlp.Gram.trace_one(jax.random.normal(keys[1], (SAMPLES, 10, 10)))
    model = mmlp.calibrate(make(keys[2]), X, key=keys[2])
    print(f"jax {jax.__version__}, {jax.devices()[0].device_kind}, {len(jax.devices())} device(s)")

    for batch_size in (10, 50):
        steps = SAMPLES // batch_size
        optimizer = default_optimizer(EPOCHS * steps)
        batches = jax.tree.map(lambda x: x.reshape(-1, batch_size, *x.shape[1:]), (X, Y))  # noqa: B023
        options = {"epochs": EPOCHS, "batch_size": batch_size, "optimizer": optimizer, "progress": False}

        def run_bare():
            params, static = eqx.partition(model, eqx.is_inexact_array)
            params = jax.tree.map(jnp.copy, params)
            state = optimizer.init(params)  # noqa: B023
            for _ in range(EPOCHS):
                params, state = jax.block_until_ready(bare(optimizer, static, params, state, batches, keys[0]))  # noqa: B023
            return params

        def run_fit():
            return mmlp.fit(model, loss, (X, Y), key=keys[0], **options).model  # noqa: B023

        ours, theirs = (1e3 * t / (EPOCHS * steps) for t in compare(run_fit, run_bare))
        print(f"batch {batch_size}: fit {ours:.3f} ms a step, bare {theirs:.3f} ms, ratio {ours / theirs:.3f}")

    seeds = jax.random.split(keys[2], SEEDS)
    models = eqx.filter_vmap(make)(seeds)
    one = jax.tree.map(lambda x: x[0] if eqx.is_array(x) else x, models)
    options = {"epochs": EPOCHS, "batch_size": 50, "progress": False}
    many, single = compare(
        lambda: mmlp.fit_many(models, loss, (X, Y), keys=seeds, **options).model,
        lambda: mmlp.fit(one, loss, (X, Y), key=seeds[0], **options).model,
    )
    print(f"fit_many, {SEEDS} seeds, batch 50: {many:.3f} s; one run: {single:.3f} s; ratio {many / single:.2f}")


if __name__ == "__main__":
    main()
