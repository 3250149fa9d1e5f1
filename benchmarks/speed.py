"""How much slower is `fit` than a bare compiled loop, and `fit_many` than one run?

    python benchmarks/speed.py

A step is the gradient of the symmetric von Neumann divergence of
MatrixMLP(20, 10, (30, 30, 30)) and one default update, in float32. The bare loop is
`lax.scan` over the same steps with nothing around it: no shuffling, no check for
non-finite numbers, no history. Both are timed in turns, epoch by epoch, in the same
process. (`compare.py` times two commits.)

Prints milliseconds per step and ratios.

Machine: 2 CPU cores, jax 0.9.2; and one NVIDIA H200, jax 0.11.2.
Answer, median epochs: on the CPU `fit` takes 1.05 times the bare step at batch 10 and
0.97 times at batch 50, on the GPU 1.07 and 1.17 times; 8 models at once take 6.2 times
the time of one on the CPU, 1.4 times on the GPU.
"""

import itertools
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

import mmlp

N_ROWS = 1000
N_INPUTS = 20
SIZE = 10
HIDDEN_SIZES = (30, 30, 30)
N_EPOCHS = 6
N_TURNS = 5
N_MODELS = 8

Data = tuple[jax.Array, mmlp.Gram]


def loss(model: mmlp.MatrixMLP, batch: Data, key: Any, t: Any) -> jax.Array:
    """Return the mean von Neumann divergence of a batch."""
    X, Y = batch
    return jnp.mean(mmlp.von_neumann(jax.vmap(model)(X), Y))


def build_model(key: jax.Array) -> mmlp.MatrixMLP:
    """Return a network with random weights."""
    return mmlp.MatrixMLP(N_INPUTS, SIZE, HIDDEN_SIZES, key=key)


def time_epochs_of_fit(
    model: mmlp.MatrixMLP,
    data: Data,
    key: jax.Array,
    batch_size: int,
    optimizer: optax.GradientTransformation,
) -> list[float]:
    """Return the seconds of each epoch inside `fit` but the first, which compiles."""
    ends = []
    mmlp.fit(
        model,
        loss,
        data,
        key=key,
        epochs=N_EPOCHS,
        batch_size=batch_size,
        optimizer=optimizer,
        on_epoch=(lambda info: ends.append(time.perf_counter()),),
        progress=False,
    )
    return [end - start for start, end in itertools.pairwise(ends)]


@partial(jax.jit, static_argnums=(0, 1), donate_argnums=(2, 3))
def run_bare_epoch(
    optimizer: optax.GradientTransformation,
    static: Any,
    params: Any,
    state: Any,
    batches: Data,
    key: jax.Array,
) -> tuple[Any, Any]:
    """Take one step per batch and return the parameters and the optimiser's state."""

    def step(carry: tuple[Any, Any], batch: Data) -> tuple[tuple[Any, Any], None]:
        params, state = carry
        model = eqx.combine(params, static)
        gradient = eqx.filter_grad(loss)(model, batch, key, 0.0)
        updates, state = optimizer.update(gradient, state, params)
        return (optax.apply_updates(params, updates), state), None

    return jax.lax.scan(step, (params, state), batches)[0]


def time_bare_epochs(
    model: mmlp.MatrixMLP,
    data: Data,
    key: jax.Array,
    batch_size: int,
    optimizer: optax.GradientTransformation,
) -> list[float]:
    """Return the seconds of each epoch of the bare loop but the first."""
    batches = jax.tree.map(lambda x: x.reshape(-1, batch_size, *x.shape[1:]), data)
    params, static = eqx.partition(model, eqx.is_inexact_array)
    params = jax.tree.map(jnp.copy, params)
    state = optimizer.init(params)
    times = []
    for _ in range(N_EPOCHS):
        start = time.perf_counter()
        params, state = jax.block_until_ready(
            run_bare_epoch(optimizer, static, params, state, batches, key)
        )
        times.append(time.perf_counter() - start)
    return times[1:]


def time_in_turns(
    measure_first: Callable[[], list[float]], measure_second: Callable[[], list[float]]
) -> tuple[list[float], list[float]]:
    """Return the times of both, measured in turns; the first turn only compiles."""
    first_times = []
    second_times = []
    for turn in range(N_TURNS + 1):
        first = measure_first()
        second = measure_second()
        if turn > 0:
            first_times += first
            second_times += second
    return first_times, second_times


def compare_with_bare_loop(
    model: mmlp.MatrixMLP, data: Data, key: jax.Array, batch_size: int
) -> None:
    """Print the times of a step of `fit` and of the bare loop."""
    n_steps = N_ROWS // batch_size
    optimizer = mmlp.default_optimizer(N_EPOCHS * n_steps)
    arguments = (model, data, key, batch_size, optimizer)
    fit_times, bare_times = time_in_turns(
        partial(time_epochs_of_fit, *arguments), partial(time_bare_epochs, *arguments)
    )
    for name, summarize in (("median", statistics.median), ("fastest", min)):
        fit_step = 1e3 * summarize(fit_times) / n_steps
        bare_step = 1e3 * summarize(bare_times) / n_steps
        print(
            f"batch {batch_size}, {name} epoch: fit {fit_step:.3f} ms a step, "
            f"bare {bare_step:.3f} ms, ratio {fit_step / bare_step:.3f}"
        )


def compare_many_with_one(data: Data, key: jax.Array) -> None:
    """Print the times of `fit_many` and of `fit` with one of its models."""
    keys = jax.random.split(key, N_MODELS)
    models = eqx.filter_vmap(build_model)(keys)
    first_model = jax.tree.map(lambda x: x[0] if eqx.is_array(x) else x, models)

    def time_call(fit: Callable, model: Any, **keywords: Any) -> list[float]:
        start = time.perf_counter()
        result = fit(
            model,
            loss,
            data,
            epochs=N_EPOCHS,
            batch_size=50,
            progress=False,
            **keywords,
        )
        jax.block_until_ready(eqx.filter(result.model, eqx.is_array))
        return [time.perf_counter() - start]

    many_times, single_times = time_in_turns(
        partial(time_call, mmlp.fit_many, models, keys=keys),
        partial(time_call, mmlp.fit, first_model, key=keys[0]),
    )
    many = min(many_times)
    single = min(single_times)
    print(
        f"fit_many, {N_MODELS} seeds, batch 50: {many:.3f} s; "
        f"fit, one seed: {single:.3f} s; "
        f"ratio {many / single:.2f} (below {N_MODELS}: a gain)"
    )


def main() -> None:
    keys = jax.random.split(jax.random.key(0), 3)
    X = jax.random.normal(keys[0], (N_ROWS, N_INPUTS))
    Y = mmlp.Gram.trace_one(jax.random.normal(keys[1], (N_ROWS, SIZE, SIZE)))
    model = mmlp.calibrate(build_model(keys[2]), X, key=keys[2])
    print(
        f"jax {jax.__version__}, {jax.devices()[0].device_kind}, "
        f"{len(jax.devices())} device(s)"
    )
    for batch_size in (10, 50):
        compare_with_bare_loop(model, (X, Y), keys[0], batch_size)
    compare_many_with_one((X, Y), keys[2])


if __name__ == "__main__":
    main()
