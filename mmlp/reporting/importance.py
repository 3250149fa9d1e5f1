"""Which inputs matter: what shuffling a column of the table costs the score of each row."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from mmlp.reporting.rows import Rows

REPEATS = 5
ROWS, FEWEST = 1000, 20  # that are scored, at most and at least
WORK = 400_000  # rows that are scored in all, about
COLUMNS = 200  # at most


class Importance(NamedTuple):
    """The mean loss of score by shuffling column j, and its standard error over rows."""

    j: int
    mean: float
    error: float


def permutation_importance(
    score: Callable[[Any], np.ndarray],
    rows: Rows,
    tell: Callable[[str], None] = lambda _: None,
    *,
    repeats: int = REPEATS,
    seed: int = 0,
) -> list[Importance]:
    """By columns, the most important first; score(X) gives one number a row, larger is better.

    A row's loss is averaged over the shuffles; the error is that of the mean over rows.
    """
    rng, before, p = np.random.default_rng(seed), score(rows.X), min(len(rows.inputs), COLUMNS)
    found = []
    for j in range(p):
        tell(f"importance of column {j + 1} of {p}")
        orders = (rng.permutation(len(rows)) for _ in range(repeats))
        loss = np.mean([before - score(rows.shuffled(j, order)) for order in orders], axis=0)
        found.append(Importance(j, loss.mean(), loss.std(ddof=1) / np.sqrt(len(loss))))
    return sorted(found, key=lambda one: -one.mean)


def budget(p: int, n: int) -> tuple[int, int]:
    """Rows and shuffles of each for p columns of n rows: fewer where columns are many.

    >>> budget(10, 50_000), budget(200, 50_000)
    ((1000, 5), (666, 3))
    """
    p = min(p, COLUMNS)
    repeats = REPEATS if p * ROWS * REPEATS <= WORK else 3
    return min(n, ROWS, max(WORK // (p * repeats), FEWEST)), repeats
