"""Time rivals in turns, each in its own process with its own number of threads.

A rival is "module:function" of this folder and its arguments. In its process the
function returns (run, n_steps, facts): `run()` takes that many steps, and `facts` go
into the record. An idle process waits for a line on its standard input and takes no
time from the others.
"""

import contextlib
import importlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

BENCHMARKS = Path(__file__).resolve().parents[1]
MAX_MESSAGE_LENGTH = 200
# A rival this many times slower than with another number of threads has one turn.
HOPELESS_RATIO = 3


@dataclass(frozen=True)
class Rival:
    """One way to compute the same.

    Parameters
    ----------
    name : str
        Its name in tables.
    make : str
        "module:function" that builds it.
    arguments : dict
        Keyword arguments of the function.
    threads : int
        The number of threads that it may use.
    """

    name: str
    make: str
    arguments: dict = field(default_factory=dict)
    threads: int = 2


class RivalError(Exception):
    """The process of a rival ended; the text is its error message."""


class Process:
    """The process of a rival.

    Its first answer, the facts, comes when it has compiled and run once.
    """

    def __init__(self, rival: Rival) -> None:
        threads = str(rival.threads)
        paths = [
            str(BENCHMARKS.parent),
            str(BENCHMARKS),
            os.environ.get("PYTHONPATH", ""),
        ]
        arguments = json.dumps(rival.arguments)
        self.stderr = tempfile.TemporaryFile("w+")  # noqa: SIM115, closed in `close`
        self.process = subprocess.Popen(
            [sys.executable, __file__, rival.make, arguments, threads],
            env={
                **os.environ,
                "OMP_NUM_THREADS": threads,
                "MKL_NUM_THREADS": threads,
                "OPENBLAS_NUM_THREADS": "1",
                "PYTHONPATH": os.pathsep.join(paths),
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.stderr,
            text=True,
        )

    def read_answer(self) -> dict[str, Any]:
        """Wait for the next line of JSON."""
        assert self.process.stdout
        line = self.process.stdout.readline()
        if not line:
            raise RivalError(self.read_error())
        return json.loads(line)

    def read_error(self) -> str:
        """Return the last line on standard error that names an error."""
        self.stderr.seek(0)
        lines = self.stderr.read().strip().splitlines() or ["no message"]
        errors = [line for line in lines if "Error: " in line]
        return errors[-1] if errors else lines[-1]

    def time_step(self) -> float:
        """Run once and return the seconds per step."""
        assert self.process.stdin
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self.read_answer()["seconds"]

    def close(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.communicate()
        self.stderr.close()


def time_in_turns(rivals: list[Rival], n_turns: int) -> list[dict[str, Any]]:
    """Time all rivals in turns.

    Returns
    -------
    list of dict
        One row per rival: its name, its threads, "ms" (the milliseconds per step of
        each turn) and its facts, or "failed" with the error message.
    """
    rows = []
    running = {}
    with contextlib.ExitStack() as stack:
        for i, rival in enumerate(rivals):
            row: dict[str, Any] = {"name": rival.name, "threads": rival.threads}
            process = Process(rival)
            stack.callback(process.close)
            try:
                row |= {"ms": [], **process.read_answer()}
                running[i] = process
            except RivalError as error:
                row["failed"] = str(error)[:MAX_MESSAGE_LENGTH]
            rows.append(row)
            message = row.get("failed", "")
            print(f"  ready: {rival.name}", message, file=sys.stderr, flush=True)

        for turn in range(n_turns):
            for i in list(running):
                try:
                    milliseconds = 1e3 * running[i].time_step()
                    rows[i]["ms"].append(float(f"{milliseconds:.4g}"))
                except RivalError as error:
                    message = str(error)[:MAX_MESSAGE_LENGTH]
                    rows[i] = {**rows[i], "ms": [], "failed": message}
                    del running[i]
            if turn == 0:
                running = {
                    i: process
                    for i, process in running.items()
                    if not is_hopeless(rows, rows[i])
                }
    return rows


def is_hopeless(rows: list[dict], row: dict) -> bool:
    """Return whether the rival is much faster with another number of threads."""
    best = find_fastest(rows, row["name"])
    return best is not None and row["ms"][0] > HOPELESS_RATIO * best["ms"][0]


def find_fastest(rows: list[dict], name: str) -> dict | None:
    """Return the row of this name with the smallest median; None if all failed."""
    candidates = [row for row in rows if row["name"] == name and row.get("ms")]
    return min(candidates, key=lambda row: statistics.median(row["ms"]), default=None)


def compute_ratio(rows: list[dict], name: str, ours: str) -> float | None:
    """Return the time of a rival over ours, the median of the ratios of the turns.

    Each has the number of threads that suits it best. None if one of them failed.
    """
    theirs_row = find_fastest(rows, name)
    ours_row = find_fastest(rows, ours)
    if theirs_row is None or ours_row is None:
        return None
    pairs = zip(theirs_row["ms"], ours_row["ms"], strict=True)
    return statistics.median(theirs / ours for theirs, ours in pairs)


def serve(make: str, arguments: str, threads: str) -> None:
    """Build a rival, run it once and print its facts; then run once for each line."""
    if int(threads) == 1 and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    # Whatever the rival prints must not mix with the answers.
    answers = sys.stdout
    sys.stdout = sys.stderr

    module, function = make.split(":")
    make_rival = getattr(importlib.import_module(module), function)
    run, n_steps, facts = make_rival(**json.loads(arguments))
    run()
    print(json.dumps(facts), file=answers, flush=True)

    for _ in sys.stdin:
        start = time.perf_counter()
        run()
        seconds = (time.perf_counter() - start) / n_steps
        print(json.dumps({"seconds": seconds}), file=answers, flush=True)


if __name__ == "__main__":
    serve(*sys.argv[1:])
