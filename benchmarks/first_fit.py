"""How long is the first fit of a script, and how much of it is left in the second run?

    python benchmarks/first_fit.py [--against DIR] [--repeats 3] [--rows 300]

Each run is a fresh Python that imports the package and fits `MultivariateRegressor` with its
defaults to rows x 5 -> 2. Cold: nothing is kept. Second: the same script again after
`mmlp.cache_programs()`, where the package has it. DIR is another checkout, such as that of an older
version; its runs take turns with ours. Seconds are medians of wall-clock and of processor time: on
a machine that does other work, too, only the latter compare. The last lines are ratios to DIR.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

SCRIPT = """
import json, os, sys, time
start, compiled = time.perf_counter(), []
import jax, numpy as np

def listen(event, seconds, **_):
    if event == "/jax/core/compile/backend_compile_duration":
        compiled.append(seconds)

jax.monitoring.register_event_duration_secs_listener(listen)
import mmlp
if sys.argv[2:] and hasattr(mmlp, "cache_programs"):
    mmlp.cache_programs(sys.argv[2])
from mmlp import MultivariateRegressor
imported = time.perf_counter()
rng = np.random.default_rng(0)
X = rng.standard_normal((int(sys.argv[1]), 5))
y = np.stack([X[:, 0] + X[:, 1] ** 2, np.sin(X[:, 2])], axis=1)
y += (0.3 + 0.3 * np.abs(X[:, :1])) * rng.standard_normal(y.shape)
MultivariateRegressor(random_state=0).fit(X, y)
total, cpu = time.perf_counter() - start, sum(os.times()[:2])
print(json.dumps({
    "import": imported - start, "seconds": total, "cpu": cpu, "compilations": len(compiled)
}))
"""


def run(checkout: Path, rows: int, cache: Path | None, folder: str) -> dict[str, float]:
    """One fresh process."""
    unset = ("JAX_COMPILATION_CACHE_DIR", "MMLP_CACHE")
    environment = {
        name: value for name, value in os.environ.items() if name not in unset
    }
    command = [
        sys.executable,
        "-c",
        SCRIPT,
        str(rows),
        *([str(cache)] if cache else []),
    ]
    environment["PYTHONPATH"] = str(checkout)
    settings = {"env": environment, "cwd": folder, "capture_output": True, "text": True}
    done = subprocess.run(command, check=True, **settings)
    return json.loads(done.stdout.splitlines()[-1])


def measured(checkouts: dict[str, Path], repeats: int, rows: int) -> dict[tuple, dict]:
    """Medians of each checkout, cold and in the second run, which take turns."""
    runs: dict[tuple, list] = {}
    with tempfile.TemporaryDirectory() as folder:
        caches = {name: Path(folder, f"cache {name}") for name in checkouts}
        for (
            name,
            checkout,
        ) in checkouts.items():  # also writes what Python compiles of the sources
            run(checkout, rows, caches[name], folder)
        for _ in range(repeats):
            for name, checkout in checkouts.items():
                for kind, cache in (("cold", None), ("second", caches[name])):
                    result = run(checkout, rows, cache, folder)
                    runs.setdefault((name, kind), []).append(result)
    return {
        which: {
            key: statistics.median(one[key] for one in results) for key in results[0]
        }
        for which, results in runs.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--against", type=Path, help="another checkout")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--rows", type=int, default=300)
    given = parser.parse_args()
    checkouts = {"here": Path(__file__).resolve().parents[1]}
    if given.against:
        checkouts["against"] = given.against.resolve()
    medians = measured(checkouts, given.repeats, given.rows)
    print(f"{'':16} {'import':>8} {'total':>8} {'cpu':>8}  compilations")
    for (name, kind), m in medians.items():
        numbers = f"{m['import']:6.1f} s {m['seconds']:6.1f} s {m['cpu']:6.1f} s"
        print(f"{name:8} {kind:7} {numbers}  {m['compilations']:.0f}")
    for kind in ("cold", "second") if given.against else ():
        ours, theirs = medians["here", kind], medians["against", "cold"]
        ratios = {key: ours[key] / theirs[key] for key in ("seconds", "cpu")}
        print(
            f"{kind} / theirs cold: {ratios['seconds']:.2f} wall clock, {ratios['cpu']:.2f} cpu"
        )


if __name__ == "__main__":
    main()
