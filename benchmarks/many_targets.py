"""Question: from how many targets on is a covariance of low rank better, and what do 500 cost?

Made data with 10 inputs: a nonlinear mean, `RANK` factors whose sizes vary with x and a diagonal
that does; the mean and the covariance of each row are known. All settings are the defaults.

    python benchmarks/many_targets.py --forms 20          # full against low rank, log scores
    python benchmarks/many_targets.py --steps 10 20 30    # and the time of a step of training
    python benchmarks/many_targets.py 500 2000            # targets, rows: by the command line

Answer (two cores, shared with other programs, so that times are upper bounds):

- 1000 rows, 20 targets, log score of unseen rows: full -32.38 in 153 s, low rank -32.62 in 101 s;
  the truth has -29.18 (one seed). A step takes 8 and 11 ms with 10 targets, 17 and 9 ms with 20, 50
  and 13 ms with 30; a full fit of 50 had not ended after 20 minutes. So "auto" is full up to 30
  targets, by its cost: log scores of both forms were not compared beyond 20.
- 500 targets, 2000 rows: `mmlp fit` 537 s, `mmlp score` of 500 rows 137 s, 1.7 GB at most; log
  score -510.2, where the truth has -486.5 and a diagonal, trained alike, -975.2; 0.886 of the rows
  in their 90 % ellipsoids. With 1600 rows all 10 factors are found, and no more.
- 3000 targets, 2000 rows, three epochs: 4.3 GB at most; matrices of all rows would take 72 GB.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

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

RANK, INPUTS, TEST = 10, 10, 500


def truth(X: np.ndarray, d: int):
    """Of d targets: the mean (n, d), the scale (n, d) and the loadings (n, RANK, d)."""
    rng = np.random.default_rng(0)
    hidden = np.tanh(X @ rng.normal(size=(INPUTS, 5)) / INPUTS**0.5)
    mean = hidden @ rng.normal(size=(5, d))
    scale = np.exp(hidden @ rng.normal(size=(5, d)) / 4 - 0.5)
    size = np.exp(X @ rng.normal(size=(INPUTS, RANK)) / INPUTS**0.5 / 2)
    directions = np.linspace(0.6, 0.2, RANK)[:, None] * rng.normal(size=(RANK, d))
    return mean, scale, size[:, :, None] * directions


def rows(n: int, d: int, seed: int):
    """X (n, 10), y (n, d) and the mean of log p(y | x) by the truth."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, INPUTS))
    mean, scale, U = truth(X, d)
    errors = scale * rng.normal(size=(n, d))
    errors += np.einsum("nmd,nm->nd", U, rng.normal(size=(n, RANK)))
    p = TraceOneGaussian.from_moments(
        jnp.zeros((n, d), "f4"),
        LowRankGram(jnp.asarray(scale, "f4"), jnp.asarray(U, "f4")),
    )
    return X, mean + errors, float(jnp.mean(p.log_prob(jnp.asarray(errors, "f4"))))


class DiagonalBuilder(LowRankCovarianceBuilder):
    """Loadings of zero, which stay so: U'U has no derivative there."""

    def __call__(self, key, X, targets):
        head = super().__call__(key, X, targets)
        return eqx.tree_at(
            lambda m: m.network.network.matrices[-1].L, head, replace_fn=jnp.zeros_like
        )


def fitted(n: int, d: int, **options) -> tuple[float, float]:
    """The log score of rows that were not seen, and seconds."""
    (X, y, _), (X_test, y_test, _) = rows(n, d, 1), rows(TEST, d, 2)
    start = time.perf_counter()
    model = MultivariateRegressor(random_state=0, **options).fit(X, y)
    seconds = time.perf_counter() - start
    return model.log_score(X_test, y_test), seconds


def step(form: str, d: int) -> tuple[float, float]:
    """Seconds to compile, and milliseconds to compute, the gradients of 5 networks, 64 rows."""
    rank = RANK if form == "low_rank" else None
    model = MultivariateRegressor()
    settings = CovarianceSettings(
        form=FORMS[form],
        head=FAMILIES[model.family],
        architecture=model.network,
        hidden_dims=model.hidden_dims,
        hidden_features=model.hidden_features,
        rank=rank,
        training=TrainingSettings(),
        seed=0,
    )
    X, y = (jnp.asarray(x, "f4") for x in rows(128, d, 1)[:2])
    e = np.asarray(y) / d**0.5
    build, start = FORMS[form].choose_network(settings, INPUTS, e, np.ones(len(e)))
    first = (X,) if start is None else (X, jnp.asarray(start))
    heads = eqx.filter_vmap(lambda key: build(key, *first))(
        jax.random.split(jax.random.key(0), 5)
    )

    def loss(head):
        return jnp.mean(jax.vmap(lambda x, e: -head(x).log_prob(e))(X[:64], y[:64]))

    gradients = eqx.filter_jit(eqx.filter_vmap(eqx.filter_value_and_grad(loss)))
    times = [time.perf_counter()]
    for _ in range(6):
        jax.block_until_ready(gradients(heads))
        times.append(time.perf_counter())
    return times[1] - times[0], 1000 * min(np.diff(times[1:]))


def steps(sizes) -> None:
    print(
        "gradients of 5 networks, 64 rows: full, low rank (seconds to compile, milliseconds)"
    )
    for d in sizes:
        found = [step(form, d) for form in FORMS]
        text = " ".join(f"{first:6.1f} s {later:8.1f} ms" for first, later in found)
        print(f"{d:5d} {text}", flush=True)


def forms(n: int, sizes) -> None:
    print(f"{n} rows, log score of a row (larger is better), seconds\n")
    print(f"{'d':>5} {'truth':>9} {'full':>16} {'low rank':>16}")
    for d in sizes:
        found = [fitted(n, d, covariance=form) for form in ("full", "low_rank")]
        text = " ".join(f"{score:9.2f} {seconds:5.0f} s" for score, seconds in found)
        print(f"{d:5d} {rows(TEST, d, 2)[2]:9.2f} {text}", flush=True)


def command(*words) -> tuple[str, float, float]:
    """What `mmlp` prints, seconds, and the most memory that it or one before it held, in GB."""
    start = time.perf_counter()
    out = subprocess.check_output([sys.executable, "-m", "mmlp.cli", *words], text=True)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e6
    return out, time.perf_counter() - start, peak


def many(d: int, n: int, *, diagonal: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        (train, test), model = (
            (Path(folder, f"{x}.npz") for x in ("train", "test")),
            "m.safetensors",
        )
        for path, count, seed in ((train, n, 1), (test, TEST, 2)):
            X, y, best = rows(count, d, seed)
            np.savez(path, X=X, y=y)
        model = os.path.join(folder, model)
        _, seconds, peak = command(
            "fit", "regression", str(train), "-o", model, "--quiet"
        )
        print(
            f"{d} targets, {n} rows: fit {seconds:.0f} s, peak {peak:.2f} GB",
            flush=True,
        )
        out, seconds, peak = command("score", model, str(test), "--json")
        print(f"score {seconds:.0f} s, peak of both {peak:.2f} GB: {json.loads(out)}")
    print(f"log score: truth {best:.2f}", flush=True)
    if diagonal:
        low_rank_covariance.LowRankCovarianceBuilder = DiagonalBuilder
        print("diagonal, trained alike: {:.2f}, {:.0f} s".format(*fitted(n, d, rank=1)))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sizes", nargs="*", type=int, help="targets and rows")
    parser.add_argument("--no-diagonal", action="store_true")
    parser.add_argument("--steps", nargs="+", type=int, default=[])
    parser.add_argument("--forms", nargs="+", type=int, default=[10, 20, 30, 50, 100])
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if given.steps:
        steps(given.steps)
    elif given.sizes:
        many(*given.sizes, diagonal=not given.no_diagonal)
    else:
        forms(1000, given.forms)


if __name__ == "__main__":
    main()
