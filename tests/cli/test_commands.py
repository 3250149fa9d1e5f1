"""`mmlp predict`, `score`, `sample`, and `info`."""

import json
import os
import shutil
import signal
import sys

import equinox as eqx
import jax
import numpy as np
import pytest
from command import no_training, run, start, without_jax

import mmlp
from mmlp import cli, metrics, tables
from mmlp.cli import commands
from mmlp.estimators import MultivariateRegressor, base, cross_fitting
from mmlp.serialization import files


def test_predict_by_kind_and_by_format(here, capsys):
    status, out, err = run(capsys, "predict", "regression.safetensors", "wind.csv")
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "mean_u,mean_v,covariance_u_u,covariance_u_v,covariance_v_v"
    assert len(lines) == 41
    assert (
        run(capsys, "predict", "regression.safetensors", "wind.csv", "-o", "-")[1]
        == out
    )
    assert run(
        capsys, "predict", "regression.safetensors", "wind.csv", "-o", "p.csv"
    ) == (
        0,
        "",
        "",
    )
    assert (here / "p.csv").read_text() == out
    assert run(
        capsys, "predict", "regression.safetensors", "wind.csv", "-o", "p.npz"
    ) == (
        0,
        "",
        "",
    )
    with np.load("p.npz") as results:
        assert results["covariance"].shape == (40, 2, 2)
        assert np.array_equal(
            results["mean"][:, 0],
            tables.read(here / "p.csv").select_columns(["mean_u"])[:, 0],
        )
    assert run(capsys, "predict", "spd.safetensors", "X.npy", "-o", "p.npy") == (
        0,
        "",
        "",
    )
    assert np.linalg.eigvalsh(np.load("p.npy")).min() > 0


def test_predictions_in_pieces_are_those_in_one(here, capsys, monkeypatch):
    words = ("predict", "regression.safetensors", "wind.csv")
    whole = run(capsys, *words)[1]
    monkeypatch.setattr(base, "ROWS_PER_RESULT", 16)
    assert run(capsys, *words)[1] == whole
    assert run(capsys, *words, "-o", "pieces.npz") == (0, "", "")
    with np.load("pieces.npz") as results:
        assert results["covariance"].shape == (40, 2, 2)


def test_a_row_that_cannot_be_used_is_told_before_any_is_written(
    here, capsys, monkeypatch
):
    monkeypatch.setattr(base, "ROWS_PER_RESULT", 16)
    X = np.load("X.npy")
    X[30, 1] = 1e30
    np.save("far.npy", X)
    status, out, err = run(capsys, "predict", "spd.safetensors", "far.npy")
    assert (status, out) == (1, "")
    assert "far.npy, row 30 (from 0), column 'x1' is" in err


@pytest.mark.parametrize("terminal", [True, False])
def test_a_bar_is_shown_on_a_terminal_where_rows_take_long(
    terminal, monkeypatch, capsys
):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal, raising=False)
    monkeypatch.setattr(commands, "SECONDS_BEFORE_PROGRESS_BAR", 0)
    pieces = [{"mean": np.ones(3)}, {"mean": np.ones(2)}]
    assert len(list(commands.show_progress(pieces, 5))) == 2
    assert ("/5.00 [" in capsys.readouterr().err) == terminal


@pytest.mark.slow
def test_a_covariance_of_low_rank_is_predicted_by_its_parts(here, capsys, monkeypatch):
    monkeypatch.setattr(cross_fitting, "fit_many", no_training)
    data = "fit regression wind.csv --targets u,v --ignore station --epochs 2 --quiet"
    form = "--covariance low_rank --rank 1 -o thin.safetensors"
    assert run(capsys, *data.split(), *form.split())[0] == 0
    out = run(capsys, "predict", "thin.safetensors", "wind.csv")[1]
    assert out.splitlines()[0] == "mean_u,mean_v,std_u,std_v"
    assert run(capsys, "predict", "thin.safetensors", "wind.csv", "-o", "t.npz") == (
        0,
        "",
        "",
    )
    with np.load("t.npz") as results:
        assert set(results) == {"mean", "std", "scale", "loadings"}
        scale, U = results["scale"], results["loadings"]
        np.testing.assert_allclose(results["std"] ** 2, scale**2 + np.sum(U**2, axis=1))
    err = run(capsys, "predict", "thin.safetensors", "wind.csv", "-o", "t.npy")[2]
    assert "there are mean and std and scale and loadings; use .npz" in err
    assert json.loads(run(capsys, "info", "thin.safetensors", "--json")[1])["rank"] == 1
    assert "rank" not in json.loads(
        run(capsys, "info", "regression.safetensors", "--json")[1]
    )
    V = U.mT @ U + np.eye(2) * (scale**2)[:, None]
    model, X = mmlp.estimators.load("thin.safetensors"), tables.read(here / "wind.csv")
    del model.feature_names_in_
    np.testing.assert_allclose(
        model.predict_covariance(X.select_columns(["a", "b"])), V
    )
    status, out, _ = run(capsys, "score", "thin.safetensors", "wind.csv", "--json")
    assert status == 0
    assert np.isfinite(json.loads(out)["energy_score"])


def test_scores_in_words_and_as_json(here, capsys):
    status, out, err = run(
        capsys, "score", "regression.safetensors", "wind.csv", "--json"
    )
    scores = json.loads(out)
    assert (status, err) == (0, "")
    assert scores["rows"] == 40
    assert 0 <= scores["coverage_90"] <= 1
    assert (
        f"{scores['energy_score']:.4g}"
        in run(capsys, "score", "regression.safetensors", "wind.csv")[1]
    )


def test_scores_do_not_depend_on_where_the_targets_lie(here, capsys):
    model, table = (
        mmlp.estimators.load("regression.safetensors"),
        tables.read(here / "wind.csv"),
    )
    model.target_ = model.target_._replace(mean=model.target_.mean + 1e9)
    model.save("far.safetensors")
    data = table.read_numbers(["a", "b", "u", "v"])[0] + np.array([0, 0, 1e9, 1e9])
    tables.write(here / "far.csv", {"X": data}, ["a", "b", "u", "v"])
    near, far = (
        json.loads(
            run(capsys, "score", f"{name}.safetensors", f"{table}.csv", "--json")[1]
        )
        for name, table in (("regression", "wind"), ("far", "far"))
    )
    for name in ("negative_log_likelihood", "energy_score", "coverage_90", "r2"):
        assert far[name] == pytest.approx(near[name], rel=1e-3)


def test_json_has_null_for_what_is_not_finite(here, capsys, monkeypatch):
    monkeypatch.setattr(metrics, "energy_score", lambda *_: float("nan"))
    densities = np.array([-np.inf])
    monkeypatch.setattr(MultivariateRegressor, "_log_densities", lambda *_: densities)
    out = run(capsys, "score", "regression.safetensors", "wind.csv", "--json")[1]
    scores = json.loads(out, parse_constant=pytest.fail)
    assert scores["energy_score"] is None
    assert scores["negative_log_likelihood"] is None
    assert "nan" in run(capsys, "score", "regression.safetensors", "wind.csv")[1]


@pytest.mark.skipif(
    not os.path.exists("/dev/full"), reason="needs a device that is full"
)
@pytest.mark.parametrize("buffering", [1, -1], ids=["when it is printed", "at the end"])
@pytest.mark.parametrize(
    "words",
    ["info spd.safetensors", "--version", "--help", "sample vae.safetensors -n 5"],
)
def test_output_that_cannot_be_written_is_one_line(
    words, buffering, here, capsys, monkeypatch
):
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
    assert (
        run(capsys, "sample", "vae.safetensors", "-n", "5", "--seed", "1")[1] != first
    )


@pytest.mark.slow
def test_the_other_kinds_predict_and_score(here, capsys):
    assert run(capsys, "predict", "vae.safetensors", "Xy.npz")[1].startswith(
        "log_density,latent_0,latent_1\n"
    )
    assert np.isfinite(
        json.loads(run(capsys, "score", "vae.safetensors", "X.npy", "--json")[1])[
            "log_density"
        ]
    )
    assert (
        json.loads(run(capsys, "score", "spd.safetensors", "spd.npz", "--json")[1])[
            "von_neumann"
        ]
        > 0
    )


def test_info(folder, here, capsys):
    status, out, err = run(capsys, "info", "regression.safetensors")
    assert (status, err) == (0, "")
    assert "targets   u, v" in out
    for kind, summary in folder[1].items():
        model, path = mmlp.estimators.load(f"{kind}.safetensors"), f"{kind}.safetensors"
        about = json.loads(run(capsys, "info", path, "--json")[1])
        assert about == summary
        assert about["kind"] == model.kind
        sizes = [x.size for x in jax.tree.leaves(model.models_) if eqx.is_array(x)]
        assert about["weights"] == sum(sizes)
        settings = model.get_params()
        assert about["settings"].items() <= json.loads(json.dumps(settings)).items()
        assert settings.keys() - about["settings"].keys() == {"verbose", "warm_start"}


def test_info_needs_no_jax(here):
    status, out, err = without_jax("info", "regression.safetensors", folder=here)
    assert (status, err) == (0, "")
    assert "targets   u, v" in out


def test_info_of_a_file_from_before_it_told_of_itself(here, capsys):
    arrays, metadata = files.read(here / "spd.safetensors")
    files.write(here / "old.safetensors", arrays, {**metadata, "about": "nonsense"})
    status, _, err = run(capsys, "info", "old.safetensors")
    assert status == 1
    assert "old.safetensors is damaged: its header makes no sense" in err
    del metadata["about"]
    files.write(here / "old.safetensors", arrays, metadata)
    about = run(capsys, "info", "spd.safetensors", "--json")[1].replace(
        "spd.saf", "old.saf"
    )
    assert run(capsys, "info", "old.safetensors", "--json") == (0, about, "")


def test_a_model_fitted_in_python_has_numbered_columns(here, capsys):
    model = mmlp.estimators.load("regression.safetensors")
    del model.feature_names_in_, model.target_names_
    model.save("unnamed.safetensors")
    out = run(capsys, "predict", "unnamed.safetensors", "Xy.npz")[1]
    assert out.startswith("mean_y0,mean_y1,covariance_y0_y0")
    assert run(capsys, "score", "unnamed.safetensors", "Xy.npz")[0] == 0


def test_a_reader_that_leaves_early_is_no_error(tmp_path):
    """`mmlp ... | head`: the pipe is closed before anything is written to it."""
    read, write = os.pipe()
    os.close(read)
    process = start(tmp_path, "--version", stdout=write)
    os.close(write)
    assert process.communicate(timeout=300)[1] == ""
    assert process.returncode == 128 + signal.SIGPIPE


def test_report_writes_a_page_beside_and_names_it(here, capsys):
    status, out, err = run(
        capsys, "report", "regression.safetensors", "wind.csv", "--quiet"
    )
    assert (status, out, err) == (0, "regression-report/index.html\n", "")
    page = (here / out.strip()).read_text()
    assert "<h1>regression.safetensors on wind.csv</h1>" in page
    assert '<th scope="row">line ' in page  # the worst rows
    assert "2 inputs (a, b), 2 targets (u, v)" in page


@pytest.mark.skipif(os.name != "posix", reason="makes links")
def test_no_command_writes_over_what_it_reads(here, tmp_path, capsys):
    data, model = tmp_path / "wind.csv", tmp_path / "model.safetensors"
    shutil.copy(here / "wind.csv", data)
    shutil.copy(here / "regression.safetensors", model)
    before = data.read_bytes(), model.read_bytes()
    results, other_model = tmp_path / "results.csv", tmp_path / "other.safetensors"
    results.symlink_to(model)
    other_model.symlink_to(data)
    fit = ("fit", "regression", data, "--targets", "u,v", "--overwrite")
    for out, source, *words in (
        (data, "data", "predict", model, data),
        (results, "model", "predict", model, data),
        (other_model, "data", *fit),
    ):
        status, printed, err = run(capsys, *words, "-o", out)
        assert (status, printed) == (1, "")
        assert (
            err
            == f"mmlp: {out} would be written over the {source}; choose another -o.\n"
        )
    assert (data.read_bytes(), model.read_bytes()) == before
