"""The losses in both forms, random SPD matrices, finite differences by a matrix."""

import numpy as np

import mmlp
from mmlp.alpha import losses
from mmlp.alpha.calculus import unvec

LOSSES = {
    "von_neumann": (mmlp.von_neumann, losses.von_neumann, losses.d_von_neumann),
    "stein": (mmlp.stein, losses.stein, losses.d_stein),
    "quadratic": (mmlp.quadratic, losses.quadratic, losses.d_quadratic),
}


def spd(rng, d):
    T = 0.4 * rng.standard_normal((d, d)) + np.eye(d)
    return T.T @ T / np.sum(T**2)


def differences(f, X, step=1e-5):
    """D_X f by central differences, a column for each entry of vec X."""
    columns = []
    for k in range(X.size):
        E = np.zeros(X.size)
        E[k] = step
        E = unvec(E, X.shape)
        columns.append((np.ravel(f(X + E), "F") - np.ravel(f(X - E), "F")) / (2 * step))
    return np.stack(columns, axis=1)


def symmetric_differences(f, X):
    """The same for a symmetric matrix: X_ij and X_ji each move by half."""
    return differences(lambda X: f((X + X.T) / 2), X)


def disagreement(formula, numbers):
    return np.abs(formula - numbers).max() / np.abs(numbers).max()
