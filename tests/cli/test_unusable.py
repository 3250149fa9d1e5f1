"""Every file that cannot be used by its exit status and its one line."""

import os
from pathlib import Path

import jax
import numpy as np
import pytest
from command import run

import mmlp
from mmlp.serialization import files


@pytest.fixture(scope="module")
def unusable(folder):
    """Files that cannot be used."""
    here = folder[0]
    (here / "empty.csv").write_text("")
    (here / "ragged.csv").write_text("a,b,u,v\n1,2,3,4\n1,2,3\n")
    (here / "words.csv").write_text("a,b,u,v\n1,2,3,4\n1,two,3,4\n")
    (here / "python.csv").write_text("a,b,u,v\n1,2,3,4\n1,2,1_000,4\n")
    (here / "gaps.csv").write_text("a,b,u,v\n1,2,3,4\n1,2,NA,4\n")
    (here / "inf.csv").write_text("a,b,u,v\n1,2,3,4\n1,2,inf,4\n")
    (here / "huge.csv").write_text("a,b,u,v\n1,2,3,4\n1,1e300,3,4\n")
    (here / "few.csv").write_text("a,u,v\n1,2,3\n1,2,4\n")
    (here / "one.csv").write_text("a,b,u,v\n1,2,3,4\n")
    (here / "table.csv").write_bytes(bytes(range(128, 256)))
    (here / "folder.csv").mkdir(exist_ok=True)  # workers may come back to this file
    (here / "folder").mkdir(exist_ok=True)
    (here / "text.safetensors").write_text("hello")
    whole = (here / "regression.safetensors").read_bytes()
    (here / "cut.safetensors").write_bytes(whole[:-10])
    (here / "damaged.safetensors").write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    network = mmlp.MatrixMLP(2, 2, (3,), key=jax.random.key(0))
    mmlp.save(network, here / "network.safetensors")
    files.write(
        here / "state.safetensors", {}, {"kind": "run", "version": files.VERSION}
    )
    Y = np.broadcast_to(np.eye(2), (4, 2, 2)) * np.array([1, 1, -1, 1])[:, None, None]
    np.savez(here / "negative.npz", X=np.ones((4, 1)), Y=Y)
    test_row = np.random.default_rng(0).permutation(8)[
        0
    ]  # the first that --test 0.5 keeps from training
    late = (
        np.broadcast_to(np.eye(2), (8, 2, 2))
        * np.where(np.arange(8) == test_row, -1, 1)[:, None, None]
    )
    np.savez(here / "late.npz", X=np.ones((8, 1)), Y=late)
    np.savez(here / "objects.npz", X=np.array([[object()]]), Y=np.ones((1, 1, 1)))
    return here


UNUSABLE = [
    (
        "fit vae missing.csv",
        "missing.csv: no such file or directory; check the spelling and the folder.",
    ),
    ("fit vae folder.csv", "folder.csv: is a directory; name a file in it."),
    ("fit vae empty.csv", "empty.csv is empty"),
    ("fit vae ragged.csv", "ragged.csv, line 3: 3 cells where there are 4 columns"),
    ("fit regression words.csv --targets b", "words.csv, line 3, column 'b': 'two' is not a num"),
    ("fit regression python.csv --targets u", "python.csv, line 3, column 'u': '1_000' is not a n"),
    (
        "fit vae gaps.csv",
        "gaps.csv: 2 rows, 4 columns; 1 rows left out: a value is missing; 1 are too few to fit.",
    ),
    ("fit vae inf.csv", "inf.csv, line 3, column 'u': 'inf' is not finite"),
    (
        "fit vae huge.csv",
        "huge.csv, line 3, column 'b': 1e+300, whose square overflows; correct it, or "
        "remove the row",
    ),
    ("fit vae table.csv", "table.csv, line 1 holds bytes that are not UTF-8 text"),
    ("fit vae objects.npz", "objects.npz holds Python objects, which are not read"),
    ("fit vae wind.txt", "cannot read wind.txt: its name must end in .csv,"),
    ("fit vae one.csv", "one.csv: "),
    (
        "fit regression wind.csv --targets w",
        "wind.csv has no column 'w'; it has 'station', 'a', 'b', 'u', 'v'.",
    ),
    ("fit regression wind.csv --targets u,u", "the column 'u' is asked for twice"),
    (
        "fit regression wind.csv --targets u --ignore statoin",
        "wind.csv has no column 'statoin'; did you mean 'station'?",
    ),
    ("fit regression few.csv --targets a,u,v", "few.csv has no columns left as inputs"),
    ("fit regression spd.npz -o new.safetensors", "spd.npz has no array 'y' to predict"),
    (
        "fit spd wind.csv",
        "wind.csv cannot hold matrices: they are read from an .npz with X (n, p) and Y "
        "(n, d, d)",
    ),
    ("fit spd Xy.npz", "Xy.npz has no array 'Y' but 'X', 'y'"),
    (
        "fit spd negative.npz",
        "must be positive definite, but that of row 2 (from 0) has smallest eigenvalue -0.5",
    ),
    ("fit spd late.npz --test 0.5", "late.npz: Y must be positive definite"),
    (
        "score spd.safetensors negative.npz",
        "negative.npz: Y must be positive definite",
    ),
    ("fit vae X.npy --test 0.01", "X.npy has 40 rows, too few for --test 0.01; use another share."),
    (
        "fit vae X.npy -o no/such/m.safetensors",
        "there is no folder no/such to write m.safetensors into; make it first.",
    ),
    ("fit vae X.npy -o X.npy/m.safetensors", "there is no folder X.npy to write"),
    ("predict missing.safetensors wind.csv", "missing.safetensors: no such file or directory"),
    ("predict text.safetensors wind.csv", "text.safetensors is not a complete safetensors file"),
    ("predict cut.safetensors wind.csv", "cut.safetensors is damaged"),
    (
        "predict damaged.safetensors wind.csv",
        "damaged.safetensors is damaged: its content does not match its checksum.",
    ),
    (
        "predict network.safetensors wind.csv",
        "network.safetensors holds a network, not",
    ),
    (
        "predict state.safetensors wind.csv",
        "state.safetensors holds the state of a training run, not",
    ),
    ("predict folder wind.csv", "folder: is a directory"),
    ("predict regression.safetensors few.csv", "few.csv has no column 'b'"),
    ("predict regression.safetensors words.csv", "words.csv, line 3, column 'b'"),
    ("predict regression.safetensors X.npy", "X.npy has no column 'a'; it has 'x0', 'x1'."),
    (
        "predict regression.safetensors wind.csv -o wind.csv",
        "wind.csv would be written over the data; choose another -o.",
    ),
    (
        "predict regression.safetensors wind.csv -o p.npy",
        "p.npy can hold one array, but there are mean and covariance",
    ),
    (
        "predict regression.safetensors wind.csv -o no/p.csv",
        "there is no folder no to write p.csv into",
    ),
    ("predict regression.safetensors wind.csv -o folder.csv", "folder.csv: is a directory"),
    ("score regression.safetensors X.npy", "X.npy has no column 'a'"),
    ("score spd.safetensors wind.csv", "wind.csv cannot hold matrices"),
    (
        "sample spd.safetensors -n 5",
        "spd.safetensors is a model of kind spd; only those of `mmlp fit vae` can be sampled.",
    ),
    ("sample regression.safetensors -n 5", "regression.safetensors is a model of kind regression"),
    ("info network.safetensors", "network.safetensors holds a network, not"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "message"), UNUSABLE, ids=[words for words, _ in UNUSABLE]
)
def test_files_that_cannot_be_used_end_with_status_1_and_one_line(
    words, message, unusable, capsys, monkeypatch
):
    monkeypatch.chdir(unusable)
    before = sorted(path.name for path in unusable.iterdir())
    status, out, err = run(capsys, *words.split())
    assert (status, out) == (1, "")
    assert err.startswith("mmlp: ")
    assert message in err
    assert err.count("\n") == 1
    assert sorted(path.name for path in unusable.iterdir()) == before, (
        "nothing is written"
    )


def test_a_score_tells_the_problems_of_inputs_and_targets(here, tmp_path, capsys):
    path = tmp_path / "both.csv"
    path.write_text("a,b,u,v\n1,2,three,4\n1,two,3,4\n")
    status, out, err = run(capsys, "score", "regression.safetensors", path)
    assert (status, out) == (1, "")
    places = [line.partition(":")[0].strip() for line in err.splitlines()[1:]]
    assert places == ["line 2, column 'u'", "line 3, column 'b'"]


def test_a_file_that_may_not_be_read_or_written(here, capsys, monkeypatch):
    """Permissions do not stop the superuser, so the system's answer is made up here."""

    def refuse(path, *_, **__):
        raise PermissionError(13, "Permission denied", str(path))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_bytes", refuse)
        status, out, err = run(capsys, "fit", "vae", "wind.csv")
    assert (status, out, err) == (
        1,
        "",
        "mmlp: wind.csv: permission denied; allow it, or use another file.\n",
    )
    with monkeypatch.context() as patch:
        patch.setattr(os, "access", lambda *_: False)
        status, out, err = run(capsys, "fit", "vae", "X.npy")
    assert (status, out, err) == (
        1,
        "",
        "mmlp: X.safetensors: not allowed to write there; allow it, or use another file.\n",
    )
