"""Checks of arguments: errors name argument, value and remedy; traced values pass unread."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.typing import ArrayLike


def checked_floats(x: ArrayLike, argument: str, shape: str, *, ndim: int):
    """`x` as an array of finite floating-point numbers with `ndim` or more axes, none empty."""
    array = x if isinstance(x, jax.Array | np.ndarray) else np.asarray(x)
    if not jnp.issubdtype(array.dtype, jnp.floating):
        got = f"got dtype {array.dtype}; use `.astype(float)`"
        raise ValueError(f"`{argument}` must hold floating-point numbers, {got}.")
    if array.ndim < ndim or 0 in array.shape:
        wanted = f"have shape {shape} with no axis of length 0"
        raise ValueError(f"`{argument}` must {wanted}, got shape {array.shape}.")
    if not isinstance(array, Tracer):
        bad = np.argwhere(~np.isfinite(np.asarray(array)))
        if len(bad):
            where = tuple(int(i) for i in bad[0])
            got = f"got {array[where]} at index {where}; drop or fill such entries"
            raise ValueError(f"`{argument}` must be finite, {got}.")
    return array


def checked_size(value: int, argument: str) -> int:
    """`value` as a whole number of at least 1."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise ValueError(
            f"`{argument}` must be a whole number of at least 1, got {value!r}."
        )
    return int(value)


def checked_sizes(values, argument: str) -> tuple[int, ...]:
    """`values` as a tuple of whole numbers of at least 1."""
    if not isinstance(values, tuple | list):
        raise ValueError(
            f"`{argument}` must be a tuple of sizes such as (20, 20), got {values!r}."
        )
    return tuple(checked_size(value, argument) for value in values)


def checked_positive(value: ArrayLike, argument: str, dtype) -> jax.Array:
    """`value` as an array of positive numbers; a Python number takes `dtype`."""
    value = jnp.asarray(value, dtype) if isinstance(value, int | float) else value
    array = jnp.asarray(checked_floats(value, argument, "(...)", ndim=0))
    if not isinstance(array, Tracer) and not np.all(np.asarray(array) > 0):
        got = f"got {np.min(np.asarray(array)):.6g}; use exp or softplus of it"
        raise ValueError(f"`{argument}` must be positive, {got}.")
    return array


def check_trace_one(gram, argument: str, tolerance: float = 1e-3) -> None:
    """Refuses a Gram whose trace is not one."""
    if any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(gram)):
        return
    with jax.ensure_compile_time_eval():  # a constant under `jit`
        trace = np.asarray(gram.trace())
    off = ~(np.abs(trace - 1) <= tolerance)
    if off.any():
        use = f"use `{type(gram).__name__}.trace_one(...)`, with the scale in `eta`"
        got = f"{trace[off][0]:.6g}"
        raise ValueError(
            f"`{argument}` must have trace one to {tolerance}, got {got}; {use}."
        )
