"""Standard streams that are closed or full: output must not end up in the wrong place.

A program may be started with stdin, stdout or stderr closed (`<&-`, `>&-`, `2>&-`). The
next file that it opens then takes the free descriptor, so that messages would be
written into it, and Python's `print` sends to stdout what is meant for a stderr that is
not there.

Stderr may also be a file on a disk that is full. Messages are then lost, but not the
work.
"""

import contextlib
import os
import sys

TYPE_CHECKING = False  # as in `typing`, which takes longer to import than all the rest
if TYPE_CHECKING:
    from typing import TextIO

# Each stream, its descriptor, and the mode in which the null device replaces it. As in
# gnulib's `stdopen`, stdin then cannot be read and stdout cannot be written, so that a
# command that needs them fails. Messages for a closed stderr are dropped.
STREAMS = (
    ("stdin", 0, os.O_WRONLY),
    ("stdout", 1, os.O_RDONLY),
    ("stderr", 2, os.O_WRONLY),
)


def open_missing_streams() -> None:
    """Replace each standard stream that is closed by the null device.

    Call this before anything else opens a file.
    """
    for name, descriptor, flags in STREAMS:
        is_missing = getattr(sys, name) is None
        if not _is_open(descriptor):
            # The system takes the lowest free descriptor, and lower ones are open by
            # now.
            os.open(os.devnull, flags)
            os.set_inheritable(descriptor, True)
        elif is_missing:
            # Another file has taken the descriptor.
            descriptor = os.open(os.devnull, flags)

        if is_missing:
            mode = "r" if name == "stdin" else "w"
            stream = os.fdopen(descriptor, mode, encoding="utf-8", errors="replace")
            setattr(sys, name, stream)


class MessageStream:
    """Stderr for messages: if it cannot be written to, the work goes on.

    A pipe whose reader has gone raises `BrokenPipeError` as usual, so that
    `mmlp fit ... 2>&1 | head` ends.

    Parameters
    ----------
    stream : text stream
        The stream to write to.
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
        """Write what is buffered, or lose it."""
        try:
            self._stream.flush()
        except BrokenPipeError:
            raise
        except OSError:
            pass


def discard_output(stream: "TextIO") -> None:
    """Send buffered output to the null device; else Python complains at its end."""
    # The stream may have no descriptor, or be closed.
    with contextlib.suppress(OSError, ValueError):
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
