"""`Encoder`: a table of any columns as numbers for networks, by scikit-learn's transformers.

It is made once, from the rows of training, and reads other tables the same way. It is a list of
kinds, and nothing else: so it goes into a file without code.
"""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from mmlp.tables import plain
from mmlp.tables.cells import Cells, missing
from mmlp.tables.kinds import (
    NO_VALUE,
    Dates,
    Kind,
    LeftOut,
    Numbers,
    Options,
    Words,
    kind_of,
    unread,
    with_order_of,
)
from mmlp.tables.kinds import column as read_column
from mmlp.tables.number_format import find_ambiguous
from mmlp.tables.problems import Problem, ProblemsError

SHOWN = 5  # unknown levels that are named
CHOICES = {
    "missing": ("impute", "drop", "refuse"),
    "categories": ("auto", "ignore", "refuse"),
    "dates": ("auto", "day-first", "month-first", "ignore", "refuse"),
}


class ColumnsWarning(UserWarning):
    """A table for a prediction has what training had not: other words, or missing cells."""


@dataclass(frozen=True)
class Encoder:
    """The kinds of the p columns of a table; `fills` tells whether missing cells are filled in."""

    kinds: tuple[Kind, ...]
    fills: bool = True

    @classmethod
    def of(
        cls,
        X: np.ndarray,
        names: Sequence[str],
        options: Options,
        forced: Sequence[bool],
    ) -> "Encoder":
        """The kinds of the columns of X (n, p); `forced` ones are words though they are numbers."""
        found: list[Any] = list(_plain_kinds(X)) if is_plain(X) else []
        for j, name in enumerate(names):
            if not found[j:] or forced[j]:
                kind = kind_of(name, Cells.of(X[:, j]), options, forced=forced[j])
                found[j : j + 1] = [kind]
        kinds: Any = tuple(found)
        problems = [kind for kind in kinds if isinstance(kind, Problem)]
        problems += _ambiguous_numbers(
            X, names, [isinstance(kind, Numbers) for kind in kinds]
        )
        if options.missing == "refuse":
            problems += _gaps(X, names, kinds)
        if problems:
            raise ProblemsError("X", problems)
        if all(isinstance(kind, LeftOut) for kind in kinds):
            why = "; ".join(
                f"{name}: {k.why}" for name, k in zip(names, kinds, strict=True)
            )
            raise ValueError(f"no input has anything to learn from ({why:.200}).")
        return cls(kinds, options.missing != "refuse")

    def __call__(self, X: np.ndarray, names: Sequence[str]) -> np.ndarray:
        """The columns of X (n, p) as finite numbers, float64, (n, width)."""
        if not self.fills and (gaps := _gaps(X, names, self.kinds)):
            raise ProblemsError("X", gaps)
        is_numbers = [isinstance(kind, Numbers) for kind in self.kinds]
        expects_commas = any(
            isinstance(kind, Numbers) and kind.commas for kind in self.kinds
        )
        problems = _ambiguous_numbers(
            X, names, is_numbers, expects_commas=expects_commas
        )
        numbers, named = [], [*zip(names, self.kinds, X.T, strict=True)]
        for name, kind, column in named:
            if isinstance(kind, Numbers | Dates):
                found = _values(kind, column, name)
                numbers += [] if isinstance(found, Problem) else kind.features(found)
                problems += [found] if isinstance(found, Problem) else []
        if problems:
            raise ProblemsError("X", problems)
        words = [
            _levels(k, Cells.of(cells), n)
            for n, k, cells in named
            if isinstance(k, Words)
        ]
        return self._joined(len(X), numbers, words)

    @property
    def fill(self) -> np.ndarray:
        """What stands for missing numbers, (numbers,)."""
        kinds = [kind for kind in self.kinds if isinstance(kind, Numbers | Dates)]
        found = [kind.features(np.array([kind.fill])) for kind in kinds]
        return np.concatenate(
            [x for features in found for x in features] or [np.empty(0)]
        )

    @property
    def indicators(self) -> np.ndarray:
        """Which of the numbers that come out are 0 or 1, (width,)."""
        more = sum(
            isinstance(kind, Numbers | Dates) and kind.missing > 0
            for kind in self.kinds
        )
        more += sum(
            len(kind.indicators) for kind in self.kinds if isinstance(kind, Words)
        )
        return np.arange(len(self.fill) + more) >= len(self.fill)

    def gaps(self, X: np.ndarray) -> np.ndarray:
        """Which rows lack a value in a column that is used, (n,)."""
        used = [j for j, kind in enumerate(self.kinds) if not isinstance(kind, LeftOut)]
        return np.any([_absent(X[:, j]) for j in used], axis=0)

    def with_order_of(self, X: np.ndarray) -> "Encoder":
        """Return the encoder that reads 05/03/2024 as the whole table X (n, p) shows it.

        Pieces of the table need not show the order of day and month themselves.
        """
        kinds = tuple(
            with_order_of(kind, Cells.of(X[:, j])) if isinstance(kind, Dates) else kind
            for j, kind in enumerate(self.kinds)
        )
        return replace(self, kinds=kinds)

    def plain(self) -> dict:
        """As JSON."""
        return {"kinds": [*map(plain.entry, self.kinds)], "fills": self.fills}

    @classmethod
    def from_plain(cls, value: dict) -> "Encoder":
        """The inverse of `plain`; what another hand has written is refused."""
        kinds = tuple(plain.kind(dict(entry)) for entry in value["kinds"])
        if not isinstance(value["fills"], bool):
            raise ValueError(f"its fills is {value['fills']!r:.80}")
        return cls(kinds, value["fills"])

    def _joined(
        self, n: int, numbers: list[np.ndarray], words: list[np.ndarray]
    ) -> np.ndarray:
        parts = [np.empty((n, 0))]
        if numbers:
            values, first = np.column_stack(numbers), self._first
            if np.isfinite(
                values
            ).all():  # nothing to fill in: a quick start without imputers
                gaps = [
                    k
                    for k in self.kinds
                    if isinstance(k, Numbers | Dates) and k.missing
                ]
                parts += [values, np.zeros((n, len(gaps)))]
            else:
                parts += [
                    self._imputer.transform(values),
                    self._flags.transform(values[:, first]),
                ]
        if words:
            parts.append(self._words.transform(np.column_stack(words)))
        return np.concatenate(parts, axis=1)

    @cached_property
    def _first(self) -> list[int]:
        """Of the features of each number or date the first."""
        kinds = [kind for kind in self.kinds if isinstance(kind, Numbers | Dates)]
        sizes = [len(kind.features(np.zeros(1))) for kind in kinds]
        return np.cumsum([0, *sizes[:-1]]).tolist()

    # Fitted to a row or two of which they must learn what is known here.

    @cached_property
    def _imputer(self) -> Any:
        from sklearn.impute import SimpleImputer

        return SimpleImputer(strategy="median").fit(self.fill[None])

    @cached_property
    def _flags(self) -> Any:
        from sklearn.impute import MissingIndicator

        kinds = [kind for kind in self.kinds if isinstance(kind, Numbers | Dates)]
        rows = np.array(
            [[0.0] * len(kinds), [np.nan if kind.missing else 0.0 for kind in kinds]]
        )
        return MissingIndicator(error_on_new=False).fit(rows)

    @cached_property
    def _words(self) -> Any:
        from sklearn.preprocessing import OneHotEncoder

        levels = [
            np.array(k.indicators, object) for k in self.kinds if isinstance(k, Words)
        ]
        row = np.array([[some[0] for some in levels]], object)
        options: Any = {
            "categories": levels,
            "handle_unknown": "ignore",
            "sparse_output": False,
        }
        return OneHotEncoder(**options).fit(row)


def is_plain(X: np.ndarray) -> bool:
    return X.dtype.kind in "biuf"


def _plain_kinds(X: np.ndarray) -> Iterator[Kind]:
    """Of columns that are numbers."""
    gone = (
        np.sum(np.isnan(X), axis=0).tolist()
        if X.dtype.kind == "f"
        else [0] * X.shape[1]
    )
    for j, count in enumerate(gone):
        if count == len(X):
            yield LeftOut("no values", count)
        else:
            values = X[:, j].astype(np.float64)
            binary = bool(np.isin(values[~np.isnan(values)], (0.0, 1.0)).all())
            yield Numbers(float(np.nanmedian(values)), count, binary=binary)


def _absent(column: np.ndarray) -> np.ndarray:
    if is_plain(column):
        return np.isnan(column.astype(np.float64))
    cells = Cells.of(column)
    return cells.spread([missing(cell) for cell in cells.values]) > 0


def _gaps(X: np.ndarray, names: Sequence[str], kinds: Sequence) -> list[Problem]:
    """Cells that are missing where they must not be."""
    found, text = [], "the value is missing; fill it in, or remove the row"
    for j, kind in enumerate(kinds):
        if not isinstance(kind, LeftOut | Problem) and (gone := _absent(X[:, j])).any():
            found.append(
                Problem(text, names[j], int(np.argmax(gone)), int(gone.sum()) - 1)
            )
    return found


def _ambiguous_numbers(
    X: np.ndarray,
    names: Sequence[str],
    is_numbers: Sequence[bool],
    *,
    expects_commas: bool = False,
) -> list[Problem]:
    """Cells of columns of numbers, such as "1.600", that may be two numbers."""
    if is_plain(X):
        return []
    columns = {name: Cells.of(X[:, j]) for j, name in enumerate(names) if is_numbers[j]}

    def settle(cell: str, _: bool) -> str:
        return f"write {cell.replace('.', '')} if it is that, or give numbers instead of text"

    return find_ambiguous(columns, list(columns), settle, expects_commas=expects_commas)


def _values(
    kind: Numbers | Dates, column: np.ndarray, name: str
) -> np.ndarray | Problem:
    """A column as numbers, NaN where there are none."""
    if isinstance(kind, Numbers) and _are_values_of(kind, column):
        values = column.astype(np.float64)
    else:
        cells = Cells.of(column)
        if problem := unread(name, cells, kind):
            return problem
        values = read_column(kind, cells)
    if not kind.missing and (count := int(np.isnan(values).sum())):
        text = f"column {name!r} has {count} missing cells, but had none in training"
        warnings.warn(
            f"{text}: its median is used there.", ColumnsWarning, stacklevel=2
        )
    return values


def _are_values_of(kind: Numbers, column: np.ndarray) -> bool:
    """Whether an array holds the numbers of this kind as they are, so that no cell can be wrong."""
    if not is_plain(column) or kind.durations:
        return False
    return kind.binary or column.dtype.kind != "b"


def _levels(kind: Words, cells: Cells, name: str) -> np.ndarray:
    """A column as levels, (n,); those that training had not are named."""
    known, words = (
        {*kind.levels, *kind.others},
        [kind.word(cell) for cell in cells.values],
    )
    unknown = sorted({*words} - known)
    if NO_VALUE in unknown:
        unknown.remove(NO_VALUE)
        warnings.warn(
            f"column {name!r} has missing cells, but had none in training.",
            ColumnsWarning,
            stacklevel=2,
        )
    if unknown:
        shown = ", ".join(map(repr, unknown[:SHOWN]))
        more = f" and {len(unknown) - SHOWN} more" if len(unknown) > SHOWN else ""
        as_what = (
            "taken as rare ones"
            if kind.rare
            else "they are like none of the known ones"
        )
        text = f"column {name!r} has values that training had not: {shown}{more}; {as_what}."
        warnings.warn(text, ColumnsWarning, stacklevel=2)
    return np.array([kind.level(word) for word in words], object)[cells.codes]
