"""Grey images, one a row: the paper's Frey faces, and handwritten digits that need no file."""

import hashlib
import io
import os

import numpy as np
import scipy.io
from sklearn.datasets import load_digits

from mmlp.datasets.download import obtain

FREY_URL = "https://cs.nyu.edu/~roweis/data/frey_rawface.mat"
FREY_SHAPE = (28, 20)
# of the pixels, not of the file
FREY_SHA256 = "2438ba4f0d2a6bd8bac43de756141eaa33c8d248dd613d464bdb1210d9b7af78"


def frey_faces(data: str | os.PathLike | None = None) -> np.ndarray:
    """The Frey faces: 1965 frames of one face, (1965, 560) uint8, images of `FREY_SHAPE`.

    Read from `data` (the file frey_rawface.mat or its folder), else from the environment variable
    MMLP_DATA, else from the user's cache. Where the folder lacks the file, it is downloaded into it
    (about 1 MB, from S. Roweis' page). Either way the pixels are checked by SHA-256.
    """
    return obtain("frey_rawface.mat", FREY_URL, _read_frey, data=data, call="frey_faces")


def digits() -> tuple[np.ndarray, tuple[int, int]]:
    """scikit-learn's handwritten digits (1797, 64), pixels 0 to 16, uint8; and their shape (8, 8).

    >>> images, shape = digits()
    >>> images.shape, shape
    ((1797, 64), (8, 8))
    """
    images, _ = load_digits(return_X_y=True)
    return np.asarray(images, np.uint8), (8, 8)


def _read_frey(content: bytes) -> np.ndarray:
    try:
        file = scipy.io.loadmat(io.BytesIO(content), variable_names=["ff"])
        pixels = np.ascontiguousarray(file["ff"].T)
    except Exception as error:  # of many types: the file may be anything
        reason = f"{len(content)} bytes; {f'{type(error).__name__}: {error}':.200}"
        raise ValueError(f"is not a MATLAB file with a matrix `ff` ({reason})") from error
    if hashlib.sha256(pixels.tobytes()).hexdigest() != FREY_SHA256:
        what = f"its `ff`, {pixels.dtype} of shape {pixels.shape[::-1]}, has another checksum"
        raise ValueError(f"does not hold the Frey faces: {what}")
    return pixels
