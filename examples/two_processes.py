"""Two processes train one model.

Each process has one device, and every batch is spread over both. On one machine, this
starts both processes itself:

    python examples/two_processes.py

On several machines, start the same program on each, with the address of the first and
its own number:

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


def loss(model, batch, key, t):
    X, Y = batch
    return jnp.mean(mmlp.von_neumann(jax.vmap(model)(X), Y))


def fit_network() -> mmlp.FitResult:
    """Fit as one process would: nothing here knows of the others."""
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
    if os.environ.get("JAX_PLATFORMS") == "cpu":
        # GPUs need no such line.
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


def start_both_processes() -> int:
    """Run this program twice on this machine and return the larger exit status."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        address = f"localhost:{free.getsockname()[1]}"
    command = [sys.executable, __file__, address, "2"]
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    children = [
        subprocess.Popen([*command, number], env=environment) for number in ("0", "1")
    ]
    return max(child.wait() for child in children)


if __name__ == "__main__":
    if len(sys.argv) == 4:
        main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
    else:
        sys.exit(start_both_processes())
