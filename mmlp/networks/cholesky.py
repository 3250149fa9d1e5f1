"""The baseline: a standard MLP that returns a vector and the entries of a factor."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
from jax import Array

from mmlp.argument_checks import check_size, check_sizes
from mmlp.linalg.primitive import full_precision
from mmlp.networks.layers import Network, Perceptron
from mmlp.networks.outputs import Output, Triangular, check_output
from mmlp.registry import register


@register
class CholeskyMLP(Network):
    """A standard MLP that returns an SPD value A = T'T / tr(T'T), or a vector and A.

    Its outputs are the vector and the entries of an upper triangular factor T, whose
    diagonal is exp of its outputs. With the output `Diagonal()`, T has only a diagonal;
    any other output reads as many numbers as it needs.

    Parameters
    ----------
    in_features : int
        Size p of the input x.
    dim : int
        Size d of A.
    hidden_features : tuple of int, default=(20, 20, 20)
        Widths of the hidden layers, from the input to the output.
    out_features : int, optional
        Size of the vector. Without it the network returns A alone.
    output : Output, default=Triangular()
        How A is made of the last layer.
    key : PRNG key
        For the initial weights.

    Raises
    ------
    ValueError
        If a size is not a positive whole number, or `output` is not an output.

    See Also
    --------
    JointMatrixMLP : A network that contains this one.

    Examples
    --------
    >>> import jax
    >>> import jax.numpy as jnp
    >>> from mmlp import CholeskyMLP
    >>> model = CholeskyMLP(3, 2, (4,), out_features=1, key=jax.random.key(0))
    >>> vector, A = model(jnp.ones(3))
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
        key: Array,
    ) -> None:
        p = check_size(in_features, "CholeskyMLP(in_features=...)")
        d = check_size(dim, "CholeskyMLP(dim=...)")
        r = check_sizes(hidden_features, "CholeskyMLP(hidden_features=...)")
        if out_features is not None:
            out_features = check_size(out_features, "CholeskyMLP(out_features=...)")
        self.output = check_output(output, "CholeskyMLP")

        n_outputs = (out_features or 0) + output.size(d)
        self.perceptron = Perceptron((p, *r, n_outputs), key=key)
        self.dim = d
        self.out_features = out_features

    @property
    def in_features(self) -> int:
        """The size p of the input."""
        return self.perceptron.in_features

    @full_precision
    def __call__(self, x: Array) -> Any:
        """Return A, or the vector and A, for one x (in_features,)."""
        z = self.perceptron(self.check_input(x))
        r = self.out_features or 0
        A = self.output.read(z[r:], self.dim)
        return A if self.out_features is None else (z[:r], A)

    @full_precision
    def calibrated(
        self, X: Array, *, key: Array | None = None, targets: Array | None = None
    ) -> "CholeskyMLP":
        """Return this network with layers that all respond to the inputs.

        Parameters
        ----------
        X : array of shape (n, in_features)
        key : PRNG key, optional
            Needed with targets.
        targets : array of shape (n', dim), optional
            A starts at the value that suits them.

        Returns
        -------
        CholeskyMLP
        """
        model = eqx.tree_at(lambda m: m.perceptron, self, self.perceptron.calibrated(X))
        if targets is None:
            return model
        z = self.output.start(targets, key=key)  # pyright: ignore[reportArgumentType]
        z = z.astype(model.perceptron.b[-1].dtype)
        return model._change_last_bias(lambda b: b.at[self.out_features or 0 :].add(z))

    def shifted(self, offset: Array) -> "CholeskyMLP":
        """Return the same network with an offset added to its vector.

        Parameters
        ----------
        offset : array of shape (out_features,)

        Returns
        -------
        CholeskyMLP
        """
        return self._change_last_bias(lambda b: b.at[: self.out_features].add(offset))

    def _change_last_bias(self, change: Callable[[Array], Array]) -> "CholeskyMLP":
        return eqx.tree_at(lambda m: m.perceptron.b[-1], self, replace_fn=change)
