"""The documentation is true: its code and its examples run, and the reference is complete."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import jax
import matplotlib
import pytest
from documents import ROOT, load, run_code

import mmlp

matplotlib.use("agg")
EXAMPLES = [
    path
    for path in sorted((ROOT / "examples").glob("*.py"))
    if '__name__ == "__main__"' in path.read_text()
]
QUICK = {"numpyro_model": {"draws": 5}}  # of `main`; the others take `epochs`
OTHERWISE = {"tensorboard", "two_processes"}  # have tests of their own
each_example = pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)


@pytest.mark.slow
def test_the_code_of_the_tour_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = run_code("docs/tour.md")
    assert names["prediction"].covariance.dense().shape == (400, 2, 2)
    assert names["spd"].predict(names["X_test"]).shape == (400, 3, 3)
    assert (tmp_path / "hand.png").exists()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*(reached max_epochs|a target is missing)")
def test_the_code_for_a_scikit_learn_user_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = run_code("docs/scikit-learn.md")
    assert names["interval"].shape == (111, 3, 2)
    assert names["held"].shape == (442, 3)
    assert names["log_scores"].shape == (3,)
    assert (tmp_path / "lipids.safetensors").exists()


@pytest.mark.slow
def test_the_commands_for_a_table_and_a_deadline_run(tmp_path):
    text = (ROOT / "docs/table.md").read_text()
    blocks = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)[
        1:
    ]  # after the installation
    script = "set -e\n" + "".join(blocks).replace(
        "--report page", "--report page --epochs 2"
    )
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", "-c", script],
        cwd=tmp_path,
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    said = (
        re.search(r"```text\n(.*?)```", text, re.DOTALL)[1].replace("...\n", "").strip()
    )
    assert all(line[:80] in done.stderr for line in said.splitlines())
    assert (tmp_path / "page" / "index.html").exists()
    assert len((tmp_path / "forecast.csv").read_text().splitlines()) == 2001


@pytest.mark.slow
def test_the_code_for_a_jax_researcher_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = run_code("docs/jax.md")
    assert names["p"].batch_shape == (600,)
    assert names["baseline"].history["loss"].shape == (2, 4)
    assert (tmp_path / "head.safetensors").exists()


@pytest.mark.slow
def test_the_code_of_concepts_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = run_code("docs/concepts.md")
    assert names["network"](jax.numpy.ones(2)).dense().shape == (3, 3)
    assert names["result"].history["loss"].shape == (2,)
    assert names["vae"].decode(jax.numpy.ones(2)).mean.shape == (4,)


@pytest.mark.slow
def test_the_code_of_a_new_distribution_runs(tmp_path, monkeypatch):
    """1000 draws of shape 2.5 and eta 2: the posterior means are within 10 % of them."""
    monkeypatch.chdir(tmp_path)
    names = run_code("docs/new-distribution.md")
    assert abs(names["coverage"] - 0.9) < 5 * (0.09 / 1000) ** 0.5
    assert names["scores"]["ours"] < names["scores"]["gaussian"] - 0.05
    means = [float(names["posterior"][name].mean()) for name in ("shape", "eta")]
    assert means == pytest.approx([2.5, 2.0], rel=0.1)
    again = mmlp.load("wind.safetensors")
    assert type(again) is names["GammaRadius"]


@pytest.mark.slow
def test_the_code_of_scaling_out_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    one_machine = lambda *address, **processes: None  # noqa: E731
    monkeypatch.setattr(jax.distributed, "initialize", one_machine)
    names = run_code("docs/scaling-out.md")
    assert names["result"].history["loss"].shape == (2, 8)
    assert (tmp_path / "run").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    "path",
    [path for path in EXAMPLES if path.stem not in OTHERWISE],
    ids=lambda path: path.stem,
)
def test_an_example_runs_prints_and_draws(path, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with jax.enable_x64(False):
        load(path).main(**QUICK.get(path.stem, {"epochs": 2}))
    assert capsys.readouterr().out
    assert (tmp_path / f"{path.stem}.png").stat().st_size > 5_000


@pytest.mark.slow
def test_the_example_of_callbacks_writes_a_line_an_epoch(tmp_path):
    load(ROOT / "examples" / "tensorboard.py").main(tmp_path)
    assert len((tmp_path / "epochs.csv").read_text().splitlines()) == 31


@each_example
def test_an_example_has_a_title(path):
    source = path.read_text()
    title = (ast.get_docstring(ast.parse(source)) or "").splitlines()[0]
    assert title.endswith(".")


def test_every_example_is_in_the_gallery():
    page = (ROOT / "docs/gallery.md").read_text()
    (cards,) = re.findall(r"```{cards}\n(.*?)```", page, re.DOTALL)
    assert sorted(cards.split()) == [path.stem for path in EXAMPLES]


def test_every_public_name_is_in_the_reference():
    pages = "".join(path.read_text() for path in (ROOT / "docs/api").glob("*.md"))
    documented = re.findall(r"auto(?:class|function|exception):: mmlp\.(\S+)", pages)
    assert {*mmlp.__all__, *mmlp.estimators.__all__} - {"__version__"} <= set(
        documented
    )
    assert len(documented) == len(set(documented))
