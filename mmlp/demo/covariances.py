"""The tour, first part: learn covariance matrices from inputs; compare with simpler predictors.

The data are made here: two hidden factors c drive ten inputs X = tanh(E c) and a covariance
R(c) diag(s(c)) R(c)' whose eigenvectors turn with c.
"""

import dataclasses
from pathlib import Path
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

from mmlp.datasets import turning_factors
from mmlp.demo.baselines import log_euclidean_mean, nearest_neighbours
from mmlp.demo.tables import table
from mmlp.divergences import quadratic, stein, von_neumann
from mmlp.networks import CholeskyMLP, MatrixMLP
from mmlp.networks.calibration import calibrate
from mmlp.spd import Gram
from mmlp.training import default_optimizer, fit

TITLE = "covariance matrices from inputs"
N_NEIGHBOURS = 5
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
    seed: int = 0

    QUICK: ClassVar = {
        "train": 40,
        "validation": 10,
        "test": 20,
        "epochs": 30,
        "batch_size": 20,
    }


def make_data(settings: Settings) -> tuple[jax.Array, Gram]:
    """Inputs X (n, features) and trace-one covariances of size dim."""
    keys = jax.random.split(jax.random.key(settings.seed), 4)
    n, d = settings.train + settings.validation + settings.test, settings.dim
    c = jax.random.normal(keys[0], (n, 2))
    E = jax.random.normal(keys[1], (2, settings.features))
    s = jnp.exp(0.3 * c @ jax.random.normal(keys[3], (2, d)) - jnp.linspace(0, 2, d))
    factors = turning_factors(0.15 * c, jax.random.normal(keys[2], (2, d, d)), s)
    return jnp.tanh(c @ E), Gram.trace_one(jnp.asarray(factors))


def loss(model, batch, key, t):
    return jnp.mean(von_neumann(jax.vmap(model)(batch[0]), batch[1]))


def run(settings: Settings) -> dict:
    a, b, data = (
        settings.train,
        settings.train + settings.validation,
        make_data(settings),
    )
    parts = slice(a), slice(a, b), slice(b, None)
    train, validation, (X, Y) = (jax.tree.map(lambda x, i=i: x[i], data) for i in parts)
    key, p, d = jax.random.key(settings.seed), settings.features, settings.dim
    networks = {
        "Cholesky MLP, 2 x 60": CholeskyMLP(p, d, (60, 60), key=key),
        "matrix MLP, 3 x 20": MatrixMLP(p, d, (20, 20, 20), key=key),
    }
    known, T, new = (
        np.asarray(part, np.float64) for part in (train[0], train[1].factor, X)
    )
    constant = np.broadcast_to(log_euclidean_mean(T), (settings.test, d, d))
    nearest = nearest_neighbours(known, T, new, N_NEIGHBOURS)
    predictions = {
        "constant (log-Euclidean mean)": constant,
        f"{N_NEIGHBOURS} nearest neighbours": nearest,
    }
    predictions = {name: Gram(jnp.asarray(T)) for name, T in predictions.items()}
    steps = settings.epochs * -(-a // settings.batch_size)
    options: dict[str, Any] = {
        "epochs": settings.epochs,
        "batch_size": settings.batch_size,
    }
    options |= {"optimizer": default_optimizer(steps), "validation": validation}
    for name, network in networks.items():
        start = calibrate(network, train[0], key=jax.random.key(1))
        model = fit(start, loss, train, key=jax.random.key(2), **options).model
        predictions[name] = jax.jit(lambda model, X: jax.vmap(model)(X))(model, X)
    errors = {
        n: [float(f(A, Y).mean()) for f in MEASURES.values()]
        for n, A in predictions.items()
    }
    dense = {name: A.dense()[:4] for name, A in ({"target": Y} | predictions).items()}
    caption = "Covariances of four unseen samples, a column each."
    return {
        "title": TITLE,
        "about": f"{settings.train} samples: {p} inputs, and a covariance matrix {d} x {d} whose "
        "eigenvectors turn with them. Below, the mean divergence of predictions from "
        f"{settings.test} unseen matrices.",
        "tables": [table("Mean divergence", ["predictor", *MEASURES], errors)],
        "figures": [{"file": "demo-covariances.png", "caption": caption}],
        "matrices": {
            name: np.asarray(A, np.float64).tolist() for name, A in dense.items()
        },
    }


def draw(record: dict, out: Path) -> None:
    """Matrices as images, a row for each predictor and a column for each sample."""
    matrices = {
        name: np.array(values) for name, values in record["result"]["matrices"].items()
    }
    target = matrices["target"]
    figure = Figure(
        figsize=(1.6 * len(target) + 2.2, 1.6 * len(matrices)), layout="constrained"
    )
    axes = figure.subplots(len(matrices), len(target), squeeze=False)
    for row, (name, A) in zip(axes, matrices.items(), strict=True):
        for axis, image, largest in zip(
            row, A, np.abs(target).max(axis=(1, 2)), strict=True
        ):
            axis.imshow(image, cmap="RdBu_r", vmin=-largest, vmax=largest)
            axis.set(xticks=[], yticks=[])
        label = name.replace(" (", "\n(").replace(", ", "\n")
        row[0].set_ylabel(label, rotation=0, ha="right", va="center")
    figure.savefig(out / "demo-covariances.png", dpi=120)
