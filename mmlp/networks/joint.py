"""The paper's network joined to a standard MLP: the form that we recommend."""

from collections.abc import Callable
from typing import Any

from jax import Array

from mmlp.networks.matrix_mlp import TwoPaths
from mmlp.registry import register


@register
class JointMatrixMLP(TwoPaths):
    """`MatrixMLP` joined to a standard MLP.

        Z_l = W_l H_{l+1} W_l' + B_l,                       H_l = K(Z_l) / tr K(Z_l)
        z_l = (C_l H_l A_l + D_l) h_{l+1} + b_l,            h_l = activation(z_l)
        Z_0 = W_0 H_1 W_0' + B_0 + V h_1,                   z_0 = (C_0 H_1 A_0 + D_0) h_1 + b_0

    It departs from the paper in three points. The vector path begins at x where the paper has ones.
    It ends by reading H_1 where the paper has the output H_0, so that a mean is not multiplied by
    its own covariance. D and V add a standard MLP: the rank of the vector path is not limited by
    the sizes of the matrices, and the output matrix reads the last hidden vector. With the output
    `Triangular()` it contains `CholeskyMLP`. Arguments are those of `MatrixMLP`; without
    `out_features` the hidden vectors are there all the same, and only z_0 is not.

    >>> import jax
    >>> model = JointMatrixMLP(3, 2, (4, 4), out_features=5, key=jax.random.key(0))
    >>> vector, A = model(jax.numpy.ones(3))
    >>> vector.shape, A.dense().shape
    ((5,), (2, 2))
    """

    joint = True
    __init__ = TwoPaths.__init__  # type checkers would make up another

    def forward(self, x: Array, do: Callable) -> Any:
        H = h = x
        *hidden, last = self.matrices
        for matrix, vector in zip(hidden, self.vectors, strict=False):
            H = do(matrix, H)
            h = do(self.activation, do(vector, H, h))
        H_0 = do(last, H, h)
        return H_0 if self.out_features is None else (do(self.vectors[-1], H, h), H_0)
