"""Question: what does `fit` cost over a bare compiled loop, and `fit_many` over one run?

A step is the gradient of the symmetric von Neumann divergence for MatrixMLP(20, 10, (30, 30, 30))
and one default update, float32. "Bare" is `lax.scan` over the same steps with nothing around it: no
shuffling, no check of finiteness, no history. Both are timed in turns, epoch by epoch, in the same
process. `compare.py` times two commits.

Machine: 2 CPU cores, jax 0.9.2; and one NVIDIA H200, jax 0.11.2.
Answer, median epochs: on the CPU `fit` takes 1.05 times the bare step at batch 10 and 0.97 times at
batch 50, on the GPU 1.07 and 1.17 times; 8 models at once take 6.2 times the time of one on the
CPU, 1.4 times on the GPU.

    python benchmarks/speed.py
"""

import itertools
import statistics
import time
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

import mmlp

SAMPLES, EPOCHS, REPEATS, SEEDS = 1000, 6, 5, 8


def loss(model, batch, key, t):
    X, Y = batch
    return jnp.mean(mmlp.von_neumann(jax.vmap(model)(X), Y))


def make(key):
    return mmlp.MatrixMLP(20, 10, (30, 30, 30), key=key)


@partial(jax.jit, static_argnums=(0, 1), donate_argnums=(2, 3))
def bare(optimizer, static, params, state, batches, key):
    def step(carry, batch):
        params, state = carry
        model = eqx.combine(params, static)
        gradient = eqx.filter_grad(loss)(model, batch, key, 0.0)
        updates, state = optimizer.update(gradient, state, params)
        return (optax.apply_updates(params, updates), state), None

    return jax.lax.scan(step, (params, state), batches)[0]


def epochs_of_fit(model, data, **options) -> list[float]:
    """Seconds of each epoch inside `fit`, but for the first."""
    ends = []
    note = (lambda info: ends.append(time.perf_counter()),)
    mmlp.fit(model, loss, data, on_epoch=note, **options)
    return [end - start for start, end in itertools.pairwise(ends)]


def epochs_of_bare(
    model, data, *, key, epochs, batch_size, optimizer, **_
) -> list[float]:
    batches = jax.tree.map(lambda x: x.reshape(-1, batch_size, *x.shape[1:]), data)
    params, static = eqx.partition(model, eqx.is_inexact_array)
    params = jax.tree.map(jnp.copy, params)
    state, times = optimizer.init(params), []
    for _ in range(epochs):
        start = time.perf_counter()
        params, state = jax.block_until_ready(
            bare(optimizer, static, params, state, batches, key)
        )
        times.append(time.perf_counter() - start)
    return times[1:]


def in_turns(one, other) -> tuple[list[float], list[float]]:
    """Times of both, taken in turns; the first turn compiles and is left out."""
    turns = [(one(), other()) for _ in range(REPEATS + 1)][1:]
    return [t for turn in turns for t in turn[0]], [
        t for turn in turns for t in turn[1]
    ]


def main():
    keys = jax.random.split(jax.random.key(0), 3)
    X = jax.random.normal(keys[0], (SAMPLES, 20))
    Y = mmlp.Gram.trace_one(jax.random.normal(keys[1], (SAMPLES, 10, 10)))
    model = mmlp.calibrate(make(keys[2]), X, key=keys[2])
    print(
        f"jax {jax.__version__}, {jax.devices()[0].device_kind}, {len(jax.devices())} device(s)"
    )

    for batch_size in (10, 50):
        steps = SAMPLES // batch_size
        options = {
            "key": keys[0],
            "epochs": EPOCHS,
            "batch_size": batch_size,
            "progress": False,
        }
        options["optimizer"] = mmlp.default_optimizer(EPOCHS * steps)
        ours, theirs = in_turns(
            partial(epochs_of_fit, model, (X, Y), **options),
            partial(epochs_of_bare, model, (X, Y), **options),
        )
        for name, pick in (("median", statistics.median), ("fastest", min)):
            a, b = 1e3 * pick(ours) / steps, 1e3 * pick(theirs) / steps
            steps_of = f"fit {a:.3f} ms a step, bare {b:.3f} ms"
            print(f"batch {batch_size}, {name} epoch: {steps_of}, ratio {a / b:.3f}")

    seeds = jax.random.split(keys[2], SEEDS)
    models = eqx.filter_vmap(make)(seeds)
    one = jax.tree.map(lambda x: x[0] if eqx.is_array(x) else x, models)
    options = {"epochs": EPOCHS, "batch_size": 50, "progress": False}

    def timed(function, *arguments, **more) -> list[float]:
        start = time.perf_counter()
        result = function(*arguments, **more, **options)
        jax.block_until_ready(eqx.filter(result.model, eqx.is_array))
        return [time.perf_counter() - start]

    many, single = in_turns(
        partial(timed, mmlp.fit_many, models, loss, (X, Y), keys=seeds),
        partial(timed, mmlp.fit, one, loss, (X, Y), key=seeds[0]),
    )
    a, b = min(many), min(single)
    ratio = f"ratio {a / b:.2f} (below {SEEDS}: a gain)"
    print(
        f"fit_many, {SEEDS} seeds, batch 50: {a:.3f} s; fit, one seed: {b:.3f} s; {ratio}"
    )


if __name__ == "__main__":
    main()
