"""Text from users' tables and records never becomes markup, on any kind of page."""

import numpy as np
import pytest
from oracle import Density, Matrices, Oracle, inputs
from report_pages import PNG, Reader, write

import mmlp
from mmlp.reporting import results_page
from mmlp.reporting.page import render_table
from mmlp.reporting.tables import Table

HOSTILE = [
    "</title></style><script>alert(1)</script>",
    '" onload="alert(1)" x="',
    "' onerror='alert(1)' x='",
    "{{ 7 * 7 }}{% include 'x' %}<!-- ]]> &lt;b&gt; $x$ `",
]
HARMLESS = ["aa", "bb", "cc", "dd"]
SVG = b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'


def shape(text):
    """The elements of a page in order, each with the names of its attributes."""
    return [(tag, sorted(attributes)) for tag, attributes in Reader(text).seen]


def check_same_markup(hostile, harmless):
    assert shape(hostile) == shape(harmless)
    page = Reader(hostile)
    for _, attributes in page.seen:
        assert not [name for name in attributes if name.startswith("on")]
        assert attributes.get("src", "data:image/").startswith("data:image/")
        assert attributes.get("href", "#").startswith(("#", "data:,"))
    assert page.tags("script") == []


def regression(folder, names):
    model = Oracle(text=True)
    X = inputs(60).astype(object)
    X[:, 1] = np.random.default_rng(0).choice(["calm", "storm", names[0]], len(X))
    y = model.draw(X, seed=1)
    return mmlp.report(
        model,
        X,
        y,
        folder,
        inputs=names,
        targets=names[:2],
        place=lambda i: f"{names[1]} {i}",
        title=names[0],
        progress=False,
    )


def spd(folder, names):
    X = inputs(60)
    Y = Matrices().predict(X)
    place = lambda i: f"{names[1]} {i}"  # noqa: E731
    return mmlp.report(
        Matrices(),
        X,
        Y,
        folder,
        inputs=names,
        place=place,
        title=names[2],
        progress=False,
    )


def density(folder, names):
    model = Density(p=4)
    X = model.sample(40, 1)
    return mmlp.report(
        model, X, None, folder, inputs=names, title=names[3], progress=False
    )


@pytest.mark.usefixtures("unpainted")
@pytest.mark.parametrize("make", [regression, spd, density])
def test_names_titles_and_categories_do_not_change_the_markup_of_a_report(
    tmp_path, make
):
    hostile = make(tmp_path / "hostile", HOSTILE).read_text()
    harmless = make(tmp_path / "harmless", HARMLESS).read_text()
    check_same_markup(hostile, harmless)
    text = " ".join(Reader(hostile).text)
    for name in HOSTILE:  # they are shown as they are
        assert name in text


def results(folder, text):
    folder.mkdir()
    table = {
        "title": text,
        "note": text,
        "columns": [text, text],
        "rows": [
            {"group": text},
            {"name": text, "cells": [{"mean": text, "paper": text, "best": True}]},
        ],
    }
    claim = {"claim": text, "verdict": f"depends on {text}", "evidence": text}
    record = {
        "result": {
            "title": text,
            "about": text,
            "claims": [claim],
            "tables": [table],
            "figures": [
                {"file": "x.png", "caption": text},
                {"file": "x.svg", "alt": text},
                {"file": f"{text.replace('/', '')}.png"},
            ],
            "notes": [text],
        },
        "command": text,
        "versions": {text: text},
        "device": text,
        "settings": {text: text},
        "date": text,
        "quick": True,
    }
    write(folder, "name", record)
    (folder / "x.png").write_bytes(PNG)
    (folder / "x.svg").write_bytes(SVG)
    (folder / f"{text.replace('/', '')}.json").write_text("{")
    heading = results_page.Heading(text, text, text)
    results_page.write_results_page(folder, heading)
    return (folder / "index.html").read_text(), table


@pytest.mark.parametrize("text", HOSTILE)
def test_text_of_records_and_files_does_not_change_the_markup_of_results(
    tmp_path, text
):
    hostile, table = results(tmp_path / "hostile", text)
    harmless, same_table = results(tmp_path / "harmless", "aa")
    check_same_markup(hostile, harmless)
    html, same_html = (
        render_table(Table.from_record(record)) for record in (table, same_table)
    )
    assert shape(html) == shape(same_html)
