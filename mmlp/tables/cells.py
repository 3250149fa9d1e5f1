"""One cell of a table, and a column as its distinct cells.

Text, NumPy and pandas hold the same value in different types. `normalize_cell` is the
one place where they are made equal, before a column is classified.
"""

import datetime
import decimal
import math
import numbers
from collections.abc import Iterable
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np

from mmlp.tables.dates import Duration, parse_duration

# Below this number, a float holds every whole number exactly.
MAX_EXACT_FLOAT = 2**53
BOOLEAN_TEXTS = {"true": True, "false": False}
MISSING_TEXTS = frozenset(
    {
        *("", "?", "na", "n/a", "nan", "null", "none", "-", ".", "nat", "<na>"),
        # As spreadsheets write it.
        *("#n/a", "#na"),
        # The dashes of typesetting.
        *("\u2212", "\u2013", "\u2014"),
    }
)


class Cells(NamedTuple):
    """A column as its distinct normalized values.

    Parameters
    ----------
    values : list
        The distinct values, in the order of their first row; None if missing.
    codes : array of int, shape (n_rows,)
        For each row the index of its value.
    """

    values: list[Any]
    codes: np.ndarray

    @classmethod
    def of(cls, column: Iterable[Any]) -> "Cells":
        """Return the distinct values of a column.

        >>> Cells.of(["b", " a", "b "]).values
        ['b', 'a']
        """
        column = list(column)
        # Python compares True, 1 and 1.0 as equal, and the two times 02:30 of the night
        # in which clocks are set back. The keys tell them apart.
        cell_types = {type(cell) for cell in column}
        has_times = any(
            issubclass(cell_type, datetime.datetime) for cell_type in cell_types
        )
        folds: Iterable[int] = repeat(0)
        if has_times:
            folds = [getattr(cell, "fold", 0) for cell in column]

        index_of_cell: dict[Any, int] = {}
        index_of_value: dict[Any, int] = {}
        try:
            codes = [
                index_of_cell.setdefault(
                    (cell.__class__, fold, cell), len(index_of_cell)
                )
                for cell, fold in zip(column, folds, strict=False)
            ]
            normalized = [
                (fold, normalize_cell(cell)) for _, fold, cell in index_of_cell
            ]
            value_indices = [
                index_of_value.setdefault(
                    (isinstance(value, bool), fold, value), len(index_of_value)
                )
                for fold, value in normalized
            ]
        except TypeError:  # a list or a dictionary, which has no hash
            # The estimator checks of scikit-learn expect the end of this message.
            raise TypeError(
                "a cell of a table holds a Python object; the argument must be a "
                "string or a number"
            ) from None

        values = [value for _, _, value in index_of_value]
        return cls(values, np.array(value_indices, int)[codes])

    @property
    def counts(self) -> np.ndarray:
        """The number of rows with each value, (n_values,)."""
        return np.bincount(self.codes, minlength=len(self.values))

    def find_present(self) -> list[int]:
        """Return the indices of the values that are not missing."""
        return [k for k, cell in enumerate(self.values) if cell is not None]

    def count_missing(self) -> int:
        """Return the number of rows without a value."""
        missing = [k for k, cell in enumerate(self.values) if cell is None]
        return int(self.counts[missing].sum())

    def count_rows(self, indices: list[int]) -> int:
        """Return the number of rows that hold one of these values."""
        return int(self.counts[indices].sum())

    def find_first_row(self, index: int) -> int:
        """Return the first row that holds the value with this index."""
        return int(np.argmax(self.codes == index))

    def find_rows(self, index: int) -> list[int]:
        """Return all rows that hold the value with this index."""
        return np.flatnonzero(self.codes == index).tolist()

    def spread(self, entries: Iterable[float | None]) -> np.ndarray:
        """Map each row to the entry of its value, (n_rows,); None becomes NaN."""
        return np.array(list(entries), np.float64)[self.codes]


def normalize_cell(cell: Any) -> Any:
    """Return one form for a cell that text, NumPy and pandas hold in different types.

    A boolean is a `bool`, also if it is written as true, True or TRUE; a missing value
    is None; a duration is a `Duration`; text has no blanks around it. Numbers and dates
    stay as they are, since only the whole column tells how to read 1,5 or 05/03/2024.

    >>> [normalize_cell(cell) for cell in (" TRUE", np.True_, "NA", float("nan"))]
    [True, True, None, None]
    """
    if isinstance(cell, bytes):
        cell = _decode(cell)
    if isinstance(cell, str):
        text = str(cell).strip()
        if is_missing(text):
            return None
        return BOOLEAN_TEXTS.get(text.lower(), text)

    if isinstance(cell, bool | np.bool_):
        return bool(cell)
    if isinstance(cell, decimal.Decimal):
        return None if cell.is_nan() else cell
    if isinstance(cell, np.timedelta64):  # an integer to Python, whatever its unit
        return None if np.isnat(cell) else _parse_numpy_duration(cell)

    # A list or an array cannot be compared with itself below; `hash` raises a
    # TypeError for it.
    hash(cell)
    if is_missing(cell):
        return None
    return parse_duration(cell) or cell


def _parse_numpy_duration(cell: np.timedelta64) -> Duration:
    """Return a duration of NumPy; refuse months and years."""
    duration = parse_duration(cell)
    if duration is None:
        raise ValueError(
            f"a cell of a table holds the duration {str(cell)!r:.60}, which has no "
            "fixed length; turn it into days"
        )
    return duration


def _decode(cell: bytes) -> str:
    """Return bytes as text."""
    try:
        return cell.decode()
    except UnicodeDecodeError:
        raise ValueError(
            f"a cell of a table holds the bytes {cell!r:.60}, which are not UTF-8 "
            "text; decode them"
        ) from None


def is_missing(cell: Any) -> bool:
    """Return whether a cell holds no value: a blank, a word such as NA, None or NaN.

    >>> [is_missing(cell) for cell in ("NA", " ", None, float("nan"), "0", 0)]
    [True, True, True, True, False, False]
    """
    if cell is None:
        return True
    if isinstance(cell, str):
        return cell.strip().lower() in MISSING_TEXTS
    if isinstance(cell, numbers.Integral):
        return False
    try:
        return bool(cell != cell)  # NaN and NaT
    except TypeError:  # pandas' NA is neither equal to itself nor different
        return True


def parse_number(cell: Any) -> float | None:
    """Return a cell as a number, or None if it is none.

    Python's 1_000 is not read: no other program writes numbers so.

    >>> [parse_number(cell) for cell in ("1e3", "1_000", True, "north")]
    [1000.0, None, 1.0, None]
    """
    if isinstance(cell, str):
        if "_" in cell:
            return None
        try:
            return float(cell)
        except ValueError:
            return None

    if not isinstance(cell, numbers.Real | np.bool_ | decimal.Decimal):
        return None
    try:
        return float(cell)
    except OverflowError:
        return math.inf
