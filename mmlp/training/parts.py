"""Which rows of common data each of many models sees: whole tables need not be copied for each."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np


def with_parts(
    check: Callable, name: str, arrays: tuple, rows, models: int | None
) -> tuple:
    """Data and validation data, checked, and the numbers of the rows of data, if there are any.

    With them the data are common to all models; the validation data are not.
    """
    if rows is None:
        return *check(name, arrays, models), None
    data, validation = check(name, arrays, models, common=True)
    return data, validation, _checked(rows, models or 0, len(jax.tree.leaves(data)[0]))


def _checked(rows, models: int, n: int) -> np.ndarray:
    """Numbers (models, parts, m) of rows of data that has n of them."""
    try:
        array = np.asarray(rows)
    except ValueError:
        raise ValueError(
            f"`fit_many(rows=...)` must be whole numbers of shape ({models}, parts, m), got lists "
            "of several lengths; repeat rows where a model has fewer."
        ) from None
    if (
        array.dtype.kind not in "iu"
        or array.ndim != 3
        or len(array) != models
        or not array.size
    ):
        raise ValueError(
            f"`fit_many(rows=...)` must be whole numbers of shape ({models}, parts, m), for each "
            f"model those of its rows, got dtype {array.dtype} and shape {array.shape}."
        )
    if array.min() < 0 or array.max() >= n:
        raise ValueError(
            f"`fit_many(rows=...)` must be from 0 to {n - 1}, the rows of the data, got "
            f"{array.min()} to {array.max()}."
        )
    return array.astype(np.int32, copy=False)


def numbers_in(rows, epoch):
    """Of the parts (parts, m) of one model, the one whose turn it is."""
    return jnp.take(rows, epoch % len(rows), axis=0)
