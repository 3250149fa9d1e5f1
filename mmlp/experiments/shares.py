"""Forecast the covariance of next month's daily returns of 20 shares: networks and estimates.

    python -m mmlp.experiments.shares --data DIR     sp500_prices.csv.gz (the data file of skfolio)
    python -m mmlp.experiments.shares --data FILE    any CSV: dates, then a column of prices a share
    python -m mmlp.experiments.shares [--quick]      made-up prices, to see that it works

Does a network (`shares_forecasts`) beat exponentially weighted (EWMA) and Ledoit-Wolf covariances?
Score: the Gaussian log-likelihood of the next month's daily returns, mean zero. Test: 2005 to 2022,
month by month; every three years all is tuned or trained anew on the days before. The networks'
settings were chosen on 1997 to 2004, out of about thirty, where the two are level within what seeds
make; the test years were looked at once before, with 8 seeds: only their number changed. The answer
is in results/shares.json (20 shares, 1990 to 2022; two minutes on two cores).
"""

import dataclasses
from pathlib import Path
from typing import ClassVar

import numpy as np
from matplotlib.figure import Figure
from sklearn.covariance import ledoit_wolf

from mmlp.divergences import quadratic, stein, von_neumann
from mmlp.experiments.harness.claims import advantage
from mmlp.experiments.harness.run import main
from mmlp.experiments.shares_data import HORIZON, factored, find_market, log_likelihood, months_of
from mmlp.experiments.shares_forecasts import BASE, CHOLESKY, EWMA, LEDOIT_WOLF, MATRIX, forecasts
from mmlp.pages.table import cell, rounded
from mmlp.spd import Gram

LIKELIHOOD = "log-likelihood"
MEASURES = {"Stein": stein, "von Neumann": von_neumann, "quadratic": quadratic}
RIVALS = (EWMA, LEDOIT_WOLF, BASE, CHOLESKY)
CRASHES = ("2008", "2020")  # years in which much of the gain is earned
NOTE = """Log-likelihood: mean of a day of the next month under N(0, S), in nats; gain: the paired
difference from the tuned EWMA, with its standard error over months. Divergences (smaller is better)
are from the month's own covariance, shrunk by Ledoit-Wolf because about 21 days leave it nearly
singular; both are divided by its trace."""
COLOURS = {"realised": "0.75", EWMA: "black", MATRIX: "tab:red", CHOLESKY: "tab:blue"}
COLOURS |= {BASE: "tab:green", LEDOIT_WOLF: "tab:orange"}


@dataclasses.dataclass(frozen=True)
class Settings:
    """Next month's covariance of daily share returns, trained anew every few years."""

    data: Path | None = None  # a CSV file, or the folder of sp500_prices.csv.gz; None: made up
    shares: int = 20  # the first so many columns
    first: int = 2005  # test years
    last: int = 2022
    block: int = 3  # years between trainings
    seeds: int = 16  # networks of one kind, whose covariances are averaged
    origins: int = 400  # training months, spread evenly over the past
    strength: float = 0.2  # the network's part of the residual covariance, the rest is the identity
    start: float = 0.1  # scale of the last layer's weights before training
    hidden_dims: tuple[int, ...] = (10,)
    hidden_features: tuple[int, ...] = (20,)
    epochs: int = 20
    batch_size: int = 50
    learning_rate: float = 0.003

    QUICK: ClassVar = {"shares": 4, "first": 2020, "seeds": 2, "origins": 60, "epochs": 3}


def run(settings: Settings) -> dict:
    if not 2 <= settings.shares < HORIZON:
        must = f"must be 2 to {HORIZON - 1}: last month's covariance has its rank"
        raise ValueError(f"`--shares {settings.shares}` {must}.")
    market = find_market(settings.data, settings.shares)
    known = months_of(market)[2]
    if not known[0] < settings.first <= settings.last <= known[-1]:
        years = f"`--first {settings.first} --last {settings.last}`"
        raise ValueError(f"{years} must be within {known[0] + 1} to {known[-1]}.")
    forecast, single, spans = forecasts(market, settings)
    days = [market.returns[a:b] for a, b in spans]
    W = np.array([x.T @ x / len(x) for x in days])
    shrunk = factored(np.array([ledoit_wolf(x, assume_centered=True)[0] for x in days]))
    size = np.linalg.norm(shrunk, axis=(1, 2), keepdims=True)  # the root of the trace
    scores = {name: {LIKELIHOOD: log_likelihood(T, W)} for name, T in forecast.items()}
    for name, T in forecast.items():
        A, B = Gram(T / size), Gram(shrunk / size)
        scores[name] |= {measure: np.asarray(f(A, B)) for measure, f in MEASURES.items()}
    months = [str(market.dates[a])[:7] for a, _ in spans]
    years = np.array([month[:4] for month in months])
    gain = {name: by[LIKELIHOOD] - scores[EWMA][LIKELIHOOD] for name, by in scores.items()}
    caption = "Volatility of equal parts of all shares, and log-likelihood gained on tuned EWMA."
    variance = {"realised": W.mean(axis=(1, 2))}  # of equal parts of all shares
    variance |= {name: np.sum(np.mean(T, axis=2) ** 2, axis=1) for name, T in forecast.items()}
    alone = {kind: log_likelihood(T, W).mean(axis=1) for kind, T in single.items()}
    return {
        "title": f"next month's covariance of {len(market.names)} shares ({market.source})",
        "months": months,
        "scores": {n: {m: rounded(v, 5) for m, v in by.items()} for n, by in scores.items()},
        "volatility": {name: rounded(np.sqrt(252 * v), 5) for name, v in variance.items()},
        "notes": ["The paper has no such experiment: the claims are this project's own."],
        "tables": [table(scores, gain, alone)],
        "claims": [claim(o, gain[MATRIX] - gain[o], years) for o in RIVALS],
        "figures": [{"file": "shares.png", "caption": caption, "alt": caption}],
    }


def table(scores: dict[str, dict], gain: dict[str, np.ndarray], single: dict) -> dict:
    """A row for each method; `single` are log-likelihoods of networks by seed."""
    means = {name: {m: v.mean() for m, v in by.items()} for name, by in scores.items()}
    best = {LIKELIHOOD: max(by[LIKELIHOOD] for by in means.values())}
    best |= {m: min(by[m] for by in means.values()) for m in MEASURES}
    rows = []
    for name, by in means.items():
        first, *rest = ({"mean": float(by[m]), "best": bool(by[m] == best[m])} for m in best)
        cells = [first, None if name == EWMA else cell(gain[name].tolist()), *rest]
        rows.append({"name": name, "cells": cells, "emphasis": name == MATRIX})
    for name, x in single.items():
        cells = [cell(x.tolist()), None, *(None for _ in MEASURES)]
        rows.append({"name": f"one {name}, mean of {len(x)}", "cells": cells})
    columns = ["method", LIKELIHOOD, "gain", *MEASURES]
    return {"title": "Forecasts of the next month", "note": NOTE, "columns": columns, "rows": rows}


def claim(rival: str, difference: np.ndarray, years: np.ndarray) -> dict:
    """Whether the mean of paired differences is beyond two standard errors, by months and years."""
    none, by_year = np.zeros(1), [difference[years == year].mean() for year in np.unique(years)]
    (mean, error), (_, over_years) = (advantage(none, x) for x in (difference, np.array(by_year)))
    clear = [abs(mean) > 2 * spread for spread in (error, over_years)]
    verdict = "depends on the months"
    if all(clear):
        verdict = "holds" if mean > 0 else "does not hold"
    elif clear[0]:
        verdict = "depends on the years: beyond two standard errors over months, not over years"
    ahead = f"ahead in {np.mean(difference > 0):.0%} of {len(difference)} months."
    evidence = f"{mean:+.3f} ± {error:.3f} nats a day (over years ± {over_years:.3f}), "
    evidence += f"median {np.median(difference):+.3f}, {ahead}"
    calm = difference[~np.isin(years, CRASHES)]
    if 1 < len(calm) < len(difference):
        rest, spread = advantage(none, calm)
        evidence += f" Without {' and '.join(CRASHES)}: {rest:+.3f} ± {spread:.3f}."
    text = f"The {MATRIX} beats {rival} in next month's log-likelihood."
    return {"claim": text, "verdict": verdict, "evidence": evidence}


def draw(record: dict, out: Path) -> None:
    result = record["result"]
    months, scores = np.array(result["months"], dtype="datetime64[M]"), result["scores"]
    figure = Figure(figsize=(9, 6.5), layout="constrained")
    top, bottom = figure.subplots(2, 1, sharex=True)
    for name, width in (("realised", 3.5), (EWMA, 1.3), (MATRIX, 1.3)):
        line = {"color": COLOURS[name], "label": name, "linewidth": width}
        top.plot(months, result["volatility"][name], **line)
    title = "Equal parts of all shares: volatility of the month ahead"
    top.set(ylabel="volatility, % a year", yscale="log", title=title)
    top.set_yticks([5, 10, 20, 50, 100], ["5", "10", "20", "50", "100"])
    top.minorticks_off()
    for name in (MATRIX, CHOLESKY, BASE, LEDOIT_WOLF):
        gain = np.subtract(scores[name][LIKELIHOOD], scores[EWMA][LIKELIHOOD])
        bottom.plot(months, np.cumsum(gain) * HORIZON, color=COLOURS[name], label=name)
    bottom.axhline(0, color="black", linewidth=0.8)
    bottom.set(ylabel="nats", title=f"Log-likelihood gained on {EWMA}, summed over the days so far")
    for axis in (top, bottom):
        axis.grid(alpha=0.3)
        axis.legend(fontsize=9, loc="upper left")
        axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(out / "shares.png", dpi=150)


if __name__ == "__main__":
    main("shares")
