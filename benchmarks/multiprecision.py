"""Gradients by the textbook, in sixty digits: what float32 and float64 are measured against.

Each is the gradient G of a number f(A) or f(A, B) by the matrix A; the one by the factor of A = T'T
is 2 T G.
"""

import mpmath
import numpy as np

mpmath.mp.dps = 60


def matrix(M):
    return mpmath.matrix(np.asarray(M, float).tolist())


def of_eigenvalues(A, f):
    """f(A) of a symmetric A."""
    values, V = mpmath.eigsy(A)
    return V * mpmath.diag([f(x) for x in values]) * V.T


def log(A):
    return of_eigenvalues(A, mpmath.log)


def dlog(A, H):
    """The derivative of log at A in direction H (Daleckii and Krein)."""
    values, V = mpmath.eigsy(A)
    X = V.T * H * V
    for i, a in enumerate(values):
        for j, b in enumerate(values):
            close = abs(a - b) < mpmath.mpf(10) ** -25 * a
            X[i, j] *= 1 / a if close else mpmath.log(a / b) / (a - b)
    return V * X * V.T


def between(A, B, f):
    """A^-1/2 f(A^1/2 B A^1/2) A^-1/2."""
    root, inverse = (
        of_eigenvalues(A, mpmath.sqrt),
        of_eigenvalues(A, lambda x: 1 / mpmath.sqrt(x)),
    )
    return inverse * of_eigenvalues(root * B * root, f) * inverse


# by A; a symmetric one's by B is the same with A and B exchanged
DIVERGENCES = {
    "von_neumann": lambda A, B: (log(A) - log(B) + dlog(A, A - B)) / 2,
    "von_neumann one-sided": lambda A, B: log(A) - log(B),
    "stein": lambda A, B: (A + B) ** -1 - A**-1 / 2,
    "stein one-sided": lambda A, B: B**-1 - A**-1,
    "quadratic": lambda A, B: 2 * (A - B),
    "log_euclidean": lambda A, B: 2 * dlog(A, log(A) - log(B)),
    "affine_invariant": lambda A, B: 2 * between(A, B**-1, mpmath.log),
    "bures_wasserstein": lambda A, B: mpmath.eye(A.rows) - between(A, B, mpmath.sqrt),
}
BY_SECOND = {
    "von_neumann one-sided": lambda A, B: mpmath.eye(A.rows) - dlog(B, A),
    "stein one-sided": lambda A, B: B**-1 - B**-1 * A * B**-1,
}


def divergence_gradients(name: str, T, S) -> tuple[np.ndarray, np.ndarray]:
    """Of a divergence between T'T and S'S: by T and by S."""
    T, S = matrix(T), matrix(S)
    A, B = T.T * T, S.T * S
    by_B = BY_SECOND[name](A, B) if name in BY_SECOND else DIVERGENCES[name](B, A)
    return by_factor(T, DIVERGENCES[name](A, B)), by_factor(S, by_B)


# of numbers made from one matrix A = T'T and vectors b, c (d, 1), by A
VALUES = {
    "logdet": lambda A, b, c: A**-1,
    "whiten": lambda A, b, c: -(A**-1) * b * b.T * A**-1,  # |whiten(b)|^2
    "solve": lambda A, b, c: -(A**-1) * c * b.T * A**-1,  # c . solve(b)
    "logm": lambda A, b, c: dlog(A, (b * c.T + c * b.T) / 2),  # b' logm c
    "matmul": lambda A, b, c: b * c.T,  # c . (A @ b)
    "gaussian log_prob": lambda A, b, c: (A**-1 * b * b.T * A**-1 - A**-1) / 2,
    "power exponential log_prob": lambda A, b, c: (
        ((b.T * A**-1 * b)[0] ** (BETA - 1) * BETA * A**-1 * b * b.T * A**-1 - A**-1)
        / 2
    ),
}
BETA = 0.7


def value_gradient(name: str, T, b, c) -> np.ndarray:
    """Of a number made from T'T: by T."""
    T = matrix(T)
    return by_factor(T, VALUES[name](T.T * T, matrix(b[:, None]), matrix(c[:, None])))


def by_factor(T, G) -> np.ndarray:
    """2 T G, in float64."""
    G = (G + G.T) / 2
    return np.array((2 * T * G).tolist(), float)
