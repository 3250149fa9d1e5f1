"""Rivals in processes of their own, each with its number of threads, timed in turns.

A rival is "module:function" of this folder and its arguments. In its process the function returns
(run, steps, facts): `run()` takes that many steps, `facts` go into the record. An idle process
waits for a line and takes no time from the others.
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

BENCHMARKS = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Rival:
    """Its name in tables, its function, and how many threads it may use."""

    name: str
    make: str
    arguments: dict = field(default_factory=dict)
    threads: int = 2


class RivalError(Exception):
    """A rival's process ended; the text is the last line of what it said."""


class Process:
    """A rival's process; its first answer, facts, comes when it has compiled and run once."""

    def __init__(self, rival: Rival):
        n = str(rival.threads)
        threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), n)
        paths = [
            str(BENCHMARKS.parent),
            str(BENCHMARKS),
            os.environ.get("PYTHONPATH", ""),
        ]
        variables = {"OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(paths)}
        command = [sys.executable, __file__, rival.make, json.dumps(rival.arguments), n]
        self.said = tempfile.TemporaryFile("w+")  # noqa: SIM115, closed in `close`
        self.process = subprocess.Popen(
            command,
            env={**os.environ, **threads, **variables},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.said,
            text=True,
        )

    def answer(self) -> dict:
        assert self.process.stdout
        line = self.process.stdout.readline()
        if not line:
            self.said.seek(0)
            lines = self.said.read().strip().splitlines() or ["no message"]
            raise RivalError(
                next((line for line in reversed(lines) if "Error: " in line), lines[-1])
            )
        return json.loads(line)

    def seconds(self) -> float:
        """Of one step."""
        assert self.process.stdin
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self.answer()["seconds"]

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()
        self.said.close()


def in_turns(rivals: list[Rival], turns: int) -> list[dict]:
    """A row for each: name, threads, milliseconds of a step in each turn, and facts, or why not."""
    rows, ready = [], {}
    with contextlib.ExitStack() as stack:
        for i, rival in enumerate(rivals):
            row = {"name": rival.name, "threads": rival.threads}
            process = Process(rival)
            stack.callback(process.close)
            try:
                row |= {"ms": [], **process.answer()}
                ready[i] = process
            except RivalError as error:
                row["failed"] = str(error)[:200]
            rows.append(row)
            print(
                f"  ready: {rival.name}",
                row.get("failed", ""),
                file=sys.stderr,
                flush=True,
            )
        for turn in range(turns):
            for i in list(ready):
                try:
                    rows[i]["ms"].append(float(f"{1e3 * ready[i].seconds():.4g}"))
                except RivalError as error:
                    rows[i] = {**rows[i], "ms": [], "failed": str(error)[:200]}
                    del ready[i]
            if turn == 0:
                ready = {i: ready[i] for i in ready if not hopeless(rows, rows[i])}
    return rows


def hopeless(rows: list[dict], row: dict) -> bool:
    """Three times as slow as the same rival with another number of threads: one turn will do."""
    best = fastest(rows, row["name"])
    return best is not None and row["ms"][0] > 3 * best["ms"][0]


def fastest(rows: list[dict], name: str) -> dict | None:
    """The row of this name with the smallest median; None where it failed."""
    mine = [row for row in rows if row["name"] == name and row.get("ms")]
    return min(mine, key=lambda row: statistics.median(row["ms"]), default=None)


def ratio(rows: list[dict], name: str, ours: str) -> float | None:
    """How many times as long as ours: the median over turns, each at its best threads."""
    a, b = fastest(rows, name), fastest(rows, ours)
    if a is None or b is None:
        return None
    return statistics.median(x / y for x, y in zip(a["ms"], b["ms"], strict=True))


def serve(make: str, arguments: str, threads: str) -> None:
    """The rival's side: build, run once, say so; then one run for each line that comes."""
    if int(threads) == 1 and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    module, function = make.split(":")
    out, sys.stdout = sys.stdout, sys.stderr
    run, steps, facts = getattr(importlib.import_module(module), function)(
        **json.loads(arguments)
    )
    run()
    print(json.dumps(facts), file=out, flush=True)
    for _ in sys.stdin:
        start = time.perf_counter()
        run()
        print(
            json.dumps({"seconds": (time.perf_counter() - start) / steps}),
            file=out,
            flush=True,
        )


if __name__ == "__main__":
    serve(*sys.argv[1:])
