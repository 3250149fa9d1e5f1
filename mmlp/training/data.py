"""The rows that `fit` is given, checked piece by piece; those of a mapped file stay in the file."""

import mmap
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

PIECE = 2**24  # bytes at once where all rows of an array are read
CHUNK = (
    2**26
)  # bytes of batches that are read at once; an array of a file up to here is held
WIDER = (
    "scale it, or allow double precision: `jax.config.update('jax_enable_x64', True)`."
)


class Mapped:
    """An array of a file mapped into memory, in JAX's precision; rows are read when asked for."""

    def __init__(self, array: np.ndarray):
        self.array, self.shape = np.asarray(array), array.shape
        self.dtype = _precision(array)

    def __len__(self) -> int:
        return len(self.array)

    def __getitem__(self, rows) -> np.ndarray:
        return _cast(self.array[rows], self.dtype)


class Own(NamedTuple):
    """A leading axis of models."""

    models: int
    why: str  # it must be there


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
    return sum(
        x.dtype.itemsize * int(np.prod(x.shape[1:])) for x in jax.tree.leaves(tree)
    )


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


def checked_rows(
    name: str, rows: tuple, models: int | None, *, many: bool, common: bool = False
):
    """Data and validation data of the same form; with `models`, for each of so many.

    Data that are `common` to the models have no axis of them, as `fit_many(rows=...)` takes them.
    """
    own = (
        None
        if models is None
        else Own(models, "rows=..." if common else "own_data=True")
    )
    axes = (None if common else own, own)
    data = _checked_arrays(rows[0], f"{name}(data=...)", axes[0], many=many)
    if rows[1] is None:
        return data, None
    argument = f"{name}(validation=...)"
    validation = _checked_arrays(rows[1], argument, own, many=many)
    (ours, shapes), (theirs, found) = map(_form, (data, validation), axes)
    if (ours, shapes) != (theirs, found):
        what = (shapes, found) if shapes != found else (ours, theirs)
        raise ValueError(
            f"`{argument}` must have the structure, row shapes and dtypes of the data, {what[0]}, "
            f"got {what[1]}."
        )
    return data, validation


def _form(tree, own: Own | None) -> tuple[Any, list[tuple]]:
    """Structure, and the shape and dtype of a row of each array."""
    leading = 1 if own is None else 2
    rows = [(x.shape[leading:], str(x.dtype)) for x in jax.tree.leaves(tree)]
    return jax.tree.structure(tree), rows


def _checked_arrays(tree, argument: str, own: Own | None, *, many: bool):
    """Finite numbers with a common first axis, (n, ...) or (models, n, ...), in JAX's precision."""
    named = jax.tree_util.tree_flatten_with_path(tree)[0]
    if not named:
        raise ValueError(
            f"`{argument}` must hold at least one array, got {tree!r:.80}."
        )
    names = [f"{argument}{jax.tree_util.keystr(path)}" for path, _ in named]
    leaves = [leaf for _, leaf in named]
    lengths = {n: _length(n, leaf, own) for n, leaf in zip(names, leaves, strict=True)}
    if len(set(lengths.values())) > 1:
        raise ValueError(
            f"`{argument}` must have as many rows in each of its arrays, got lengths {lengths}."
        )
    arrays = [_held(n, leaf, many=many) for n, leaf in zip(names, leaves, strict=True)]
    for name, array, leaf in zip(names, arrays, leaves, strict=True):
        if jnp.issubdtype(array.dtype, jnp.inexact):
            _check_finite(name, array, leaf, own)
    return jax.tree.unflatten(jax.tree.structure(tree), arrays)


def _held(name: str, leaf, *, many: bool) -> np.ndarray | Mapped:
    """An array in JAX's precision, or what reads it from its file."""
    array = np.asarray(leaf)
    _check_range(name, array)
    if not (is_mapped(leaf) and large(Mapped(leaf))):
        return _cast(array, _precision(array))
    if many:
        raise ValueError(
            f"`{name}` must be in memory, since each model has its own order of rows, got a mapped "
            f"file of {leaf.nbytes / 2**20:.0f} MB; give `np.array` of it, or call `fit` for each."
        )
    return Mapped(leaf)


def _precision(array) -> np.dtype:
    return np.dtype(jax.dtypes.canonicalize_dtype(array.dtype.newbyteorder("=")))


def _cast(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """In this precision; infinite where it is too small, which `_check_finite` finds."""
    with np.errstate(over="ignore"):
        return array.astype(dtype, copy=False)


def _check_range(name: str, array: np.ndarray) -> None:
    """Refuse whole numbers that are too large for JAX's precision."""
    dtype = _precision(array)
    if dtype.kind not in "iu" or dtype.itemsize == array.dtype.itemsize:
        return
    ends = np.iinfo(dtype)
    for piece in pieces(array):
        for value in (piece.min(), piece.max()) if piece.size else ():
            if not ends.min <= value <= ends.max:
                raise ValueError(f"`{name}` must fit {dtype}, got {value}; {WIDER}")


def _check_finite(name: str, array, leaf, own: Own | None) -> None:
    first = 0
    for piece in pieces(array):
        finite = np.isfinite(piece)
        if not np.all(finite):
            where = tuple(int(i) for i in np.argwhere(~finite)[0])
            where = (where[0] + first, *where[1:])
            value = leaf[where]
            place = (
                f"row {where[0]}"
                if own is None
                else f"row {where[1]} of model {where[0]}"
            )
            fits, how = "be finite", "drop or fill such rows."
            if np.isfinite(value):
                fits, how = f"fit {array.dtype}", WIDER
            raise ValueError(
                f"`{name}` must {fits}, got {value} in {place} (index {where}); {how}"
            )
        first += len(piece)


def _length(name: str, leaf, own: Own | None) -> int:
    """How many rows an array has."""
    if not isinstance(leaf, jax.Array | np.ndarray) or leaf.dtype == object:
        raise ValueError(
            f"`{name}` must be an array, got {leaf!r:.80}; use `np.asarray`."
        )
    if not (leaf.dtype == bool or jnp.issubdtype(leaf.dtype, jnp.number)):
        raise ValueError(
            f"`{name}` must hold numbers, got dtype {leaf.dtype}; encode it as numbers first."
        )
    if own is not None and (leaf.ndim < 2 or len(leaf) != own.models):
        raise ValueError(
            f"`{name}` must have shape ({own.models}, n, ...) with {own.why}, got shape "
            f"{leaf.shape}."
        )
    shape = leaf.shape if own is None else leaf.shape[1:]
    if not shape or shape[0] == 0:
        raise ValueError(
            f"`{name}` must have at least one row, got shape {leaf.shape}."
        )
    return shape[0]
