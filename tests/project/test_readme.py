"""The README is true: code, commands, links and figures, and what the demo does."""

import json
import re

import numpy as np
import pytest
from documents import ROOT, run_code

from mmlp.demo import tour

PAGES = [
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    *(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")),
]


@pytest.mark.slow
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


TURNING, LINEAR, DUEL = measured("example1")["result"]["tables"]
PLAIN = measured("example1-mlp")["result"]["tables"][:2]
FREY = measured("frey")["result"]["tables"][0]
RECIPE, JOINT, WIDE = "the paper's recipe", "matrix MLP, joint", "Cholesky MLP, 2 x 100"
NAMES = ("enb", "jura")


def cells(table, name, group=None):
    """The cells of the row with this name, in this group of the table."""
    here = group is None
    for row in table["rows"]:
        here = row["group"] == group if group and "group" in row else here
        if here and row.get("name") == name:
            return row["cells"]
    raise KeyError(name)


CASES = [(setting, d) for setting in ("turning", "linear") for d in (10, 20)]


def divergences(name, tables=(TURNING, LINEAR)):
    """Of a method of Example 1, 5 seeds: 10 x 10 and 20 x 20 of both settings."""
    return [cells(t, name, f"d0 = {d}, n = 100")[1] for t in tables for d in (10, 20)]


def duels(column):
    """The same over 20 seeds, by the column of the table."""
    return [cells(DUEL, f"{setting}, d0 = {d}")[column] for setting, d in CASES]


def scores(method):
    """Negative log-likelihoods on both tables."""
    values = [
        np.array([split["nll"] for split in measured("regression")[t][method]])
        for t in NAMES
    ]
    return [{"mean": x.mean(), "error": x.std(ddof=1) / len(x) ** 0.5} for x in values]


def written(page):
    """The rows of the tables of a page: label -> for each cell its figures, as they are written."""
    lines = [
        line for line in (ROOT / page).read_text().splitlines() if line.startswith("| ")
    ]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {
        label: [re.findall(r"[\d.]+(?:e-\d)?", cell) for cell in rest]
        for label, *rest in rows
    }


def assert_figures(figures, expected):
    """Mean and error of each cell, rounded as they are written; signs are left out."""
    for texts, cell in zip(figures, expected, strict=True):
        for text, key in zip(texts[:2], ("mean", "error"), strict=False):
            digits, _, exponent = text.partition("e")
            unit = 10.0 ** (int(exponent or 0) - len(digits.partition(".")[2]))
            assert abs(float(text) - abs(cell[key])) <= 0.501 * unit, (texts, cell)


def test_the_figures_of_the_readme_stand_in_the_results():
    rows = written("README.md")
    joint, cholesky, others, paper = (
        rows[name]
        for name in (
            "**matrix MLP**",
            "MLP with a Cholesky factor",
            "nearest neighbours, NGBoost, spline flow",
            RECIPE,
        )
    )
    assert all(
        len(cell) == 2 for cell in [*joint, *cholesky, *others, paper[0], paper[2]]
    )
    iw = [
        cells(FREY, *row)[-1]
        for row in [
            ("EfNf", "matrix MLP, joint"),
            ("EfNf", "Cholesky MLP, 2 x 100"),
            ("neural spline flow", "simple densities"),
            ("EfNf", RECIPE),
        ]
    ]
    assert_figures(joint, [duels(0)[1], scores("MultivariateRegressor")[0], iw[0]])
    assert_figures(cholesky, [duels(1)[1], scores("the same, CholeskyMLP")[0], iw[1]])
    neighbours = divergences("5 nearest neighbours")[1]
    assert_figures(
        others, [neighbours, scores("NGBoost multivariate normal")[0], iw[2]]
    )
    assert_figures(paper, [divergences("the paper's recipe, QRE")[1], {}, iw[3]])


def test_the_figures_of_the_page_of_results_stand_in_the_results():
    rows = written("docs/results.md")
    expected = {
        "the paper's recipe, 3 x 20 (5 seeds)": divergences("the paper's recipe, QRE"),
        "the paper's MLP, 3 x 400, quadratic loss (5 seeds)": divergences(
            "the paper's MLP 3 x 400, quad", PLAIN
        ),
        "5 nearest neighbours (5 seeds)": divergences("5 nearest neighbours"),
        "`CholeskyMLP` (20 seeds)": duels(1),
        "`JointMatrixMLP` (20 seeds)": duels(0),
        "noise floor (5 seeds)": divergences("noise floor"),
        "`MultivariateRegressor`": scores("MultivariateRegressor"),
        'the same with `network="cholesky"`': scores("the same, CholeskyMLP"),
        "NGBoost, multivariate normal": scores("NGBoost multivariate normal"),
        "Gaussian processes, one covariance": scores("Gaussian processes"),
        "linear regression, one covariance": scores("linear regression"),
    }
    for label, figures in expected.items():
        assert_figures(rows[label], figures)
    groups = {
        "the paper's recipe *": ("EfNf", RECIPE),
        "one Gaussian": ("one Gaussian", "simple densities"),
        "Gaussian mixture, chosen by validation": (
            "Gaussian mixture",
            "simple densities",
        ),
        "`MatrixMLP`, 3 x 30, our recipe *": ("EfNf", "matrix MLP"),
        "`CholeskyMLP`, 3 x 30, our recipe": ("EfNf", "Cholesky MLP"),
        "`CholeskyMLP`, 2 x 100, our recipe": ("EfNf", "Cholesky MLP, 2 x 100"),
        "neural spline flow": ("neural spline flow", "simple densities"),
        "`JointMatrixMLP`, 2 x 16 and a vector path of 2 x 100": (
            "EfNf",
            "matrix MLP, joint",
        ),
    }
    for label, row in groups.items():
        _, kld, _, iw = cells(FREY, *row)
        assert_figures(rows[label], [kld, iw])
    for (setting, d), *compared in zip(
        CASES, duels(0), duels(1), duels(2), strict=True
    ):
        name = "that turn" if setting == "turning" else "with linear factors"
        assert_figures(rows[f"covariances {name}, {d} x {d}"][:3], compared)
    for name, table in (("energy data", 0), ("Jura", 1)):
        both = [
            scores(who)[table]
            for who in ("MultivariateRegressor", "the same, CholeskyMLP")
        ]
        assert_figures(rows[f"regression, {name}"][:2], both)
    for k, table in zip((5, 8), measured("frey")["result"]["tables"], strict=True):
        both = [cells(table, "EfNf", group)[-1] for group in (JOINT, WIDE)]
        assert_figures(rows[f"Frey faces, {k} latent variables"][:2], both)
    ours, rivals, _ = measured("frey-pixels")["result"]["tables"]
    pixels = {
        "the same with fixed loadings, no H": "low rank with fixed loadings, no H",
        "a plain MLP that makes all loadings (`CholeskyMLP`)": "plain MLP with a low-rank head",
        "mixture of factor analysers": "mixture of factor analysers",
        "diagonal along the principal directions": "diagonal along principal directions",
        "one Gaussian, shrunk": "one Gaussian, shrunk",
    }
    for label, row in pixels.items():
        assert_figures(rows[label], [cells(ours, row)[2], cells(rivals, row)[0]])
    first = next(label for label in rows if "LowRank(120)" in label)
    assert_figures(rows[first][:1], [ours["rows"][0]["cells"][2]])


def test_the_commands_of_the_readme_are_targets_of_the_makefile():
    targets = set(
        re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    )
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
    for path in re.findall(
        r"(?:mmlp|tests|benchmarks|examples|results|docs)/[\w./-]*\w", text
    ):
        assert "NAME" in path or (ROOT / path).exists(), path
    tests = "".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    for name in re.findall(r"`(test_\w+)`", text):
        assert f"def {name}(" in tests, name


@pytest.mark.slow
def test_the_tour_trains_prints_tables_and_ends_in_a_page(tmp_path, capsys):
    tour.take_tour(tmp_path, quick=True)
    record = json.loads((tmp_path / "demo-covariances.json").read_text())
    constant, neighbours, cholesky, matrix = (
        row["cells"][0]["mean"] for row in record["result"]["tables"][0]["rows"]
    )
    assert 0 < matrix < constant
    assert 0 < cholesky < constant
    assert 0 < neighbours < constant
    assert all(
        (tmp_path / f"{name}.png").stat().st_size > 10_000 for name in tour.PARTS
    )
    page, out = (tmp_path / "index.html").read_text(), capsys.readouterr().out
    assert "<h1>A tour of matrix-mlp</h1>" in page
    assert all(f'id="{name}"' in page for name in tour.PARTS)
    words = ("von Neumann", "energy score", "mixture of 10 Gaussians", "index.html")
    assert all(word in out for word in words)
