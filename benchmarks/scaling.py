"""How do time and memory of a loss and its gradient grow with the matrix size d?

    python benchmarks/scaling.py

Prints milliseconds and MiB for the von Neumann divergence and for the Gaussian density,
each through a `MatrixMLP`. Every row is measured in its own process, so that its peak
memory is its own; "memory" is what it needs above an idle process with JAX loaded.

    python benchmarks/scaling.py "von Neumann" 560

measures one size in this process and prints seconds, MiB above idle, and MiB in all.

Answer (2 CPU cores): the table, drawn in docs/speed.md. Time grows no faster than d^3
and memory no faster than d^2; nothing of size d^4 is ever formed.
"""

import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import numpy as np

# JAX is imported inside functions: only the child processes compute.

LOSSES = ("von Neumann", "density")
SIZES = (64, 128, 256, 512, 1024)
BATCH_SIZE = 10
N_INPUTS = 20


def read_peak_memory() -> int:
    """Return the largest memory that this process has held so far, in KiB.

    On Linux `ru_maxrss` begins with the memory of the process that started this one, so
    that a large test run would be measured instead.
    """
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    (line,) = (
        line for line in status.read_text().splitlines() if line.startswith("VmHWM:")
    )
    return int(line.split()[1])


def measure_here(loss: str, d: int) -> None:
    """Print the best seconds and the memory in MiB of value and gradient."""
    import jax
    import jax.numpy as jnp

    import mmlp

    # Load the parts of the library that every process needs.
    jnp.linalg.svd(jnp.eye(2))
    idle = read_peak_memory()

    key = jax.random.key(0)
    X = jax.random.normal(key, (BATCH_SIZE, N_INPUTS))
    if loss == "density":
        target = jax.random.normal(key, (BATCH_SIZE, d))
        network = mmlp.MatrixMLP(N_INPUTS, d, out_features=d + 1, key=key)
        model = mmlp.GaussianHead(network)
    else:
        target = mmlp.Gram.trace_one(jax.random.normal(key, (BATCH_SIZE, d, d)))
        model = mmlp.MatrixMLP(N_INPUTS, d, key=key)

    @jax.jit
    @jax.value_and_grad
    def step(model, X, target) -> jax.Array:
        if loss == "density":
            return -jnp.mean(jax.vmap(lambda x, y: model(x).log_prob(y))(X, target))
        return jnp.mean(mmlp.von_neumann(jax.vmap(model)(X), target))

    jax.block_until_ready(step(model, X, target))
    times = []
    n_repeats = 5 if d < 256 else 3
    for _ in range(n_repeats):
        start = time.perf_counter()
        jax.block_until_ready(step(model, X, target))
        times.append(time.perf_counter() - start)
    peak = read_peak_memory()
    print(min(times), (peak - idle) / 1024, peak / 1024)


def measure_in_new_process(loss: str, d: int) -> list[float]:
    """Return seconds, MiB above an idle process, and MiB of the whole process."""
    # Two threads on one small matrix wait for each other.
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, __file__, loss, str(d)]
    output = subprocess.check_output(command, env=environment)
    return [float(number) for number in output.split()]


def fit_exponent(sizes: Iterable[float], values: Iterable[float]) -> float:
    """Return the power of the size with which the values grow."""
    slope, _ = np.polyfit(np.log(list(sizes)), np.log(list(values)), 1)
    return float(slope)


def measure_sizes(loss: str) -> list[dict[str, float]]:
    """Measure and print all sizes; return the rows of the record.

    A row has "d", "ms", "above idle" and "process", both in MiB.
    """
    rows = []
    for d in SIZES:
        seconds, above_idle, peak = measure_in_new_process(loss, d)
        milliseconds = 1e3 * seconds
        row = {"d": d, "ms": milliseconds, "above idle": above_idle, "process": peak}
        rows.append({name: float(f"{value:.4g}") for name, value in row.items()})
        print(f"{d:5d} {milliseconds:9.1f} {above_idle:11.0f} {peak:18.0f}", flush=True)
    return rows


def main() -> None:
    for loss in LOSSES:
        print(
            f"value and gradient of the {loss} through MatrixMLP({N_INPUTS}, d), "
            f"batch {BATCH_SIZE}, float32"
        )
        print(f"{'d':>5} {'time/ms':>9} {'memory/MiB':>11} {'whole process/MiB':>18}")
        rows = measure_sizes(loss)
        time_exponent = fit_exponent(SIZES, [row["ms"] for row in rows])
        memory_exponent = fit_exponent(SIZES, [row["above idle"] for row in rows])
        print(
            f"fitted exponents: time d^{time_exponent:.2f}, "
            f"memory d^{memory_exponent:.2f}\n"
        )


if __name__ == "__main__":
    if len(sys.argv) > 1:
        measure_here(sys.argv[1], int(sys.argv[2]))
    else:
        main()
