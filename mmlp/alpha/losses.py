"""The paper's losses l(Yhat, Y), with their alpha-derivatives D_Yhat l (d_0^2,)."""

import numpy as np

from mmlp.alpha.calculus import d_inverse, d_log_det, product_rule, vec


def quadratic(Y_hat: np.ndarray, Y: np.ndarray) -> float:
    """tr((Yhat - Y)(Yhat - Y)'), Section "The choice of loss function"."""
    return np.trace((Y_hat - Y) @ (Y_hat - Y).T)


def d_quadratic(Y_hat: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """D_Yhat l = 2 vec(Yhat - Y)'."""
    return 2 * vec(Y_hat - Y)


def stein(Y_hat: np.ndarray, Y: np.ndarray) -> float:
    """(Delta(Y || M) + Delta(Yhat || M)) / 2, M = (Y + Yhat) / 2, Eq. (loss_stein)."""
    M = (Y + Y_hat) / 2
    return (_delta_stein(Y, M) + _delta_stein(Y_hat, M)) / 2


def _delta_stein(X: np.ndarray, M: np.ndarray) -> float:
    """Delta(X || M) = tr(M^-1 (X - M)) - log det(X M^-1), Eq. (div)."""
    inverse = np.linalg.inv(M)
    return np.trace(inverse @ (X - M)) - np.linalg.slogdet(X @ inverse)[1]


def d_stein(Y_hat: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """D_Yhat l = -(D log|Y (Y + Yhat)^-1| + D log|Yhat (Y + Yhat)^-1|) / 2, Appendix C.

    D is the derivative of Y (Y + Yhat)^-1. That of Yhat (Y + Yhat)^-1, which is
    I - Y (Y + Yhat)^-1, has the other sign.
    """
    d = len(Y)
    inverse = np.linalg.inv(Y + Y_hat)
    D = product_rule(Y, inverse, np.zeros((d * d, d * d)), d_inverse(Y + Y_hat))
    return -(d_log_det(Y @ inverse, D) + d_log_det(Y_hat @ inverse, -D)) / 2


def logm(Y: np.ndarray) -> np.ndarray:
    """log Y = V diag(log lambda) V' for a symmetric positive definite Y."""
    eigenvalues, V = np.linalg.eigh(Y)
    return V @ np.diag(np.log(eigenvalues)) @ V.T


def von_neumann(Y_hat: np.ndarray, Y: np.ndarray) -> float:
    """(Delta(Yhat || Y) + Delta(Y || Yhat)) / 2, Eqs. (qre), (loss_qre), Appendix D."""
    return np.trace((Y_hat - Y) @ (logm(Y_hat) - logm(Y))) / 2


def d_von_neumann(Y_hat: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """D_Yhat l = (D tr((Yhat - Y) log Yhat) - D tr(Yhat log Y)) / 2.

    Eqs. (dloss) and (loss_ja).
    """
    first = vec(logm(Y_hat).T) + vec(Y_hat.T - Y.T) @ d_logm(Y_hat)
    second = vec(logm(Y).T)
    return (first - second) / 2


def d_logm(Y_hat: np.ndarray) -> np.ndarray:
    """Return D_Yhat log Yhat (d_0^2, d_0^2) through eigenvalues and eigenvectors.

    Its columns are vec(d log Yhat / d Yhat_ij). Eigenvalues must be distinct: Xi
    divides by their differences. The derivative itself exists at equal eigenvalues too.
    """
    d = len(Y_hat)
    eigenvalues, V = np.linalg.eigh(Y_hat)  # V is the paper's Upsilon
    columns = [
        vec(_d_logm_by_entry(eigenvalues, V, i, j))
        for j in range(d)
        for i in range(d)  # Y_11, Y_21, ...
    ]
    return np.stack(columns, axis=1)


def _d_logm_by_entry(
    eigenvalues: np.ndarray, V: np.ndarray, i: int, j: int
) -> np.ndarray:
    """d log Yhat / d Yhat_ij = V Xi Lambda V' + V dLambda V' - V Lambda Xi V'.

    Eq. (jacob1), with Lambda = diag(log lambda). Yhat stays symmetric: Yhat_ij and
    Yhat_ji each move by half.
    """
    d = len(eigenvalues)
    Lambda = np.diag(np.log(eigenvalues))

    # Eq. (key1) prints d log(lambda_k) / d Yhat_ij = V_ik V_jk, which is
    # d lambda_k / d Yhat_ij.
    d_Lambda = np.diag([V[i, k] * V[j, k] / eigenvalues[k] for k in range(d)])

    # Eq. (jacob3) prints log(lambda_l) - log(lambda_k) in the denominator.
    Xi = np.zeros((d, d))
    for k in range(d):
        for m in range(d):
            if m != k:
                gap = eigenvalues[m] - eigenvalues[k]
                Xi[k, m] = (V[i, k] * V[j, m] + V[i, m] * V[j, k]) / (2 * gap)
    return V @ Xi @ Lambda @ V.T + V @ d_Lambda @ V.T - V @ Lambda @ Xi @ V.T
