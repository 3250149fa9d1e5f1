"""Question: which networks and which training suit `MultivariateRegressor`, on rows never reported?

    python benchmarks/search_regression.py TABLES --seeds 20 21 --data DIR --out FILE

TABLES are enb, jura, whose splits from 20 on are of no report, or those of
benchmarks/synthetic_tables.py with `--rows`. All candidates share the means, and so the residuals; each
line of the file is the negative log-likelihood of one candidate, by what corrects its contrast.

Answer (results/search/regression.json), enb, splits 20 to 29, the same settings for all:

    scales by an MLP, the shape by a joint one, Dense()      0.863    the default, network="joint"
    JointMatrixMLP, Triangular()                             0.888    behind by 0.024 +- 0.035
    scales by an MLP, the shape by a MatrixMLP (9 splits)    0.892    behind by 0.023 +- 0.023
    CholeskyMLP                                              0.981    behind by 0.117 +- 0.073

The first three are level. A contrast smaller than the likeliest, by what held rows cannot tell
apart, gains nothing (0.871 at one standard error). jura was not searched.
"""

import argparse
import dataclasses
import itertools
import json
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from regression import read_table, split_rows
from synthetic_tables import TABLES, make_table

from mmlp import Gram, metrics
from mmlp.estimators import covariance, covariance_calibration, mean
from mmlp.estimators.chunks import predictions
from mmlp.estimators.covariance import (
    FAMILIES,
    FLOOR,
    Centred,
    Separated,
    minus_log_density,
)
from mmlp.estimators.cross_fitting import Scaling, Training, fit_folds, folds, held
from mmlp.estimators.full_covariance import Full, drawn_in
from mmlp.networks import Dense, JointMatrixMLP, MatrixMLP, Perceptron, Triangular
from mmlp.networks.calibration import calibrate
from mmlp.networks.kernels import Linear

FORM, HEAD = Full(), FAMILIES["power_exponential"]


@dataclasses.dataclass(frozen=True)
class Candidate:
    kind: str
    features: int
    dim: int
    hidden_dims: tuple[int, ...] = (10, 10)
    hidden_features: tuple[int, ...] = (64, 64)

    def __call__(self, key, X):
        keys, p, d = jax.random.split(key, 3), self.features, self.dim
        widths = self.hidden_dims, self.hidden_features
        if self.kind == "cholesky":
            return covariance.Covariance(HEAD, self.kind, p, d, *widths)(key, X)
        output = (
            Triangular()
            if self.kind.endswith("triangular")
            else Dense(Linear(floor=FLOOR))
        )
        if self.kind.startswith("joint"):
            options = {"output": output, "key": keys[0]}
            network = JointMatrixMLP(p, d, widths[0], HEAD.extra, widths[1], **options)
            return HEAD(Centred(calibrate(network, X, key=keys[2]), d))
        if self.kind == "matrix":
            shape = MatrixMLP(p, d, widths[0], output=output, key=keys[1])
        else:
            shape = JointMatrixMLP(
                p, d, widths[0], None, widths[1], output=output, key=keys[1]
            )
        scales = Perceptron((p, *widths[1], d + HEAD.extra - 1), key=keys[0])
        return HEAD(
            Centred(
                Separated(*(calibrate(m, X, key=keys[2]) for m in (scales, shape))), d
            )
        )


class Table:
    """Rows for training and for judging, and the residuals of held rows."""

    def __init__(self, X, y, X_test, y_test, seed: int, plan: Training):
        self.weight, rng = np.ones(len(X)), np.random.default_rng(seed)
        self.partitions = [folds(len(X), 5, rng) for _ in range(2)]
        inputs, self.target = (Scaling.of(a, self.weight) for a in (X, y))
        self.x, self.z = inputs.forward(X), self.target.forward(y)
        self.rows = self.x.astype("float32"), inputs.forward(X_test).astype("float32")
        how: Any = {"training": plan, "seed": seed, "checkpoint": None}
        start, self.seed = time.perf_counter(), seed
        fitted = mean.fit_mean(
            (64, 64), self.x, self.z, self.weight, self.partitions, **how
        )
        self.seconds, self.share = time.perf_counter() - start, fitted.share
        self.L = FORM.shape(fitted.residuals, self.weight)
        pair = (fitted.residuals, fitted.apart)
        self.e, self.apart = (FORM.standard(self.L, r) for r in pair)
        predicted = mean.predicted_mean(fitted.models, fitted.share, self.rows[1])
        self.errors = self.target.forward(y_test) - predicted

    def judged(self, candidate: Candidate, plan: Training) -> dict[str, Any]:
        start, parts = time.perf_counter(), self.partitions[0]
        how: Any = {"training": plan, "seed": self.seed + 1, "checkpoint": None}
        data = (self.x, self.e)
        fitted = fit_folds(
            candidate, minus_log_density, data, self.weight, parts, **how
        )
        seconds = time.perf_counter() - start
        learnt = predictions(FORM.learnt, fitted.model, self.rows[0])
        log_V, *tail = (held(a, parts) for a in learnt)
        best = covariance_calibration.contrast(
            HEAD.distribution, log_V, tail, self.e, self.weight
        )
        test = predictions(FORM.learnt, fitted.model, self.rows[1])
        result: dict[str, Any] = {"seconds": seconds, "contrast": best}
        epochs = fitted.history["validation"]
        result["epochs"] = [len(epochs), *np.nanargmin(epochs, axis=0).tolist()]
        for rule, c in self.rules(log_V, tail, best).items():
            drawn = drawn_in(log_V, c)
            gain = covariance_calibration.gain(
                drawn, self.e, self.apart, self.weight, 2 * len(parts)
            )
            result[rule] = (c, gain, *self.score(test, c, gain))
        return result

    def rules(self, log_V, tail, best: float) -> dict[str, float]:
        """The likeliest contrast, and smaller ones that are not clearly worse on held rows."""
        n, d = self.e.shape

        def losses(c):
            T = np.linalg.cholesky(np.linalg.inv(_exp(drawn_in(log_V, c)))).mT
            R = np.linalg.qr(np.linalg.inv(T).mT, mode="r")
            return -np.asarray(
                _law(R, np.zeros((n, d)), tail).log_prob(self.e.astype("float32"))
            )

        at_best, found = losses(best), {"likeliest": best, "none": 0.0}
        grid = [(c, losses(c) - at_best) for c in np.linspace(0, best, 11)]
        for many in (0.5, 1.0):
            fits = [c for c, x in grid if x.mean() <= many * x.std() / np.sqrt(n)]
            found[f"{many:g} errors"] = float(fits[0]) if fits else best
        return found

    def score(self, learnt, c: float, gain: float) -> tuple[float, float]:
        V, tail = FORM.assembled(learnt, self.L, c, gain, HEAD.distribution)
        law = _law(V.R, np.zeros_like(self.errors), tail)
        errors = self.errors.astype("float32")
        nll = metrics.negative_log_likelihood(law, errors) + np.sum(
            np.log(self.target.scale)
        )
        return float(nll), float(metrics.ellipsoid_coverage(law, errors, 0.9))


def _exp(log_V):
    values, vectors = np.linalg.eigh(log_V)
    return (vectors * np.exp(values)[:, None]) @ vectors.mT


def _law(R, loc, tail):
    value = Gram(jnp.asarray(R, "float32"), upper=True)
    rest = (jnp.asarray(a, "float32") for a in tail)
    return HEAD.distribution.from_moments(jnp.asarray(loc, "float32"), value, *rest)


def rows_of(
    table: str, n: int, seed: int, data: Path | None
) -> tuple[Any, Any, Any, Any, float]:
    """X, y of training, of judging, and the truth's nats a row, or zero."""
    if table in TABLES:
        X, y, truth = make_table(table, n, seed)
        return X[:n], y[:n], X[n:], y[n:], -float(truth.mean())
    assert data is not None
    return *split_rows(*read_table(data, table), seed), 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables", nargs="+")
    parser.add_argument("--rows", type=int, default=100)
    parser.add_argument("--seeds", type=int, nargs="+", default=[20])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--mean", default="64 500 0.02", help="batch, epochs, rate")
    parser.add_argument("--plans", nargs="+", default=["64 500 0.02"])
    parser.add_argument("--kinds", nargs="+", default=["cholesky", "matrix"])
    parser.add_argument("--smooth", type=int, default=mean.MOST)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    mean.MOST = given.smooth
    for name, seed in itertools.product(given.tables, given.seeds):
        X, y, X_test, y_test, truth = rows_of(name, given.rows, seed, given.data)
        table = Table(X, y, X_test, y_test, seed, _plan(given.mean))
        about = {"table": name, "rows": len(X), "seed": seed, "truth": truth}
        about |= {
            "mean": given.mean,
            "mean_seconds": table.seconds,
            "share": table.share.tolist(),
        }
        about["smooth"] = given.smooth
        about["rmse"] = np.sqrt(np.mean(table.errors**2, axis=0)).tolist()
        for plan in given.plans:
            for kind in given.kinds:
                candidate = Candidate(kind, X.shape[1], y.shape[1])
                line = about | {"kind": kind, "plan": plan}
                line |= table.judged(candidate, _plan(plan))
                with given.out.open("a") as file:
                    file.write(json.dumps(line) + "\n")


def _plan(text: str) -> Training:
    size, epochs, rate = text.split()
    return Training(
        batch_size=int(size), max_epochs=int(epochs), learning_rate=float(rate)
    )


if __name__ == "__main__":
    main()
