"""The rows of a report: the user's table as it is, its answers, and where each row stands."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mmlp.estimators.outliers import column_names
from mmlp.tables.cells import Cells
from mmlp.tables.kinds import (
    NO_VALUE,
    Dates,
    LeftOut,
    Numbers,
    Options,
    Words,
    column,
    kind_of,
)


@dataclasses.dataclass(frozen=True)
class Rows:
    """Inputs X (n, p), of which numbers, text and dates may be cells, and targets y."""

    X: Any  # an array, or a data frame
    y: np.ndarray  # (n, d), (n, d, d) or, without targets, (n, 0), float64
    inputs: tuple[str, ...]
    targets: tuple[str, ...]
    number: np.ndarray  # of each row in the table, from 0
    place: Callable[[int], str]  # of such a number, in the reader's words
    kinds: Sequence[Any] = ()  # of the columns, as the model reads them, if it says so

    def __len__(self) -> int:
        return len(self.number)

    @property
    def used(self) -> list[int]:
        """The numbers of the columns that the model uses."""
        if not self.kinds:
            return list(range(len(self.inputs)))
        return [j for j, kind in enumerate(self.kinds) if not isinstance(kind, LeftOut)]

    def take(self, index: np.ndarray) -> "Rows":
        some = {
            "X": taken(self.X, index),
            "y": self.y[index],
            "number": self.number[index],
        }
        return dataclasses.replace(self, **some)

    def with_targets(self, columns: np.ndarray) -> "Rows":
        """Return the same rows with these columns of y (n, d) alone."""
        names = tuple(self.targets[column] for column in columns)
        return dataclasses.replace(self, y=self.y[:, columns], targets=names)

    def some(self, most: int, seed: int = 0) -> "Rows":
        """At most so many rows, drawn at random, in their order."""
        if len(self) <= most:
            return self
        return self.take(
            np.sort(np.random.default_rng(seed).permutation(len(self))[:most])
        )

    def shuffled(self, j: int, order: np.ndarray) -> Any:
        """X with the cells of column j in another order."""
        if hasattr(self.X, "iloc"):
            X, cells = self.X.copy(deep=False), self.X.iloc[:, j].iloc[order]
            X.isetitem(j, cells.set_axis(self.X.index))
            return X
        X = self.X.copy()
        X[:, j] = X[order, j]
        return X

    def column(self, j: int) -> "Column":
        return Column.of(
            self.inputs[j], _cells(self.X, j), self.kinds[j] if self.kinds else None
        )


@dataclasses.dataclass(frozen=True)
class Column:
    """A column as a picture needs it: numbers or dates, where missing is NaN or NaT, or words."""

    name: str
    kind: str  # "number", "date" or "text"
    values: np.ndarray

    @classmethod
    def of(cls, name: str, cells: np.ndarray, kind: Any = None) -> "Column":
        """As the model reads it, or as it looks."""
        if cells.dtype.kind in "biuf" and not isinstance(kind, Words):
            return cls(name, "number", cells.astype(float))
        some = Cells.of(cells.tolist() if cells.dtype == object else cells)
        kind = kind or kind_of(name, some, Options(), forced=False)
        if isinstance(kind, Numbers):
            return cls(name, "number", column(kind, some))
        if isinstance(kind, Dates):
            days = column(kind, some)
            if kind.alone:
                return cls(f"{name} (hours)", "number", 24 * days)
            seconds = [
                np.datetime64("NaT") if np.isnan(day) else round(day * 86400)
                for day in days
            ]
            return cls(name, "date", np.array(seconds, "datetime64[s]"))
        words = [Words.word(cell) for cell in some.values]
        if isinstance(kind, Words):
            words = [word if word == NO_VALUE else kind.level(word) for word in words]
        return cls(name, "text", np.array(words, object)[some.codes])


def taken(X: Any, index: np.ndarray) -> Any:
    return X.iloc[index] if hasattr(X, "iloc") else X[index]


def named(
    given: Sequence[str] | None, table: Any, model: Any, held: str, letter: str, n: int
):
    """n names of columns: those given, the table's, the model's, or x0, x1, ..."""
    own = getattr(model, held, None)
    for names in (given, column_names(table), own):
        if names is not None and len(names) == n:
            return tuple(map(str, names))
    return tuple(f"{letter}{i}" for i in range(n))


def listed(names: Sequence[str], most: int = 6) -> str:
    """
    >>> listed(["a", "b", "c"], 2)
    'a, b and 1 more'
    """
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _cells(X: Any, j: int) -> np.ndarray:
    return X.iloc[:, j].to_numpy() if hasattr(X, "iloc") else np.asarray(X)[:, j]
