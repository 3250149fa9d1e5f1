"""Question: how long do training steps and divergences take on a GPU?

Machine: one NVIDIA H200, jax 0.11.2; the record is results/speed-h200.json.
Answer: a step at the paper's size takes 0.43 ms, bound by some 280 small kernels; with d = 560 and
batch 100 it takes 13 ms; von Neumann with its gradient 8 ms for 1000 matrices of size 64 and 50 ms
for 10 of size 560. In 0.1.0 these were 0.55, 23, 22 and 793 ms.

    python benchmarks/gpu.py --record
"""

import argparse
import json
import statistics
import time
from functools import partial
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

import mmlp

RECORD = Path(__file__).resolve().parents[1] / "results" / "speed-h200.json"
DIVERGENCES = (
    ("von Neumann", mmlp.von_neumann, ((1000, 64), (256, 128), (10, 560))),
    ("Bures-Wasserstein", mmlp.bures_wasserstein, ((1000, 64), (10, 560))),
    ("Stein", mmlp.stein, ((1000, 64),)),
)
OPTIMIZERS = {
    "Adam on one vector": optax.flatten(optax.adam(1e-4)),
    "default optimiser": mmlp.default_optimizer(10_000),
}
STEPS, REPEATS = 40, 7


def timed(function, *arguments) -> float:
    """Milliseconds, the median; the first call compiles."""
    jax.block_until_ready(function(*arguments))
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        jax.block_until_ready(function(*arguments))
        times.append(1e3 * (time.perf_counter() - start))
    return statistics.median(times)


def step_of_vae(d: int, batch: int, optimizer, steps: int) -> float:
    """NfNf with a dense output, 5 latents; the mean over an epoch in one program."""
    keys = jax.random.split(jax.random.key(0), 3)
    vae = mmlp.paper_vae("NfNf", d, 5, outputs={"f": mmlp.Dense()}, key=keys[0])
    X = jax.random.normal(keys[1], (steps, batch, d))
    vae = mmlp.calibrate(vae, X[0], key=keys[2])
    params, static = eqx.partition(vae, eqx.is_inexact_array)

    def loss(params, x, key):
        model = eqx.combine(params, static)
        return -jnp.mean(jax.vmap(model.elbo)(x, jax.random.split(key, batch)))

    def step(carry, x):
        params, state, key = carry
        key, now = jax.random.split(key)
        updates, state = optimizer.update(jax.grad(loss)(params, x, now), state, params)
        return (optax.apply_updates(params, updates), state, key), None

    @jax.jit
    def epoch(carry):
        return jax.lax.scan(step, carry, X)[0]

    return timed(epoch, (params, optimizer.init(params), keys[2])) / steps


def divergence(function, n: int, d: int) -> float:
    T_A, T_B = jax.random.normal(jax.random.key(0), (2, n, d, d))

    def total(T_A, T_B):
        return jnp.sum(function(mmlp.Gram.trace_one(T_A), mmlp.Gram.trace_one(T_B)))

    return timed(jax.jit(jax.value_and_grad(total, (0, 1))), T_A, T_B)


def cases() -> dict:
    """What is timed -> a function of nothing."""
    found = {}
    for d, batch, steps, form in (
        (10, 50, STEPS, ""),
        (560, 100, 10, ", dense output"),
    ):
        for name, optimizer in OPTIMIZERS.items():
            what = f"step of NfNf, 3 x 30, d = {d}, batch {batch}{form}, {name}"
            found[what] = partial(step_of_vae, d, batch, optimizer, steps)
    for name, function, sizes in DIVERGENCES:
        for n, d in sizes:
            found[f"{name} with gradient, {n} x {d}"] = partial(
                divergence, function, n, d
            )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--record", action="store_true", help=f"write {RECORD.name}")
    arguments = parser.parse_args()
    old = json.loads(RECORD.read_text())
    before = {row["what"]: row["before"] for row in old["rows"]}
    device, rows = jax.devices()[0].device_kind, []
    print(f"jax {jax.__version__}, {device}")
    for what, run in cases().items():
        rows.append(
            {"what": what, "ms": float(f"{run():.4g}"), "before": before.get(what)}
        )
        print(f"{rows[-1]['ms']:10.4g} ms  {what}", flush=True)
    if arguments.record:
        new = old | {"device": device, "jax": jax.__version__, "rows": rows}
        RECORD.write_text(json.dumps(new, indent=1) + "\n")


if __name__ == "__main__":
    main()
