"""Arrays of finite numbers from NumPy's files. Nothing is unpickled: a pickle can run code."""

import zlib
from collections.abc import Sequence
from pathlib import Path
from tokenize import TokenError
from zipfile import BadZipFile

import numpy as np

DAMAGE = (ValueError, EOFError, BadZipFile, zlib.error, SyntaxError, TokenError, RuntimeError)


def read_npy(path: Path) -> np.ndarray:
    """The array of an .npy, (n, p), float64."""
    array = _loaded(path, lambda content: content, np.ndarray)
    return matrix(path, "the array", _numbers(path, "the array", array))


def read_npz(path: Path, required: Sequence[str], optional=()) -> dict[str, np.ndarray]:
    """Arrays of an .npz by name, float64, with as many rows each."""
    names = _loaded(path, lambda content: content.files, np.lib.npyio.NpzFile)
    if missing := [name for name in required if name not in names]:
        found = ", ".join(map(repr, names)) or "none"
        example = ", ".join(f"{name}={name}" for name in required)
        remedy = f"write it by `numpy.savez({path.name!r}, {example})`"
        raise ValueError(f"{path} has no array {missing[0]!r} but {found}; {remedy}.")
    wanted = [name for name in (*required, *optional) if name in names]
    found = _loaded(path, lambda file: {name: file[name] for name in wanted}, np.lib.npyio.NpzFile)
    arrays = {name: _numbers(path, name, array) for name, array in found.items()}
    if len({len(array) for array in arrays.values()}) > 1:
        lengths = " and ".join(f"{name} has {len(array)} rows" for name, array in arrays.items())
        raise ValueError(f"{path}: {lengths}; they must belong together.")
    return arrays


def matrix(path: Path, name: str, array: np.ndarray) -> np.ndarray:
    if array.ndim != 2:
        raise ValueError(f"{path}: {name} has the shape {array.shape}; it must be (rows, columns).")
    return array


def _loaded(path: Path, take, kind: type):
    """What `take` takes from the content of a file that must be of this kind."""
    try:
        with open(path, "rb") as file:
            content = np.load(file, allow_pickle=False)
            if not isinstance(content, kind):
                raise ValueError("the content is of the other kind")
            return take(content)
    except DAMAGE as error:
        if "Object arrays" in str(error):
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
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "biuf":
        kind = getattr(array, "dtype", type(array).__name__)
        remedy = f"save `numpy.asarray({name}, float)`"
        raise ValueError(f"{path}: {name} holds {kind}, not numbers; {remedy}.")
    if array.ndim == 0 or array.size == 0:
        raise ValueError(f"{path}: {name} has the shape {array.shape}; it needs rows and columns.")
    array = array.astype(np.float64)
    wrong = np.argwhere(~np.isfinite(array))
    if len(wrong):
        place = tuple(wrong[0].tolist())
        more = f" ({len(wrong) - 1} more such values)" if len(wrong) > 1 else ""
        where = f"{name}[{', '.join(map(str, place))}] is {array[place]}, counted from 0"
        raise ValueError(f"{path}: {where}; fill it in, or remove the row{more}.")
    return array
