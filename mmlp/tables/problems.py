"""What is wrong with the cells of a table: facts, and how they are put into words.

A `Problem` is about one column or one cell of it. A table that cannot be used has a
`ProblemsError` with all of its problems, so that a user can correct them in one go.
Rows are counted from 0; a front end that knows the lines of a file passes `place`, and
one that has options for a remedy passes `wording`.
"""

import dataclasses
import enum
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

MAX_LISTED_PROBLEMS = 12
MAX_SHOWN_CHARACTERS = 60

ProblemKind = Literal[
    "not a number",
    "not finite",
    "not a date",
    "not a duration",
    "boolean among numbers",
    "duration among numbers",
    "formatted number",
    "foreign number format",
    "ambiguous number",
    "ambiguous date",
    "mixed date orders",
    "time zone",
    "text",
    "date",
    "missing value",
]


class Remedy(enum.Enum):
    """What a user can do about a problem; each front end has its own words for it."""

    CORRECT_CELL = enum.auto()
    EMPTY_CELL = enum.auto()
    FILL_CELL = enum.auto()
    REMOVE_ROW = enum.auto()
    LEAVE_COLUMN_OUT = enum.auto()
    CHOOSE_ANOTHER_TARGET = enum.auto()
    DECLARE_CATEGORIES = enum.auto()
    TURN_INTO_NUMBERS = enum.auto()
    WRITE_NUMBER_PLAINLY = enum.auto()
    WRITE_ALL_NUMBERS_PLAINLY = enum.auto()
    WRITE_DECIMAL_POINT = enum.auto()
    GIVE_DECIMAL_MARK = enum.auto()
    GIVE_NUMBER_FORMAT = enum.auto()
    CORRECT_NUMBER_FORMAT = enum.auto()
    READ_AS_THOUSANDS = enum.auto()
    READ_AS_DECIMAL_POINT = enum.auto()
    WRITE_DECIMAL_COMMA = enum.auto()
    SET_DATE_ORDER = enum.auto()
    REFIT_WITH_DATE_ORDER = enum.auto()
    WRITE_ISO_DATE = enum.auto()
    ALIGN_TIME_ZONES = enum.auto()
    ADD_TIME_ZONE = enum.auto()
    REMOVE_TIME_ZONE = enum.auto()
    WRITE_DURATION = enum.auto()
    WRITE_ALL_DURATIONS = enum.auto()
    WRITE_DURATION_AS_NUMBER = enum.auto()


# Format strings: `{readings[0]}` and `{readings[1]}` are what the cell may mean.
Wording = Mapping[Remedy, str]

# The words of the Python library. It has no way to give a decimal mark or a number
# format, so it does not offer these remedies.
LIBRARY_WORDING: Wording = {
    Remedy.CORRECT_CELL: "correct it",
    Remedy.EMPTY_CELL: "empty the cell",
    Remedy.FILL_CELL: "fill it in",
    Remedy.REMOVE_ROW: "remove the row",
    Remedy.LEAVE_COLUMN_OUT: "leave the column out",
    Remedy.CHOOSE_ANOTHER_TARGET: "choose another target",
    Remedy.DECLARE_CATEGORIES: "name the column in `categories`",
    Remedy.TURN_INTO_NUMBERS: "turn it into numbers",
    Remedy.WRITE_NUMBER_PLAINLY: "write 1234.5",
    Remedy.WRITE_ALL_NUMBERS_PLAINLY: (
        "write all decimals with a point and no thousands separators"
    ),
    Remedy.WRITE_DECIMAL_POINT: "write decimals with a point",
    Remedy.CORRECT_NUMBER_FORMAT: "read the file with another number format",
    Remedy.READ_AS_THOUSANDS: "write {readings[1]} if it is that",
    Remedy.READ_AS_DECIMAL_POINT: "give numbers instead of text",
    Remedy.WRITE_DECIMAL_COMMA: "give numbers instead of text",
    Remedy.SET_DATE_ORDER: 'set `dates` to "day-first" or "month-first"',
    Remedy.REFIT_WITH_DATE_ORDER: 'fit with dates="day-first" or "month-first"',
    Remedy.WRITE_ISO_DATE: "write it like 2024-03-05",
    Remedy.ALIGN_TIME_ZONES: "write all times with a zone, or none",
    Remedy.ADD_TIME_ZONE: "add one, such as 2024-03-05 14:30+01:00",
    Remedy.REMOVE_TIME_ZONE: (
        "write the local time of the training data, without a zone"
    ),
    Remedy.WRITE_DURATION: (
        "give it as a timedelta, or as a text such as '1 days 02:00:00'"
    ),
    Remedy.WRITE_ALL_DURATIONS: "turn it into one, or all of them into numbers",
    Remedy.WRITE_DURATION_AS_NUMBER: "turn it into a number in the unit of the others",
}


@dataclasses.dataclass(frozen=True)
class Problem:
    """Something that is wrong with a column, or with cells of it.

    Parameters
    ----------
    kind : ProblemKind
    column : str
        Name of the column.
    message : str
        What is wrong, without the place and without the remedies.
    remedies : tuple of Remedy
        What a user can do, the simplest first.
    row : int, optional
        The first row with the problem, counted from 0; None for the whole column.
    value : object
        The cell of that row.
    readings : tuple of str
        What the cell may mean, where that is the problem.
    n_more : int, default=0
        Number of further cells of the column with the same problem.
    other_rows : tuple of int
        The rows of these cells, where they are few; `n_more` is then 0.
    """

    kind: ProblemKind
    column: str
    message: str
    remedies: tuple[Remedy, ...]
    row: int | None = None
    value: Any = None
    readings: tuple[str, ...] = ()
    n_more: int = 0
    other_rows: tuple[int, ...] = ()

    def describe(self, place: Callable[[int], str], wording: Wording) -> str:
        """Return the problem as a sentence without a full stop.

        Parameters
        ----------
        place : callable
            Maps a row to the words for its place, such as "line 3".
        wording : mapping from Remedy to str
            The remedies in the words of a front end, where they differ from the
            library's.
        """
        where = "" if self.row is None else f"{place(self.row)}, "

        words = {**LIBRARY_WORDING, **wording}
        offered = [
            words[remedy].format(readings=self.readings)
            for remedy in self.remedies
            if remedy in words
        ]
        remedies = f"; {', or '.join(offered)}" if offered else ""

        more = f" ({self.n_more} more such cells)" if self.n_more else ""
        if self.other_rows:
            more = f" (also {' and '.join(map(place, self.other_rows))})"
        return f"{where}column {self.column!r}: {self.message}{remedies}{more}"

    def renumber(self, row_indices: np.ndarray) -> "Problem":
        """Return the problem for the table from which `row_indices` were taken."""
        if self.row is None:
            return self
        return dataclasses.replace(
            self,
            row=int(row_indices[self.row]),
            other_rows=tuple(int(row_indices[row]) for row in self.other_rows),
        )

    def replace_remedy(self, remedy: Remedy, substitute: Remedy) -> "Problem":
        """Return the problem with another remedy in the place of one."""
        remedies = tuple(
            substitute if offered is remedy else offered for offered in self.remedies
        )
        return dataclasses.replace(self, remedies=remedies)


class ProblemsError(ValueError):
    """A table cannot be used.

    Parameters
    ----------
    source : str
        The argument or the file that holds the table.
    problems : sequence of Problem
        All that is wrong with its cells.
    place : callable, optional
        Maps a row to the words for its place; by default "row 3 (from 0)".
    wording : mapping from Remedy to str, optional
        The remedies in the words of a front end.
    name_faults, line_faults : sequence of str
        What is wrong with the names and the lines of a file.
    """

    def __init__(
        self,
        source: str,
        problems: Sequence[Problem],
        *,
        place: Callable[[int], str] = "row {} (from 0)".format,
        wording: Wording | None = None,
        name_faults: Sequence[str] = (),
        line_faults: Sequence[str] = (),
    ) -> None:
        texts = [problem.describe(place, wording or {}) for problem in problems]
        # Ragged lines come last: there may be thousands of them, but a problem with
        # cells is named once for each column.
        super().__init__(list_problems(source, [*name_faults, *texts, *line_faults]))
        self.source = source
        self.problems = tuple(problems)
        self.name_faults = tuple(name_faults)
        self.line_faults = tuple(line_faults)

    def renumber(self, row_indices: np.ndarray) -> "ProblemsError":
        """Return the error for the table from which `row_indices` were taken.

        For errors about arguments: the places and words of a file are not kept.
        """
        problems = [problem.renumber(row_indices) for problem in self.problems]
        return ProblemsError(self.source, problems)


def join_problems(
    problems: Sequence[Problem], others: Sequence[Problem]
) -> list[Problem]:
    """Add the `others` of columns that have no problem yet: one cause is named once."""
    columns = {problem.column for problem in problems}
    return [*problems, *(other for other in others if other.column not in columns)]


def list_problems(source: str, texts: Sequence[str]) -> str:
    """Write one problem in a line, and several as a list.

    >>> list_problems("wind.csv", ["line 3: no number"])
    'wind.csv, line 3: no number.'
    >>> print(list_problems("wind.csv", ["line 3: no number", "line 7: no number"]))
    wind.csv has 2 problems:
      line 3: no number.
      line 7: no number.
    """
    if len(texts) == 1:
        return f"{source}, {texts[0]}."

    lines = "".join(f"\n  {text}." for text in texts[:MAX_LISTED_PROBLEMS])
    n_more = len(texts) - MAX_LISTED_PROBLEMS
    more = f"\n  and {n_more} more." if n_more > 0 else ""
    return f"{source} has {len(texts)} problems:{lines}{more}"


def quote(cell: Any) -> str:
    """Return a cell in quotation marks, cut if it is long."""
    return f"{str(cell)!r:.{MAX_SHOWN_CHARACTERS}}"
