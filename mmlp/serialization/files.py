"""Files of arrays and metadata: safetensors with a checksum, written in one step.

Nothing in such a file is code, and it is checked before it is used: the length that the
header claims against the size of the file, the format by the safetensors library, and
names, shapes, numbers and metadata by SHA-256.
"""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from mmlp import atomic_files
from mmlp.errors import FileError

MAX_HEADER_BYTES = 100 * 2**20  # the limit of the safetensors library
LENGTH_BYTES = 8  # at the start of a file, for the length of the header
FORMAT = "mmlp"  # the entry of the header that holds the metadata
VERSION = 2  # of the format; 1 was that of 0.1.0, whose networks had other parts
DTYPES = frozenset(
    "bool float16 float32 float64 int8 int16 int32 int64 uint8 uint16 uint32 "
    "uint64".split()
)


def write(path: Path, arrays: dict[str, np.ndarray], metadata: dict) -> None:
    """Write a file that is complete, or leave what was there before.

    Parameters
    ----------
    path : Path
    arrays : dict of arrays
    metadata : dict
        Anything that JSON can hold.

    Raises
    ------
    OSError
        If the file cannot be written.
    """
    from safetensors.numpy import save

    text = json.dumps(metadata, sort_keys=True)
    contiguous = {
        name: np.require(array, requirements="C") for name, array in arrays.items()
    }
    header = {FORMAT: text, "sha256": _digest(contiguous, text)}
    atomic_files.replace_file(path, save(contiguous, header))


def read(path: Path) -> tuple[dict[str, np.ndarray], dict]:
    """Return the arrays and the metadata of a file that `write` wrote.

    Raises
    ------
    ValueError
        If it is another file, or a damaged one.
    OSError
        If it cannot be read.
    """
    with open(path, "rb") as file:
        n_bytes = os.fstat(file.fileno()).st_size
        header_bytes = int.from_bytes(file.read(LENGTH_BYTES), "little")
        array_bytes = n_bytes - LENGTH_BYTES - header_bytes
        # Checked before anything of that size is read.
        is_complete = n_bytes >= LENGTH_BYTES and array_bytes >= 0
        if not is_complete or header_bytes > MAX_HEADER_BYTES:
            raise ValueError(
                f"{path} is not a complete safetensors file: it has {n_bytes} bytes, "
                f"its header claims {header_bytes}. Only files written by this library "
                "can be read (no pickles); if it was one, use an older copy."
            )
        header = _read_header(path, file.read(header_bytes), array_bytes)
        file.seek(0)
        arrays = _read_arrays(path, file.read())

    text = header[FORMAT]
    if _digest(arrays, text) != header.get("sha256"):
        raise _damage_error(path, "its content does not match its checksum")
    metadata = _parse_object(text)
    if metadata is None:
        raise _damage_error(
            path, f"the entry {FORMAT!r} of its header is not a JSON object"
        )
    return arrays, metadata


def check_version(path: Path, metadata: dict) -> None:
    """Raise unless a file has the present version of the format.

    Parameters
    ----------
    path : Path
        The file, which the error names.
    metadata : dict
        The metadata of the file.

    Raises
    ------
    FileError
        If the file has no format version, an older one, or a newer one.
    """
    version = metadata.get("version")
    if version == VERSION:
        return
    if version is None:
        problem = "has no format version"
        remedy = "fit again"
    elif type(version) is int and version < VERSION:
        problem = (
            f"has format version {version}, which is older than the version {VERSION} "
            "that this matrix-mlp reads"
        )
        remedy = "fit again, or use the matrix-mlp that wrote it"
    else:
        problem = (
            f"has format version {version!r:.80}, but this matrix-mlp reads version "
            f"{VERSION}"
        )
        remedy = "update matrix-mlp"
    raise FileError(path, problem, remedy=remedy)


def check_dtypes(arrays: dict[str, Any], argument: str) -> None:
    """Raise if an array has a dtype that the file format cannot hold.

    Parameters
    ----------
    arrays : dict of arrays of NumPy or JAX
    argument : str
        The argument that they come from, for the message.
    """
    for name, array in arrays.items():
        if array.dtype.name not in DTYPES:
            raise ValueError(
                f"`{argument}` has {name!r} of dtype {array.dtype}, which the file "
                "format cannot hold; cast it first, such as to float32 (`astype`), and "
                "a random key to numbers (`jax.random.key_data`)."
            )


def _read_header(path: Path, text: bytes, array_bytes: int) -> dict[str, str]:
    """Return the entries of this library in a header that fits the size of the file."""
    header = _parse_object(text)
    if header is None:
        raise ValueError(
            f"{path} is not a safetensors file: its header is not a JSON object."
        )
    entries = header.pop("__metadata__", None)
    if not isinstance(entries, dict) or not isinstance(entries.get(FORMAT), str):
        raise ValueError(
            f"{path} is a safetensors file of another library, or damaged: its header "
            f"lacks the entry {FORMAT!r}. Read it with the library that wrote it."
        )
    try:
        ends = [tensor["data_offsets"][1] for tensor in header.values()]
        claimed_bytes = max(ends, default=0)
    except (TypeError, KeyError, IndexError):
        claimed_bytes = None
    if claimed_bytes != array_bytes:
        raise _damage_error(
            path,
            f"it has {array_bytes} bytes of numbers, its header claims "
            f"{claimed_bytes!r:.80}",
        )
    return entries


def _read_arrays(path: Path, content: bytes) -> dict[str, np.ndarray]:
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        return load(content)
    except (SafetensorError, ValueError, KeyError, TypeError, OverflowError) as error:
        raise _damage_error(path, f"{error!s:.200}") from None


def _damage_error(path: Path, problem: str) -> ValueError:
    return ValueError(f"{path} is damaged: {problem}. Use an older copy.")


def _parse_object(text: bytes | str) -> dict | None:
    """Return a JSON object, or None if the text is something else."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _digest(arrays: dict[str, np.ndarray], text: str) -> str:
    """Return the checksum of arrays and metadata."""
    digest = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"\0{name}\0{array.dtype}\0{array.shape}\0".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()
