"""Arrays of numbers in .npy and .npz files, NaN where one is missing.

Nothing is unpickled: that can run code.
"""

import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from tokenize import TokenError
from typing import Any
from zipfile import BadZipFile

import numpy as np

# What NumPy raises for a damaged file. An OverflowError comes from a shape such as
# (10**20, 0), which no array can have.
DAMAGE_ERRORS = (
    ValueError,
    EOFError,
    BadZipFile,
    zlib.error,
    SyntaxError,
    TokenError,
    RuntimeError,
    OverflowError,
)
NUMBERS_PER_CHUNK = 2**20


def read_npy(path: Path) -> np.ndarray:
    """Return the array of an .npy, (n_rows, n_columns), mapped into memory."""
    array = _explain_damage(path, lambda: np.lib.format.open_memmap(path, mode="r"))
    _check_numbers(path, "the array", array)
    return check_matrix(path, "the array", array)


def read_npz(
    path: Path, required: Sequence[str], optional: Sequence[str] = ()
) -> dict[str, np.ndarray]:
    """Read arrays of an .npz by name.

    Parameters
    ----------
    path : Path
    required, optional : sequence of str
        Names of arrays.

    Returns
    -------
    dict of arrays, float64, with the same number of rows
    """
    known = _load_npz(path, lambda content: content.files)
    missing = [name for name in required if name not in known]
    if missing:
        listed = ", ".join(map(repr, known)) or "none"
        example = ", ".join(f"{name}={name}" for name in required)
        raise ValueError(
            f"{path} has no array {missing[0]!r} but {listed}; write it by "
            f"`numpy.savez({path.name!r}, {example})`."
        )

    names = [name for name in (*required, *optional) if name in known]
    contents = _load_npz(path, lambda content: {name: content[name] for name in names})
    arrays = {}
    for name, array in contents.items():
        _check_numbers(path, name, array)
        arrays[name] = array.astype(np.float64, copy=False)

    n_rows = {name: len(array) for name, array in arrays.items()}
    if len(set(n_rows.values())) > 1:
        lengths = " and ".join(f"{name} has {n} rows" for name, n in n_rows.items())
        raise ValueError(f"{path}: {lengths}; they must belong together.")
    return arrays


def check_matrix(path: Path, name: str, array: np.ndarray) -> np.ndarray:
    """Return an array if it has rows and columns; raise a ValueError otherwise."""
    if array.ndim != 2:
        raise ValueError(
            f"{path}: {name} has the shape {array.shape}; it must be (rows, columns)."
        )
    return array


def _load_npz(path: Path, take: Callable[[Any], Any]) -> Any:
    """Return what `take` takes from the content of an .npz."""

    def load() -> Any:
        with open(path, "rb") as file:
            content = np.load(file, allow_pickle=False)
            if not isinstance(content, np.lib.npyio.NpzFile):
                raise ValueError("this is an .npy")  # `_explain_damage` rewords it
            return take(content)

    return _explain_damage(path, load)


def _explain_damage(path: Path, read: Callable[[], Any]) -> Any:
    """Call `read`, and turn NumPy's errors into one that names the file."""
    try:
        return read()
    except DAMAGE_ERRORS as error:
        problem = (
            f"is damaged, or not an {path.suffix.lower()} file; write it again by "
            "`numpy.save` or `numpy.savez`"
        )
        if "Object arrays" in str(error) or "Python objects" in str(error):
            problem = (
                "holds Python objects, which are not read; save "
                "`numpy.asarray(x, float)`"
            )
    except MemoryError:
        problem = "is damaged, or larger than the memory; write a smaller one"
    raise ValueError(f"{path} {problem}.")


def _check_numbers(path: Path, name: str, array: Any) -> None:
    """Raise a ValueError for arrays that are empty or do not hold numbers."""
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "biuf":
        kind = getattr(array, "dtype", type(array).__name__)
        raise ValueError(
            f"{path}: {name} holds {kind}, not numbers; save "
            f"`numpy.asarray({name}, float)`."
        )
    if array.ndim == 0 or array.size == 0:
        raise ValueError(
            f"{path}: {name} has the shape {array.shape}; it needs rows and columns."
        )

    # The matrices Y must be complete; X and y may have missing values.
    places = _find_bad_numbers(array, may_be_missing=name != "Y")
    if places:
        place = places[0]
        more = f" ({len(places) - 1} more such values)" if len(places) > 1 else ""
        raise ValueError(
            f"{path}: {name}[{', '.join(map(str, place))}] is {array[place]}, counted "
            f"from 0; fill it in, or remove the row{more}."
        )


def _find_bad_numbers(
    array: np.ndarray, *, may_be_missing: bool
) -> list[tuple[int, ...]]:
    """Return the places of infinite numbers, and of NaN where none may be missing.

    The array is checked in chunks, because it may be mapped into memory.
    """
    n_rows = max(1, NUMBERS_PER_CHUNK * len(array) // array.size)
    places = []
    for first in range(0, len(array), n_rows):
        chunk = array[first : first + n_rows].astype(np.float64)
        is_bad = np.isinf(chunk) if may_be_missing else ~np.isfinite(chunk)
        for row, *others in np.argwhere(is_bad).tolist():
            places.append((first + row, *others))
    return places
