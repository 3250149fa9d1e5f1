"""Activations H(Z) = K(Z) / tr K(Z) and h(z), with alpha-derivatives, Appendix G."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np


class Activation(NamedTuple):
    """A function, Z -> H(Z) or z -> h(z), beside its alpha-derivative."""

    value: Callable[[np.ndarray], np.ndarray]
    derivative: Callable[[np.ndarray], np.ndarray]


def mercer_sigmoid(
    slope: float = 1.0, intercept: float = 0.0, *, diagonal: bool = False
) -> Activation:
    """kappa(z_m, z_n) = f(z_m) . f(z_n), f(z) = tanh(slope z + intercept), Eq. (msk).

    Appendix G prints tanh(slope z - intercept). With `diagonal`, kappa(z_m, z_n) = 0
    for m != n (the paper's table of activations, *).

    >>> H = mercer_sigmoid().value(np.array([[1.0, 2.0], [0.0, 1.0]]))
    >>> print(f"{np.trace(H):.4f}")
    1.0000
    """

    def f(Z):
        return np.tanh(slope * Z + intercept)

    def d_f(Z):
        return slope * (1 - f(Z) * f(Z))

    return _normalise_kernel(f, d_f, diagonal)


def linear(*, diagonal: bool = False) -> Activation:
    """kappa(z_m, z_n) = z_m . z_n: the same kernel with f(z) = z."""
    return _normalise_kernel(lambda Z: Z, np.ones_like, diagonal)


def _normalise_kernel(f: Callable, d_f: Callable, diagonal: bool) -> Activation:
    """Return H(Z) = K / tr K and D_Z H for kappa(z_m, z_n) = f(z_m) . f(z_n).

    `d_f` is f', entry by entry.
    """

    def kernel(Z):
        K = f(Z).T @ f(Z)
        return np.diag(np.diag(K)) if diagonal else K

    def value(Z):
        K = kernel(Z)
        return K / np.trace(K)

    def derivative(Z):
        """Row (m, n), columns z_i: d(kappa_mn / tr K) / dz_i, d numbers, Appendix G."""
        d = Z.shape[1]
        F = f(Z)
        K = kernel(Z)
        trace = np.trace(K)
        D = np.zeros((d * d, d * d))
        for n in range(d):
            for m in range(d):
                for i in range(d):
                    kept = m == n or not diagonal
                    # d(f(z_m) o f(z_n)) / d f(z_i). The paper prints f(d(z_m o z_n) /
                    # dz_i), which is f(0) instead of 0 where i is neither m nor n, and
                    # f(2 z_i) instead of 2 f(z_i) where it is both.
                    d_product = ((i == m) * F[:, n] + (i == n) * F[:, m]) * kept
                    numerator = trace * d_product - 2 * K[m, n] * F[:, i]
                    block = d_f(Z[:, i]) / trace**2 * numerator
                    D[m + d * n, d * i : d * (i + 1)] = block
        return D

    return Activation(value, derivative)


tanh = Activation(np.tanh, lambda z: np.diag(1 - np.tanh(z) ** 2))
identity = Activation(lambda z: z, lambda z: np.eye(len(z)))


def power_exponential_output(d: int) -> Activation:
    """z -> (mu, log eta, alpha, beta), mu (d,), Section 5.2.

    alpha and beta are 1/2 + sigmoid.

    >>> print(power_exponential_output(1).value(np.array([3.0, 2.0, 0.0, 0.0])))
    [3. 2. 1. 1.]
    """

    def value(z):
        return np.concatenate([z[: d + 1], 1 / 2 + 1 / (1 + np.exp(-z[d + 1 :]))])

    def derivative(z):
        sigmoid = value(z)[d + 1 :] - 1 / 2
        return np.diag(np.concatenate([np.ones(d + 1), sigmoid * (1 - sigmoid)]))

    return Activation(value, derivative)
