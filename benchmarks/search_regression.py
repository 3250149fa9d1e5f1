"""Which networks and which training suit `MultivariateRegressor`?

    python benchmarks/search_regression.py TABLES --seeds 20 21 --data DIR --out FILE

TABLES are enb and jura, whose splits from 20 on appear in no report, or those of
benchmarks/synthetic_tables.py with `--rows`. All candidates share the mean and so its
residuals. Each line that is added to FILE (JSON) is one candidate, with its negative
log-likelihood and coverage for several rules that choose its contrast.

Answer (results/search/regression.json), enb, splits 20 to 29, the same settings for
all:

    scales by an MLP, shape by a joint one, Dense()          0.863    the default
    JointMatrixMLP, Triangular()                             0.888    + 0.024 +- 0.035
    scales by an MLP, shape by a MatrixMLP (9 splits)        0.892    + 0.023 +- 0.023
    CholeskyMLP                                              0.981    + 0.117 +- 0.073

The default is network="joint", and the last column is the difference to it. The first
three are level. A contrast smaller than the likeliest one, if held-out rows cannot tell
them apart, improves nothing (0.871 at one standard error). jura was not searched.
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
from regression import Rows, read_table, split_rows
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
HIDDEN_FEATURES_OF_MEAN = (64, 64)
N_CONTRASTS = 11
COVERAGE_LEVEL = 0.9


@dataclasses.dataclass(frozen=True)
class Candidate:
    """Build a head of one of the kinds that are compared."""

    kind: str
    n_inputs: int
    dim: int
    hidden_dims: tuple[int, ...] = (10, 10)
    hidden_features: tuple[int, ...] = (64, 64)

    def __call__(self, key: jax.Array, X: jax.Array) -> Any:
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

    def build_joint(
        self, n_vector: int | None, output: Any, key: jax.Array
    ) -> JointMatrixMLP:
        """Return a joint network with `n_vector` outputs beside its matrix."""
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

    def __init__(self, rows: Rows, seed: int, training: TrainingSettings) -> None:
        X, y, X_test, y_test = rows
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
            hidden_features=HIDDEN_FEATURES_OF_MEAN, training=training, seed=seed
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
        for rule, contrast in self.choose_contrasts(log_V, tail, best).items():
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

    def choose_contrasts(
        self, log_V: np.ndarray, tail: list[np.ndarray], best: float
    ) -> dict[str, float]:
        """Return the likeliest contrast, and smaller ones that are about as good."""
        n, d = self.residuals.shape

        def compute_losses(contrast: float) -> np.ndarray:
            V = compute_exponential(move_towards_centre(log_V, contrast))
            T = np.linalg.cholesky(np.linalg.inv(V)).mT
            R = np.linalg.qr(np.linalg.inv(T).mT, mode="r")
            distribution = build_distribution(R, np.zeros((n, d)), tail)
            return -np.asarray(distribution.log_prob(self.residuals.astype("float32")))

        losses_at_best = compute_losses(best)
        contrasts = {"likeliest": best, "none": 0.0}
        grid = [
            (contrast, compute_losses(contrast) - losses_at_best)
            for contrast in np.linspace(0, best, N_CONTRASTS)
        ]
        for n_errors in (0.5, 1.0):
            not_worse = [
                contrast
                for contrast, excess in grid
                if excess.mean() <= n_errors * excess.std() / np.sqrt(n)
            ]
            smallest = float(not_worse[0]) if not_worse else best
            contrasts[f"{n_errors:g} errors"] = smallest
        return contrasts

    def score(self, parts: Any, calibration: Calibration) -> tuple[float, float]:
        """Return negative log-likelihood and coverage of the test rows."""
        covariance, tail = FORM.assemble(parts, calibration, HEAD.distribution)
        zero = np.zeros_like(self.test_errors)
        distribution = build_distribution(covariance.R, zero, tail)
        errors = self.test_errors.astype("float32")
        standardized = metrics.negative_log_likelihood(distribution, errors)
        nll = standardized + np.sum(np.log(self.target_scaling.scale))
        coverage = metrics.ellipsoid_coverage(distribution, errors, COVERAGE_LEVEL)
        return float(nll), float(coverage)


def compute_exponential(log_V: np.ndarray) -> np.ndarray:
    """Return exp of symmetric matrices (n, d, d)."""
    eigenvalues, V = np.linalg.eigh(log_V)
    return (V * np.exp(eigenvalues)[:, None]) @ V.mT


def build_distribution(R: Any, mean: np.ndarray, tail: Any) -> Any:
    """Return the distribution with covariances R'R, in float32."""
    return HEAD.distribution.from_moments(
        jnp.asarray(mean, "float32"),
        Gram(jnp.asarray(R, "float32"), upper=True),
        *(jnp.asarray(array, "float32") for array in tail),
    )


def load_rows(
    table: str, n_rows: int, seed: int, folder: Path | None
) -> tuple[Rows, float]:
    """Return the rows, and the negative log-likelihood of the truth if it is known.

    Otherwise the second value is zero.
    """
    if table in TABLES:
        X, y, truth = make_table(table, n_rows, seed)
        rows = (X[:n_rows], y[:n_rows], X[n_rows:], y[n_rows:])
        return rows, -float(truth.mean())
    assert folder is not None
    return split_rows(*read_table(folder, table), seed), 0.0


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
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
        rows, truth = load_rows(name, options.rows, seed, options.data)
        table = Table(rows, seed, parse_plan(options.mean))
        X, y, _, _ = rows
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
