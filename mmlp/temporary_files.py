"""Temporary files of this process, so that they can be removed when it ends at once.

A process that a signal ends does not come to the end of its `with` blocks. Whoever
creates a temporary file holds `creating` until the file is in `known`:

    with temporary_files.creating:
        path = create_file()
        temporary_files.known.add(path)
    try:
        ...
    finally:
        temporary_files.known.discard(path)
"""

import contextlib
import shutil
import threading
from pathlib import Path

MAX_SECONDS_TO_CREATE = 1.0

creating = threading.Lock()
known: set[Path] = set()


def remove_all() -> None:
    """Remove all temporary files and folders, just before the process ends.

    From now on no thread can create another one: `creating` stays locked.
    """
    creating.acquire(timeout=MAX_SECONDS_TO_CREATE)
    for path in tuple(known):
        with contextlib.suppress(OSError):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
