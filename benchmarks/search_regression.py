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
from mmlp.estimators import mean
from mmlp.estimators.chunks import apply_networks
from mmlp.estimators.covariance import FAMILIES, Calibration, minus_log_density
from mmlp.estimators.covariance_calibration import fit_contrast, fit_gain
from mmlp.estimators.covariance_networks import (
    OUTPUT_KERNEL_FLOOR,
    FullCovarianceBuilder,
    MatrixNetworkSizes,
    SeparationNetwork,
    ZeroMeanNetwork,
)
from mmlp.estimators.cross_fitting import (
    CrossFit,
    fit_networks,
    out_of_fold,
    split_into_folds,
)
from mmlp.estimators.full_covariance import FullCovariance, move_towards_centre
from mmlp.estimators.scaling import Scaling, StandardizedTable
from mmlp.estimators.training_settings import TrainingSettings
from mmlp.networks import Dense, JointMatrixMLP, MatrixMLP, Perceptron, Triangular
from mmlp.networks.calibration import calibrate
from mmlp.networks.kernels import Linear

FORM = FullCovariance()
HEAD = FAMILIES["power_exponential"]
N_FOLDS = 5


@dataclasses.dataclass(frozen=True)
class Candidate:
    """Build a head of one of the kinds that are compared."""

    kind: str
    n_inputs: int
    dim: int
    hidden_dims: tuple[int, ...] = (10, 10)
    hidden_features: tuple[int, ...] = (64, 64)

    def __call__(self, key, X):
        scales_key, shape_key, calibration_key = jax.random.split(key, 3)
        if self.kind == "cholesky":
            sizes = MatrixNetworkSizes(
                architecture="cholesky",
                n_inputs=self.n_inputs,
                dim=self.dim,
                hidden_dims=self.hidden_dims,
                hidden_features=self.hidden_features,
            )
            return FullCovarianceBuilder(HEAD, sizes)(key, X)

        output: Any = Dense(Linear(floor=OUTPUT_KERNEL_FLOOR))
        if self.kind.endswith("triangular"):
            output = Triangular()
        if self.kind.startswith("joint"):
            network = self.build_joint(HEAD.extra, output, scales_key)
            network = calibrate(network, X, key=calibration_key)
            return HEAD(ZeroMeanNetwork(network, self.dim))

        if self.kind == "matrix":
            shape = MatrixMLP(
                self.n_inputs, self.dim, self.hidden_dims, output=output, key=shape_key
            )
        else:
            shape = self.build_joint(None, output, shape_key)
        n_scales = self.dim + HEAD.extra - 1
        scales = Perceptron(
            (self.n_inputs, *self.hidden_features, n_scales), key=scales_key
        )
        network = SeparationNetwork(
            scales=calibrate(scales, X, key=calibration_key),
            shape=calibrate(shape, X, key=calibration_key),
        )
        return HEAD(ZeroMeanNetwork(network, self.dim))

    def build_joint(self, n_vector, output, key) -> JointMatrixMLP:
        return JointMatrixMLP(
            self.n_inputs,
            self.dim,
            self.hidden_dims,
            n_vector,
            self.hidden_features,
            output=output,
            key=key,
        )


class Table:
    """Rows for training and for testing, and the out-of-fold residuals of the mean."""

    def __init__(self, X, y, X_test, y_test, seed: int, training: TrainingSettings):
        self.seed = seed
        self.row_weights = np.ones(len(X))
        rng = np.random.default_rng(seed)
        partitions = [split_into_folds(len(X), N_FOLDS, rng) for _ in range(2)]
        self.folds = partitions[0]

        input_scaling = Scaling.of(X, self.row_weights)
        self.target_scaling = Scaling.of(y, self.row_weights)
        self.inputs = input_scaling.forward(X)
        self.test_inputs = input_scaling.forward(X_test).astype("float32")
        targets = self.target_scaling.forward(y)

        start = time.perf_counter()
        settings = mean.MeanSettings(
            hidden_features=(64, 64), training=training, seed=seed
        )
        fitted = mean.fit_mean(
            StandardizedTable(self.inputs, targets, self.row_weights),
            partitions,
            settings,
        )
        self.seconds = time.perf_counter() - start

        self.gaussian_process_weights = fitted.gaussian_process_weights
        self.shape = FORM.fit_shape(fitted.residuals, self.row_weights)
        self.residuals = FORM.standardize(self.shape, fitted.residuals)
        self.disagreement = FORM.standardize(self.shape, fitted.disagreement)
        predicted = mean.predict_mean(
            fitted.networks,
            fitted.gaussian_process,
            fitted.gaussian_process_weights,
            self.test_inputs,
        )
        self.test_errors = self.target_scaling.forward(y_test) - predicted

    def evaluate(
        self, candidate: Candidate, training: TrainingSettings
    ) -> dict[str, Any]:
        """Train a candidate, and score each rule for its contrast on the test rows."""
        start = time.perf_counter()
        task = CrossFit(
            build=candidate,
            sample_loss=minus_log_density,
            arrays=(self.inputs, self.residuals),
            row_weights=self.row_weights,
            folds=self.folds,
            seed=self.seed + 1,
        )
        fitted = fit_networks(task, training)
        seconds = time.perf_counter() - start

        inputs = self.inputs.astype("float32")
        parts = apply_networks(FORM.predict_parts, fitted.model, inputs)
        test_parts = apply_networks(FORM.predict_parts, fitted.model, self.test_inputs)
        log_V, *tail = (out_of_fold(part, self.folds) for part in parts)
        best = fit_contrast(
            HEAD.distribution, log_V, tail, self.residuals, self.row_weights
        )

        losses = fitted.history["validation"]
        result: dict[str, Any] = {
            "seconds": seconds,
            "contrast": best,
            "epochs": [len(losses), *np.nanargmin(losses, axis=0).tolist()],
        }
        for rule, contrast in self.contrasts(log_V, tail, best).items():
            gain = fit_gain(
                move_towards_centre(log_V, contrast),
                self.residuals,
                self.disagreement,
                self.row_weights,
                n_mean_networks=2 * len(self.folds),
            )
            calibration = Calibration(self.shape, contrast, gain)
            result[rule] = (contrast, gain, *self.score(test_parts, calibration))
        return result

    def contrasts(self, log_V, tail, best: float) -> dict[str, float]:
        """Return the likeliest contrast, and smaller ones that are not clearly worse."""
        n, d = self.residuals.shape

        def losses(contrast):
            V = matrix_exponential(move_towards_centre(log_V, contrast))
            T = np.linalg.cholesky(np.linalg.inv(V)).mT
            R = np.linalg.qr(np.linalg.inv(T).mT, mode="r")
            distribution = build_distribution(R, np.zeros((n, d)), tail)
            return -np.asarray(distribution.log_prob(self.residuals.astype("float32")))

        losses_at_best = losses(best)
        contrasts = {"likeliest": best, "none": 0.0}
        grid = [(c, losses(c) - losses_at_best) for c in np.linspace(0, best, 11)]
        for n_errors in (0.5, 1.0):
            not_worse = [
                contrast
                for contrast, excess in grid
                if excess.mean() <= n_errors * excess.std() / np.sqrt(n)
            ]
            smallest = float(not_worse[0]) if not_worse else best
            contrasts[f"{n_errors:g} errors"] = smallest
        return contrasts

    def score(self, parts, calibration: Calibration) -> tuple[float, float]:
        """Return negative log-likelihood and coverage of the test rows."""
        covariance, tail = FORM.assemble(parts, calibration, HEAD.distribution)
        zero = np.zeros_like(self.test_errors)
        distribution = build_distribution(covariance.R, zero, tail)
        errors = self.test_errors.astype("float32")
        standardized = metrics.negative_log_likelihood(distribution, errors)
        nll = standardized + np.sum(np.log(self.target_scaling.scale))
        coverage = metrics.ellipsoid_coverage(distribution, errors, 0.9)
        return float(nll), float(coverage)


def matrix_exponential(log_V):
    """Return exp of symmetric matrices (n, d, d)."""
    values, vectors = np.linalg.eigh(log_V)
    return (vectors * np.exp(values)[:, None]) @ vectors.mT


def build_distribution(R, mean, tail):
    """Return the distribution with covariances R'R, in float32."""
    matrix = Gram(jnp.asarray(R, "float32"), upper=True)
    tail = [jnp.asarray(array, "float32") for array in tail]
    mean = jnp.asarray(mean, "float32")
    return HEAD.distribution.from_moments(mean, matrix, *tail)


def rows_of(
    table: str, n: int, seed: int, data: Path | None
) -> tuple[Any, Any, Any, Any, float]:
    """Return X, y of training, of testing, and the truth's nats a row, or zero."""
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
    parser.add_argument(
        "--smooth", type=int, default=mean.MAX_ROWS_FOR_GAUSSIAN_PROCESS
    )
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    mean.MAX_ROWS_FOR_GAUSSIAN_PROCESS = options.smooth

    for name, seed in itertools.product(options.tables, options.seeds):
        X, y, X_test, y_test, truth = rows_of(name, options.rows, seed, options.data)
        table = Table(X, y, X_test, y_test, seed, parse_plan(options.mean))
        about = {
            "table": name,
            "rows": len(X),
            "seed": seed,
            "truth": truth,
            "mean": options.mean,
            "mean_seconds": table.seconds,
            "share": table.gaussian_process_weights.tolist(),
            "smooth": options.smooth,
            "rmse": np.sqrt(np.mean(table.test_errors**2, axis=0)).tolist(),
        }
        for plan, kind in itertools.product(options.plans, options.kinds):
            candidate = Candidate(kind, X.shape[1], y.shape[1])
            result = table.evaluate(candidate, parse_plan(plan))
            line = about | {"kind": kind, "plan": plan} | result
            with options.out.open("a") as file:
                file.write(json.dumps(line) + "\n")


def parse_plan(text: str) -> TrainingSettings:
    """Return training settings from text such as "64 500 0.02"."""
    batch_size, max_epochs, learning_rate = text.split()
    return TrainingSettings(
        batch_size=int(batch_size),
        max_epochs=int(max_epochs),
        learning_rate=float(learning_rate),
    )


if __name__ == "__main__":
    main()
