"""A headless Chromium of the system for tests of web pages, driven by Playwright.

with Browser() as browser:
    page = browser.open("file:///...", width=390, dark=True)
    page.evaluate("document.title"), page.errors
"""

import contextlib
import shutil
from typing import Any

from playwright.sync_api import Page as Tab
from playwright.sync_api import sync_playwright

EXECUTABLES = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
)
ARGUMENTS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
MAX_PHONE_WIDTH = 600  # CSS pixels

# The lowest contrast of any text on the page, and the element that has it.
CONTRAST = """
(() => {
  const parse = colour => colour.match(/[0-9.]+/g).map(Number);
  const linear = v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const light = colour => colour.slice(0, 3).map(v => linear(v / 255))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const back = element => {
    const colour = parse(getComputedStyle(element).backgroundColor);
    const opaque = colour.length == 3 || colour[3] == 1;
    return opaque ? colour : back(element.parentElement);
  };
  const written = element => [...element.childNodes].some(
    node => node.nodeType == 3 && node.textContent.trim());
  return [...document.querySelectorAll('body *')].filter(written).map(element => {
      const pair = [light(parse(getComputedStyle(element).color)), light(back(element))];
      const [high, low] = pair.sort((a, b) => b - a);
      return [(high + 0.05) / (low + 0.05), element.outerHTML.slice(0, 80)];
    }).sort((a, b) => a[0] - b[0])[0];
})()
"""


def find_executable() -> str:
    """Return the path of a Chromium; `make browser` installs one."""
    for name in EXECUTABLES:
        path = shutil.which(name)
        if path is not None:
            return path
    raise FileNotFoundError(
        f"no browser ({', '.join(EXECUTABLES)}) is installed; run `make browser`"
    )


class Browser(contextlib.AbstractContextManager):
    """One browser process with a temporary profile."""

    def __init__(self):
        executable = find_executable()
        self._playwright = sync_playwright().start()
        self._chromium = self._playwright.chromium.launch(
            executable_path=executable, args=ARGUMENTS
        )

    def __exit__(self, *_: object) -> None:
        self._chromium.close()
        self._playwright.stop()

    def open(
        self, url: str, *, width: int = 1200, height: int = 900, dark: bool = False
    ) -> "Page":
        """Load a page in a new tab of `width` CSS pixels; a narrow tab acts as a phone."""
        tab = self._chromium.new_page(
            viewport={"width": width, "height": height},
            is_mobile=width < MAX_PHONE_WIDTH,
            color_scheme="dark" if dark else "light",
        )
        page = Page(tab)
        tab.goto(url)
        return page


class Page:
    """A tab of a `Browser` that records its requests and what its console shows."""

    def __init__(self, tab: Tab):
        self._tab = tab
        self._errors: list[str] = []
        self.requests: list[str] = []
        tab.on("request", lambda request: self.requests.append(request.url))
        tab.on("pageerror", lambda error: self._errors.append(str(error)))
        tab.on("console", self._record_message)

    def _record_message(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self._errors.append(message.text)

    def evaluate(self, expression: str) -> Any:
        """Return the value of a JavaScript expression; a promise is awaited."""
        return self._tab.evaluate(expression)

    @property
    def errors(self) -> list[str]:
        """Errors and warnings of the console, such as missing files and exceptions."""
        # Messages that are on their way arrive within this time.
        self._tab.wait_for_timeout(50)
        return self._errors
