"""Trainings of every kind, ended at random moments: the result is the same, bit for bit."""

import json
import os
import subprocess
import sys
from pathlib import Path

import kills
import pytest


@pytest.mark.slow
@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="limits another process"
)
def test_trainings_that_are_killed_stopped_or_find_the_disk_full_end_as_undisturbed_ones():
    """20 kills, seed 0; `python tests/support/kills.py --kills 200` for more."""
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": str(root), "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, kills.__file__, "--kills", "20", "--seed", "0"]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=1800
    )
    assert done.returncode == 0, done.stderr
    counts = json.loads(done.stdout)
    print(counts)
    assert sum(counts.get(kind, 0) for kind in kills.KINDS) >= 20
    for mode in kills.MODES:
        assert counts[f"{mode}: identical"] > 0


def test_a_kind_of_work_that_is_never_killed_is_a_failure_of_the_script():
    counts = {
        "fit: SIGKILL": 3,
        "fit: identical": 1,
        "cli: finished": 1,
        "cli: identical": 1,
    }
    assert kills.violations(counts, ["fit"]) == []
    assert kills.violations(counts, ["fit", "cli"]) == ["cli: never killed"]
    assert kills.violations(counts | {"fit: hung": 1}, ["fit"]) == ["fit: hung"]


def test_twenty_kills_are_shared_out_over_every_kind_of_work(tmp_path, monkeypatch):
    """With up to ten kills of one run, twenty never reached the last kinds."""
    killed = []

    def kill(mode, folder, kills, *_):
        killed.extend([mode] * kills)
        return ["SIGKILL"] * kills

    monkeypatch.setattr(kills, "run_undisturbed", lambda mode, folder: ((), 1.0))
    monkeypatch.setattr(kills, "kill_until_finished", kill)
    monkeypatch.setattr(kills.os, "environ", dict(os.environ))
    kills.main(20, 0, list(kills.MODES), tmp_path)
    assert {mode: killed.count(mode) for mode in kills.MODES} == dict.fromkeys(
        kills.MODES, 5
    )
