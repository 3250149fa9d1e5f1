"""A headless Chromium for tests of web pages, driven through its debugging pipe, no more.

with Browser() as browser:
    page = browser.open("file:///...", width=390, dark=True)
    page.evaluate("document.title"), page.errors
"""

import base64
import contextlib
import itertools
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MAC = "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"
NAMES = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome",
    MAC,
)
FLAGS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-sync",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
]
# The browser reads commands from descriptor 3 and answers on 4. A fork with code of our own between
# would not be safe in a process with JAX's threads, so a small program puts the descriptors there
# and becomes the browser.
START = """
import fcntl, os, sys
pipes = [fcntl.fcntl(int(number), fcntl.F_DUPFD, 10) for number in sys.argv[1:3]]
for pipe, number in zip(pipes, (3, 4)):
    os.dup2(pipe, number)
os.execv(sys.argv[3], sys.argv[3:])
"""

# the least contrast of text on the page, and its element
CONTRAST = """
(() => {
  const parse = colour => colour.match(/[0-9.]+/g).map(Number);
  const linear = v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const light = colour => colour.slice(0, 3).map(v => linear(v / 255))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const back = element => { const colour = parse(getComputedStyle(element).backgroundColor);
    return colour.length == 3 || colour[3] == 1 ? colour : back(element.parentElement); };
  const written = element => [...element.childNodes].some(
    node => node.nodeType == 3 && node.textContent.trim());
  return [...document.querySelectorAll('body *')].filter(written).map(element => {
      const pair = [light(parse(getComputedStyle(element).color)), light(back(element))];
      const [high, low] = pair.sort((a, b) => b - a);
      return [(high + 0.05) / (low + 0.05), element.outerHTML.slice(0, 80)];
    }).sort((a, b) => a[0] - b[0])[0];
})()
"""


def find() -> str:
    """The path of a Chromium; `make browser` brings one where there is none."""
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        raise FileNotFoundError(
            f"no browser ({', '.join(NAMES)}) is installed; run `make browser`"
        )
    return path


class Browser(contextlib.AbstractContextManager):
    """One browser process, with a profile of its own that is removed at the end."""

    def __init__(self, timeout: float = 60.0):
        self.timeout, self.numbers, self.received, self.events = (
            timeout,
            itertools.count(1),
            b"",
            [],
        )
        self.profile = tempfile.TemporaryDirectory(
            prefix="browser-", ignore_cleanup_errors=True
        )
        (commands, self.commands), (self.answers, answers) = os.pipe(), os.pipe()
        arguments = [
            find(),
            *FLAGS,
            f"--user-data-dir={self.profile.name}",
            "about:blank",
        ]
        self.process = subprocess.Popen(
            [sys.executable, "-c", START, str(commands), str(answers), *arguments],
            pass_fds=(commands, answers),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(commands)
        os.close(answers)

    def __exit__(self, *_):
        with contextlib.suppress(OSError, TimeoutError, EOFError):
            self.call("Browser.close")
        os.close(self.commands)
        os.close(self.answers)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.profile.cleanup()

    def open(
        self, url: str, *, width: int = 1200, height: int = 900, dark: bool = False
    ) -> "Page":
        """A new tab with the page loaded, `width` CSS pixels wide; below 600 as on a phone."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        page = Page(
            self,
            self.call("Target.attachToTarget", targetId=target, flatten=True)[
                "sessionId"
            ],
        )
        for domain in ("Page", "Runtime", "Log", "Network"):
            page.call(f"{domain}.enable")
        size = {
            "width": width,
            "height": height,
            "deviceScaleFactor": 1,
            "mobile": width < 600,
        }
        page.call("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        page.call("Emulation.setEmulatedMedia", features=[scheme])
        failure = page.call("Page.navigate", url=url).get("errorText")
        if failure:
            raise OSError(f"{url}: {failure}")
        page.wait("Page.loadEventFired")
        return page

    def call(self, method: str, session: str | None = None, **parameters) -> dict:
        """Send a command and wait for its answer; what happens meanwhile goes to `events`."""
        number = next(self.numbers)
        message = {"id": number, "method": method, "params": parameters} | (
            {"sessionId": session} if session else {}
        )
        os.write(self.commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]

    def receive(self) -> dict:
        """The next message, which is also kept if it is an event."""
        deadline = time.monotonic() + self.timeout
        while b"\0" not in self.received:
            if not select.select(
                [self.answers], [], [], max(0.0, deadline - time.monotonic())
            )[0]:
                raise TimeoutError(f"the browser did not answer in {self.timeout:g} s")
            data = os.read(self.answers, 1 << 20)
            if not data:
                raise EOFError("the browser ended")
            self.received += data
        text, _, self.received = self.received.partition(b"\0")
        message = json.loads(text)
        if "method" in message:
            self.events.append(message)
        return message


class Page:
    """A tab of a `Browser`."""

    def __init__(self, browser: Browser, session: str):
        self.browser, self.session = browser, session

    def call(self, method: str, **parameters) -> dict:
        return self.browser.call(method, self.session, **parameters)

    def events(self, method: str) -> list[dict]:
        here = [
            event
            for event in self.browser.events
            if event.get("sessionId") == self.session
        ]
        return [event["params"] for event in here if event["method"] == method]

    def wait(self, method: str) -> None:
        while not self.events(method):
            self.browser.receive()

    def evaluate(self, expression: str):
        """The value of a JavaScript expression, anything JSON; a promise is awaited."""
        answer = self.call(
            "Runtime.evaluate",
            expression=expression,
            returnByValue=True,
            awaitPromise=True,
        )
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise RuntimeError(f"{expression}: {details.get('exception', details)}")
        return answer["result"].get("value")

    @property
    def errors(self) -> list[str]:
        """What a console would show in red or yellow, such as missing files and blocked content."""
        self.evaluate(
            "new Promise(done => requestAnimationFrame(() => setTimeout(done, 50)))"
        )  # what is under way arrives
        told = [entry["entry"]["text"] for entry in self.events("Log.entryAdded")]
        said = [
            str(entry["args"])
            for entry in self.events("Runtime.consoleAPICalled")
            if entry["type"] in ("error", "warning")
        ]
        thrown = [
            entry["exceptionDetails"]["text"]
            for entry in self.events("Runtime.exceptionThrown")
        ]
        return told + said + thrown

    @property
    def requests(self) -> list[str]:
        """The addresses that the page asked for."""
        return [
            entry["request"]["url"]
            for entry in self.events("Network.requestWillBeSent")
        ]

    def screenshot(self, path: Path) -> None:
        """The whole page, as PNG."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {
            "x": 0,
            "y": 0,
            "width": size["width"],
            "height": size["height"],
            "scale": 1,
        }
        image = self.call(
            "Page.captureScreenshot",
            format="png",
            captureBeyondViewport=True,
            clip=clip,
        )
        path.write_bytes(base64.b64decode(image["data"]))
