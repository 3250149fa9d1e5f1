"""`make setup` finds an interpreter that works, or says in one line what to install."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

MAKEFILE = Path(__file__).parents[2] / "Makefile"
OLD = 'case "$1" in --version) echo "Python 3.9.2";; *) exit 1;; esac'  # too old, or without venv
BROKEN = 'echo "pyenv: python3.13: command not found" >&2; exit 127'
GOOD = 'case "$2" in venv) mkdir -p .venv/bin && cp "$0" .venv/bin/python;; esac'


def make_environment(tmp_path, interpreters: dict[str, str], *arguments: str):
    """What `make` answers where these are all the interpreters there are."""
    path = tmp_path / "bin"
    path.mkdir()
    for tool in ("sh", "mkdir", "cp", "head", "rm"):
        (path / tool).symlink_to(shutil.which(tool))
    for name, script in interpreters.items():
        (path / name).write_text(f"#!{shutil.which('sh')}\n{script}\n")
        (path / name).chmod(0o755)
    command = [
        shutil.which("make"),
        "-s",
        "-f",
        str(MAKEFILE),
        ".venv/bin/python",
        *arguments,
    ]
    environment = {"PATH": str(path), "HOME": os.environ.get("HOME", "/")}
    return subprocess.run(
        command,
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize(
    "interpreters", [{"python3": OLD}, {"python3": OLD, "python3.13": BROKEN}, {}]
)
def test_without_a_fit_interpreter_one_line_says_what_to_install(
    interpreters, tmp_path
):
    answer = make_environment(tmp_path, interpreters)
    assert answer.returncode != 0
    line, _ = answer.stderr.split("\n", 1)  # then make's own
    assert line.startswith("matrix-mlp needs Python 3.11 or newer with venv")
    assert ("python3 is Python 3.9.2" if interpreters else "not found") in line
    assert "make setup PYTHON=" in line
    assert not (tmp_path / ".venv").exists()


@pytest.mark.parametrize(
    "arguments", [[], ["PYTHON=python3"], ["PYTHON=/nowhere/python3.14"]]
)
def test_a_newer_interpreter_on_the_path_is_taken_if_it_works(arguments, tmp_path):
    interpreters = {"python3": OLD, "python3.13": BROKEN, "python3.12": GOOD}
    answer = make_environment(tmp_path, interpreters, *arguments)
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout == "python3.12 -m venv .venv\n"
    assert (tmp_path / ".venv" / "bin" / "python").exists()
