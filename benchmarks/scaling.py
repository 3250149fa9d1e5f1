"""Question: how do time and memory of the von Neumann loss and its gradient grow with the size d?

Answer (2 CPU cores, jax 0.9.2): the table this prints, quoted in docs/numerics.md. Time grows no
faster than d^3 and memory no faster than d^2; nothing of size d^4 is ever made. Each row is a
process of its own, so that its peak memory is its own; the memory column is above what an idle
process with JAX loaded uses.

    python benchmarks/scaling.py
"""

import os
import resource
import subprocess
import sys
import time

import numpy as np

SIZES, BATCH = (64, 128, 256, 512), 10


def measure(d: int):
    """Peak memory before and after, and the best time, of value and gradient for one batch."""
    import jax
    import jax.numpy as jnp

    import mmlp

    jnp.linalg.svd(jnp.eye(2))  # loads the library's parts that every process needs
    idle = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    key = jax.random.key(0)
    X = jax.random.normal(key, (BATCH, 20))
    target = mmlp.Gram.trace_one(jax.random.normal(key, (BATCH, d, d)))
    model = mmlp.MatrixMLP(20, d, key=key)

    @jax.jit
    @jax.value_and_grad
    def step(model, X, target):
        return jnp.mean(mmlp.von_neumann(jax.vmap(model)(X), target))

    jax.block_until_ready(step(model, X, target))
    times = []
    for _ in range(5 if d < 256 else 3):
        start = time.perf_counter()
        jax.block_until_ready(step(model, X, target))
        times.append(time.perf_counter() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(min(times), (peak - idle) / 1024, peak / 1024)


def in_a_process_of_its_own(d: int):
    # two threads on one small matrix wait for each other
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, __file__, str(d)]
    return [float(value) for value in subprocess.check_output(command, env=environment).split()]


def exponent(sizes, values):
    return np.polyfit(np.log(sizes), np.log(values), 1)[0]


def main():
    print(f"value and gradient of von_neumann through MatrixMLP(20, d), batch {BATCH}, float32\n")
    print(f"{'d':>5} {'time/ms':>9} {'memory/MiB':>11} {'whole process/MiB':>18}")
    rows = {}
    for d in (*SIZES, 560):
        rows[d] = in_a_process_of_its_own(d)
        seconds, above_idle, peak = rows[d]
        print(f"{d:5d} {1000 * seconds:9.1f} {above_idle:11.0f} {peak:18.0f}", flush=True)
    times, memory = ([rows[d][i] for d in SIZES] for i in (0, 1))
    powers = f"time d^{exponent(SIZES, times):.2f}, memory d^{exponent(SIZES, memory):.2f}"
    print(f"\nfitted exponents from d = 64 to 512: {powers}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        measure(int(sys.argv[1]))
    else:
        main()
