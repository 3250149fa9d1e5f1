"""Data-dependent initialisation: a batch goes through, and each layer is put to work in turn.

A freshly drawn matrix MLP hardly depends on its input, and training finds the constant solution
first (docs/maths). So each layer's weights are rescaled until what they produce varies over the
samples by a set amount, about a random matrix (Z) or zero (z), in the spirit of layer-sequential
unit-variance initialisation (Mishkin and Matas, 2016); see `calibrated` in `mmlp.networks.layers`.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer

from mmlp.argument_checks import check_floats
from mmlp.networks.layers import calibrated


def calibrate(model, X: Array, *, key, targets: Array | None = None):
    """A new model of the same shapes whose layers all respond to the inputs X (n, p), 100 or so.

    The model is a network, a head, a VAE, or one's own with a method `calibrated(X, *, key)`.
    With targets (n', d), some or all of what it is to learn (of a VAE: data), a head starts about
    their mean and total variance, and the output `LowRank` at their principal directions. One's own
    model then takes `targets`, too, and a network under a head has a method `shifted(offset)`.

    >>> from mmlp.networks import MatrixMLP
    >>> model = MatrixMLP(3, 2, (4, 4), key=jax.random.key(0))
    >>> X = jax.random.normal(jax.random.key(1), (50, 3))
    >>> model = calibrate(model, X, key=jax.random.key(2))
    """
    weights = jax.tree.leaves(eqx.filter(model, eqx.is_inexact_array))

    def rows(values, argument: str) -> Array:
        X = jnp.asarray(
            check_floats(values, f"calibrate({argument}=...)", "(n, p)", ndim=2)
        )
        if X.ndim != 2 or len(X) < 2:
            wanted = f"shape (n, p) with at least two rows, got shape {X.shape}"
            raise ValueError(f"`calibrate({argument}=...)` must have {wanted}.")
        return X.astype(weights[0].dtype if weights else X.dtype)

    Y = None if targets is None else rows(targets, "targets")
    if Y is not None and not isinstance(Y, Tracer):
        sizes, known = np.std(np.asarray(Y, np.float64), axis=0), jnp.finfo(Y.dtype)
        if np.sum(sizes**2) > known.max or np.any(
            (sizes > 0) & (sizes**2 < known.tiny)
        ):
            got = f"got deviations of {sizes.min():.3g} to {sizes.max():.3g}; scale them to one"
            raise ValueError(
                f"`calibrate(targets=...)` must have squares in {Y.dtype}, {got}."
            )
    return calibrated(model, rows(X, "X"), key=key, targets=Y)
