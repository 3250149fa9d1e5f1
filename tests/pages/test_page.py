"""The page of results: every kind of entry, hostile text, files that are no results, and the flags of an experiment."""

import dataclasses
import json
from html.parser import HTMLParser
from pathlib import Path
from typing import ClassVar

import pytest
from report_pages import PNG, RECORD, write

from mmlp.experiments import reproduce
from mmlp.experiments.harness import run as _run
from mmlp.pages import page as report

HOSTILE = "<script>alert('x')</script> & \" </style>"
VOID = {"meta", "link", "br", "img"}  # elements without an end tag
OPTIONAL_END = {"li", "dt", "dd"}


class Reader(HTMLParser):
    """The page as a browser would first see it; fails at a tag that is closed twice, never, or in the wrong order."""

    def __init__(self, text: str):
        super().__init__()
        self.open, self.seen, self.ids, self.text = [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))
        self.ids += [value for name, value in attrs if name == "id"]
        if tag not in VOID | OPTIONAL_END:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert tag == self.open.pop()

    def handle_data(self, data):
        self.text.append(data.strip())

    def tags(self, name):
        return [attributes for tag, attributes in self.seen if tag == name]


def read(folder: Path) -> Reader:
    reader = Reader((folder / "index.html").read_text())
    assert len(set(reader.ids)) == len(reader.ids)
    assert reader.tags("script") == []
    return reader


def test_every_entry_of_a_record_is_on_the_page(tmp_path):
    write(tmp_path, "example1", RECORD)
    assert report.build(tmp_path) == {}
    page = read(tmp_path)
    for text in (
        "example1: the losses compared",
        "(1.07 ± 0.03)·10⁻²",
        "5.8·10⁻⁶",  # the paper's, with its own digits
        "4.60·10⁻⁴",
        "5.64 ± 0.13",
        "d = 10, n = 20",
        "1,000",
        "no value",
        "depends on the loss of the plain MLP",
        "3 min 20 s",
        "python -m mmlp.experiments.example1 --seeds 5",
        "jax 0.9.2, python 3.11.7",
        "seeds = 5, dims = [10, 20]",
        "Test samples are drawn anew.",
    ):
        assert text in page.text
    assert page.tags("html") == [{"lang": "en"}]
    assert all(
        image["src"].startswith("data:image/png;base64,") and image["alt"]
        for image in page.tags("img")
    )
    assert all(heading.get("scope") for heading in page.tags("th"))
    assert {"href": "#example1"} in page.tags("a")


def test_a_column_with_values_of_the_paper_is_two(tmp_path):
    write(tmp_path, "example1", RECORD)
    report.build(tmp_path)
    page = read(tmp_path)
    assert page.text.count("obtained") == page.text.count("paper") == 2  # of three columns
    rows = [
        row
        for row in (tmp_path / "index.html").read_text().splitlines()
        if '<th scope="row">' in row
    ]
    assert [row.count("<td") for row in rows] == [5, 5, 5]


def test_text_is_escaped_wherever_it_stands(tmp_path):
    result = {
        "title": HOSTILE,
        "about": HOSTILE,
        "claims": [{"claim": HOSTILE, "verdict": f"depends on {HOSTILE}", "evidence": HOSTILE}],
        "tables": [
            {
                "title": HOSTILE,
                "note": HOSTILE,
                "columns": [HOSTILE, HOSTILE],
                "rows": [
                    {"group": HOSTILE},
                    {"name": HOSTILE, "cells": [{"mean": HOSTILE, "paper": HOSTILE}]},
                ],
            }
        ],
        "figures": [
            {"file": "x.png", "caption": HOSTILE},
            {"file": f"{HOSTILE.replace('/', '')}.png"},
        ],
        "notes": [HOSTILE],
    }
    rest = {
        "command": HOSTILE,
        "versions": {HOSTILE: HOSTILE},
        "device": HOSTILE,
        "settings": {HOSTILE: HOSTILE},
    }
    write(tmp_path, "hostile", {"result": result, "date": HOSTILE, "quick": True, **rest})
    (tmp_path / "x.png").write_bytes(PNG)
    assert report.build(tmp_path) == {}
    read(tmp_path)
    assert "alert('x')" not in (tmp_path / "index.html").read_text()


def test_a_missing_figure_is_named_and_the_rest_is_shown(tmp_path, capsys):
    write(
        tmp_path, "density", {"result": {"title": "densities", "figures": [{"file": "gone.png"}]}}
    )
    assert report.build(tmp_path) == {}
    assert "The figure gone.png is missing: run the command again." in read(tmp_path).text
    assert "gone.png" in capsys.readouterr().err


BAD_TABLE = {"title": "t", "columns": ["", "a", "b"], "rows": [{"name": "short", "cells": [1]}]}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b'{"experiment": "bad", "result"', "delimiter"),
        (b"\xff\xfe", "codec"),
        (b"[" * 100_000, "recursion"),
        (b"[1, 2]", "not a record"),
        (b'{"name": "package", "version": "1"}', "not a record"),
        (b'{"experiment": "other", "result": {}}', "the name of the file"),
        (b'{"experiment": "bad", "result": {"claims": [{"claim": "c"}]}}', "lacks 'verdict'"),
        (
            b'{"experiment": "bad", "result": {"claims": [{"claim": "c", "verdict": "holds water"}]}}',
            "holds water",
        ),
        (b'{"experiment": "bad", "result": {"claims": ["c"]}}', "str"),
        (
            b'{"experiment": "bad", "result": {"figures": [{"file": "../secret.png"}]}}',
            "same folder",
        ),
        (b'{"experiment": "bad", "result": {"figures": [{"file": "bad.json"}]}}', "PNG or SVG"),
        (
            json.dumps({"experiment": "bad", "result": {"tables": [BAD_TABLE]}}).encode(),
            "1 cells for 2 columns",
        ),
    ],
)
def test_a_file_that_is_no_record_is_left_out_and_named(tmp_path, capsys, content, reason):
    (tmp_path / "bad.json").write_bytes(content)
    write(tmp_path, "example1", RECORD)
    skipped = report.build(tmp_path)
    assert list(skipped) == ["bad.json"]
    assert reason in skipped["bad.json"]
    assert f"report: left out {tmp_path / 'bad.json'}: " in capsys.readouterr().err
    page = read(tmp_path)
    assert {"bad.json", "example1: the losses compared"} <= set(page.text)


def test_experiments_stand_in_the_order_of_the_paper(tmp_path):
    for name in ("zebra", "radius", "example1-mlp", "alpha", "example1"):
        write(tmp_path, name, {"result": {}})
    report.build(tmp_path)
    ids = [i for i in read(tmp_path).ids if not i.endswith("-title") and i != "verdicts"]
    assert ids == ["example1", "example1-mlp", "radius", "alpha", "zebra"]


def test_an_empty_folder_and_a_quick_run_say_what_they_are(tmp_path, capsys):
    report.main([str(tmp_path)])
    assert "No results yet." in read(tmp_path).text
    write(tmp_path, "density", {"result": {}, "quick": True})
    report.build(tmp_path)
    assert "quick run" in read(tmp_path).text
    with pytest.raises(SystemExit):
        report.main([str(tmp_path / "nowhere")])


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


def test_flags_are_made_from_the_settings_and_the_command_repeats_the_run(tmp_path):
    flags = [
        "--data",
        str(tmp_path),
        "--widths",
        "3,4",
        "--rate",
        "0.5",
        "--no-exact",
        "--label",
        "a b",
    ]
    record = _run.main(
        "all-types", Settings, run, draw, ["--quick", "--out", str(tmp_path), *flags]
    )
    assert record["settings"] == {
        "seeds": 1,
        "data": "DIR",
        "widths": (3, 4),
        "rate": 0.5,
        "exact": False,
        "label": "a b",
    }
    assert record["command"] == (
        "python -m mmlp.experiments.all_types --quick --data DIR --widths 3,4 --rate 0.5 --no-exact --label 'a b'"
    )
    assert {"mmlp", "jax", "jaxlib", "numpy", "python"} <= set(record["versions"])
    assert str(tmp_path) not in (tmp_path / "all-types.json").read_text()
    assert "It runs." in read(tmp_path).text


def test_a_result_that_does_not_fit_the_page_is_an_error(tmp_path):
    with pytest.raises(ValueError, match="does not fit the page: it lacks 'verdict'"):
        _run.main(
            "bad", Settings, lambda _: {"claims": [{"claim": "c"}]}, draw, ["--out", str(tmp_path)]
        )


def test_what_was_made_for_equal_settings_is_kept(tmp_path):
    made = []

    def make():
        made.append(1)
        return {"x": len(made)}

    folder = tmp_path / "kept"
    assert [_run.kept(folder, {"n": n}, make)["x"] for n in (1, 1, 2, 1)] == [1, 1, 2, 1]
    assert _run.kept(None, {"n": 1}, make) == {"x": 3}


def test_no_seeds_at_all_are_refused(tmp_path):
    for main in (
        lambda argv: _run.main("x", Settings, run, draw, argv),
        lambda argv: reproduce.main(["all", *argv]),
    ):
        with pytest.raises(SystemExit) as exit:
            main(["--seeds", "0", "--out", str(tmp_path)])
        assert exit.value.code == 2


@pytest.fixture
def targets(monkeypatch):
    """Three targets: one that runs, one that wants data, one with a bug and no settings but its own."""

    @dataclasses.dataclass(frozen=True)
    class Bare:
        QUICK: ClassVar = {}

    def broken(settings):
        raise ZeroDivisionError

    class Module:
        def __init__(self, settings, run):
            self.Settings, self.run, self.draw = settings, run, draw

    modules = {
        "good": Module(Settings, run),
        "with-bug": Module(Bare, broken),
        "last": Module(Bare, lambda _: {}),
    }
    monkeypatch.setattr(reproduce, "TARGETS", ("good", "with-bug", "last"))
    monkeypatch.setattr(reproduce, "load", modules.get)


@pytest.mark.usefixtures("targets")
def test_reproduce_goes_on_after_a_failure_and_names_it(tmp_path, capsys):
    arguments = ["all", "--seeds", "2", "--data", str(tmp_path / "none"), "--out", str(tmp_path)]
    assert reproduce.main(arguments) == 1
    error = capsys.readouterr().err
    assert f"good failed: `data` has no file {tmp_path / 'none'}\n" in error  # one line
    assert "ZeroDivisionError" in error  # a bug comes with its traceback
    assert "2 of 3 targets failed: good, with-bug" in error
    assert (tmp_path / "last.json").exists()


@pytest.mark.usefixtures("targets")
def test_reproduce_runs_what_is_named_once(tmp_path):
    assert (
        reproduce.main(["last", "good", "last", "--quick", "--seeds", "2", "--out", str(tmp_path)])
        == 0
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "good.json",
        "index.html",
        "last.json",
    ]
    assert json.loads((tmp_path / "good.json").read_text())["settings"]["seeds"] == 2


def test_reproduce_refuses_an_unknown_target_with_the_list(capsys):
    with pytest.raises(SystemExit) as exit:
        reproduce.main(["densty"])
    assert exit.value.code == 2
    error = capsys.readouterr().err
    assert all(name in error for name in ("all", *reproduce.TARGETS))


@pytest.mark.parametrize("name", reproduce.TARGETS)
def test_every_target_is_an_experiment_with_small_settings(name):
    module = reproduce.load(name)
    assert callable(module.run)
    assert callable(module.draw)
    module.Settings(**module.Settings.QUICK)
