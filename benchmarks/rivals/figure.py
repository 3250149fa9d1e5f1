"""One picture of the record of benchmarks/peers.py."""

from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.patches import Patch
from rivals.page import MATRIX, names
from rivals.turns import ratio

TICKS = (0.1, 0.2, 0.5, 1, 2, 5, 10)
COLOURS = ("#3b6ea8", "#d98b2b", "#5a9e6f", "#a35c8f")


def draw(record: dict, path: Path) -> None:
    """Ratios of steps, densities and divergences; growth with d; the first and second fit."""
    figure, axes = plt.subplots(2, 2, figsize=(10, 7.5), layout="constrained")
    bars(axes[0, 0], record.get("steps", {}), MATRIX, "a training step: time over ours")
    logs = record.get("divergences", {})
    peers = record.get("densities", {}) | {
        f"von Neumann, {k}": v for k, v in logs.items()
    }
    bars(axes[0, 1], peers, "ours", "densities and divergences: time over ours")
    by_size(axes[1, 0], record.get("size", {}))
    first(axes[1, 1], record.get("first", {}))
    figure.savefig(path, dpi=130, facecolor="white")
    plt.close(figure)


def bars(axis, tables: dict[str, list[dict]], ours: str, title: str) -> None:
    """A group of bars for each table, a bar for each rival that ran."""
    rivals = list(
        dict.fromkeys(n for rows in tables.values() for n in names(rows) if n != ours)
    )
    height = 0.8 / max(len(rivals), 1)
    for i, name in enumerate(rivals):
        for j, rows in enumerate(tables.values()):
            times = ratio(rows, name, ours)
            place = j + i * height
            if times is not None:
                axis.barh(place, times - 1, height, left=1, color=COLOURS[i])
                axis.annotate(
                    f" {times:.2g}", (max(times, 1), place), va="center", fontsize=7
                )
    axis.axvline(1, color="black", linewidth=0.8)
    axis.set_xscale("log")
    axis.set_xticks([], minor=True)
    axis.set_xticks(TICKS, [f"{tick:g}" for tick in TICKS])
    axis.set_xlim(0.08, 15)
    axis.set_yticks(
        [j + 0.4 - height / 2 for j in range(len(tables))], list(tables), fontsize=8
    )
    axis.invert_yaxis()
    axis.set_title(title, fontsize=10)
    colours = [Patch(color=colour) for colour in COLOURS]
    axis.legend(colours[: len(rivals)], rivals, fontsize=7, loc="lower left")


def by_size(axis, tables: dict[str, list[dict]]) -> None:
    for colour, (loss, table) in zip(COLOURS, tables.items(), strict=False):
        sizes = [row["d"] for row in table]
        axis.loglog(
            sizes, [row["ms"] for row in table], "o-", color=colour, label=f"{loss}, ms"
        )
        memory = [row["above idle"] for row in table]
        axis.loglog(sizes, memory, "s:", color=colour, label=f"{loss}, MiB")
        cubes = [table[0]["ms"] * (d / sizes[0]) ** 3 for d in sizes]
        label = "d^3" if colour == COLOURS[0] else None
        axis.loglog(sizes, cubes, color="grey", linewidth=0.6, label=label)
    axis.set_xlabel("d")
    axis.set_title("a batch of 10 with gradient, by size", fontsize=10)
    if tables:
        axis.legend(fontsize=7)


def first(axis, runs: dict[str, dict]) -> None:
    for i, run in enumerate(runs.values()):
        label = ("import", "the rest") if i == 0 else (None, None)
        axis.barh(i, run["import"], color=COLOURS[1], label=label[0])
        rest = run["seconds"] - run["import"]
        axis.barh(i, rest, left=run["import"], color=COLOURS[0], label=label[1])
    axis.set_yticks(range(len(runs)), list(runs))
    axis.invert_yaxis()
    axis.set_title("a script's first fit, and again: seconds", fontsize=10)
    if runs:
        axis.legend(fontsize=7)
