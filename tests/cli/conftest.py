"""Tables, and a model of each kind."""

import contextlib
import fcntl
import io
import json
import os
import shutil

import numpy as np
import pytest
from command import no_training

from mmlp import cli
from mmlp.estimators import cross_fitting

FITS = [
    ("regression", "wind.csv", "--targets", "u,v", "--ignore", "station"),
    ("spd", "spd.npz"),
    ("vae", "Xy.npz"),  # of X alone
]


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """Tables, and a model of each kind, untrained, as the command line writes them.

    They are made once for all workers of a run; each worker has a copy to write into.
    """
    temporary = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        temporary = temporary.parent
    shared = temporary / "cli-models"
    with open(temporary / "cli-models.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (shared / "summaries.json").exists():
            shutil.rmtree(shared, ignore_errors=True)
            shared.mkdir()
            write_tables(shared)
            summaries = fit_models(shared)
            (shared / "summaries.json").write_text(json.dumps(summaries))

    own = tmp_path_factory.mktemp("cli")
    shutil.copytree(shared, own, dirs_exist_ok=True)
    return own, json.loads((own / "summaries.json").read_text())


@pytest.fixture
def here(folder, monkeypatch):
    """The folder of tables and models, as the current one."""
    monkeypatch.chdir(folder[0])
    return folder[0]


def write_tables(folder):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    noise = rng.normal(size=(40, 2))
    y = X @ np.array([[1.0, 2.0], [0.0, 1.0]]) + noise
    rows = [
        f"s{i % 3}," + ",".join(map(str, row))
        for i, row in enumerate(np.concatenate([X, y], axis=1))
    ]
    (folder / "wind.csv").write_text("\n".join(["station,a,b,u,v", *rows, ""]))
    np.savez(folder / "spd.npz", X=X, Y=np.eye(2) + X[:, :, None] * X[:, None, :])
    np.savez(folder / "Xy.npz", X=X, y=y)
    np.save(folder / "X.npy", X)


def fit_models(folder):
    """Write a model of each kind; return the summaries that the command printed."""
    summaries = {}
    with contextlib.chdir(folder), pytest.MonkeyPatch.context() as patch:
        patch.setattr(cross_fitting, "fit_many", no_training)
        for kind, *words in FITS:
            options = (
                "-o",
                f"{kind}.safetensors",
                "--epochs",
                "2",
                "--quiet",
                "--json",
            )
            with contextlib.redirect_stdout(io.StringIO()) as out:
                status = cli.main(["fit", kind, *words, *options])
            assert status == 0
            summaries[kind] = json.loads(out.getvalue())
    return summaries
