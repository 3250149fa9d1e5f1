"""What a user sees of a run on stderr while it trains, and when it ends.

For a run that may stop early, the time left is an upper bound.
"""

import contextlib
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from mmlp.training.epoch import Metrics

if TYPE_CHECKING:
    from mmlp.training.results import EpochInfo

SILENT_SECONDS = 2.0  # shorter runs print nothing
SECONDS_BETWEEN_LINES = 10.0  # where stderr is not a terminal
SECONDS_BEFORE_COMPILING_IS_SHOWN = 2.0  # if no epoch is done by then
BAR_FORMAT = "{desc}{n_fmt}/{total_fmt} epochs |{bar}| {elapsed}{postfix}"


class Progress(contextlib.AbstractContextManager):
    """A bar on a terminal, or else a line from time to time.

    Parameters
    ----------
    epochs : int
        The number of epochs of the run.
    epochs_done : int
        The number of epochs that are done, of a run that resumes.
    show : bool or str
        Whether to print anything; a string is printed as the name of the run.
    patience : int, optional
        The number of epochs without improvement that ends the run.
    """

    def __init__(
        self,
        epochs: int,
        epochs_done: int,
        *,
        show: bool | str,
        patience: int | None = None,
    ):
        self.epochs = epochs
        self.epochs_done = epochs_done
        self.show = show
        self.patience = patience
        self.prefix = f"{show}: " if isinstance(show, str) else ""

        self.started_at = time.monotonic()
        self.first_epoch_at = self.started_at
        self.next_line_at = self.started_at + SILENT_SECONDS
        self.skipped = 0
        self.last_values: list[str] = []

        self.bar = self._make_bar()
        self.timer = threading.Timer(
            SECONDS_BEFORE_COMPILING_IS_SHOWN, self._show_compiling
        )
        self.timer.daemon = True
        if show:
            self.timer.start()

    def _make_bar(self) -> Any:
        """Return a bar if there is a terminal to show it, and tqdm to draw it."""
        if not self.show or not sys.stderr.isatty():
            return None
        try:
            from tqdm import tqdm
        except ImportError:
            return None
        return tqdm(
            total=self.epochs,
            initial=self.epochs_done,
            delay=SILENT_SECONDS,
            dynamic_ncols=True,
            leave=False,
            bar_format=BAR_FORMAT,
            desc=self.prefix,
        )

    def __exit__(self, *_: object) -> None:
        self.timer.cancel()
        if self.bar is not None:
            self.bar.close()

    def _show_compiling(self) -> None:
        if self.bar is None:
            self._print("compiling ...")
        else:
            self.bar.delay = 0  # show it from now on
            self.bar.set_description_str(f"{self.prefix}compiling ")

    def _print(self, text: str) -> None:
        print(f"{self.prefix}{text}", file=sys.stderr, flush=True)

    def update(self, info: "EpochInfo") -> None:
        """Show an epoch that is done; of many models, medians are shown."""
        self.timer.cancel()
        self.skipped += int(np.sum(info.skipped))
        losses = []
        if np.any(np.isfinite(info.loss)):
            losses.append(_format_median("loss", info.loss))
        scores = []
        if info.validation is not None and np.any(np.isfinite(info.validation)):
            scores.append(_format_median("validation", info.validation))
        skipped = self._describe_skipped()
        self.last_values = [*losses, *scores, *skipped]

        now = time.monotonic()
        if info.epoch == self.epochs_done + 1:
            self.first_epoch_at = now
        time_left = self._estimate_time_left(now, info.epoch)
        patience = self._describe_patience()
        if self.bar is not None:
            # A bar has little space: the validation loss replaces the loss.
            values = [*(scores or losses), *skipped]
            self.bar.set_description_str(self.prefix, refresh=False)
            self.bar.set_postfix_str(
                ", ".join([*time_left, *values, *patience]), refresh=False
            )
            self.bar.update(info.epoch - self.bar.n)
        elif (
            self.show
            and info.epoch < self.epochs
            and self._is_line_due(now, info.epoch)
        ):
            self.next_line_at = now + SECONDS_BETWEEN_LINES
            values = ", ".join([*self.last_values, *time_left, *patience])
            self._print(f"epoch {info.epoch}/{self.epochs}: {values}")

    def _is_line_due(self, now: float, epoch: int) -> bool:
        """Whether to print a line.

        The time left is not known after the first epoch, which therefore has a line
        only if it took long.
        """
        if epoch == self.epochs_done + 1:
            return now >= self.started_at + SECONDS_BETWEEN_LINES
        return now >= self.next_line_at

    def _estimate_time_left(self, now: float, epoch: int) -> list[str]:
        """Return the time left in words, if it is known.

        The first epoch does not count, because it compiles.
        """
        n_timed = epoch - self.epochs_done - 1
        if n_timed == 0 or epoch == self.epochs:
            return []
        seconds_per_epoch = (now - self.first_epoch_at) / n_timed
        left = format_seconds(seconds_per_epoch * (self.epochs - epoch))
        if self.patience is None:
            return [f"{left} left"]
        return [f"at most {left}"]

    def _describe_skipped(self) -> list[str]:
        return [f"{self.skipped} steps skipped"] if self.skipped else []

    def _describe_patience(self) -> list[str]:
        if self.patience is None:
            return []
        return [f"stops after {_format_epochs(self.patience)} without improvement"]

    def end(self, epoch_metrics: list[Metrics]) -> None:
        """Print what ended the run, unless it was too short to be shown."""
        seconds = time.monotonic() - self.started_at
        if not self.show or seconds < SILENT_SECONDS or not self.last_values:
            return
        if self.bar is not None:
            self.bar.close()

        best = describe_best_epochs(epoch_metrics)
        # The best validation loss replaces the last losses.
        values = self._describe_skipped() if best else self.last_values
        text = ", ".join([*best, *values, format_seconds(seconds)])
        self._print(
            f"{describe_end(epoch_metrics, self.epochs, self.patience)}: {text}"
        )


def describe_end(
    epoch_metrics: list[Metrics], max_epochs: int, patience: int | None
) -> str:
    """Describe what ended a run of one model or many.

    Parameters
    ----------
    epoch_metrics : list of Metrics
        One for each epoch.
    max_epochs : int
    patience : int, optional
    """
    if len(epoch_metrics) == max_epochs:
        end = f"all {_format_epochs(max_epochs)}"
    else:
        end = f"stopped in epoch {len(epoch_metrics)} of {max_epochs}"
    if patience is None:
        return end

    # A model that stopped earlier than its patience allows has failed.
    stopped = Metrics.stack(epoch_metrics).stopped.reshape(len(epoch_metrics), -1)
    last_epochs = np.argmax(stopped, axis=0) + 1
    out_of_patience = last_epochs - _find_best_epochs(epoch_metrics) >= patience
    n_stopped = int(np.sum(stopped[-1] & out_of_patience))
    if n_stopped == 0:
        return end
    n_models = stopped.shape[1]
    subject = ""
    if n_stopped < n_models:
        subject = f"{n_stopped} of {n_models} models stopped after "
    return f"{end}, {subject}{_format_epochs(patience)} without improvement"


def describe_best_epochs(epoch_metrics: list[Metrics]) -> list[str]:
    """Describe the best epochs and their validation loss; empty if there is none."""
    best = _find_best_epochs(epoch_metrics)
    scored = best > 0
    if not scored.any():
        return []
    scores = Metrics.stack(epoch_metrics).validation.reshape(len(epoch_metrics), -1)
    first = best[scored].min()
    last = best[scored].max()
    text = f"best epoch {first}" if first == last else f"best epochs {first} to {last}"
    lowest = np.nanmin(scores[:, scored], axis=0)
    return [text, _format_median("validation", lowest)]


def _find_best_epochs(epoch_metrics: list[Metrics]) -> np.ndarray:
    """Return the epoch with the lowest validation loss of each model; 0 without one."""
    scores = Metrics.stack(epoch_metrics).validation.reshape(len(epoch_metrics), -1)
    finite = np.isfinite(scores)
    best = np.argmin(np.where(finite, scores, np.inf), axis=0) + 1
    return np.where(finite.any(axis=0), best, 0)


def format_seconds(seconds: float) -> str:
    """Return a duration as 0:07, 12:34 or 1:02:03."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}:{minutes:02}:{seconds:02}"
    return f"{minutes}:{seconds:02}"


def _format_median(name: str, values: Any) -> str:
    return f"{name} {np.nanmedian(values):.4g}"


def _format_epochs(number: int) -> str:
    return f"{number} epoch" if number == 1 else f"{number} epochs"
