"""Which inputs matter: what shuffling a column of the table costs the score of each row."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from mmlp.reporting.rows import Rows

REPEATS = 5
ROWS, FEWEST = 1000, 20  # that are scored, at most and at least
WORK = 400_000  # rows that are scored in all, about
COLUMNS = 200  # at most
SURE = 2.0  # standard errors


class Importance(NamedTuple):
    """By shuffling column j: the mean loss of each score, and its standard error over rows."""

    j: int
    means: np.ndarray  # (k,)
    errors: np.ndarray

    def sure(self, k: int = 0) -> bool:
        return self.means[k] > SURE * self.errors[k]


def permutation_importance(
    score: Callable[[Any], np.ndarray],
    rows: Rows,
    tell: Callable[[str], None] = lambda _: None,
    *,
    repeats: int = REPEATS,
    seed: int = 0,
) -> list[Importance]:
    """Of all columns that the model uses, the most important first.

    score(X) gives k numbers a row, (k, n). Larger scores are better, and the first orders the
    columns. A row's loss is averaged over the shuffles; the error is that of the mean over rows.
    """
    rng = np.random.default_rng(seed)
    before = score(rows.X)
    columns = rows.used[:COLUMNS]
    found = []
    for i, j in enumerate(columns, 1):
        tell(f"importance of column {i} of {len(columns)}")
        orders = (rng.permutation(len(rows)) for _ in range(repeats))
        loss = np.mean(
            [before - score(rows.shuffled(j, order)) for order in orders], axis=0
        )
        errors = loss.std(axis=1, ddof=1) / np.sqrt(len(rows))
        found.append(Importance(j, loss.mean(axis=1), errors))
    return sorted(found, key=lambda one: -one.means[0])


def budget(p: int, n: int) -> tuple[int, int]:
    """Rows and shuffles of each for p columns of n rows: fewer where columns are many.

    >>> budget(10, 50_000), budget(200, 50_000)
    ((1000, 5), (666, 3))
    """
    p = min(p, COLUMNS)
    repeats = REPEATS if p * ROWS * REPEATS <= WORK else 3
    return min(n, ROWS, max(WORK // (p * repeats), FEWEST)), repeats
