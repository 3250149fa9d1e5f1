"""Predictors of covariances that need no training.

Matrices are held by factors T (..., m, d) with A = T'T, as in `Gram`.
"""

import functools

import jax.numpy as jnp
import numpy as np

from mmlp.experiments.spd.models import mean_errors
from mmlp.experiments.spd.tasks import HEADINGS, Task, data_of
from mmlp.spd import Gram
from mmlp.training.compiled import Compiled

NEIGHBOURS = 5
MEAN_ROW, NEIGHBOURS_ROW = "constant mean", f"{NEIGHBOURS} nearest neighbours"
FLOOR_ROW = "noise floor"


def mean(T: np.ndarray) -> np.ndarray:
    """A factor (d, d) of the mean of the matrices of T (n, m, d), by QR: nothing is squared."""
    return np.linalg.qr(T.reshape(-1, T.shape[-1]) / len(T) ** 0.5).R


def log_euclidean_mean(T: np.ndarray) -> np.ndarray:
    """Factors (..., d, d) of exp(mean log A), trace one, of T (..., k, m, d) (Arsigny, 2006)."""
    _, s, Vt = np.linalg.svd(T, full_matrices=False)
    logs = np.swapaxes(Vt, -1, -2) @ (2 * np.log(s)[..., None] * Vt)
    w, V = np.linalg.eigh(np.mean(logs, axis=-3))
    # the largest eigenvalue is made one: no overflow
    root = np.exp((w - w[..., -1:]) / 2)[..., None] * np.swapaxes(V, -1, -2)
    return root / np.linalg.norm(root, axis=(-2, -1), keepdims=True)


def nearest_neighbours(X: np.ndarray, T: np.ndarray, X_new: np.ndarray, k: int) -> np.ndarray:
    """The log-Euclidean mean of the k samples X (n, p), T (n, m, d) nearest to each of X_new."""
    distance = np.sum((X_new[:, None] - X) ** 2, axis=-1)
    return log_euclidean_mean(T[np.argsort(distance, axis=1)[:, :k]])


def errors_of_baselines(task: Task) -> dict[str, np.ndarray]:
    """Errors (settings, seeds, 3) by row; all training samples are used."""
    rows = {MEAN_ROW: [], NEIGHBOURS_ROW: [], FLOOR_ROW: []}
    test = task.budget.test
    for data in data_of(task):
        T, X, target = data.sampled[test:], data.X[test:], data.sampled[:test]
        predicted = (
            np.broadcast_to(mean(T), target.shape),
            nearest_neighbours(X, T, data.X[:test], NEIGHBOURS),
            data.population[:test],
        )
        for row, factor in zip(rows.values(), predicted, strict=True):
            row.append(np.asarray(_errors(None, jnp.asarray(factor), jnp.asarray(target))))
    shape = (len(task.budget.settings), task.budget.seeds, len(HEADINGS))
    return {name: np.stack(row).astype(np.float64).reshape(shape) for name, row in rows.items()}


@functools.partial(Compiled, quickly=True)
def _errors(_, T, T_Y):
    return mean_errors(Gram(T), Gram(T_Y))
