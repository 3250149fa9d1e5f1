"""The report on a `MatrixVAE`."""

import itertools
from collections.abc import Callable

import numpy as np
from matplotlib.axes import Axes

from mmlp.reporting import baselines, curves
from mmlp.reporting.baselines import FEWEST, ConstantError, held_out
from mmlp.reporting.content import Figure, Section
from mmlp.reporting.drawing import panel, plain
from mmlp.reporting.observed import compared, shortened
from mmlp.reporting.rows import Rows
from mmlp.reporting.verdicts import compare, marked, mean_cell

MOST = 2000  # rows
PAIRS, AMONG, POINTS, WORST, COLUMNS = 3, 12, 500, 10, 30
WORDS = {
    "one Gaussian": "one Gaussian with a full covariance",
    "diagonal Gaussian": "one Gaussian with a diagonal covariance",
}
BASELINES = dict(zip(WORDS, (baselines.constant, baselines.diagonal), strict=True))


def most_rows(model, rows: Rows) -> int:
    return MOST


def sections(
    model, rows: Rows, train: Rows | None, how: str, tell: Callable
) -> list[Section]:
    """All sections, for rows of numbers."""
    X = np.asarray(rows.X, float)
    tell("densities")
    density = np.asarray(model.score_samples(rows.X), float)
    first = _scores(density, X, train, how, tell)
    tell("samples")
    drawn = np.asarray(model.sample(max(len(X), POINTS), random_state=0), float)
    second = _samples(X, drawn, rows)
    tell("latent variables")
    third = _latent(model.transform(rows.X), density)
    return [first, second, third, _unusual(density, X, rows), curves.curves(model)]


def _scores(
    density, X: np.ndarray, train: Rows | None, how: str, tell: Callable
) -> Section:
    result, cells = (
        Section("scores", "Scores", how),
        {"this model": [mean_cell(density)]},
    )
    seen = train and (np.asarray(train.X, float),) * 2
    if len(X if train is None else train) < FEWEST:
        result.notes.append(f"Baselines need {FEWEST} rows to learn from.")
    else:
        try:
            for name, baseline in BASELINES.items():
                tell(name)
                errors = held_out(baseline, X, X, seen)
                values = np.asarray(errors.law.log_prob(errors.values), float)
                compare(result, density - values, WORDS[name], "log density", " nats")
                cells[name] = [mean_cell(values)]
        except ConstantError:
            result.notes.append(
                "A column is constant: there is no Gaussian to compare with."
            )
    note = "Mean over rows ± its standard error, in nats: larger is better. That of this model is "
    note += "a bound from below, by importance sampling."
    columns = ["", "log density"]
    result.table("Log density", columns, marked(cells, (0,), largest=True), note)
    return result


def _samples(X: np.ndarray, drawn: np.ndarray, rows: Rows) -> Section:
    result = Section("samples", "Samples against the data")
    result.about = "Rows that the model draws beside the rows of the table: at best they look alike."
    p = X.shape[1]
    panels = []
    if p == 1:
        alt = f"Histograms of {rows.inputs[0]}, data and samples"
        panels.append(panel(lambda ax: _histograms(ax, X, drawn, rows.inputs[0]), alt))
    for i, j in _pairs(X) if p > 1 else ():
        r = [_correlation(values[:, i], values[:, j]) for values in (X, drawn)]
        names = rows.inputs[i], rows.inputs[j]
        alt = f"{names[0]} and {names[1]}: correlation {r[0]:.2f} in the data, {r[1]:.2f} in samples"
        panels.append(
            panel(lambda ax, i=i, j=j: _scatter(ax, X, drawn, i, j, rows), alt)
        )
    caption = f"At most {POINTS} rows of each."
    caption += " The pairs of columns with the strongest correlations." if p > 2 else ""
    result.parts.append(Figure(panels, caption))
    shown, table = rows.inputs[:COLUMNS], []
    for j, name in enumerate(shown):
        moments = [
            float(f(values[:, j])) for f in (np.mean, np.std) for values in (X, drawn)
        ]
        table.append({"name": name, "cells": shortened(moments, moments[2])})
    note = f"The first {COLUMNS} of {p} columns." if p > COLUMNS else ""
    columns = ["column", "mean, data", "samples", "deviation, data", "samples"]
    result.table("Moments", columns, table, note)
    return result


def _pairs(X: np.ndarray) -> list[tuple[int, int]]:
    """Of columns that vary, at most `AMONG` chosen evenly, those with the largest correlations."""
    vary = np.flatnonzero(X.std(axis=0) > 0)
    if len(vary) < 2:
        return [(0, 1)]
    some = vary[np.unique(np.linspace(0, len(vary) - 1, AMONG).astype(int))]
    r = np.abs(np.corrcoef(X[:, some].T)) if len(X) > 2 else np.ones((len(some),) * 2)
    pairs = sorted(
        itertools.combinations(range(len(some)), 2), key=lambda pair: -r[pair]
    )
    return [(int(some[i]), int(some[j])) for i, j in pairs[:PAIRS]]


def _correlation(x: np.ndarray, y: np.ndarray) -> float:
    """Zero if there is none because one does not vary."""
    x, y = x - x.mean(), y - y.mean()
    size = np.sqrt(np.sum(x**2) * np.sum(y**2))
    return float(np.sum(x * y) / size) if size > 0 else 0.0


def _scatter(
    ax: Axes, X: np.ndarray, drawn: np.ndarray, i: int, j: int, rows: Rows
) -> None:
    some = np.random.default_rng(0).permutation(len(X))[:POINTS]
    ax.plot(
        X[some, i], X[some, j], ".", color="C0", markersize=4, alpha=0.6, label="data"
    )
    shown = drawn[: len(some)]
    ax.plot(
        shown[:, i],
        shown[:, j],
        ".",
        color="C1",
        markersize=4,
        alpha=0.6,
        label="samples",
    )
    ax.set(xlabel=plain(rows.inputs[i]), ylabel=plain(rows.inputs[j]))
    ax.legend()


def _histograms(ax: Axes, X: np.ndarray, drawn: np.ndarray, name: str) -> None:
    edges = np.histogram_bin_edges(X[:, 0], 30)
    for values, label in ((X, "data"), (drawn, "samples")):
        ax.hist(values[:, 0], list(edges), density=True, alpha=0.5, label=label)
    ax.set(xlabel=plain(name), ylabel="density")
    ax.legend()


def _latent(S: np.ndarray, density: np.ndarray) -> Section:
    result = Section("latent", "Latent variables")
    k, n = S.shape[1], len(S)
    some = np.random.default_rng(0).permutation(n)[:POINTS]

    def draw(ax: Axes) -> None:
        if k == 1:
            ax.hist(S[:, 0], 30, density=True, color="C0", alpha=0.75)
            ax.set(xlabel="latent variable", ylabel="density")
            return
        low, high = np.quantile(density, [0.05, 0.95])
        points = ax.scatter(*S[some, :2].T, c=density[some], s=10, vmin=low, vmax=high)
        ax.figure.colorbar(points, ax=ax, label="log density")
        ax.set(xlabel="latent variable 1", ylabel="latent variable 2")

    spans = (f"{values.mean():.2f} ± {values.std():.2f}" for values in S.T[:2])
    picture = panel(draw, f"Latent variables: {', '.join(spans)} (mean ± deviation)")
    caption = "The mean of the latent variables given each row; before any row is seen they are "
    caption += "standard normal. "
    caption += f"The first two of {k}. " if k > 2 else ""
    caption += f"{POINTS} of {n:,} rows." if n > POINTS and k > 1 else ""
    result.parts.append(Figure([picture], caption))
    return result


def _unusual(density: np.ndarray, X: np.ndarray, rows: Rows) -> Section:
    result = Section("worst", "The most unusual rows")
    result.about = (
        "The rows of the lowest density, and in each the column that is farthest from its mean "
        "over all rows: errors in the data, or cases unlike the others."
    )
    mean, std = X.mean(axis=0), X.std(axis=0)
    unit = np.where(std > 0, std, np.inf)
    table = []
    for i in np.argsort(density, kind="stable")[:WORST]:
        j = int(np.argmax(np.abs(X[i] - mean) / unit))
        text = compared(X[i, j], mean[j], std[j]) if std[j] > 0 else f"{X[i, j]:.4g}"
        cells = [round(float(density[i]), 2), f"{rows.inputs[j]}: {text}"]
        table.append({"name": rows.place(int(rows.number[i])), "cells": cells})
    columns = ["row", "log density", "farthest column"]
    note = "The value, and in brackets the column's mean ± standard deviation."
    result.table("Lowest density first", columns, table, note)
    return result
