"""The general form, Eq. (mmlpb), which carries vectors beside matrices: Appendix F."""
# ruff: noqa: E741

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from mmlp.alpha import basic
from mmlp.alpha.activations import Activation
from mmlp.alpha.calculus import unvec


class Layer(NamedTuple):
    """`basic.Layer` with A_l (d_l, r_{l+1}), C_l (r_l, d_l), b_l (r_l,) and h.

    A_{j+1} is (d_{j+1}, r_{j+1}): it multiplies the vector of ones, which has r_{j+1}
    entries.
    """

    W: np.ndarray
    B: np.ndarray
    H: Activation
    A: np.ndarray
    C: np.ndarray
    b: np.ndarray
    h: Activation

    def matrix(self) -> basic.Layer:
        """Return the layer of the matrix path."""
        return basic.Layer(self.W, self.B, self.H)


class Latent(NamedTuple):
    """Z_l, H_l, z_l, h_l for l = 0, ..., j+1, with Yhat = H_0 and yhat = h_0.

    The list h ends in h_{j+2} = 1.
    """

    Z: list[np.ndarray]
    H: list[np.ndarray]
    z: list[np.ndarray]
    h: list[np.ndarray]


def feedforward(layers: Sequence[Layer], x: np.ndarray) -> Latent:
    """Evaluate Eq. (mmlpb).

    Z_l and H_l of the basic form;   z_l = C_l H_l A_l h_{l+1} + b_l,   h_l = h(z_l)
    """
    Z, H = basic.feedforward([layer.matrix() for layer in layers], x)
    z = []
    h = [np.ones(len(layers[-1].b))]
    for l in reversed(range(len(layers))):
        _, _, _, A, C, b, activation = layers[l]
        z.insert(0, C @ H[l] @ A @ h[0] + b)
        h.insert(0, activation.value(z[0]))
    return Latent(Z, H, z, h)


def backpropagation(
    layers: Sequence[Layer],
    x: np.ndarray,
    d_loss: Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]],
) -> list[dict[str, np.ndarray]]:
    """Return the gradients by W_l, B_l, A_l, C_l and b_l, in their shapes, Appendix F.

        D_{z_l} l = D_{h_l} l D_{z_l} h_l,    D_{h_{l+1}} l = D_{z_l} l D_{h_{l+1}} z_l,
        D_{H_0} l = D_{z_0} l D_{H_0} z_0 + D_Yhat l,
        D_{H_{l+1}} l = D_{z_{l+1}} l D_{H_{l+1}} z_{l+1} + D_{Z_l} l D_{H_{l+1}} Z_l,
        D_{A_l} l = D_{z_l} l D_{A_l} z_l,    D_{C_l} l = D_{z_l} l D_{C_l} z_l,
        D_{b_l} l = D_{z_l} l,

    W_l and B_l as in the basic form. `d_loss` maps (yhat, Yhat) to D_yhat l, D_Yhat l.
    D_{H_0} l counts both ways from Yhat to the loss, the D_Yhat l on its right only the
    direct one; the paper writes D_Yhat l for both.
    """
    Z, H, z, h = feedforward(layers, x)
    gradients = []
    # D_H is what has reached H_l by ways other than z_l.
    D_h, D_H = d_loss(h[0], H[0])
    for l, layer in enumerate(layers):
        W = layer.W
        A = layer.A
        C = layer.C
        D_z = D_h @ layer.h.derivative(z[l])
        D_H = D_z @ vector_by_matrix(C, A, h[l + 1]) + D_H
        D_Z = D_H @ layer.H.derivative(Z[l])
        if l == len(layers) - 1:
            D_W = D_Z @ basic.matrix_by_input_weight(W, x)
        else:
            D_W = D_Z @ basic.matrix_by_weight(W, H[l + 1])
            D_H = D_Z @ basic.matrix_by_matrix(W)
            D_h = D_z @ vector_by_vector(C, H[l], A)
        D_A = D_z @ vector_by_inner_weight(C, H[l], h[l + 1])
        D_C = D_z @ vector_by_outer_weight(H[l], A, h[l + 1], len(layer.b))
        gradients.append(
            {
                "W": unvec(D_W, W.shape),
                "B": unvec(D_Z, layer.B.shape),
                "b": D_z,
                # Printed P_(d_l, r_{l+1}) for all l; there is no r_{j+2}, and A_{j+1}
                # has r_{j+1}.
                "A": unvec(D_A, A.shape),
                "C": unvec(D_C, C.shape),
            }
        )
    return gradients


def vector_by_inner_weight(C: np.ndarray, H: np.ndarray, h: np.ndarray) -> np.ndarray:
    """D_{A_l} z_l = h_{l+1}' kron (C_l H_l), Appendix F.

    The paper prints C_l H_l for l <= j, and the right (C H)(1' kron I) for l = j+1,
    where h_{l+1} = 1.
    """
    return np.kron(h[None, :], C @ H)


def vector_by_outer_weight(
    H: np.ndarray, A: np.ndarray, h: np.ndarray, r: int
) -> np.ndarray:
    """D_{C_l} z_l = (H_l A_l h_{l+1})' kron I_{r_l}, Appendix F."""
    return np.kron((H @ A @ h)[None, :], np.eye(r))


def vector_by_vector(C: np.ndarray, H: np.ndarray, A: np.ndarray) -> np.ndarray:
    """D_{h_{l+1}} z_l = C_l H_l A_l, Appendix F."""
    return C @ H @ A


def vector_by_matrix(C: np.ndarray, A: np.ndarray, h: np.ndarray) -> np.ndarray:
    """D_{H_l} z_l = ((A_l h_{l+1})' kron I_{r_l})(I_{d_l} kron C_l), Appendix F.

    (For l = j+1 the ones are printed 1_{j+1}; there are r_{j+1} of them.)
    """
    r, d = C.shape
    return np.kron((A @ h)[None, :], np.eye(r)) @ np.kron(np.eye(d), C)
