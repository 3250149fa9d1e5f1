"""Standard streams that are closed or full: what was meant for one must not end up elsewhere.

A program may be started with stdin, stdout or stderr closed (`<&-`, `>&-`, `2>&-`). The next file
that it opens then takes the free number, so that messages would be written into it, and Python's
`print` sends to stdout what is meant for a stderr that is not there.

Stderr may also be a file on a disk that is full. Messages are then lost, but not the work.
"""

import contextlib
import os
import sys

TYPE_CHECKING = False  # as in `typing`, which takes longer to import than all the rest
if TYPE_CHECKING:
    from typing import TextIO

# Each stream, its descriptor and how the null device takes its place. As in gnulib's `stdopen`,
# stdin then cannot be read and stdout cannot be written, so that a command that needs them fails.
# Messages for a closed stderr are dropped.
STREAMS = (
    ("stdin", 0, os.O_WRONLY),
    ("stdout", 1, os.O_RDONLY),
    ("stderr", 2, os.O_WRONLY),
)


def open_missing_streams() -> None:
    """Put the null device in the place of each standard stream that is closed.

    Call it before anything else opens a file.
    """
    for name, descriptor, flags in STREAMS:
        is_missing = getattr(sys, name) is None
        if not _is_open(descriptor):
            # The system takes the lowest free number, and those below this one are open by now.
            os.open(os.devnull, flags)
            os.set_inheritable(descriptor, True)
        elif is_missing:  # another file has taken the number
            descriptor = os.open(os.devnull, flags)
        if is_missing:
            mode = "r" if name == "stdin" else "w"
            setattr(
                sys,
                name,
                os.fdopen(descriptor, mode, encoding="utf-8", errors="replace"),
            )


class MessageStream:
    """Stderr for messages: one that cannot be written does not end the work.

    A pipe whose reader has gone raises `BrokenPipeError` as usual: `mmlp fit ... 2>&1 | head` ends.
    """

    def __init__(self, stream: "TextIO"):
        self._stream = stream

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write text, or lose it."""
        try:
            return self._stream.write(text)
        except BrokenPipeError:
            raise
        except OSError:
            return len(text)

    def flush(self) -> None:
        """Write what is left, or lose it."""
        try:
            self._stream.flush()
        except BrokenPipeError:
            raise
        except OSError:
            pass


def discard_output(stream: "TextIO") -> None:
    """Send what a stream still holds to the null device, or Python complains when it ends."""
    with contextlib.suppress(
        OSError, ValueError
    ):  # it may have no descriptor, or be closed
        descriptor = stream.fileno()
        null_device = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null_device, descriptor)
        os.close(null_device)


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True
