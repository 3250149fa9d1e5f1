"""The rows of a report: the user's table as it is, its targets, and names for both."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mmlp.estimators.outliers import column_names
from mmlp.tables.cells import Cells
from mmlp.tables.classification import classify_column
from mmlp.tables.kinds import MISSING_LEVEL, Categories, Dates, LeftOut, Numbers
from mmlp.tables.problems import Problem

SECONDS_PER_DAY = 86_400


@dataclasses.dataclass(frozen=True)
class Rows:
    """Rows of a table with known targets.

    Attributes
    ----------
    X : array or data frame of shape (n_rows, n_inputs)
        Inputs as the user has them: numbers, text, dates, blanks.
    y : array of shape (n_rows, n_targets) or (n_rows, d, d)
        Targets; of shape (n_rows, 0) if the model has none.
    inputs, targets : tuple of str
        Names of the columns.
    row_numbers : array of int, shape (n_rows,)
        Position of each row in the user's table, from 0.
    describe_row : callable
        Turns such a position into the words that a reader knows it by.
    kinds : sequence, default=()
        Kinds of the columns, if the model has classified them.
    """

    X: Any
    y: np.ndarray
    inputs: tuple[str, ...]
    targets: tuple[str, ...]
    row_numbers: np.ndarray
    describe_row: Callable[[int], str]
    kinds: Sequence[Any] = ()

    def __len__(self) -> int:
        return len(self.row_numbers)

    @property
    def used_columns(self) -> list[int]:
        """Indices of the columns that the model uses."""
        if not self.kinds:
            return list(range(len(self.inputs)))
        return [j for j, kind in enumerate(self.kinds) if not isinstance(kind, LeftOut)]

    def row_name(self, i: int) -> str:
        """Return where row i stands in the user's table, in words."""
        return self.describe_row(int(self.row_numbers[i]))

    def take(self, index: np.ndarray) -> "Rows":
        """Return the rows at these indices."""
        X = self.X.iloc[index] if hasattr(self.X, "iloc") else self.X[index]
        return dataclasses.replace(
            self, X=X, y=self.y[index], row_numbers=self.row_numbers[index]
        )

    def with_targets(self, columns: np.ndarray) -> "Rows":
        """Return the same rows with these columns of y (n_rows, n_targets) alone."""
        names = tuple(self.targets[column] for column in columns)
        return dataclasses.replace(self, y=self.y[:, columns], targets=names)

    def sample(self, max_rows: int, seed: int = 0) -> "Rows":
        """Return at most `max_rows` rows, drawn at random, in their order."""
        if len(self) <= max_rows:
            return self
        order = np.random.default_rng(seed).permutation(len(self))
        return self.take(np.sort(order[:max_rows]))

    def shuffle_column(self, j: int, order: np.ndarray) -> Any:
        """Return a copy of X with the cells of column j in another order."""
        if hasattr(self.X, "iloc"):
            X = self.X.copy(deep=False)
            cells = self.X.iloc[:, j].iloc[order]
            X.isetitem(j, cells.set_axis(self.X.index))
            return X
        X = self.X.copy()
        X[:, j] = X[order, j]
        return X

    def column(self, j: int) -> "Column":
        """Return input j in the form that a figure needs."""
        if hasattr(self.X, "iloc"):
            cells = self.X.iloc[:, j].to_numpy()
        else:
            cells = np.asarray(self.X)[:, j]
        kind = self.kinds[j] if self.kinds else None
        return read_column(self.inputs[j], cells, kind)


@dataclasses.dataclass(frozen=True)
class Column:
    """A column in the form that a figure needs.

    Attributes
    ----------
    name : str
    kind : "number", "date" or "text"
    values : array of shape (n_rows,)
        Numbers (missing: NaN), times (missing: NaT) or words.
    """

    name: str
    kind: str
    values: np.ndarray


def read_column(name: str, cells: np.ndarray, kind: Any = None) -> Column:
    """Read a column as the model does or, without its kind, as it looks."""
    if cells.dtype.kind in "biuf" and not isinstance(kind, Categories):
        return Column(name, "number", cells.astype(float))

    distinct = Cells.of(cells.tolist() if cells.dtype == object else cells)
    if kind is None:
        kind = classify_column(name, cells)
        if not isinstance(kind, Problem):
            kind = kind.learn(cells)

    if isinstance(kind, Numbers):
        return Column(name, "number", kind.read_column(distinct))
    if isinstance(kind, Dates):
        days = kind.read_column(distinct)
        if kind.alone:
            return Column(f"{name} (hours)", "number", 24 * days)
        seconds = [
            np.datetime64("NaT") if np.isnan(day) else round(day * SECONDS_PER_DAY)
            for day in days
        ]
        return Column(name, "date", np.array(seconds, "datetime64[s]"))

    levels = [Categories.name_level(cell) for cell in distinct.values]
    if isinstance(kind, Categories):
        levels = [
            level if level == MISSING_LEVEL else kind.pool(level) for level in levels
        ]
    return Column(name, "text", np.array(levels, object)[distinct.codes])


def choose_names(
    names: Sequence[str] | None,
    table: Any,
    model_names: Sequence[str] | None,
    *,
    letter: str,
    n: int,
) -> tuple[str, ...]:
    """Return n names: those given, the table's, the model's, or x0, x1, ...

    >>> choose_names(None, None, None, letter="x", n=2)
    ('x0', 'x1')
    """
    for candidates in (names, column_names(table), model_names):
        if candidates is not None and len(candidates) == n:
            return tuple(str(name) for name in candidates)
    return tuple(f"{letter}{i}" for i in range(n))


def join_names(names: Sequence[str], max_names: int = 6) -> str:
    """Return names in one line.

    >>> join_names(["a", "b", "c"], 2)
    'a, b and 1 more'
    """
    text = ", ".join(names[:max_names])
    if len(names) > max_names:
        text += f" and {len(names) - max_names} more"
    return text
