"""How much faster are two devices than one, and what does communication cost?

    python benchmarks/devices.py

Needs two cores that nothing else uses. The model is the paper's VAE (NfNf, 3 x 30
units, ten columns), with batches so large that a step takes some 50 ms on one core. In
turns, and each time in new processes, it is trained by

- one process on one core,
- two processes on one core each, which communicate through Gloo,
- one process with two virtual devices on both cores.

Then the mean over both processes of as many numbers as the model has weights is timed
alone: in one array, and in as many arrays as the weights. Prints medians over rounds.

Answer: the figures in docs/scaling-out.md.
"""

import argparse
import itertools
import json
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

# JAX is imported inside functions, after the process has been bound to its cores.

N_INPUTS = 10
N_LATENT = 5
HIDDEN_SIZES = (30, 30, 30)
STEPS_PER_EPOCH = 6
N_TIMED_EPOCHS = 5
LARGE_ARRAY_SIZE = 10_000_000  # float32 numbers, 40 MB
BYTES_PER_NUMBER = 4


class Setup(NamedTuple):
    """How the work is spread."""

    n_processes: int
    cores_per_process: int
    devices_per_process: int


SINGLE_CORE = "one process on one core"
TWO_PROCESSES = "two processes on a core each"
SETUPS = {
    SINGLE_CORE: Setup(1, 1, 1),
    TWO_PROCESSES: Setup(2, 1, 1),
    "two virtual devices on two cores": Setup(1, 2, 2),
}


# In a process that is measured


def make_model_and_loss() -> tuple[Any, Callable]:
    """Return the paper's VAE and its negative evidence lower bound."""
    import jax
    import jax.numpy as jnp

    import mmlp

    def loss(model: Any, batch: jax.Array, key: jax.Array, t: jax.Array) -> jax.Array:
        keys = jax.random.split(key, len(batch))
        return -jnp.mean(jax.vmap(lambda x, key: model.elbo(x, key))(batch, keys))

    key = jax.random.key(0)
    return mmlp.paper_vae("NfNf", N_INPUTS, N_LATENT, HIDDEN_SIZES, key=key), loss


def time_step(batch_size: int) -> float:
    """Return the median seconds per step over epochs but the first, which compiles."""
    import jax
    import numpy as np

    import mmlp

    rng = np.random.default_rng(0)
    X = rng.normal(size=(STEPS_PER_EPOCH * batch_size, N_INPUTS)).astype(np.float32)
    model, loss = make_model_and_loss()
    ends = []
    mmlp.fit(
        model,
        loss,
        X,
        key=jax.random.key(1),
        epochs=N_TIMED_EPOCHS + 1,
        batch_size=batch_size,
        on_epoch=(lambda info: ends.append(time.perf_counter()),),
        progress=False,
    )
    epochs = [end - start for start, end in itertools.pairwise(ends)]
    return statistics.median(epochs) / STEPS_PER_EPOCH


def time_mean_over_devices(sizes: list[int], n_repeats: int) -> float:
    """Return the seconds of the mean over all devices of arrays of these sizes."""
    import jax
    import numpy as np
    from jax.sharding import Mesh, PartitionSpec

    def repeat_mean(arrays: list) -> list:
        def compute_mean(arrays: list, _: None) -> tuple[list, None]:
            return [jax.lax.pmean(x, "devices") for x in arrays], None

        return jax.lax.scan(compute_mean, arrays, length=n_repeats)[0]

    program = jax.jit(
        jax.shard_map(
            repeat_mean,
            mesh=Mesh(np.array(jax.devices()), ("devices",)),
            in_specs=PartitionSpec(),
            out_specs=PartitionSpec(),
            check_vma=False,
        )
    )
    arrays = [np.ones(size, np.float32) for size in sizes]
    jax.block_until_ready(program(arrays))
    start = time.perf_counter()
    jax.block_until_ready(program(arrays))
    return (time.perf_counter() - start) / n_repeats


def measure_here(batch_size: int, cores: str, address: str, number: int) -> None:
    """Print the seconds of a step and, with two processes, of means, as JSON."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {int(core) for core in cores.split(",")})
    import equinox as eqx
    import jax

    if address:
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        jax.distributed.initialize(address, num_processes=2, process_id=number)

    measured: dict[str, Any] = {"step": time_step(batch_size)}
    if address:
        model, _ = make_model_and_loss()
        weights = jax.tree.leaves(eqx.filter(model, eqx.is_array))
        sizes = [array.size for array in weights]
        measured["weights"] = sum(sizes)
        measured["arrays"] = len(sizes)
        measured["apart"] = time_mean_over_devices(sizes, 50)
        measured["joined"] = time_mean_over_devices([sum(sizes)], 50)
        measured["large"] = time_mean_over_devices([LARGE_ARRAY_SIZE], 5)
        jax.distributed.shutdown()
    print(json.dumps(measured))


# In the process that compares


def measure_setup(name: str, batch_size: int) -> dict[str, Any]:
    """Run the processes of a setup and return what the first of them has measured."""
    setup = SETUPS[name]
    address = ""
    if setup.n_processes > 1:
        with socket.socket() as free_socket:
            free_socket.bind(("localhost", 0))
            address = f"localhost:{free_socket.getsockname()[1]}"

    # `fit` compiles long runs with this level of optimisation.
    flags = "--xla_backend_optimization_level=3"
    flags += f" --xla_force_host_platform_device_count={setup.devices_per_process}"
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": flags}

    processes = []
    for number in range(setup.n_processes):
        first_core = number * setup.cores_per_process
        cores = range(first_core, first_core + setup.cores_per_process)
        command = [sys.executable, __file__]
        command += ["--batch-size", str(batch_size)]
        command += ["--cores", ",".join(map(str, cores))]
        command += ["--number", str(number)]
        command += ["--address", address]
        processes.append(
            subprocess.Popen(command, env=environment, stdout=subprocess.PIPE)
        )
    outputs = [process.communicate()[0] for process in processes]
    if any(process.returncode for process in processes):
        sys.exit(f"{name}: a process failed")
    return json.loads(outputs[0].splitlines()[-1])


def compare_setups(batch_size: int, n_rounds: int) -> None:
    """Measure all setups in turns and print their ratios."""
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in SETUPS}
    for _ in range(n_rounds):
        for name in SETUPS:
            run = measure_setup(name, batch_size)
            runs[name].append(run)
            print(f"{name}: {1e3 * run['step']:.1f} ms a step", flush=True)

    single_core = [run["step"] for run in runs[SINGLE_CORE]]
    for name in SETUPS:
        if name == SINGLE_CORE:
            continue
        times = [run["step"] for run in runs[name]]
        ratios = [a / b for a, b in zip(single_core, times, strict=True)]
        all_ratios = ", ".join(f"{ratio:.2f}" for ratio in ratios)
        print(
            f"{name}: {statistics.median(ratios):.2f} times as fast as one core "
            f"({all_ratios})"
        )

    two = runs[TWO_PROCESSES]
    apart, joined, large = (
        1e3 * statistics.median(run[name] for run in two)
        for name in ("apart", "joined", "large")
    )
    gigabytes_per_second = 1e-6 * BYTES_PER_NUMBER * LARGE_ARRAY_SIZE / large
    print(
        f"the sum over both of {two[0]['weights']} numbers: {apart:.2f} ms in "
        f"{two[0]['arrays']} arrays, {joined:.2f} ms in one; of {LARGE_ARRAY_SIZE}: "
        f"{large:.1f} ms, {gigabytes_per_second:.2f} GB/s"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--batch-size", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cores", help="of this process; without, all are measured")
    parser.add_argument("--number", type=int, help="of this process")
    parser.add_argument("--address", help="of the first process")
    options = parser.parse_args()
    if options.cores is None:
        compare_setups(options.batch_size, options.rounds)
    else:
        measure_here(options.batch_size, options.cores, options.address, options.number)


if __name__ == "__main__":
    main()
