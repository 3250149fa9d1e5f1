"""The README is true: its code runs, its commands and links exist, and the demo does what it says."""

import json
import re

import pytest
from documents import ROOT, run_code

from mmlp.experiments import demo

PAGES = [
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    *(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")),
]


def test_the_code_of_the_readme_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = run_code("README.md")
    assert names["prediction"].covariance.dense().shape == (2, 2)
    assert (tmp_path / "model.safetensors").exists()


def test_the_commands_of_the_readme_are_targets_of_the_makefile():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    commands = set(
        re.findall(r"make ([a-z-]+)", "".join((ROOT / page).read_text() for page in PAGES))
    )
    assert {"help", "demo", "test"} <= commands <= targets


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)]+)\)", (ROOT / page).read_text()):
        if "://" not in target:
            assert ((ROOT / page).parent / target.partition("#")[0]).exists(), target


@pytest.mark.slow
def test_the_tour_trains_prints_tables_and_ends_in_a_page(tmp_path, capsys):
    demo.main(["--quick", "--out", str(tmp_path)])
    record = json.loads((tmp_path / "demo-covariances.json").read_text())
    constant, neighbours, cholesky, matrix = (
        row["cells"][0]["mean"] for row in record["result"]["tables"][0]["rows"]
    )
    assert 0 < matrix < constant
    assert 0 < cholesky < constant
    assert 0 < neighbours < constant
    assert all((tmp_path / f"{name}.png").stat().st_size > 10_000 for name in demo.PARTS)
    page, out = (tmp_path / "index.html").read_text(), capsys.readouterr().out
    assert "<h1>A tour of matrix-mlp</h1>" in page
    assert all(f'id="{name}"' in page for name in demo.PARTS)
    assert all(
        word in out
        for word in ("von Neumann", "energy score", "mixture of 10 Gaussians", "index.html")
    )
