"""The rows that `fit` is given, checked piece by piece; those of a mapped file stay in the file."""

import mmap
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

PIECE = 2**24  # bytes at once where all rows of an array are read
CHUNK = 2**26  # bytes of batches that are read at once; an array of a file up to here is held


class Mapped:
    """An array of a file mapped into memory, in JAX's precision; rows are read when asked for."""

    def __init__(self, array: np.ndarray):
        self.array, self.shape = np.asarray(array), array.shape
        self.dtype = _precision(array)

    def __len__(self) -> int:
        return len(self.array)

    def __getitem__(self, rows) -> np.ndarray:
        return self.array[rows].astype(self.dtype)


class Piece(NamedTuple):
    """Batches of one size that are read together."""

    first: int  # number of the first of them
    row: int  # and of its first row
    count: int
    size: int  # rows of a batch
    room: int  # for so many batches: pieces of one form share a program


def is_mapped(array: Any) -> bool:
    """Whether the numbers lie in a file: those of `np.memmap`, `np.load(..., mmap_mode="r")`."""
    while isinstance(array, np.ndarray):
        array = array.base
    return isinstance(array, mmap.mmap)


def streamed(tree) -> bool:
    """Whether any array of the tree stays in its file."""
    return any(isinstance(leaf, Mapped) for leaf in jax.tree.leaves(tree))


def large(tree) -> bool:
    """Whether an array of the tree is larger than what is read of a file at once."""
    return any(len(x) * row_bytes(x) > CHUNK for x in jax.tree.leaves(tree))


def length(tree) -> int:
    """How many rows the arrays of the tree have; 0 if there are none."""
    leaves = jax.tree.leaves(tree)
    return len(leaves[0]) if leaves else 0


def planned(tree, size: int) -> list[Piece]:
    """The pieces in which these rows are read: full batches of this size, then the tail."""
    steps, tail = divmod(length(tree), size)
    most = max(1, CHUNK // max(1, size * row_bytes(tree)))
    room = -(-steps // max(1, -(-steps // most)))
    full = [
        Piece(first, first * size, min(room, steps - first), size, room)
        for first in range(0, steps, max(1, room))
    ]
    return [*full, Piece(steps, steps * size, 1, tail, 1)] if tail else full


def row_bytes(tree) -> int:
    """Of one row in all arrays of the tree."""
    return sum(x.dtype.itemsize * int(np.prod(x.shape[1:])) for x in jax.tree.leaves(tree))


def pieces(array) -> Iterator[np.ndarray]:
    """All rows of an array, some after the other."""
    some = max(1, PIECE // max(1, row_bytes(array)))
    return (array[first : first + some] for first in range(0, len(array), some))


def gathered(array, rows: np.ndarray) -> np.ndarray:
    """Rows by their numbers (...), as (..., *row); read in the order in which they lie."""
    wanted, some = rows.ravel(), max(1, PIECE // max(1, row_bytes(array)))
    found = np.empty((wanted.size, *array.shape[1:]), array.dtype)
    order = np.argsort(wanted, kind="stable")
    for first in range(0, wanted.size, some):
        places = order[first : first + some]
        found[places] = array[wanted[places]]
    return found.reshape(*rows.shape, *array.shape[1:])


def checked_rows(name: str, rows: tuple[Any, Any], models: int | None, *, many: bool):
    """Data and validation data of the same form; with `models`, for each of so many."""
    data = _checked_arrays(rows[0], f"{name}(data=...)", models, many=many)
    if rows[1] is None:
        return data, None
    argument, leading = f"{name}(validation=...)", 1 if models is None else 2
    validation = _checked_arrays(rows[1], argument, models, many=many)
    ours, theirs = (
        (jax.tree.structure(tree), [(x.shape[leading:], x.dtype) for x in jax.tree.leaves(tree)])
        for tree in (data, validation)
    )
    if ours != theirs:
        raise ValueError(
            f"`{argument}` must have the structure, row shapes and dtypes of the data, {ours[1]}, "
            f"got {theirs[1]}."
        )
    return data, validation


def _checked_arrays(tree, argument: str, models: int | None, *, many: bool):
    """Finite numbers with a common first axis, (n, ...) or (models, n, ...), in JAX's precision."""
    named = jax.tree_util.tree_flatten_with_path(tree)[0]
    if not named:
        raise ValueError(f"`{argument}` must hold at least one array, got {tree!r:.80}.")
    names = [f"{argument}{jax.tree_util.keystr(path)}" for path, _ in named]
    leaves = [leaf for _, leaf in named]
    lengths = {n: _length(n, leaf, models) for n, leaf in zip(names, leaves, strict=True)}
    if len(set(lengths.values())) > 1:
        raise ValueError(
            f"`{argument}` must have as many rows in each of its arrays, got lengths {lengths}."
        )
    arrays = [_held(n, leaf, many=many) for n, leaf in zip(names, leaves, strict=True)]
    for name, array in zip(names, arrays, strict=True):
        if jnp.issubdtype(array.dtype, jnp.inexact):
            _check_finite(name, array, models)
    return jax.tree.unflatten(jax.tree.structure(tree), arrays)


def _held(name: str, leaf, *, many: bool) -> np.ndarray | Mapped:
    """An array in JAX's precision, or what reads it from its file."""
    if not (is_mapped(leaf) and large(Mapped(leaf))):
        array = np.asarray(leaf)
        return array.astype(_precision(array), copy=False)
    if many:
        raise ValueError(
            f"`{name}` must be in memory, since each model has its own order of rows, got a mapped "
            f"file of {leaf.nbytes / 2**20:.0f} MB; give `np.array` of it, or call `fit` for each."
        )
    return Mapped(leaf)


def _precision(array) -> np.dtype:
    return np.dtype(jax.dtypes.canonicalize_dtype(array.dtype))


def _check_finite(name: str, array, models: int | None) -> None:
    first = 0
    for piece in pieces(array):
        finite = np.isfinite(piece)
        if not np.all(finite):
            where = tuple(int(i) for i in np.argwhere(~finite)[0])
            value, where = piece[where], (where[0] + first, *where[1:])
            place = f"row {where[0]}" if models is None else f"row {where[1]} of model {where[0]}"
            raise ValueError(
                f"`{name}` must be finite, got {value} in {place} (index {where}); drop or "
                "fill such rows."
            )
        first += len(piece)


def _length(name: str, leaf, models: int | None) -> int:
    """How many rows an array has."""
    if not isinstance(leaf, jax.Array | np.ndarray) or leaf.dtype == object:
        raise ValueError(f"`{name}` must be an array, got {leaf!r:.80}; use `np.asarray`.")
    if not (leaf.dtype == bool or jnp.issubdtype(leaf.dtype, jnp.number)):
        raise ValueError(
            f"`{name}` must hold numbers, got dtype {leaf.dtype}; encode it as numbers first."
        )
    if models is not None and (leaf.ndim < 2 or len(leaf) != models):
        raise ValueError(
            f"`{name}` must have shape ({models}, n, ...) with own_data=True, got shape "
            f"{leaf.shape}."
        )
    shape = leaf.shape if models is None else leaf.shape[1:]
    if not shape or shape[0] == 0:
        raise ValueError(f"`{name}` must have at least one row, got shape {leaf.shape}.")
    return shape[0]
