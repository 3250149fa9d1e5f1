"""The tour, first part: learn covariance matrices from inputs.

The data are synthetic: two hidden factors c drive ten inputs X = tanh(E c) and a
covariance R(c) diag(s(c)) R(c)' whose eigenvectors turn with c. Two networks are
compared with predictors that need no training.
"""

import dataclasses
from pathlib import Path
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

from mmlp.datasets import turning_factors
from mmlp.demo.text_table import make_table
from mmlp.divergences import quadratic, stein, von_neumann
from mmlp.networks import CholeskyMLP, MatrixMLP
from mmlp.networks.calibration import calibrate
from mmlp.reporting.baselines import log_euclidean_mean, predict_from_neighbours
from mmlp.spd import SPD, Gram
from mmlp.training import default_optimizer, fit

TITLE = "covariance matrices from inputs"
FIGURE_FILE = "demo-covariances.png"
MEASURES = {"von Neumann": von_neumann, "Stein": stein, "quadratic": quadratic}
N_NEIGHBOURS = 5
N_SAMPLES_DRAWN = 4

Data = tuple[jax.Array, Gram]


@dataclasses.dataclass(frozen=True)
class Settings:
    """Learn covariance matrices from inputs."""

    dim: int = 6
    features: int = 10
    train: int = 160
    validation: int = 40
    test: int = 500
    epochs: int = 300
    batch_size: int = 40
    seed: int = 0

    QUICK: ClassVar = {
        "train": 40,
        "validation": 10,
        "test": 20,
        "epochs": 30,
        "batch_size": 20,
    }


def make_data(settings: Settings) -> Data:
    """Return inputs X (n, features) and covariances of size dim and trace one."""
    keys = jax.random.split(jax.random.key(settings.seed), 4)
    n = settings.train + settings.validation + settings.test
    d = settings.dim
    c = jax.random.normal(keys[0], (n, 2))
    E = jax.random.normal(keys[1], (2, settings.features))
    log_scales = 0.3 * c @ jax.random.normal(keys[3], (2, d)) - jnp.linspace(0, 2, d)
    generators = jax.random.normal(keys[2], (2, d, d))
    factors = turning_factors(0.15 * c, generators, jnp.exp(log_scales))
    return jnp.tanh(c @ E), Gram.trace_one(jnp.asarray(factors))


def split(data: Data, settings: Settings) -> tuple[Data, Data, Data]:
    """Return training, validation and test samples."""
    first_test = settings.train + settings.validation

    def select(rows: slice) -> Data:
        return jax.tree.map(lambda x: x[rows], data)

    return (
        select(slice(settings.train)),
        select(slice(settings.train, first_test)),
        select(slice(first_test, None)),
    )


def loss(model: Any, batch: Data, key: jax.Array, t: jax.Array) -> jax.Array:
    """Return the mean von Neumann divergence of a batch."""
    X, Y = batch
    return jnp.mean(von_neumann(jax.vmap(model)(X), Y))


def predict_without_training(
    train: Data, X_test: jax.Array, settings: Settings
) -> dict[str, SPD]:
    """Return the predictions of one mean for all, and of the nearest neighbours."""
    X = np.asarray(train[0], np.float64)
    T = np.asarray(train[1].factor, np.float64)
    d = settings.dim
    constant = np.broadcast_to(log_euclidean_mean(T), (settings.test, d, d))
    nearest = predict_from_neighbours(
        X, T, np.asarray(X_test, np.float64), N_NEIGHBOURS
    )
    return {
        "constant (log-Euclidean mean)": Gram(jnp.asarray(constant)),
        f"{N_NEIGHBOURS} nearest neighbours": Gram(jnp.asarray(nearest)),
    }


def predict_with_network(
    network: eqx.Module,
    train: Data,
    validation: Data,
    X_test: jax.Array,
    settings: Settings,
) -> SPD:
    """Train a network, and return its predictions."""
    batches_per_epoch = -(-settings.train // settings.batch_size)
    result = fit(
        calibrate(network, train[0], key=jax.random.key(1)),
        loss,
        train,
        key=jax.random.key(2),
        epochs=settings.epochs,
        batch_size=settings.batch_size,
        optimizer=default_optimizer(settings.epochs * batches_per_epoch),
        validation=validation,
    )
    return jax.jit(lambda model, X: jax.vmap(model)(X))(result.model, X_test)


def run(settings: Settings) -> dict[str, Any]:
    """Train the networks, and compare them on held-out matrices."""
    train, validation, (X_test, Y_test) = split(make_data(settings), settings)
    key = jax.random.key(settings.seed)
    p = settings.features
    d = settings.dim
    networks = {
        "Cholesky MLP, 2 x 60": CholeskyMLP(p, d, (60, 60), key=key),
        "matrix MLP, 3 x 20": MatrixMLP(p, d, (20, 20, 20), key=key),
    }
    predictions = predict_without_training(train, X_test, settings)
    for name, network in networks.items():
        predictions[name] = predict_with_network(
            network, train, validation, X_test, settings
        )

    errors = {}
    for name, predicted in predictions.items():
        errors[name] = [
            float(measure(predicted, Y_test).mean()) for measure in MEASURES.values()
        ]
    matrices = {}
    for name, values in {"target": Y_test, **predictions}.items():
        drawn = np.asarray(values.dense()[:N_SAMPLES_DRAWN], np.float64)
        matrices[name] = drawn.tolist()
    return {
        "title": TITLE,
        "about": (
            f"{settings.train} samples: {p} inputs, and a covariance matrix {d} x {d} "
            "whose eigenvectors turn with them. Below, the mean divergence of "
            f"predictions from {settings.test} unseen matrices."
        ),
        "tables": [make_table("Mean divergence", ["predictor", *MEASURES], errors)],
        "figures": [
            {
                "file": FIGURE_FILE,
                "caption": "Covariances of four unseen samples, a column each.",
            }
        ],
        "matrices": matrices,
    }


def draw(record: dict[str, Any], out: Path) -> None:
    """Draw matrices as images: predictors in rows, samples in columns."""
    matrices = {
        name: np.array(values) for name, values in record["result"]["matrices"].items()
    }
    target = matrices["target"]
    n_samples = len(target)
    limits = np.abs(target).max(axis=(1, 2))

    figure = Figure(
        figsize=(1.6 * n_samples + 2.2, 1.6 * len(matrices)), layout="constrained"
    )
    all_axes = figure.subplots(len(matrices), n_samples, squeeze=False)
    for row, (name, images) in zip(all_axes, matrices.items(), strict=True):
        for ax, image, limit in zip(row, images, limits, strict=True):
            ax.imshow(image, cmap="RdBu_r", vmin=-limit, vmax=limit)
            ax.set(xticks=[], yticks=[])
        label = name.replace(" (", "\n(").replace(", ", "\n")
        row[0].set_ylabel(label, rotation=0, ha="right", va="center")
    figure.savefig(out / FIGURE_FILE, dpi=120)
