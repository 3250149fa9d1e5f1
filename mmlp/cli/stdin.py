"""`-` in place of a file: a table in text that comes from stdin, such as from another command."""

import contextlib
import errno
import os
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from mmlp import temporary_files
from mmlp.cli.messages import print_message

PIECE_BYTES = 2**20


class Stdin(type(Path())):
    """The file that holds what came; in messages it is stdin."""

    def __fspath__(self) -> str:
        return super().__str__()

    def __str__(self) -> str:
        return "stdin"


@contextlib.contextmanager
def read_stdin(command: Any) -> Iterator[Any]:
    """The command with a file where it has - as DATA."""
    if vars(command).get("data") != Path("-"):
        yield command
        return
    if sys.stdin.isatty():
        end = "Ctrl-Z and Enter end" if os.name == "nt" else "Ctrl-D ends"
        print_message(f"reading a table in CSV from stdin; {end} it.")
    with _temporary_folder() as folder:
        path = Stdin(folder, "stdin.csv")
        try:
            with open(path, "wb") as file:
                file.writelines(_read_pieces())
        except OSError as error:
            cause = (error.strerror or str(error)).lower()
            raise OSError(
                error.errno,
                f"could not copy stdin to {folder} ({cause}); free space there, name another "
                "folder in TMPDIR, or name a file as DATA.",
            ) from error
        yield replace(command, data=path)


def _read_pieces() -> Iterator[bytes]:
    """Read stdin piece by piece; an error tells that it was reading which failed."""
    binary = getattr(sys.stdin, "buffer", None)
    try:
        if binary is None:  # a stand-in for stdin in a program that calls the command
            yield sys.stdin.read().encode()
            return
        while piece := binary.read(PIECE_BYTES):
            yield piece
    except OSError as error:
        if error.errno == errno.EBADF:
            problem = "stdin is closed"
        else:
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
