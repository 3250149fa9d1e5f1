"""Textbook gradients with sixty digits, the reference for float32 and float64.

Each entry of `DIVERGENCES` and `VALUES` is the gradient G of a number f(A) or f(A, B)
with respect to the matrix A. The gradient with respect to the factor of A = T'T is
2 T G.
"""

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np

mpmath.mp.dps = 60
# Eigenvalues that agree to this relative distance count as equal.
EQUAL_EIGENVALUES = mpmath.mpf(10) ** -25
BETA = 0.7  # exponent of the power exponential

Matrix = Any


def to_matrix(M: Any) -> Matrix:
    """Convert an array to a matrix of mpmath."""
    return mpmath.matrix(np.asarray(M, float).tolist())


def apply_to_eigenvalues(A: Matrix, f: Callable) -> Matrix:
    """Return f(A) for a symmetric A."""
    eigenvalues, V = mpmath.eigsy(A)
    return V * mpmath.diag([f(x) for x in eigenvalues]) * V.T


def log(A: Matrix) -> Matrix:
    """Return the logarithm of a symmetric positive definite A."""
    return apply_to_eigenvalues(A, mpmath.log)


def dlog(A: Matrix, H: Matrix) -> Matrix:
    """Return the derivative of log at A in direction H (Daleckii and Krein)."""
    eigenvalues, V = mpmath.eigsy(A)
    X = V.T * H * V
    for i, a in enumerate(eigenvalues):
        for j, b in enumerate(eigenvalues):
            if abs(a - b) < EQUAL_EIGENVALUES * a:
                X[i, j] *= 1 / a
            else:
                X[i, j] *= mpmath.log(a / b) / (a - b)
    return V * X * V.T


def apply_between(A: Matrix, B: Matrix, f: Callable) -> Matrix:
    """Return A^-1/2 f(A^1/2 B A^1/2) A^-1/2."""
    root = apply_to_eigenvalues(A, mpmath.sqrt)
    inverse_root = apply_to_eigenvalues(A, lambda x: 1 / mpmath.sqrt(x))
    return inverse_root * apply_to_eigenvalues(root * B * root, f) * inverse_root


# With respect to A. For a symmetric divergence, exchange A and B for that of B.
DIVERGENCES = {
    "von_neumann": lambda A, B: (log(A) - log(B) + dlog(A, A - B)) / 2,
    "von_neumann one-sided": lambda A, B: log(A) - log(B),
    "stein": lambda A, B: (A + B) ** -1 - A**-1 / 2,
    "stein one-sided": lambda A, B: B**-1 - A**-1,
    "quadratic": lambda A, B: 2 * (A - B),
    "log_euclidean": lambda A, B: 2 * dlog(A, log(A) - log(B)),
    "affine_invariant": lambda A, B: 2 * apply_between(A, B**-1, mpmath.log),
    "bures_wasserstein": lambda A, B: (
        mpmath.eye(A.rows) - apply_between(A, B, mpmath.sqrt)
    ),
}
# With respect to B, for divergences that are not symmetric.
GRADIENTS_BY_SECOND = {
    "von_neumann one-sided": lambda A, B: mpmath.eye(A.rows) - dlog(B, A),
    "stein one-sided": lambda A, B: B**-1 - B**-1 * A * B**-1,
}


def divergence_gradients(name: str, T: Any, S: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the gradients of a divergence between T'T and S'S, by T and by S."""
    T = to_matrix(T)
    S = to_matrix(S)
    A = T.T * T
    B = S.T * S
    by_A = DIVERGENCES[name](A, B)
    if name in GRADIENTS_BY_SECOND:
        by_B = GRADIENTS_BY_SECOND[name](A, B)
    else:
        by_B = DIVERGENCES[name](B, A)
    return gradient_by_factor(T, by_A), gradient_by_factor(S, by_B)


def power_exponential_gradient(A: Matrix, b: Matrix, c: Matrix) -> Matrix:
    """Return the gradient of the power exponential log density of b."""
    inverse = A**-1
    weight = (b.T * inverse * b)[0] ** (BETA - 1) * BETA
    return (weight * inverse * b * b.T * inverse - inverse) / 2


# Numbers computed from one matrix A = T'T and vectors b, c (d, 1).
VALUES = {
    "logdet": lambda A, b, c: A**-1,
    "whiten": lambda A, b, c: -(A**-1) * b * b.T * A**-1,  # |whiten(b)|^2
    "solve": lambda A, b, c: -(A**-1) * c * b.T * A**-1,  # c . solve(b)
    "logm": lambda A, b, c: dlog(A, (b * c.T + c * b.T) / 2),  # b' logm c
    "matmul": lambda A, b, c: b * c.T,  # c . (A @ b)
    "gaussian log_prob": lambda A, b, c: (A**-1 * b * b.T * A**-1 - A**-1) / 2,
    "power exponential log_prob": power_exponential_gradient,
}


def value_gradient(name: str, T: Any, b: Any, c: Any) -> np.ndarray:
    """Return the gradient by T of a number computed from T'T, b and c."""
    T = to_matrix(T)
    by_A = VALUES[name](T.T * T, to_matrix(b[:, None]), to_matrix(c[:, None]))
    return gradient_by_factor(T, by_A)


def gradient_by_factor(T: Matrix, G: Matrix) -> np.ndarray:
    """Return 2 T G in float64, with G made symmetric."""
    symmetric = (G + G.T) / 2
    return np.array((2 * T * symmetric).tolist(), float)
