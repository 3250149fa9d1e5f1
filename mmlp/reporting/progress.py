"""Progress of a report on stderr, if it takes longer than two seconds."""

import shutil
import sys
import time

SECONDS_BEFORE_FIRST_LINE = 2
SECONDS_BETWEEN_LINES = 10  # in a file or pipe; a terminal shows one changing line


class Progress:
    """Call it with the step that begins; a terminal shows it in one line.

    Parameters
    ----------
    show : bool
        Whether to print anything.
    """

    def __init__(self, *, show: bool):
        self.show = show
        self.on_terminal = sys.stderr.isatty()
        self.last_line = (
            time.monotonic() + SECONDS_BEFORE_FIRST_LINE - SECONDS_BETWEEN_LINES
        )

    def __call__(self, step: str) -> None:
        now = time.monotonic()
        if not self.show or now - self.last_line < SECONDS_BETWEEN_LINES:
            return

        line = f"report: {step}"
        if self.on_terminal:
            width = shutil.get_terminal_size().columns - 1
            print(f"\r{line[:width]}\x1b[K", end="", file=sys.stderr, flush=True)
        else:
            self.last_line = now
            print(line, file=sys.stderr, flush=True)

    def end(self) -> None:
        """Clear the line of the terminal."""
        if self.show and self.on_terminal:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
