"""Learn covariance matrices as a function of an input.

The long axis of an ellipse turns with the first input, and its length grows with the
second: a covariance matrix as a function of two numbers, learnt from 150 matrices. The
network is a `MatrixMLP`, the loss the von Neumann divergence. The matrices of the
network have trace one, so the targets are divided by their trace; `SPDRegressor` learns
the scale as well.

The picture shows the matrices as ellipses, true (filled) and predicted (outlined), at
inputs that were not trained on.
"""

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib import pyplot
from matplotlib.patches import Ellipse

import mmlp
from mmlp.datasets import turning_factors

N_TRAINING = 150
N_TEST = 500
# G of the rotation R(angle) = exp(angle (G - G')).
GENERATORS = [[[0.0, 1.0], [0.0, 0.0]]]
ELLIPSE_SIZE = 0.22


def make_data(key: jax.Array, n: int) -> tuple[jax.Array, mmlp.Gram]:
    """Draw inputs (n, 2) and their matrices."""
    X = jax.random.uniform(key, (n, 2), minval=-1)
    return X, compute_covariance(X)


def compute_covariance(X: jax.Array) -> mmlp.Gram:
    """Return T'T over its trace, where T = diag(lengths) R(angle)."""
    angle = 2 * X[:, :1]
    stretch = 1.2 + X[:, 1:]
    lengths = jnp.exp(jnp.concatenate([stretch, -stretch], axis=1) / 2)
    return mmlp.Gram.trace_one(turning_factors(angle, GENERATORS, lengths))


def loss(
    model: mmlp.MatrixMLP,
    batch: tuple[jax.Array, mmlp.Gram],
    key: jax.Array | None,
    t: float | jax.Array,
) -> jax.Array:
    """Return the mean von Neumann divergence of a batch."""
    X, Y = batch
    return mmlp.von_neumann(jax.vmap(model)(X), Y).mean()


def make_ellipse(A: np.ndarray, place: np.ndarray, **style: object) -> Ellipse:
    """Return the ellipse x' A^-1 x = r^2, centred at a place."""
    eigenvalues, eigenvectors = np.linalg.eigh(A)
    width, height = ELLIPSE_SIZE * np.sqrt(eigenvalues)
    angle = np.degrees(np.arctan2(*eigenvectors[::-1, 0]))
    return Ellipse(tuple(place), width, height, angle=angle, **style)


def main(epochs: int = 200) -> None:
    key = jax.random.key(0)
    X, Y = make_data(key, N_TRAINING)
    model = mmlp.MatrixMLP(2, 2, key=key)
    model = mmlp.calibrate(model, X, key=key)
    model = mmlp.fit(
        model,
        loss,
        (X, Y),
        key=key,
        epochs=epochs,
        batch_size=30,
        progress=False,
    ).model

    X_test, Y_test = make_data(jax.random.key(1), N_TEST)
    constant = mmlp.Gram.from_dense(Y.dense().mean(axis=0))
    loss_of_constant = mmlp.von_neumann(constant, Y_test).mean()
    loss_of_network = loss(model, (X_test, Y_test), None, 1.0)
    print(f"mean von Neumann divergence of {len(X_test)} unseen matrices")
    print(f"  constant (mean of the data)  {loss_of_constant:.5f}")
    print(f"  matrix MLP                   {loss_of_network:.5f}")

    ticks = jnp.linspace(-0.9, 0.9, 8)
    grid = jnp.stack(jnp.meshgrid(ticks, ticks), axis=-1).reshape(-1, 2)
    places = np.asarray(grid)
    truths = np.asarray(compute_covariance(grid).dense())
    predictions = np.asarray(jax.vmap(model)(grid).dense())

    figure, axes = pyplot.subplots(figsize=(6, 6), layout="constrained")
    for place, truth, prediction in zip(places, truths, predictions, strict=True):
        axes.add_patch(make_ellipse(truth, place, color="C0", alpha=0.35, lw=0))
        axes.add_patch(make_ellipse(prediction, place, fill=False, color="C3", lw=1.5))
    axes.set(xlim=(-1.05, 1.05), ylim=(-1.05, 1.05), aspect="equal")
    axes.set(xlabel="$x_1$", ylabel="$x_2$", title="true (blue) and predicted (red)")
    figure.savefig("spd_learning.png", dpi=120)


if __name__ == "__main__":
    main()
