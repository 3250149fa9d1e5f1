"""The paper's network: a path of matrices, and beside it a path of vectors."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from mmlp.argument_checks import check_size, check_sizes
from mmlp.linalg.primitive import full_precision
from mmlp.networks.hidden import Hidden
from mmlp.networks.kernels import Kernel, MercerSigmoid
from mmlp.networks.layers import MatrixLayer, Network, VectorLayer
from mmlp.networks.outputs import Dense, Output, check_output
from mmlp.registry import register


class TwoPaths(Network):
    """A path of matrices beside one of vectors.

    `MatrixMLP` and `JointMatrixMLP` share this class, and document its parameters.
    """

    # Whether a standard MLP is joined to the two paths.
    joint: ClassVar[bool]

    matrices: tuple  # layers from the input to the output
    vectors: tuple[VectorLayer, ...]
    activation: Callable = eqx.field(static=True)

    def __init__(
        self,
        in_features: int,
        dim: int,
        hidden_dims: tuple[int, ...] = (20, 20, 20),
        out_features: int | None = None,
        hidden_features: tuple[int, ...] | None = None,
        *,
        kernel: Kernel = MercerSigmoid(),
        output: Output = Dense(),
        activation: Callable = jnp.tanh,
        key: Array,
    ) -> None:
        name = type(self).__name__
        joint = self.joint
        p = check_size(in_features, f"{name}(in_features=...)")
        hidden = check_sizes(hidden_dims, f"{name}(hidden_dims=...)")
        if joint and not hidden:
            raise ValueError(
                f"`{name}(hidden_dims=...)` must name a hidden layer, got ()."
            )
        d = (*hidden, check_size(dim, f"{name}(dim=...)"))
        r = _check_widths(name, hidden, hidden_features, out_features, needed=joint)
        output = check_output(output, name)
        matrix_keys, vector_keys = jax.random.split(key, (2, len(d)))

        n = len(hidden)
        inputs = (p, *d)
        hidden_layers = [
            MatrixLayer(inputs[i], d[i], Hidden(kernel), key=matrix_keys[i])
            for i in range(n)
        ]
        h_1_features = r[n - 1] if r and n else 0
        last = output.layer(
            inputs[n], d[n], r=h_1_features, joint=joint, key=matrix_keys[n]
        )
        self.matrices = (*hidden_layers, last)

        if joint:
            # The vector path begins at x and ends by reading H_1.
            vector_inputs = (p, *r)
            matrix_sizes = (*hidden, inputs[n])
        else:
            # The paper's begins at ones and ends by reading H_0.
            vector_inputs = (*r[:1], *r)
            matrix_sizes = d
        self.vectors = tuple(
            VectorLayer(
                vector_inputs[i], matrix_sizes[i], r[i], joint=joint, key=vector_keys[i]
            )
            for i in range(len(r))
        )
        self.activation = activation

    @property
    def in_features(self) -> int:
        """The size p of the input."""
        return self.matrices[0].in_features

    @property
    def dim(self) -> int:
        """The size d of the SPD value."""
        return self.matrices[-1].dim

    @property
    def out_features(self) -> int | None:
        """The size of the vector, or None if the network returns none."""
        if len(self.vectors) < len(self.matrices):
            return None
        return len(self.vectors[-1].b)

    def shifted(self, offset: Array) -> Any:
        """Return the same network with an offset added to its vector.

        Parameters
        ----------
        offset : array of shape (out_features,)

        Returns
        -------
        TwoPaths
            Of the same class.
        """
        return eqx.tree_at(lambda m: m.vectors[-1].b, self, self.vectors[-1].b + offset)

    @abstractmethod
    def forward(self, x: Array, apply: Callable) -> Any:
        """Evaluate the equations of the network.

        Parameters
        ----------
        x : array
            The input, or a batch of inputs if `apply` expects one.
        apply : callable
            ``apply(layer, *inputs)`` stands for ``layer(*inputs)``.

        Returns
        -------
        SPD or tuple of Array and SPD
        """

    @full_precision
    def __call__(self, x: Array) -> Any:
        """Return the SPD value, or a vector and the value, for one x (in_features,)."""
        return self.forward(self.check_input(x), lambda layer, *inputs: layer(*inputs))

    @full_precision
    def calibrated(self, X: Array, *, key: Array, targets: Array | None = None) -> Any:
        """Return this network with layers that all respond to the inputs.

        The batch passes through the network, and each layer is calibrated when the
        batch reaches it.

        Parameters
        ----------
        X : array of shape (n, in_features)
        key : PRNG key
        targets : array of shape (n', dim), optional
            The output `LowRank` starts at them.

        Returns
        -------
        TwoPaths
            Of the same class.
        """
        keys = jax.random.split(key, len(self.matrices))
        key_of_layer = {
            id(layer): key for layer, key in zip(self.matrices, keys, strict=True)
        }
        last = self.matrices[-1]
        calibrated_layers = {}

        def calibrate_and_apply(layer, *inputs):
            if not hasattr(layer, "calibrated"):  # the activation
                return jax.vmap(layer)(*inputs)
            layer_key = key_of_layer.get(id(layer))
            if targets is not None and layer is last:
                new = layer.calibrated(*inputs, key=layer_key, targets=targets)
            else:
                new = layer.calibrated(*inputs, key=layer_key)
            calibrated_layers[id(layer)] = new
            return jax.vmap(new)(*inputs)

        self.forward(X, calibrate_and_apply)
        matrices = tuple(calibrated_layers[id(layer)] for layer in self.matrices)
        vectors = tuple(calibrated_layers[id(layer)] for layer in self.vectors)
        return eqx.tree_at(lambda m: (m.matrices, m.vectors), self, (matrices, vectors))


@register
class MatrixMLP(TwoPaths):
    """The matrix multilayer perceptron, Eq. (mlpa), or its general form, Eq. (mmlpb).

        Z_l = W_l H_{l+1} W_l' + B_l,       H_l = K(Z_l) / tr K(Z_l)
        z_l = C_l H_l A_l h_{l+1} + b_l,    h_l = activation(z_l)

    It maps x (in_features,) to an SPD value of trace one; with `out_features`, the
    general form, to a vector and such a value.

    Parameters
    ----------
    in_features : int
        Size p of the input x.
    dim : int
        Size d of the SPD value.
    hidden_dims : tuple of int, default=(20, 20, 20)
        Sizes (d_{j+1}, ..., d_1) of the hidden matrices, from the input to the output.
    out_features : int, optional
        Size of the vector z_0. Without it the network returns the SPD value alone.
    hidden_features : tuple of int, optional
        Widths (r_{j+1}, ..., r_1) of the vector path, as many as `hidden_dims`, which
        is the default.
    kernel : callable, default=MercerSigmoid()
        The kernel K of the hidden matrices.
    output : Output, default=Dense()
        How the SPD value is made of Z_0. The paper's is ``Dense(MercerSigmoid())``.
    activation : callable, default=jax.numpy.tanh
        The activation of the vector path, whose last layer is linear.
    key : PRNG key
        For the initial weights.

    Raises
    ------
    ValueError
        If a size is not a positive whole number, `hidden_features` do not fit, or
        `output` is not an output.

    See Also
    --------
    JointMatrixMLP : This network joined to a standard MLP.
    ShallowMatrixMLP : The paper's shallow design.

    Examples
    --------
    >>> import jax
    >>> import jax.numpy as jnp
    >>> from mmlp import MatrixMLP
    >>> model = MatrixMLP(3, 2, (4, 4), key=jax.random.key(0))
    >>> print(f"{model(jnp.ones(3)).trace():.4f}")
    1.0000
    """

    joint = False
    # Otherwise type checkers derive a constructor from the fields.
    __init__ = TwoPaths.__init__

    def forward(self, x: Array, apply: Callable) -> Any:
        H = x
        if not self.vectors:
            for matrix in self.matrices:
                H = apply(matrix, H)
            return H

        A = self.vectors[0].A
        h = jnp.ones((*x.shape[:-1], A.shape[1]), A.dtype)
        z = None
        for matrix, vector in zip(self.matrices, self.vectors, strict=True):
            H = apply(matrix, H, h)
            z = apply(vector, H, h)
            h = apply(self.activation, z)
        return z, H


def _check_widths(
    name: str,
    hidden_dims: tuple[int, ...],
    hidden_features: Any,
    out_features: int | None,
    *,
    needed: bool,
) -> tuple[int, ...]:
    """Return the sizes of what the vector layers give, (r_{j+1}, ..., r_1[, r_0]).

    They are () if there are none, that is without `out_features` and not `needed`.
    """
    if out_features is None and not needed:
        if hidden_features is not None:
            raise ValueError(
                f"`{name}(hidden_features=...)` are widths of the vector path and need "
                f"`out_features`, got hidden_features={hidden_features!r} without it."
            )
        return ()

    r = hidden_dims if hidden_features is None else hidden_features
    r = check_sizes(r, f"{name}(hidden_features=...)")
    if len(r) != len(hidden_dims):
        raise ValueError(
            f"`{name}(hidden_features=...)` must have one width for each of the "
            f"{len(hidden_dims)} hidden_dims, got {r}."
        )
    if out_features is None:
        return r
    return *r, check_size(out_features, f"{name}(out_features=...)")
