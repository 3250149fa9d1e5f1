"""What a report is at, on stderr, if it takes longer than two seconds."""

import shutil
import sys
import time

DELAY, EVERY = (
    2,
    10,
)  # seconds: before the first line, and between lines of a file or pipe


class Progress:
    """Call it with what begins now; on a terminal one line is written over again."""

    def __init__(self, *, show: bool):
        self.show, self.terminal = show, sys.stderr.isatty()
        self.last = time.monotonic() + DELAY - EVERY

    def __call__(self, what: str) -> None:
        now = time.monotonic()
        if not self.show or now - self.last < EVERY:
            return
        width = shutil.get_terminal_size().columns - 1
        line = f"report: {what}"
        if self.terminal:
            print(f"\r{line[:width]}\x1b[K", end="", file=sys.stderr, flush=True)
        else:
            self.last = now
            print(line, file=sys.stderr, flush=True)

    def end(self) -> None:
        if self.show and self.terminal:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
