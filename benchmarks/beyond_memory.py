"""Question: does `fit` train on a file that is larger than the memory it may use, and how fast?

    python benchmarks/beyond_memory.py --folder /var/tmp                # makes a file of 12 GB

The file is made (float32, rows x 100 columns, the last three depend on the others), used as
`np.load(path, mmap_mode="r")` and removed. A process that may have 4 GB of memory of its own
(RLIMIT_DATA: all that is not a page of a file; RLIMIT_AS would count the mapped file itself) trains
for an epoch; a thread samples RssAnon, the memory of its own that it really has. Another process
takes turns on the first rows: mapped, and in memory.

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

import numpy as np

COLUMNS, TARGETS = 100, 3
HELD = 1_000_000  # rows that are trained on in memory, too


def make(path: Path, rows: int) -> None:
    """A table whose targets are smooth functions of its inputs, and noise."""
    table = np.lib.format.open_memmap(path, "w+", np.float32, (rows, COLUMNS))
    rng = np.random.default_rng(0)
    for first in range(0, rows, 100_000):
        part = rng.standard_normal((min(100_000, rows - first), COLUMNS), np.float32)
        part[:, -TARGETS:] = 0.3 * part[:, -TARGETS:] + np.sin(part[:, :TARGETS])
        table[first : first + len(part)] = part
    table.flush()


def anonymous() -> float:
    """Memory of this process that is no page of a file, GB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return (
        next(int(line.split()[1]) for line in lines if line.startswith("RssAnon"))
        / 2**20
    )


class Peak(threading.Thread):
    """The largest of samples, a hundred a second."""

    def __init__(self):
        super().__init__(daemon=True)
        self.value = 0.0
        self.start()

    def run(self):
        while True:
            self.value = max(self.value, anonymous())
            time.sleep(0.01)


def trained(table: np.ndarray, batch_size: int) -> tuple[float, float]:
    """Seconds and the loss of an epoch; what has to be compiled for these shapes is."""
    import jax
    import jax.numpy as jnp
    import optax

    import mmlp

    def loss(model, batch, key, t):
        inputs, targets = batch[:, :-TARGETS], batch[:, -TARGETS:]
        return -jnp.mean(jax.vmap(lambda x, y: model(x).log_prob(y))(inputs, targets))

    key, ends = jax.random.key(0), []
    network = mmlp.CholeskyMLP(
        COLUMNS - TARGETS, TARGETS, (64, 64), TARGETS + 1, key=key
    )
    options = {
        "key": key,
        "epochs": 2 if len(table) <= HELD else 1,
        "batch_size": batch_size,
    }
    start = time.perf_counter()
    result = mmlp.fit(
        mmlp.GaussianHead(network),
        loss,
        table,
        optimizer=optax.adam(1e-3),
        on_epoch=(lambda info: ends.append(time.perf_counter()),),
        progress=False,
        **options,
    )
    return ends[-1] - (ends[-2] if len(ends) > 1 else start), float(
        result.history["loss"][-1]
    )


def limited(path: Path, gigabytes: float, batch_size: int) -> None:
    """In this process: an epoch under the limit."""
    limit = int(gigabytes * 2**30)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    peak = Peak()
    seconds, loss = trained(np.load(path, mmap_mode="r"), batch_size)
    print(json.dumps({"seconds": seconds, "loss": loss, "peak": peak.value}))


def in_turns(path: Path, batch_size: int) -> None:
    """In this process: an epoch of the first rows, mapped and in memory, three times each."""
    table = np.load(path, mmap_mode="r")[:HELD]
    found = {"mapped": [], "held": []}
    for _ in range(3):
        found["mapped"].append(trained(table, batch_size))
        found["held"].append(trained(np.array(table), batch_size))
    assert len({loss for runs in found.values() for _, loss in runs}) == 1
    print(json.dumps({name: min(runs)[0] for name, runs in found.items()}))


def in_a_process_of_its_own(*arguments: str) -> dict:
    command = [sys.executable, __file__, *arguments]
    return json.loads(subprocess.check_output(command, env=os.environ).splitlines()[-1])


def main(options) -> None:
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        path = Path(folder) / "table.npy"
        start = time.perf_counter()
        make(path, options.rows)
        size, steps = (
            path.stat().st_size / 2**30,
            -(-options.rows // options.batch_size),
        )
        print(
            f"a file of {size:.1f} GB, made in {time.perf_counter() - start:.0f} s",
            flush=True,
        )
        common = ["--path", str(path), "--batch-size", str(options.batch_size)]
        found = in_a_process_of_its_own(
            "--do", "limited", "--limit", str(options.limit), *common
        )
        print(
            f"an epoch of {steps} steps under a limit of {options.limit:g} GB: "
            f"{found['seconds']:.0f} s with checks and compilation, loss {found['loss']:.4f}, "
            f"anonymous memory at most {found['peak']:.2f} GB",
            flush=True,
        )
        if options.rows > HELD:
            found = in_a_process_of_its_own("--do", "in_turns", *common)
            ratio = found["mapped"] / found["held"]
            print(
                f"an epoch of {HELD} rows: mapped {ratio:.2f} times as long as in memory"
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=32_500_000)
    parser.add_argument("--batch-size", type=int, default=1000)
    parser.add_argument("--limit", type=float, default=4, help="GB")
    parser.add_argument("--folder", default=None, help="where the file is made")
    parser.add_argument("--path", type=Path)
    parser.add_argument("--do", choices=["all", "limited", "in_turns"], default="all")
    chosen = parser.parse_args()
    if chosen.do == "limited":
        limited(chosen.path, chosen.limit, chosen.batch_size)
    elif chosen.do == "in_turns":
        in_turns(chosen.path, chosen.batch_size)
    else:
        main(chosen)
