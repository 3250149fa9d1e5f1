"""The paper's shallow design: a standard MLP with one matrix layer at its end."""

from typing import Any

import equinox as eqx
import jax
from jax import Array

from mmlp.argument_checks import check_size, check_sizes
from mmlp.linalg.primitive import full_precision
from mmlp.networks.kernels import Kernel, MercerSigmoid
from mmlp.networks.layers import Network, Perceptron
from mmlp.networks.outputs import Dense, Output, checked_output
from mmlp.registry import register
from mmlp.spd import SPD


@register
class ShallowMatrixMLP(Network):
    """Eq. (mlps): a standard MLP h_1(x), then Z_0 = W_0 h_1 (W_0 1)' + B_0 and one kernel.

    `output` is `Dense(kernel)` unless given.

    >>> model = ShallowMatrixMLP(3, 2, (4, 4), key=jax.random.key(0))
    >>> model(jax.numpy.ones(3)).dense().shape
    (2, 2)
    """

    perceptron: Perceptron  # x -> z_1
    last: Any  # the output's layer

    def __init__(
        self,
        in_features: int,
        dim: int,
        hidden_features: tuple[int, ...] = (20, 20, 20),
        *,
        kernel: Kernel = MercerSigmoid(),
        output: Output | None = None,
        key,
    ):
        p = check_size(in_features, "ShallowMatrixMLP(in_features=...)")
        d = check_size(dim, "ShallowMatrixMLP(dim=...)")
        r = check_sizes(hidden_features, "ShallowMatrixMLP(hidden_features=...)")
        if not r:
            raise ValueError(
                "`ShallowMatrixMLP(hidden_features=...)` must name a layer, got ()."
            )
        output = (
            Dense(kernel)
            if output is None
            else checked_output(output, "ShallowMatrixMLP")
        )
        key_hidden, key_output = jax.random.split(key)
        self.perceptron = Perceptron((p, *r), key=key_hidden)
        self.last = output.layer(r[-1], d, r=r[-1], key=key_output)

    @property
    def in_features(self) -> int:
        return self.perceptron.in_features

    @property
    def dim(self) -> int:
        return self.last.dim

    def hidden(self, x: Array) -> Array:
        """h_1, shape (r_1,)."""
        return self.perceptron.activation(self.perceptron(x))

    @full_precision
    def __call__(self, x: Array) -> SPD:
        h = self.hidden(self.checked(x))
        return self.last(h, h)

    @full_precision
    def calibrated(self, X: Array, *, key, targets=None) -> "ShallowMatrixMLP":
        model = eqx.tree_at(lambda m: m.perceptron, self, self.perceptron.calibrated(X))
        h = jax.vmap(model.hidden)(X)
        options = {} if targets is None else {"targets": targets}
        last = self.last.calibrated(h, h, key=key, **options)
        return eqx.tree_at(lambda m: m.last, model, last)
