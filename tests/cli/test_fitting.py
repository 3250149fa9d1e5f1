"""`mmlp fit`: what it writes and says, and how it goes on after an interruption."""

import json
import re
import shutil
import signal
import time
import warnings
from typing import ClassVar

import numpy as np
import pytest
from command import no_training, run, start
from sklearn.base import RegressorMixin
from sklearn.utils.validation import validate_data

from mmlp import Gram, tables
from mmlp.estimators import cross_fitting, model_files
from mmlp.estimators.base import NetworkEstimator
from mmlp.estimators.model_files import check_scaling
from mmlp.estimators.scaling import Scaling
from mmlp.serialization import files
from mmlp.training import FitResult, NonFiniteError
from mmlp.training.checkpoints import AnotherRunError, RunDirectory, lock_directory
from mmlp.training.epoch import Metrics


def test_fit_writes_a_model_and_says_what_it_is(folder):
    path, summaries = folder
    assert summaries["regression"]["kind"] == "regression"
    assert summaries["regression"]["inputs"] == ["a", "b"]
    assert summaries["regression"]["targets"] == ["u", "v"]
    assert summaries["vae"]["inputs"] == ["x0", "x1"]
    assert all(
        summary["epochs"] == 2 and summary["weights"] > 0
        for summary in summaries.values()
    )
    assert not list(path.glob("*.checkpoint")), "kept for interrupted runs only"


def test_a_checkpoint_of_another_run_is_not_touched(here, capsys, monkeypatch):
    def refuse(*_, checkpoint, **__):
        raise AnotherRunError("`fit(checkpoint=...)`: holds another run.")

    monkeypatch.setattr(cross_fitting, "fit_many", refuse)
    status, out, err = run(capsys, "fit", "vae", "X.npy", "-o", "other.safetensors")
    assert (status, out) == (1, "")
    assert err == (
        "mmlp: other.safetensors.checkpoint/vae keeps an unfinished training with other data or "
        "options; finish it with the command that began it, start anew with --overwrite, or choose "
        "another -o.\n"
    )


class Training:
    """In place of `fit_many`: a run with real checkpoints that is interrupted if one says so."""

    def __init__(self):
        self.interrupted, self.started_at = True, []

    def __call__(self, models, *_, epochs, checkpoint, **__):
        with RunDirectory(
            checkpoint, {"epochs": epochs, "patience": None}
        ) as directory:
            newest = directory.read_newest()
            self.started_at.append(newest[1]["epoch"] if newest else 0)
            column = np.zeros((1, 5))
            metrics = Metrics(
                column, column, column.astype(int), column, column.astype(bool)
            )
            directory.write({"weight": np.ones(1)}, metrics, {}, finished=False)
            if self.interrupted:
                raise KeyboardInterrupt
        return FitResult(models, {"loss": np.zeros((epochs, 5))})


def test_overwrite_starts_anew_after_an_interrupted_fit_with_other_settings(
    here, tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    shutil.copy(here / "X.npy", tmp_path)
    training = Training()
    monkeypatch.setattr(cross_fitting, "fit_many", training)
    words = ("fit", "vae", "X.npy", "-o", "m.safetensors", "--quiet", "--epochs")
    assert run(capsys, *words, "7")[0] == 130
    training.interrupted = False
    status, _, err = run(capsys, *words, "5")
    assert status == 1
    assert (
        "finish it with the command that began it, start anew with --overwrite" in err
    )
    assert run(capsys, *words, "5", "--overwrite")[0] == 0
    assert training.started_at == [0, 0]
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "X.npy",
        "m.safetensors",
    ]


def test_overwrite_leaves_a_training_in_another_process_alone(
    here, tmp_path, capsys, monkeypatch
):
    """A regressor trains several runs in turn, so that no single one is in use all the time."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(here / "X.npy", tmp_path)
    training = Training()
    monkeypatch.setattr(cross_fitting, "fit_many", training)
    words = ("fit", "vae", "X.npy", "-o", "m.safetensors", "--quiet", "--epochs")
    assert run(capsys, *words, "7")[0] == 130
    folder = tmp_path / "m.safetensors.checkpoint"
    kept = sorted(folder.rglob("checkpoint-*"))
    training.interrupted = False
    with lock_directory(folder):  # as the other process does
        status, _, err = run(capsys, *words, "5", "--overwrite")
    assert status == 1
    assert err.startswith("mmlp: m.safetensors.checkpoint is in use by another run;")
    assert "-o" in err
    assert sorted(folder.rglob("checkpoint-*")) == kept


def test_a_checkpoint_that_cannot_be_kept_is_told(here, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(cross_fitting, "fit_many", Training())
    (tmp_path / "m.safetensors.checkpoint").touch()
    status, out, err = run(
        capsys, "fit", "vae", "X.npy", "-o", tmp_path / "m.safetensors"
    )
    assert (status, out) == (1, "")
    assert f"{tmp_path / 'm.safetensors.checkpoint'} (file exists)" in err
    assert err.count("\n") == 1


def test_overwrite_resumes_an_interrupted_fit_with_the_same_settings(
    here, tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    shutil.copy(here / "X.npy", tmp_path)
    training = Training()
    monkeypatch.setattr(cross_fitting, "fit_many", training)
    words = ("fit", "vae", "X.npy", "-o", "m.safetensors", "--quiet", "--epochs", "7")
    assert run(capsys, *words, "--overwrite")[0] == 130
    training.interrupted = False
    assert run(capsys, *words, "--overwrite")[0] == 0
    assert training.started_at == [0, 1]


def test_overwrite_starts_anew_where_a_checkpoint_cannot_be_used(
    here, tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    shutil.copy(here / "X.npy", tmp_path)
    training = Training()
    training.interrupted = False
    monkeypatch.setattr(cross_fitting, "fit_many", training)
    folder = tmp_path / "m.safetensors.checkpoint" / "vae"
    folder.mkdir(parents=True)
    files.write(
        folder / "checkpoint-00000003.safetensors", {}, {"kind": "run", "version": 1}
    )
    words = ("fit", "vae", "X.npy", "-o", "m.safetensors", "--quiet", "--epochs", "7")
    status, _, err = run(capsys, *words)
    assert status == 1
    assert "checkpoint-00000003.safetensors has format version 1" in err
    assert "--overwrite" in err
    assert run(capsys, *words, "--overwrite")[0] == 0
    assert not folder.exists()


@pytest.mark.slow
def test_names_of_columns_do_not_control_the_terminal(
    here, tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr(cross_fitting, "fit_many", no_training)
    lines = (here / "wind.csv").read_text().splitlines()
    data = tmp_path / "wind.csv"
    data.write_text("\n".join(["sta\x1b[2Jtion,a,b,u,v", *lines[1:]]))
    out = ("-o", tmp_path / "wind.safetensors", "--epochs", "2")
    status, out, err = run(capsys, "fit", "regression", data, "--targets", "u,v", *out)
    assert status == 0
    assert r"text      sta\x1b[2Jtion (3 levels)" in err
    assert "\x1b" not in out + err


def test_training_that_fails_is_one_line_and_leaves_no_model(here, capsys, monkeypatch):
    def fail(*_, **__):
        warnings.warn("two\nlines", RuntimeWarning, stacklevel=1)
        raise NonFiniteError("the loss was not finite", call="fit_many")

    monkeypatch.setattr(cross_fitting, "fit_many", fail)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        status, out, err = run(
            capsys, "fit", "vae", "X.npy", "-o", "failed.safetensors"
        )
    assert (status, out) == (1, "")
    warning, error = err.splitlines()
    assert warning == "mmlp: warning: two lines"
    assert error.startswith("mmlp: the loss was not finite;")
    assert not (here / "failed.safetensors").exists()


@pytest.mark.slow
def test_a_cell_far_out_is_named_by_its_line_and_its_column(here, capsys, monkeypatch):
    def fail(*_, **__):
        raise NonFiniteError("as far as this")

    monkeypatch.setattr(cross_fitting, "fit_many", fail)
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
        (
            "vae wild.csv --test 0.2",
            "wild.csv, line 19, column 'b': 1e+06, 2.6e+05 times as far",
        ),
        (
            "vae wild.npz",
            "wild.npz, row 17 (from 0), column 'x1': 1e+06, 2.6e+05 times as far",
        ),
        ("spd wild.npz", "wild.npz, row 17 (from 0), column 'Y[0, 0]': 1e+12, "),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            err = run(capsys, "fit", *words.split())[2]
        assert err.startswith(f"mmlp: warning: {text}")
        warning, error = err.splitlines()
        assert warning.endswith("remove their rows.")
        assert error.startswith("mmlp: as far as this;")


@pytest.mark.slow
def test_a_constant_target_is_named_and_has_no_variance(here, capsys, monkeypatch):
    monkeypatch.setattr(cross_fitting, "fit_many", no_training)
    data = np.random.default_rng(0).normal(size=(40, 4))
    data[:, 2] = 4.5
    tables.write(here / "fixed.csv", {"X": data}, ["a", "u", "k", "v"])
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        words = "fit regression fixed.csv --targets u,k,v --epochs 2 --quiet"
        status, _, err = run(capsys, *words.split())
    assert status == 0
    assert err.startswith("mmlp: warning: target 'k' is constant, 4.5, and is kept out")
    status, out, _ = run(capsys, "predict", "fixed.safetensors", "fixed.csv")
    names, *lines = (line.split(",") for line in out.splitlines())
    for line in lines:
        row = dict(zip(names, map(float, line), strict=True))
        assert row["mean_k"] == 4.5
        assert [
            row[name] for name in names if name.startswith("cov") and "_k" in name
        ] == [0.0] * 3
        assert row["covariance_u_u"] > 0
    data[0, 2] = 5.0
    tables.write(here / "other.csv", {"X": data}, ["a", "u", "k", "v"])
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        status, out, err = run(capsys, "score", "fixed.safetensors", "other.csv")
    assert status == 0
    assert err.count("warning") == 1
    assert "1 of 40 rows differ from the constant" in err
    assert "target 'k'" in err


def test_a_fit_that_ends_at_its_limit_is_told_by_the_option(here, capsys, monkeypatch):
    def improving(models, *_, epochs, checkpoint, **__):
        checkpoint.mkdir(parents=True)
        falling = np.linspace(1, 0, epochs)[:, None] * np.ones(5)
        return FitResult(models, {"loss": falling, "validation": falling})

    monkeypatch.setattr(cross_fitting, "fit_many", improving)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        status, _, err = run(
            capsys, "fit", "spd", "spd.npz", "-o", "limit.safetensors", "--epochs", "3"
        )
    assert status == 0
    assert err == (
        "mmlp: warning: 5 of 5 networks were still improving when training ended at its limit of 3 "
        "epochs; a larger --epochs may give a better model.\n"
    )


def averages():
    """A new estimator: its own class, and nothing else."""

    class Averages(RegressorMixin, NetworkEstimator):
        """Predict the averages of the targets."""

        kind, targets = "averages", "columns"
        _fitted_attributes = ("input_", "target_", "history_")

        def __init__(self, max_epochs=7, random_state=None, dtype="float32", verbose=0):
            self.max_epochs, self.random_state = max_epochs, random_state
            self.dtype, self.verbose = dtype, verbose
            self.batch_size, self.learning_rate, self.patience = 1, 1.0, None

        def fit(self, X, y, *, checkpoint=None):
            X, y = validate_data(self, X, y, multi_output=True)
            self.input_, self.target_ = (
                Scaling.of(values, np.ones(len(X))) for values in (X, y)
            )
            self.models_, self.history_ = Gram(np.eye(2)), {"loss": np.zeros(1)}
            return self

        def predict(self, X):
            return self.target_.back(np.zeros((len(X), self.n_targets)))

        def scores(self, X, y=None):
            return {"error": float(np.abs(y - self.predict(X)).mean())}

        results: ClassVar = {"mean": predict}

        @property
        def n_targets(self):
            return len(self.target_.scale)

        def _check_fitted(self):
            check_scaling(self.target_, "target_", self.n_targets)

    return Averages


def test_a_new_estimator_is_known_to_every_command(here, capsys, monkeypatch):
    monkeypatch.setattr(model_files, "CLASSES", dict(model_files.CLASSES))
    averages()
    words = "wind.csv --targets u,v --ignore station --test 0.2 -o averages.safetensors --json"
    out = json.loads(run(capsys, "fit", "averages", *words.split())[1])
    assert (out["kind"], out["targets"], out["test_rows"]) == (
        "averages",
        ["u", "v"],
        8,
    )
    assert out["test_error"] > 0
    for command in ("predict", "score"):
        status, out, err = run(capsys, command, "averages.safetensors", "wind.csv")
        assert (status, err) == (0, "")
        assert out.startswith("mean_u,mean_v\n" if command == "predict" else "model")
    assert "averages" in run(capsys, "info", "averages.safetensors")[1]
    assert run(capsys, "sample", "averages.safetensors", "-n", "5")[0] == 1
    text = run(capsys, "fit", "averages", "--help")[1]
    assert "Predict the averages" in text
    assert "(default: 7)" in text


WORDS = (
    "fit regression wind.csv --targets u,v --ignore station --epochs 300 --models 2"
    " --test 0.2 --quiet --json"
).split()


@pytest.fixture(scope="module")
def undisturbed(folder, tmp_path_factory):
    """The content of the model of a fit that nothing interrupts."""
    path = tmp_path_factory.mktemp("undisturbed")
    shutil.copy(folder[0] / "wind.csv", path)
    process = start(path, *WORDS)
    out, err = process.communicate(timeout=600)
    assert (process.returncode, err) == (0, "")
    assert json.loads(out)["test_rows"] == 8
    return content(path / "wind.safetensors")


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_fit_goes_on_with_the_same_command(
    number, here, tmp_path, undisturbed
):
    shutil.copy(here / "wind.csv", tmp_path)
    process = start(tmp_path, *WORDS)
    checkpoint = tmp_path / "wind.safetensors.checkpoint"
    while not list(checkpoint.glob("**/checkpoint-*")) and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(number)
    out, err = process.communicate(timeout=600)
    assert out == ""
    assert process.returncode == (-number if number == signal.SIGKILL else 128 + number)
    assert number == signal.SIGKILL or re.search(
        r"The same( call or)? command resumes from", err
    )
    assert err.count("\n") == (0 if number == signal.SIGKILL else 1)
    assert checkpoint.exists()
    assert not (tmp_path / "wind.safetensors").exists()
    again = start(tmp_path, *WORDS)
    assert again.communicate(timeout=600)[1] == ""
    assert again.returncode == 0
    assert not checkpoint.exists()
    assert content(tmp_path / "wind.safetensors") == undisturbed


def content(path):
    arrays, metadata = files.read(path)
    return {
        name: (array.dtype, array.shape, array.tobytes())
        for name, array in arrays.items()
    }, metadata


@pytest.mark.slow
def test_report_is_about_the_rows_of_the_test_and_baselines_learn_from_the_others(
    here, capsys, monkeypatch
):
    monkeypatch.setattr(cross_fitting, "fit_many", no_training)
    words = "fit regression wind.csv --targets u,v --ignore station --epochs 2 --quiet --json"
    status, out, _ = run(
        capsys, *words.split(), *"-o told.safetensors --test 0.5 --report".split()
    )
    assert status == 0
    assert json.loads(out)["report"] == "told-report/index.html"
    page = (here / "told-report/index.html").read_text()
    assert "20 rows. Baselines were fitted to 20 training rows" in page
    lines = {int(line) for line in re.findall('<th scope="row">line ([0-9]+)', page)}
    assert len(lines) == 10
    assert max(lines) <= 41
