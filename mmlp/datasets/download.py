"""Where data files are: a place that the user names, or the user's cache.

What is missing is downloaded and checked.
"""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

Content = TypeVar("Content")
TIMEOUT = 30  # seconds without an answer


def obtain(
    name: str,
    url: str,
    read: Callable[[bytes], Content],
    *,
    data: str | os.PathLike | None,
    call: str,
) -> Content:
    """What `read` makes of the file `name` in `data`, else in $MMLP_DATA, else in the user's cache.

    Each is a folder, or the file itself. A file that the folder lacks is downloaded into it from
    `url`. `read` raises a `ValueError` that says what is wrong ("is not ..."): such a file is
    refused, and not kept if it was downloaded.
    """
    origin = f"`{call}(data=...)`" if data is not None else "the environment variable MMLP_DATA"
    place = os.environ.get("MMLP_DATA") if data is None else data
    if place:
        path = Path(place).expanduser()
        if not path.exists():
            raise ValueError(
                f"{origin} must name a folder or a file that exists, got {place}; create it or "
                "correct the path."
            )
        path = path / name if path.is_dir() else path
    else:
        import pooch

        path = Path(pooch.os_cache("matrix-mlp")) / name
    if not path.exists():
        return _download(url, path, read, call)
    try:
        return read(path.read_bytes())
    except ValueError as error:
        remedy = "delete it, and it is downloaded again, or replace it"
        raise ValueError(f"{path} {error}; {remedy}.") from error


def _download(url: str, path: Path, read: Callable[[bytes], Content], call: str) -> Content:
    import pooch

    by_hand = (
        f"Get the file from {url} and put it at {path}, or name its place by `{call}(data=...)` or "
        "MMLP_DATA."
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
            pooch.HTTPDownloader(timeout=TIMEOUT, stream=False)(url, str(new), None)
        except OSError as error:  # those of `requests` are OSErrors, too
            raise OSError(f"could not download {url} ({error}). {by_hand}") from error
        try:
            content = read(new.read_bytes())
        except ValueError as error:
            text = f"what {url} gave {error}. Try again later, or find a right copy. {by_hand}"
            raise ValueError(text) from error
        os.replace(new, path)
    return content
