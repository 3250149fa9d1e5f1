"""Apply stacked networks to rows, a chunk of rows at a time.

Chunks keep memory small, and because every chunk has the same number of rows, each
function is compiled once and no prediction depends on how many rows there are.

A *stack* of networks is one network whose arrays have a leading axis of networks.
"""

import functools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import numpy as np

from mmlp.compilation import Compiled, combine_model, partition_model
from mmlp.errors import CallError

ROWS_PER_CHUNK = 256

# Chunks are taken together while their inputs and outputs stay this small.
MAX_CHUNKS_TOGETHER = 16
MAX_BYTES_TOGETHER = 2**20

MAX_BYTES_OF_COVARIANCES = 4 * 2**30


def round_up_to_few_sizes(n: int, unit: int) -> int:
    """Round n up to a multiple of `unit` of which there are few.

    All multiples up to 16 units are used, and then 8 for each doubling. Another number
    of rows is then seldom another compiled program, and at most an eighth is added.

    >>> [round_up_to_few_sizes(n, 64) // 64 for n in (1, 640, 641, 1100, 2100)]
    [1, 10, 11, 18, 36]
    """
    units = -(-n // unit)
    step = 2 ** max((units - 1).bit_length() - 4, 0)
    return -(-units // step) * step * unit


def check_memory(call: str, n_rows: int, n_columns: int) -> None:
    """Raise a CallError if float64 matrices (n, d, d) would need too much memory."""
    size = 8 * n_rows * n_columns**2
    if size > MAX_BYTES_OF_COVARIANCES:
        raise CallError(
            f"{n_rows} matrices of {n_columns} x {n_columns} would take "
            f"{size / 2**30:.1f} GiB, more than the limit of "
            f"{MAX_BYTES_OF_COVARIANCES / 2**30:g} GiB",
            call=call,
            remedy="give fewer rows",
            python_remedy="give fewer rows, or the `columns` that are wanted; "
            "`predict_distribution(X).covariance` has `diagonal()`, "
            "`marginal(columns)` and products without it",
        )


def nest_stack(networks: Any) -> Any:
    """Return a stack of one, whose only member is the given network or stack."""
    return jax.tree.map(
        lambda leaf: np.asarray(leaf)[None] if eqx.is_array(leaf) else leaf, networks
    )


def select_networks(networks: Any, indices: slice) -> Any:
    """Return the stack of some networks of a stack."""
    return jax.tree.map(
        lambda leaf: np.asarray(leaf)[indices] if eqx.is_array(leaf) else leaf, networks
    )


def select_network(networks: Any, index: int) -> Any:
    """Return one network of a stack, as a stack of one."""
    return select_networks(networks, slice(index, index + 1))


def map_in_chunks(function: Callable, *arrays: np.ndarray) -> Any:
    """Return `function(*arrays)`, computed for some rows at a time.

    The function maps arrays with n rows to a tree of arrays with n rows. No more is
    held at once than the result and what one call needs: the first call gets
    `ROWS_PER_CHUNK` rows, later ones up to `MAX_CHUNKS_TOGETHER` times as many if these
    are few bytes.
    """
    n_rows = len(arrays[0])
    n_rows_together = ROWS_PER_CHUNK
    result: Any = None
    start = 0
    while start < n_rows:
        rows = slice(start, start + n_rows_together)
        outputs = function(*(array[rows] for array in arrays))
        leaves, treedef = jax.tree.flatten(outputs)

        if result is None:
            empty = [np.empty((n_rows, *x.shape[1:]), x.dtype) for x in leaves]
            result = treedef.unflatten(empty)
            bytes_per_row = sum(x[:1].nbytes for x in (*arrays, *leaves))
            chunks = MAX_BYTES_TOGETHER // (ROWS_PER_CHUNK * bytes_per_row)
            n_rows_together = ROWS_PER_CHUNK * min(max(chunks, 1), MAX_CHUNKS_TOGETHER)

        for target, values in zip(jax.tree.leaves(result), leaves, strict=True):
            target[rows] = values
        start = rows.stop
    return result


def apply_networks(function: Callable, networks: Any, X: np.ndarray) -> Any:
    """Return `function(network, x)` for every row and every network.

    Parameters
    ----------
    function : callable
        Maps a network and one row x to a tree of arrays.
    networks : stack of networks
    X : array of shape (n_rows, n_inputs)

    Returns
    -------
    tree of arrays of shape (n_rows, n_networks, ...)
    """
    n_rows = len(X)
    padding = np.broadcast_to(X[:1], (-n_rows % ROWS_PER_CHUNK, X.shape[1]))
    padded = np.concatenate([X, padding])

    params, frozen, static = partition_model(networks)
    weights = jax.device_put((params, frozen))
    program = _apply_to_chunk.program(
        (function, static), *weights, padded[:ROWS_PER_CHUNK]
    )
    chunks = [
        program(*weights, padded[start : start + ROWS_PER_CHUNK])
        for start in range(0, len(padded), ROWS_PER_CHUNK)
    ]

    def join_chunks(*leaves: Any) -> np.ndarray:
        return np.concatenate([np.asarray(leaf) for leaf in leaves])[:n_rows]

    return jax.tree.map(join_chunks, *chunks)


@functools.partial(Compiled, effort="less")
def _apply_to_chunk(function_and_static, params, frozen, X):
    function, static = function_and_static
    return apply_traced(function, combine_model(params, frozen, static), X)


def apply_traced(function: Callable, networks: Any, X: Any) -> Any:
    """Return what `apply_networks` does, for use inside a compiled function."""
    over_networks = eqx.filter_vmap(function, in_axes=(eqx.if_array(0), None))
    return jax.vmap(lambda x: over_networks(networks, x))(X)


def trace_outputs(
    function: Callable, networks: Any, X: np.ndarray
) -> list[jax.ShapeDtypeStruct]:
    """Return shapes and dtypes of what `apply_networks` gives, without computing it."""
    return jax.tree.leaves(eqx.filter_eval_shape(apply_traced, function, networks, X))
