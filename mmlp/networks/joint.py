"""The paper's network joined to a standard MLP: the form that we recommend."""

from typing import Any

import equinox as eqx
import jax
from jax import Array

from mmlp.linalg.primitive import full_precision
from mmlp.networks.paths import TwoPaths
from mmlp.registry import register


@register
class JointMatrixMLP(TwoPaths):
    """`MatrixMLP` joined to a standard MLP.

        Z_l = W_l H_{l+1} W_l' + B_l,                       H_l = K(Z_l) / tr K(Z_l)
        z_l = (C_l H_l A_l + D_l) h_{l+1} + b_l,            h_l = activation(z_l)
        Z_0 = W_0 H_1 W_0' + B_0 + V h_1,                   z_0 = (C_0 H_1 A_0 + D_0) h_1 + b_0

    It departs from the paper in three points: the vector path begins at x where the paper has ones;
    it ends by reading H_1 where the paper has the output H_0, so that a mean is not multiplied by
    its own covariance; and D and V add a standard MLP, so that the rank of the vector path is not
    limited by the sizes of the matrices, and the output matrix reads the last hidden vector. With
    the output `Triangular()` it contains `CholeskyMLP`. Sizes are those of `MatrixMLP`; without
    `out_features` the hidden vector path is there all the same, and z_0 is not.

    >>> model = JointMatrixMLP(3, 2, (4, 4), out_features=5, key=jax.random.key(0))
    >>> vector, A = model(jax.numpy.ones(3))
    >>> vector.shape, A.dense().shape
    ((5,), (2, 2))
    """

    joint = True
    __init__ = TwoPaths.__init__  # else type checkers make up one of the fields

    @full_precision
    def __call__(self, x: Array):
        H: Any = self.checked(x)
        h: Any = H
        *hidden, last = self.matrices
        for matrix, vector in zip(hidden, self.vectors, strict=False):
            H = matrix(H)
            h = self.activation(vector(H, h))
        H_0 = last(H, h)
        return H_0 if self.out_features is None else (self.vectors[-1](H, h), H_0)

    @full_precision
    def calibrated(self, X: Array, *, key) -> "JointMatrixMLP":
        H: Any = X
        h, matrices, vectors = X, [], []
        *keys, last_key = jax.random.split(key, len(self.matrices))
        for matrix, vector, layer_key in zip(self.matrices, self.vectors, keys, strict=False):
            matrices.append(matrix.calibrated(H, key=layer_key))
            H = jax.vmap(matrices[-1])(H)
            vectors.append(vector.calibrated(H, h))
            h = jax.vmap(self.activation)(jax.vmap(vectors[-1])(H, h))
        matrices.append(self.matrices[-1].calibrated(H, h, key=last_key))
        if self.out_features is not None:
            vectors.append(self.vectors[-1].calibrated(H, h))
        parts = tuple(matrices), tuple(vectors)
        return eqx.tree_at(lambda m: (m.matrices, m.vectors), self, parts)
