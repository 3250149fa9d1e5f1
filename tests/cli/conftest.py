"""Tables, and a model of each kind."""

import contextlib
import io
import json

import numpy as np
import pytest
from command import no_training

from mmlp import cli
from mmlp.estimators import cross_fitting


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """Tables, and a model of each kind, untrained, as the command line writes them."""
    folder = tmp_path_factory.mktemp("cli")
    rng = np.random.default_rng(0)
    X, noise = rng.normal(size=(40, 2)), rng.normal(size=(40, 2))
    y = X @ np.array([[1.0, 2.0], [0.0, 1.0]]) + noise
    rows = [
        f"s{i % 3}," + ",".join(map(str, row))
        for i, row in enumerate(np.concatenate([X, y], axis=1))
    ]
    (folder / "wind.csv").write_text("\n".join(["station,a,b,u,v", *rows, ""]))
    np.savez(folder / "spd.npz", X=X, Y=np.eye(2) + X[:, :, None] * X[:, None, :])
    np.savez(folder / "Xy.npz", X=X, y=y)
    np.save(folder / "X.npy", X)
    fits = [
        ("regression", "wind.csv", "--targets", "u,v", "--ignore", "station", "--json"),
        ("spd", "spd.npz", "--json"),
        ("vae", "Xy.npz", "--json"),  # of X alone
    ]
    summaries = {}
    with contextlib.chdir(folder), pytest.MonkeyPatch.context() as patch:
        patch.setattr(cross_fitting, "fit_many", no_training)
        for kind, data, *more in fits:
            with contextlib.redirect_stdout(io.StringIO()) as out:
                out_file = ("-o", f"{kind}.safetensors", "--epochs", "2", "--quiet")
                status = cli.main(["fit", kind, data, *out_file, *more])
            assert status == 0
            summaries[kind] = json.loads(out.getvalue())
    return folder, summaries


@pytest.fixture
def here(folder, monkeypatch):
    monkeypatch.chdir(folder[0])
    return folder[0]
