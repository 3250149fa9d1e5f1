"""Format the record of benchmarks/peers.py as Markdown tables for docs/speed.md.

Ratios are times over ours, so that a ratio above one means that we are faster. Times
are medians over turns.
"""

import json
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rivals.turns import compute_ratio, find_fastest

RESULTS = Path(__file__).resolve().parents[2] / "results"
OURS = "ours"
MATRIX = "MatrixMLP, 3 x 30"
JOINT = "JointMatrixMLP, 2 x 16 + 100"
WIDE = "CholeskyMLP, 2 x 100"
JACOBIANS = "explicit Jacobians, one sample"
PRODUCT = "product"

GPU_AIMS_IN_MILLISECONDS = {
    "step of NfNf, 3 x 30, d = 10, batch 50, Adam on one vector": 0.25,
    "step of NfNf, 3 x 30, d = 560, batch 100, dense output, Adam on one vector": 13,
    "von Neumann with gradient, 1000 x 64": 8,
    "von Neumann with gradient, 10 x 560": 100,
}
# How many times as long as `MatrixMLP` a rival should take, at least.
MIN_STEP_RATIOS = {
    "batch 10": {"PyTorch, eager": 10, "PyTorch, compiled": 4},
    "batch 50": {"PyTorch, eager": 5, "PyTorch, compiled": 3},
}
MAX_JOINT_RATIO = 3
MAX_TIME_EXPONENT = 3
MAX_MEMORY_EXPONENT = 2

# A row of the record: name, threads, milliseconds of each turn, facts.
Row = dict[str, Any]
Record = dict[str, Any]


def read_record(name: str = "speed") -> Record | None:
    """Read a record from results/; None if there is none."""
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None


# Cells


def format_markdown(header: list[str], rows: list[list[str]]) -> str:
    """Return a Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def format_number(value: float | None, unit: str = "") -> str:
    """Return a number with three digits, or a dash for one that was not measured."""
    if value is None:
        return "-"
    digits = f"{value:.0f}" if abs(value) >= 100 else f"{value:#.3g}".rstrip(".")
    return f"{digits}{unit}"


def median_milliseconds(rows: list[Row], name: str) -> float | None:
    """Return the median time of a rival at its best number of threads."""
    row = find_fastest(rows, name)
    return None if row is None else statistics.median(row["ms"])


def list_names(rows: list[Row]) -> list[str]:
    """Return the names of all rivals, once each, in their order."""
    return list(dict.fromkeys(row["name"] for row in rows))


def format_comparison(tables: dict[str, list[Row]], ours: str) -> str:
    """Return a table with one column per case and one line per rival.

    A cell has the milliseconds, the ratio to ours, and the number of threads.
    """

    def format_cell(rows: list[Row], name: str) -> str:
        best = find_fastest(rows, name)
        if best is None:
            return "failed"
        milliseconds = format_number(median_milliseconds(rows, name), " ms")
        ratio = ""
        if name != ours:
            ratio = f", {format_number(compute_ratio(rows, name, ours))}x"
        return f"{milliseconds}{ratio} ({best['threads']})"

    names = list_names(next(iter(tables.values())))
    lines = [
        [name, *(format_cell(rows, name) for rows in tables.values())] for name in names
    ]
    return format_markdown(["", *tables], lines)


# Tables


def format_steps(record: Record) -> str:
    """Return the times of a training step."""
    return format_comparison(record["steps"], MATRIX)


def format_joint(record: Record) -> str:
    """Return the times of the recommended network and a Cholesky MLP."""
    return format_comparison(record["joint"], WIDE)


def format_densities(record: Record) -> str:
    """Return the times of log densities."""
    return format_comparison(record["densities"], OURS)


def format_divergences(record: Record) -> str:
    """Return the times of divergences."""
    return format_comparison(record["divergences"], OURS)


def format_jacobians(record: Record) -> str:
    """Return the time of explicit Jacobians, for the ten samples of one of our steps."""
    rows = record["jacobians"]
    explicit = median_milliseconds(rows, JACOBIANS)
    ours = median_milliseconds(rows, MATRIX)
    ratio = None
    if explicit is not None and ours is not None:
        ratio = 10 * explicit / ours
    header = ["", "a sample's gradient", "a step of ten, ours", "ten samples / ours"]
    cells = [
        "explicit",
        format_number(explicit, " ms"),
        format_number(ours, " ms"),
        format_number(ratio),
    ]
    return format_markdown(header, [cells])


def format_errors(record: Record) -> str:
    """Return the errors of the gradient with respect to a factor, in float32."""
    errors_by_name = {
        row["name"]: row["errors"]
        for row in record["divergences"]["50 x 10"]
        if "errors" in row
    }
    kinds = list(next(iter(errors_by_name.values())))
    lines = []
    for name, errors in errors_by_name.items():
        cells = [
            "not finite" if errors[kind] is None else f"{errors[kind]:.0e}"
            for kind in kinds
        ]
        lines.append([name, *cells])
    return format_markdown(["", *kinds], lines)


def compute_share_of_product(record: Record, name: str) -> float | None:
    """Return the rate of arithmetic relative to that of a large matrix product."""
    row = find_fastest(record["growth"], name)
    product = find_fastest(record["growth"], PRODUCT)
    if row is None or product is None:
        return None
    rate = row["mflop"] / statistics.median(row["ms"])
    product_rate = product["mflop"] / statistics.median(product["ms"])
    return rate / product_rate


def format_growth(record: Record) -> str:
    """Return the rates of arithmetic for more rows and more layers."""
    lines = []
    for row in record["growth"]:
        if not row.get("ms"):
            continue
        milliseconds = statistics.median(row["ms"])
        share = compute_share_of_product(record, row["name"]) or 0
        lines.append(
            [
                row["name"],
                format_number(milliseconds, " ms"),
                f"{row['mflop']:.0f} Mflop",
                format_number(row["mflop"] / milliseconds, " Gflop/s"),
                f"{100 * share:.0f} %",
            ]
        )
    header = ["", "a step", "arithmetic", "rate", "of a large product's"]
    return format_markdown(header, lines)


def fit_exponents(table: list[Row]) -> tuple[float, float]:
    """Return the powers of d with which time and memory grow."""
    log_sizes = np.log([row["d"] for row in table])
    log_times = np.log([row["ms"] for row in table])
    log_memory = np.log([row["above idle"] for row in table])
    time_exponent = np.polyfit(log_sizes, log_times, 1)[0]
    memory_exponent = np.polyfit(log_sizes, log_memory, 1)[0]
    return float(time_exponent), float(memory_exponent)


def format_size(record: Record) -> str:
    """Return time and memory by the size of the matrix."""
    tables = record["size"]
    header = ["d"]
    exponents = ["grows as"]
    for loss, table in tables.items():
        header += [f"{loss}, time", f"{loss}, memory"]
        exponents += [f"d^{exponent:.2f}" for exponent in fit_exponents(table)]

    lines = []
    for rows in zip(*tables.values(), strict=True):
        cells = [f"{rows[0]['d']:.0f}"]
        for row in rows:
            cells.append(format_number(row["ms"], " ms"))
            cells.append(format_number(row["above idle"], " MiB"))
        lines.append(cells)
    return format_markdown(header, [*lines, exponents])


def format_first(record: Record) -> str:
    """Return the times of a first fit."""
    lines = [
        [
            kind,
            format_number(run["import"], " s"),
            format_number(run["seconds"], " s"),
            format_number(run["cpu"], " s"),
            format_number(run["compilations"]),
        ]
        for kind, run in record["first"].items()
    ]
    header = ["", "import", "in all", "processor time", "compilations"]
    return format_markdown(header, lines)


def format_gpu(record: Record) -> str:
    """Return the table of a record of benchmarks/gpu.py.

    Its rows have `ms` and `before`, the time of version 0.1.0 or null.
    """
    lines = []
    for row in record["rows"]:
        aim = GPU_AIMS_IN_MILLISECONDS.get(row["what"])
        verdict = "-"
        if aim is not None:
            is_met = row["ms"] < aim
            verdict = f"{format_number(aim, ' ms')}: {'met' if is_met else 'missed'}"
        lines.append(
            [
                row["what"],
                format_number(row["ms"], " ms"),
                format_number(row.get("before"), " ms"),
                verdict,
            ]
        )
    device = f"{record['device']}, jax {record['jax']}"
    return format_markdown([device, "now", "0.1.0", "aim below"], lines)


def format_machine(record: Record) -> str:
    """Return cores and versions, and the load when each part began."""
    machine = record.get("machine", "-")
    jax_version = record.get("jax", "-")
    torch_version = record.get("torch", "-")
    loads = [f"{part} {load}" for part, load in record.get("load", {}).items()]
    return (
        f"{machine}, jax {jax_version}, PyTorch {torch_version}. "
        "Load average when a part began (near zero on a quiet machine): "
        f"{', '.join(loads) or '-'}."
    )


# Aims


class Aim(NamedTuple):
    """A goal of this version, and the value that was measured for it (or None)."""

    name: str
    value: float | None
    limit: float
    is_minimum: bool

    @property
    def is_met(self) -> bool:
        """Whether the value was measured and is within its limit."""
        if self.value is None:
            return False
        if self.is_minimum:
            return self.value >= self.limit
        return self.value <= self.limit


def list_aims(record: Record) -> list[Aim]:
    """Return the aims of this version with their measured values."""
    aims = []
    for batch, limits in MIN_STEP_RATIOS.items():
        rows = record.get("steps", {}).get(batch, [])
        for rival, limit in limits.items():
            name = f"{rival} / `MatrixMLP`, 3 x 30, {batch}"
            ratio = compute_ratio(rows, rival, MATRIX)
            aims.append(Aim(name, ratio, limit, is_minimum=True))

    for case, rows in record.get("joint", {}).items():
        name = f"`JointMatrixMLP`, 2 x 16 + 100 / `CholeskyMLP`, 2 x 100, {case}"
        ratio = compute_ratio(rows, JOINT, WIDE)
        aims.append(Aim(name, ratio, MAX_JOINT_RATIO, is_minimum=False))

    for loss, table in record.get("size", {}).items():
        time_exponent, memory_exponent = fit_exponents(table)
        time_name = f"power of d, time of {loss} with gradient"
        memory_name = f"power of d, memory of {loss} with gradient"
        aims.append(Aim(time_name, time_exponent, MAX_TIME_EXPONENT, is_minimum=False))
        aims.append(
            Aim(memory_name, memory_exponent, MAX_MEMORY_EXPONENT, is_minimum=False)
        )
    return aims


def format_verdicts(record: Record) -> str:
    """Return a table that says which aims are met."""
    lines = []
    for aim in list_aims(record):
        if aim.value is None:
            verdict = "not measured"
        else:
            verdict = "met" if aim.is_met else "missed"
        limit = f"{'at least' if aim.is_minimum else 'at most'} {aim.limit}"
        lines.append([aim.name, format_number(aim.value), limit, verdict])
    return format_markdown(["", "measured", "aim", ""], lines)


# Name of a table in docs/speed.md -> its function
TABLES: dict[str, Callable[[Record], str]] = {
    "verdicts": format_verdicts,
    "steps": format_steps,
    "joint": format_joint,
    "jacobians": format_jacobians,
    "densities": format_densities,
    "divergences": format_divergences,
    "errors": format_errors,
    "growth": format_growth,
    "size": format_size,
    "first": format_first,
}
# Tables that need another part of the record than the one of their own name
PARTS = {"errors": "divergences", "verdicts": "machine"}


def format_table(record: Record | None, name: str) -> str:
    """Return the table of this name, or the command that measures its part."""
    part = PARTS.get(name, name)
    if record is None or part not in record:
        return f"Not measured yet: `python benchmarks/peers.py {part}`."
    return TABLES[name](record)
