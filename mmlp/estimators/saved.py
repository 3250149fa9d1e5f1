"""The numbers of a fitted estimator as JSON and back, and the checks of those that a file holds.

A file with a right checksum may still have been written by something else. Whatever it holds, what comes out of `load` can
predict: numbers and networks are checked against each other, the networks by tracing them, which computes nothing.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import numpy as np

from mmlp.estimators.scaling import Scaling


def plain(value):
    """As JSON: numbers, and arrays as nested lists under a key that says so."""
    if isinstance(value, Scaling):
        return {"scaling": [x.tolist() for x in value]}
    if isinstance(value, dict):
        return {"history": {name: np.asarray(x).tolist() for name, x in value.items()}}
    if isinstance(value, np.ndarray):
        return {"array": value.tolist()}
    return builtin(value)


def from_plain(value):
    """The inverse of `plain`."""
    match value:
        case {"scaling": [mean, scale]}:
            return Scaling(np.asarray(mean, np.float64), np.asarray(scale, np.float64))
        case {"history": dict(columns)}:
            return {name: np.asarray(x) for name, x in columns.items()}
        case {"array": list(rows)}:
            return np.asarray(rows)
    return value


def builtin(value):
    """A parameter of NumPy's types as Python's, which JSON knows."""
    if isinstance(value, tuple | list):
        return type(value)(builtin(item) for item in value)
    return value.item() if isinstance(value, np.generic) else value


def check_params(params) -> None:
    """Arguments as `save` writes them: plain values by name."""

    def is_plain(value) -> bool:
        if isinstance(value, tuple | list):
            return all(map(is_plain, value))
        return value is None or isinstance(value, bool | int | float | str)

    if not isinstance(params, dict):
        raise ValueError(f"its arguments are {params!r:.80}")
    wrong = {name: value for name, value in params.items() if not is_plain(value)}
    if wrong:
        raise ValueError(f"it has the arguments {wrong!r:.80}")


def check_scaling(value, name: str, size: int) -> None:
    """A `Scaling` of `size` columns."""
    right = isinstance(value, Scaling) and all(
        x.shape == (size,) and np.isfinite(x).all() for x in value
    )
    if not right or not (value.scale > 0).all():
        raise ValueError(
            f"its {name} is not a mean and a positive scale for each of {size} columns"
        )


def check_history(value, name: str) -> None:
    """Numbers over epochs: `loss`, and whatever else."""
    arrays = list(value.values()) if isinstance(value, dict) else []
    right = all(x.ndim in (1, 2) and x.dtype.kind in "biuf" and len(x) for x in arrays)
    if not right or "loss" not in value or len({len(x) for x in arrays}) > 1:
        raise ValueError(f"its {name} does not hold the losses over epochs")


def check_number(value, name: str, lowest: float, highest: float) -> None:
    """A number from `lowest` to `highest`."""
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not lowest <= value <= highest
    ):
        raise ValueError(
            f"its {name} is {value!r:.80}, not a number from {lowest:g} to {highest:g}"
        )


def check_matrix(value, name: str, size: int) -> None:
    """A matrix (size, size) of finite numbers."""
    right = (
        isinstance(value, np.ndarray) and value.dtype.kind in "iuf" and value.shape == (size, size)
    )
    if not right or not np.isfinite(value).all():
        raise ValueError(f"its {name} is not a matrix ({size}, {size}) of finite numbers")


def check_names(values, name: str, size: int) -> None:
    """A list of `size` names of columns."""
    if (
        not isinstance(values, list)
        or not all(isinstance(x, str) for x in values)
        or len(values) != size
    ):
        raise ValueError(f"its {name} are not {size} names")


def check_outputs(what: str, function: Callable, *args, wanted: tuple, dtype) -> None:
    """`function(*args)` gives arrays of the `wanted` shapes, where None is any length, and of this dtype."""
    found = jax.tree.leaves(eqx.filter_eval_shape(function, *args))
    alike = len(found) == len(wanted) and all(
        x.ndim == len(shape)
        and all(m == n or (n is None and m > 0) for n, m in zip(shape, x.shape, strict=True))
        and x.dtype == dtype
        for x, shape in zip(found, wanted, strict=True)
    )
    if not alike:
        shapes = ", ".join(f"{x.dtype} {x.shape}" for x in found)
        raise ValueError(f"{what} gives {shapes} where {np.dtype(dtype)} {wanted} are needed")


def check_weights(models: Any) -> None:
    """Finite weights."""
    for path, leaf in jax.tree_util.tree_flatten_with_path(models)[0]:
        if eqx.is_inexact_array(leaf) and not np.isfinite(np.asarray(leaf)).all():
            raise ValueError(f"its weights {jax.tree_util.keystr(path)} are not finite")
