"""`-` as DATA: tables through pipes, and models that are not overwritten."""

import contextlib
import errno
import io
import json
import os
import subprocess
import sys

import pytest
from command import no_training, run
from processes import environment

from mmlp.cli import stdin
from mmlp.estimators import cross_fitting


class Piped(io.TextIOWrapper):
    """As stdin, with this content."""

    def __init__(self, text: str, *, terminal: bool = False):
        super().__init__(io.BytesIO(text.encode()))
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal


def test_a_table_comes_from_stdin(here, capsys, monkeypatch):
    text = (here / "wind.csv").read_text()
    for command in ("predict", "score"):
        words = (command, "regression.safetensors")
        direct = run(capsys, *words, "wind.csv")
        monkeypatch.setattr(sys, "stdin", Piped(text))
        assert run(capsys, *words, "-") == direct
        assert direct[0] == 0
    monkeypatch.setattr(cross_fitting, "fit_many", no_training)
    monkeypatch.setattr(sys, "stdin", Piped(text))
    words = "fit regression - --targets u,v --ignore station --epochs 2 --quiet --json"
    status, out, err = run(capsys, *words.split(), "-o", "piped.safetensors")
    assert (status, err) == (0, "")
    assert json.loads(out)["inputs"] == ["a", "b"]


def test_what_is_wrong_with_it_is_told_of_stdin(here, capsys, monkeypatch):
    for text, message in (
        ("", "mmlp: stdin is empty;"),
        ("a,b,u,v\n1,2,3,4\n1,2\n", "stdin"),
        ("a,u,v\n1,2,3\n", "mmlp: stdin has no column 'b'"),
    ):
        monkeypatch.setattr(sys, "stdin", Piped(text))
        status, out, err = run(capsys, "score", "regression.safetensors", "-")
        assert (status, out) == (1, "")
        assert message in err
        assert "tmp" not in err


@pytest.mark.parametrize("terminal", [True, False])
def test_a_terminal_is_told_that_it_is_read(terminal, here, capsys, monkeypatch):
    text = (here / "wind.csv").read_text()
    monkeypatch.setattr(sys, "stdin", Piped(text, terminal=terminal))
    status, _, err = run(capsys, "predict", "regression.safetensors", "-")
    assert status == 0
    assert ("mmlp: reading a table in CSV from stdin; Ctrl-" in err) == terminal


@pytest.mark.slow
def test_a_pipe_between_two_commands(here):
    words = [sys.executable, "-m", "mmlp.cli", "predict", "regression.safetensors", "-"]
    options = {
        "env": environment(__file__),
        "capture_output": True,
        "timeout": 300,
        "cwd": here,
    }
    done = subprocess.run(words, input=(here / "wind.csv").read_bytes(), **options)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.count(b"\n") == 41


def test_a_model_file_is_replaced_only_with_overwrite(here, capsys, monkeypatch):
    monkeypatch.setattr(cross_fitting, "fit_many", no_training)
    words = (
        "fit",
        "vae",
        "X.npy",
        "-o",
        "kept.safetensors",
        "--epochs",
        "2",
        "--quiet",
    )
    assert run(capsys, *words)[0] == 0
    before = (here / "kept.safetensors").read_bytes()
    status, out, err = run(capsys, *words, "--seed", "1")
    assert (status, out) == (1, "")
    assert err == (
        "mmlp: kept.safetensors is there already; --overwrite replaces it, or choose another -o.\n"
    )
    assert (here / "kept.safetensors").read_bytes() == before
    assert run(capsys, *words, "--seed", "1", "--overwrite")[0] == 0
    assert (here / "kept.safetensors").read_bytes() != before


def test_a_stand_in_for_stdin_may_hold_text_alone(here, capsys, monkeypatch):
    """As a notebook or a test has one."""
    words = ("predict", "regression.safetensors")
    monkeypatch.setattr(sys, "stdin", io.StringIO((here / "wind.csv").read_text()))
    assert run(capsys, *words, "-") == run(capsys, *words, "wind.csv")


class UnreadableStdin:
    """A terminal that is gone."""

    buffer = property(lambda self: self)

    def isatty(self) -> bool:
        return False

    def read(self, _size: int) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))


def test_a_stdin_that_cannot_be_read_is_told(here, capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", UnreadableStdin())
    status, out, err = run(capsys, "predict", "regression.safetensors", "-")
    assert (status, out) == (1, "")
    assert err == (
        "mmlp: cannot read stdin: input/output error; name a file as DATA, or send a table to "
        "stdin.\n"
    )


@pytest.mark.skipif(
    not os.path.exists("/dev/full"), reason="needs a device that is full"
)
def test_a_full_temporary_folder_is_told(here, tmp_path, capsys, monkeypatch):
    (tmp_path / "stdin.csv").symlink_to("/dev/full")
    folder = contextlib.nullcontext(str(tmp_path))
    monkeypatch.setattr(stdin, "_temporary_folder", lambda: folder)
    monkeypatch.setattr(sys, "stdin", Piped("a,b\n1,2\n"))
    status, out, err = run(capsys, "predict", "regression.safetensors", "-")
    assert (status, out) == (1, "")
    assert err == (
        f"mmlp: could not copy stdin to {tmp_path} (no space left on device); free space there, "
        "name another folder in TMPDIR, or name a file as DATA.\n"
    )
