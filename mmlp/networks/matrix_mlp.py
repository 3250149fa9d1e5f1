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
from mmlp.networks.outputs import Dense, Output, checked_output
from mmlp.registry import register


class TwoPaths(Network):
    """Matrices beside vectors: what `MatrixMLP` and `JointMatrixMLP` share."""

    joint: ClassVar[bool]  # a standard MLP is joined to the two paths

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
        key,
    ):
        name, joint = type(self).__name__, self.joint
        p = check_size(in_features, f"{name}(in_features=...)")
        hidden = check_sizes(hidden_dims, f"{name}(hidden_dims=...)")
        if joint and not hidden:
            raise ValueError(
                f"`{name}(hidden_dims=...)` must name a hidden layer, got ()."
            )
        d = (*hidden, check_size(dim, f"{name}(dim=...)"))
        r = _widths(name, hidden, hidden_features, out_features, needed=joint)
        output, keys = checked_output(output, name), jax.random.split(key, (2, len(d)))
        inputs, n = (p, *d), len(hidden)
        layers = [
            MatrixLayer(inputs[i], d[i], Hidden(kernel), key=keys[0, i])
            for i in range(n)
        ]
        features = r[n - 1] if r and n else 0  # of h_1
        last = output.layer(inputs[n], d[n], r=features, joint=joint, key=keys[0, n])
        self.matrices = (*layers, last)
        # a joint path begins at x and ends by reading H_1, the paper's at ones and H_0
        vectors, read = ((p, *r), (*hidden, inputs[n])) if joint else ((*r[:1], *r), d)
        sizes = zip(vectors, read, r, keys[1], strict=False)
        self.vectors = tuple(
            VectorLayer(*size, joint=joint, key=key) for *size, key in sizes
        )
        self.activation = activation

    @property
    def in_features(self) -> int:
        return self.matrices[0].in_features

    @property
    def dim(self) -> int:
        return self.matrices[-1].dim

    @property
    def out_features(self) -> int | None:
        return (
            len(self.vectors[-1].b) if len(self.vectors) == len(self.matrices) else None
        )

    def shifted(self, offset: Array) -> Any:
        """The same network with a vector that is larger by `offset` (out_features,)."""
        return eqx.tree_at(lambda m: m.vectors[-1].b, self, self.vectors[-1].b + offset)

    @abstractmethod
    def forward(self, x: Array, do: Callable) -> Any:
        """The equations, with `do(layer, *inputs)` for `layer(*inputs)`."""

    @full_precision
    def __call__(self, x: Array) -> Any:
        return self.forward(self.checked(x), lambda layer, *inputs: layer(*inputs))

    @full_precision
    def calibrated(self, X: Array, *, key, targets: Array | None = None) -> Any:
        """A batch goes through, and each layer is calibrated when it comes there."""
        keys = jax.random.split(key, len(self.matrices))
        keys = {id(layer): key for layer, key in zip(self.matrices, keys, strict=True)}
        fitted, last = {}, self.matrices[-1]

        def do(layer, *inputs):
            if hasattr(layer, "calibrated"):
                options = (
                    {} if targets is None or layer is not last else {"targets": targets}
                )
                new = layer.calibrated(*inputs, key=keys.get(id(layer)), **options)
                fitted[id(layer)] = layer = new
            return jax.vmap(layer)(*inputs)

        self.forward(X, do)
        paths = (self.matrices, self.vectors)
        layers = tuple(tuple(fitted[id(layer)] for layer in path) for path in paths)
        return eqx.tree_at(lambda m: (m.matrices, m.vectors), self, layers)


@register
class MatrixMLP(TwoPaths):
    """The matrix multilayer perceptron, Eq. (mlpa), or its general form, Eq. (mmlpb).

        Z_l = W_l H_{l+1} W_l' + B_l,          H_l = K(Z_l) / tr K(Z_l)
        z_l = C_l H_l A_l h_{l+1} + b_l,       h_l = activation(z_l)

    x (in_features,) gives an SPD value of size `dim` and trace one; with `out_features`, the
    general form, (vector (out_features,), value). `hidden_dims` = (d_{j+1}, ..., d_1) and
    `hidden_features` = (r_{j+1}, ..., r_1) run from the input to the output; the vector path's last
    layer is linear. The paper's output is `Dense(MercerSigmoid())`.

    >>> model = MatrixMLP(3, 2, (4, 4), key=jax.random.key(0))
    >>> print(f"{model(jnp.ones(3)).trace():.4f}")
    1.0000
    """

    joint = False
    __init__ = TwoPaths.__init__  # type checkers would make up another

    def forward(self, x: Array, do: Callable) -> Any:
        H = x
        if not self.vectors:
            for matrix in self.matrices:
                H = do(matrix, H)
            return H
        A, z = self.vectors[0].A, None
        h = jnp.ones((*x.shape[:-1], A.shape[1]), A.dtype)
        for matrix, vector in zip(self.matrices, self.vectors, strict=True):
            H = do(matrix, H, h)
            z = do(vector, H, h)
            h = do(self.activation, z)
        return z, H


def _widths(
    name: str, hidden, hidden_features, out_features, *, needed: bool
) -> tuple[int, ...]:
    """The sizes of what the vector layers give, (r_{j+1}, ..., r_1[, r_0]); () without any."""
    if out_features is None and not needed:
        if hidden_features is not None:
            got = f"got hidden_features={hidden_features!r} without it"
            needs = "are widths of the vector path and need `out_features`"
            raise ValueError(f"`{name}(hidden_features=...)` {needs}, {got}.")
        return ()
    r = hidden if hidden_features is None else hidden_features
    r = check_sizes(r, f"{name}(hidden_features=...)")
    if len(r) != len(hidden):
        wanted = f"one width for each of the {len(hidden)} hidden_dims, got {r}"
        raise ValueError(f"`{name}(hidden_features=...)` must have {wanted}.")
    if out_features is None:
        return r
    return *r, check_size(out_features, f"{name}(out_features=...)")
