"""Arrays of numbers in files, NaN where one is missing. Nothing is unpickled: that can run code."""

import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from tokenize import TokenError
from typing import Any
from zipfile import BadZipFile

import numpy as np

# an OverflowError comes from a shape such as (10**20, 0), of which no array can be
DAMAGE = (
    ValueError,
    EOFError,
    BadZipFile,
    zlib.error,
    SyntaxError,
    TokenError,
    RuntimeError,
    OverflowError,
)
PIECE = 2**20  # numbers that are checked at once


def read_npy(path: Path) -> np.ndarray:
    """The array of an .npy, (n, p), as it lies in the file, mapped into memory."""
    array = _undamaged(path, lambda: np.lib.format.open_memmap(path, mode="r"))
    _check_numbers(path, "the array", array)
    return check_matrix(path, "the array", array)


def read_npz(path: Path, required: Sequence[str], optional=()) -> dict[str, np.ndarray]:
    """Arrays of an .npz by name, float64, with as many rows each."""
    names = _loaded(path, lambda content: content.files)
    if missing := [name for name in required if name not in names]:
        found = ", ".join(map(repr, names)) or "none"
        example = ", ".join(f"{name}={name}" for name in required)
        remedy = f"write it by `numpy.savez({path.name!r}, {example})`"
        raise ValueError(f"{path} has no array {missing[0]!r} but {found}; {remedy}.")
    wanted = [name for name in (*required, *optional) if name in names]
    found = _loaded(path, lambda file: {name: file[name] for name in wanted})
    arrays = {name: _numbers(path, name, array) for name, array in found.items()}
    if len({len(array) for array in arrays.values()}) > 1:
        lengths = " and ".join(
            f"{name} has {len(array)} rows" for name, array in arrays.items()
        )
        raise ValueError(f"{path}: {lengths}; they must belong together.")
    return arrays


def check_matrix(path: Path, name: str, array: np.ndarray) -> np.ndarray:
    if array.ndim != 2:
        raise ValueError(
            f"{path}: {name} has the shape {array.shape}; it must be (rows, columns)."
        )
    return array


def _loaded(path: Path, take: Callable) -> Any:
    """What `take` takes from the content of an .npz."""

    def content():
        with open(path, "rb") as file:
            found = np.load(file, allow_pickle=False)
            if not isinstance(found, np.lib.npyio.NpzFile):
                raise ValueError("the content is of the other kind")
            return take(found)

    return _undamaged(path, content)


def _undamaged(path: Path, read: Callable) -> Any:
    try:
        return read()
    except DAMAGE as error:
        if "Object arrays" in str(error) or "Python objects" in str(error):
            text = "holds Python objects, which are not read; save `numpy.asarray(x, float)`"
        else:
            text = (
                f"is damaged, or not an {path.suffix.lower()} file; write it again by `numpy.save` "
                "or `numpy.savez`"
            )
    except MemoryError:
        text = "is damaged, or larger than the memory; write a smaller one"
    raise ValueError(f"{path} {text}.")


def _numbers(path: Path, name: str, array) -> np.ndarray:
    _check_numbers(path, name, array)
    return array.astype(np.float64, copy=False)


def _check_numbers(path: Path, name: str, array) -> None:
    """Refuse what is not numbers, some rows after the other; NaN is a missing one, not in Y."""
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "biuf":
        kind = getattr(array, "dtype", type(array).__name__)
        remedy = f"save `numpy.asarray({name}, float)`"
        raise ValueError(f"{path}: {name} holds {kind}, not numbers; {remedy}.")
    if array.ndim == 0 or array.size == 0:
        raise ValueError(
            f"{path}: {name} has the shape {array.shape}; it needs rows and columns."
        )
    wrong, some = [], max(1, PIECE * len(array) // array.size)
    for first in range(0, len(array), some):
        piece = array[first : first + some].astype(np.float64)
        found = np.argwhere(np.isinf(piece) if name != "Y" else ~np.isfinite(piece))
        wrong += [(first + row, *place) for row, *place in found.tolist()]
    if wrong:
        more = f" ({len(wrong) - 1} more such values)" if len(wrong) > 1 else ""
        value = array[wrong[0]]
        where = f"{name}[{', '.join(map(str, wrong[0]))}] is {value}, counted from 0"
        raise ValueError(f"{path}: {where}; fill it in, or remove the row{more}.")
