"""The baseline: a standard MLP that gives the numbers of a vector and of an SPD value."""

from collections.abc import Callable

import equinox as eqx
from jax import Array

from mmlp.argument_checks import check_size, check_sizes
from mmlp.linalg.primitive import full_precision
from mmlp.networks.layers import Network, Perceptron
from mmlp.networks.outputs import Output, Triangular, checked_output
from mmlp.registry import register


@register
class CholeskyMLP(Network):
    """A standard MLP whose outputs are the vector and the entries of an upper triangular factor T.

    The diagonal of T is the exponential of its outputs; A = T'T / tr(T'T). With the output
    `Diagonal()` T has only a diagonal; any other output reads as many numbers as it needs.

    >>> import jax
    >>> model = CholeskyMLP(3, 2, (4,), out_features=1, key=jax.random.key(0))
    >>> vector, A = model(jax.numpy.ones(3))
    >>> vector.shape, A.dense().shape
    ((1,), (2, 2))
    """

    perceptron: Perceptron
    output: Output
    dim: int = eqx.field(static=True)
    out_features: int | None = eqx.field(static=True)

    def __init__(
        self,
        in_features: int,
        dim: int,
        hidden_features: tuple[int, ...] = (20, 20, 20),
        out_features: int | None = None,
        *,
        output: Output = Triangular(),
        key,
    ):
        p = check_size(in_features, "CholeskyMLP(in_features=...)")
        d = check_size(dim, "CholeskyMLP(dim=...)")
        r = check_sizes(hidden_features, "CholeskyMLP(hidden_features=...)")
        if out_features is not None:
            out_features = check_size(out_features, "CholeskyMLP(out_features=...)")
        self.output = checked_output(output, "CholeskyMLP")
        self.perceptron = Perceptron(
            (p, *r, (out_features or 0) + output.size(d)), key=key
        )
        self.dim, self.out_features = d, out_features

    @property
    def in_features(self) -> int:
        return self.perceptron.in_features

    @full_precision
    def __call__(self, x: Array):
        z, r = self.perceptron(self.checked(x)), self.out_features or 0
        A = self.output.read(z[r:], self.dim)
        return A if self.out_features is None else (z[:r], A)

    @full_precision
    def calibrated(self, X: Array, *, key=None, targets=None) -> "CholeskyMLP":
        model = eqx.tree_at(lambda m: m.perceptron, self, self.perceptron.calibrated(X))
        if targets is None:
            return model
        z = self.output.start(targets, key=key).astype(model.perceptron.b[-1].dtype)
        return model._with_bias(lambda b: b.at[self.out_features or 0 :].add(z))

    def shifted(self, offset: Array) -> "CholeskyMLP":
        """The same network with a vector that is larger by `offset` (out_features,)."""
        return self._with_bias(lambda b: b.at[: self.out_features].add(offset))

    def _with_bias(self, change: Callable[[Array], Array]) -> "CholeskyMLP":
        return eqx.tree_at(lambda m: m.perceptron.b[-1], self, replace_fn=change)
