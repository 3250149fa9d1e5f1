"""Data-dependent initialisation: each layer in turn is fitted to a batch of inputs.

A freshly drawn matrix MLP hardly depends on its input, and training finds the constant
solution first (docs/maths). The weights of each layer are therefore rescaled until what
they produce varies over the samples by a set amount, about a random matrix (Z) or about
zero (z), in the spirit of layer-sequential unit-variance initialisation (Mishkin and
Matas, 2016). The methods `calibrated` of the layers are in `mmlp.networks.layers`.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer
from jax.typing import ArrayLike

from mmlp.argument_checks import check_floats
from mmlp.networks.layers import calibrate_model


def calibrate(
    model: Any, X: ArrayLike, *, key: Array, targets: ArrayLike | None = None
) -> Any:
    """Prepare a model for training, so that all its layers respond to the inputs.

    Parameters
    ----------
    model : eqx.Module
        A network, a head or a VAE. Another module must have a method ``calibrated(X, *,
        key)``, and ``calibrated(X, *, key, targets)`` to be used with targets; a
        network under a head then has a method ``shifted(offset)``, too.
    X : array of shape (n, p)
        Inputs; about 100 rows suffice.
    key : PRNG key
    targets : array of shape (n', d), optional
        Some or all of what the model is to learn (for a VAE, data). A head starts at
        their mean and total variance, and the output `LowRank` at their principal
        directions.

    Returns
    -------
    eqx.Module
        A new model of the same shapes.

    Raises
    ------
    ValueError
        If the model cannot be calibrated, or if `X` or `targets` do not fit it.

    Examples
    --------
    >>> import jax
    >>> from mmlp import MatrixMLP, calibrate
    >>> model = MatrixMLP(3, 2, (4, 4), key=jax.random.key(0))
    >>> X = jax.random.normal(jax.random.key(1), (50, 3))
    >>> model = calibrate(model, X, key=jax.random.key(2))
    """
    weights = jax.tree.leaves(eqx.filter(model, eqx.is_inexact_array))
    dtype = weights[0].dtype if weights else None

    Y = None
    if targets is not None:
        Y = _check_rows(targets, "calibrate(targets=...)", dtype)
        _check_range(Y)
    X = _check_rows(X, "calibrate(X=...)", dtype)
    return calibrate_model(model, X, key=key, targets=Y)


def _check_rows(values: ArrayLike, argument: str, dtype: Any) -> Array:
    """Return a table (n, p) with at least two rows, in the dtype of the weights."""
    X = jnp.asarray(check_floats(values, argument, "(n, p)", ndim=2))
    if X.ndim != 2 or len(X) < 2:
        raise ValueError(
            f"`{argument}` must have shape (n, p) with at least two rows, "
            f"got shape {X.shape}."
        )
    return X.astype(X.dtype if dtype is None else dtype)


def _check_range(targets: Array) -> None:
    """Raise if variances of concrete targets overflow or vanish in their dtype."""
    if isinstance(targets, Tracer):
        return
    deviations = np.std(np.asarray(targets, np.float64), axis=0)
    limits = jnp.finfo(targets.dtype)
    overflow = np.sum(deviations**2) > limits.max
    underflow = np.any((deviations > 0) & (deviations**2 < limits.tiny))
    if overflow or underflow:
        raise ValueError(
            f"`calibrate(targets=...)` must have squares in {targets.dtype}, got "
            f"deviations of {deviations.min():.3g} to {deviations.max():.3g}; "
            "scale them to one."
        )
