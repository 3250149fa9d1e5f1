"""Trainings of every kind, ended at random moments: the result is the same, bit for bit."""

import json
import os
import subprocess
import sys
from pathlib import Path

import kills
import pytest


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits another process")
def test_trainings_that_are_killed_stopped_or_find_the_disk_full_end_as_undisturbed_ones():
    """20 kills, seed 0; `python tests/support/kills.py --kills 200` for more."""
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": str(root), "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, kills.__file__, "--kills", "20", "--seed", "0"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stderr
    counts = json.loads(done.stdout)
    print(counts)
    assert sum(counts.get(kind, 0) for kind in kills.KINDS) >= 20
    assert counts["identical"] > 0
    assert all(name.partition(": ")[2] in kills.GOOD for name in counts if name not in kills.GOOD)
