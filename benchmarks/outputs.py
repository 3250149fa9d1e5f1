"""Question: what does a triangular output save over a dense one?

Answer: on two CPU cores, 10 columns and 50 rows, it takes 0.95 to 0.97 of the time; on an NVIDIA
H200 (jax 0.11.2), 560 columns and 100 rows, 4.1 ms a step in place of 23.9 (`JointMatrixMLP`: 4.5
in place of 25.4; `CholeskyMLP`: 2.7). Adam on the bound of an NfNf VAE with 3 x 30 units, the
fastest of several turns of 20 steps, in one program.

    python benchmarks/outputs.py [--columns 560 --rows 100]
"""

import argparse
import time

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from mmlp import (
    CholeskyMLP,
    Dense,
    JointMatrixMLP,
    MatrixMLP,
    Triangular,
    calibrate,
    paper_vae,
)

STEPS, TURNS, HIDDEN = 20, 30, (30, 30, 30)
NETWORKS = {
    "MatrixMLP, dense": (MatrixMLP, Dense()),
    "MatrixMLP, triangular": (MatrixMLP, Triangular()),
    "JointMatrixMLP, dense": (JointMatrixMLP, Dense()),
    "JointMatrixMLP, triangular": (JointMatrixMLP, Triangular()),
    "CholeskyMLP": (CholeskyMLP, Triangular()),
}


def steps(vae, X, optimizer=optax.adam(1e-4)):
    """A function that takes `STEPS` steps, compiled."""
    params, static = eqx.partition(vae, eqx.is_inexact_array)

    def loss(params, key):
        bounds = jax.vmap(eqx.combine(params, static).elbo)(
            X, jax.random.split(key, len(X))
        )
        return -jnp.mean(bounds)

    def step(carry, key):
        params, state = carry
        updates, state = optimizer.update(jax.grad(loss)(params, key), state, params)
        return (optax.apply_updates(params, updates), state), None

    run = jax.jit(
        lambda carry: jax.lax.scan(
            step, carry, jax.random.split(jax.random.key(1), STEPS)
        )
    )
    start = params, optimizer.init(params)
    jax.block_until_ready(run(start))
    return lambda: jax.block_until_ready(run(start))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--columns", type=int, default=10)
    parser.add_argument("--rows", type=int, default=50)
    options = parser.parse_args()
    d, key = options.columns, jax.random.key(0)
    X = jax.random.normal(key, (options.rows, d))
    programs = {}
    for name, (network, output) in NETWORKS.items():
        sizes = d, max(2, min(20, d // 2)), HIDDEN
        vae = paper_vae("NfNf", *sizes, network=network, outputs={"f": output}, key=key)
        programs[name] = steps(calibrate(vae, X, key=key), X)
    times = dict.fromkeys(programs, float("inf"))
    for _ in range(
        TURNS
    ):  # in turns, so that what else the machine does meets all alike
        for name, program in programs.items():
            start = time.perf_counter()
            program()
            times[name] = min(times[name], time.perf_counter() - start)
    for name, seconds in times.items():
        print(f"{name:28s} {1e3 * seconds / STEPS:8.2f} ms a step")


if __name__ == "__main__":
    main()
