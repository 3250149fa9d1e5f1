"""The tour, first part: learn covariance matrices from inputs, and compare with simpler predictors.

    python -m mmlp.experiments.tour.covariances [--quick] [--out report]

The data are made here: two hidden factors c drive ten inputs X = tanh(E c) and a covariance R(c) diag(s(c)) R(c)' whose
eigenvectors turn with c.
"""

import dataclasses
import itertools
from pathlib import Path
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import expm
from matplotlib.figure import Figure

from mmlp.divergences import quadratic, stein, von_neumann
from mmlp.experiments.harness.run import main
from mmlp.experiments.spd import baselines
from mmlp.experiments.tour import core as _tour
from mmlp.initialisation import calibrate
from mmlp.networks import CholeskyMLP, MatrixMLP
from mmlp.spd import Gram
from mmlp.training.core import fit
from mmlp.training.optimizers import default_optimizer

TITLE = "covariance matrices from inputs"
MEASURES = {"von Neumann": von_neumann, "Stein": stein, "quadratic": quadratic}


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
    neighbours: int = 5
    seed: int = 0

    QUICK: ClassVar = {"train": 40, "validation": 10, "test": 20, "epochs": 30, "batch_size": 20}


def make_data(settings: Settings) -> tuple[jax.Array, Gram]:
    """Inputs X (n, features) and trace-one covariances of size dim."""
    keys = jax.random.split(jax.random.key(settings.seed), 4)
    n, d = settings.train + settings.validation + settings.test, settings.dim
    c = jax.random.normal(keys[0], (n, 2))
    E = jax.random.normal(keys[1], (2, settings.features))
    generators = jax.random.normal(keys[2], (2, d, d))
    turn = expm(0.15 * jnp.einsum("nq,qij->nij", c, generators - generators.mT))  # R(c)', rotations
    s = jnp.exp(0.3 * c @ jax.random.normal(keys[3], (2, d)) - jnp.linspace(0, 2, d))
    return jnp.tanh(c @ E), Gram.trace_one(s[:, :, None] * turn)


def loss(model, batch, key, t):
    X, Y = batch
    return jnp.mean(von_neumann(jax.vmap(model)(X), Y))


def train(network, data, validation, settings: Settings):
    """A network, calibrated and trained with the default recipe; the epoch with the best validation loss is kept."""
    network = calibrate(network, data[0], key=jax.random.key(1))
    steps = settings.epochs * -(-settings.train // settings.batch_size)
    return fit(
        network,
        loss,
        data,
        key=jax.random.key(2),
        epochs=settings.epochs,
        batch_size=settings.batch_size,
        optimizer=default_optimizer(steps),
        validation=validation,
    ).model


def run(settings: Settings) -> dict:
    X, Y = make_data(settings)
    cuts = (0, settings.train, settings.train + settings.validation, len(X))
    parts = [
        (X[a:b], jax.tree.map(lambda y, a=a, b=b: y[a:b], Y)) for a, b in itertools.pairwise(cuts)
    ]
    (X_train, Y_train), validation, (X_test, Y_test) = parts
    key, p, d = jax.random.key(settings.seed), settings.features, settings.dim
    networks = {
        "Cholesky MLP, 2 x 60": CholeskyMLP(p, d, (60, 60), key=key),
        "matrix MLP, 3 x 20": MatrixMLP(p, d, (20, 20, 20), key=key),
    }
    X_known, T, X_new = (np.asarray(part, np.float64) for part in (X_train, Y_train.factor, X_test))
    constant = np.broadcast_to(baselines.log_euclidean_mean(T), (settings.test, d, d))
    neighbours = baselines.nearest_neighbours(X_known, T, X_new, settings.neighbours)
    predictions = {
        "constant (log-Euclidean mean)": Gram(jnp.asarray(constant)),
        f"{settings.neighbours} nearest neighbours": Gram(jnp.asarray(neighbours)),
    }
    for name, network in networks.items():
        model = train(network, (X_train, Y_train), validation, settings)
        predictions[name] = jax.jit(lambda model, X: jax.vmap(model)(X))(model, X_test)
    errors = {
        name: [float(jnp.mean(f(A, Y_test))) for f in MEASURES.values()]
        for name, A in predictions.items()
    }
    pictures = {"target": Y_test} | predictions
    return {
        "title": TITLE,
        "about": f"{settings.train} samples: {p} inputs, and a covariance matrix {d} x {d} whose eigenvectors turn with "
        f"them. Below, the mean divergence of predictions from {settings.test} unseen matrices.",
        "tables": [
            _tour.table("Mean divergence, the smaller the better", ["predictor", *MEASURES], errors)
        ],
        "figures": [
            {
                "file": "demo-covariances.png",
                "caption": "Covariances of four unseen samples, a column each.",
            }
        ],
        "matrices": {
            name: np.asarray(A.dense()[:4], np.float64).tolist() for name, A in pictures.items()
        },
    }


def draw(record: dict, out: Path) -> None:
    """Matrices as images, a row for each predictor and a column for each sample."""
    matrices = {name: np.array(values) for name, values in record["result"]["matrices"].items()}
    count = len(matrices["target"])
    figure = Figure(figsize=(1.6 * count + 2.2, 1.6 * len(matrices)), layout="constrained")
    axes = figure.subplots(len(matrices), count, squeeze=False)
    for row, (name, A) in enumerate(matrices.items()):
        for column in range(count):
            axis, largest = axes[row, column], np.abs(matrices["target"][column]).max()
            axis.imshow(A[column], cmap="RdBu_r", vmin=-largest, vmax=largest)
            axis.set(xticks=[], yticks=[])
        axes[row, 0].set_ylabel(
            name.replace(" (", "\n(").replace(", ", "\n"), rotation=0, ha="right", va="center"
        )
    figure.savefig(out / "demo-covariances.png", dpi=120)


if __name__ == "__main__":
    main("demo-covariances", module="tour.covariances")
