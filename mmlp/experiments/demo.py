"""A complete small run: learn covariance matrices from data, compare with simpler predictors, save a picture.

The data are made here: two hidden factors c drive ten inputs X = tanh(E c) and a covariance R(c) diag(s(c)) R(c)' whose
eigenvectors turn with c. Run: python -m mmlp.experiments.demo
"""

import dataclasses
import itertools
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import expm
from matplotlib.figure import Figure

from mmlp.calibration import calibrate
from mmlp.divergences import quadratic, stein, von_neumann
from mmlp.gram import Gram
from mmlp.networks import CholeskyMLP, MatrixMLP
from mmlp.optimizers import default_optimizer
from mmlp.training import fit


@dataclasses.dataclass(frozen=True)
class Settings:
    dim: int = 6
    features: int = 10
    train: int = 160
    validation: int = 40
    test: int = 500
    epochs: int = 300
    batch_size: int = 40
    neighbours: int = 5
    seed: int = 0
    picture: Path = Path("demo.png")


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


def exp_of(log_matrices) -> Gram:
    A = np.asarray(jax.vmap(expm)(jnp.asarray(log_matrices)), np.float64)
    A = (A + np.swapaxes(A, 1, 2)) / 2
    return Gram.from_dense((A / np.trace(A, axis1=1, axis2=2)[:, None, None]).astype(log_matrices.dtype))


def nearest_neighbours(X, Y: Gram, X_test, k: int) -> Gram:
    """The log-Euclidean mean of the k nearest training matrices."""
    distance = jnp.sum((X_test[:, None] - X) ** 2, axis=-1)
    nearest = jnp.argsort(distance, axis=1)[:, :k]
    return exp_of(jnp.mean(Y.logm()[nearest], axis=1))


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


def draw(path: Path, samples: dict[str, Gram], count: int = 4) -> None:
    """Matrices as images, a row for each predictor and a column for each test sample."""
    figure = Figure(figsize=(1.6 * count + 1.2, 1.6 * len(samples)), layout="constrained")
    axes = figure.subplots(len(samples), count, squeeze=False)
    dense = {name: np.asarray(A.dense()) for name, A in samples.items()}
    for column in range(count):
        largest = np.abs(dense["target"][column]).max()
        for row, (name, A) in enumerate(dense.items()):
            axis = axes[row, column]
            axis.imshow(A[column], cmap="RdBu_r", vmin=-largest, vmax=largest)
            axis.set_xticks([])
            axis.set_yticks([])
            if column == 0:
                axis.set_ylabel(name, rotation=0, ha="right", va="center")
    figure.suptitle("Covariances of four test samples")
    figure.savefig(path, dpi=120)


def main(settings: Settings | None = None) -> dict[str, dict[str, float]]:
    settings = settings or Settings()
    start = time.perf_counter()
    X, Y = make_data(settings)
    cuts = (0, settings.train, settings.train + settings.validation, len(X))
    parts = [(X[a:b], jax.tree.map(lambda y, a=a, b=b: y[a:b], Y)) for a, b in itertools.pairwise(cuts)]
    (X_train, Y_train), validation, (X_test, Y_test) = parts
    print(
        f"{settings.train} training samples, {settings.features} inputs, matrices {settings.dim} x {settings.dim}",
        flush=True,
    )

    key, p, d = jax.random.key(settings.seed), settings.features, settings.dim
    networks = {
        "Cholesky MLP": CholeskyMLP(p, d, (60, 60), key=key),
        "matrix MLP": MatrixMLP(p, d, (20, 20, 20), key=key),
    }
    predictions = {
        "constant": exp_of(jnp.broadcast_to(jnp.mean(Y_train.logm(), axis=0), (settings.test, d, d))),
        "neighbours": nearest_neighbours(X_train, Y_train, X_test, settings.neighbours),
    }
    for name, network in networks.items():
        print(f"training the {name}", flush=True)
        model = train(network, (X_train, Y_train), validation, settings)
        predictions[name] = jax.jit(lambda model, X: jax.vmap(model)(X))(model, X_test)

    measures = {"von Neumann": von_neumann, "Stein": stein, "quadratic": quadratic}
    table = {
        name: {measure: float(jnp.mean(f(A, Y_test))) for measure, f in measures.items()} for name, A in predictions.items()
    }
    print(f"\nmean divergence from {settings.test} unseen covariances\n")
    print(f"{'':14}" + "".join(f"{measure:>13}" for measure in measures))
    for name, row in table.items():
        print(f"{name:14}" + "".join(f"{value:13.2e}" for value in row.values()))
    draw(settings.picture, {"target": Y_test} | predictions)
    print(f"\npicture: {settings.picture} ({time.perf_counter() - start:.0f} s)")
    return table


if __name__ == "__main__":
    main()
