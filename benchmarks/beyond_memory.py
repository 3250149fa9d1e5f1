"""Does `fit` train on a file larger than the memory it may use, and how fast?

    python benchmarks/beyond_memory.py --folder /var/tmp

Makes a file of 12 GB (float32, rows x 100 columns; the last three depend on the
others), uses it as `np.load(path, mmap_mode="r")` and removes it. A process that may
allocate 4 GB of memory trains for an epoch. The limit is RLIMIT_DATA, all memory except
pages of files; RLIMIT_AS would count the mapped file itself. A thread samples RssAnon,
the memory that the process really allocates. Another process takes turns on the first
rows: mapped, and in memory.

Prints times, losses and the peak of the allocated memory.

Answer: the figures in docs/scaling-out.md.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

# JAX is imported inside functions: only the child processes train.

N_COLUMNS = 100
N_TARGETS = 3
N_INPUTS = N_COLUMNS - N_TARGETS
ROWS_PER_CHUNK = 100_000
N_ROWS_IN_MEMORY = 1_000_000  # rows that are trained on in memory as well
N_TURNS = 3
LEARNING_RATE = 1e-3
SAMPLING_INTERVAL_IN_SECONDS = 0.01


def write_table(path: Path, n_rows: int) -> None:
    """Write a table whose targets are smooth functions of its inputs plus noise."""
    table = np.lib.format.open_memmap(path, "w+", np.float32, (n_rows, N_COLUMNS))
    rng = np.random.default_rng(0)
    for first in range(0, n_rows, ROWS_PER_CHUNK):
        n_chunk = min(ROWS_PER_CHUNK, n_rows - first)
        chunk = rng.standard_normal((n_chunk, N_COLUMNS), np.float32)
        noise = 0.3 * chunk[:, -N_TARGETS:]
        chunk[:, -N_TARGETS:] = noise + np.sin(chunk[:, :N_TARGETS])
        table[first : first + n_chunk] = chunk
    table.flush()


# In a process that is measured


def read_anonymous_memory() -> float:
    """Return the memory of this process that is no page of a file, in GB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith("RssAnon"))
    return int(line.split()[1]) / 2**20


class MemorySampler(threading.Thread):
    """A thread that keeps the peak of the anonymous memory, in GB."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak = 0.0
        self.start()

    def run(self) -> None:
        while True:
            self.peak = max(self.peak, read_anonymous_memory())
            time.sleep(SAMPLING_INTERVAL_IN_SECONDS)


def train(table: np.ndarray, batch_size: int) -> tuple[float, float]:
    """Return the seconds and the loss of an epoch.

    On the first rows a second epoch is timed, which does not compile.
    """
    import jax
    import jax.numpy as jnp
    import optax

    import mmlp

    def loss(model: Any, batch: jax.Array, key: jax.Array, t: jax.Array) -> jax.Array:
        inputs = batch[:, :-N_TARGETS]
        targets = batch[:, -N_TARGETS:]
        return -jnp.mean(jax.vmap(lambda x, y: model(x).log_prob(y))(inputs, targets))

    key = jax.random.key(0)
    network = mmlp.CholeskyMLP(N_INPUTS, N_TARGETS, (64, 64), N_TARGETS + 1, key=key)
    ends = [time.perf_counter()]
    result = mmlp.fit(
        mmlp.GaussianHead(network),
        loss,
        table,
        key=key,
        epochs=2 if len(table) <= N_ROWS_IN_MEMORY else 1,
        batch_size=batch_size,
        optimizer=optax.adam(LEARNING_RATE),
        on_epoch=(lambda info: ends.append(time.perf_counter()),),
        progress=False,
    )
    return ends[-1] - ends[-2], float(result.history["loss"][-1])


def train_with_limit(path: Path, gigabytes: float, batch_size: int) -> None:
    """Train for an epoch in this process with limited memory; print JSON."""
    limit = int(gigabytes * 2**30)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    sampler = MemorySampler()
    seconds, loss = train(np.load(path, mmap_mode="r"), batch_size)
    print(json.dumps({"seconds": seconds, "loss": loss, "peak": sampler.peak}))


def train_in_turns(path: Path, batch_size: int) -> None:
    """Train on the first rows, mapped and in memory; print the best times as JSON."""
    table = np.load(path, mmap_mode="r")[:N_ROWS_IN_MEMORY]
    runs = {"mapped": [], "held": []}
    for _ in range(N_TURNS):
        runs["mapped"].append(train(table, batch_size))
        runs["held"].append(train(np.array(table), batch_size))

    losses = {loss for pairs in runs.values() for _, loss in pairs}
    assert len(losses) == 1
    print(json.dumps({name: min(pairs)[0] for name, pairs in runs.items()}))


# In the process that compares


def run_in_new_process(*arguments: str) -> dict[str, float]:
    """Run this script with arguments and return the JSON of its last line."""
    command = [sys.executable, __file__, *arguments]
    output = subprocess.check_output(command, env=os.environ)
    return json.loads(output.splitlines()[-1])


def run_all(n_rows: int, batch_size: int, limit: float, folder: str | None) -> None:
    """Write the file, and train on it in both ways."""
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        path = Path(temporary) / "table.npy"
        start = time.perf_counter()
        write_table(path, n_rows)
        seconds = time.perf_counter() - start
        size = path.stat().st_size / 2**30
        print(f"a file of {size:.1f} GB, made in {seconds:.0f} s", flush=True)

        common = ["--path", str(path), "--batch-size", str(batch_size)]
        run = run_in_new_process("--do", "limited", "--limit", str(limit), *common)
        n_steps = -(-n_rows // batch_size)
        print(
            f"an epoch of {n_steps} steps under a limit of {limit:g} GB: "
            f"{run['seconds']:.0f} s with checks and compilation, "
            f"loss {run['loss']:.4f}, "
            f"anonymous memory at most {run['peak']:.2f} GB",
            flush=True,
        )
        if n_rows > N_ROWS_IN_MEMORY:
            run = run_in_new_process("--do", "in_turns", *common)
            ratio = run["mapped"] / run["held"]
            print(
                f"an epoch of {N_ROWS_IN_MEMORY} rows: "
                f"mapped {ratio:.2f} times as long as in memory"
            )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=32_500_000)
    parser.add_argument("--batch-size", type=int, default=1000)
    parser.add_argument("--limit", type=float, default=4, help="GB")
    parser.add_argument("--folder", default=None, help="where the file is made")
    parser.add_argument("--path", type=Path, help="file of a child process")
    parser.add_argument("--do", choices=["all", "limited", "in_turns"], default="all")
    options = parser.parse_args()
    if options.do == "limited":
        train_with_limit(options.path, options.limit, options.batch_size)
    elif options.do == "in_turns":
        train_in_turns(options.path, options.batch_size)
    else:
        run_all(options.rows, options.batch_size, options.limit, options.folder)


if __name__ == "__main__":
    main()
