"""Two processes train one model.

Each holds one device, and every batch is spread over both:

    python examples/two_processes.py                 # on this machine: starts both processes itself

On several machines start the same program on each, with the first's address and its own number:

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


def fitted() -> mmlp.FitResult:
    """What one process would run as well: nothing here knows of the others."""
    X = np.random.default_rng(0).normal(size=(40, 2)).astype(jnp.zeros(()).dtype)
    rotation = np.array([[0.8, 0.6], [-0.6, 0.8]], X.dtype)
    Y = mmlp.Gram(np.exp(0.5 * X)[:, :, None] * rotation).scaled(0.4)
    model = mmlp.MatrixMLP(2, 2, (4,), key=jax.random.key(0))
    options = {
        "epochs": 13,
        "batch_size": 10,
        "optimizer": optax.adam(0.02),
        "progress": False,
    }
    return mmlp.fit(model, loss, (X, Y), key=jax.random.key(1), **options)


def main(address: str, processes: int, number: int) -> None:
    if os.environ.get("JAX_PLATFORMS") == "cpu":
        jax.config.update(
            "jax_cpu_collectives_implementation", "gloo"
        )  # GPUs need no such line
    jax.distributed.initialize(address, num_processes=processes, process_id=number)
    result = fitted()
    loss = f"loss {result.history['loss'][-1]:.6f}"
    print(f"process {number} of {processes}, {len(jax.devices())} devices: {loss}")
    if number == 0 and "MODEL" in os.environ:
        mmlp.save(result.model, os.environ["MODEL"])
    jax.distributed.shutdown()


if __name__ == "__main__":
    if len(sys.argv) == 4:
        main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
    else:
        with socket.socket() as free:
            free.bind(("localhost", 0))
            address = f"localhost:{free.getsockname()[1]}"
        environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
        command = [sys.executable, __file__, address, "2"]
        children = [
            subprocess.Popen([*command, number], env=environment) for number in "01"
        ]
        sys.exit(max(child.wait() for child in children))
