"""The README is short and true: code, commands, links and figures, and what the demo does."""

import json
import re

import numpy as np
import pytest
from documents import ROOT, run_code

from mmlp.experiments import demo

README = (ROOT / "README.md").read_text()
PAGES = [
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    *(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")),
]


def test_the_readme_has_at_most_600_words():
    assert len(README.split()) <= 600


def test_the_code_of_the_readme_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = run_code("README.md")
    assert names["mean"].shape == (200, 2)
    assert names["covariance"].shape == (200, 2, 2)
    assert np.all(np.linalg.eigvalsh(names["covariance"]) > 0)
    assert names["prediction"].covariance.dense().shape == (2, 2)
    assert (tmp_path / "model.safetensors").exists()


def measured(name):
    return json.loads((ROOT / "results" / f"{name}.json").read_text())


def cells(table, name, group=None):
    """The cells of the row with this name, in this group of the table."""
    rows, here = table["rows"], group is None
    for row in rows:
        here = row["group"] == group if group and "group" in row else here
        if here and row.get("name") == name:
            return row["cells"]
    raise KeyError(name)


def test_the_figures_of_the_readme_stand_in_the_results():
    """Row by row, as the table has them: mean and standard error, rounded as they are written."""
    turning, *_, duel = measured("example1")["result"]["tables"]
    of_20 = cells(duel, "turning, d0 = 20")
    energy = measured("regression")["enb"]
    five = measured("frey")["result"]["tables"][0]

    def on_energy(method):
        values = [split["nll"] for split in energy[method]]
        return {"mean": np.mean(values), "error": np.std(values, ddof=1) / len(values) ** 0.5}

    def on_frey(name, group):
        cell = cells(five, name, group)[-1]
        return {**cell, "mean": -cell["mean"]}

    group = "d0 = 20, n = 100"
    expected = [
        [of_20[0], on_energy("MultivariateRegressor"), on_frey("EfNf", "matrix MLP, joint")],
        [of_20[1], on_energy("the same, CholeskyMLP"), on_frey("NfNf", "Cholesky MLP, 2 x 100")],
        [
            cells(turning, "5 nearest neighbours", group)[1],
            on_energy("NGBoost multivariate normal"),
            on_frey("Gaussian mixture", "simple densities"),
        ],
        [
            cells(turning, "the paper's recipe, QRE", group)[1],
            None,
            on_frey("EfNf", "the paper's recipe"),
        ],
    ]
    rows = [line.split("|")[2:-1] for line in README.splitlines() if line.startswith("| ")][1:]
    assert len(rows) == len(expected)
    for row, wanted in zip(rows, expected, strict=True):
        for text, cell in zip(row, wanted, strict=True):
            written = re.findall(r"[\d.]+(?:e-\d)?", text)
            assert len(written) == (0 if cell is None else 2), text
            for figure, key in zip(written, ("mean", "error"), strict=False):
                unit = 10.0 ** -len(figure.partition("e")[0].partition(".")[2])
                unit *= float(f"1e{figure.partition('e')[2] or 0}")
                assert abs(float(figure) - cell[key]) <= 0.51 * unit, (text, cell)


def test_the_commands_of_the_readme_are_targets_of_the_makefile():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    pages = "".join((ROOT / page).read_text() for page in PAGES)
    commands = set(re.findall(r"`make ([a-z-]+)|^make ([a-z-]+)", pages, re.MULTILINE))
    commands = {name for names in commands for name in names if name}
    assert {"help", "demo", "test", "docs"} <= commands <= targets


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)]+)\)", (ROOT / page).read_text()):
        if "://" not in target:
            assert ((ROOT / page).parent / target.partition("#")[0]).exists(), target


@pytest.mark.parametrize("page", [page for page in PAGES if page != "CHANGELOG.md"])
def test_files_and_tests_that_a_page_names_exist(page):
    """Paths from the root of the repository in backticks, and names of tests."""
    text = (ROOT / page).read_text()
    for path in re.findall(r"(?:mmlp|tests|benchmarks|examples|results|docs)/[\w./-]*\w", text):
        assert "NAME" in path or (ROOT / path).exists(), path
    tests = "".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    for name in re.findall(r"`(test_\w+)`", text):
        assert f"def {name}(" in tests, name


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
    words = ("von Neumann", "energy score", "mixture of 10 Gaussians", "index.html")
    assert all(word in out for word in words)
