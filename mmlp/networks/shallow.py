"""The paper's shallow design: a standard MLP with one matrix layer at its end."""

from typing import Any

import equinox as eqx
import jax
from jax import Array

from mmlp.argument_checks import check_size, check_sizes
from mmlp.linalg.primitive import full_precision
from mmlp.networks.kernels import Kernel, MercerSigmoid
from mmlp.networks.layers import Network, Perceptron
from mmlp.networks.outputs import Dense, Output, check_output
from mmlp.registry import register
from mmlp.spd import SPD


@register
class ShallowMatrixMLP(Network):
    """A standard MLP h_1(x) followed by one matrix layer, Eq. (mlps).

        Z_0 = W_0 h_1 (W_0 1)' + B_0,   A = K(Z_0) / tr K(Z_0)

    Parameters
    ----------
    in_features : int
        Size p of the input x.
    dim : int
        Size d of A.
    hidden_features : tuple of int, default=(20, 20, 20)
        Widths of the standard MLP, from the input to h_1.
    kernel : callable, default=MercerSigmoid()
        Used if `output` is not given.
    output : Output, optional
        How A is made of Z_0; ``Dense(kernel)`` by default.
    key : PRNG key
        For the initial weights.

    Raises
    ------
    ValueError
        If a size is not a positive whole number, there is no hidden layer, or `output`
        is not an output.

    Examples
    --------
    >>> import jax
    >>> import jax.numpy as jnp
    >>> from mmlp import ShallowMatrixMLP
    >>> model = ShallowMatrixMLP(3, 2, (4, 4), key=jax.random.key(0))
    >>> model(jnp.ones(3)).dense().shape
    (2, 2)
    """

    perceptron: Perceptron  # x -> z_1
    last: Any  # the layer that the output makes

    def __init__(
        self,
        in_features: int,
        dim: int,
        hidden_features: tuple[int, ...] = (20, 20, 20),
        *,
        kernel: Kernel = MercerSigmoid(),
        output: Output | None = None,
        key: Array,
    ) -> None:
        p = check_size(in_features, "ShallowMatrixMLP(in_features=...)")
        d = check_size(dim, "ShallowMatrixMLP(dim=...)")
        r = check_sizes(hidden_features, "ShallowMatrixMLP(hidden_features=...)")
        if not r:
            raise ValueError(
                "`ShallowMatrixMLP(hidden_features=...)` must name a layer, got ()."
            )
        if output is None:
            output = Dense(kernel)
        output = check_output(output, "ShallowMatrixMLP")

        key_hidden, key_output = jax.random.split(key)
        self.perceptron = Perceptron((p, *r), key=key_hidden)
        self.last = output.layer(r[-1], d, r=r[-1], key=key_output)

    @property
    def in_features(self) -> int:
        """The size p of the input."""
        return self.perceptron.in_features

    @property
    def dim(self) -> int:
        """The size d of A."""
        return self.last.dim

    def hidden(self, x: Array) -> Array:
        """Return the last hidden vector h_1.

        Parameters
        ----------
        x : array of shape (in_features,)

        Returns
        -------
        Array of shape (r_1,)
        """
        return self.perceptron.activation(self.perceptron(x))

    @full_precision
    def __call__(self, x: Array) -> SPD:
        """Return A for one x (in_features,)."""
        h = self.hidden(self.check_input(x))
        return self.last(h, h)

    @full_precision
    def calibrated(
        self, X: Array, *, key: Array, targets: Array | None = None
    ) -> "ShallowMatrixMLP":
        """Return this network with layers that all respond to the inputs.

        Parameters
        ----------
        X : array of shape (n, in_features)
        key : PRNG key
        targets : array of shape (n', dim), optional
            The output `LowRank` starts at them.

        Returns
        -------
        ShallowMatrixMLP
        """
        model = eqx.tree_at(lambda m: m.perceptron, self, self.perceptron.calibrated(X))
        h = jax.vmap(model.hidden)(X)
        if targets is None:
            last = self.last.calibrated(h, h, key=key)
        else:
            last = self.last.calibrated(h, h, key=key, targets=targets)
        return eqx.tree_at(lambda m: m.last, model, last)
