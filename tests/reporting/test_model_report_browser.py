"""The page about a model in a headless browser (`make browser` installs one)."""

import numpy as np
import pytest
from browser import CONTRAST
from oracle import Density, Matrices, Oracle, inputs

import mmlp

pytestmark = [pytest.mark.slow, pytest.mark.browser]
LONG = "a column with a rather long name of several words"
WIDTHS = (1200, 390, 320)


@pytest.fixture(scope="module", params=["regression", "spd", "vae"])
def url(request, tmp_path_factory):
    X, folder = inputs(200), tmp_path_factory.mktemp(request.param)
    model = {"regression": Oracle(text=True), "spd": Matrices(), "vae": Density(p=4)}[
        request.param
    ]
    y = {"spd": lambda: model.predict(X), "vae": lambda: None}.get(request.param)
    if y is None:
        X = X.astype(object)
        X[:, 1] = np.random.default_rng(0).choice(["calm", "storm", None], len(X))
        y = lambda: model.draw(X, seed=1)  # noqa: E731
    names = {"inputs": ("level", "gust", LONG, "idle"), "targets": (LONG + " u", "v")}
    page = mmlp.report(model, X, y(), folder, title=LONG * 3, progress=False, **names)
    return page.as_uri()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_the_page_loads_whole_fits_the_screen_and_can_be_read(browser, url, dark):
    for width in WIDTHS:
        page = browser.open(url, width=width, dark=dark)
        assert page.errors == []
        assert all(request.startswith(("file:", "data:")) for request in page.requests)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate(
            "[...document.images].every(i => i.naturalWidth > 0 && i.alt)"
        )
        assert page.evaluate("[...document.images].every(i => i.clientWidth > 200)")
        assert page.evaluate("document.querySelectorAll('h1').length") == 1
        ratio, element = page.evaluate(CONTRAST)
        assert ratio >= 4.5, element


def test_links_lead_to_sections_and_tables_scroll_in_their_boxes(browser, url):
    page = browser.open(url, width=320)
    assert page.evaluate(
        "[...document.links].every(link => document.querySelector(link.hash))"
    )
    assert page.evaluate(
        "document.links.length == document.querySelectorAll('section').length"
    )
    assert page.evaluate(
        "[...document.querySelectorAll('table')].every(t => t.closest('.box'))"
    )
    wide = (
        "[...document.querySelectorAll('.box')]"
        ".filter(b => b.scrollWidth > b.clientWidth)"
    )
    assert page.evaluate(f"{wide}.every(b => b.tabIndex == 0 && b.ariaLabel)")


def test_dark_pages_turn_the_lightness_of_drawings(browser, url):
    light, dark = (
        browser.open(url, dark=on).evaluate(
            "getComputedStyle(document.querySelector('.drawn')).filter"
        )
        for on in (False, True)
    )
    assert light == "none"
    assert "invert" in dark
