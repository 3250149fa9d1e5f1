"""Checks of the files that a command will write, made before the work begins."""

import errno
import os
from pathlib import Path

from mmlp import atomic_files, tables


def find_results_file(path: Path | None, **sources: Path) -> Path | None:
    """Return the file for results, None for stdout.

    Parameters
    ----------
    path : Path or None
        What -o says.
    **sources : Path
        The files that the command reads, which must not be written over.

    Raises
    ------
    ValueError or OSError
        If the file cannot be written.
    """
    out = tables.find_results_file(path)
    if out is None:
        return None
    check_writable(out)
    if not atomic_files.is_stream(out):
        check_not_source(out, **sources)
    return out


def check_model_file(path: Path) -> None:
    """Refuse a place for a model that cannot be written or, as a pipe, not read again."""
    check_writable(path)
    if atomic_files.is_stream(path):
        raise ValueError(
            f"{path} is a pipe or a device; choose another -o for the model."
        )


def check_not_source(out: Path, **sources: Path) -> None:
    """Refuse to write over a file that the command reads, also where a link leads there."""
    for name, source in sources.items():
        if out.exists() and source.exists() and out.samefile(source):
            raise ValueError(
                f"{out} would be written over the {name}; choose another -o."
            )


def check_writable(path: Path) -> None:
    """Refuse a place that cannot be written to, or the folder where a link leads."""
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))

    is_stream = atomic_files.is_stream(path)
    target = path if is_stream else atomic_files.resolve_target(path)
    if not target.parent.is_dir():
        raise ValueError(
            f"there is no folder {target.parent} to write {target.name} into; make it "
            "first."
        )
    if not os.access(path if is_stream else target.parent, os.W_OK):
        raise PermissionError(errno.EACCES, "not allowed to write there", str(path))
