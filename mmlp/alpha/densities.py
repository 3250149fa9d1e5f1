"""Alpha-derivatives of both log densities and both samplers, Appendices H and I.

    D_X F = d vec F / d (vec X)',   vec stacks columns

Every function takes one point and returns its derivatives by name, each of shape (size
of F, size of X). Entries of Omega count as free, as in the paper; r = theta - mu and t
= r' Omega^-1 r. The formulas are corrected; `docs/errata` lists what differs from the
paper.
"""

import math

import numpy as np
from numpy.typing import NDArray

Derivatives = dict[str, NDArray]


def gaussian_log_density(
    theta: NDArray, mu: NDArray, Omega: NDArray, eta: float
) -> Derivatives:
    """Return the derivatives of log N(theta; mu, eta Omega), Appendix H."""
    r = theta - mu
    P = np.linalg.inv(Omega)
    t = r @ P @ r
    return {
        "mu": _row(P @ r / eta),
        "Omega": -_row(P.T) / 2 + _row(P @ np.outer(r, r) @ P) / (2 * eta),
        "log_eta": _row(-len(mu) / 2 + t / (2 * eta)),
    }


def power_exponential_log_density(
    theta: NDArray, mu: NDArray, Omega: NDArray, eta: float, alpha: float, beta: float
) -> Derivatives:
    """Return the derivatives of log E(theta; mu, Omega, eta, alpha, beta), App. I."""
    d = len(mu)
    r = theta - mu
    P = np.linalg.inv(Omega)
    u = r @ P @ r / (alpha * eta)
    by_t = -beta / (2 * alpha * eta) * u ** (beta - 1)
    D_log_c = 1 / beta + d / (2 * beta**2) * (digamma(d / (2 * beta)) + math.log(2))
    return {
        "mu": by_t * -2 * _row(P @ r),
        "Omega": -_row(P.T) / 2 - by_t * _row(P @ np.outer(r, r) @ P),
        "log_eta": _row(-d / 2 + beta / 2 * u**beta),
        "alpha": _row((-d / 2 + beta / 2 * u**beta) / alpha),
        "beta": _row(D_log_c - u**beta * math.log(u) / 2),
    }


def gaussian_sample(eps: NDArray, Omega: NDArray, eta: float) -> Derivatives:
    """Return the derivatives of theta = mu + Phi eps, Eq. (rep).

    Phi is the symmetric root of eta Omega.
    """
    Phi = symmetric_root(eta * Omega)
    return {
        "mu": np.eye(len(eps)),
        "Omega": eta * np.kron(eps[None], np.eye(len(eps))) @ root_derivative(Phi),
        "log_eta": _column(Phi @ eps) / 2,
    }


def power_exponential_sample(
    nu: NDArray,
    radius: float,
    D_radius: float,
    Omega: NDArray,
    eta: float,
    alpha: float,
) -> Derivatives:
    """Return the derivatives of theta = mu + radius Phi nu, Eq. (rt_mpe).

    Phi Phi = alpha eta Omega. `D_radius` is the derivative of the radius by beta, from
    `normal_radius` or `gamma_radius`.
    """
    Phi = symmetric_root(alpha * eta * Omega)
    direction = _column(Phi @ nu)
    by_Phi = radius * alpha * eta * np.kron(nu[None], np.eye(len(nu)))
    return {
        "mu": np.eye(len(nu)),
        "Omega": by_Phi @ root_derivative(Phi),
        "log_eta": radius * direction / 2,
        "alpha": radius * direction / (2 * alpha),
        "beta": D_radius * direction,
    }


def normal_radius(eps: float, beta: float, d: int) -> tuple[float, float]:
    """Return the radius y^(1/(2 beta)) and its derivative by beta, Eq. (gauss_app).

    y = d/beta + eps sqrt(2 d/beta).
    """
    y = d / beta + eps * math.sqrt(2 * d / beta)
    radius = y ** (1 / (2 * beta))
    by_base = (
        -d
        / (2 * beta**3 * radius ** (2 * beta - 1))
        * (1 + eps / math.sqrt(2 * d / beta))
    )
    by_exponent = -radius * math.log(radius) / beta
    return radius, by_base + by_exponent


def gamma_radius(x: float, beta: float, d: int) -> tuple[float, float]:
    """Return the radius (2 x)^(1/(2 beta)) and its derivative by beta.

    x is a draw of Gamma(a), a = d/(2 beta). dx/da = -(dP/da) / p keeps the quantile of
    x, with P = sum_n x^(a + n) e^-x / Gamma(a + n + 1) and p its density.
    """
    a = d / (2 * beta)
    radius = (2 * x) ** (1 / (2 * beta))
    terms = [
        ((a + n) * math.log(x) - x - math.lgamma(a + n + 1), digamma(a + n + 1))
        for n in range(200 + 4 * int(x))
    ]
    D_P = sum(math.exp(log_term) * (math.log(x) - psi) for log_term, psi in terms)
    D_x = -D_P / math.exp((a - 1) * math.log(x) - x - math.lgamma(a))
    D_log_radius = D_x / x * (-a / beta) / (2 * beta) - math.log(radius) / beta
    return radius, radius * D_log_radius


def symmetric_root(A: NDArray) -> NDArray:
    """Return the symmetric Phi with Phi Phi = A."""
    values, V = np.linalg.eigh(A)
    return (V * np.sqrt(values)) @ V.T


def root_derivative(Phi: NDArray) -> NDArray:
    """D_A Phi = (Phi kron I + I kron Phi)^-1.

    Because Phi Phi = A gives dA = dPhi Phi + Phi dPhi.
    """
    identity = np.eye(len(Phi))
    return np.linalg.inv(np.kron(Phi, identity) + np.kron(identity, Phi))


def digamma(z: float) -> float:
    """Return psi(z) for z > 0, with an error below 1e-15.

    psi(z) = psi(z + 1) - 1/z is used up to z >= 10, then a series.

    >>> print(f"{digamma(1.0):.12f}")
    -0.577215664902
    """
    below = 0.0
    while z < 10:
        below -= 1 / z
        z += 1
    coefficients = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)
    series = sum(c / z ** (2 * k) for k, c in enumerate(coefficients, 1))
    return below + math.log(z) - 1 / (2 * z) - series


def _row(X: NDArray | float) -> NDArray:
    return np.ravel(X, order="F")[None]


def _column(x: NDArray) -> NDArray:
    return x[:, None]
