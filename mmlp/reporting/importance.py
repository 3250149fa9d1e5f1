"""Permutation importance: how much worse scores become if an input is shuffled."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from mmlp.reporting.rows import Rows

MAX_REPEATS = 5
REPEATS_OF_MANY_COLUMNS = 3
MAX_ROWS = 1000
MIN_ROWS = 20
MAX_SCORED_ROWS = 400_000  # about, over all columns and repeats
MAX_COLUMNS = 200
SIGNIFICANT_STANDARD_ERRORS = 2.0

ScoreRows = Callable[[Any], np.ndarray]


@dataclasses.dataclass(frozen=True)
class Importance:
    """What shuffling a column costs each of k scores.

    Attributes
    ----------
    column : int
    means : array of shape (k,)
        Mean loss of a row.
    errors : array of shape (k,)
        Standard errors of these means over rows.
    """

    column: int
    means: np.ndarray
    errors: np.ndarray

    def is_significant(self, k: int = 0) -> bool:
        """Return whether the loss of score k is more than chance."""
        return bool(self.means[k] > SIGNIFICANT_STANDARD_ERRORS * self.errors[k])


@dataclasses.dataclass(frozen=True)
class ImportanceResult:
    """Importances, the largest first, and the effort spent on them."""

    importances: list[Importance]
    n_rows: int
    n_repeats: int


def measure_importance(
    make_score: Callable[[Rows], ScoreRows], rows: Rows, progress: Callable[[str], None]
) -> ImportanceResult | None:
    """Measure the importance of all inputs on a sample of the rows.

    Parameters
    ----------
    make_score : callable
        Returns, for a sample of the rows, the function that scores them; see
        `permutation_importance`.
    rows : Rows
    progress : callable

    Returns
    -------
    ImportanceResult or None
        None if there are fewer than `MIN_ROWS` rows.
    """
    if len(rows) < MIN_ROWS:
        return None
    n_rows, n_repeats = choose_effort(len(rows.used_columns), len(rows))
    sample = rows.sample(n_rows, seed=1)
    importances = permutation_importance(
        make_score(sample), sample, progress, n_repeats=n_repeats
    )
    return ImportanceResult(importances, n_rows, n_repeats)


def permutation_importance(
    score: ScoreRows,
    rows: Rows,
    progress: Callable[[str], None] = lambda step: None,
    *,
    n_repeats: int = MAX_REPEATS,
    seed: int = 0,
) -> list[Importance]:
    """Measure what shuffling each column costs.

    Parameters
    ----------
    score : callable
        Maps X to k scores of each row, an array of shape (k, n_rows). Larger is better.
    rows : Rows
    progress : callable
    n_repeats : int
        Shuffles of a column, over which the loss of a row is averaged.
    seed : int

    Returns
    -------
    list of Importance
        Of the columns that the model uses, the largest loss of the first score first.
    """
    rng = np.random.default_rng(seed)
    intact = score(rows.X)
    columns = rows.used_columns[:MAX_COLUMNS]

    importances = []
    for number, column in enumerate(columns, 1):
        progress(f"importance of column {number} of {len(columns)}")
        losses = []
        for _ in range(n_repeats):
            order = rng.permutation(len(rows))
            losses.append(intact - score(rows.shuffle_column(column, order)))
        loss = np.mean(losses, axis=0)
        errors = loss.std(axis=1, ddof=1) / np.sqrt(len(rows))
        importances.append(Importance(column, loss.mean(axis=1), errors))
    return sorted(importances, key=lambda importance: -importance.means[0])


def choose_effort(n_columns: int, n_rows: int) -> tuple[int, int]:
    """Return how many rows to score and how often to shuffle each column.

    >>> choose_effort(10, 50_000)
    (1000, 5)
    >>> choose_effort(200, 50_000)
    (666, 3)
    """
    n_columns = min(n_columns, MAX_COLUMNS)
    n_repeats = MAX_REPEATS
    if n_columns * MAX_ROWS * MAX_REPEATS > MAX_SCORED_ROWS:
        n_repeats = REPEATS_OF_MANY_COLUMNS
    affordable_rows = max(MAX_SCORED_ROWS // (n_columns * n_repeats), MIN_ROWS)
    return min(n_rows, MAX_ROWS, affordable_rows), n_repeats


def log_score_function(model: Any, rows: Rows) -> ScoreRows:
    """Return a function from X to two log scores of the rows, shape (2, n_rows).

    The first is log p(y | x). The second keeps the mean as it is with the rows' own
    inputs, so that only a change of the covariance changes it.

    Parameters
    ----------
    model : fitted MultivariateRegressor
    rows : Rows
        Without constant targets.

    Returns
    -------
    callable
    """

    def residuals(X: Any) -> np.ndarray:
        mean = np.asarray(model.predict(X), float).reshape(len(rows), -1)
        return rows.y - mean[:, model.varying_targets_]

    intact_residuals = residuals(rows.X)

    def score(X: Any) -> np.ndarray:
        distribution = model._error_distribution(X)
        both = np.stack([residuals(X), intact_residuals])
        both = both.astype(distribution.loc.dtype)
        return np.asarray(distribution.log_prob(both), float)

    return score
