"""Question: how much faster are two devices than one, and what is sent between them?

    python benchmarks/devices.py                           # two cores that nothing else uses

The paper's VAE (NfNf, 3 x 30 units, ten columns) with batches so large that a step takes some 50 ms
on one core. In turns, and each time in processes of their own: one process on one core; two
processes on a core each, which talk by Gloo; one process with two virtual devices on both cores.
Then the sum of as many numbers over both processes, alone: in one array, and in as many as the
weights. Medians over rounds.

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

WAYS = {  # processes, cores of each, virtual devices
    "one process on one core": (1, 1, 1),
    "two processes on a core each": (2, 1, 1),
    "two virtual devices on two cores": (1, 2, 2),
}
FEATURES, LATENT, HIDDEN = 10, 5, (30, 30, 30)
STEPS, EPOCHS = 6, 5
LARGE = 10_000_000  # numbers, 40 MB
SUMS = ("apart", "joined", "large")


def model_and_loss():
    import jax
    import jax.numpy as jnp

    import mmlp

    def loss(model, batch, key, t):
        keys = jax.random.split(key, len(batch))
        return -jnp.mean(jax.vmap(lambda x, key: model.elbo(x, key))(batch, keys))

    return mmlp.paper_vae("NfNf", FEATURES, LATENT, HIDDEN, key=jax.random.key(0)), loss


def step_seconds(batch_size: int) -> float:
    """The median over epochs, without the first, which compiles."""
    import jax
    import numpy as np

    import mmlp

    X = (
        np.random.default_rng(0)
        .normal(size=(STEPS * batch_size, FEATURES))
        .astype(np.float32)
    )
    ends = []
    options = {"epochs": EPOCHS + 1, "batch_size": batch_size, "progress": False}
    watch = (lambda info: ends.append(time.perf_counter()),)
    mmlp.fit(*model_and_loss(), X, key=jax.random.key(1), on_epoch=watch, **options)
    return statistics.median(b - a for a, b in itertools.pairwise(ends)) / STEPS


def sum_seconds(sizes: list[int], repeats: int) -> float:
    """Of the mean over all devices of float32 arrays of these sizes."""
    import jax
    import numpy as np
    from jax.sharding import Mesh, PartitionSpec

    def many(arrays):
        def once(arrays, _):
            return [jax.lax.pmean(x, "devices") for x in arrays], None

        return jax.lax.scan(once, arrays, length=repeats)[0]

    everywhere = {
        "in_specs": PartitionSpec(),
        "out_specs": PartitionSpec(),
        "check_vma": False,
    }
    mesh = Mesh(np.array(jax.devices()), ("devices",))
    program = jax.jit(jax.shard_map(many, mesh=mesh, **everywhere))
    arrays = [np.ones(size, np.float32) for size in sizes]
    jax.block_until_ready(program(arrays))
    start = time.perf_counter()
    jax.block_until_ready(program(arrays))
    return (time.perf_counter() - start) / repeats


def one_process(options) -> None:
    """In this process: the time of a step, and where there are two of it, of sums."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {int(core) for core in options.cores.split(",")})
    import equinox as eqx
    import jax

    if options.address:
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        jax.distributed.initialize(
            options.address, num_processes=2, process_id=options.number
        )
    found: dict = {"step": step_seconds(options.batch_size)}
    if options.address:
        weights = jax.tree.leaves(eqx.filter(model_and_loss()[0], eqx.is_array))
        sizes = [x.size for x in weights]
        found["weights"], found["arrays"] = sum(sizes), len(sizes)
        found["apart"], found["joined"] = (
            sum_seconds(sizes, 50),
            sum_seconds([sum(sizes)], 50),
        )
        found["large"] = sum_seconds([LARGE], 5)
        jax.distributed.shutdown()
    print(json.dumps(found))


def measured(way: str, batch_size: int) -> dict:
    """What the first of the processes of this way found."""
    processes, cores, devices = WAYS[way]
    with socket.socket() as free:
        free.bind(("localhost", 0))
        address = f"localhost:{free.getsockname()[1]}" if processes > 1 else ""
    full = "--xla_backend_optimization_level=3"  # as `fit` compiles what runs for long
    own = f"{full} --xla_force_host_platform_device_count={devices}"
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": own}
    children = []
    for number in range(processes):
        mine = ",".join(str(number * cores + core) for core in range(cores))
        command = [
            sys.executable,
            __file__,
            "--batch-size",
            str(batch_size),
            "--cores",
            mine,
        ]
        command += ["--number", str(number), "--address", address]
        children.append(
            subprocess.Popen(command, env=environment, stdout=subprocess.PIPE)
        )
    outputs = [child.communicate()[0] for child in children]
    if any(child.returncode for child in children):
        sys.exit(f"{way}: a process failed")
    return json.loads(outputs[0].splitlines()[-1])


def main(options) -> None:
    found = {way: [] for way in WAYS}
    for _ in range(options.rounds):
        for way in WAYS:
            found[way].append(measured(way, options.batch_size))
            print(f"{way}: {1e3 * found[way][-1]['step']:.1f} ms a step", flush=True)
    first, *others = ([run["step"] for run in runs] for runs in found.values())
    for way, times in zip(list(WAYS)[1:], others, strict=True):
        ratios = [a / b for a, b in zip(first, times, strict=True)]
        shown = ", ".join(f"{ratio:.2f}" for ratio in ratios)
        print(
            f"{way}: {statistics.median(ratios):.2f} times as fast as one core ({shown})"
        )
    two = found["two processes on a core each"]
    sums = {name: 1e3 * statistics.median(run[name] for run in two) for name in SUMS}
    print(
        f"the sum over both of {two[0]['weights']} numbers: {sums['apart']:.2f} ms in "
        f"{two[0]['arrays']} arrays, {sums['joined']:.2f} ms in one; of {LARGE}: "
        f"{sums['large']:.1f} ms, {4e-6 * LARGE / sums['large']:.2f} GB/s"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cores", help="of this process; without, both are measured")
    parser.add_argument("--number", type=int)
    parser.add_argument("--address")
    chosen = parser.parse_args()
    main(chosen) if chosen.cores is None else one_process(chosen)
