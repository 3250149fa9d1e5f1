"""With stdin, stdout or stderr closed there is no traceback, and nothing in the wrong stream."""

import io
import os
import shutil
import subprocess
import sys

import pytest
from command import run
from processes import environment

from mmlp import cli

SHELL = shutil.which("sh")
pytestmark = pytest.mark.skipif(SHELL is None, reason="a shell closes the streams")

VERSION = ("--version",)
WRONG = ("fit", "regression", "wind.csv")
INFO = ("info", "regression.safetensors")
ALL_CLOSED = "<&- >&- 2>&-"
CLOSED_STDOUT = (
    "mmlp: cannot write to stdout: bad file descriptor; write to another place.\n"
)


def run_closed(
    folder, redirections, *words, main="from mmlp.cli import main; sys.exit(main())"
):
    """Exit status, stdout, stderr of a command that a shell starts with some streams closed."""
    program = [sys.executable, "-c", f"import sys; {main}", *map(str, words)]
    done = subprocess.run(
        [SHELL, "-c", f'exec "$@" {redirections}', "sh", *program],
        cwd=folder,
        env=environment(__file__, MMLP_CACHE="off"),
        capture_output=True,
        text=True,
        timeout=300,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    ("words", "redirections", "status", "out", "err"),
    [
        (VERSION, "<&-", 0, "mmlp ", ""),
        (VERSION, ">&-", 1, "", CLOSED_STDOUT),
        (VERSION, "2>&-", 0, "mmlp ", ""),
        (VERSION, ALL_CLOSED, 1, "", ""),
        (("--help",), ">&-", 1, "", CLOSED_STDOUT),
        (WRONG, "2>&-", 2, "", ""),
        (WRONG, ">&-", 2, "", "mmlp: --targets is needed"),
        (WRONG, ALL_CLOSED, 2, "", ""),
        (INFO, "<&- 2>&-", 0, "model ", ""),
        (INFO, ">&-", 1, "", CLOSED_STDOUT),
        (("info", "missing.safetensors"), "2>&-", 1, "", ""),
    ],
)
def test_a_closed_stream_changes_nothing_in_the_others(
    words, redirections, status, out, err, here
):
    result = run_closed(here, redirections, *words)
    assert result[0] == status, result
    for text, start in zip(result[1:], (out, err), strict=True):
        assert text.startswith(start)
        assert bool(text) == bool(start)


@pytest.mark.slow
def test_a_warning_for_a_closed_stderr_is_not_in_the_results(here, tmp_path):
    """The stand-in for training has no missing cells, this table has one: that is a warning."""
    lines = (here / "wind.csv").read_text().splitlines()
    cells = lines[1].split(",")
    lines[1] = ",".join([cells[0], "", *cells[2:]])
    data, results = tmp_path / "gaps.csv", tmp_path / "results.csv"
    data.write_text("\n".join(lines))
    words = ("predict", here / "regression.safetensors", data)
    status, out, warning = run_closed(tmp_path, "", *words)
    assert status == 0
    assert "1 missing cells" in warning
    assert run_closed(tmp_path, "2>&-", *words) == (0, out, "")
    # The first file that the process opens would get the number of a closed stream.
    assert run_closed(tmp_path, ALL_CLOSED, *words, "-o", results) == (0, "", "")
    assert results.read_text() == out


def test_a_closed_stdin_is_told(here):
    status, out, err = run_closed(here, "<&-", "score", "regression.safetensors", "-")
    assert (status, out) == (1, "")
    assert (
        err == "mmlp: stdin is closed; name a file as DATA, or send a table to stdin.\n"
    )


def test_a_file_that_has_taken_the_number_of_a_stream_is_not_written_to(tmp_path):
    """As a library might open one before the command begins."""
    main = "file = open('log', 'w'); from mmlp.cli import main; sys.exit(main())"
    status, out, err = run_closed(tmp_path, "2>&-", "fit", main=main)
    assert (status, out, err) == (2, "", "")
    assert (tmp_path / "log").read_text() == ""


@pytest.mark.skipif(
    not os.path.exists("/dev/full"), reason="needs a device that is full"
)
@pytest.mark.parametrize("redirections", ["2>/dev/full", ">/dev/full 2>/dev/full"])
def test_a_stderr_that_cannot_be_written_to_does_not_change_the_status(
    redirections, here
):
    assert run_closed(here, redirections, *WRONG) == (2, "", "")
    assert run_closed(here, redirections, "info", "missing.safetensors") == (1, "", "")


@pytest.mark.skipif(
    not os.path.exists("/dev/full"), reason="needs a device that is full"
)
def test_a_full_stderr_does_not_end_the_work(here):
    """Such as `2> log` on a full disk; of a report each step is a message."""
    main = """
from mmlp.cli import info, main
def execute(command):
    print("a message", file=sys.stderr, flush=True)
    print("the result")
    return 0
info.execute = execute
sys.exit(main())
"""
    assert run_closed(here, "2>/dev/full", *INFO, main=main) == (0, "the result\n", "")


def test_a_character_that_stdout_cannot_write_is_told(here, capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding="ascii"))
    shutil.copy(here / "regression.safetensors", here / "modèle.safetensors")
    assert cli.main(["info", "modèle.safetensors"]) == 1
    assert capsys.readouterr().err == (
        "mmlp: the output has the character 'è', which its encoding ascii lacks; put "
        "PYTHONIOENCODING=utf-8 before the command, or write to a file with -o.\n"
    )


@pytest.mark.skipif(
    not os.path.exists("/dev/stdout"), reason="needs the devices of POSIX"
)
def test_devices_and_pipes_are_written_to_directly(here, tmp_path, capsys):
    words = ("predict", "regression.safetensors", "wind.csv")
    assert run(capsys, *words, "-o", "/dev/stdout") == run(capsys, *words)
    assert run(capsys, *words, "-o", "/dev/null") == (0, "", "")
    os.mkfifo(tmp_path / "pipe.safetensors")
    words = ("fit", "vae", "X.npy", "--overwrite", "-o", tmp_path / "pipe.safetensors")
    status, out, err = run(capsys, *words)
    assert (status, out) == (1, "")
    assert err.endswith("is a pipe or a device; choose another -o for the model.\n")


def test_a_link_that_points_to_itself_is_refused_before_the_work(
    here, tmp_path, capsys
):
    loop = tmp_path / "loop.csv"
    loop.symlink_to(loop)
    status, out, err = run(
        capsys, "predict", "regression.safetensors", "wind.csv", "-o", loop
    )
    assert (status, out) == (1, "")
    assert err == f"mmlp: {loop}: too many levels of symbolic links.\n"
