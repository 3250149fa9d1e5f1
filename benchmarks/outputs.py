"""How much time does a triangular output save over a dense one?

    python benchmarks/outputs.py [--columns 560 --rows 100]

Prints milliseconds per step: Adam on the bound of an NfNf VAE with 3 x 30 units, the
fastest of 30 turns of 20 steps in one program.

Answer: on two CPU cores, with 10 columns and 50 rows, it takes 0.95 to 0.97 of the
time; on an NVIDIA H200 (jax 0.11.2), with 560 columns and 100 rows, 4.1 ms per step
instead of 23.9 (`JointMatrixMLP`: 4.5 instead of 25.4; `CholeskyMLP`: 2.7).
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from mmlp import (
    VAE,
    CholeskyMLP,
    Dense,
    JointMatrixMLP,
    MatrixMLP,
    Triangular,
    calibrate,
    paper_vae,
)

STEPS_PER_TURN = 20
N_TURNS = 30
HIDDEN_SIZES = (30, 30, 30)
LEARNING_RATE = 1e-4
NETWORKS: dict[str, tuple[Any, Any]] = {
    "MatrixMLP, dense": (MatrixMLP, Dense()),
    "MatrixMLP, triangular": (MatrixMLP, Triangular()),
    "JointMatrixMLP, dense": (JointMatrixMLP, Dense()),
    "JointMatrixMLP, triangular": (JointMatrixMLP, Triangular()),
    "CholeskyMLP": (CholeskyMLP, Triangular()),
}


def compile_steps(vae: VAE, X: jax.Array) -> Callable[[], Any]:
    """Return a compiled function that takes `STEPS_PER_TURN` steps."""
    optimizer = optax.adam(LEARNING_RATE)
    params, static = eqx.partition(vae, eqx.is_inexact_array)
    keys = jax.random.split(jax.random.key(1), STEPS_PER_TURN)

    def loss(params: Any, key: jax.Array) -> jax.Array:
        vae = eqx.combine(params, static)
        return -jnp.mean(jax.vmap(vae.elbo)(X, jax.random.split(key, len(X))))

    def step(carry: tuple[Any, Any], key: jax.Array) -> tuple[tuple[Any, Any], None]:
        params, state = carry
        updates, state = optimizer.update(jax.grad(loss)(params, key), state, params)
        return (optax.apply_updates(params, updates), state), None

    run = jax.jit(lambda carry: jax.lax.scan(step, carry, keys))
    start = (params, optimizer.init(params))
    jax.block_until_ready(run(start))
    return lambda: jax.block_until_ready(run(start))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--columns", type=int, default=10)
    parser.add_argument("--rows", type=int, default=50)
    options = parser.parse_args()

    d = options.columns
    n_latent = max(2, min(20, d // 2))
    key = jax.random.key(0)
    X = jax.random.normal(key, (options.rows, d))
    programs = {}
    for name, (network, output) in NETWORKS.items():
        vae = paper_vae(
            "NfNf",
            d,
            n_latent,
            HIDDEN_SIZES,
            network=network,
            outputs={"f": output},
            key=key,
        )
        programs[name] = compile_steps(calibrate(vae, X, key=key), X)

    # In turns, so that other work on the machine affects all networks alike.
    fastest = dict.fromkeys(programs, float("inf"))
    for _ in range(N_TURNS):
        for name, program in programs.items():
            start = time.perf_counter()
            program()
            fastest[name] = min(fastest[name], time.perf_counter() - start)
    for name, seconds in fastest.items():
        print(f"{name:28s} {1e3 * seconds / STEPS_PER_TURN:8.2f} ms a step")


if __name__ == "__main__":
    main()
