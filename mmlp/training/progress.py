"""What the user sees and sends while training runs: progress on stderr, and signals that ask to stop."""

import contextlib
import signal
import sys
import threading
import time
from types import FrameType

import numpy as np

FIRST, EVERY = 2.0, 10.0  # seconds: short runs stay silent; between plain lines


class Progress(contextlib.AbstractContextManager):
    """A bar on a terminal, a plain line now and then otherwise, nothing with `show=False`."""

    def __init__(self, epochs: int, done: int, *, show: bool):
        self.epochs, self.done, self.show, self.bar, self.skipped = epochs, done, show, None, 0
        self.first_done = time.monotonic()
        self.next, self.printed = self.first_done + FIRST, False
        if show and sys.stderr.isatty():
            with contextlib.suppress(ImportError):
                from tqdm import tqdm

                self.bar = tqdm(
                    total=epochs, initial=done, delay=FIRST, unit="epoch", dynamic_ncols=True
                )

    def __exit__(self, *_):
        if self.bar is not None:
            self.bar.close()

    def update(self, info) -> None:
        """After an epoch, with its `EpochInfo`; of many models the median."""
        shown = {"loss": info.loss, "validation": info.validation}
        parts = [
            f"{name} {np.nanmedian(value):.4g}"
            for name, value in shown.items()
            if value is not None and np.any(np.isfinite(value))
        ]
        self.skipped += int(np.sum(info.skipped))
        parts += [f"{self.skipped} steps left out"] if self.skipped else []
        if self.bar is not None:
            self.bar.set_postfix_str(", ".join(parts), refresh=False)
            self.bar.update(info.epoch - self.bar.n)
            return
        now = time.monotonic()
        if info.epoch == self.done + 1:  # the rate leaves out the first epoch, which compiles
            self.first_done = now
        if self.show and (now >= self.next or (self.printed and info.epoch == self.epochs)):
            self.next, self.printed = now + EVERY, True
            seconds, epochs = now - self.first_done, info.epoch - self.done - 1
            parts += [f"{epochs / seconds:.3g} epochs/s"] if epochs and seconds else []
            print(
                f"epoch {info.epoch}/{self.epochs}: {', '.join(parts)}", file=sys.stderr, flush=True
            )


class Interrupts(contextlib.AbstractContextManager):
    """Notes SIGINT and SIGTERM instead of acting on them; a second one acts at once. In the main thread only."""

    def __init__(self, *, active: bool):
        self.received: int | None = None
        self.previous = {}
        self.active = active and threading.current_thread() is threading.main_thread()

    def __enter__(self):
        for number in (signal.SIGINT, signal.SIGTERM) if self.active else ():
            self.previous[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_):
        for number, handler in self.previous.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        self.previous = {}

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self.received = number
        self.__exit__()
