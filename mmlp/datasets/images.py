"""Grey images, one a row: the paper's Frey faces, and handwritten digits that need no file."""

import hashlib
import io
import os
import tempfile
from pathlib import Path

import numpy as np
import scipy.io
from sklearn.datasets import load_digits

FREY_FILE = "frey_rawface.mat"
FREY_URL = f"https://cs.nyu.edu/~roweis/data/{FREY_FILE}"
FREY_SHAPE = (28, 20)
# of the pixels, not of the file
FREY_SHA256 = "2438ba4f0d2a6bd8bac43de756141eaa33c8d248dd613d464bdb1210d9b7af78"
TIMEOUT = 30  # seconds without an answer


def digits() -> tuple[np.ndarray, tuple[int, int]]:
    """scikit-learn's handwritten digits (1797, 64), pixels 0 to 16, uint8; and their shape (8, 8).

    >>> images, shape = digits()
    >>> images.shape, shape
    ((1797, 64), (8, 8))
    """
    images, _ = load_digits(return_X_y=True)
    return np.asarray(images, np.uint8), (8, 8)


def frey_faces(data: str | os.PathLike | None = None) -> np.ndarray:
    """The Frey faces: 1965 frames of one face, (1965, 560) uint8, images of `FREY_SHAPE`.

    Read from `data` (the file frey_rawface.mat or its folder), else from the environment variable
    MMLP_DATA, else from the user's cache. Where the folder lacks the file, it is downloaded into it
    (about 1 MB, from S. Roweis' page). Either way the pixels are checked by SHA-256.
    """
    origin = (
        "`frey_faces(data=...)`"
        if data is not None
        else "the environment variable MMLP_DATA"
    )
    place = os.environ.get("MMLP_DATA") if data is None else data
    if place:
        path = Path(place).expanduser()
        if not path.exists():
            wanted = f"name a folder or a file that exists, got {place}"
            raise ValueError(f"{origin} must {wanted}; create it or correct the path.")
        path = path / FREY_FILE if path.is_dir() else path
    else:
        import pooch

        path = Path(pooch.os_cache("matrix-mlp")) / FREY_FILE
    if not path.exists():
        return _downloaded(path)
    try:
        return _pixels(path.read_bytes())
    except ValueError as error:
        remedy = "delete it, and it is downloaded again, or replace it"
        raise ValueError(f"{path} {error}; {remedy}.") from error


def _downloaded(path: Path) -> np.ndarray:
    """The faces of a file that is kept at `path` if it is right."""
    import pooch

    by_hand = (
        f"Get the file from {FREY_URL} and put it at {path}, or name its place by "
        "`frey_faces(data=...)` or MMLP_DATA."
    )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # beside the file: renaming must not copy
        folder = tempfile.TemporaryDirectory(prefix=".download-", dir=path.parent)
    except OSError as error:
        text = f"could not write to {path.parent} ({os.strerror(error.errno or 0)}). {by_hand}"
        raise OSError(error.errno, text) from error
    with folder:
        new = Path(folder.name) / path.name
        try:
            pooch.HTTPDownloader(timeout=TIMEOUT, stream=False)(
                FREY_URL, str(new), None
            )
        except OSError as error:  # those of `requests` are OSErrors, too
            raise OSError(
                f"could not download {FREY_URL} ({error}). {by_hand}"
            ) from error
        try:
            pixels = _pixels(new.read_bytes())
        except ValueError as error:
            remedy = f"Try again later, or find a right copy. {by_hand}"
            raise ValueError(f"what {FREY_URL} gave {error}. {remedy}") from error
        os.replace(new, path)
    return pixels


def _pixels(content: bytes) -> np.ndarray:
    """The faces in a file; a `ValueError` says what is wrong with it."""
    try:
        file = scipy.io.loadmat(io.BytesIO(content), variable_names=["ff"])
        pixels = np.ascontiguousarray(file["ff"].T)
    except Exception as error:  # of many types: the file may be anything
        reason = f"{len(content)} bytes; {f'{type(error).__name__}: {error}':.200}"
        raise ValueError(
            f"is not a MATLAB file with a matrix `ff` ({reason})"
        ) from error
    if hashlib.sha256(pixels.tobytes()).hexdigest() != FREY_SHA256:
        what = f"its `ff`, {pixels.dtype} of shape {pixels.shape[::-1]}, has another checksum"
        raise ValueError(f"does not hold the Frey faces: {what}")
    return pixels
