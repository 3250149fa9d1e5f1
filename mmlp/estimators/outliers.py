"""Find cells of a table that lie absurdly far out, such as 1e6 among values near 10.

A fixed number of deviations would not do: in columns with heavy tails, such as incomes,
thousands are usual. So a cell is compared with the tail of its own column. Let D_1 >=
D_2 >= ... be the distances from the median. If their tail falls like a power,
whichever, the numbers i log(D_i / D_{i+1}) are independent and exponential with one
mean (Renyi, 1953), and that of i = k exceeds its share of the next m by chance with
probability

    p = (1 + k log(D_k / D_{k+1}) / sum_{i = k+1}^{k+m} i log(D_i / D_{i+1}))^-m

Lighter tails make p an upper bound. The k cells farthest out are named if p < 1e-5 and
the gap D_k / D_{k+1} is 30 or more: among 400 normal values a cell at 200 standard
deviations, among 50 one at a million. Distances of zero are left out: a sparse column
is judged by its other cells, and one that is constant but for ten cells or fewer not at
all.
"""

import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from jax.typing import DTypeLike

from mmlp.errors import CallError, CallWarning

# The probability of a false alarm in a column whose tail is a power.
MAX_FALSE_ALARM_PROBABILITY = 1e-5

# Smaller gaps do little harm.
MIN_GAP = 30.0

# At most one cell in this many is far out: more of them are a part of the column.
MIN_CELLS_PER_FAR_CELL = 200

# The fewest other cells to compare with.
MIN_OTHER_CELLS = 10

MAX_CELLS_SHOWN = 3
REMEDY = "correct it, or remove the row"
ADVICE = "Such cells spoil what is learnt: correct them, or remove their rows"


class FarCellWarning(CallWarning):
    """Cells lie absurdly far out; `fit` has used them all the same."""


class Cell(NamedTuple):
    """A cell that lies far out.

    Attributes
    ----------
    row, column : int
    value : float
    times : float
        Its distance from the median over the largest distance of the cells that are not
        far out.
    """

    row: int
    column: int
    value: float
    times: float

    def __str__(self) -> str:
        return (
            f"{self.value:.6g}, {self.times:.2g} times as far from the column's median "
            "as the other values"
        )


class Columns(NamedTuple):
    """An argument of `fit` as numbers.

    Attributes
    ----------
    argument : str
        Its name.
    values : array of shape (n, p)
    names : names of the columns, optional
    squared : bool
        Whether training squares the values, so that squares must not overflow.
    """

    argument: str
    values: np.ndarray
    names: Sequence[str] | None = None
    squared: bool = True

    def place(self, cell: Cell, rows: np.ndarray) -> str:
        """Return the start of a sentence about a cell; `rows` are the row indices."""
        row = rows[cell.row]
        if self.names is None or len(self.names) != self.values.shape[1]:
            return f"{self.argument} in row {row}, column {cell.column} (from 0) is"
        name = str(self.names[cell.column])
        return f"{self.argument} in row {row} (from 0), column {name!r} is"


def check_cells(
    call: str,
    dtype: DTypeLike,
    tables: Sequence[Columns],
    place: Callable[[Columns, Cell], str],
    stacklevel: int,
) -> None:
    """Check the cells of tables before training.

    Parameters
    ----------
    call : str
        What errors and warnings name.
    dtype : dtype of the networks
    tables : Columns
    place : callable
        Returns where a cell is, as the start of a sentence.
    stacklevel : int
        Of the frame to which a warning is attributed; 1 is the caller.

    Raises
    ------
    CallError
        If the square of a cell overflows.

    Warns
    -----
    FarCellWarning
        If cells lie absurdly far out.
    """
    found = []
    for table in tables:
        cells = find_far_cells(table.values)
        if table.squared:
            overflow = find_overflow(table.values, cells, dtype)
            if overflow is not None:
                cell, reason = overflow
                raise CallError(f"{place(table, cell)} {reason}", call=call)
        found += [(cell.times, f"{place(table, cell)} {cell}") for cell in cells]
    if not found:
        return

    texts = [text for _, text in sorted(found, key=lambda entry: -entry[0])]
    shown = "; ".join(texts[:MAX_CELLS_SHOWN])
    n_others = len(texts) - MAX_CELLS_SHOWN
    others = f"; and {n_others} more such cells" if n_others > 0 else ""
    warning = FarCellWarning(f"{shown}{others}. {ADVICE}", call=call)
    warnings.warn(warning, stacklevel=stacklevel + 1)


def find_overflow(
    values: np.ndarray, far_cells: Sequence[Cell], dtype: DTypeLike
) -> tuple[Cell, str] | None:
    """Return a cell whose square overflows, and the reason.

    It overflows in float64 or, if it lies far out, in the dtype of the networks.
    """
    limit = np.sqrt(np.finfo(np.float64).max / len(values))
    too_large = np.argwhere(~(np.abs(values) <= limit))
    if len(too_large):
        row, column = too_large[0].tolist()
        cell = Cell(row, column, float(values[row, column]), np.inf)
        reason = (
            f"{cell.value:.6g}, whose square overflows; {REMEDY}, or use other units"
        )
        return cell, reason
    for cell in far_cells:
        if abs(cell.value) > np.sqrt(np.finfo(dtype).max):
            name = np.dtype(dtype).name
            return cell, f"{cell}, and its square overflows in {name}; {REMEDY}"
    return None


def column_names(table: Any) -> list[str] | None:
    """Return the names of the columns of a data frame, or that of a series."""
    columns = getattr(table, "columns", None)
    if columns is not None:
        return [str(column) for column in columns]
    name = getattr(table, "name", None)
    return None if name is None else [str(name)]


def find_far_cells(values: np.ndarray) -> list[Cell]:
    """Return the cells of values (n, p) that lie absurdly far out, the farthest first.

    >>> X = np.random.default_rng(0).normal(10, 1, (400, 3))
    >>> X[17, 1] = 1e6
    >>> [(cell.row, cell.column) for cell in find_far_cells(X)]
    [(17, 1)]
    """
    n_rows = len(values)
    # In ascending order of distances, the farthest cell that cannot be far out.
    last_usual = n_rows - 1 - max(1, n_rows // MIN_CELLS_PER_FAR_CELL)
    if last_usual < MIN_OTHER_CELLS:
        return []

    size = np.max(np.abs(values), axis=0)
    scaled = values / np.where(size == 0, 1.0, size)  # so that nothing overflows
    distance = np.abs(scaled - np.median(scaled, axis=0))
    largest = np.max(distance, axis=0)
    usual = np.partition(distance, last_usual, axis=0)[last_usual]

    cells = []
    for j in np.flatnonzero(largest > MIN_GAP * usual).tolist():
        rows, reach = _find_far_rows(distance[:, j])
        times = (distance[:, j] / reach).tolist()
        cells += [Cell(i, j, float(values[i, j]), times[i]) for i in rows.tolist()]
    return sorted(cells, key=lambda cell: -cell.times)


def _find_far_rows(distance: np.ndarray) -> tuple[np.ndarray, float]:
    """Return rows too far out for the tail of the others, and the next distance."""
    order = np.argsort(-distance)
    tail = distance[order]
    tail = tail[tail > 0]
    n_tail = len(tail)
    spacings = np.arange(1, n_tail) * -np.diff(np.log(tail))
    n_compared = max(min(n_tail // 2, 30), n_tail // 10)

    for k in range(max(1, n_tail // MIN_CELLS_PER_FAR_CELL), 0, -1):
        others = spacings[k : k + n_compared]
        if len(others) < MIN_OTHER_CELLS or not tail[k - 1] >= MIN_GAP * tail[k]:
            continue
        total = others.sum()
        # The total is zero if the others all lie at one distance.
        if total == 0:
            return order[:k], float(tail[k])
        probability = (1 + spacings[k - 1] / total) ** -len(others)
        if probability < MAX_FALSE_ALARM_PROBABILITY:
            return order[:k], float(tail[k])
    return order[:0], 1.0
