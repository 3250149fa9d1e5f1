"""Scores of a regression beside those of the baselines, on the same rows."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from sklearn.metrics import r2_score

from mmlp import metrics
from mmlp.reporting import baselines
from mmlp.reporting.baselines import ConstantError, Errors, held_out
from mmlp.reporting.content import Section
from mmlp.reporting.number_format import MINUS
from mmlp.reporting.rows import Rows
from mmlp.reporting.verdicts import compare, marked, mean_cell

BASELINES = {"linear": baselines.linear, "constant": baselines.constant}
WORDS = {
    "linear": "a linear model with one covariance",
    "constant": "one mean and one covariance for all rows",
}
DRAWN = 20_000  # numbers of a draw, for the energy score
MOST = 30  # targets in a table


class Scored(NamedTuple):
    """Of one predictor: -log p(y | x) of each row, the other scores, and its errors."""

    surprise: np.ndarray
    energy: float
    pit: np.ndarray
    errors: Errors

    @property
    def rmse(self) -> np.ndarray:
        return np.sqrt(np.mean(self.errors.values**2, axis=0))


def scored(errors: Errors, surprise: np.ndarray | None = None) -> Scored:
    values, law = errors
    if surprise is None:
        surprise = -np.asarray(law.log_prob(np.asarray(values, law.loc.dtype)), float)
    some = slice(max(DRAWN // values.shape[1], 50))
    energy = metrics.energy_score(
        law if len(values) <= some.stop else part(law, some), values[some]
    )
    return Scored(surprise, energy, metrics.mahalanobis_pit(law, values), errors)


def part(law: Any, index) -> Any:
    """The law of some rows, of one with batch shape (n,)."""
    n = law.batch_shape[0]
    return jax.tree.map(lambda x: x[index] if x.ndim and len(x) == n else x, law)


def others(model, rows: Rows, train: Rows | None, tell: Callable) -> tuple[dict, str]:
    """The baselines' scores by name, and why there are none."""
    if len(train or rows) < baselines.FEWEST:
        return (
            {},
            f"Baselines need {baselines.FEWEST} rows to learn from, here {len(train or rows)}.",
        )
    x, found = np.asarray(model._standardize(rows.X), float), {}
    seen = train and (np.asarray(model._standardize(train.X), float), train.y)
    for name, baseline in BASELINES.items():
        tell(f"the baseline: {name}")
        try:
            found[name] = scored(held_out(baseline, x, rows.y, seen))
        except ConstantError:
            return (
                {},
                "A target is constant, or a linear function of the inputs: no baseline.",
            )
    return found, ""


def section(own: Scored, found: dict[str, Scored], rows: Rows, how: str) -> Section:
    """The tables, and a verdict on each baseline."""
    result = Section("scores", "Scores", how)
    everyone = {"this model": own, **found}
    for name, other in found.items():
        compare(
            result, other.surprise - own.surprise, WORDS[name], "log score", " nats"
        )
    cells = {name: _cells(one, rows.y) for name, one in everyone.items()}
    columns = ["", "neg. log-likelihood", "energy score", "in 90 % ellipsoid", "R²"]
    note = (
        "Mean over rows ± its standard error. Negative log-likelihood (nats a row) and energy "
        "score (in the targets' units): smaller is better. 0.9 of the rows should lie in their "
        "90 % ellipsoid. R² is that of the mean, averaged over targets. Linear: ridge regression "
        "and one covariance; constant: one mean and one covariance."
    )
    result.table("The whole distribution", columns, marked(cells, (0, 1)), note)
    result.table(*_errors_table(everyone, rows))
    return result


def _cells(one: Scored, y: np.ndarray) -> list:
    n, inside = len(y), np.mean(one.pit <= 0.9)
    r2 = float(r2_score(y, y - one.errors.values)) if n > 1 else None
    chance = float(np.sqrt(0.9 * 0.1 / n))
    return [
        mean_cell(one.surprise),
        {"mean": one.energy},
        {"mean": float(inside), "error": chance},
        None if r2 is None else f"{r2:.3f}".replace("-", MINUS),
    ]


def _errors_table(everyone: dict[str, Scored], rows: Rows) -> tuple:
    names, shown = list(everyone), rows.targets[:MOST]
    errors = np.stack([one.rmse for one in everyone.values()])  # (predictors, d)
    table = []
    for j, target in enumerate(shown):
        best = errors[:, j].min() if len(names) > 1 else None
        cells = [{"mean": float(e), "best": e == best} for e in errors[:, j]]
        table.append({"name": target, "cells": cells})
    rest = len(rows.targets) - len(shown)
    note = "Root mean squared error of the mean, in the units of the target."
    note += f" The first {MOST} of {len(rows.targets)} targets." if rest else ""
    return "Each target", ["target", *names], table, note
