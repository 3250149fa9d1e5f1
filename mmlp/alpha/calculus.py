"""Matrix notation (Appendix A) and rules of the alpha-derivative (Appendix B).

The alpha-derivative of F (m, p) by X (n, q) is the mp x nq matrix D_X F = d vec F / d
(vec X)'; that of a number is a row, here an array (nq,). The chain rule D_X G(F(X)) =
D_F G D_X F is `@`, the Kronecker product is `numpy.kron`. (The paper's definition gives
F the shape m x n; only m x p fits the mp rows.)
"""

import numpy as np


def vec(A: np.ndarray) -> np.ndarray:
    """Stack the columns of A (m, n) into one vector (mn,).

    >>> vec(np.array([[1, 2], [3, 4]])).tolist()
    [1, 3, 2, 4]
    """
    return A.reshape(-1, order="F")


def unvec(a: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """Apply the paper's rearrangement operator P_(m, n): unvec(vec A, (m, n)) = A.

    >>> unvec(np.array([1, 3, 2, 4]), (2, 2)).tolist()
    [[1, 2], [3, 4]]
    """
    return a.reshape(shape, order="F")


def commutation(m: int, n: int) -> np.ndarray:
    """Return the commutation matrix K_(m, n) (mn, mn): K vec A = vec A' for A (m, n).

    >>> A = np.arange(6).reshape(2, 3)
    >>> (commutation(2, 3) @ vec(A) == vec(A.T)).all()
    np.True_
    """
    K = np.zeros((m * n, m * n))
    for i in range(m):
        for j in range(n):
            # A_ij is at i + m j in vec A, and at j + n i in vec A'.
            K[j + n * i, i + m * j] = 1
    return K


def product_rule(
    F: np.ndarray, G: np.ndarray, D_F: np.ndarray, D_G: np.ndarray
) -> np.ndarray:
    """D_X (FG) = (G' kron I) D_X F + (I kron F) D_X G, Eq. (product_alpha)."""
    m = F.shape[0]
    r = G.shape[1]
    return np.kron(G.T, np.eye(m)) @ D_F + np.kron(np.eye(r), F) @ D_G


def d_inverse(X: np.ndarray) -> np.ndarray:
    """D_X X^-1 = -(X^-T kron X^-1)."""
    inverse = np.linalg.inv(X)
    return -np.kron(inverse.T, inverse)


def d_log_det(F: np.ndarray, D_F: np.ndarray) -> np.ndarray:
    """D_X log|F| = (vec F^-T)' D_X F."""
    return vec(np.linalg.inv(F).T) @ D_F
