"""The command line: every wrong input by its exit status and its one line; then real runs."""

import contextlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import jax
import numpy as np
import pytest

import mmlp
from mmlp import cli, metrics, tables
from mmlp.checkpoint import files
from mmlp.cli import commands
from mmlp.estimators import MultivariateRegressor
from mmlp.estimators import training as _training
from mmlp.experiments.harness.targets import TARGETS
from mmlp.training.core import FitResult, NonFiniteError
from mmlp.training.runs import AnotherRunError


def run(capsys, *words):
    """Exit status, stdout, stderr of a command, run in this process."""
    status = cli.main([str(word) for word in words])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


@pytest.mark.parametrize(
    "words",
    [
        "--help",
        "-h",
        "help",
        "fit --help",
        "help fit",
        "fit regression --help",
        "help fit vae",
        "predict -h",
    ],
)
def test_help_goes_to_stdout_and_succeeds(words, capsys):
    status, out, err = run(capsys, *words.split())
    assert (status, err) == (0, "")
    assert "usage: mmlp" in out
    assert "$ mmlp" in out  # an example


@pytest.mark.parametrize(
    "command",
    [
        "demo",
        "fit regression",
        "fit spd",
        "fit vae",
        "predict",
        "score",
        "sample",
        "info",
        "reproduce",
    ],
)
def test_every_command_has_help(command, capsys):
    status, out, _ = run(capsys, *command.split(), "--help")
    assert status == 0
    assert f"usage: mmlp {command}" in out
    root = run(capsys, "--help")[1] + run(capsys, "fit", "--help")[1]
    assert command.split()[-1] in root


@pytest.mark.parametrize("kind", ["regression", "spd", "vae"])
def test_help_states_the_default_epochs_of_each_kind(kind, capsys):
    estimator = {name: kind for kind, name in commands.KINDS.items()}[kind]()
    text = " ".join(run(capsys, "fit", kind, "--help")[1].replace("│", " ").split())
    described = text[text.rindex("--epochs N") :]  # at the option, not in an example
    assert "The most passes over the data" in described
    assert described[described.index("(default: ") :].startswith(
        f"(default: {estimator.max_epochs})"
    )


WRONG_ARGUMENTS = [
    ("", "Missing subcommand"),
    ("fit", "Expected one of {regression, spd, vae}"),
    ("predikt m d", "Available subcommands: demo, fit, predict, score"),
    ("fit regresion d.csv", "Available subcommands: regression, spd, vae"),
    ("fit regression", "DATA"),
    ("fit vae d.csv --epoch 3", "--epochs"),
    ("fit vae d.csv --epochs many", "--epochs"),
    ("fit vae d.csv --epochs 0", "mmlp: --epochs must be at least 1, got 0."),
    ("fit vae d.csv --latent -1", "mmlp: --latent must be at least 1, got -1."),
    ("fit vae d.csv --seed -1", "mmlp: --seed must be from 0 to 4294967295, got -1."),
    ("fit vae d.csv --test 20", "mmlp: --test must be a share below 1, such as 0.2, got 20."),
    ("fit vae d.csv --targets a", "Unrecognized options: --targets, a"),
    ("fit regression d.csv --targets a b", "Unrecognized options: b"),
    ("fit regression d.csv", "mmlp: --targets is needed: the columns of d.csv to predict, such as --targets u,v."),
    ("fit regression d.csv --targets ,", "mmlp: --targets is needed"),
    ("fit regression d.csv --targets a -o m.pkl", "mmlp: cannot write m.pkl: its name must end in .safetensors."),
    ("fit regression d.csv --targets a -o m", "mmlp: cannot write m: its name must end in .safetensors."),
    ("predict m.safetensors", "DATA"),
    ("predict m.safetensors d.csv -o out.xlsx", "mmlp: cannot write out.xlsx: its name must end in .csv, .npz or .npy."),
    ("predict m.safetensors d.csv -o out", "mmlp: cannot write out: its name must end in .csv, .npz or .npy."),
    ("sample m.safetensors", "-n N"),
    ("sample m.safetensors -n 0", "mmlp: -n must be at least 1, got 0."),
    ("sample m.safetensors -n ten", "-n"),
    ("sample m.safetensors -n 5 -o out.json", "mmlp: cannot write out.json: its name must end in .csv, .npz or .npy."),
    ("info", "MODEL"),
    ("info d.csv", "mmlp: d.csv is a table, not a model; the model comes first, such as wind.safetensors."),
    ("predict d.csv m.safetensors", "mmlp: d.csv is a table, not a model"),
    ("reproduce", "mmlp: name what to reproduce, such as `mmlp reproduce all`"),
    ("reproduce tables", "invalid choice 'tables'"),
    ("reproduce all --seeds 0", "mmlp: --seeds must be at least 1, got 0."),
]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "message"), WRONG_ARGUMENTS, ids=[words or "nothing" for words, _ in WRONG_ARGUMENTS]
)
def test_wrong_arguments_end_with_status_2_before_anything_is_read(
    words, message, capsys, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    status, out, err = run(capsys, *words.split())
    assert (status, out) == (2, "")
    assert message in err
    assert "Traceback" not in err
    assert not list(tmp_path.iterdir())


def no_training(models, *_, epochs, checkpoint, **__):
    """In place of `fit_many`, which takes its time to compile: the models as they begin."""
    checkpoint.mkdir(parents=True)
    return FitResult(models, {"loss": np.zeros((epochs, 5))})


@pytest.fixture(scope="module")
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
        patch.setattr(_training, "fit_many", no_training)
        for kind, data, *more in fits:
            with contextlib.redirect_stdout(io.StringIO()) as out:
                status = cli.main(
                    [
                        "fit",
                        kind,
                        data,
                        "-o",
                        f"{kind}.safetensors",
                        "--epochs",
                        "2",
                        "--quiet",
                        *more,
                    ]
                )
            assert status == 0
            summaries[kind] = json.loads(out.getvalue())
    return folder, summaries


@pytest.fixture
def here(folder, monkeypatch):
    monkeypatch.chdir(folder[0])
    return folder[0]


def test_fit_writes_a_model_and_says_what_it_is(folder):
    path, summaries = folder
    assert summaries["regression"]["kind"] == "regression"
    assert summaries["regression"]["inputs"] == ["a", "b"]
    assert summaries["regression"]["targets"] == ["u", "v"]
    assert summaries["vae"]["inputs"] == ["x0", "x1"]
    assert all(summary["epochs"] == 2 and summary["weights"] > 0 for summary in summaries.values())
    assert not list(path.glob("*.checkpoint")), "kept for interrupted runs only"


def test_predict_by_kind_and_by_format(here, capsys):
    status, out, err = run(capsys, "predict", "regression.safetensors", "wind.csv")
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "mean_u,mean_v,covariance_u_u,covariance_u_v,covariance_v_v"
    assert len(lines) == 41
    assert run(capsys, "predict", "regression.safetensors", "wind.csv", "-o", "-")[1] == out
    assert run(capsys, "predict", "regression.safetensors", "wind.csv", "-o", "p.csv") == (
        0,
        "",
        "",
    )
    assert (here / "p.csv").read_text() == out
    assert run(capsys, "predict", "regression.safetensors", "wind.csv", "-o", "p.npz") == (
        0,
        "",
        "",
    )
    with np.load("p.npz") as results:
        assert results["covariance"].shape == (40, 2, 2)
        assert np.array_equal(
            results["mean"][:, 0], tables.read(here / "p.csv").columns(["mean_u"])[:, 0]
        )
    assert run(capsys, "predict", "spd.safetensors", "X.npy", "-o", "p.npy") == (0, "", "")
    assert np.linalg.eigvalsh(np.load("p.npy")).min() > 0


def test_scores_in_words_and_as_json(here, capsys):
    status, out, err = run(capsys, "score", "regression.safetensors", "wind.csv", "--json")
    scores = json.loads(out)
    assert (status, err) == (0, "")
    assert scores["rows"] == 40
    assert 0 <= scores["coverage_90"] <= 1
    assert (
        f"{scores['energy_score']:.4g}"
        in run(capsys, "score", "regression.safetensors", "wind.csv")[1]
    )


def test_scores_do_not_depend_on_where_the_targets_lie(here, capsys):
    model, table = mmlp.estimators.load("regression.safetensors"), tables.read(here / "wind.csv")
    model.target_ = model.target_._replace(mean=model.target_.mean + 1e9)
    model.save("far.safetensors")
    data = table.columns(["a", "b", "u", "v"]) + np.array([0, 0, 1e9, 1e9])
    tables.write(here / "far.csv", {"X": data}, ["a", "b", "u", "v"])
    near, far = (
        json.loads(run(capsys, "score", f"{name}.safetensors", f"{table}.csv", "--json")[1])
        for name, table in (("regression", "wind"), ("far", "far"))
    )
    for name in ("negative_log_likelihood", "energy_score", "coverage_90", "r2"):
        assert far[name] == pytest.approx(near[name], rel=1e-3)


def test_json_has_null_for_what_is_not_finite(here, capsys, monkeypatch):
    monkeypatch.setattr(metrics, "energy_score", lambda *_: float("nan"))
    monkeypatch.setattr(MultivariateRegressor, "log_score", lambda *_: float("-inf"))
    out = run(capsys, "score", "regression.safetensors", "wind.csv", "--json")[1]
    scores = json.loads(out, parse_constant=pytest.fail)
    assert scores["energy_score"] is None
    assert scores["negative_log_likelihood"] is None
    assert "nan" in run(capsys, "score", "regression.safetensors", "wind.csv")[1]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is full")
@pytest.mark.parametrize("buffering", [1, -1], ids=["when it is printed", "at the end"])
@pytest.mark.parametrize(
    "words", ["info spd.safetensors", "--version", "--help", "sample vae.safetensors -n 5"]
)
def test_output_that_cannot_be_written_is_one_line(words, buffering, here, capsys, monkeypatch):
    with open("/dev/full", "w", buffering=buffering) as full:
        monkeypatch.setattr(sys, "stdout", full)
        status = cli.main(words.split())
    assert status == 1
    assert (
        capsys.readouterr().err
        == "mmlp: cannot write to stdout: no space left on device; write to another place.\n"
    )


def test_samples_follow_the_seed(here, capsys):
    status, first, err = run(capsys, "sample", "vae.safetensors", "-n", "5")
    assert (status, err) == (0, "")
    assert first.splitlines()[0] == "x0,x1"
    assert len(first.splitlines()) == 6
    assert run(capsys, "sample", "vae.safetensors", "-n", "5")[1] == first
    assert run(capsys, "sample", "vae.safetensors", "-n", "5", "--seed", "1")[1] != first


@pytest.mark.slow
def test_the_other_kinds_predict_and_score(here, capsys):
    assert run(capsys, "predict", "vae.safetensors", "Xy.npz")[1].startswith(
        "log_density,latent_0,latent_1\n"
    )
    assert np.isfinite(
        json.loads(run(capsys, "score", "vae.safetensors", "X.npy", "--json")[1])["log_density"]
    )
    assert (
        json.loads(run(capsys, "score", "spd.safetensors", "spd.npz", "--json")[1])["von_neumann"]
        > 0
    )


def test_info(here, capsys):
    status, out, err = run(capsys, "info", "regression.safetensors")
    assert (status, err) == (0, "")
    assert "targets   u, v" in out
    assert (
        json.loads(run(capsys, "info", "regression.safetensors", "--json")[1])["settings"][
            "max_epochs"
        ]
        == 2
    )


def test_a_model_fitted_in_python_has_numbered_columns(here, capsys):
    model = mmlp.estimators.load("regression.safetensors")
    del model.feature_names_in_, model.target_names_
    model.save("unnamed.safetensors")
    out = run(capsys, "predict", "unnamed.safetensors", "Xy.npz")[1]
    assert out.startswith("mean_y0,mean_y1,covariance_y0_y0")
    assert run(capsys, "score", "unnamed.safetensors", "Xy.npz")[0] == 0


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
    (here / "folder.csv").mkdir()
    (here / "folder").mkdir()
    (here / "text.safetensors").write_text("hello")
    whole = (here / "regression.safetensors").read_bytes()
    (here / "cut.safetensors").write_bytes(whole[:-10])
    (here / "damaged.safetensors").write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    network = mmlp.MatrixMLP(2, 2, (3,), key=jax.random.key(0))
    mmlp.save(network, here / "network.safetensors")
    files.write(here / "state.safetensors", {}, {"kind": "run", "version": files.VERSION})
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
    ("fit vae missing.csv", "missing.csv: no such file or directory; check the spelling and the folder."),
    ("fit vae folder.csv", "folder.csv: is a directory; name a file in it."),
    ("fit vae empty.csv", "empty.csv is empty"),
    ("fit vae ragged.csv", "ragged.csv, line 3: 3 cells where there are 4 columns"),
    ("fit vae words.csv", "words.csv, line 3, column 'b': 'two' is not a number"),
    ("fit vae python.csv", "python.csv, line 3, column 'u': '1_000' is not a number; correct it"),
    ("fit vae gaps.csv", "gaps.csv, line 3, column 'u': the value is missing ('NA')"),
    ("fit vae inf.csv", "inf.csv, line 3, column 'u': 'inf' is not finite"),
    ("fit vae huge.csv", "huge.csv, line 3, column 'b': 1e+300, whose square overflows; correct it, or remove the row"),
    ("fit vae table.csv", "table.csv, line 1 holds bytes that are not UTF-8 text"),
    ("fit vae objects.npz", "objects.npz holds Python objects, which are not read"),
    ("fit vae wind.txt", "cannot read wind.txt: its name must end in .csv,"),
    ("fit vae wind.csv", "wind.csv, line 2, column 'station': 's0' is not a number; correct it, or leave"),
    ("fit vae one.csv", "one.csv: "),
    ("fit regression wind.csv --targets w", "wind.csv has no column 'w'; it has 'station', 'a', 'b', 'u', 'v'."),
    ("fit regression wind.csv --targets u,u", "the column 'u' is asked for twice"),
    ("fit regression wind.csv --targets u --ignore statoin", "wind.csv has no column 'statoin'; did you mean 'station'?"),
    ("fit regression few.csv --targets a,u,v", "few.csv has no columns left as inputs"),
    ("fit regression spd.npz", "spd.npz has no array 'y' to predict"),
    ("fit spd wind.csv", "wind.csv cannot hold matrices: they are read from an .npz with X (n, p) and Y (n, d, d)"),
    ("fit spd Xy.npz", "Xy.npz has no array 'Y' but 'X', 'y'"),
    ("fit spd negative.npz", "must be positive definite, but element (2,) has smallest eigenvalue -0.5"),
    ("fit spd late.npz --test 0.5", "late.npz: `SPDRegressor.fit(y=...)`, scaled to trace one:"),
    ("score spd.safetensors negative.npz", "negative.npz: `SPDRegressor.fit(y=...)`, scaled to trace one:"),
    ("fit vae X.npy --test 0.01", "X.npy has 40 rows, too few for --test 0.01; use another share."),
    ("fit vae X.npy -o no/such/m.safetensors", "there is no folder no/such to write m.safetensors into; make it first."),
    ("fit vae X.npy -o X.npy/m.safetensors", "there is no folder X.npy to write"),
    ("predict missing.safetensors wind.csv", "missing.safetensors: no such file or directory"),
    ("predict text.safetensors wind.csv", "text.safetensors is not a complete safetensors file"),
    ("predict cut.safetensors wind.csv", "cut.safetensors is damaged"),
    ("predict damaged.safetensors wind.csv", "damaged.safetensors is damaged: its content does not match its checksum."),
    ("predict network.safetensors wind.csv", "network.safetensors holds a network, which `mmlp.load` reads"),
    ("predict state.safetensors wind.csv", "state.safetensors holds the state of a training run, not an estimator"),
    ("predict folder wind.csv", "folder: is a directory"),
    ("predict regression.safetensors few.csv", "few.csv has no column 'b'"),
    ("predict regression.safetensors words.csv", "words.csv, line 3, column 'b'"),
    ("predict regression.safetensors X.npy", "X.npy has no column 'a'; it has 'x0', 'x1'."),
    ("predict regression.safetensors wind.csv -o wind.csv", "wind.csv would be written over the data; choose another -o."),
    ("predict regression.safetensors wind.csv -o p.npy", "p.npy can hold one array, but there are mean and covariance"),
    ("predict regression.safetensors wind.csv -o no/p.csv", "there is no folder no to write p.csv into"),
    ("predict regression.safetensors wind.csv -o folder.csv", "folder.csv: is a directory"),
    ("score regression.safetensors X.npy", "X.npy has no column 'a'"),
    ("score spd.safetensors wind.csv", "wind.csv cannot hold matrices"),
    ("sample spd.safetensors -n 5", "spd.safetensors is a model of kind spd; only those of `mmlp fit vae` can be sampled."),
    ("sample regression.safetensors -n 5", "regression.safetensors is a model of kind regression"),
    ("info network.safetensors", "network.safetensors holds a network, which `mmlp.load` reads"),
]  # fmt: skip


@pytest.mark.parametrize(("words", "message"), UNUSABLE, ids=[words for words, _ in UNUSABLE])
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
    assert sorted(path.name for path in unusable.iterdir()) == before, "nothing is written"


def test_a_file_that_may_not_be_read_or_written(here, capsys, monkeypatch):
    """Permissions do not stop the superuser, so the system's answer is made up here."""

    def refuse(path, *_, **__):
        raise PermissionError(13, "Permission denied", str(path))

    with monkeypatch.context() as patch:
        patch.setattr(tables.Path, "read_bytes", refuse)
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


def test_a_checkpoint_of_another_run_is_not_touched(here, capsys, monkeypatch):
    def refuse(*_, checkpoint, **__):
        raise AnotherRunError("`fit(checkpoint=...)`: holds another run.")

    monkeypatch.setattr(_training, "fit_many", refuse)
    status, out, err = run(capsys, "fit", "vae", "X.npy", "-o", "vae.safetensors")
    assert (status, out) == (1, "")
    assert err.startswith(
        "mmlp: vae.safetensors.checkpoint/vae keeps an unfinished training with other data or options; finish"
    )


def test_training_that_fails_is_one_line_and_leaves_no_model(here, capsys, monkeypatch):
    def fail(*_, **__):
        warnings.warn("two\nlines", RuntimeWarning, stacklevel=1)
        raise NonFiniteError("`fit_many`: the loss was not finite")

    monkeypatch.setattr(_training, "fit_many", fail)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        status, out, err = run(capsys, "fit", "vae", "X.npy", "-o", "failed.safetensors")
    assert (status, out) == (1, "")
    assert err == "mmlp: warning: two lines\nmmlp: `fit_many`: the loss was not finite\n"
    assert not (here / "failed.safetensors").exists()


def test_a_cell_far_out_is_named_by_its_line_and_its_column(here, capsys, monkeypatch):
    def fail(*_, **__):
        raise NonFiniteError("as far as this")

    for module in ("regression", "spd", "density"):
        monkeypatch.setattr(f"mmlp.estimators.{module}.train", fail)
    data = np.random.default_rng(0).normal(10, 1, (400, 3))
    data[17, 1] = 1e6
    tables.write(here / "wild.csv", {"X": data}, ["a", "b", "c"])
    np.savez(here / "wild.npz", X=data, Y=np.eye(2) * data[:, 1, None, None] ** 2)
    for words, text in (
        (
            "regression wild.csv --targets c",
            "wild.csv, line 19, column 'b': 1e+06, 2.6e+05 times as far",
        ),
        (
            "regression wild.csv --targets b",
            "wild.csv, line 19, column 'b': 1e+06, 2.6e+05 times as far",
        ),
        ("vae wild.csv --test 0.2", "wild.csv, line 19, column 'b': 1e+06, 2.6e+05 times as far"),
        ("vae wild.npz", "wild.npz, row 17 (from 0), column 'x1': 1e+06, 2.6e+05 times as far"),
        ("spd wild.npz", "wild.npz, row 17 (from 0), column 'Y[0, 0]': 1e+12, "),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            err = run(capsys, "fit", *words.split())[2]
        assert err.startswith(f"mmlp: warning: {text}")
        assert err.endswith("remove their rows.\nmmlp: as far as this\n")


def test_a_fit_that_ends_at_its_limit_is_told_by_the_option(here, capsys, monkeypatch):
    def improving(models, *_, epochs, checkpoint, **__):
        checkpoint.mkdir(parents=True)
        falling = np.linspace(1, 0, epochs)[:, None] * np.ones(5)
        return FitResult(models, {"loss": falling, "validation": falling})

    monkeypatch.setattr(_training, "fit_many", improving)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        status, _, err = run(
            capsys, "fit", "spd", "spd.npz", "-o", "limit.safetensors", "--epochs", "3"
        )
    assert status == 0
    assert err == (
        "mmlp: warning: 5 of 5 networks were still improving when training ended at its limit of 3 epochs; a larger "
        "--epochs may give a better model.\n"
    )


def test_reproduce_passes_its_options_on_and_its_status_back(capsys, monkeypatch):
    seen = []
    monkeypatch.setattr(
        commands, "reproduce", lambda *args, **given: seen.append((args, given)) or 1
    )
    words = "reproduce density radius --quick --seeds 3 --data d -o r"
    assert run(capsys, *words.split())[0] == 1
    given = {"quick": True, "seeds": 3, "data": Path("d"), "out": Path("r")}
    assert seen == [((("density", "radius"),), given)]


def test_reproduce_refuses_an_unknown_target_with_the_list(capsys):
    status, _, error = run(capsys, "reproduce", "densty")
    assert status == 2
    assert all(name in error for name in ("all", *TARGETS))


def start(folder, *words, stdout=subprocess.PIPE):
    """The command in a process of its own."""
    environment = {
        **os.environ,
        "JAX_PLATFORMS": "cpu",
        "PYTHONPATH": str(Path(mmlp.__file__).parent.parent),
    }
    command = [sys.executable, "-m", "mmlp.cli", *words]
    return subprocess.Popen(
        command, cwd=folder, env=environment, stdout=stdout, stderr=subprocess.PIPE, text=True
    )


def test_a_reader_that_leaves_early_is_no_error(tmp_path):
    """`mmlp ... | head`: the pipe is closed before anything is written to it."""
    read, write = os.pipe()
    os.close(read)
    process = start(tmp_path, "--version", stdout=write)
    os.close(write)
    assert process.communicate(timeout=300)[1] == ""
    assert process.returncode == 128 + signal.SIGPIPE


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_fit_goes_on_with_the_same_command(number, here, tmp_path):
    shutil.copy(here / "wind.csv", tmp_path)
    words = [
        "fit",
        "regression",
        "wind.csv",
        "--targets",
        "u,v",
        "--ignore",
        "station",
        "--epochs",
        "300",
    ]
    words += ["--test", "0.2", "--quiet", "--json"]
    calm = start(tmp_path, *words, "-o", "calm.safetensors")
    out, err = calm.communicate(timeout=600)
    assert (calm.returncode, err) == (0, "")
    assert json.loads(out)["test_rows"] == 8
    process = start(tmp_path, *words)
    checkpoint = tmp_path / "wind.safetensors.checkpoint"
    while not list(checkpoint.glob("**/checkpoint-*")) and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(number)
    out, err = process.communicate(timeout=600)
    assert out == ""
    assert process.returncode == (-number if number == signal.SIGKILL else 128 + number)
    assert number == signal.SIGKILL or "The same call goes on from" in err
    assert err.count("\n") == (0 if number == signal.SIGKILL else 1)
    assert checkpoint.exists()
    assert not (tmp_path / "wind.safetensors").exists()
    again = start(tmp_path, *words)
    assert again.communicate(timeout=600)[1] == ""
    assert again.returncode == 0
    assert not checkpoint.exists()
    assert content(tmp_path / "wind.safetensors") == content(tmp_path / "calm.safetensors")


def content(path):
    arrays, metadata = files.read(path)
    return {
        name: (array.dtype, array.shape, array.tobytes()) for name, array in arrays.items()
    }, metadata
