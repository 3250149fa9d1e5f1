"""Experiments are run: flags from settings, the command that repeats them, many targets."""

import dataclasses
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import ClassVar

import pytest

from reproduction import __main__ as program
from reproduction.harness import run as _run
from reproduction.harness.result_cache import load_or_compute
from reproduction.harness.run import find_experiment, run_one, run_several
from reproduction.harness.targets import TARGETS


@dataclasses.dataclass(frozen=True)
class Settings:
    """All types of settings."""

    seeds: int = 3
    data: Path | None = None
    widths: tuple[int, ...] = (20, 20)
    rate: float | None = None
    exact: bool = True
    label: str = "plain"

    QUICK: ClassVar = {"seeds": 1}


def run(settings: Settings) -> dict:
    if settings.data is not None and not settings.data.exists():
        raise FileNotFoundError(f"`data` has no file\n{settings.data}")
    return {"claims": [{"claim": "It runs.", "verdict": "holds"}]}


def draw(record: dict, out: Path) -> None:
    pass


@pytest.fixture
def experiments(monkeypatch):
    """Four modules: all types of settings, no fit for the page, a bug, nothing but itself."""

    @dataclasses.dataclass(frozen=True)
    class Bare:
        QUICK: ClassVar = {}

    def broken(settings):
        raise ZeroDivisionError

    modules = {
        "all_types": {"Settings": Settings, "run": run, "draw": draw},
        "unfit": {"Settings": Bare, "run": lambda _: {"claims": [{"claim": "c"}]}},
        "with_bug": {"Settings": Bare, "run": broken},
        "last": {"Settings": Bare, "run": lambda _: {}},  # it draws nothing
    }
    for name, entries in modules.items():
        module = ModuleType(f"reproduction.{name}")
        vars(module).update(entries)
        monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(_run, "TARGETS", ("all-types", "with-bug", "last"))


@pytest.mark.usefixtures("experiments")
def test_flags_are_made_from_the_settings_and_the_command_repeats_the_run(tmp_path):
    given = [
        "--quick",
        "--data",
        "DIR",
        "--widths",
        "3,4",
        "--rate",
        "0.5",
        "--no-exact",
        "--label",
    ]
    flags = [word if word != "DIR" else str(tmp_path) for word in (*given, "a b")]
    record = run_one("all-types", [*flags, "--out", str(tmp_path)])
    assert record["settings"] == {
        "seeds": 1,
        "data": "DIR",
        "widths": (3, 4),
        "rate": 0.5,
        "exact": False,
        "label": "a b",
    }
    assert (
        record["command"] == f"python -m reproduction all-types {' '.join(given)} 'a b'"
    )
    assert {"mmlp", "jax", "jaxlib", "numpy", "python"} <= set(record["versions"])
    assert str(tmp_path) not in (tmp_path / "all-types.json").read_text()
    assert "It runs." in (tmp_path / "index.html").read_text()


@pytest.mark.usefixtures("experiments")
def test_both_command_lines_make_the_same_record(tmp_path, monkeypatch):
    """One target with its settings and "all" build equal settings and call one function."""
    monkeypatch.setattr(_run, "TARGETS", ("all-types",))
    monkeypatch.setattr(program, "TARGETS", ("all-types",))
    records = []
    for folder in (tmp_path / "a", tmp_path / "b"):
        target = "all-types" if folder.name == "a" else "all"
        flags = [
            "--quick",
            "--seeds",
            "2",
            "--data",
            str(tmp_path),
            "--out",
            str(folder),
        ]
        assert program.main([target, *flags]) == 0
        record = json.loads((folder / "all-types.json").read_text())
        records.append(record | {"seconds": 0})
    assert records[0] == records[1]


@pytest.mark.usefixtures("experiments")
def test_a_result_that_does_not_fit_the_page_is_an_error(tmp_path):
    with pytest.raises(ValueError, match="does not fit the page: it lacks 'verdict'"):
        run_one("unfit", ["--out", str(tmp_path)])


def test_what_was_made_for_equal_settings_is_kept(tmp_path):
    made = []

    def make():
        made.append(1)
        return {"x": len(made)}

    folder = tmp_path / "kept"
    assert [load_or_compute(folder, {"n": n}, make)["x"] for n in (1, 1, 2, 1)] == [
        1,
        1,
        2,
        1,
    ]
    assert load_or_compute(None, {"n": 1}, make) == {"x": 3}


@pytest.mark.usefixtures("experiments")
def test_no_seeds_at_all_are_refused(tmp_path, capsys):
    flags = ["--seeds", "0", "--out", str(tmp_path)]
    for target in ("example1", "all"):
        assert program.main([target, *flags]) == 2
        assert "--seeds must be at least 1, got 0." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        ([], "name at least one target"),
        (["densty"], "there is no target densty; did you mean density?"),
        (["tables"], "use example1, example1-mlp"),
        (["example1", "example2", "--rate", "1"], "no option --rate"),
    ],
)
def test_wrong_words_are_answered_before_any_work(words, answer, capsys):
    assert program.main(words) == 2
    assert answer in capsys.readouterr().err


@pytest.mark.usefixtures("experiments")
def test_reproduce_goes_on_after_a_failure_and_names_it(tmp_path, capsys):
    assert run_several(["all"], seeds=2, data=tmp_path / "none", out=tmp_path) == 1
    error = capsys.readouterr().err
    assert (
        f"all-types failed: `data` has no file {tmp_path / 'none'}\n" in error
    )  # one line
    assert "ZeroDivisionError" in error  # a bug comes with its traceback
    assert "2 of 3 targets failed: all-types, with-bug" in error
    assert (tmp_path / "last.json").exists()


@pytest.mark.usefixtures("experiments")
def test_reproduce_runs_what_is_named_once(tmp_path):
    assert (
        run_several(["last", "all-types", "last"], quick=True, seeds=2, out=tmp_path)
        == 0
    )
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["all-types.json", "index.html", "last.json"]
    assert (
        json.loads((tmp_path / "all-types.json").read_text())["settings"]["seeds"] == 2
    )


@pytest.mark.parametrize("name", TARGETS)
def test_every_target_is_an_experiment_with_small_settings(name):
    module = find_experiment(name)
    assert callable(module.run)
    module.Settings(**module.Settings.QUICK)
