"""Question: does `MultivariateRegressor().fit` learn from a million rows, in one sitting?

A made table of 20 inputs and three targets whose truth is known: the kind `moving` of
benchmarks/made_tables.py, with 15 inputs that do not matter. The functions are the same for any
number of rows. All settings at their defaults; 20,000 further rows for the test.

    python benchmarks/large_tables.py --rows 10000 100000 1000000 --seed 1

`--learning-rate 0.02` is the step of small tables, for comparison.

Machine: 2 CPU cores, jax 0.11.2; the record is results/large-tables.json.
Answer (seed 1, one table each): a million rows take 284 s and 3.0 GB and end 0.013 nats a target
above the truth; 100,000 rows 177 s and 0.025; 10,000 rows 38 s and 0.160. All networks of a million
rows were still improving a little when they ended, and `fit` says so.

Rows, seconds of `fit` with all that it compiles, the largest memory of the process so far, the mean
log score of the test rows, that of the truth, and the difference a target with its standard error.
"""

import argparse
import json
import os
import resource
import time
from pathlib import Path

import numpy as np
from made_tables import moving

from mmlp import atomic_files
from mmlp.estimators import MultivariateRegressor

INPUTS, TARGETS, TEST = 20, 3, 20_000


def made(n: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """X, y of n + TEST rows, and the log density of the last of them; another seed, other rows."""
    rng = np.random.default_rng([seed, n])
    X = rng.standard_normal((n + TEST, INPUTS))
    truth = moving(X, np.random.default_rng(seed))  # the functions alone are drawn here
    y = truth.draw(rng)
    return X, y, truth.log_density(y)[n:]


def measured(n: int, seed: int, rate: float | None) -> dict[str, float]:
    X, y, truth = made(n, seed)
    start = time.perf_counter()
    model = MultivariateRegressor(random_state=seed, learning_rate=rate, verbose=1)
    model.fit(X[:n], y[:n])
    seconds = time.perf_counter() - start
    scores = model.log_density(X[n:], y[n:])
    gap = (truth - scores) / TARGETS
    return {
        "seconds": seconds,
        "memory_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9,
        "log_score": float(scores.mean()),
        "truth": float(truth.mean()),
        "gap_a_target": float(gap.mean()),
        "error": float(gap.std() / np.sqrt(len(gap))),
        "cores": len(os.sched_getaffinity(0)),
    }


def main() -> None:
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument(
        "--rows", nargs="+", type=int, default=[10_000, 100_000, 1_000_000]
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--learning-rate", type=float)
    parser.add_argument("--out", type=Path, default=Path("results/large-tables.json"))
    given = parser.parse_args()
    results = json.loads(given.out.read_text()) if given.out.exists() else {}
    given.out.parent.mkdir(exist_ok=True)
    for n in given.rows:
        rate = given.learning_rate
        step = "" if rate is None else f", rate {rate:g}"
        results[f"{n} rows, seed {given.seed}{step}"] = measured(n, given.seed, rate)
        atomic_files.replace_file(
            given.out, (json.dumps(results, indent=1) + "\n").encode()
        )
    print(
        f"{'':36}{'seconds':>9}{'GB':>6}{'log score':>11}{'truth':>9}{'gap a target':>14}"
    )
    for name, found in results.items():
        print(
            f"{name:36}{found['seconds']:9.0f}{found['memory_gb']:6.1f}{found['log_score']:11.4f}"
            f"{found['truth']:9.4f}{found['gap_a_target']:14.4f} +- {found['error']:.4f}"
        )


if __name__ == "__main__":
    main()
