"""How long do training steps and divergences take on a GPU?

    python benchmarks/gpu.py --record

Prints the milliseconds of each case and, with `--record`, writes them to
results/speed-h200.json, which docs/speed.md shows.

Machine: one NVIDIA H200, jax 0.11.2.
Answer: a step at the size of the paper takes 0.43 ms, limited by the launch of some 280
small kernels; with d = 560 and batch 100 it takes 13 ms. The von Neumann divergence
with its gradient takes 8 ms for 1000 matrices of size 64 and 50 ms for 10 of size 560.
In 0.1.0 these were 0.55, 23, 22 and 793 ms.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

import mmlp

RECORD = Path(__file__).resolve().parents[1] / "results" / "speed-h200.json"
N_LATENT = 5
N_REPEATS = 7

# Name, function and sizes (n, d)
DIVERGENCES = (
    ("von Neumann", mmlp.von_neumann, ((1000, 64), (256, 128), (10, 560))),
    ("Bures-Wasserstein", mmlp.bures_wasserstein, ((1000, 64), (10, 560))),
    ("Stein", mmlp.stein, ((1000, 64),)),
)
# Name, size d, batch size and steps per epoch
VAES = (
    ("step of NfNf, 3 x 30, d = 10, batch 50", 10, 50, 40),
    ("step of NfNf, 3 x 30, d = 560, batch 100, dense output", 560, 100, 10),
)
OPTIMIZERS = {
    "Adam on one vector": optax.flatten(optax.adam(1e-4)),
    "default optimiser": mmlp.default_optimizer(10_000),
}


def time_call(function: Callable, *arguments: Any) -> float:
    """Return the median milliseconds of a call; the first call compiles."""
    jax.block_until_ready(function(*arguments))
    times = []
    for _ in range(N_REPEATS):
        start = time.perf_counter()
        jax.block_until_ready(function(*arguments))
        times.append(1e3 * (time.perf_counter() - start))
    return statistics.median(times)


def time_step_of_vae(
    d: int, batch_size: int, n_steps: int, optimizer: optax.GradientTransformation
) -> float:
    """Return the milliseconds of a step of NfNf with a dense output.

    It is the mean over an epoch in one program.
    """
    model_key, data_key, training_key = jax.random.split(jax.random.key(0), 3)
    vae = mmlp.paper_vae(
        "NfNf", d, N_LATENT, outputs={"f": mmlp.Dense()}, key=model_key
    )
    X = jax.random.normal(data_key, (n_steps, batch_size, d))
    vae = mmlp.calibrate(vae, X[0], key=training_key)
    params, static = eqx.partition(vae, eqx.is_inexact_array)

    def loss(params: Any, x: jax.Array, key: jax.Array) -> jax.Array:
        model = eqx.combine(params, static)
        return -jnp.mean(jax.vmap(model.elbo)(x, jax.random.split(key, batch_size)))

    def step(carry: tuple, x: jax.Array) -> tuple[tuple, None]:
        params, state, key = carry
        key, step_key = jax.random.split(key)
        gradient = jax.grad(loss)(params, x, step_key)
        updates, state = optimizer.update(gradient, state, params)
        return (optax.apply_updates(params, updates), state, key), None

    @jax.jit
    def run_epoch(carry: tuple) -> tuple:
        return jax.lax.scan(step, carry, X)[0]

    start = (params, optimizer.init(params), training_key)
    return time_call(run_epoch, start) / n_steps


def time_divergence(divergence: Callable, n: int, d: int) -> float:
    """Return the milliseconds of a divergence of n pairs with both gradients."""
    T_A, T_B = jax.random.normal(jax.random.key(0), (2, n, d, d))

    def total(T_A: jax.Array, T_B: jax.Array) -> jax.Array:
        A = mmlp.Gram.trace_one(T_A)
        B = mmlp.Gram.trace_one(T_B)
        return jnp.sum(divergence(A, B))

    return time_call(jax.jit(jax.value_and_grad(total, (0, 1))), T_A, T_B)


def list_cases() -> dict[str, Callable[[], float]]:
    """Return the functions that measure each case, by the name in the record."""
    cases = {}
    for vae_name, d, batch_size, n_steps in VAES:
        for optimizer_name, optimizer in OPTIMIZERS.items():
            cases[f"{vae_name}, {optimizer_name}"] = partial(
                time_step_of_vae, d, batch_size, n_steps, optimizer
            )
    for name, divergence, sizes in DIVERGENCES:
        for n, d in sizes:
            cases[f"{name} with gradient, {n} x {d}"] = partial(
                time_divergence, divergence, n, d
            )
    return cases


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--record", action="store_true", help=f"write {RECORD.name}")
    options = parser.parse_args()

    record = json.loads(RECORD.read_text())
    before = {row["what"]: row["before"] for row in record["rows"]}
    device = jax.devices()[0].device_kind
    print(f"jax {jax.__version__}, {device}")
    rows = []
    for name, measure in list_cases().items():
        milliseconds = float(f"{measure():.4g}")
        rows.append({"what": name, "ms": milliseconds, "before": before.get(name)})
        print(f"{milliseconds:10.4g} ms  {name}", flush=True)

    if options.record:
        record |= {"device": device, "jax": jax.__version__, "rows": rows}
        RECORD.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
