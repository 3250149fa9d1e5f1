"""The report on an `SPDRegressor`."""

from collections.abc import Callable

import numpy as np
from matplotlib.axes import Axes
from sklearn.metrics import r2_score
from sklearn.model_selection import KFold
from sklearn.neighbors import KNeighborsRegressor

from mmlp import divergences
from mmlp.plotting import plot_covariance
from mmlp.reporting import curves, inputs
from mmlp.reporting.baselines import FEWEST, FOLDS
from mmlp.reporting.content import Figure, Image, Section
from mmlp.reporting.drawing import panel
from mmlp.reporting.number_format import MINUS
from mmlp.reporting.rows import Rows
from mmlp.reporting.verdicts import compare, marked, mean_cell
from mmlp.spd import Gram

NUMBERS, MOST, LEAST = 2**23, 5000, 100  # of matrices that are compared; rows
SHOWN, POINTS, HEAT, WORST, NEIGHBOURS = 6, 1500, 3, 10, 5
NEAREST = f"{NEIGHBOURS} nearest neighbours"
WORDS = {
    NEAREST: f"the mean matrix of the {NEIGHBOURS} nearest rows",
    "mean": "the mean matrix",
    "log-Euclidean mean": "the log-Euclidean mean matrix",
}


def most_rows(model, rows: Rows) -> int:
    return int(np.clip(NUMBERS // rows.y[0].size, LEAST, MOST))


def sections(
    model, rows: Rows, train: Rows | None, how: str, tell: Callable
) -> list[Section]:
    """All sections, for rows with matrices y (n, d, d)."""
    tell("predictions")
    predicted, observed = model.predict(rows.X), Gram.from_dense(rows.y)
    far = apart(predicted, observed)
    first, shapes = (
        _scores(model, predicted, far, rows, train, how),
        _matrices(predicted, rows),
    )

    def score(some: Rows) -> Callable:
        answers = Gram.from_dense(some.y)
        return lambda X: -apart(model.predict(X), answers)[None]

    matter, _ = inputs.importance(score, rows, tell, "the von Neumann divergence")
    return [first, shapes, matter, _worst(predicted, far, rows), curves.curves(model)]


def apart(predicted: np.ndarray, observed: Gram) -> np.ndarray:
    """The von Neumann divergence of each row, (n,)."""
    return np.asarray(
        divergences.von_neumann(Gram.from_dense(predicted), observed), float
    )


def held_out(
    x: np.ndarray, Y: np.ndarray, train: tuple | None
) -> dict[str, np.ndarray]:
    """What the baselines predict for rows that they have not seen, (n, d, d)."""
    found = {name: np.empty(Y.shape) for name in WORDS}
    if train is not None:
        splits = [(*train, np.arange(len(Y)))]
    else:
        parts = KFold(FOLDS, shuffle=True, random_state=0).split(x)
        splits = [(x[seen], Y[seen], rows) for seen, rows in parts]
    for seen, matrices, rows in splits:
        flat = matrices.reshape(len(matrices), -1)
        nearest = KNeighborsRegressor(NEIGHBOURS).fit(seen, flat)
        found[NEAREST][rows] = nearest.predict(x[rows]).reshape(-1, *Y.shape[1:])
        found["mean"][rows] = matrices.mean(axis=0)
        found["log-Euclidean mean"][rows] = of_spectrum(
            of_spectrum(matrices, np.log).mean(axis=0), np.exp
        )
    return found


def of_spectrum(Y: np.ndarray, function: Callable) -> np.ndarray:
    """A function of symmetric matrices by their eigenvalues."""
    values, V = np.linalg.eigh(Y)
    return (V * function(values)[..., None, :]) @ np.swapaxes(V, -1, -2)


def _scores(model, predicted, far, rows: Rows, train: Rows | None, how: str) -> Section:
    result, found = Section("scores", "Scores", how), {"this model": predicted}
    if len(train or rows) >= FEWEST:
        x, *seen = (
            np.asarray(model._standardize(some.X), float)
            for some in (rows, train)
            if some
        )
        found |= held_out(x, rows.y, (*seen, train.y) if train else None)
    else:
        result.notes.append(f"Baselines need {FEWEST} rows to learn from.")
    observed, cells = Gram.from_dense(rows.y), {}
    for name, matrices in found.items():
        values = far if name == "this model" else apart(matrices, observed)
        if name in WORDS:
            compare(result, values - far, WORDS[name], "von Neumann divergence", "")
        logs = np.asarray(
            divergences.log_euclidean(Gram.from_dense(matrices), observed), float
        )
        flat = (x.reshape(len(x), -1) for x in (rows.y, matrices))
        r2 = (
            r2_score(*flat, multioutput="variance_weighted") if len(far) > 1 else np.nan
        )
        r2 = f"{r2:.3f}".replace("-", MINUS) if len(far) > 1 else None
        cells[name] = [mean_cell(values), mean_cell(logs), r2]
    columns = ["", "von Neumann", "log-Euclidean", "R²"]
    note = "Mean over rows ± its standard error: von Neumann divergence and squared log-Euclidean "
    note += "distance from what was observed, smaller is better; R² over all entries."
    result.table(
        "Distance from what was observed", columns, marked(cells, (0, 1)), note
    )
    return result


def _matrices(predicted: np.ndarray, rows: Rows) -> Section:
    result = Section("observed", "Predicted and observed")
    pairs = np.linalg.eigvalsh(predicted)[:, ::-1], np.linalg.eigvalsh(rows.y)[:, ::-1]
    d = rows.y.shape[1]
    shown = np.unique(np.linspace(0, d - 1, min(d, SHOWN)).round().astype(int))
    panels = []
    for k in shown:
        r = (
            np.corrcoef(np.log([values[:, k] for values in pairs]))[0, 1]
            if len(rows) > 2
            else 1
        )
        alt = f"Eigenvalue {k + 1} of {d}, observed against predicted; correlation {r:.2f} of logs"
        panels.append(panel(lambda ax, k=k: _eigenvalues(ax, *pairs, k), alt))
    caption = "Eigenvalues, the largest first: observed against predicted, at best on the line."
    caption += f" {len(shown)} of {d}, chosen evenly." if d > len(shown) else ""
    caption += f" {POINTS:,} of {len(rows):,} rows." if len(rows) > POINTS else ""
    result.parts.append(Figure(panels, caption))
    order = np.argsort(np.trace(rows.y, axis1=1, axis2=2), kind="stable")
    for i in order[
        np.unique(np.linspace(0, len(order) - 1, HEAT + 2).astype(int))[1:-1]
    ]:
        place = rows.place(int(rows.number[i]))
        limit = max(np.abs(rows.y[i]).max(), np.abs(predicted[i]).max())
        heats = [
            _heat(rows.y[i], limit, "observed"),
            _heat(predicted[i], limit, "predicted"),
        ]
        result.parts.append(Figure(heats, f"Matrices of {place}."))
    return result


def _eigenvalues(ax: Axes, predicted: np.ndarray, observed: np.ndarray, k: int) -> None:
    some = np.random.default_rng(0).permutation(len(observed))[:POINTS]
    x, y = predicted[some, k], observed[some, k]
    ends = [min(x.min(), y.min()), max(x.max(), y.max())]
    ax.plot(x, y, ".", color="C0", markersize=4, alpha=0.5)
    ax.plot(ends, ends, color="C1", linewidth=1)
    ax.set(xlabel="predicted", ylabel="observed", title=f"eigenvalue {k + 1}")
    if ends[1] > 20 * ends[0]:
        ax.set(xscale="log", yscale="log")


def _heat(A: np.ndarray, limit: float, title: str) -> Image:
    def draw(ax: Axes) -> None:
        plot_covariance(A, ax=ax)
        ax.images[0].set_clim(-limit, limit)
        ax.set_title(title)

    entries = f"trace {np.trace(A):.3g}, entries {A.min():.3g} to {A.max():.3g}"
    return panel(draw, f"Heat map of the {title} matrix: {entries}")


def _worst(predicted: np.ndarray, far: np.ndarray, rows: Rows) -> Section:
    result = Section("worst", "The worst rows")
    result.about = "The rows whose matrix is farthest from the predicted one."
    table = []
    for i in np.argsort(-far, kind="stable")[:WORST]:
        both = [np.linalg.eigvalsh(A) for A in (rows.y[i], predicted[i])]
        parts = [[values.sum(), values[-1], values[0]] for values in both]
        texts = [f"{y:.3g} ({mean:.3g})" for y, mean in zip(*parts, strict=True)]
        name = rows.place(int(rows.number[i]))
        table.append({"name": name, "cells": [f"{far[i]:.3g}", *texts]})
    columns = [
        "row",
        "von Neumann",
        "trace",
        "largest eigenvalue",
        "smallest eigenvalue",
    ]
    result.table("Farthest first", columns, table, "Observed (predicted).")
    return result
