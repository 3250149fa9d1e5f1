"""Cells of a table that lie absurdly far out, such as 1e6 among values near 10.

A fixed number of deviations would not do: in columns with heavy tails, such as incomes, thousands
are usual. So a cell is measured by the tail of its own column. Let D_1 >= D_2 >= ... be the
distances from the median. If their tail falls like a power, whichever, the numbers
i log(D_i / D_{i+1}) are independent and exponential with one mean (Renyi, 1953), and that of i = k
exceeds its share of the next m by chance with probability

    p = (1 + k log(D_k / D_{k+1}) / sum_{i = k+1}^{k+m} i log(D_i / D_{i+1}))^-m

Lighter tails make p an upper bound. The k cells farthest out are named if p < 1e-5 and the gap
D_k / D_{k+1} is 30 or more: among 400 normal values a cell at 200 standard deviations, among 50 one
at a million. Distances of zero are left out: a sparse column is judged by the rest of it, and one
that is constant but for ten cells or fewer not at all.
"""

import warnings
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mmlp.errors import CallError, CallWarning

CHANCE = 1e-5  # of a false alarm in a column, if its tail is a power
GAP = 30.0  # smaller ones do little harm
SHARE = (
    200  # at most one cell in so many is far out: more of them are a part of the column
)
OTHERS = 10  # the fewest cells to judge by
REMEDY = "correct it, or remove the row"
ADVICE = "Such cells spoil what is learnt: correct them, or remove their rows"


class FarCellWarning(CallWarning):
    """Cells lie absurdly far out; `fit` has used them all the same."""


class Cell(NamedTuple):
    row: int
    column: int
    value: float
    times: float  # as far from the median as the farthest that is not named

    def __str__(self) -> str:
        far = f"{self.times:.2g} times as far from the column's median as the other values"
        return f"{self.value:.6g}, {far}"


class Columns(NamedTuple):
    """An argument of `fit` as numbers (n, p), and the names of its columns, if they have any."""

    argument: str
    values: np.ndarray
    names: Sequence[str] | None = None
    squared: bool = True  # in training, so that squares must not overflow

    def place(self, cell: Cell, rows: np.ndarray) -> str:
        if self.names is None or len(self.names) != self.values.shape[1]:
            return f"{self.argument} in row {rows[cell.row]}, column {cell.column} (from 0) is"
        name = str(self.names[cell.column])
        return f"{self.argument} in row {rows[cell.row]} (from 0), column {name!r} is"


def check_cells(
    call: str, dtype, tables: Sequence[Columns], place, stacklevel: int
) -> None:
    """Refuse cells that no training can bear, warn of others far out, at `place(table, cell)`."""
    found = []
    for table in tables:
        cells = far_cells(table.values)
        refused = unbearable(table.values, cells, dtype) if table.squared else None
        if refused:
            cell, reason = refused
            raise CallError(f"{place(table, cell)} {reason}", call=call)
        found += [(cell.times, f"{place(table, cell)} {cell}") for cell in cells]
    if found:
        texts = [text for _, text in sorted(found, key=lambda entry: -entry[0])]
        more = f"; and {len(texts) - 3} more such cells" if len(texts) > 3 else ""
        warning = FarCellWarning(f"{'; '.join(texts[:3])}{more}. {ADVICE}", call=call)
        warnings.warn(warning, stacklevel=stacklevel + 1)


def unbearable(
    values: np.ndarray, cells: Sequence[Cell], dtype
) -> tuple[Cell, str] | None:
    """A cell whose square overflows, in float64 or, if it lies far out, in the dtype; and why."""
    wrong = np.argwhere(
        ~(np.abs(values) <= np.sqrt(np.finfo(np.float64).max / len(values)))
    )
    if len(wrong):
        row, column = wrong[0].tolist()
        cell = Cell(row, column, float(values[row, column]), np.inf)
        return (
            cell,
            f"{cell.value:.6g}, whose square overflows; {REMEDY}, or use other units",
        )
    for cell in cells:
        if abs(cell.value) > np.sqrt(np.finfo(dtype).max):
            return (
                cell,
                f"{cell}, and its square overflows in {np.dtype(dtype).name}; {REMEDY}",
            )
    return None


def names_of(table) -> list[str] | None:
    """The names of the columns of a data frame, or that of a series."""
    columns, name = getattr(table, "columns", None), getattr(table, "name", None)
    if columns is not None:
        return [str(column) for column in columns]
    return None if name is None else [str(name)]


def far_cells(values: np.ndarray) -> list[Cell]:
    """The cells of values (n, p) that lie absurdly far out, the farthest first.

    >>> X = np.random.default_rng(0).normal(10, 1, (400, 3))
    >>> X[17, 1] = 1e6
    >>> [(cell.row, cell.column) for cell in far_cells(X)]
    [(17, 1)]
    """
    n = len(values)
    last = (
        n - 1 - max(1, n // SHARE)
    )  # in ascending order: the farthest that is not far out
    if last < OTHERS:
        return []
    size = np.max(np.abs(values), axis=0)
    scaled = values / np.where(size == 0, 1.0, size)  # in any units nothing overflows
    distance = np.abs(scaled - np.median(scaled, axis=0))
    doubtful = (
        np.max(distance, axis=0) > GAP * np.partition(distance, last, axis=0)[last]
    )
    cells = []
    for j in np.flatnonzero(doubtful).tolist():
        rows, reach = _far(distance[:, j])
        times = (distance[:, j] / reach).tolist()
        cells += [Cell(i, j, float(values[i, j]), times[i]) for i in rows.tolist()]
    return sorted(cells, key=lambda cell: -cell.times)


def _far(distance: np.ndarray) -> tuple[np.ndarray, float]:
    """The rows whose distances are too large for the tail of the others, and the largest other."""
    order = np.argsort(-distance)
    tail = distance[order]
    tail = tail[tail > 0]
    spacings = np.arange(1, len(tail)) * -np.diff(np.log(tail))
    for k in range(max(1, len(tail) // SHARE), 0, -1):
        others = spacings[k : k + max(min(len(tail) // 2, 30), len(tail) // 10)]
        if len(others) < OTHERS or not tail[k - 1] >= GAP * tail[k]:
            continue
        total = others.sum()  # zero where the others all lie at one distance
        if total == 0 or (1 + spacings[k - 1] / total) ** -len(others) < CHANCE:
            return order[:k], float(tail[k])
    return order[:0], 1.0
