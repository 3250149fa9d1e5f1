"""Define your own kernel: covariances known to be banded.

Eight sensors stand in a chain, and only neighbours have correlated errors: the
covariance, a function of three inputs, is tridiagonal. A kernel maps Z to a factor T of
K = T'T, so a known structure is built into T. Every tridiagonal SPD matrix has an upper
bidiagonal factor with a positive diagonal, its Cholesky factor, and the kernel below
makes such a factor from Z. Any function or callable module will do; it needs no
derivative rule.

The picture shows three unseen covariances, and the predictions of networks with the
default kernel and with this one.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib import pyplot

import mmlp

N_SENSORS = 8
N_INPUTS = 3
N_TRAINING = 60
N_TEST = 500


def bidiagonal(Z: jax.Array) -> jax.Array:
    """Return T (..., d, d), zero but for its diagonal and the entries above it.

    T'T is tridiagonal.
    """
    above_diagonal = jnp.triu(Z, 1) - jnp.triu(Z, 2)
    return above_diagonal + jnp.exp(Z) * jnp.eye(Z.shape[-1])


def make_data(key: jax.Array, n: int) -> tuple[jax.Array, mmlp.Gram]:
    """Draw inputs (n, 3) and tridiagonal covariances that depend on them."""
    X = jax.random.normal(key, (n, N_INPUTS))
    weights = jax.random.normal(jax.random.key(7), (2, N_INPUTS, N_SENSORS))
    weights = weights / N_INPUTS**0.5
    diagonal = jnp.exp(0.5 * X @ weights[0])
    above_diagonal = jnp.tanh(X @ weights[1])[:, 1:]
    T = jax.vmap(lambda a, b: jnp.diag(a) + jnp.diag(b, 1))(diagonal, above_diagonal)
    return X, mmlp.Gram.trace_one(T)


def loss(
    model: mmlp.MatrixMLP,
    batch: tuple[jax.Array, mmlp.Gram],
    key: jax.Array,
    t: jax.Array,
) -> jax.Array:
    """Return the mean von Neumann divergence of a batch."""
    X, Y = batch
    return mmlp.von_neumann(jax.vmap(model)(X), Y).mean()


def train(kernel: Callable, epochs: int) -> mmlp.MatrixMLP:
    """Train a network whose output has this kernel."""
    key = jax.random.key(0)
    X, Y = make_data(jax.random.key(1), N_TRAINING)
    model = mmlp.MatrixMLP(N_INPUTS, N_SENSORS, output=mmlp.Dense(kernel), key=key)
    model = mmlp.calibrate(model, X, key=key)
    result = mmlp.fit(
        model, loss, (X, Y), key=key, epochs=epochs, batch_size=20, progress=False
    )
    return result.model


def main(epochs: int = 150) -> None:
    X, Y = make_data(jax.random.key(2), N_TEST)
    matrices = {"true": Y}
    for name, kernel in {"linear": mmlp.Linear(), "bidiagonal": bidiagonal}.items():
        model = train(kernel, epochs)
        matrices[name] = jax.vmap(model)(X)
        error = mmlp.von_neumann(matrices[name], Y).mean()
        print(f"{name:12} von Neumann loss on {len(X)} unseen samples {error:.4f}")

    figure, axes = pyplot.subplots(3, 3, figsize=(6, 6), layout="constrained")
    for row, (name, A) in zip(axes, matrices.items(), strict=True):
        for axis, matrix in zip(row, np.asarray(A.dense()), strict=False):
            axis.imshow(matrix, cmap="RdBu_r", vmin=-0.3, vmax=0.3)
            axis.set(xticks=[], yticks=[])
        row[0].set_ylabel(name)
    figure.savefig("custom_kernel.png", dpi=120)


if __name__ == "__main__":
    main()
