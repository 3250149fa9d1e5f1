"""Predictions beside what was observed: intervals, ellipses, and the rows that fit worst."""

import itertools
from collections.abc import Sequence

import equinox as eqx
import numpy as np
from matplotlib.axes import Axes

from mmlp.distributions import Elliptical
from mmlp.plotting import plot_ellipses
from mmlp.reporting.baselines import Errors
from mmlp.reporting.content import Figure, Section
from mmlp.reporting.drawing import panel, percent, plain
from mmlp.reporting.number_format import MINUS
from mmlp.reporting.rows import Rows
from mmlp.reporting.scores import Scored, part

SHOWN, POINTS, BARS = (
    6,
    1500,
    150,
)  # targets with a panel; rows in one, and with an interval
PAIRS, ELLIPSES = 3, 12
WORST, TARGETS = 10, 3  # rows of the table; targets up to which each has a column


def section(errors: Errors, mean: np.ndarray, rows: Rows) -> Section:
    """A panel a target, and ellipses for pairs of targets."""
    result = Section("observed", "Predicted and observed")
    d, std = len(rows.targets), deviations(errors.law)
    half = np.broadcast_to(errors.law.marginal_quantile(0.95), len(rows))[:, None] * std
    panels = []
    for j in range(min(d, SHOWN)):
        inside = np.mean(np.abs(errors.values[:, j]) <= half[:, j])
        alt = f"{rows.targets[j]}: observed against predicted, {percent(inside)} in 90 % intervals"
        columns = mean[:, j], rows.y[:, j], half[:, j], rows.targets[j]
        panels.append(panel(lambda ax, columns=columns: _intervals(ax, *columns), alt))
    caption = "Observed against predicted, with 90 % intervals of the prediction; at best the "
    caption += f"points lie about the diagonal, one in ten outside. {_said(rows, d)}"
    result.parts.append(Figure(panels, caption))
    if d > 1:
        result.parts.append(_ellipses(errors.law, mean, rows))
    return result


def deviations(law: Elliptical) -> np.ndarray:
    """Standard deviations (n, d)."""
    return np.sqrt(np.asarray(law.covariance.diagonal(), float))


def correlations(law: Elliptical, columns: list[int]) -> np.ndarray:
    """Of some targets, (n, k, k)."""
    V = np.asarray(law.covariance.marginal(columns).dense(), float)
    scale = np.sqrt(np.diagonal(V, axis1=1, axis2=2))
    return V / scale[:, None] / scale[..., None]


def strongest(law: Elliptical, d: int, most: int) -> list[tuple[int, int]]:
    """The pairs of the first targets with the strongest correlations on average."""
    columns = list(range(min(d, SHOWN)))
    size = np.mean(np.abs(correlations(law, columns)), axis=0)
    pairs = sorted(itertools.combinations(columns, 2), key=lambda pair: -size[pair])
    return pairs[:most]


def worst(own: Scored, mean: np.ndarray, rows: Rows) -> Section:
    """The rows of the lowest density."""
    result = Section("worst", "The worst rows")
    result.about = (
        "The rows to which the model gave the lowest density: errors in the data, cases unlike the "
        "others, or places where the model is wrong. The distance is in standard deviations, with "
        "the probability of a row as far out as that."
    )
    errors, law = own.errors
    std, d = deviations(law), len(rows.targets)
    factor = np.sqrt(np.asarray(law.variance_factor(), float))
    distance = (
        np.asarray(law.mahalanobis(np.asarray(errors, law.loc.dtype)), float) / factor
    )
    order = np.argsort(-own.surprise, kind="stable")[:WORST]
    each = d <= TARGETS
    columns = ["row", "log density", "distance", "probability"]
    columns += list(rows.targets) if each else ["farthest target"]
    table = []
    for i in order:
        shown = range(d) if each else [int(np.argmax(np.abs(errors[i] / std[i])))]
        texts = []
        for j in shown:
            text = compared(rows.y[i, j], mean[i, j], std[i, j])
            texts.append(text if each else f"{rows.targets[j]}: {text}")
        density, far, chance = map(
            float, (-own.surprise[i], distance[i], 1 - own.pit[i])
        )
        numbers = [round(density, 2), round(far, 2), f"{chance:.1g}"]
        name = rows.place(int(rows.number[i]))
        table.append({"name": name, "cells": [*numbers, *texts]})
    note = "Targets: observed (predicted ± standard deviation)."
    result.table("Lowest density first", columns, table, note)
    return result


def compared(y: float, mean: float, std: float) -> str:
    """What was observed, and in brackets what was predicted, to two digits of its deviation.

    >>> compared(10.4812, 0.31, 3.94), compared(1200.0, 31.0, 250.0)
    ('10.5 (0.3 ± 3.9)', '1200 (31 ± 250)')
    """
    y_text, mean_text, std_text = shortened((y, mean, std), std)
    return f"{y_text} ({mean_text} ± {std_text})"


def shortened(values: Sequence[float], std: float) -> list[str]:
    """Numbers to the place of the second digit of a deviation, or to three digits of their own."""
    digits = max(0, 1 - int(np.floor(np.log10(std)))) if std > 0 else 7
    if digits > 6 or max(map(abs, values)) >= 1e7:
        return [f"{value:.3g}".replace("-", MINUS) for value in values]
    rounded = (round(float(value), digits) + 0.0 for value in values)  # no -0.0
    return [f"{value:.{digits}f}".replace("-", MINUS) for value in rounded]


def _intervals(ax: Axes, mean, y, half, name: str) -> None:
    some = np.random.default_rng(0).permutation(len(y))[:POINTS]
    bars = some[:BARS]
    ax.errorbar(mean[bars], mean[bars], half[bars], fmt="none", ecolor="C0", alpha=0.35)
    ax.plot(mean[some], y[some], ".", color="black", markersize=3, alpha=0.6)
    ends = [mean[some].min(), mean[some].max()]
    ax.plot(ends, ends, color="C1", linewidth=1)
    ax.set(xlabel="predicted", ylabel="observed", title=plain(name))


def _ellipses(law: Elliptical, mean: np.ndarray, rows: Rows) -> str:
    panels = []
    for i, j in strongest(law, len(rows.targets), PAIRS):
        order = np.argsort(mean[:, i], kind="stable")
        chosen = order[
            np.unique(np.linspace(0, len(order) - 1, ELLIPSES + 2).astype(int))[1:-1]
        ]
        chosen = chosen if len(chosen) else order
        names = [plain(name) for name in rows.targets]

        def draw(ax, i=i, j=j, chosen=chosen, names=names):
            shown = moved(part(law, chosen), mean[chosen])
            plot_ellipses(shown, rows.y[chosen], columns=(i, j), names=names, ax=ax)

        r = float(np.mean(correlations(law, [i, j])[:, 0, 1]))
        pair = f"{rows.targets[i]} and {rows.targets[j]}"
        panels.append(panel(draw, f"90 % ellipses of {pair}, mean correlation {r:.2f}"))
    caption = f"Predicted 90 % ellipses of pairs of targets at up to {ELLIPSES} rows, chosen evenly "
    caption += (
        "along the predicted mean of the first of the two, and what was observed there."
    )
    more = len(rows.targets) * (len(rows.targets) - 1) // 2 - len(panels)
    caption += " The pairs with the strongest correlations." if more else ""
    return Figure(panels, caption)


def moved(law: Elliptical, mean: np.ndarray) -> Elliptical:
    """The law about another mean."""
    return eqx.tree_at(lambda p: p.loc, law, np.asarray(mean, law.loc.dtype))


def _said(rows: Rows, d: int) -> str:
    n = len(rows)
    texts = [f"The first {SHOWN} of {d} targets."] if d > SHOWN else []
    texts += [f"{POINTS:,} of {n:,} rows, drawn at random."] if n > POINTS else []
    return " ".join(
        [*texts, f"{BARS} rows have their interval drawn." if n > BARS else ""]
    )
