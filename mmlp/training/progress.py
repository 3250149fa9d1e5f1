"""What the user sees of a run on stderr, and what ended it.

A run that may stop early has no time left that is known, only a longest one.
"""

import contextlib
import sys
import threading
import time
from typing import Any

import numpy as np

from mmlp.training.state import Metrics

SILENT_SECONDS = 2.0  # shorter runs print nothing
SECONDS_BETWEEN_LINES = 10.0  # where stderr is not a terminal
SECONDS_BEFORE_COMPILING = 2.0  # without an epoch, until "compiling ..." is printed
BAR = "{desc}{n_fmt}/{total_fmt} epochs |{bar}| {elapsed}{postfix}"


class Progress(contextlib.AbstractContextManager):
    """A bar on a terminal, a plain line now and then otherwise, nothing if `show` is false.

    `show` may be the name of the run, `patience` is after how many epochs without gain it ends.
    """

    def __init__(
        self, epochs: int, done: int, *, show: bool | str, patience: int | None = None
    ):
        self.epochs, self.done, self.show, self.bar, self.skipped = (
            epochs,
            done,
            show,
            None,
            0,
        )
        self.patience = patience
        self.name = f"{show}: " if isinstance(show, str) else ""
        self.stops = (
            "" if patience is None else f"stops after {_epochs(patience)} without gain"
        )
        self.began = self.first_done = time.monotonic()
        self.next, self.last = self.began + SILENT_SECONDS, []
        if show and sys.stderr.isatty():
            with contextlib.suppress(ImportError):
                from tqdm import tqdm

                options: Any = {
                    "delay": SILENT_SECONDS,
                    "dynamic_ncols": True,
                    "leave": False,
                }
                options |= {"bar_format": BAR, "desc": self.name}
                self.bar = tqdm(total=epochs, initial=done, **options)
        self.timer = threading.Timer(SECONDS_BEFORE_COMPILING, self._compiling)
        self.timer.daemon = True
        if show:
            self.timer.start()

    def __exit__(self, *_):
        self.timer.cancel()
        if self.bar is not None:
            self.bar.close()

    def _compiling(self) -> None:
        if self.bar is None:
            self._say("compiling ...")
        else:
            self.bar.delay = 0  # it is shown from now on
            self.bar.set_description_str(f"{self.name}compiling ")

    def _say(self, text: str) -> None:
        print(f"{self.name}{text}", file=sys.stderr, flush=True)

    def update(self, info) -> None:
        """After an epoch, with its `EpochInfo`; of many models the median."""
        self.timer.cancel()
        shown = {"loss": info.loss, "validation": info.validation}
        shown = {
            name: x
            for name, x in shown.items()
            if x is not None and np.any(np.isfinite(x))
        }
        self.skipped += int(np.sum(info.skipped))
        left_out = [f"{self.skipped} steps left out"] if self.skipped else []
        self.last = [
            *(_median(name, value) for name, value in shown.items()),
            *left_out,
        ]
        now = time.monotonic()
        if (
            info.epoch == self.done + 1
        ):  # the rate leaves out the first epoch, which compiles
            self.first_done = now
        left = self._left(now, info.epoch)
        if self.bar is not None:
            self.bar.set_description_str(self.name, refresh=False)
            said = (
                self.last[1:] if "validation" in shown else self.last
            )  # a line is short
            self.bar.set_postfix_str(
                ", ".join([*left[:1], *said, *left[1:]]), refresh=False
            )
            self.bar.update(info.epoch - self.bar.n)
        elif self.show and info.epoch < self.epochs and self._due(now, info.epoch):
            self.next = now + SECONDS_BETWEEN_LINES
            self._say(
                f"epoch {info.epoch}/{self.epochs}: {', '.join([*self.last, *left])}"
            )

    def _due(self, now: float, epoch: int) -> bool:
        """After the first epoch nothing is known of the time; if it was long, it is told of."""
        return (
            now >= self.next
            if epoch > self.done + 1
            else now >= self.began + SECONDS_BETWEEN_LINES
        )

    def _left(self, now: float, epoch: int) -> list[str]:
        """How long this takes at most, once an epoch was timed, and what may end it before."""
        timed, stops = epoch - self.done - 1, [self.stops] if self.stops else []
        if not timed or epoch == self.epochs:
            return stops
        left = clock((now - self.first_done) / timed * (self.epochs - epoch))
        return [f"at most {left}", *stops] if stops else [f"{left} left"]

    def end(self, epochs: list[Metrics]) -> None:
        """Say what ended the run, unless it was too short to be shown."""
        seconds = time.monotonic() - self.began
        if not self.show or seconds < SILENT_SECONDS or not self.last:
            return
        if self.bar is not None:
            self.bar.close()
        what, best = ended(epochs, self.epochs, self.patience)
        last = self.last[-1:] * bool(self.skipped) if best else self.last
        self._say(f"{what}: {', '.join([*best, *last, clock(seconds)])}")


def ended(
    epochs: list[Metrics], limit: int, patience: int | None
) -> tuple[str, list[str]]:
    """What ended a run of one model or many, by the metrics of its epochs; the best of them."""
    metrics, number = Metrics.stacked(epochs), len(epochs)
    scores, stopped = (
        x.reshape(number, -1) for x in (metrics.validation, metrics.stopped)
    )
    judged = np.isfinite(scores).any(axis=0)
    best = np.where(
        judged, np.argmin(np.where(np.isfinite(scores), scores, np.inf), axis=0) + 1, 0
    )
    told = (
        sorted({int(best[judged].min()), int(best[judged].max())})
        if judged.any()
        else []
    )
    words = (
        [f"best epoch{'s' * (len(told) > 1)} {' to '.join(map(str, told))}"]
        if told
        else []
    )
    words += (
        [_median("validation", np.nanmin(scores[:, judged], axis=0))] if told else []
    )
    waited = (
        0  # models that have stopped because nothing was gained; others have failed
    )
    if patience is not None:
        waited = int(
            np.sum(stopped[-1] & (np.argmax(stopped, axis=0) + 1 - best >= patience))
        )
    what = (
        f"all {_epochs(limit)}"
        if number == limit
        else f"stopped in epoch {number} of {limit}"
    )
    who = f"{waited} of {len(best)} models stopped after " if waited < len(best) else ""
    gain = f", {who}{_epochs(patience or 0)} without gain" if waited else ""
    return f"{what}{gain}", words


def clock(seconds: float) -> str:
    """0:07, 12:34, 1:02:03."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


def _median(name: str, values) -> str:
    return f"{name} {np.nanmedian(values):.4g}"


def _epochs(number: int) -> str:
    return f"{number} epoch{'s' if number != 1 else ''}"
