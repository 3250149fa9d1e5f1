"""Predictors of covariances that need no training. Matrices are held by factors T (..., m, d) with A = T'T, as in `Gram`."""

import numpy as np


def mean(T: np.ndarray) -> np.ndarray:
    """A factor (d, d) of the mean of the matrices of T (n, m, d): the root of a sum of squares is a QR decomposition."""
    return np.linalg.qr(T.reshape(-1, T.shape[-1]) / len(T) ** 0.5).R


def log_euclidean_mean(T: np.ndarray) -> np.ndarray:
    """Factors (..., d, d) of exp(mean log A) over the matrices of T (..., k, m, d), of trace one (Arsigny et al., 2006)."""
    _, s, Vt = np.linalg.svd(T, full_matrices=False)
    logs = np.swapaxes(Vt, -1, -2) @ (2 * np.log(s)[..., None] * Vt)
    w, V = np.linalg.eigh(np.mean(logs, axis=-3))
    root = np.exp((w - w[..., -1:]) / 2)[..., None] * np.swapaxes(
        V, -1, -2
    )  # the largest eigenvalue is one: no overflow
    return root / np.linalg.norm(root, axis=(-2, -1), keepdims=True)


def nearest_neighbours(X: np.ndarray, T: np.ndarray, X_new: np.ndarray, k: int) -> np.ndarray:
    """The log-Euclidean mean of the k nearest of the samples X (n, p), T (n, m, d) for each row of X_new."""
    distance = np.sum((X_new[:, None] - X) ** 2, axis=-1)
    return log_euclidean_mean(T[np.argsort(distance, axis=1)[:, :k]])
