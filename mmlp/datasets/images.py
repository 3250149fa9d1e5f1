"""Grey images, one per row: the paper's Frey faces, and handwritten digits."""

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

# The checksum of the pixels, not of the file.
FREY_SHA256 = "2438ba4f0d2a6bd8bac43de756141eaa33c8d248dd613d464bdb1210d9b7af78"

TIMEOUT_SECONDS = 30


def digits() -> tuple[np.ndarray, tuple[int, int]]:
    """Return the handwritten digits of scikit-learn, which need no download.

    Returns
    -------
    images : array of uint8, shape (1797, 64)
        Grey values from 0 to 16.
    shape : tuple of int
        The shape of an image, (8, 8).

    Examples
    --------
    >>> images, shape = digits()
    >>> images.shape, shape
    ((1797, 64), (8, 8))
    """
    images, _ = load_digits(return_X_y=True)
    return np.asarray(images, np.uint8), (8, 8)


def frey_faces(data: str | os.PathLike | None = None) -> np.ndarray:
    """Return the Frey faces, 1965 frames of a video of one face.

    They are read from `data`, otherwise from the environment variable MMLP_DATA,
    otherwise from the user's cache. If the folder does not contain the file, it is
    downloaded into it (about 1 MB, from S. Roweis' page). In any case the pixels are
    checked by SHA-256.

    Parameters
    ----------
    data : path, optional
        The file frey_rawface.mat or its folder.

    Returns
    -------
    array of uint8, shape (1965, 560)
        The images, each of shape `FREY_SHAPE`.

    Raises
    ------
    ValueError
        If the path does not exist, or the file does not contain the Frey faces.
    OSError
        If the file cannot be downloaded or written.
    """
    path = _locate_frey_file(data)
    if not path.exists():
        return _download_frey_faces(path)
    try:
        return _read_frey_pixels(path.read_bytes())
    except ValueError as error:
        raise ValueError(
            f"{path} {error}; delete it, and it is downloaded again, or replace it."
        ) from error


def _locate_frey_file(data: str | os.PathLike | None) -> Path:
    """Return the path of the file, which need not exist."""
    if data is not None:
        origin = "`frey_faces(data=...)`"
        place = data
    else:
        origin = "the environment variable MMLP_DATA"
        place = os.environ.get("MMLP_DATA")

    if not place:
        import pooch

        return Path(pooch.os_cache("matrix-mlp")) / FREY_FILE

    path = Path(place).expanduser()
    if not path.exists():
        raise ValueError(
            f"{origin} must name a folder or a file that exists, got {place}; create "
            "it or correct the path."
        )
    return path / FREY_FILE if path.is_dir() else path


def _download_frey_faces(path: Path) -> np.ndarray:
    """Download the file, check its pixels, and move it to `path`."""
    import pooch

    by_hand = (
        f"Get the file from {FREY_URL} and put it at {path}, or name its place by "
        "`frey_faces(data=...)` or MMLP_DATA."
    )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # The folder is beside the file, so that the file can be renamed, not copied.
        folder = tempfile.TemporaryDirectory(prefix=".download-", dir=path.parent)
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        raise OSError(
            error.errno, f"could not write to {path.parent} ({reason}). {by_hand}"
        ) from error

    with folder:
        new_file = Path(folder.name) / path.name
        download = pooch.HTTPDownloader(timeout=TIMEOUT_SECONDS, stream=False)
        try:
            download(FREY_URL, str(new_file), None)
        except OSError as error:  # The errors of `requests` are OSErrors, too.
            raise OSError(
                f"could not download {FREY_URL} ({error}). {by_hand}"
            ) from error
        try:
            pixels = _read_frey_pixels(new_file.read_bytes())
        except ValueError as error:
            raise ValueError(
                f"the download from {FREY_URL} {error}. Try again later, or find a "
                f"right copy. {by_hand}"
            ) from error
        os.replace(new_file, path)
    return pixels


def _read_frey_pixels(content: bytes) -> np.ndarray:
    """Return the faces in a file, or raise a ValueError that completes a sentence."""
    try:
        file = scipy.io.loadmat(io.BytesIO(content), variable_names=["ff"])
        pixels = np.ascontiguousarray(file["ff"].T)
    except Exception as error:  # The file may be anything, so errors have many types.
        reason = f"{type(error).__name__}: {error}"
        raise ValueError(
            "is not a MATLAB file with a matrix `ff` "
            f"({len(content)} bytes; {reason:.200})"
        ) from error
    if hashlib.sha256(pixels.tobytes()).hexdigest() != FREY_SHA256:
        raise ValueError(
            f"does not hold the Frey faces: its `ff`, {pixels.dtype} of shape "
            f"{pixels.shape[::-1]}, has another checksum"
        )
    return pixels
