"""The paper's network: a path of matrices, and beside it a path of vectors."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from mmlp.linalg.primitive import full_precision
from mmlp.networks.paths import TwoPaths
from mmlp.registry import register


@register
class MatrixMLP(TwoPaths):
    """The matrix multilayer perceptron, Eq. (mlpa), or its general form, Eq. (mmlpb).

        Z_l = W_l H_{l+1} W_l' + B_l,          H_l = K(Z_l) / tr K(Z_l)
        z_l = C_l H_l A_l h_{l+1} + b_l,       h_l = activation(z_l)

    x (in_features,) gives an SPD value of size `dim` and trace one; with `out_features`, the
    general form, (vector (out_features,), value). The last vector layer is linear.
    `hidden_dims` = (d_{j+1}, ..., d_1) and `hidden_features` = (r_{j+1}, ..., r_1) run from the
    input to the output. The paper's output is `Dense(MercerSigmoid())`.

    >>> model = MatrixMLP(3, 2, (4, 4), key=jax.random.key(0))
    >>> print(f"{model(jnp.ones(3)).trace():.4f}")
    1.0000
    """

    joint = False
    __init__ = TwoPaths.__init__  # else type checkers make up one of the fields

    @full_precision
    def __call__(self, x: Array):
        H = self.checked(x)
        if not self.vectors:
            for matrix in self.matrices:
                H = matrix(H)
            return H
        z, h = None, self.ones()
        for matrix, vector in zip(self.matrices, self.vectors, strict=True):
            H = matrix(H)
            z = vector(H, h)
            h = self.activation(z)
        return z, H

    def ones(self) -> Array:
        """What the paper feeds to the first vector layer."""
        A = self.vectors[0].A
        return jnp.ones(A.shape[1], A.dtype)

    @full_precision
    def calibrated(self, X: Array, *, key) -> "MatrixMLP":
        H, matrices, vectors = X, [], []
        h: Any = jnp.tile(self.ones(), (len(X), 1)) if self.vectors else None
        for i, layer_key in enumerate(jax.random.split(key, len(self.matrices))):
            matrices.append(self.matrices[i].calibrated(H, key=layer_key))
            H = jax.vmap(matrices[i])(H)
            if self.vectors:
                vectors.append(self.vectors[i].calibrated(H, h))
                h = jax.vmap(self.activation)(jax.vmap(vectors[i])(H, h))
        parts = tuple(matrices), tuple(vectors)
        return eqx.tree_at(lambda m: (m.matrices, m.vectors), self, parts)
