"""The data of `fit`: trees of arrays with a common first axis of rows.

Arrays are checked and converted to JAX's precision before anything is compiled. A large
array that is mapped from a file stays in the file (`MappedArray`), and its rows are
read in chunks of batches while training runs.
"""

import dataclasses
import mmap
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

# Bytes that are read at once where all rows of an array are read in turn.
MAX_BYTES_PER_READ = 2**24

# Bytes of the batches that are read together. A mapped array that is no larger than
# this is loaded as a whole.
MAX_BYTES_PER_CHUNK = 2**26

USE_MORE_PRECISION = (
    "scale it, or allow double precision: `jax.config.update('jax_enable_x64', True)`."
)


class MappedArray:
    """An array in a file, in JAX's precision; indexing it reads rows.

    Parameters
    ----------
    array : np.ndarray
        Mapped from a file, as by `np.load(path, mmap_mode="r")`.
    """

    def __init__(self, array: np.ndarray):
        self.array = np.asarray(array)
        self.shape = array.shape
        self.dtype = _jax_dtype(array)

    def __len__(self) -> int:
        return len(self.array)

    def __getitem__(self, rows: Any) -> np.ndarray:
        return _cast(self.array[rows], self.dtype)


@dataclasses.dataclass(frozen=True)
class ModelAxis:
    """A leading axis of models that arrays must have: (n_models, n_rows, ...).

    Parameters
    ----------
    n_models : int
    reason : str
        The argument of `fit_many` that asks for this axis.
    """

    n_models: int
    reason: str


@dataclasses.dataclass(frozen=True)
class Chunk:
    """Consecutive batches of one size that are read together.

    Parameters
    ----------
    first_batch, first_row : int
        Indices of the first batch and of its first row in the order of the epoch.
    n_batches : int
    batch_size : int
    capacity : int
        Number of batches for which there is space. Chunks of equal capacity and batch
        size share a compiled program.
    """

    first_batch: int
    first_row: int
    n_batches: int
    batch_size: int
    capacity: int


def count_rows(tree: Any) -> int:
    """Return the number of rows of the arrays of a tree; 0 if it has no arrays."""
    leaves = jax.tree.leaves(tree)
    return len(leaves[0]) if leaves else 0


def count_bytes_per_row(tree: Any) -> int:
    """Return the number of bytes of one row in all arrays of a tree."""
    leaves = jax.tree.leaves(tree)
    return sum(x.dtype.itemsize * int(np.prod(x.shape[1:])) for x in leaves)


def is_mapped(array: Any) -> bool:
    """Whether an array, or the array that it is a view of, is mapped from a file."""
    while isinstance(array, np.ndarray):
        array = array.base
    return isinstance(array, mmap.mmap)


def is_streamed(tree: Any) -> bool:
    """Whether an array of the tree stays in its file."""
    return any(isinstance(leaf, MappedArray) for leaf in jax.tree.leaves(tree))


def is_large(tree: Any) -> bool:
    """Whether an array of the tree is larger than a chunk."""
    leaves = jax.tree.leaves(tree)
    return any(len(x) * count_bytes_per_row(x) > MAX_BYTES_PER_CHUNK for x in leaves)


def plan_chunks(tree: Any, batch_size: int) -> list[Chunk]:
    """Divide an epoch into chunks of full batches, and one for the remaining rows."""
    n_full, n_left = divmod(count_rows(tree), batch_size)
    batch_bytes = max(1, batch_size * count_bytes_per_row(tree))
    max_batches = max(1, MAX_BYTES_PER_CHUNK // batch_bytes)
    n_chunks = max(1, -(-n_full // max_batches))
    capacity = -(-n_full // n_chunks)

    chunks = []
    for first in range(0, n_full, max(1, capacity)):
        n_batches = min(capacity, n_full - first)
        chunks.append(Chunk(first, first * batch_size, n_batches, batch_size, capacity))
    if n_left:
        chunks.append(Chunk(n_full, n_full * batch_size, 1, n_left, 1))
    return chunks


def iterate_rows(array: Any) -> Iterator[np.ndarray]:
    """Yield all rows of an array in turn, several at a time."""
    n_rows = _rows_per_read(array)
    for first in range(0, len(array), n_rows):
        yield array[first : first + n_rows]


def read_rows(array: Any, rows: np.ndarray) -> np.ndarray:
    """Read rows by their indices, in the order in which they lie in the file.

    Parameters
    ----------
    array : MappedArray or np.ndarray of shape (n_rows, ...)
    rows : array of int, of any shape

    Returns
    -------
    np.ndarray of shape (*rows.shape, ...)
    """
    indices = rows.ravel()
    order = np.argsort(indices, kind="stable")
    result = np.empty((indices.size, *array.shape[1:]), array.dtype)
    n_rows = _rows_per_read(array)
    for first in range(0, indices.size, n_rows):
        places = order[first : first + n_rows]
        result[places] = array[indices[places]]
    return result.reshape(*rows.shape, *array.shape[1:])


def _rows_per_read(array: Any) -> int:
    return max(1, MAX_BYTES_PER_READ // max(1, count_bytes_per_row(array)))


def check_data(
    data: Any,
    validation: Any,
    *,
    call: str,
    many: bool = False,
    data_axis: ModelAxis | None = None,
    validation_axis: ModelAxis | None = None,
) -> tuple[Any, Any]:
    """Check training and validation data and convert them to JAX's precision.

    Parameters
    ----------
    data, validation : trees of arrays
        `validation` may be None.
    call : str
        The function that was called, for messages.
    many : bool, default=False
        Whether many models are trained, which needs all data in memory.
    data_axis, validation_axis : ModelAxis, optional
        The axis of models that the arrays must have.

    Returns
    -------
    data, validation : trees of np.ndarray and MappedArray

    Raises
    ------
    ValueError
        If something is not an array of finite numbers, if numbers of rows differ, or if
        the validation data do not have the form of the data.
    """
    data = _check_arrays(data, f"{call}(data=...)", data_axis, many=many)
    if validation is None:
        return data, None

    argument = f"{call}(validation=...)"
    validation = _check_arrays(validation, argument, validation_axis, many=many)
    structure = jax.tree.structure(data)
    row_types = _row_types(data, data_axis)
    validation_structure = jax.tree.structure(validation)
    validation_row_types = _row_types(validation, validation_axis)
    if row_types != validation_row_types:
        raise _form_error(argument, row_types, validation_row_types)
    if structure != validation_structure:
        raise _form_error(argument, structure, validation_structure)
    return data, validation


def _form_error(argument: str, expected: Any, received: Any) -> ValueError:
    return ValueError(
        f"`{argument}` must have the structure, row shapes and dtypes of the data, "
        f"{expected}, got {received}."
    )


def _row_types(tree: Any, axis: ModelAxis | None) -> list[tuple]:
    """Return the shape and dtype of a row of each array."""
    n_leading = 1 if axis is None else 2
    return [(x.shape[n_leading:], str(x.dtype)) for x in jax.tree.leaves(tree)]


def _check_arrays(
    tree: Any, argument: str, axis: ModelAxis | None, *, many: bool
) -> Any:
    """Check the arrays of a tree, and return them in JAX's precision or mapped."""
    leaves_with_path, structure = jax.tree_util.tree_flatten_with_path(tree)
    if not leaves_with_path:
        raise ValueError(
            f"`{argument}` must hold at least one array, got {tree!r:.80}."
        )
    leaves = {
        f"{argument}{jax.tree_util.keystr(path)}": leaf
        for path, leaf in leaves_with_path
    }

    lengths = {name: _check_array(name, leaf, axis) for name, leaf in leaves.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(
            f"`{argument}` must have the same number of rows in all its arrays, got "
            f"lengths {lengths}."
        )

    arrays = {
        name: _convert_or_map(name, leaf, many=many) for name, leaf in leaves.items()
    }
    for name, array in arrays.items():
        if jnp.issubdtype(array.dtype, jnp.inexact):
            _check_finite(name, array, leaves[name], axis)
    return jax.tree.unflatten(structure, arrays.values())


def _check_array(name: str, leaf: Any, axis: ModelAxis | None) -> int:
    """Return the number of rows; raise unless this is an array of numbers with rows."""
    if not isinstance(leaf, jax.Array | np.ndarray) or leaf.dtype == object:
        raise ValueError(
            f"`{name}` must be an array, got {leaf!r:.80}; use `np.asarray`."
        )
    if not (leaf.dtype == bool or jnp.issubdtype(leaf.dtype, jnp.number)):
        raise ValueError(
            f"`{name}` must hold numbers, got dtype {leaf.dtype}; encode it as numbers "
            "first."
        )
    shape = leaf.shape
    if axis is not None:
        if leaf.ndim < 2 or len(leaf) != axis.n_models:
            raise ValueError(
                f"`{name}` must have shape ({axis.n_models}, n, ...) with "
                f"{axis.reason}, got shape {leaf.shape}."
            )
        shape = leaf.shape[1:]
    if not shape or shape[0] == 0:
        raise ValueError(
            f"`{name}` must have at least one row, got shape {leaf.shape}."
        )
    return shape[0]


def _convert_or_map(name: str, leaf: Any, *, many: bool) -> np.ndarray | MappedArray:
    """Return an array in JAX's precision, or one that stays in its file."""
    array = np.asarray(leaf)
    _check_integer_range(name, array)
    stays_in_file = is_mapped(leaf) and is_large(MappedArray(leaf))
    if not stays_in_file:
        return _cast(array, _jax_dtype(array))
    if many:
        raise ValueError(
            f"`{name}` must be in memory, since each model has its own order of rows, "
            f"got a mapped file of {leaf.nbytes / 2**20:.0f} MB; give `np.array` of "
            "it, or call `fit` for each model."
        )
    return MappedArray(leaf)


def _jax_dtype(array: np.ndarray) -> np.dtype:
    """Return the dtype that JAX gives to an array, in native byte order."""
    return np.dtype(jax.dtypes.canonicalize_dtype(array.dtype.newbyteorder("=")))


def _cast(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Convert an array; numbers that are too large become infinite."""
    with np.errstate(over="ignore"):  # `_check_finite` reports them
        return array.astype(dtype, copy=False)


def _check_integer_range(name: str, array: np.ndarray) -> None:
    """Raise if an integer is too large for JAX's precision."""
    dtype = _jax_dtype(array)
    if dtype.kind not in "iu" or dtype.itemsize == array.dtype.itemsize:
        return
    limits = np.iinfo(dtype)
    for rows in iterate_rows(array):
        if not rows.size:
            continue
        for value in (rows.min(), rows.max()):
            if not limits.min <= value <= limits.max:
                raise ValueError(
                    f"`{name}` must fit {dtype}, got {value}; {USE_MORE_PRECISION}"
                )


def _check_finite(name: str, array: Any, leaf: Any, axis: ModelAxis | None) -> None:
    """Raise if an array has a number that is not finite, and say where it stands."""
    first_row = 0
    for rows in iterate_rows(array):
        finite = np.isfinite(rows)
        if not np.all(finite):
            row, *others = (int(i) for i in np.argwhere(~finite)[0])
            index = (first_row + row, *others)
            raise _not_finite_error(name, array.dtype, leaf[index], index, axis)
        first_row += len(rows)


def _not_finite_error(
    name: str, dtype: np.dtype, value: Any, index: tuple, axis: ModelAxis | None
) -> ValueError:
    """Return an error about a number of the user that is not finite, or too large."""
    place = f"row {index[0]}"
    if axis is not None:
        place = f"row {index[1]} of model {index[0]}"
    requirement = "be finite"
    remedy = "drop or fill such rows."
    if np.isfinite(value):
        requirement = f"fit {dtype}"
        remedy = USE_MORE_PRECISION
    return ValueError(
        f"`{name}` must {requirement}, got {value} in {place} (index {index}); {remedy}"
    )


def check_row_indices(rows: Any, n_models: int, n_rows: int) -> np.ndarray:
    """Check the argument `rows` of `fit_many`.

    Parameters
    ----------
    rows : array-like of int, of shape (n_models, n_parts, n_rows_per_epoch)
        Indices of rows of the data.
    n_models : int
    n_rows : int
        Number of rows of the data.

    Returns
    -------
    np.ndarray of int32
    """
    expected = f"`fit_many(rows=...)` must be integers of shape ({n_models}, parts, m)"
    try:
        array = np.asarray(rows)
    except ValueError:
        raise ValueError(
            f"{expected}, got lists of several lengths; repeat rows where a model has "
            "fewer."
        ) from None
    has_shape = array.ndim == 3 and len(array) == n_models and array.size
    if array.dtype.kind not in "iu" or not has_shape:
        raise ValueError(
            f"{expected}, the row indices of each model, got dtype {array.dtype} and "
            f"shape {array.shape}."
        )
    if array.min() < 0 or array.max() >= n_rows:
        raise ValueError(
            f"`fit_many(rows=...)` must be from 0 to {n_rows - 1}, the rows of the "
            f"data, got {array.min()} to {array.max()}."
        )
    return array.astype(np.int32, copy=False)
