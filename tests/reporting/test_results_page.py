"""The page of results: all kinds of entries, and files that are not results."""

import json
from pathlib import Path

import pytest
from report_pages import PNG, RECORD, Reader, write

from mmlp.reporting import results_page as report

HEADING = report.Heading("Results", "What was found.", "Claims")
HOSTILE = "<script>alert('x')</script> & \" </style>"


def read(folder: Path) -> Reader:
    reader = Reader((folder / "index.html").read_text())
    assert len(set(reader.ids)) == len(reader.ids)
    assert reader.tags("script") == []
    return reader


def test_every_entry_of_a_record_is_on_the_page(tmp_path):
    write(tmp_path, "example1", RECORD)
    assert report.write_results_page(tmp_path, HEADING) == {}
    page = read(tmp_path)
    for text in (
        HEADING.title,
        HEADING.contents_title,
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
        "python -m reproduction example1 --seeds 5",
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
    report.write_results_page(tmp_path, HEADING)
    page = read(tmp_path)
    assert (
        page.text.count("obtained") == page.text.count("paper") == 2
    )  # of three columns
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
        "claims": [
            {"claim": HOSTILE, "verdict": f"depends on {HOSTILE}", "evidence": HOSTILE}
        ],
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
    write(
        tmp_path, "hostile", {"result": result, "date": HOSTILE, "quick": True, **rest}
    )
    (tmp_path / "x.png").write_bytes(PNG)
    assert report.write_results_page(tmp_path, HEADING) == {}
    read(tmp_path)
    assert "alert('x')" not in (tmp_path / "index.html").read_text()


def test_a_missing_figure_is_named_and_the_rest_is_shown(tmp_path, capsys):
    write(
        tmp_path,
        "density",
        {"result": {"title": "densities", "figures": [{"file": "gone.png"}]}},
    )
    assert report.write_results_page(tmp_path, HEADING) == {}
    assert (
        "The figure gone.png is missing: run the command again." in read(tmp_path).text
    )
    assert "gone.png" in capsys.readouterr().err


BAD_TABLE = {
    "title": "t",
    "columns": ["", "a", "b"],
    "rows": [{"name": "short", "cells": [1]}],
}


def record_of(name="bad", **result):
    return json.dumps({"experiment": name, "result": result}).encode()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b'{"experiment": "bad", "result"', "delimiter"),
        (b"\xff\xfe", "codec"),
        (b"[" * 100_000, "recursion"),
        (b"[1, 2]", "not a record"),
        (b'{"name": "package", "version": "1"}', "not a record"),
        (record_of("other"), "the name of the file"),
        (record_of(title=3), "3 must be text"),
        (record_of(notes=[None]), "None must be text"),
        (record_of(claims=[{"claim": "c"}]), "lacks 'verdict'"),
        (record_of(claims=[{"claim": "", "verdict": "holds so"}]), "holds so"),
        (record_of(claims=["c"]), "str"),
        (record_of(figures=[{"file": "../secret.png"}]), "same folder"),
        (record_of(figures=[{"file": "bad.json"}]), "PNG or SVG"),
        (record_of(tables=[BAD_TABLE]), "1 cells for 2 columns"),
    ],
)
def test_a_file_that_is_no_record_is_left_out_and_named(
    tmp_path, capsys, content, reason
):
    (tmp_path / "bad.json").write_bytes(content)
    write(tmp_path, "example1", RECORD)
    skipped = report.write_results_page(tmp_path, HEADING)
    assert list(skipped) == ["bad.json"]
    assert reason in skipped["bad.json"]
    assert f"report: left out {tmp_path / 'bad.json'}: " in capsys.readouterr().err
    page = read(tmp_path)
    assert {"bad.json", "example1: the losses compared"} <= set(page.text)


def test_experiments_stand_in_the_order_that_is_told(tmp_path):
    for name in ("zebra", "radius", "example1-mlp", "alpha", "example1"):
        write(tmp_path, name, {"result": {}})
    report.write_results_page(
        tmp_path, HEADING, ("example1", "example1-mlp", "frey", "radius")
    )
    ids = [
        i for i in read(tmp_path).ids if not i.endswith("-title") and i != "verdicts"
    ]
    assert ids == ["example1", "example1-mlp", "radius", "alpha", "zebra"]


def test_an_empty_folder_and_a_quick_run_say_what_they_are(tmp_path):
    assert report.write_results_page(tmp_path, HEADING) == {}
    assert "No results yet." in read(tmp_path).text
    write(tmp_path, "density", {"result": {}, "quick": True})
    report.write_results_page(tmp_path, HEADING)
    assert "quick run" in read(tmp_path).text
