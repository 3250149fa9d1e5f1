"""Which inputs matter, and how spread and correlations change with those that matter most."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from mmlp.reporting.baselines import Errors
from mmlp.reporting.content import GOOD, NEUTRAL, Figure, Image, Section
from mmlp.reporting.drawing import panel, plain
from mmlp.reporting.importance import (
    COLUMNS,
    FEWEST,
    SURE,
    Importance,
    budget,
    permutation_importance,
)
from mmlp.reporting.observed import SHOWN, correlations, deviations, strongest
from mmlp.reporting.rows import Column, Rows, listed

BARS, LEVELS, BINS = (
    20,
    12,
    12,
)  # inputs with a bar; levels of text; bins of numbers and dates
TOP, PAIRS = 3, 4
ALONE = (
    "By spread and correlation alone: the mean stays as it was, and only the covariance is that of "
    "the shuffled column."
)


def importance(
    score: Callable,
    rows: Rows,
    tell: Callable,
    what: str,
    parts: Sequence[str] = ("loss",),
) -> tuple[Section, list[Importance]]:
    """Permutation importance by score(rows) -> (X -> (k, n)), of k `parts`, the first the whole."""
    result = Section("importance", "Which inputs matter")
    n, repeats = budget(len(rows.used), len(rows))
    if len(rows) < FEWEST:
        result.about = f"This takes at least {FEWEST} rows; here there are {len(rows)}."
        return result, []
    some = rows.some(n, seed=1)
    found = permutation_importance(score(some), some, tell, repeats=repeats)
    result.about = (
        f"Each column of the table is shuffled in turn ({repeats} times, {n:,} rows): how much "
        f"worse {what} becomes, on average, is the importance of that input."
    )
    if sure := [rows.inputs[one.j] for one in found if one.sure()]:
        result.claim(GOOD, "matter", f"Most important first: {listed(sure)}.")
    if idle := [rows.inputs[one.j] for one in found if not one.sure()]:
        result.claim(
            NEUTRAL,
            "no effect seen",
            f"Shuffling costs no more than chance: {listed(idle)}.",
        )
    result.parts.append(_bars(found[:BARS], rows, parts))
    table = [
        {
            "name": rows.inputs[one.j],
            "cells": [
                {"mean": float(mean), "error": float(error)}
                for mean, error in zip(one.means, one.errors, strict=True)
            ],
        }
        for one in found[:BARS]
    ]
    note = "What shuffling costs a row, on average ± the standard error."
    result.table("Importance", ["input", *parts], table, note)
    result.notes += _notes(rows, len(found))
    return result, found


def sections(model, rows: Rows, errors: Errors, tell: Callable) -> list[Section]:
    """Importance, and the predicted spread along the inputs that change it most."""
    words = "the log score (nats a row)", ("in all", "by spread and correlation alone")
    first, found = importance(log_scores_of(model), rows, tell, *words)
    if not found:
        return [first]
    first.notes.insert(0, ALONE)
    second = Section("spread", "How spread and correlation change")
    changing = sorted(
        (one for one in found if one.sure(1)), key=lambda one: -one.means[1]
    )
    names = [rows.inputs[one.j] for one in changing]
    if names:
        second.claim(GOOD, "change", f"Most with: {listed(names)}.")
    else:
        second.claim(
            NEUTRAL,
            "no change seen",
            "Spread and correlation are about the same everywhere.",
        )
    second.about = (
        "Predicted standard deviations, as a multiple of their mean over all rows, and predicted "
        "correlations, averaged over rows with about the same value of an input: of those that "
        "change them most. Other inputs differ along the way as they do in the table."
    )
    std, d = deviations(errors.law)[:, :SHOWN], len(rows.targets)
    lines = {rows.targets[k]: std[:, k] / std[:, k].mean() for k in range(std.shape[1])}
    pairs = {}
    for i, j in strongest(errors.law, d, PAIRS) if d > 1 else ():
        pairs[f"{rows.targets[i]}, {rows.targets[j]}"] = correlations(
            errors.law, [i, j]
        )[:, 0, 1]
    columns = [rows.column(one.j) for one in (changing or found)[:TOP]]
    highest = max(
        means.max() for column in columns for means in averaged(column, lines).values()
    )
    for column in columns:
        tell(f"spread along {column.name}")
        panels = [along(column, lines, "spread / its mean", (0, 1.05 * highest))]
        panels += [along(column, pairs, "correlation", (-1.05, 1.05))] if pairs else []
        second.parts.append(Figure(panels, _caption(column, d)))
    return [first, second]


def log_scores_of(model: Any) -> Callable:
    """rows -> (X -> log p(y | x) of these rows, and that with the mean as it was, (2, n))."""

    def scores_of(rows: Rows) -> Callable:
        def residuals(X) -> np.ndarray:
            mean = np.asarray(model.predict(X), float).reshape(len(rows), -1)
            return rows.y - mean[:, model.varying_targets_]

        before = residuals(rows.X)

        def scores(X) -> np.ndarray:
            law = model._error_distribution(X)
            both = np.stack([residuals(X), before]).astype(law.loc.dtype)
            return np.asarray(law.log_prob(both), float)

        return scores

    return scores_of


def averaged(column: Column, lines: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Means of quantities of rows in each bin or level of a column."""
    where, which, _ = binned(column)
    counts = np.bincount(which[which >= 0], minlength=len(where))
    return {
        name: np.bincount(which[which >= 0], values[which >= 0], len(where)) / counts
        for name, values in lines.items()
    }


def along(column: Column, lines: dict[str, np.ndarray], label: str, limits) -> Image:
    """Means of quantities of rows over the bins or levels of a column, drawn."""
    where, _, names = binned(column)
    means = averaged(column, lines)

    def draw(ax: Axes) -> None:
        for name, values in means.items():
            ax.plot(
                where,
                values,
                "o-" if names is None else "o",
                markersize=4,
                label=plain(name),
            )
        if names is not None:
            ax.set_xticks(
                where, [plain(name, 14) for name in names], rotation=45, ha="right"
            )
        elif column.kind == "date":
            ax.tick_params(axis="x", rotation=30)
        ax.set(xlabel=plain(column.name), ylabel=label, ylim=limits)
        ax.legend(fontsize="small", ncols=2 if len(means) > 3 else 1)

    spans = (f"{name} {v.min():.2f} to {v.max():.2f}" for name, v in means.items())
    return panel(draw, f"{label} along {column.name}: {'; '.join(spans)}")


def binned(column: Column) -> tuple[np.ndarray, np.ndarray, list[str] | None]:
    """Where bins stand, the bin of each row (-1: none), and the names of levels of text."""
    values = column.values
    if column.kind == "text":
        levels, which, counts = np.unique(
            values, return_inverse=True, return_counts=True
        )
        keep = np.sort(np.argsort(-counts, kind="stable")[:LEVELS])
        place = np.full(len(levels), -1)
        place[keep] = np.arange(len(keep))
        return np.arange(len(keep)), place[which], [str(levels[k]) for k in keep]
    known = ~np.isnat(values) if column.kind == "date" else np.isfinite(values)
    numbers = values.astype(float)
    distinct = np.unique(numbers[known])
    if len(distinct) > LEVELS:
        edges = np.unique(np.quantile(numbers[known], np.linspace(0, 1, BINS + 1)))
        which = np.clip(np.searchsorted(edges, numbers, "right") - 1, 0, len(edges) - 2)
    else:
        which = np.searchsorted(distinct, numbers)
    which = np.where(known, which, -1)
    used, which[known] = np.unique(which[known], return_inverse=True)
    centre = np.array([np.mean(numbers[which == k]) for k in range(len(used))])
    return (
        (centre.astype("datetime64[s]") if column.kind == "date" else centre),
        which,
        None,
    )


def _bars(found: list[Importance], rows: Rows, parts: Sequence[str]) -> str:
    names, k = [rows.inputs[one.j] for one in found], len(parts)

    def draw(ax: Axes) -> None:
        y, height = np.arange(len(found))[::-1], 0.7 / k
        for part, label in enumerate(parts):
            at = y + height * ((k - 1) / 2 - part)
            means = [one.means[part] for one in found]
            ax.barh(at, means, height, color=f"C{part}", alpha=0.75, label=label)
            errors = [SURE * one.errors[part] for one in found]
            ax.errorbar(means, at, xerr=errors, fmt="none", ecolor="0.2", linewidth=1)
        ax.axvline(0, color="0.4", linewidth=0.8)
        ax.set_yticks(y, [plain(name) for name in names])
        ax.set_xlabel("loss by shuffling")
        if k > 1:
            ax.legend(loc="lower right")

    alt = "; ".join(
        f"{name} {one.means[0]:.2g}" for name, one in zip(names, found, strict=True)
    )
    size = (4.2, 0.9 + (0.16 + 0.12 * k) * len(found))
    picture = panel(draw, f"Importance of inputs: {alt}", size)
    return Figure([picture], "Lines are two standard errors over rows, to either side.")


def _notes(rows: Rows, count: int) -> list[str]:
    notes = [
        "An input that says the same as another may seem to matter little: the other is still "
        "there when it is shuffled.",
    ]
    p = len(rows.used)
    notes += (
        [f"The {BARS} most important of {count} are drawn."] if count > BARS else []
    )
    notes += (
        [f"Only the first {COLUMNS} of {p} columns were shuffled."] if p > count else []
    )
    return notes


def _caption(column: Column, d: int) -> str:
    what = {"number": "along", "date": "over", "text": "by"}[column.kind]
    levels = (
        f" The {LEVELS} most frequent levels at most." if column.kind == "text" else ""
    )
    return f"Spread {'and correlation ' if d > 1 else ''}{what} {column.name}.{levels}"
