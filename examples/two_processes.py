"""Train one model in two processes.

Each process holds one device, and every batch is spread over both. Without arguments
the program starts both processes on this machine:

    python examples/two_processes.py

On several machines, start the same program on each of them with the address of the
first and its own number, counted from 0:

    python examples/two_processes.py ADDRESS:PORT NUMBER_OF_PROCESSES MY_NUMBER
"""

import os
import socket
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax

import mmlp


def loss(
    model: mmlp.MatrixMLP,
    batch: tuple[jax.Array, mmlp.Gram],
    key: jax.Array,
    t: jax.Array,
) -> jax.Array:
    """Return the mean von Neumann divergence of a batch."""
    X, Y = batch
    return jnp.mean(mmlp.von_neumann(jax.vmap(model)(X), Y))


def fit_network() -> mmlp.FitResult:
    """Fit the network, with the code that a single process would run."""
    X = np.random.default_rng(0).normal(size=(40, 2)).astype(jnp.zeros(()).dtype)
    rotation = np.array([[0.8, 0.6], [-0.6, 0.8]], X.dtype)
    Y = mmlp.Gram(np.exp(0.5 * X)[:, :, None] * rotation).scaled(0.4)
    model = mmlp.MatrixMLP(2, 2, (4,), key=jax.random.key(0))
    return mmlp.fit(
        model,
        loss,
        (X, Y),
        key=jax.random.key(1),
        epochs=13,
        batch_size=10,
        optimizer=optax.adam(0.02),
        progress=False,
    )


def main(address: str, n_processes: int, number: int) -> None:
    """Join the other processes, train, and report the loss."""
    if os.environ.get("JAX_PLATFORMS") == "cpu":
        # GPUs do not need this setting.
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(address, num_processes=n_processes, process_id=number)

    result = fit_network()
    print(
        f"process {number} of {n_processes}, {len(jax.devices())} devices: "
        f"loss {result.history['loss'][-1]:.6f}"
    )
    if number == 0 and "MODEL" in os.environ:
        mmlp.save(result.model, os.environ["MODEL"])
    jax.distributed.shutdown()


def start_two_processes() -> int:
    """Run this program twice on this machine and return the larger exit status."""
    with socket.socket() as free_socket:
        free_socket.bind(("localhost", 0))
        address = f"localhost:{free_socket.getsockname()[1]}"
    processes = [
        subprocess.Popen(
            [sys.executable, __file__, address, "2", number],
            env={**os.environ, "JAX_PLATFORMS": "cpu"},
        )
        for number in ("0", "1")
    ]
    return max(process.wait() for process in processes)


if __name__ == "__main__":
    if len(sys.argv) == 4:
        main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
    else:
        sys.exit(start_two_processes())
