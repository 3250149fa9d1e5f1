"""Predictors of covariance matrices that need no training.

Matrices are represented by factors T (..., m, d) with A = T'T, as in `Gram`.
"""

import numpy as np


def log_euclidean_mean(T: np.ndarray) -> np.ndarray:
    """Return factors of exp(mean log A), scaled to trace one (Arsigny et al., 2006).

    Parameters
    ----------
    T : array of shape (..., k, m, d)
        Factors of k matrices each.

    Returns
    -------
    array of shape (..., d, d)
    """
    _, s, Vt = np.linalg.svd(T, full_matrices=False)
    logs = np.swapaxes(Vt, -1, -2) @ (2 * np.log(s)[..., None] * Vt)
    w, V = np.linalg.eigh(np.mean(logs, axis=-3))
    # The largest eigenvalue becomes one, so that nothing overflows.
    root = np.exp((w - w[..., -1:]) / 2)[..., None] * np.swapaxes(V, -1, -2)
    return root / np.linalg.norm(root, axis=(-2, -1), keepdims=True)


def nearest_neighbours(
    X: np.ndarray, T: np.ndarray, X_new: np.ndarray, k: int
) -> np.ndarray:
    """Predict the log-Euclidean mean of the k nearest training samples.

    Parameters
    ----------
    X : array of shape (n, p)
        Training inputs.
    T : array of shape (n, m, d)
        Factors of the training matrices.
    X_new : array of shape (n_new, p)
        Inputs to predict for.
    k : int
        The number of neighbours.

    Returns
    -------
    array of shape (n_new, d, d)
        Factors of the predictions.
    """
    squared_distance = np.sum((X_new[:, None] - X) ** 2, axis=-1)
    nearest = np.argsort(squared_distance, axis=1)[:, :k]
    return log_euclidean_mean(T[nearest])
