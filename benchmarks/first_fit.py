"""How long does the first fit of a script take, and how long its second run?

    python benchmarks/first_fit.py [--against DIR] [--repeats 3] [--rows 300]

Each run is a new Python process that imports the package and fits
`MultivariateRegressor` with its defaults to a table with 5 inputs and 2 targets. A
"cold" run starts without a cache. A "second" run repeats the same script after
`mmlp.cache_programs()`, if the package has that function. DIR is another checkout, for
example of an older version; its runs alternate with ours.

Prints the medians of import time, wall-clock time, processor time and the number of
compilations, and with `--against` the ratios to a cold run of DIR. On a machine that
does other work as well, compare processor times only.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

# Run by each process with the number of rows and, optionally, a cache directory.
SCRIPT = """
import json
import os
import sys
import time

start = time.perf_counter()
import jax
import numpy as np

compilation_seconds = []

def listen(event, seconds, **_):
    if event == "/jax/core/compile/backend_compile_duration":
        compilation_seconds.append(seconds)

jax.monitoring.register_event_duration_secs_listener(listen)
import mmlp

if len(sys.argv) > 2 and hasattr(mmlp, "cache_programs"):
    mmlp.cache_programs(sys.argv[2])
from mmlp import MultivariateRegressor

import_seconds = time.perf_counter() - start

rng = np.random.default_rng(0)
X = rng.standard_normal((int(sys.argv[1]), 5))
y = np.stack([X[:, 0] + X[:, 1] ** 2, np.sin(X[:, 2])], axis=1)
y += (0.3 + 0.3 * np.abs(X[:, :1])) * rng.standard_normal(y.shape)
MultivariateRegressor(random_state=0).fit(X, y)

measured = {
    "import": import_seconds,
    "seconds": time.perf_counter() - start,
    "cpu": sum(os.times()[:2]),
    "compilations": len(compilation_seconds),
}
print(json.dumps(measured))
"""
CACHE_VARIABLES = ("JAX_COMPILATION_CACHE_DIR", "MMLP_CACHE")
ROOT = Path(__file__).resolve().parents[1]


def run_script(
    checkout: Path, n_rows: int, cache: Path | None, folder: str
) -> dict[str, float]:
    """Run the script in a new process and return what it has measured."""
    environment = {
        name: value for name, value in os.environ.items() if name not in CACHE_VARIABLES
    }
    environment["PYTHONPATH"] = str(checkout)
    command = [sys.executable, "-c", SCRIPT, str(n_rows)]
    if cache:
        command.append(str(cache))
    process = subprocess.run(
        command,
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(process.stdout.splitlines()[-1])


def measure_first_fits(
    checkouts: dict[str, Path], repeats: int, n_rows: int
) -> dict[tuple[str, str], dict[str, float]]:
    """Run the script of each checkout in turns, cold and with a cache.

    Returns
    -------
    dict
        (checkout, "cold" or "second") -> medians of seconds and compilations.
    """
    runs: dict[tuple[str, str], list[dict[str, float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        caches = {name: Path(folder, f"cache {name}") for name in checkouts}

        # The first runs fill the caches, and Python writes its bytecode.
        for name, checkout in checkouts.items():
            run_script(checkout, n_rows, caches[name], folder)

        for _ in range(repeats):
            for name, checkout in checkouts.items():
                cold = run_script(checkout, n_rows, None, folder)
                second = run_script(checkout, n_rows, caches[name], folder)
                runs.setdefault((name, "cold"), []).append(cold)
                runs.setdefault((name, "second"), []).append(second)

    return {
        case: {
            quantity: statistics.median(run[quantity] for run in results)
            for quantity in results[0]
        }
        for case, results in runs.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--against", type=Path, metavar="DIR", help="another checkout")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--rows", type=int, default=300)
    options = parser.parse_args()
    checkouts = {"here": ROOT}
    if options.against:
        checkouts["against"] = options.against.resolve()

    medians = measure_first_fits(checkouts, options.repeats, options.rows)
    print(f"{'':16} {'import':>8} {'total':>8} {'cpu':>8}  compilations")
    for (name, kind), median in medians.items():
        print(
            f"{name:8} {kind:7} {median['import']:6.1f} s {median['seconds']:6.1f} s"
            f" {median['cpu']:6.1f} s  {median['compilations']:.0f}"
        )

    if options.against:
        theirs = medians["against", "cold"]
        for kind in ("cold", "second"):
            ours = medians["here", kind]
            print(
                f"{kind} / theirs cold: "
                f"{ours['seconds'] / theirs['seconds']:.2f} wall clock, "
                f"{ours['cpu'] / theirs['cpu']:.2f} cpu"
            )


if __name__ == "__main__":
    main()
