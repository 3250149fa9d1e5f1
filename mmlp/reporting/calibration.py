"""Whether probabilities are right: of the whole ellipsoid, and of each target."""

import numpy as np
from matplotlib.axes import Axes

from mmlp.metrics import calibration_error
from mmlp.plotting import plot_calibration
from mmlp.reporting.baselines import Errors
from mmlp.reporting.content import GOOD, NEUTRAL, Figure, Section
from mmlp.reporting.drawing import panel, percent, plain
from mmlp.reporting.rows import Rows, listed
from mmlp.reporting.scores import MOST, Scored

SHOWN, BARS, FEWEST = 6, 10, 20  # targets with a panel, bars of a histogram, rows
LEVELS = (0.5, 0.9)
FAR = 3.0  # deviations of a share that are no chance


def section(own: Scored, found: dict[str, Scored], rows: Rows) -> Section:
    """Panels and a table, and a verdict on the 90 % ellipsoid and on the intervals."""
    result = Section("calibration", "Calibration")
    if len(rows) < FEWEST:
        result.about = f"This takes at least {FEWEST} rows; here there are {len(rows)}."
        return result
    result.about = (
        "If the predicted distributions are right, 90 % of the rows lie in their 90 % ellipsoid, "
        "and each target's probability of a smaller value (PIT) is uniform."
    )
    pit = target_pit(own.errors, min(len(rows.targets), MOST))
    _verdicts(result, own, pit, rows)
    panels = [panel(lambda ax: _ellipsoids(ax, own, found), _ellipsoid_alt(own))]
    for j in range(min(len(pit), SHOWN)):
        alt = f"Histogram of the PIT of {rows.targets[j]}: {_shares(pit[j])}"
        panels.append(
            panel(lambda ax, j=j: _histogram(ax, pit[j], rows.targets[j]), alt)
        )
    caption = (
        "First: the share of rows in each ellipsoid against its probability, at best on the "
        "diagonal; the grey band is chance. Then the PIT of targets, at best flat: a U means "
        "intervals that are too narrow, a hump too wide, a slope a mean that is off."
    )
    more = len(rows.targets) - SHOWN
    caption += f" The first {SHOWN} of {len(rows.targets)} targets." if more > 0 else ""
    result.parts.append(Figure(panels, caption))
    result.table(*_table(pit, rows))
    return result


def target_pit(errors: Errors, most: int) -> np.ndarray:
    """P(target <= what was observed) for the first targets, (k, n)."""
    std = np.sqrt(np.asarray(errors.law.covariance.diagonal(), float))[:, :most]
    return errors.law.marginal_cdf((errors.values[:, :most] / std).T)


def coverage(pit: np.ndarray, level: float) -> np.ndarray:
    """The share of rows in the central interval of this probability, by targets."""
    return np.mean(np.abs(pit - 0.5) <= level / 2, axis=-1)


def _far(shares: np.ndarray, level: float, n: int) -> np.ndarray:
    return np.abs(shares - level) > FAR * np.sqrt(level * (1 - level) / n)


def _verdicts(result: Section, own: Scored, pit: np.ndarray, rows: Rows) -> None:
    n, share = len(rows), float(np.mean(own.pit <= 0.9))
    text = f"{percent(share)} of the rows lie in their 90 % ellipsoid"
    if not _far(np.array(share), 0.9, n):
        result.claim(GOOD, "calibrated", f"{text}: as should be, up to chance.")
    else:
        wide = "too wide" if share > 0.9 else "too narrow"
        result.claim(NEUTRAL, wide, f"{text}: the ellipsoids are {wide}.")
    shares = coverage(pit, 0.9)
    off = np.flatnonzero(_far(shares, 0.9, n))
    if len(off):
        names = listed([f"{rows.targets[j]} ({percent(shares[j])})" for j in off])
        claim = f"The share of the rows in 90 % intervals is off by more than chance: {names}."
        result.claim(NEUTRAL, "off", claim)
    else:
        span = " to ".join(dict.fromkeys(map(percent, (shares.min(), shares.max()))))
        result.claim(
            GOOD, "calibrated", f"90 % intervals of targets hold {span} of the rows."
        )


def _ellipsoids(ax: Axes, own: Scored, found: dict[str, Scored]) -> None:
    plot_calibration(own.pit, label="this model", ax=ax)
    for name, other in found.items():
        plot_calibration(other.pit, label=name, ax=ax)
    ax.set_title("the whole ellipsoid")


def _ellipsoid_alt(own: Scored) -> str:
    inside = {level: percent(np.mean(own.pit <= level)) for level in LEVELS}
    shares = (
        f"{share} in the {100 * level:.0f} % ellipsoid"
        for level, share in inside.items()
    )
    return f"Calibration of the ellipsoids: {', '.join(shares)}"


def _histogram(ax: Axes, pit: np.ndarray, name: str) -> None:
    n = len(pit)
    band = 1.96 * np.sqrt((BARS - 1) / n)  # of a density that is one
    ax.axhspan(max(0, 1 - band), 1 + band, color="0.9", linewidth=0)
    ax.axhline(1, color="0.6", linewidth=1)
    ax.hist(pit, BARS, range=(0, 1), density=True, color="C0", alpha=0.75, rwidth=0.92)
    ax.set(xlabel="PIT", ylabel="density", xlim=(0, 1), title=plain(name))


def _shares(pit: np.ndarray) -> str:
    counts = np.histogram(pit, BARS, (0, 1))[0] / len(pit)
    return f"each tenth holds {percent(counts.min())} to {percent(counts.max())} of the rows"


def _table(pit: np.ndarray, rows: Rows) -> tuple:
    shares = [coverage(pit, level) for level in LEVELS]
    table = [
        {
            "name": rows.targets[j],
            "cells": [
                *(round(float(share[j]), 3) for share in shares),
                round(float(pit[j].mean()), 3),
                round(calibration_error(pit[j]), 4),
            ],
        }
        for j in range(len(pit))
    ]
    columns = [
        "target",
        "in 50 % interval",
        "in 90 % interval",
        "mean PIT",
        "calibration error",
    ]
    chance = [
        f"{1.96 * np.sqrt(level * (1 - level) / len(rows)):.3f}" for level in LEVELS
    ]
    note = (
        f"Up to chance (95 %) the shares are 0.5 ± {chance[0]} and 0.9 ± {chance[1]}."
    )
    note += " Error: the area between the curve of the PIT and the diagonal, 0 at best."
    more = len(rows.targets) - len(pit)
    note += f" The first {len(pit)} of {len(rows.targets)} targets." if more else ""
    return "Intervals of each target", columns, table, note
