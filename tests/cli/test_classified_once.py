"""`mmlp fit` classifies each column of a table once."""

import sys

import pytest
from command import no_training, run
from sweeps import sweep

from mmlp.cli import commands  # with all modules that classify columns
from mmlp.estimators import cross_fitting
from mmlp.tables import classification

LINES = [
    "height,station,day,code,u",
    *(
        f"{i % 7}.5,{'north' if i % 2 else 'south'},2024-03-{i % 28 + 1:02d},{i % 3},{i}"
        for i in range(40)
    ),
]
OPTIONS = ["--epochs", "1", "--models", "2", "--quiet"]


@pytest.fixture
def classified(monkeypatch):
    """Return a list to which each call adds the name of the column."""
    monkeypatch.setattr(cross_fitting, "fit_many", no_training)
    assert commands
    names = []
    original = classification.classify_column

    def count(name, *args, **kwargs):
        names.append(name)
        return original(name, *args, **kwargs)

    for name, module in list(sys.modules.items()):
        if name.startswith("mmlp.") and hasattr(module, "classify_column"):
            monkeypatch.setattr(module, "classify_column", count)
    return names


@sweep("lines", [LINES, [line.split(",", 3)[3] for line in LINES]])
@sweep(
    "options",
    [
        ["regression", "t.csv", "--targets", "u"],
        ["regression", "t.csv", "--targets", "u", "--test", "0.25"],
        ["regression", "t.csv", "--targets", "u", "--missing", "drop"],
        ["regression", "t.csv", "--targets", "u", "--categories", "code"],
    ],
)
def test_each_column_is_classified_once(
    lines, options, classified, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text("\n".join(lines))
    status, _, err = run(capsys, "fit", *options, *OPTIONS)
    assert status == 0, err
    assert classified == lines[0].split(",")[:-1]


@pytest.mark.slow
def test_an_estimator_of_numbers_asks_once_too(
    classified, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text("\n".join(LINES))
    status, _, err = run(capsys, "fit", "vae", "t.csv", "--epochs", "1", "--quiet")
    assert status == 0, err
    assert classified == LINES[0].split(",")


def test_a_prediction_classifies_nothing(classified, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text("\n".join(LINES))
    fit = ["fit", "regression", "t.csv", "--targets", "u", *OPTIONS]
    assert run(capsys, *fit)[0] == 0
    classified.clear()
    for command in ("predict", "score"):
        assert run(capsys, command, "t.safetensors", "t.csv")[0] == 0
    assert classified == []
