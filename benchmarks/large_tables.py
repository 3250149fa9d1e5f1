"""Can `MultivariateRegressor().fit` learn from a million rows in one sitting?

    python benchmarks/large_tables.py --rows 10000 100000 1000000 --seed 1

The synthetic table has 20 inputs and three targets, and its truth is known: the kind
"moving" of benchmarks/synthetic_tables.py with 15 inputs that do not matter. The
functions are the same for any number of rows. All settings are the defaults;
`--learning-rate 0.02`, the rate of small tables, is for comparison. The test has 20,000
further rows.

Prints, and adds to results/large-tables.json: seconds of `fit` including compilation,
the peak memory of the process so far, the mean log score of the test rows, that of the
truth, and the difference per target with its standard error.

Machine: 2 CPU cores, jax 0.11.2.
Answer (seed 1, one table each): a million rows take 284 s and 3.0 GB and end 0.013 nats
per target above the truth; 100,000 rows 177 s and 0.025; 10,000 rows 38 s and 0.160.
With a million rows all networks were still improving slightly when their epochs ended,
and `fit` warned about it.
"""

import argparse
import json
import os
import resource
import time
from pathlib import Path

import numpy as np
from synthetic_tables import make_moving

from mmlp import atomic_files
from mmlp.estimators import MultivariateRegressor

N_INPUTS = 20
N_TARGETS = 3
N_TEST_ROWS = 20_000


def make_table(n_rows: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Make a table of `n_rows` training rows followed by the test rows.

    Returns
    -------
    X : array of shape (n_rows + N_TEST_ROWS, N_INPUTS)
    y : array of shape (n_rows + N_TEST_ROWS, N_TARGETS)
    log_density : array of shape (N_TEST_ROWS,)
        The true log densities of the test rows.
    """
    rng = np.random.default_rng([seed, n_rows])
    X = rng.standard_normal((n_rows + N_TEST_ROWS, N_INPUTS))
    # Only the functions are drawn from this generator.
    truth = make_moving(X, np.random.default_rng(seed))
    y = truth.draw(rng)
    return X, y, truth.log_density(y)[n_rows:]


def measure_fit(
    n_rows: int, seed: int, learning_rate: float | None
) -> dict[str, float]:
    """Fit a table; return time, memory and scores under the names of the record."""
    X, y, truth = make_table(n_rows, seed)
    model = MultivariateRegressor(
        random_state=seed, learning_rate=learning_rate, verbose=1
    )
    start = time.perf_counter()
    model.fit(X[:n_rows], y[:n_rows])
    seconds = time.perf_counter() - start

    scores = model.log_density(X[n_rows:], y[n_rows:])
    gap = (truth - scores) / N_TARGETS
    return {
        "seconds": seconds,
        "memory_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9,
        "log_score": float(scores.mean()),
        "truth": float(truth.mean()),
        "gap_a_target": float(gap.mean()),
        "error": float(gap.std() / np.sqrt(len(gap))),
        "cores": len(os.sched_getaffinity(0)),
    }


def print_results(results: dict[str, dict[str, float]]) -> None:
    """Print one line per fit."""
    print(
        f"{'':36}{'seconds':>9}{'GB':>6}{'log score':>11}{'truth':>9}"
        f"{'gap a target':>14}"
    )
    for name, result in results.items():
        print(
            f"{name:36}{result['seconds']:9.0f}{result['memory_gb']:6.1f}"
            f"{result['log_score']:11.4f}{result['truth']:9.4f}"
            f"{result['gap_a_target']:14.4f} +- {result['error']:.4f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--rows", nargs="+", type=int, default=[10_000, 100_000, 1_000_000]
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--learning-rate", type=float)
    parser.add_argument("--out", type=Path, default=Path("results/large-tables.json"))
    options = parser.parse_args()

    results = json.loads(options.out.read_text()) if options.out.exists() else {}
    options.out.parent.mkdir(exist_ok=True)
    for n_rows in options.rows:
        name = f"{n_rows} rows, seed {options.seed}"
        if options.learning_rate is not None:
            name += f", rate {options.learning_rate:g}"
        results[name] = measure_fit(n_rows, options.seed, options.learning_rate)
        text = json.dumps(results, indent=1) + "\n"
        atomic_files.replace_file(options.out, text.encode())
    print_results(results)


if __name__ == "__main__":
    main()
