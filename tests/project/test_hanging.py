"""A test that stands still fails, with the stacks of all threads, and the others go on."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SETTINGS = Path(__file__).parents[2] / "pyproject.toml"
TESTS = """
import threading

def test_that_waits_for_ever():
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()

def test_that_passes():
    pass
"""


@pytest.mark.slow
def test_a_test_that_stands_still_fails_with_its_stack(tmp_path):
    (tmp_path / "test_waiting.py").write_text(TESTS)
    options = [
        "-c",
        str(SETTINGS),
        "--rootdir",
        str(tmp_path),
        "-o",
        "faulthandler_timeout=5",
        "-p",
        "no:cacheprovider",
    ]
    command = [sys.executable, "-m", "pytest", "-n", "2", *options, str(tmp_path)]
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("PYTEST")
    }
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 1, done.stdout
    assert "1 failed, 1 passed" in done.stdout
    assert "test_waiting.py::test_that_waits_for_ever" in done.stdout
    assert "Timeout (0:00:05)!" in done.stderr
    assert "in test_that_waits_for_ever" in done.stderr
