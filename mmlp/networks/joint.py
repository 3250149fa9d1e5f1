"""The paper's network joined to a standard MLP: the form that we recommend."""

from collections.abc import Callable
from typing import Any

from jax import Array

from mmlp.networks.matrix_mlp import TwoPaths
from mmlp.registry import register


@register
class JointMatrixMLP(TwoPaths):
    """`MatrixMLP` joined to a standard MLP, the network that we recommend.

        Z_l = W_l H_{l+1} W_l' + B_l,              H_l = K(Z_l) / tr K(Z_l)
        z_l = (C_l H_l A_l + D_l) h_{l+1} + b_l,   h_l = activation(z_l)
        Z_0 = W_0 H_1 W_0' + B_0 + V h_1,          z_0 = (C_0 H_1 A_0 + D_0) h_1 + b_0

    It differs from the paper in three points. The vector path begins at x, where the
    paper has ones. It ends by reading H_1, where the paper has the output H_0, so that
    a mean is not multiplied by its own covariance. D and V add a standard MLP: the
    sizes of the matrices do not limit the rank of the vector path, and the output
    matrix reads the last hidden vector. With the output `Triangular()` it contains
    `CholeskyMLP`.

    Parameters
    ----------
    in_features : int
        Size p of the input x.
    dim : int
        Size d of the SPD value.
    hidden_dims : tuple of int, default=(20, 20, 20)
        Sizes (d_{j+1}, ..., d_1) of the hidden matrices, from the input to the output;
        at least one.
    out_features : int, optional
        Size of the vector z_0. Without it the network returns the SPD value alone; the
        hidden vectors are there all the same.
    hidden_features : tuple of int, optional
        Widths (r_{j+1}, ..., r_1) of the vector path, as many as `hidden_dims`, which
        is the default.
    kernel : callable, default=MercerSigmoid()
        The kernel K of the hidden matrices.
    output : Output, default=Dense()
        How the SPD value is made of Z_0.
    activation : callable, default=jax.numpy.tanh
        The activation of the vector path, whose last layer is linear.
    key : PRNG key
        For the initial weights.

    Raises
    ------
    ValueError
        If a size is not a positive whole number, there is no hidden layer, or `output`
        is not an output.

    See Also
    --------
    MatrixMLP : The paper's network.
    CholeskyMLP : The baseline.

    Examples
    --------
    >>> import jax
    >>> import jax.numpy as jnp
    >>> from mmlp import JointMatrixMLP
    >>> model = JointMatrixMLP(3, 2, (4, 4), out_features=5, key=jax.random.key(0))
    >>> vector, A = model(jnp.ones(3))
    >>> vector.shape, A.dense().shape
    ((5,), (2, 2))
    """

    joint = True
    # Otherwise type checkers derive a constructor from the fields.
    __init__ = TwoPaths.__init__

    def forward(self, x: Array, apply: Callable) -> Any:
        H = x
        h = x
        *hidden_matrices, last = self.matrices
        for matrix, vector in zip(hidden_matrices, self.vectors, strict=False):
            H = apply(matrix, H)
            h = apply(self.activation, apply(vector, H, h))

        H_0 = apply(last, H, h)
        if self.out_features is None:
            return H_0
        return apply(self.vectors[-1], H, h), H_0
