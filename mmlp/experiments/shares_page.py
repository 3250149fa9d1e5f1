"""The table, the claims and the picture of shares.py, in the form that the page of all results shows."""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

HORIZON = 21  # days of a month
MATRIX, CHOLESKY, BASE = "matrix MLP", "Cholesky MLP", "EWMA, two decays"
EWMA, LEDOIT_WOLF = "EWMA, tuned decay", "Ledoit-Wolf, tuned window"
SCALE = "two decays, scaled as by the matrix MLP"
CRASHES = ("2008", "2020")  # years in which much of the gain is earned


def paired(difference: np.ndarray) -> dict:
    """Mean and standard error, of a difference over months or of scores over seeds."""
    return {
        "mean": float(difference.mean()),
        "error": float(difference.std(ddof=1) / len(difference) ** 0.5),
    }


def summary(
    scores: dict[str, dict[str, np.ndarray]], years: np.ndarray, single: dict[str, np.ndarray]
) -> dict:
    """The table, claims and figure: from scores by method and month, the year of each, and single networks' by seed."""
    measures = [measure for measure in scores[MATRIX] if measure != "log-likelihood"]
    likelihood = {name: by["log-likelihood"] for name, by in scores.items()}
    lowest = {measure: min(by[measure].mean() for by in scores.values()) for measure in measures}
    highest = max(x.mean() for x in likelihood.values())
    rows = []
    for name, by in scores.items():
        cells = [
            {
                "mean": float(likelihood[name].mean()),
                "best": bool(likelihood[name].mean() == highest),
            }
        ]
        cells += [paired(likelihood[name] - likelihood[EWMA]) if name != EWMA else None]
        cells += [
            {"mean": float(by[m].mean()), "best": bool(by[m].mean() == lowest[m])} for m in measures
        ]
        rows.append({"name": name, "cells": cells, "emphasis": name == MATRIX})
    for name, x in single.items():
        rows.append(
            {
                "name": f"one {name}, mean of {len(x)}",
                "cells": [paired(x), None, *(None for _ in measures)],
            }
        )
    table = {
        "title": "Forecasts of the next month",
        "note": "Log-likelihood: mean of a day of the next month under N(0, S), in nats; gain: the paired difference from "
        "the tuned EWMA, with its standard error over months. Divergences (smaller is better) are from the month's own "
        "covariance, shrunk by Ledoit-Wolf because about 21 days leave it nearly singular; both are divided by its trace.",
        "columns": ["method", "log-likelihood", "gain", *measures],
        "rows": rows,
    }
    claims = [
        claim(
            f"The {MATRIX} beats {other} in next month's log-likelihood.",
            likelihood[MATRIX] - likelihood[other],
            years,
        )
        for other in (EWMA, LEDOIT_WOLF, BASE, CHOLESKY)
    ]
    caption = "Volatility of equal parts of all shares, and the log-likelihood gained on the tuned EWMA, month after month."
    notes = ["The paper has no such experiment: the claims are this project's own."]
    return {
        "notes": notes,
        "tables": [table],
        "claims": claims,
        "figures": [{"file": "shares.png", "caption": caption, "alt": caption}],
    }


def claim(text: str, difference: np.ndarray, years: np.ndarray) -> dict:
    """Whether the mean of paired differences is beyond two standard errors, over months and over years."""
    gain = paired(difference)
    by_year = paired(np.array([difference[years == year].mean() for year in np.unique(years)]))
    clear = [abs(gain["mean"]) > 2 * part["error"] for part in (gain, by_year)]
    verdict = "depends on the months"
    if all(clear):
        verdict = "holds" if gain["mean"] > 0 else "does not hold"
    elif clear[0]:
        verdict = "depends on the years: beyond two standard errors over months, not over years"
    evidence = (
        f"{gain['mean']:+.3f} ± {gain['error']:.3f} nats a day (over years ± {by_year['error']:.3f}), median "
        f"{np.median(difference):+.3f}, ahead in {np.mean(difference > 0):.0%} of {len(difference)} months."
    )
    calm = difference[~np.isin(years, CRASHES)]
    if 1 < len(calm) < len(difference):
        rest = paired(calm)
        evidence += f" Without {' and '.join(CRASHES)}: {rest['mean']:+.3f} ± {rest['error']:.3f}."
    return {"claim": text, "verdict": verdict, "evidence": evidence}


def draw(record: dict, out: Path) -> None:
    result = record["result"]
    months, scores = np.array(result["months"], dtype="datetime64[M]"), result["scores"]
    figure = Figure(figsize=(9, 6.5), layout="constrained")
    top, bottom = figure.subplots(2, 1, sharex=True)
    colours = {
        "realised": "0.75",
        MATRIX: "tab:red",
        CHOLESKY: "tab:blue",
        BASE: "tab:green",
        LEDOIT_WOLF: "tab:orange",
    }
    for name in ("realised", EWMA, MATRIX):
        style = {"linewidth": 3.5} if name == "realised" else {"linewidth": 1.3}
        top.plot(
            months,
            result["volatility"][name],
            color=colours.get(name, "black"),
            label=name,
            **style,
        )
    top.set(
        ylabel="volatility, % a year",
        yscale="log",
        title="Equal parts of all shares: volatility of the month ahead",
    )
    top.set_yticks([5, 10, 20, 50, 100], ["5", "10", "20", "50", "100"])
    top.minorticks_off()
    for name in (MATRIX, CHOLESKY, BASE, LEDOIT_WOLF):
        gain = np.subtract(scores[name]["log-likelihood"], scores[EWMA]["log-likelihood"])
        bottom.plot(months, np.cumsum(gain) * HORIZON, color=colours[name], label=name)
    bottom.axhline(0, color="black", linewidth=0.8)
    bottom.set(ylabel="nats", title=f"Log-likelihood gained on {EWMA}, summed over the days so far")
    for axis in (top, bottom):
        axis.grid(alpha=0.3)
        axis.legend(fontsize=9, loc="upper left")
        axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(out / "shares.png", dpi=150)
