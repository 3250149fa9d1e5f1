"""On one core nothing waits for ever, as batches did with jaxlib 0.9.1 up to 0.11.1."""

import subprocess
import sys

import one_core
import pytest
from processes import CACHE, environment

LIMIT = 240  # seconds; it takes a tenth of them
pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("precision", "programs"),
    [
        ("float32", ["d=40"]),
        ("float64", ["d=40", "d=5"]),
        ("float32", ["d=5", "vae_step", "fit", "fit_many", "regressor"]),
        ("float64", ["vae_step", "fit", "fit_many", "regressor"]),
    ],
)
def test_a_program_on_one_core_comes_to_its_end(precision, programs):
    variables = {"JAX_COMPILATION_CACHE_DIR": CACHE, "TF_CPP_MIN_LOG_LEVEL": "3"}
    command = [sys.executable, one_core.__file__, str(LIMIT - 30), precision, *programs]
    done = subprocess.run(
        command,
        env=environment(__file__, **variables),
        timeout=LIMIT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert done.stdout.endswith("all done\n")
