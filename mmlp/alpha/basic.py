"""The basic form, Eq. (mlpa): feedforward and backpropagation, Appendix E.

The index l of a layer is the paper's: l = 0 is the output.
"""
# ruff: noqa: E741

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from mmlp.alpha.activations import Activation
from mmlp.alpha.calculus import commutation, product_rule, unvec


class Layer(NamedTuple):
    """W_l (d_l, d_{l+1}), B_l (d_l, d_l) and the matrix function.

    W_{j+1} is (d_{j+1}, p).
    """

    W: np.ndarray
    B: np.ndarray
    H: Activation


class Latent(NamedTuple):
    """What the feedforward step stores: Z_l and H_l for l = 0, ..., j+1; Yhat = H_0."""

    Z: list[np.ndarray]
    H: list[np.ndarray]


def feedforward(layers: Sequence[Layer], x: np.ndarray) -> Latent:
    """Evaluate Eq. (mlpa).

    Z_{j+1} = W x (W 1)' + B,   Z_l = W_l H_{l+1} W_l' + B_l,   H_l = H(Z_l)

    >>> from mmlp.alpha.activations import mercer_sigmoid
    >>> weights = (np.eye(2), np.ones((2, 3)))
    >>> layers = [Layer(W, np.eye(2), mercer_sigmoid()) for W in weights]
    >>> Y_hat = feedforward(layers, np.ones(3)).H[0]
    >>> print(f"{np.trace(Y_hat):.4f}")
    1.0000
    """
    Z = []
    H = []
    for l in reversed(range(len(layers))):
        W = layers[l].W
        B = layers[l].B
        if l == len(layers) - 1:
            Z.insert(0, np.outer(W @ x, W @ np.ones(len(x))) + B)
        else:
            Z.insert(0, W @ H[0] @ W.T + B)
        H.insert(0, layers[l].H.value(Z[0]))
    return Latent(Z, H)


def backpropagation(
    layers: Sequence[Layer], x: np.ndarray, d_loss: Callable[[np.ndarray], np.ndarray]
) -> list[dict[str, np.ndarray]]:
    """Return the gradients by W_l and B_l, in their shapes, Appendix E.

    D_{Z_l} l = D_{H_l} l D_{Z_l} H_l,   D_{H_{l+1}} l = D_{Z_l} l D_{H_{l+1}} Z_l,
    D_{W_l} l = D_{Z_l} l D_{W_l} Z_l,   D_{B_l} l = D_{Z_l} l

    `d_loss` maps Yhat to the row D_Yhat l.
    """
    Z, H = feedforward(layers, x)
    gradients = []
    D_H = d_loss(H[0])
    for l, layer in enumerate(layers):
        D_Z = D_H @ layer.H.derivative(Z[l])
        if l == len(layers) - 1:
            D_W = D_Z @ matrix_by_input_weight(layer.W, x)
        else:
            D_W = D_Z @ matrix_by_weight(layer.W, H[l + 1])
            D_H = D_Z @ matrix_by_matrix(layer.W)
        # The learning step prints P_(d_l, d_{l+1}) for all l; W_{j+1} needs
        # P_(d_{j+1}, p).
        gradients.append(
            {"W": unvec(D_W, layer.W.shape), "B": unvec(D_Z, layer.B.shape)}
        )
    return gradients


def matrix_by_weight(W: np.ndarray, H: np.ndarray) -> np.ndarray:
    """D_W Z = (W kron I)(H' kron I) + (I kron WH) K_(d, d_next), Appendix E.

    For Z = W H W' + B.
    """
    d, d_next = W.shape
    return product_rule(W @ H, W.T, np.kron(H.T, np.eye(d)), commutation(d, d_next))


def matrix_by_input_weight(W: np.ndarray, x: np.ndarray) -> np.ndarray:
    """D_W Z = (W1 kron I)(x' kron I) + (I kron Wx)(I kron 1') K_(d, p), Appendix E.

    For Z = W x (W 1)' + B, l = j+1. (Printed as the derivative of Z_l.)
    """
    d, p = W.shape
    F = (W @ x)[:, None]
    G = (W @ np.ones(p))[None, :]
    D_F = np.kron(x[None, :], np.eye(d))
    D_G = np.kron(np.eye(d), np.ones((1, p))) @ commutation(d, p)
    return product_rule(F, G, D_F, D_G)


def matrix_by_input(W: np.ndarray) -> np.ndarray:
    """D_x Z = (W 1) kron W for Z = W x (W 1)' + B.

    For a network whose input is the output of another, Appendix J.
    """
    return np.kron(W.sum(axis=1)[:, None], W)


def matrix_by_matrix(W: np.ndarray) -> np.ndarray:
    """D_{H_{l+1}} Z_l = (W kron I)(I kron W), Appendix E."""
    d, d_next = W.shape
    return np.kron(W, np.eye(d)) @ np.kron(np.eye(d_next), W)


def feedforward_shallow(
    W: Sequence,
    b: Sequence,
    B_0: np.ndarray,
    x: np.ndarray,
    h: Activation,
    H: Activation,
) -> np.ndarray:
    """Return Yhat of the shallow design, Eq. (mlps).

    h_{j+1} = h(W_{j+1} x + b_{j+1}),   h_l = h(W_l h_{l+1} + b_l),
    Z_0 = W_0 h_1 (W_0 1)' + B_0,   Yhat = H(Z_0)

    with W = (W_0, ..., W_{j+1}) and b = (b_1, ..., b_{j+1}).
    """
    h_next = x
    for l in reversed(range(1, len(W))):
        h_next = h.value(W[l] @ h_next + b[l - 1])
    Z_0 = np.outer(W[0] @ h_next, W[0] @ np.ones(len(h_next))) + B_0
    return H.value(Z_0)
