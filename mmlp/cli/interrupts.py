"""Ctrl-C (SIGINT), SIGTERM and SIGHUP end the command with one line, wherever it is.

Python calls a signal handler only when the main thread is back in the interpreter,
which takes minutes while XLA compiles. And an exception that a handler raises within a
callback of the garbage collector, of which JAX has one, is printed and forgotten. The
handlers here therefore do nothing. The C code of Python, which runs at once, writes the
number of the signal into a pipe (`signal.set_wakeup_fd`); a thread reads it and
decides:

- training that keeps checkpoints finishes the running epoch, and stops by itself;
- everything else, and a second signal, ends the process at once, without unfinished
files.

This file is imported before all others of the command: it needs nothing that takes time
to import.
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

# The signals that end the command, and what its last line says about them.
REASONS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}
if hasattr(signal, "SIGHUP"):  # not on Windows
    REASONS[signal.SIGHUP] = "the terminal was closed"
DEFAULT_TERMINAL_WIDTH = 80
MAX_SECONDS_TO_PRINT = 1.0

_watcher: "Watcher | None" = None


class Watcher:
    """Decides what a signal does to this process, in a thread that waits for one.

    Parameters
    ----------
    pipe : int
        The descriptor from which the numbers of signals are read.
    stderr : int or None
        A descriptor of its own for messages: 2 may lead elsewhere for a while.

    Attributes
    ----------
    is_stopping : bool
        Whether training was asked to stop.
    status : int or None
        The exit status of a command that has done its work.
    checkpoint : Path or None
        The folder from which the command would resume.
    """

    def __init__(self, pipe: int, stderr: int | None):
        self.pipe = pipe
        self.stderr = stderr
        self.is_stopping = False
        self.status: int | None = None
        self.checkpoint: Path | None = None

    def watch(self) -> None:
        """Act on each signal, until the process ends."""
        while numbers := os.read(self.pipe, 1):
            number = numbers[0]
            if number in REASONS:  # others have handlers of their own
                self._act(number)

    def _act(self, number: int) -> None:
        if self.status is not None:
            os._exit(self.status)
        if not self.is_stopping and _stop_after_epoch(number):
            self.is_stopping = True
            return
        try:
            _print_last_line(self._message(number), self.stderr)
        finally:
            os._exit(128 + number)

    def _message(self, number: int) -> str:
        text = f"mmlp: {REASONS[signal.Signals(number)]}"
        if self.checkpoint is None:
            return text
        try:
            has_checkpoint = any(self.checkpoint.rglob("checkpoint-*.safetensors"))
        except OSError:  # the main thread removes folders while they are listed
            has_checkpoint = False
        if not has_checkpoint:
            return text
        return f"{text}. The same command resumes from {self.checkpoint}."


def watch() -> None:
    """Let signals end this process as a command ends, from now on.

    A signal that is ignored stays ignored, such as Ctrl-C in a command that a shell
    script starts in the background.
    """
    global _watcher
    is_main_thread = threading.current_thread() is threading.main_thread()
    if _watcher is not None or not is_main_thread:
        return
    reading, writing, stderr = _open_descriptors()
    _watcher = Watcher(reading, stderr)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    for number in REASONS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _leave_to_watcher)
    threading.Thread(target=_watcher.watch, name="mmlp interrupts", daemon=True).start()


def finish(status: int) -> None:
    """Note that the work is done: from now on a signal ends the process with this status.

    A command that a signal has stopped ends here. It would otherwise wait for threads,
    such as one that still compiles.
    """
    if _watcher is None:
        return
    _watcher.status = status
    if status in {128 + number for number in REASONS}:
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

    They stay apart from the standard streams: where one of these is closed its
    descriptor is free, and would be taken for the stream.
    """
    placeholders = [os.open(os.devnull, os.O_RDONLY)]
    while placeholders[-1] <= 2:
        placeholders.append(os.open(os.devnull, os.O_RDONLY))
    reading, writing = os.pipe()
    # `sys.stderr` is another stream where it was closed.
    stderr = None if sys.__stderr__ is None else os.dup(sys.__stderr__.fileno())
    for descriptor in placeholders:
        os.close(descriptor)
    if os.name == "posix":
        os.set_blocking(writing, False)
    return reading, writing, stderr


def _stop_after_epoch(number: int) -> bool:
    """Ask training to stop, if it was imported; this thread must not wait for imports."""
    training = sys.modules.get("mmlp.training.interrupts")
    stop = getattr(training, "stop_after_epoch", None)
    return stop is not None and stop(number)


def _print_last_line(message: str, stderr: int | None) -> None:
    """Remove unfinished files, and print a line after which nothing else is printed."""
    # From here on nothing of the main thread is printed.
    null_device = os.open(os.devnull, os.O_WRONLY)
    for descriptor in (1, 2):
        os.dup2(null_device, descriptor)

    temporary_files = sys.modules.get("mmlp.temporary_files")
    remove_all = getattr(temporary_files, "remove_all", None)
    if remove_all is not None:
        remove_all()

    if stderr is None:
        return
    if os.name == "posix":
        # A pipe may be full, and nobody may read from it.
        _, ready, _ = select.select([], [stderr], [], MAX_SECONDS_TO_PRINT)
        if not ready:
            return
    if os.isatty(stderr):
        # A progress bar may be there. The width is 0 where the terminal does not tell
        # it.
        width = os.get_terminal_size(stderr).columns or DEFAULT_TERMINAL_WIDTH
        blank = " " * (width - 1)
        message = f"\r{blank}\r{message}"
    os.write(stderr, f"{message}\n".encode(errors="replace"))
