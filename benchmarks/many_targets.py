"""From how many targets is a low-rank covariance better, and what do 500 cost?

    python benchmarks/many_targets.py --forms 20
    python benchmarks/many_targets.py --steps 10 20 30
    python benchmarks/many_targets.py 500 2000

The first prints log scores of full and low-rank covariances, the second the time of a
training step of both, and the third fits 500 targets of 2000 rows with the `mmlp`
command. The synthetic data have 10 inputs, a nonlinear mean, 10 factors and a diagonal,
whose sizes vary with x; the mean and the covariance of each row are known. All settings
are the defaults.

Answer (two cores, shared with other programs, so that times are upper bounds):

- 1000 rows, 20 targets, log score of unseen rows: full -32.38 in 153 s, low rank -32.62
  in 101 s; the truth has -29.18 (one seed). A step takes 8 and 11 ms with 10 targets,
  17 and 9 ms with 20, 50 and 13 ms with 30; a full fit of 50 had not ended after 20
  minutes. "auto" is therefore full up to 30 targets, because of its cost: log scores of
  both forms were not compared beyond 20.
- 500 targets, 2000 rows: `mmlp fit` 537 s, `mmlp score` of 500 rows 137 s, 1.7 GB at
  most; log score -510.2, where the truth has -486.5 and a diagonal, trained in the same
  way, -975.2; 0.886 of the rows in their 90 % ellipsoids. With 1600 rows all 10 factors
  are found, and no more.
- 3000 targets, 2000 rows, three epochs: 4.3 GB at most; matrices of all rows would take
  72 GB.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from mmlp import LowRankGram, TraceOneGaussian
from mmlp.estimators import MultivariateRegressor, low_rank_covariance
from mmlp.estimators.covariance import FAMILIES, CovarianceSettings
from mmlp.estimators.covariance_networks import LowRankCovarianceBuilder
from mmlp.estimators.regression import FORMS
from mmlp.estimators.training_settings import TrainingSettings

RANK = 10
N_INPUTS = 10
N_TEST_ROWS = 500
N_ROWS_FOR_FORMS = 1000
TRAINING_SEED = 1
TEST_SEED = 2

N_NETWORKS = 5
STEP_BATCH_SIZE = 64
N_STEP_REPEATS = 6


# Data


class Truth(NamedTuple):
    """The mean (n, d), the scale (n, d) and the loadings (n, RANK, d)."""

    mean: np.ndarray
    scale: np.ndarray
    loadings: np.ndarray


class Table(NamedTuple):
    """Inputs (n, 10), targets (n, d), and the mean log density under the truth."""

    X: np.ndarray
    y: np.ndarray
    true_log_score: float


def compute_truth(X: np.ndarray, d: int) -> Truth:
    """Return the distributions of d targets given the inputs."""
    rng = np.random.default_rng(0)
    hidden = np.tanh(X @ rng.normal(size=(N_INPUTS, 5)) / N_INPUTS**0.5)
    mean = hidden @ rng.normal(size=(5, d))
    scale = np.exp(hidden @ rng.normal(size=(5, d)) / 4 - 0.5)
    factor_sizes = np.exp(X @ rng.normal(size=(N_INPUTS, RANK)) / N_INPUTS**0.5 / 2)
    directions = np.linspace(0.6, 0.2, RANK)[:, None] * rng.normal(size=(RANK, d))
    return Truth(mean, scale, factor_sizes[:, :, None] * directions)


def make_table(n: int, d: int, seed: int) -> Table:
    """Draw n rows of d targets."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, N_INPUTS))
    truth = compute_truth(X, d)
    errors = truth.scale * rng.normal(size=(n, d))
    factors = rng.normal(size=(n, RANK))
    errors += np.einsum("nmd,nm->nd", truth.loadings, factors)

    covariance = LowRankGram(
        jnp.asarray(truth.scale, "float32"), jnp.asarray(truth.loadings, "float32")
    )
    distribution = TraceOneGaussian.from_moments(
        jnp.zeros((n, d), "float32"), covariance
    )
    log_density = distribution.log_prob(jnp.asarray(errors, "float32"))
    return Table(X, truth.mean + errors, float(jnp.mean(log_density)))


# Full against low rank: log scores


def score_regressor(n: int, d: int, **options: Any) -> tuple[float, float]:
    """Return the log score of unseen rows, and the seconds of the fit."""
    training = make_table(n, d, TRAINING_SEED)
    test = make_table(N_TEST_ROWS, d, TEST_SEED)
    model = MultivariateRegressor(random_state=0, **options)
    start = time.perf_counter()
    model.fit(training.X, training.y)
    seconds = time.perf_counter() - start
    return model.log_score(test.X, test.y), seconds


def compare_log_scores(n: int, sizes: Iterable[int]) -> None:
    """Print the log scores of both forms of covariance."""
    print(f"{n} rows, log score of a row (larger is better), seconds\n")
    print(f"{'d':>5} {'truth':>9} {'full':>16} {'low rank':>16}")
    for d in sizes:
        cells = []
        for form in ("full", "low_rank"):
            score, seconds = score_regressor(n, d, covariance=form)
            cells.append(f"{score:9.2f} {seconds:5.0f} s")
        truth = make_table(N_TEST_ROWS, d, TEST_SEED).true_log_score
        print(f"{d:5d} {truth:9.2f} {' '.join(cells)}", flush=True)


# Full against low rank: times


def time_gradients(form: str, d: int) -> tuple[float, float]:
    """Return seconds to compile and milliseconds to compute gradients of 5 networks."""
    model = MultivariateRegressor()
    settings = CovarianceSettings(
        form=FORMS[form],
        head=FAMILIES[model.family],
        architecture=model.network,
        hidden_dims=model.hidden_dims,
        hidden_features=model.hidden_features,
        rank=RANK if form == "low_rank" else None,
        training=TrainingSettings(),
        seed=0,
    )
    table = make_table(2 * STEP_BATCH_SIZE, d, TRAINING_SEED)
    X = jnp.asarray(table.X, "float32")
    y = jnp.asarray(table.y, "float32")
    residuals = np.asarray(y) / d**0.5
    build, targets = FORMS[form].choose_network(
        settings, N_INPUTS, residuals, np.ones(len(residuals))
    )
    arrays = (X,) if targets is None else (X, jnp.asarray(targets))
    keys = jax.random.split(jax.random.key(0), N_NETWORKS)
    heads = eqx.filter_vmap(lambda key: build(key, *arrays))(keys)

    def loss(head: Any) -> jax.Array:
        log_prob = jax.vmap(lambda x, e: -head(x).log_prob(e))
        return jnp.mean(log_prob(X[:STEP_BATCH_SIZE], y[:STEP_BATCH_SIZE]))

    gradients = eqx.filter_jit(eqx.filter_vmap(eqx.filter_value_and_grad(loss)))
    ends = [time.perf_counter()]
    for _ in range(N_STEP_REPEATS):
        jax.block_until_ready(gradients(heads))
        ends.append(time.perf_counter())
    seconds = np.diff(ends)
    return float(seconds[0]), 1000 * float(min(seconds[1:]))


def compare_step_times(sizes: Iterable[int]) -> None:
    """Print the times of both forms of covariance."""
    print(
        f"gradients of {N_NETWORKS} networks, {STEP_BATCH_SIZE} rows: "
        "full, low rank (seconds to compile, milliseconds)"
    )
    for d in sizes:
        cells = []
        for form in FORMS:
            compilation, step = time_gradients(form, d)
            cells.append(f"{compilation:6.1f} s {step:8.1f} ms")
        print(f"{d:5d} {' '.join(cells)}", flush=True)


# Many targets, with the command line


class DiagonalBuilder(LowRankCovarianceBuilder):
    """Start from loadings of zero, where U'U has no derivative: they stay zero."""

    def __call__(self, key: Any, X: Any, targets: Any) -> Any:
        head = super().__call__(key, X, targets)
        return eqx.tree_at(
            lambda m: m.network.network.matrices[-1].L, head, replace_fn=jnp.zeros_like
        )


def run_mmlp(*arguments: str) -> tuple[str, float, float]:
    """Return the output of `mmlp`, seconds, and the peak memory so far in GB."""
    start = time.perf_counter()
    command = [sys.executable, "-m", "mmlp.cli", *arguments]
    output = subprocess.check_output(command, text=True)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e6
    return output, seconds, peak


def fit_many_targets(d: int, n: int, *, compare_diagonal: bool) -> None:
    """Print time, memory and scores of `mmlp fit` and `mmlp score`."""
    training = make_table(n, d, TRAINING_SEED)
    test = make_table(N_TEST_ROWS, d, TEST_SEED)
    with tempfile.TemporaryDirectory() as folder:
        training_path = str(Path(folder, "train.npz"))
        test_path = str(Path(folder, "test.npz"))
        model_path = str(Path(folder, "m.safetensors"))
        np.savez(training_path, X=training.X, y=training.y)
        np.savez(test_path, X=test.X, y=test.y)

        _, seconds, peak = run_mmlp(
            "fit", "regression", training_path, "-o", model_path, "--quiet"
        )
        print(
            f"{d} targets, {n} rows: fit {seconds:.0f} s, peak {peak:.2f} GB",
            flush=True,
        )
        output, seconds, peak = run_mmlp("score", model_path, test_path, "--json")
        scores = json.loads(output)
        print(f"score {seconds:.0f} s, peak of both {peak:.2f} GB: {scores}")

    print(f"log score: truth {test.true_log_score:.2f}", flush=True)
    if compare_diagonal:
        low_rank_covariance.LowRankCovarianceBuilder = DiagonalBuilder
        score, seconds = score_regressor(n, d, rank=1)
        print(f"diagonal, trained alike: {score:.2f}, {seconds:.0f} s")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sizes", nargs="*", type=int, help="targets and rows")
    parser.add_argument("--no-diagonal", action="store_true")
    parser.add_argument("--steps", nargs="+", type=int, default=[])
    parser.add_argument("--forms", nargs="+", type=int, default=[10, 20, 30, 50, 100])
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.steps:
        compare_step_times(options.steps)
    elif options.sizes:
        n_targets, n_rows = options.sizes
        fit_many_targets(n_targets, n_rows, compare_diagonal=not options.no_diagonal)
    else:
        compare_log_scores(N_ROWS_FOR_FORMS, options.forms)


if __name__ == "__main__":
    main()
