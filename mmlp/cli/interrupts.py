"""Ctrl-C (SIGINT), SIGTERM and SIGHUP end the command with one line, wherever it is.

Python calls a signal handler only when the main thread is back in the interpreter, which takes
minutes while XLA compiles. And an exception that a handler raises within a callback of the garbage
collector, of which JAX has one, is printed and forgotten. So the handlers here do nothing. The C
code of Python, which runs at once, writes the number of the signal into a pipe
(`signal.set_wakeup_fd`); a thread reads it and decides:

- training that keeps checkpoints finishes the running epoch, and stops by itself;
- everything else, and a second signal, ends the process at once, without unfinished files.

This file is imported before all others of the command: it needs nothing that takes time to import.
"""

import os
import select
import signal
import sys
import threading

TYPE_CHECKING = False  # as in `typing`, which takes longer to import than all the rest
if TYPE_CHECKING:
    from pathlib import Path
    from types import FrameType

WORDS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}
if hasattr(signal, "SIGHUP"):  # not on Windows
    WORDS[signal.SIGHUP] = "the terminal was closed"
USUAL_COLUMNS = 80  # of a terminal
MAX_SECONDS_TO_PRINT = 1.0

_watcher: "Watcher | None" = None


class Watcher:
    """What a signal does to this process, decided in a thread that waits for one."""

    def __init__(self, pipe: int, stderr: int | None):
        self.pipe = pipe
        self.stderr = (
            stderr  # a descriptor of its own: number 2 may lead elsewhere for a while
        )
        self.stopping = False  # training was asked to stop
        self.status: int | None = None  # of a command that has done its work
        self.checkpoint: Path | None = (
            None  # the folder from which the command would resume
        )

    def watch(self) -> None:
        """Act on each signal, until the process ends."""
        while numbers := os.read(self.pipe, 1):
            number = numbers[0]
            if number in WORDS:  # others have handlers of their own
                self._act(number)

    def _act(self, number: int) -> None:
        if self.status is not None:
            os._exit(self.status)
        if not self.stopping and _stop_after_epoch(number):
            self.stopping = True
            return
        try:
            _print_last_line(self._message(number), self.stderr)
        finally:
            os._exit(128 + number)

    def _message(self, number: int) -> str:
        text = f"mmlp: {WORDS[signal.Signals(number)]}"
        if self.checkpoint is None or not any(
            self.checkpoint.rglob("checkpoint-*.safetensors")
        ):
            return text
        return f"{text}. The same command resumes from {self.checkpoint}."


def watch() -> None:
    """Let signals end this process as a command ends, from now on.

    A signal that is ignored, as Ctrl-C is by a command that a shell script starts in the
    background, stays ignored.
    """
    global _watcher
    if (
        _watcher is not None
        or threading.current_thread() is not threading.main_thread()
    ):
        return
    reading, writing, stderr = _open_descriptors()
    _watcher = Watcher(reading, stderr)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    for number in WORDS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _leave_to_watcher)
    threading.Thread(target=_watcher.watch, name="mmlp interrupts", daemon=True).start()


def finish(status: int) -> None:
    """Note that the work is done: from now on a signal ends the process with this status.

    A command that a signal has stopped ends here. It would otherwise wait for threads, such as one
    that still compiles.
    """
    if _watcher is None:
        return
    _watcher.status = status
    if status in {128 + number for number in WORDS}:
        os._exit(status)


class Resumable:
    """A context in which the last line names the folder of a checkpoint, if there is one."""

    def __init__(self, checkpoint: "Path"):
        self.checkpoint = checkpoint

    def __enter__(self) -> None:
        if _watcher is not None:
            _watcher.checkpoint = self.checkpoint

    def __exit__(self, *_: object) -> None:
        if _watcher is not None:
            _watcher.checkpoint = None


def _leave_to_watcher(_number: int, _frame: "FrameType | None") -> None:
    """Handle a signal in the main thread, where nothing is left to be done."""


def _open_descriptors() -> tuple[int, int, int | None]:
    """Open a pipe to read from and to write to without waiting, and stderr, if it is open.

    They stay apart from the standard streams: where one of these is closed its number is free, and
    would be taken for the stream.
    """
    taken = [os.open(os.devnull, os.O_RDONLY)]
    while taken[-1] <= 2:
        taken.append(os.open(os.devnull, os.O_RDONLY))
    reading, writing = os.pipe()
    # Not `sys.stderr`, which is another one where it was closed.
    stderr = None if sys.__stderr__ is None else os.dup(sys.__stderr__.fileno())
    for descriptor in taken:
        os.close(descriptor)
    if os.name == "posix":
        os.set_blocking(writing, False)
    return reading, writing, stderr


def _stop_after_epoch(number: int) -> bool:
    """Ask training to stop, if it was imported at all; this thread must not wait for imports."""
    stop = getattr(
        sys.modules.get("mmlp.training.interrupts"), "stop_after_epoch", None
    )
    return stop is not None and stop(number)


def _print_last_line(message: str, stderr: int | None) -> None:
    """Remove unfinished files, and print a line after which nothing else is printed."""
    silence = os.open(os.devnull, os.O_WRONLY)
    for descriptor in (1, 2):  # from here on the main thread is not heard
        os.dup2(silence, descriptor)
    remove_all = getattr(sys.modules.get("mmlp.temporary_files"), "remove_all", None)
    if remove_all is not None:
        remove_all()
    if stderr is None:
        return
    if os.name == "posix":  # nobody may read from a pipe that is full
        _, ready, _ = select.select([], [stderr], [], MAX_SECONDS_TO_PRINT)
        if not ready:
            return
    if os.isatty(stderr):  # a bar may be there
        width = (
            os.get_terminal_size(stderr).columns or USUAL_COLUMNS
        )  # 0 if it does not tell
        blank = " " * (width - 1)
        message = f"\r{blank}\r{message}"
    os.write(stderr, f"{message}\n".encode(errors="replace"))
