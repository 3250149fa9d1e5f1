"""The record of benchmarks/peers.py as tables in Markdown; docs/speed.md shows them.

Ratios are times over ours, so that above one we are faster; medians over turns.
"""

import json
import statistics
from collections.abc import Callable
from pathlib import Path

import numpy as np
from rivals.turns import fastest, ratio

RESULTS = Path(__file__).resolve().parents[2] / "results"
MATRIX, JOINT, WIDE = (
    "MatrixMLP, 3 x 30",
    "JointMatrixMLP, 2 x 16 + 100",
    "CholeskyMLP, 2 x 100",
)
JACOBIANS = "explicit Jacobians, one sample"
GPU_AIMS = {  # milliseconds, below which we want to be
    "step of NfNf, 3 x 30, d = 10, batch 50, Adam on one vector": 0.25,
    "step of NfNf, 3 x 30, d = 560, batch 100, dense output, Adam on one vector": 13,
    "von Neumann with gradient, 1000 x 64": 8,
    "von Neumann with gradient, 10 x 560": 100,
}


def read(name: str = "speed") -> dict | None:
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None


def machine(record: dict) -> str:
    """Cores and versions, and how busy it was when each part began."""
    names = {"machine": "", "jax": "jax ", "torch": "PyTorch "}
    line = ", ".join(f"{word}{record.get(key, '-')}" for key, word in names.items())
    loads = ", ".join(f"{part} {load}" for part, load in record.get("load", {}).items())
    return f"{line}. Load average when a part began (near zero on a quiet machine): {loads or '-'}."


def markdown(header: list[str], rows: list[list[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def text(value: float | None, unit: str = "") -> str:
    """Three digits; a dash for what was not measured."""
    if value is None:
        return "-"
    digits = f"{value:.0f}" if abs(value) >= 100 else f"{value:#.3g}".rstrip(".")
    return f"{digits}{unit}"


def median(rows: list[dict], name: str) -> float | None:
    row = fastest(rows, name)
    return None if row is None else statistics.median(row["ms"])


def names(rows: list[dict]) -> list[str]:
    return list(dict.fromkeys(row["name"] for row in rows))


def compared(tables: dict[str, list[dict]], ours: str) -> str:
    """A column for each table: milliseconds, the ratio to ours, and the threads it took."""

    def cell(rows, name):
        best = fastest(rows, name)
        if best is None:
            return "failed"
        times = "" if name == ours else f", {text(ratio(rows, name, ours))}x"
        return f"{text(median(rows, name), ' ms')}{times} ({best['threads']})"

    rows = [
        [name, *(cell(rows, name) for rows in tables.values())]
        for name in names(next(iter(tables.values())))
    ]
    return markdown(["", *tables], rows)


def steps(record: dict) -> str:
    return compared(record["steps"], MATRIX)


def joint(record: dict) -> str:
    return compared(record["joint"], WIDE)


def densities(record: dict) -> str:
    return compared(record["densities"], "ours")


def divergences(record: dict) -> str:
    return compared(record["divergences"], "ours")


def jacobians(record: dict) -> str:
    """For ten samples, as a step of ours has them."""
    rows = record["jacobians"]
    one, ours = median(rows, JACOBIANS), median(rows, MATRIX)
    ten = None if one is None or ours is None else 10 * one / ours
    header = ["", "a sample's gradient", "a step of ten, ours", "ten samples / ours"]
    return markdown(
        header, [["explicit", text(one, " ms"), text(ours, " ms"), text(ten)]]
    )


def errors(record: dict) -> str:
    """Of the gradient by a factor, in float32."""
    rows = {
        row["name"]: row["errors"]
        for row in record["divergences"]["50 x 10"]
        if "errors" in row
    }
    kinds = list(next(iter(rows.values())))
    cells = [
        [name, *("not finite" if e[k] is None else f"{e[k]:.0e}" for k in kinds)]
        for name, e in rows.items()
    ]
    return markdown(["", *kinds], cells)


def share(record: dict, name: str) -> float | None:
    """Of the machine's rate of arithmetic in a large product."""
    row, product = (fastest(record["growth"], who) for who in (name, "product"))
    if row is None or product is None:
        return None
    both = (one["mflop"] / statistics.median(one["ms"]) for one in (row, product))
    return next(both) / next(both)


def growth(record: dict) -> str:
    rows = record["growth"]
    cells = []
    for row in rows:
        if not row.get("ms"):
            continue
        ms, part = statistics.median(row["ms"]), share(record, row["name"])
        rate = text(row["mflop"] / ms, " Gflop/s")
        percent = f"{100 * (part or 0):.0f} %"
        cells.append(
            [row["name"], text(ms, " ms"), f"{row['mflop']:.0f} Mflop", rate, percent]
        )
    return markdown(["", "a step", "arithmetic", "rate", "of a large product's"], cells)


def exponents(table: list[dict]) -> tuple[float, float]:
    """The powers of d with which time and memory grow."""
    logs = {k: np.log([row[k] for row in table]) for k in ("d", "ms", "above idle")}
    time, memory = (np.polyfit(logs["d"], logs[k], 1)[0] for k in ("ms", "above idle"))
    return float(time), float(memory)


def size(record: dict) -> str:
    tables = record["size"]
    cells = []
    for i, row in enumerate(next(iter(tables.values()))):
        pairs = [
            cell
            for table in tables.values()
            for cell in (
                text(table[i]["ms"], " ms"),
                text(table[i]["above idle"], " MiB"),
            )
        ]
        cells.append([f"{row['d']:.0f}", *pairs])
    powers = [
        f"d^{power:.2f}" for table in tables.values() for power in exponents(table)
    ]
    header = [f"{loss}, {what}" for loss in tables for what in ("time", "memory")]
    return markdown(["d", *header], [*cells, ["grows as", *powers]])


def first(record: dict) -> str:
    cells = [
        [
            kind,
            *(text(row[k], " s") for k in ("import", "seconds", "cpu")),
            text(row["compilations"]),
        ]
        for kind, row in record["first"].items()
    ]
    return markdown(["", "import", "in all", "processor time", "compilations"], cells)


def gpu(record: dict) -> str:
    """Of a record of benchmarks/gpu.py: its device, and rows with `ms` and, or null, `before`."""
    cells = []
    for row in record["rows"]:
        aim = GPU_AIMS.get(row["what"])
        met = (
            "-"
            if aim is None
            else f"{text(aim, ' ms')}: {'met' if row['ms'] < aim else 'missed'}"
        )
        cells.append(
            [row["what"], text(row["ms"], " ms"), text(row.get("before"), " ms"), met]
        )
    return markdown(
        [f"{record['device']}, jax {record['jax']}", "now", "0.1.0", "aim below"], cells
    )


def aims(record: dict) -> list[tuple[str, float | None, float, bool]]:
    """What this version set out to reach: (what, measured, aim, whether more is better)."""
    found = []
    for batch, (eager, compiled) in (("batch 10", (10, 4)), ("batch 50", (5, 3))):
        for name, aim in (("PyTorch, eager", eager), ("PyTorch, compiled", compiled)):
            times = ratio(record.get("steps", {}).get(batch, []), name, MATRIX)
            found.append((f"{name} / `MatrixMLP`, 3 x 30, {batch}", times, aim, True))
    for kind, rows in record.get("joint", {}).items():
        what = f"`JointMatrixMLP`, 2 x 16 + 100 / `CholeskyMLP`, 2 x 100, {kind}"
        found.append((what, ratio(rows, JOINT, WIDE), 3, False))
    for loss, table in record.get("size", {}).items():
        for what, power, aim in zip(
            ("time", "memory"), exponents(table), (3, 2), strict=True
        ):
            found.append(
                (f"power of d, {what} of {loss} with gradient", power, aim, False)
            )
    return found


def verdicts(record: dict) -> str:
    cells = []
    for what, value, aim, more in aims(record):
        if value is None:
            verdict = "not measured"
        else:
            verdict = "met" if (value >= aim if more else value <= aim) else "missed"
        bound = f"{'at least' if more else 'at most'} {aim}"
        cells.append([what, text(value), bound, verdict])
    return markdown(["", "measured", "aim", ""], cells)


TABLES: dict[str, Callable[[dict], str]] = {
    function.__name__: function
    for function in (
        *(verdicts, steps, joint, jacobians, densities, divergences, errors),
        *(growth, size, first),
    )
}


def show(record: dict | None, name: str) -> str:
    """The table of this name; where its part was not measured, the command that does it."""
    part = {"errors": "divergences", "verdicts": "machine"}.get(name, name)
    if record is None or part not in record:
        return f"Not measured yet: `python benchmarks/peers.py {part}`."
    return TABLES[name](record)
