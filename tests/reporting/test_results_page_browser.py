"""The page of results in a headless browser (`make browser` installs one)."""

import json

import matplotlib
import pytest
from browser import CONTRAST
from report_pages import RECORD, TABLE, write

from mmlp.reporting import results_page as report
from reproduction.harness.run import PAGE_HEADING, run_several
from reproduction.harness.targets import TARGETS

matplotlib.use("agg")
pytestmark = [pytest.mark.slow, pytest.mark.browser]

WIDE = {
    "columns": ["name", *(f"measure {i}" for i in range(12))],
    "title": "A wide table",
    "rows": [],
}
WIDE["rows"] = [
    {
        "name": "a predictor with a long name",
        "cells": [{"mean": 1.5e-3, "error": 1e-4, "paper": 1e-3}] * 12,
    }
] * 30


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    for name in TARGETS:
        write(folder, name, RECORD | {"quick": name == "density"})
    write(
        folder,
        "frey",
        RECORD
        | {
            "result": RECORD["result"] | {"tables": [TABLE, WIDE]},
            "command": "python " + "x" * 300,
        },
    )
    (folder / "damaged.json").write_text("{")
    report.write_results_page(folder, PAGE_HEADING, TARGETS)
    return folder


@pytest.fixture(scope="module")
def url(folder):
    return (folder / "index.html").as_uri()


def check_whole(page, folder):
    """Check that nothing is requested but the page, and all of it is shown."""
    assert page.errors == []
    assert [
        request
        for request in page.requests
        if not request.startswith(("file:", "data:"))
    ] == []
    paths = [folder / f"{name}.json" for name in TARGETS]
    results = [
        json.loads(path.read_text())["result"] for path in paths if path.exists()
    ]
    widths = page.evaluate("[...document.images].map(image => image.naturalWidth)")
    assert len(widths) == sum(len(result["figures"]) for result in results)
    assert min(widths) > 0
    rows = page.evaluate(
        "[...document.querySelectorAll('tbody')].map(body => body.rows.length)"
    )
    assert rows == [
        len(table["rows"]) for result in results for table in result["tables"]
    ]


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1200, 390, 320])
def test_the_page_loads_whole_and_fits_the_screen(browser, folder, url, width, dark):
    page = browser.open(url, width=width, dark=dark)
    check_whole(page, folder)
    assert (
        page.evaluate("document.documentElement.scrollWidth")
        <= width
        == page.evaluate("innerWidth")
    )
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == (
        "rgb(20, 23, 26)" if dark else "rgb(255, 255, 255)"
    )


def test_a_wide_table_scrolls_in_its_box_and_its_names_stay(browser, url):
    page = browser.open(url, width=390)
    box = (
        "[...document.querySelectorAll('.box')]"
        ".find(box => box.ariaLabel == 'A wide table')"
    )
    assert page.evaluate(f"{box}.scrollWidth > {box}.clientWidth")
    name = f"{box}.querySelector('th[scope=row]').getBoundingClientRect().left"
    before = page.evaluate(name)
    page.evaluate(f"{box}.scrollLeft = 300")
    assert page.evaluate(f"{box}.scrollLeft") == 300
    assert page.evaluate(name) == before


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_all_text_has_the_contrast_that_wcag_asks_for(browser, url, dark):
    ratio, element = browser.open(url, dark=dark).evaluate(CONTRAST)
    assert ratio >= 4.5, element


def test_links_lead_to_their_sections(browser, url):
    page = browser.open(url)
    assert page.evaluate(
        "[...document.links].every(link => document.querySelector(link.hash))"
    )
    assert page.evaluate("document.links.length") == len(TARGETS)


def test_the_page_of_a_real_run_loads_whole(browser, tmp_path):
    assert run_several(["density"], quick=True, out=tmp_path) == 0
    page = browser.open((tmp_path / "index.html").as_uri(), width=390)
    check_whole(page, tmp_path)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_errors_are_noticed(browser, tmp_path):
    """The checks above could fail: a missing image and an exception are errors."""
    path = tmp_path / "bad.html"
    path.write_text(
        "<!doctype html><title>bad</title><img src='none.png'><script>throw new "
        "Error('x')</script>"
    )
    page = browser.open(path.as_uri())
    assert len(page.errors) >= 2
    assert page.evaluate("document.images[0].naturalWidth") == 0
