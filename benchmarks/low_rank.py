"""What does a training step cost with thousands of targets and output `LowRank(32)`?

    python benchmarks/low_rank.py
    python benchmarks/low_rank.py --dims 100000 --rank 64

The first takes 5 minutes on a CPU; the second is for a GPU and prints its memory, too.
Every row is measured in its own process, so that its peak memory is its own. Prints the
seconds of the fastest of a few steps and the peak memory in GiB, for regression and for
a VAE, and the power of d with which the time grows.

Answer (2 CPU cores, jax 0.9.0.1): the table, quoted in docs/numerics.md. The work is
linear in d: nothing has size d^2.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

# JAX is imported inside functions: only the child processes compute.

N_INPUTS = 20
N_LATENT = 20
HIDDEN_SIZES = (20, 20)
BATCH_SIZE = 10
LEARNING_RATE = 1e-3
KINDS = ("regression", "vae")


class Case(NamedTuple):
    """A model, its loss of (model, Y, key), and the inputs for its calibration.

    The inputs are None if the targets are also the inputs.
    """

    model: Any
    loss: Callable
    X: Any


def make_regression(d: int, rank: int, key: Any) -> Case:
    """Return a head on a joint matrix MLP, and its mean negative log density."""
    import jax
    import jax.numpy as jnp

    import mmlp

    network = mmlp.JointMatrixMLP(
        N_INPUTS,
        d,
        HIDDEN_SIZES,
        out_features=d + 1,
        output=mmlp.LowRank(rank),
        key=key,
    )
    X = jax.random.normal(key, (BATCH_SIZE, N_INPUTS))

    def loss(head: Any, Y: jax.Array, key: jax.Array) -> jax.Array:
        return -jnp.mean(jax.vmap(lambda x, y: head(x).log_prob(y))(X, Y))

    return Case(mmlp.GaussianHead(network), loss, X)


def make_vae(d: int, rank: int, key: Any) -> Case:
    """Return a VAE with the same network as decoder, and its negative bound."""
    import jax
    import jax.numpy as jnp

    import mmlp

    encoder = mmlp.JointMatrixMLP(
        d, N_LATENT, HIDDEN_SIZES, out_features=N_LATENT + 1, key=key
    )
    decoder = make_regression(d, rank, key).model

    def loss(vae: Any, Y: jax.Array, key: jax.Array) -> jax.Array:
        return -jnp.mean(jax.vmap(vae.elbo)(Y, jax.random.split(key, BATCH_SIZE)))

    return Case(mmlp.VAE(mmlp.GaussianHead(encoder), decoder), loss, None)


def measure_here(kind: str, d: int, rank: int, n_steps: int) -> None:
    """Print the seconds of a step and the bytes at the peak, as one line of JSON.

    A step is value, gradient and update.
    """
    import equinox as eqx
    import jax
    import optax

    import mmlp

    key = jax.random.key(0)
    Y = jax.random.normal(jax.random.key(1), (BATCH_SIZE, d))
    make_case = make_regression if kind == "regression" else make_vae
    model, loss, X = make_case(d, rank, key)
    calibrate = eqx.filter_jit(mmlp.calibrate)
    model = calibrate(model, Y if X is None else X, key=key, targets=Y)
    optimizer = optax.adam(LEARNING_RATE)
    state = optimizer.init(eqx.filter(model, eqx.is_inexact_array))

    @eqx.filter_jit(donate="all-except-first")
    def step(Y: jax.Array, model: Any, state: Any, key: jax.Array) -> tuple:
        value, gradient = eqx.filter_value_and_grad(loss)(model, Y, key)
        updates, state = optimizer.update(gradient, state)
        return eqx.apply_updates(model, updates), state, value

    times = []
    for i in range(n_steps + 1):
        start = time.perf_counter()
        model, state, value = step(Y, model, state, jax.random.key(i))
        # Conversion to a float waits for the result.
        if not np.isfinite(float(value)):
            raise FloatingPointError(f"the loss of step {i} is {value}")
        times.append(time.perf_counter() - start)

    device = jax.devices()[0]
    memory = device.memory_stats() or {}
    row = {
        "seconds": min(times[1:]),
        "host": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "device": memory.get("peak_bytes_in_use"),
        "name": device.device_kind,
    }
    print(json.dumps(row))


def measure_in_new_process(
    kind: str, d: int, rank: int, n_steps: int
) -> dict[str, Any]:
    """Return what `measure_here` prints in another process."""
    command = [sys.executable, __file__]
    command += ["--kind", kind]
    command += ["--dims", str(d)]
    command += ["--rank", str(rank)]
    command += ["--steps", str(n_steps)]
    environment = {"OPENBLAS_NUM_THREADS": "1", **os.environ}
    output = subprocess.check_output(command, env=environment)
    return json.loads(output.splitlines()[-1])


def format_gibibytes(n_bytes: int | None) -> str:
    """Return a size in GiB, or a dash if it is not known."""
    return "-" if n_bytes is None else f"{n_bytes / 2**30:.2f}"


def print_table(dims: list[int], rank: int, n_steps: int) -> None:
    """Measure all sizes and print them as they come."""
    print(
        f"one step, LowRank({rank}), batch {BATCH_SIZE}, float32; "
        "memory in GiB at the peak\n"
    )
    print(f"{'':>10} {'d':>7} {'seconds':>9} {'process':>8} {'device':>7}")
    for kind in KINDS:
        times = []
        for d in dims:
            row = measure_in_new_process(kind, d, rank, n_steps)
            times.append(row["seconds"])
            host = format_gibibytes(row["host"])
            device = format_gibibytes(row["device"])
            print(
                f"{kind:>10} {d:7d} {row['seconds']:9.4f} "
                f"{host:>8} {device:>7}  {row['name']}",
                flush=True,
            )
        if len(dims) > 1:
            exponent = np.polyfit(np.log(dims), np.log(times), 1)[0]
            print(f"{'':>10} time grows like d^{exponent:.2f}\n")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--dims", type=int, nargs="+", default=[1_000, 3_000, 10_000, 30_000]
    )
    parser.add_argument("--rank", type=int, default=32)
    parser.add_argument(
        "--steps", type=int, default=10, help="of which the fastest counts"
    )
    parser.add_argument("--kind", choices=KINDS, help="measure this one, here")
    options = parser.parse_args()
    if options.kind is None:
        print_table(options.dims, options.rank, options.steps)
    else:
        measure_here(options.kind, options.dims[0], options.rank, options.steps)


if __name__ == "__main__":
    main()
