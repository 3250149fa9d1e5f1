"""Signals that stop training after the running epoch, with a checkpoint.

Python calls a signal handler only when the main thread is back in the interpreter. A
program that watches for signals in a thread of its own, as the command `mmlp` does,
receives one earlier, and calls `stop_after_epoch`.
"""

import contextlib
import signal
import threading
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)

_lock = threading.Lock()
_current: "Interrupts | None" = None  # the training that can be asked to stop


class Interrupts(contextlib.AbstractContextManager):
    """Record SIGINT and SIGTERM; a second one acts at once. In the main thread only.

    A signal that the process ignores, as a command does that `nohup` or a script has
    started in the background, stays ignored.

    Attributes
    ----------
    received : int
        The number of the signal that asked training to stop, or 0.
    """

    def __init__(self, *, active: bool):
        self.received = 0
        self.active = active and threading.current_thread() is threading.main_thread()
        self.previous_handlers: dict[int, Any] = {}

    def __enter__(self) -> "Interrupts":
        for number in SIGNALS if self.active else ():
            if signal.getsignal(number) is not signal.SIG_IGN:
                self.previous_handlers[number] = signal.signal(number, self._record)
        return self

    def __exit__(self, *_: object) -> None:
        global _current
        with _lock:
            if _current is self:
                _current = None
        self._restore_handlers()

    def begin_epochs(self) -> None:
        """Let `stop_after_epoch` succeed from now on: there is an epoch to finish."""
        global _current
        if self.active and _current is not self:
            with _lock:
                _current = self

    def _restore_handlers(self) -> None:
        for number, handler in self.previous_handlers.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        self.previous_handlers = {}

    def _record(self, number: int, _frame: FrameType | None) -> None:
        self.received = number
        self._restore_handlers()


def stop_after_epoch(number: int) -> bool:
    """Ask the training that keeps checkpoints to stop after the running epoch.

    Parameters
    ----------
    number : int
        The signal on whose behalf this asks.

    Returns
    -------
    bool
        False if there is no such training: none runs, it keeps no checkpoint, or it has
        not begun its first epoch, such as while it compiles. With True, training is
        sure to stop.
    """
    with _lock:
        if _current is None:
            return False
        _current.received = number
        return True
