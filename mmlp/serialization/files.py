"""Files that are whole or absent: safetensors with a checksum, written aside and then renamed.

Nothing in such a file is code. What is read is checked before it is believed: the length that the
header claims against the size of the file, the format by the safetensors library, and names,
shapes, numbers and metadata by SHA-256.
"""

import hashlib
import json
import os
from pathlib import Path

import numpy as np

from mmlp import atomic_files
from mmlp.errors import FileError

HEADER_LIMIT = 100 * 2**20  # bytes; safetensors' own limit
FORMAT = "mmlp"  # the entry of the header that holds the metadata
VERSION = 2  # of the format; 1 was that of 0.1.0, whose networks had other parts
DTYPES = {"bool", "float16", "float32", "float64"}
DTYPES |= {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}


def write(path: Path, arrays: dict[str, np.ndarray], metadata: dict) -> None:
    """Write arrays and metadata (anything JSON): the file is complete, or what was there before."""
    from safetensors.numpy import save

    text = json.dumps(metadata, sort_keys=True)
    arrays = {
        name: np.require(array, requirements="C") for name, array in arrays.items()
    }
    atomic_files.replace_file(
        path, save(arrays, {FORMAT: text, "sha256": _digest(arrays, text)})
    )


def read(path: Path) -> tuple[dict[str, np.ndarray], dict]:
    """What `write` wrote. A `ValueError` names the file and what is wrong with it."""
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        claimed = int.from_bytes(file.read(8), "little")
        if size < 8 or claimed > size - 8 or claimed > HEADER_LIMIT:
            raise ValueError(
                f"{path} is not a complete safetensors file: it has {size} bytes, its header "
                f"claims {claimed}. Only files written by this library can be read (no pickles); "
                "if it was one, use an older copy."
            )
        metadata = _metadata(path, file.read(claimed), size - 8 - claimed)
        file.seek(0)
        arrays = _arrays(path, file.read())
    if _digest(arrays, metadata[FORMAT]) != metadata.get("sha256"):
        raise _damaged(path, "its content does not match its checksum")
    content = _json(metadata[FORMAT])
    if content is None:
        raise _damaged(path, f"the entry {FORMAT!r} of its header is not a JSON object")
    return arrays, content


def check_version(path: Path, metadata: dict) -> None:
    """Refuse a file in another version of the format.

    Parameters
    ----------
    path : Path
        The file, which the error names.
    metadata : dict
        What the file says of itself.

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
            f"has format version {version}, which is older than the version {VERSION} that "
            "this matrix-mlp reads"
        )
        remedy = "fit again, or use the matrix-mlp that wrote it"
    else:
        problem = f"has format version {version!r:.80}, but this matrix-mlp reads version {VERSION}"
        remedy = "update matrix-mlp"
    raise FileError(path, problem, remedy=remedy)


def check_dtypes(arrays: dict, argument: str) -> None:
    """Refuse what would not come back as it was; `arrays` may be those of NumPy or JAX."""
    for name, array in arrays.items():
        if array.dtype.name not in DTYPES:
            raise ValueError(
                f"`{argument}` has {name!r} of dtype {array.dtype}, which the file format cannot "
                "hold; cast it first, such as to float32 (`astype`), and a random key to numbers "
                "(`jax.random.key_data`)."
            )


def _metadata(path: Path, text: bytes, rest: int) -> dict[str, str]:
    """The metadata in the header, which must account for the `rest` of the file."""
    header = _json(text)
    if header is None:
        raise ValueError(
            f"{path} is not a safetensors file: its header is not a JSON object."
        )
    metadata = header.pop("__metadata__", None)
    if not isinstance(metadata, dict) or not isinstance(metadata.get(FORMAT), str):
        raise ValueError(
            f"{path} is a safetensors file of another library, or damaged: its header lacks the "
            f"entry {FORMAT!r}. Read it with the library that wrote it."
        )
    try:
        length = max((entry["data_offsets"][1] for entry in header.values()), default=0)
    except (TypeError, KeyError, IndexError):
        length = None
    if length != rest:
        raise _damaged(
            path, f"it has {rest} bytes of numbers, its header claims {length!r:.80}"
        )
    return metadata


def _damaged(path: Path, what: str) -> ValueError:
    return ValueError(f"{path} is damaged: {what}. Use an older copy.")


def _json(text: bytes | str) -> dict | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _arrays(path: Path, content: bytes) -> dict[str, np.ndarray]:
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        return load(content)
    except (SafetensorError, ValueError, KeyError, TypeError, OverflowError) as error:
        raise _damaged(path, f"{error!s:.200}") from None


def _digest(arrays: dict[str, np.ndarray], text: str) -> str:
    digest = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"\0{name}\0{array.dtype}\0{array.shape}\0".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()
