"""What is wrong with a table, all of it in one answer."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

SHOWN = 12  # problems that are told one by one


class Problem(NamedTuple):
    """Of a column, or of a cell in it; `more` cells of the column have the same.

    Where such cells are few, `other_rows` are their rows, and `more` is not needed.
    """

    text: str
    column: str
    row: int | None = None
    more: int = 0
    other_rows: tuple[int, ...] = ()

    def told(self, place: Callable[[int], str]) -> str:
        """In words, the row as `place` says where it is."""
        where = "" if self.row is None else f"{place(self.row)}, "
        more = f" ({self.more} more such cells)" if self.more else ""
        if self.other_rows:
            more = f" (also {' and '.join(map(place, self.other_rows))})"
        return f"{where}column {self.column!r}: {self.text}{more}"

    def renumber(self, row_numbers: np.ndarray) -> "Problem":
        """Return the problem of the table from which rows `row_numbers` were taken."""
        if self.row is None:
            return self
        return self._replace(
            row=int(row_numbers[self.row]),
            other_rows=tuple(int(row_numbers[row]) for row in self.other_rows),
        )


class ProblemsError(ValueError):
    """A table cannot be used; `problems` are all that is wrong with it."""

    def __init__(self, what: str, problems: Sequence[Problem]):
        super().__init__(
            listed(what, [p.told("row {} (from 0)".format) for p in problems])
        )
        self.what = what
        self.problems = problems

    def renumber(self, row_numbers: np.ndarray) -> "ProblemsError":
        """Return the error for the table from which rows `row_numbers` were taken."""
        return ProblemsError(
            self.what, [p.renumber(row_numbers) for p in self.problems]
        )


def listed(what: str, texts: Sequence[str]) -> str:
    """One problem in a line, several in a list.

    >>> listed("wind.csv", ["line 3: no number"])
    'wind.csv, line 3: no number.'
    >>> print(listed("wind.csv", ["line 3: no number", "line 7: no number"]))
    wind.csv has 2 problems:
      line 3: no number.
      line 7: no number.
    """
    if len(texts) == 1:
        return f"{what}, {texts[0]}."
    more = f"\n  and {len(texts) - SHOWN} more." if len(texts) > SHOWN else ""
    lines = "".join(f"\n  {text}." for text in texts[:SHOWN])
    return f"{what} has {len(texts)} problems:{lines}{more}"
