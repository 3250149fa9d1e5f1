"""Question: how do time and memory of a loss and its gradient grow with the size d of the matrix?

Answer (2 CPU cores): the table this prints, drawn in docs/speed.md. Time grows no faster than d^3
and memory no faster than d^2, for the von Neumann divergence and for the Gaussian density, each
through a `MatrixMLP`; nothing of size d^4 is ever made. Each row is a process of its own, so that
its peak memory is its own; the memory column is above what an idle process with JAX loaded uses.

    python benchmarks/scaling.py
"""

import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

LOSSES, SIZES, BATCH = ("von Neumann", "density"), (64, 128, 256, 512, 1024), 10


def peak_memory() -> int:
    """Return the largest memory that this process has held so far, in KiB.

    On Linux `ru_maxrss` begins with the memory of the process that started this one, so that a
    large test run would be measured instead.
    """
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    (line,) = (
        line for line in status.read_text().splitlines() if line.startswith("VmHWM:")
    )
    return int(line.split()[1])


def measure(loss: str, d: int):
    """Peak memory before and after, and the best time, of value and gradient for one batch."""
    import jax
    import jax.numpy as jnp

    import mmlp

    jnp.linalg.svd(jnp.eye(2))  # loads the library's parts that every process needs
    idle = peak_memory()
    key = jax.random.key(0)
    X = jax.random.normal(key, (BATCH, 20))
    if loss == "density":
        target = jax.random.normal(key, (BATCH, d))
        model = mmlp.GaussianHead(mmlp.MatrixMLP(20, d, out_features=d + 1, key=key))
    else:
        target = mmlp.Gram.trace_one(jax.random.normal(key, (BATCH, d, d)))
        model = mmlp.MatrixMLP(20, d, key=key)

    @jax.jit
    @jax.value_and_grad
    def step(model, X, target):
        if loss == "density":
            return -jnp.mean(jax.vmap(lambda x, y: model(x).log_prob(y))(X, target))
        return jnp.mean(mmlp.von_neumann(jax.vmap(model)(X), target))

    jax.block_until_ready(step(model, X, target))
    times = []
    for _ in range(5 if d < 256 else 3):
        start = time.perf_counter()
        jax.block_until_ready(step(model, X, target))
        times.append(time.perf_counter() - start)
    peak = peak_memory()
    print(min(times), (peak - idle) / 1024, peak / 1024)


def in_a_process_of_its_own(loss: str, d: int) -> list[float]:
    # two threads on one small matrix wait for each other
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, __file__, loss, str(d)]
    return [
        float(value)
        for value in subprocess.check_output(command, env=environment).split()
    ]


def exponent(sizes, values) -> float:
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def rows(loss: str) -> list[dict]:
    """d, milliseconds, MiB above an idle process and of the whole process; printed as they come."""
    table = []
    for d in SIZES:
        seconds, above_idle, peak = in_a_process_of_its_own(loss, d)
        row = {"d": d, "ms": 1e3 * seconds, "above idle": above_idle, "process": peak}
        table.append({name: float(f"{value:.4g}") for name, value in row.items()})
        print(
            f"{d:5d} {1000 * seconds:9.1f} {above_idle:11.0f} {peak:18.0f}", flush=True
        )
    return table


def main():
    for loss in LOSSES:
        print(
            f"value and gradient of the {loss} through MatrixMLP(20, d), batch {BATCH}, float32"
        )
        print(f"{'d':>5} {'time/ms':>9} {'memory/MiB':>11} {'whole process/MiB':>18}")
        table = rows(loss)
        time_power, memory_power = (
            exponent(SIZES, [row[name] for row in table])
            for name in ("ms", "above idle")
        )
        print(
            f"fitted exponents: time d^{time_power:.2f}, memory d^{memory_power:.2f}\n"
        )


if __name__ == "__main__":
    if len(sys.argv) > 1:
        measure(sys.argv[1], int(sys.argv[2]))
    else:
        main()
