"""Ctrl-C and SIGTERM, wherever they find the command: one line, the status, no traceback."""

import contextlib
import json
import os
import pty
import signal
import subprocess
import sys
import time

import interrupts
import pytest
from processes import environment

from mmlp.cli.interrupts import Watcher

pytestmark = pytest.mark.skipif(os.name != "posix", reason="sends signals")
# The command as its console script starts it, with `info` replaced by other work.
PROGRAM = """
import os, signal, sys, time
from pathlib import Path
from mmlp import cli
from mmlp.cli import info

def send():
    os.kill(os.getpid(), getattr(signal, os.environ["SIGNAL"]))

def work(command):
    {work}
    return 0

info.execute = work
sys.exit(cli.main())
"""
IN_GARBAGE_COLLECTION = """
    import gc
    def callback(phase, info):
        gc.callbacks.clear()
        send()
        time.sleep(0.1)
    gc.callbacks.append(callback)
    gc.collect()
    time.sleep(10)
"""
# OpenSSL computes for seconds, and the main thread does not come back to the interpreter.
IN_C = """
    import hashlib, threading
    threading.Timer(0.1, send).start()
    hashlib.pbkdf2_hmac("sha256", b"", b"", 30_000_000)
"""
WHILE_WRITING = """
    from mmlp import atomic_files
    with atomic_files.open_replacement(Path("out.csv")) as file:
        file.write(b"half of it")
        file.flush()
        send()
        time.sleep(10)
"""
WHILE_READING_STDIN = """
    from mmlp.cli import arguments, stdin
    import threading
    threading.Timer(0.1, send).start()
    with stdin.read_stdin(arguments.Predict(model=Path("model"), data=Path("-"))):
        pass
"""
WHILE_STDERR_IS_ANOTHER = """
    import contextlib, io
    with contextlib.redirect_stderr(io.StringIO()):
        send()
        time.sleep(10)
"""
WHILE_MESSAGES_ARE_HIDDEN = """
    from mmlp import program_cache
    with program_cache.hide_loader_messages():
        send()
        time.sleep(10)
"""
WHILE_IMPORTING = """
import os, signal, sys

class Send:
    def find_spec(self, name, path=None, target=None):
        if name == "numpy":
            os.kill(os.getpid(), getattr(signal, os.environ["SIGNAL"]))

sys.meta_path.insert(0, Send())
from mmlp.cli import main
sys.exit(main())
"""


@contextlib.contextmanager
def handling_interrupts(handler):
    """A process that is started meanwhile ignores Ctrl-C (SIG_IGN), or hears it (SIG_DFL).

    Not by `preexec_fn`, for which Python forks: JAX warns of that.
    """
    previous = signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)


def start(program, folder, signal_name, **streams):
    """A command of which signals are heard, also where this process ignores them."""
    streams = {"stdin": subprocess.PIPE, "stderr": subprocess.PIPE, **streams}
    with handling_interrupts(signal.SIG_DFL):
        return subprocess.Popen(
            [sys.executable, "-c", program, "info", "model.safetensors"],
            cwd=folder,
            env=environment(__file__, TMPDIR=str(folder), SIGNAL=signal_name),
            stdout=subprocess.PIPE,
            **streams,
        )


@pytest.mark.parametrize(
    "program",
    [
        pytest.param(WHILE_IMPORTING, id="importing"),
        pytest.param(
            PROGRAM.format(work=IN_GARBAGE_COLLECTION), id="garbage collection"
        ),
        pytest.param(PROGRAM.format(work=IN_C), id="no step of the interpreter"),
        pytest.param(PROGRAM.format(work=WHILE_WRITING), id="writing"),
        pytest.param(PROGRAM.format(work=WHILE_READING_STDIN), id="reading stdin"),
        pytest.param(
            PROGRAM.format(work=WHILE_STDERR_IS_ANOTHER), id="stderr is another"
        ),
        pytest.param(
            PROGRAM.format(work=WHILE_MESSAGES_ARE_HIDDEN), id="messages are hidden"
        ),
    ],
)
def test_an_interrupt_ends_the_command_at_once_with_one_line_and_nothing_left(
    program, tmp_path
):
    began = time.monotonic()
    process = start(program, tmp_path, "SIGINT")
    with (
        process
    ):  # which closes the pipes; stdin stays open until the process has ended
        status = process.wait(timeout=60)
        assert process.stderr.read() == b"mmlp: interrupted\n"
        assert process.stdout.read() == b""
    assert status == 130
    assert list(tmp_path.iterdir()) == []
    assert time.monotonic() - began < 9  # where nothing ends it, the work takes longer


@pytest.mark.parametrize(
    ("name", "status", "message"),
    [
        ("SIGTERM", 143, b"mmlp: terminated\n"),
        ("SIGHUP", 129, b"mmlp: the terminal was closed\n"),
    ],
)
def test_other_signals_remove_unfinished_files_too(name, status, message, tmp_path):
    process = start(PROGRAM.format(work=WHILE_WRITING), tmp_path, name)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (status, message)
    assert list(tmp_path.iterdir()) == []


def test_a_signal_that_is_ignored_stays_ignored(tmp_path):
    work = 'send(); time.sleep(0.3); print("done")'
    with handling_interrupts(signal.SIG_IGN):
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM.format(work=work), "info", "model"],
            cwd=tmp_path,
            env=environment(__file__, SIGNAL="SIGINT"),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
    assert process.communicate(timeout=60) == (b"done\n", b"")
    assert process.returncode == 0


def test_a_signal_after_the_work_changes_nothing(tmp_path):
    """Python ends slowly where a thread is still at work: nobody waits for it any more."""
    work = """
    import threading
    def later():
        time.sleep(0.3)
        send()
        time.sleep(10)
    threading.Thread(target=later).start()
    print("done")
"""
    began = time.monotonic()
    process = start(PROGRAM.format(work=work), tmp_path, "SIGINT")
    assert process.communicate(timeout=60) == (b"done\n", b"")
    assert process.returncode == 0
    assert time.monotonic() - began < 9


def test_with_stderr_closed_an_interrupt_writes_nowhere(tmp_path):
    """Its number is free then, and may become that of a file."""
    work = """
    file = os.open("data", os.O_WRONLY | os.O_CREAT)
    send()
    time.sleep(10)
"""
    script = f'exec {sys.executable} -c "$PROGRAM" info model 2>&-'
    with handling_interrupts(signal.SIG_DFL):
        process = subprocess.Popen(
            ["sh", "-c", script],
            cwd=tmp_path,
            env=environment(
                __file__, PROGRAM=PROGRAM.format(work=work), SIGNAL="SIGINT"
            ),
            stdout=subprocess.PIPE,
        )
    output, _ = process.communicate(timeout=60)
    assert (process.returncode, output) == (130, b"")
    assert (tmp_path / "data").read_bytes() == b""


def test_a_pipe_that_nobody_reads_does_not_keep_the_command(tmp_path):
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(writing, bytes(4096))
    os.set_blocking(writing, True)
    process = start(
        PROGRAM.format(work="send(); time.sleep(60)"),
        tmp_path,
        "SIGINT",
        stderr=writing,
    )
    with process:
        assert process.wait(timeout=30) == 130
    os.close(reading)
    os.close(writing)


def test_on_a_terminal_the_line_takes_the_place_of_a_bar(tmp_path):
    ours, theirs = pty.openpty()
    work = 'print("half a bar |###", end="", file=sys.stderr, flush=True); send(); time.sleep(10)'
    process = start(PROGRAM.format(work=work), tmp_path, "SIGINT", stderr=theirs)
    with process:
        assert process.wait(timeout=60) == 130
    os.close(theirs)
    text = os.read(ours, 10_000).decode()
    os.close(ours)
    *_, before, line = text.rstrip("\r\n").split("\r")
    assert line == "mmlp: interrupted"
    assert before.isspace()


SHARED_WORK = """
import time
from pathlib import Path

def rest(name):
    Path(name).touch()
    time.sleep(60)

if __name__ == "__main__":
    import sys
    from mmlp import cli
    from mmlp.cli import info
    from reproduction.harness.parallel import map_in_processes

    info.execute = lambda command: map_in_processes(
        rest, [("a",), ("b",)], "work", jobs=2
    )
    sys.exit(cli.main())
"""


@pytest.mark.slow
def test_ctrl_c_ends_a_command_that_shares_its_work_among_processes(tmp_path):
    """A terminal sends it to all of them; only the command answers, and no process is left."""
    (tmp_path / "program.py").write_text(SHARED_WORK)
    with handling_interrupts(signal.SIG_DFL):
        process = subprocess.Popen(
            [sys.executable, "program.py", "info", "model"],
            cwd=tmp_path,
            env=environment(__file__),
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    while not ((tmp_path / "a").exists() and (tmp_path / "b").exists()):
        assert process.poll() is None
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=30)  # until all have closed stderr
    assert (process.returncode, err) == (130, b"mmlp: interrupted\n")


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
def test_interrupts_at_random_times_end_every_command_soon():
    """8 interrupts; `python tests/support/interrupts.py --interrupts 200` for more."""
    command = [sys.executable, interrupts.__file__, "--interrupts", "8", "--seed", "1"]
    names = ["fit", "predict", "report", "info"]
    done = subprocess.run(
        [*command, "--commands", *names], capture_output=True, text=True, timeout=1800
    )
    assert done.returncode == 0, done.stderr
    counts = json.loads(done.stdout)["counts"]
    kinds = ("at once", "after an epoch", "after the work")
    assert sum(counts.get(kind, 0) for kind in kinds) >= 8


def test_the_script_finds_what_is_wrong(tmp_path):
    (tmp_path / "tmp").mkdir()
    command = interrupts.Command("info", "info model")
    good = interrupts.Ending(130, "", "mmlp: interrupted\n", 0.1, 0.1, in_start=False)
    bad = interrupts.Ending(
        1, "", "Traceback\nKeyboardInterrupt\n", 3.0, 0.1, in_start=False
    )
    assert interrupts.judge(good, command, tmp_path, tmp_path) == ("at once", [])
    (tmp_path / ".out.csv.tmp").touch()
    _, problems = interrupts.judge(bad, command, tmp_path, tmp_path)
    assert problems[:3] == ["wrong status", "not one line", "too late"]
    assert problems[3].startswith("leaves ")


def test_a_checkpoint_that_vanishes_while_it_is_listed_does_not_lose_the_line():
    """The main thread may remove the folder just when a signal comes."""

    class VanishingFolder:
        def rglob(self, pattern):
            raise FileNotFoundError(pattern)

    watcher = Watcher(pipe=-1, stderr=None)
    watcher.checkpoint = VanishingFolder()
    assert watcher._message(signal.SIGINT) == "mmlp: interrupted"
