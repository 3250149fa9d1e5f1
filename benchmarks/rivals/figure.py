"""Draw the record of benchmarks/peers.py as one picture."""

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import Patch
from rivals.tables import MATRIX, OURS, list_names
from rivals.turns import compute_ratio

RATIO_TICKS = (0.1, 0.2, 0.5, 1, 2, 5, 10)
COLOURS = ("#3b6ea8", "#d98b2b", "#5a9e6f", "#a35c8f")
GROUP_HEIGHT = 0.8  # of the distance between two groups of bars


def draw_record(record: dict[str, Any], path: Path) -> None:
    """Draw ratios of times, growth with d, and the first and second fit."""
    figure, axes = plt.subplots(2, 2, figsize=(10, 7.5), layout="constrained")
    steps = record.get("steps", {})
    draw_ratios(axes[0, 0], steps, MATRIX, "a training step: time over ours")

    tables = dict(record.get("densities", {}))
    for size, rows in record.get("divergences", {}).items():
        tables[f"von Neumann, {size}"] = rows
    title = "densities and divergences: time over ours"
    draw_ratios(axes[0, 1], tables, OURS, title)

    draw_growth(axes[1, 0], record.get("size", {}))
    draw_first_fit(axes[1, 1], record.get("first", {}))
    figure.savefig(path, dpi=130, facecolor="white")
    plt.close(figure)


def draw_ratios(
    axis: Axes, tables: dict[str, list[dict]], ours: str, title: str
) -> None:
    """Draw a group of bars for each table, and in it a bar for each rival that ran."""
    names = [name for rows in tables.values() for name in list_names(rows)]
    rivals = [name for name in dict.fromkeys(names) if name != ours]
    height = GROUP_HEIGHT / max(len(rivals), 1)
    for i, name in enumerate(rivals):
        for j, rows in enumerate(tables.values()):
            ratio = compute_ratio(rows, name, ours)
            if ratio is None:
                continue
            place = j + i * height
            axis.barh(place, ratio - 1, height, left=1, color=COLOURS[i])
            axis.annotate(
                f" {ratio:.2g}", (max(ratio, 1), place), va="center", fontsize=7
            )

    axis.axvline(1, color="black", linewidth=0.8)
    axis.set_xscale("log")
    axis.set_xticks([], minor=True)
    axis.set_xticks(RATIO_TICKS, [f"{tick:g}" for tick in RATIO_TICKS])
    axis.set_xlim(0.08, 15)
    centres = [j + GROUP_HEIGHT / 2 - height / 2 for j in range(len(tables))]
    axis.set_yticks(centres, list(tables), fontsize=8)
    axis.invert_yaxis()
    axis.set_title(title, fontsize=10)
    patches = [Patch(color=colour) for colour in COLOURS[: len(rivals)]]
    axis.legend(patches, rivals, fontsize=7, loc="lower left")


def draw_growth(axis: Axes, tables: dict[str, list[dict]]) -> None:
    """Draw time and memory by size, with d^3 for comparison."""
    for colour, (loss, table) in zip(COLOURS, tables.items(), strict=False):
        sizes = [row["d"] for row in table]
        times = [row["ms"] for row in table]
        memory = [row["above idle"] for row in table]
        axis.loglog(sizes, times, "o-", color=colour, label=f"{loss}, ms")
        axis.loglog(sizes, memory, "s:", color=colour, label=f"{loss}, MiB")

        cubes = [times[0] * (d / sizes[0]) ** 3 for d in sizes]
        label = "d^3" if colour == COLOURS[0] else None
        axis.loglog(sizes, cubes, color="grey", linewidth=0.6, label=label)
    axis.set_xlabel("d")
    axis.set_title("a batch of 10 with gradient, by size", fontsize=10)
    if tables:
        axis.legend(fontsize=7)


def draw_first_fit(axis: Axes, runs: dict[str, dict]) -> None:
    """Draw the seconds of a first fit and of the second run, split at the import."""
    for i, run in enumerate(runs.values()):
        is_first = i == 0
        import_seconds = run["import"]
        other_seconds = run["seconds"] - import_seconds
        axis.barh(
            i,
            import_seconds,
            color=COLOURS[1],
            label="import" if is_first else None,
        )
        axis.barh(
            i,
            other_seconds,
            left=import_seconds,
            color=COLOURS[0],
            label="the rest" if is_first else None,
        )
    axis.set_yticks(range(len(runs)), list(runs))
    axis.invert_yaxis()
    axis.set_title("a script's first fit, and again: seconds", fontsize=10)
    if runs:
        axis.legend(fontsize=7)
