"""Stacked networks applied to rows, a piece of them at a time."""

import functools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import numpy as np

from mmlp.compilation import Compiled, combine_model, partition_model
from mmlp.errors import CallError

PIECE = 256  # rows that are predicted at once: one shape, and no row depends on how many others
PIECES, BYTES = 16, 2**20  # of them, where what goes in and comes out has no more bytes
LARGEST = 4 * 2**30  # bytes of covariances that are made at once


def one_of_few(n: int, unit: int) -> int:
    """n, rounded up to one of few sizes: whole units, up to 16 all, then 8 for each doubling.

    So another number of rows is seldom another program, and at most an eighth is added.

    >>> [one_of_few(n, 64) // 64 for n in (1, 640, 641, 1100, 2100)]
    [1, 10, 11, 18, 36]
    """
    units = -(-n // unit)
    step = 2 ** max((units - 1).bit_length() - 4, 0)
    return -(-units // step) * step * unit


def check_memory(call: str, n: int, d: int) -> None:
    """Refuse matrices (n, d, d) in float64 that are too large."""
    size = 8 * n * d**2
    if size > LARGEST:
        raise CallError(
            f"{n} matrices of {d} x {d} would take {size / 2**30:.1f} GiB, more than the "
            f"limit of {LARGEST / 2**30:g} GiB",
            call=call,
            remedy="give fewer rows",
            python_remedy="give fewer rows, or the `columns` that are wanted; "
            "`predict_distribution(X).covariance` has `diagonal()`, `marginal(columns)` "
            "and products without it",
        )


def as_one(models):
    """Stacked models as a stack of one, which is all of them."""
    return jax.tree.map(lambda x: np.asarray(x)[None] if eqx.is_array(x) else x, models)


def only(models, k: int):
    """Of stacked models number k, from 0, as a stack of one."""
    return jax.tree.map(
        lambda x: np.asarray(x)[k : k + 1] if eqx.is_array(x) else x, models
    )


def by_pieces(function: Callable, *arrays: np.ndarray):
    """function(*arrays), a tree of arrays (n, ...), row by row: it is given some rows at a time.

    First `PIECE`, then up to `PIECES` times as many, as long as these are few bytes. So no more is
    held at once than the result and what one piece needs.
    """
    n, start, size = len(arrays[0]), 0, PIECE
    whole: Any = None
    while start < n:
        rows = slice(start, start + size)
        piece, form = jax.tree.flatten(function(*(array[rows] for array in arrays)))
        if whole is None:
            whole = form.unflatten(
                [np.empty((n, *x.shape[1:]), x.dtype) for x in piece]
            )
            each_row = sum(x[:1].nbytes for x in (*arrays, *piece))
            size = PIECE * min(max(BYTES // (PIECE * each_row), 1), PIECES)
        for target, values in zip(jax.tree.leaves(whole), piece, strict=True):
            target[rows] = values
        start = rows.stop
    return whole


def predictions(function: Callable, models, X: np.ndarray):
    """function(model, x) of rows x of X and stacked models: a tree of arrays (n, models, ...)."""
    n = len(X)
    padded = np.concatenate([X, np.broadcast_to(X[:1], (-n % PIECE, X.shape[1]))])
    params, frozen, static = partition_model(models)
    weights, starts = jax.device_put((params, frozen)), range(0, len(padded), PIECE)
    apply = _applied.program((function, static), *weights, padded[:PIECE])
    pieces = [apply(*weights, padded[i : i + PIECE]) for i in starts]
    return jax.tree.map(
        lambda *x: np.concatenate([np.asarray(piece) for piece in x])[:n], *pieces
    )


@functools.partial(Compiled, effort="less")
def _applied(static, params, frozen, X):
    function, rest = static
    return each(function, combine_model(params, frozen, rest), X)


def each(function: Callable, models, X):
    """`predictions` without pieces, to be traced."""
    over_models = eqx.filter_vmap(function, in_axes=(eqx.if_array(0), None))
    return jax.vmap(lambda x: over_models(models, x))(X)


def output_types(
    function: Callable, models, X: np.ndarray
) -> list[jax.ShapeDtypeStruct]:
    """Return what `each` would give, by tracing, which computes nothing."""
    return jax.tree.leaves(eqx.filter_eval_shape(each, function, models, X))
