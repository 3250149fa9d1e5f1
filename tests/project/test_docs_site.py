"""The built site in a headless browser: links, pictures, an empty console, no network."""

import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urljoin, urlparse

import pytest
from documents import ROOT

pytestmark = pytest.mark.slow
SITE = ROOT / "docs" / "_build" / "html"
SHOWN = [
    "index",
    "tour",
    "concepts",
    "gallery",
    "maths",
    "results",
    "reproduction",
    "api/values",
]


class References(HTMLParser):
    """What a page refers to, and the anchors that it has."""

    def __init__(self, html: str):
        super().__init__()
        self.links, self.files, self.anchors = [], [], {"", "top"}
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.anchors |= {values[name] for name in ("id", "name") if values.get(name)}
        if values.get("href"):
            (self.links if tag == "a" else self.files).append(values["href"])
        if values.get("src"):
            self.files.append(values["src"])


@pytest.fixture(scope="module")
def pages():
    """The references of each page of a fresh build, by address; a warning fails the build."""
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "-W",
        "--keep-going",
        "-q",
        "docs",
        str(SITE),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return {
        path.as_uri(): References(path.read_text()) for path in SITE.rglob("*.html")
    }


def test_every_link_and_file_is_there(pages):
    broken = []
    for page, found in pages.items():
        for reference in found.links + found.files:
            address, anchor = urldefrag(urljoin(page, reference))
            if urlparse(address).scheme != "file":
                continue
            there = Path(unquote(urlparse(address).path)).exists()
            if not there or (
                address in pages and unquote(anchor) not in pages[address].anchors
            ):
                broken.append((page, reference))
    assert broken == []
    assert len(pages) > 20


def test_nothing_is_loaded_from_the_network(pages):
    for page, found in pages.items():
        far = [
            file for file in found.files if urlparse(file).scheme not in ("", "data")
        ]
        assert far == [], page


@pytest.mark.browser
def test_every_page_loads_whole(pages, browser):
    for page in pages:
        tab = browser.open(page)
        assert tab.errors == [], page
        assert all(
            tab.evaluate("[...document.images].map(image => image.naturalWidth > 0)")
        ), page
        assert all(
            request.startswith(("file:", "data:")) for request in tab.requests
        ), page


@pytest.mark.browser
@pytest.mark.parametrize("page", SHOWN)
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_a_page_fits_a_phone(pages, browser, page, dark):
    tab = browser.open(
        (SITE / f"{page}.html").as_uri(), width=390, height=844, dark=dark
    )
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390
