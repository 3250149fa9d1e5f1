"""What the user sees meanwhile: a bar or lines, the time that is left, and what ended it."""

import contextlib
import fcntl
import io
import os
import pty
import re
import struct
import sys
import termios
import time

import jax
import numpy as np
import optax
import pytest
from fits import KEY, X, Y, fit, loss, model, stacked

import mmlp
from mmlp.training import EpochInfo, progress
from mmlp.training.epoch import Metrics
from mmlp.training.progress import (
    Progress,
    describe_best_epochs,
    describe_end,
    format_seconds,
)


@pytest.fixture
def at_once(monkeypatch):
    """No run is short, and no time passes between lines."""
    monkeypatch.setattr(progress, "SECONDS_BEFORE_COMPILING_IS_SHOWN", 1e9)
    monkeypatch.setattr(progress, "SILENT_SECONDS", 0.0)
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0.0)


def test_short_runs_are_silent(capsys, monkeypatch):
    monkeypatch.setattr(progress, "SILENT_SECONDS", 1e9)  # seconds
    monkeypatch.setattr(progress, "SECONDS_BEFORE_COMPILING_IS_SHOWN", 1e9)
    fit(model(), loss, (X, Y), progress=True)
    assert capsys.readouterr() == ("", "")


def test_where_there_is_no_terminal_progress_is_lines(capsys, at_once):
    fit(model(), loss, (X, Y), progress=True)
    first, second, last = capsys.readouterr().err.splitlines()
    assert first.startswith("epoch 1/3: loss ")
    assert "left" not in first  # the first epoch compiles
    assert second.startswith("epoch 2/3: loss ")
    assert second.endswith(", 0:00 left")
    assert last.startswith("all 3 epochs: loss ")
    fit(model(), loss, (X, Y), progress=False)
    assert capsys.readouterr() == ("", "")


def test_a_run_that_patience_may_end_says_so_and_at_last_whether_it_did(
    capsys, at_once
):
    options = {"optimizer": optax.sgd(3.0), "validation": (X, Y), "patience": 4}
    fit(model(), loss, (X, Y), epochs=50, progress="1/2 mean", **options)
    *lines, last = capsys.readouterr().err.splitlines()
    assert all(line.startswith("1/2 mean: ") for line in (*lines, last))
    assert lines[1].endswith("at most 0:00, stops after 4 epochs without improvement")
    assert last.startswith(
        "1/2 mean: stopped in epoch 5 of 50, 4 epochs without improvement: best epoch 1, "
    )


def test_many_models_are_told_of_together(capsys, at_once):
    keys = jax.random.split(KEY, 2)
    options = {
        "epochs": 30,
        "batch_size": 8,
        "optimizer": optax.sgd(3.0),
        "rates": (1.0, 0.01),
    }
    options |= {"validation": (X, Y), "patience": 4}
    mmlp.fit_many(stacked(keys), loss, (X, Y), keys=keys, **options)
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith(
        "all 30 epochs, 1 of 2 models stopped after 4 epochs without improvement: "
    )


class Clock:
    now = 0.0

    def monotonic(self):
        return self.now


@pytest.mark.parametrize(
    ("patience", "left"),
    [
        (None, "1:30 left"),
        (7, "at most 1:30, stops after 7 epochs without improvement"),
    ],
)
def test_the_time_left_leaves_out_the_epoch_that_compiles(
    patience, left, capsys, monkeypatch
):
    monkeypatch.setattr(progress, "time", Clock())
    values = {"validation": None, "skipped": 0, "step_scale": 1.0, "model": int}
    with Progress(200, 100, show=True, patience=patience) as shown:
        for epoch in range(101, 112):
            Clock.now += 100 if epoch == 101 else 1
            shown.update(EpochInfo(epoch, 200, loss=0.5, **values))
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("epoch 101/200: loss 0.5")  # it took long
    assert len(lines) == 2
    assert lines[1].split(": ", 1)[1] == f"loss 0.5, {left.replace('1:30', '1:29')}"


@pytest.mark.parametrize("on_terminal", [False, True])
def test_progress_says_that_it_compiles_until_the_first_epoch_is_done(
    monkeypatch, on_terminal
):
    info = EpochInfo(
        1, 9, loss=1.0, validation=None, skipped=0, step_scale=1.0, model=int
    )
    for seconds, show, epochs in ((0.0, "named", 0), (0.0, False, 0), (0.05, True, 1)):
        stderr = io.StringIO()
        stderr.isatty = lambda: on_terminal
        monkeypatch.setattr(sys, "stderr", stderr)
        monkeypatch.setattr(progress, "SECONDS_BEFORE_COMPILING_IS_SHOWN", seconds)
        with Progress(9, 0, show=show) as bar:
            for _ in range(epochs):
                bar.update(info)
            if show:
                bar.timer.join()
        assert ("named: compiling" in stderr.getvalue()) == (show == "named")
        assert ("compiling" in stderr.getvalue()) == (show == "named")


def test_on_a_terminal_progress_is_a_bar_and_then_a_line(monkeypatch, at_once):
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 110, 0, 0))
    with os.fdopen(slave, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        options = {"optimizer": optax.sgd(3.0), "validation": (X, Y), "patience": 4}

        def slowly(info):  # or the bar is not drawn again
            time.sleep(0.12 * (info.epoch == 1))

        fit(
            model(),
            loss,
            (X, Y),
            epochs=50,
            progress="mean",
            on_epoch=slowly,
            **options,
        )
        monkeypatch.undo()
    text = b""
    with contextlib.suppress(OSError):  # the end, on Linux
        while piece := os.read(master, 2**16):
            text += piece
    os.close(master)
    bars, last = text.decode().rstrip().rsplit("\r", 1)
    assert re.search(r"mean: [12]/50 epochs \|", bars)
    assert "validation" in bars
    assert "stops after 4 epochs without improvement" in bars
    assert last.startswith(
        "mean: stopped in epoch 5 of 50, 4 epochs without improvement: best epoch 1, "
    )


def metrics(validation, stopped):
    """Of epochs, each a number or one for each model."""
    rest = {"loss": np.array(1.0), "skipped": np.array(0), "step_scale": np.array(1.0)}
    pairs = zip(validation, stopped, strict=True)
    return [
        Metrics(validation=np.array(v), stopped=np.array(s), **rest) for v, s in pairs
    ]


NAN = float("nan")


@pytest.mark.parametrize(
    ("validation", "stopped", "limit", "patience", "text", "best"),
    [
        ([NAN] * 3, [False] * 3, 3, None, "all 3 epochs", []),
        (
            [3.0, 1.0, 2.0],
            [False] * 3,
            3,
            2,
            "all 3 epochs",
            ["best epoch 2", "validation 1"],
        ),
        (
            *([3.0, 1.0, 2.0, 2.0], [False] * 3 + [True], 9, 2),
            *(
                "stopped in epoch 4 of 9, 2 epochs without improvement",
                ["best epoch 2", "validation 1"],
            ),
        ),
        (
            *([3.0, 1.0, 2.0], [False, False, True], 3, 1),
            *(
                "all 3 epochs, 1 epoch without improvement",
                ["best epoch 2", "validation 1"],
            ),
        ),
        (  # one failed, and rests; the other came to the end
            *(
                [(1.0, 3.0), (NAN, 2.0), (NAN, 1.0)],
                [(False, False), (True, False), (True, False)],
            ),
            *(3, 2, "all 3 epochs", ["best epochs 1 to 3", "validation 1"]),
        ),
        (
            [(NAN, NAN)] * 2,
            [(False, False), (True, True)],
            9,
            2,
            "stopped in epoch 2 of 9, 2 epochs without improvement",
            [],
        ),
    ],
)
def test_what_ended_a_run(validation, stopped, limit, patience, text, best):
    epochs = metrics(validation, stopped)
    assert describe_end(epochs, limit, patience) == text
    assert describe_best_epochs(epochs) == best


def test_times_are_short():
    assert [format_seconds(s) for s in (0.4, 7, 754, 3723)] == [
        "0:00",
        "0:07",
        "12:34",
        "1:02:03",
    ]
