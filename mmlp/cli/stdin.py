"""`-` in place of a file: a table in text from stdin, such as from another command."""

import contextlib
import dataclasses
import errno
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mmlp import temporary_files
from mmlp.cli.messages import print_message

CHUNK_BYTES = 2**20


class StdinPath(type(Path())):
    """The path of a file with the content of stdin; messages call it "stdin"."""

    def __fspath__(self) -> str:
        return super().__str__()

    def __str__(self) -> str:
        return "stdin"


@contextlib.contextmanager
def read_stdin(command: Any) -> Iterator[Any]:
    """Copy stdin to a temporary file, if the command has - as DATA.

    Yields
    ------
    object
        The command, with the temporary file as its data.
    """
    if vars(command).get("data") != Path("-"):
        yield command
        return

    if sys.stdin.isatty():
        end = "Ctrl-Z and Enter end" if os.name == "nt" else "Ctrl-D ends"
        print_message(f"reading a table in CSV from stdin; {end} it.")
    with _temporary_folder() as folder:
        path = StdinPath(folder, "stdin.csv")
        try:
            with open(path, "wb") as file:
                file.writelines(_read_chunks())
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise OSError(
                error.errno,
                f"could not copy stdin to {folder} ({reason}); free space there, name "
                "another folder in TMPDIR, or name a file as DATA.",
            ) from error
        yield dataclasses.replace(command, data=path)


def _read_chunks() -> Iterator[bytes]:
    """Read stdin in chunks; a `ValueError` says that reading failed, not writing."""
    buffer = getattr(sys.stdin, "buffer", None)
    try:
        if buffer is None:  # a program that calls the command has replaced stdin
            yield sys.stdin.read().encode()
            return
        while chunk := buffer.read(CHUNK_BYTES):
            yield chunk
    except OSError as error:
        problem = "stdin is closed"
        if error.errno != errno.EBADF:
            problem = f"cannot read stdin: {(error.strerror or str(error)).lower()}"
        raise ValueError(
            f"{problem}; name a file as DATA, or send a table to stdin."
        ) from None


@contextlib.contextmanager
def _temporary_folder() -> Iterator[str]:
    """Create a folder that is removed at the end, also if a signal ends the process."""
    with temporary_files.creating:
        folder = tempfile.TemporaryDirectory()
        temporary_files.known.add(Path(folder.name))
    try:
        with folder as name:
            yield name
    finally:
        temporary_files.known.discard(Path(folder.name))
