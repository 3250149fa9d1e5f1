"""Checks of arguments whose errors name the argument, its value and a remedy.

Traced values pass unread: their numbers are not known while a program is compiled.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.typing import ArrayLike


def check_floats(x: ArrayLike, argument: str, shape: str, *, ndim: int) -> Any:
    """Return `x` as an array, if it is finite, floating-point and has no empty axis.

    Parameters
    ----------
    x : array-like
    argument : str
        Name of the argument in errors, such as "Gram(factor=...)".
    shape : str
        The shape that errors ask for, such as "(..., m, d)".
    ndim : int
        The smallest number of axes.

    Returns
    -------
    jax.Array or numpy.ndarray
        `x` itself if it is an array of one of these kinds.

    Raises
    ------
    ValueError
        If the dtype, the shape or an entry is not as asked for.
    """
    array = x if isinstance(x, jax.Array | np.ndarray) else np.asarray(x)

    if not jnp.issubdtype(array.dtype, jnp.floating):
        raise ValueError(
            f"`{argument}` must hold floating-point numbers, "
            f"got dtype {array.dtype}; use `.astype(float)`."
        )
    if array.ndim < ndim or 0 in array.shape:
        raise ValueError(
            f"`{argument}` must have shape {shape} with no axis of length 0, "
            f"got shape {array.shape}."
        )

    if not isinstance(array, Tracer):
        non_finite = np.argwhere(~np.isfinite(np.asarray(array)))
        if len(non_finite):
            index = tuple(int(i) for i in non_finite[0])
            raise ValueError(
                f"`{argument}` must be finite, got {array[index]} at index {index}; "
                "drop or fill such entries."
            )
    return array


def check_size(value: int, argument: str) -> int:
    """Return `value` as an int, if it is a whole number of at least 1."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise ValueError(
            f"`{argument}` must be a whole number of at least 1, got {value!r}."
        )
    return int(value)


def check_sizes(values: Any, argument: str) -> tuple[int, ...]:
    """Return `values` as a tuple, if they are whole numbers of at least 1."""
    if not isinstance(values, tuple | list):
        raise ValueError(
            f"`{argument}` must be a tuple of sizes such as (20, 20), got {values!r}."
        )
    return tuple(check_size(value, argument) for value in values)


def check_positive(value: ArrayLike, argument: str, dtype: Any) -> jax.Array:
    """Return `value` as an array, if it is positive; a Python number takes `dtype`."""
    if isinstance(value, int | float):
        value = jnp.asarray(value, dtype)
    array = jnp.asarray(check_floats(value, argument, "(...)", ndim=0))

    if not isinstance(array, Tracer) and not np.all(np.asarray(array) > 0):
        smallest = np.min(np.asarray(array))
        raise ValueError(
            f"`{argument}` must be positive, got {smallest:.6g}; "
            "use exp or softplus of it."
        )
    return array


def check_trace_one(A: Any, argument: str, tolerance: float = 1e-3) -> None:
    """Raise a ValueError if a concrete SPD value does not have trace one."""
    if any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(A)):
        return

    # The value may be a constant of a function that is being compiled.
    with jax.ensure_compile_time_eval():
        trace = np.asarray(A.trace())

    # A NaN is not close to one either.
    wrong = ~(np.abs(trace - 1) <= tolerance)
    if wrong.any():
        raise ValueError(
            f"`{argument}` must have trace one to {tolerance}, "
            f"got {trace[wrong][0]:.6g}; "
            f"use `{type(A).__name__}.trace_one(...)`, with the scale in `eta`."
        )
