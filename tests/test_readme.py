"""The README is true: its code runs, its commands and links exist, and the demo does what it says."""

import re

import pytest
from documents import ROOT, run_code

from mmlp.experiments import demo

PAGES = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", *(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))]


def test_the_code_of_the_readme_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = run_code("README.md")
    assert names["prediction"].covariance.dense().shape == (2, 2)
    assert (tmp_path / "model.safetensors").exists()


def test_the_commands_of_the_readme_are_targets_of_the_makefile():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    commands = set(re.findall(r"make ([a-z-]+)", "".join((ROOT / page).read_text() for page in PAGES)))
    assert {"help", "demo", "test"} <= commands <= targets


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)]+)\)", (ROOT / page).read_text()):
        if "://" not in target:
            assert ((ROOT / page).parent / target.partition("#")[0]).exists(), target


@pytest.mark.slow
def test_the_demo_trains_prints_a_table_and_saves_a_picture(tmp_path, capsys):
    settings = demo.Settings(train=40, validation=10, test=20, epochs=30, batch_size=20, picture=tmp_path / "demo.png")
    table = demo.main(settings)
    assert list(table) == ["constant", "neighbours", "Cholesky MLP", "matrix MLP"]
    assert all(row["von Neumann"] > 0 for row in table.values())
    assert table["matrix MLP"]["von Neumann"] < table["constant"]["von Neumann"]
    assert (tmp_path / "demo.png").stat().st_size > 10_000
    assert "von Neumann" in capsys.readouterr().out
