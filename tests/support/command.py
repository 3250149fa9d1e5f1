"""The command in this process, or in one of its own; and training without training."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np

import mmlp
from mmlp import cli
from mmlp.training import FitResult


def run(capsys, *words):
    """Exit status, stdout, stderr of a command, run in this process."""
    status = cli.main([str(word) for word in words])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def start(folder, *words, stdout=subprocess.PIPE):
    """The command in a process of its own."""
    environment = {
        **os.environ,
        "JAX_PLATFORMS": "cpu",
        "PYTHONPATH": str(Path(mmlp.__file__).parent.parent),
    }
    command = [sys.executable, "-m", "mmlp.cli", *words]
    return subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
    )


WITHOUT = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in "jax jaxlib equinox optax scipy sklearn matplotlib".split():
            raise ImportError(f"{name} is not installed")

sys.meta_path.insert(0, Refuse())
import mmlp, mmlp.tables
from mmlp.cli import main

assert {"fit", "Gram", "SPDRegressor", "plotting"} < set(dir(mmlp))
status = main(sys.argv[1:])
print(status)
"""


def without_jax(*words, folder=None):
    """What the command answers in a process where JAX, SciPy and scikit-learn fail to import."""
    command = [sys.executable, "-c", WITHOUT, *map(str, words)]
    environment = {**os.environ, "PYTHONPATH": str(Path(mmlp.__file__).parent.parent)}
    settings = {"capture_output": True, "text": True, "cwd": folder, "timeout": 300}
    run = subprocess.run(command, env=environment, **settings)
    assert run.returncode == 0, run.stderr
    *out, status = run.stdout.splitlines()
    return int(status), out, run.stderr


def no_training(models, *_, epochs, checkpoint, **__):
    """In place of `fit_many`, which takes its time to compile: the models as they begin."""
    checkpoint.mkdir(parents=True)
    return FitResult(models, {"loss": np.zeros((epochs, 5))})
