"""Cells of any kind: is one missing, is it a number? And a column as its different values."""

import datetime
import decimal
import math
import numbers
import re
from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np

from mmlp.tables.dates import Duration, duration

MAX_EXACT_FLOAT = 2**53  # below it, every whole number is a float
BOOLEANS = {"true": True, "false": False}
MISSING = {"", "?", "na", "n/a", "nan", "null", "none", "-", ".", "nat", "<na>"}
MISSING |= {"#n/a", "#na"}  # as spreadsheets write it
MISSING |= {"\u2212", "\u2013", "\u2014"}  # the dashes of typesetting

THOUSANDS = re.compile(r"[-+]?[1-9]\d{0,2}(,\d{3})+")
# Numbers that are written for people. Typesetting has other minus signs (U+2212, U+2013), spaces
# and apostrophes than keyboards have, and accountants write -5 as (5).
SPACE = r"[ \u00a0\u2009\u202f]"
AMOUNT = (
    rf"[$€£¥]?{SPACE}?\d{{1,3}}(?:\d*|(?:(?:{SPACE}|[,.'\u2019])\d{{3}})*)(?:[.,]\d+)?"
    rf"{SPACE}?[%$€£¥]?"
)
FORMATTED = re.compile(rf"[-+\u2212\u2013]?{AMOUNT}|\({AMOUNT}\)")


class Cells(NamedTuple):
    """A column by its different values: those, and for each row (n,) the number of its own."""

    values: list[Any]
    codes: np.ndarray

    @classmethod
    def of(cls, column: Iterable) -> "Cells":
        """
        >>> Cells.of(["b", " a", "b "]).values
        ['b', 'a']
        """
        # Python holds True, 1 and 1.0 for equal; a boolean among numbers must stay one.
        cells: dict[Any, int] = {}
        values: dict[Any, int] = {}
        column = list(column)
        # It also holds the two times 02:30 of the night in which clocks are set back for equal.
        has_times = any(
            issubclass(kind, datetime.datetime) for kind in {*map(type, column)}
        )
        folds = (
            [getattr(cell, "fold", 0) for cell in column] if has_times else repeat(0)
        )
        try:
            codes = [
                cells.setdefault((cell.__class__, fold, cell), len(cells))
                for cell, fold in zip(column, folds, strict=False)
            ]
            canonical_cells = [(fold, canonical(cell)) for _, fold, cell in cells]
            code_of_cell = [
                values.setdefault((isinstance(cell, bool), fold, cell), len(values))
                for fold, cell in canonical_cells
            ]
        except TypeError:  # a list or a dictionary
            raise TypeError(
                "a cell of a table holds a Python object; the argument must be a string or a number"
            ) from None
        return cls([cell for _, _, cell in values], np.array(code_of_cell, int)[codes])

    @property
    def counts(self) -> np.ndarray:
        """How often each value occurs."""
        return np.bincount(self.codes, minlength=len(self.values))

    def row(self, k: int) -> int:
        """The first row that holds value number k."""
        return int(np.argmax(self.codes == k))

    def rows(self, k: int) -> list[int]:
        """All rows that hold value number k."""
        return np.flatnonzero(self.codes == k).tolist()

    def spread(self, entries: Iterable[float | None]) -> np.ndarray:
        """For each row what its value has become, (n,); None is NaN."""
        return np.array(list(entries), np.float64)[self.codes]


def canonical(cell: Any) -> Any:
    """Return one form for a cell that text, NumPy and pandas hold in different types.

    This is the one place where sources are made equal, before a column is classified. A boolean is
    a `bool`, also if it is written as true, True or TRUE; a missing value is None; a duration is a
    `Duration`; text has no blanks around it. Numbers and dates stay as they are, since only the
    whole column tells how to read 1,5 or 05/03/2024: `number` and `dates.moment` read them.

    >>> canonical(" TRUE"), canonical(np.True_), canonical("NA"), canonical(float("nan"))
    (True, True, None, None)
    """
    if isinstance(cell, bytes):
        cell = _decoded(cell)
    if isinstance(cell, str):
        text = str(cell).strip()
        return None if missing(text) else BOOLEANS.get(text.lower(), text)
    if isinstance(cell, bool | np.bool_):
        return bool(cell)
    if isinstance(cell, decimal.Decimal):
        return None if cell.is_nan() else cell
    if isinstance(cell, np.timedelta64):  # to Python an integer, whatever its unit
        return None if np.isnat(cell) else _known_duration(cell)
    hash(
        cell
    )  # raises TypeError for a list or an array, which cannot be compared with itself
    if missing(cell):
        return None
    return duration(cell) or cell


def _known_duration(cell: np.timedelta64) -> Duration:
    found = duration(cell)
    if found is None:
        raise ValueError(
            f"a cell of a table holds the duration {str(cell)!r:.60}, which has no fixed length; "
            "turn it into days"
        )
    return found


def _decoded(cell: bytes) -> str:
    try:
        return cell.decode()
    except UnicodeDecodeError:
        raise ValueError(
            f"a cell of a table holds the bytes {cell!r:.60}, which are not UTF-8 text; decode them"
        ) from None


def missing(cell) -> bool:
    """Whether there is no value: a blank, a word that says so, None, NaN.

    >>> [missing(cell) for cell in ("NA", " ", None, float("nan"), "0", 0)]
    [True, True, True, True, False, False]
    """
    if isinstance(cell, str):
        return cell.strip().lower() in MISSING
    if cell is None or isinstance(cell, numbers.Integral):
        return cell is None
    try:
        return bool(cell != cell)  # NaT
    except TypeError:  # pandas' NA is neither
        return True


def number(cell) -> float | None:
    """A cell as a number, None if it is none; Python's 1_000 is none elsewhere.

    >>> number("1e3"), number("1_000"), number(True), number("north")
    (1000.0, None, 1.0, None)
    """
    if isinstance(cell, str):
        try:
            return None if "_" in cell else float(cell)
        except ValueError:
            return None
    try:
        known = isinstance(cell, numbers.Real | np.bool_ | decimal.Decimal)
        return float(cell) if known else None
    except OverflowError:
        return math.inf


def decimal_commas(texts: Iterable[Any]) -> bool:
    """Whether texts are numbers with decimal commas, and not with commas between thousands.

    >>> decimal_commas(["3,5", "-2"]), decimal_commas(["1,234", "2,500"]), decimal_commas(["0,125"])
    (True, False, True)
    """
    # A stray word such as "n.v." in the column does not decide how its numbers are written.
    words = [
        text
        for text in texts
        if looks_like_number(text) or _with_point(text) is not None
    ]
    with_comma = [text for text in words if "," in text]
    if any("." in text for text in words):
        return False
    plain = all(_with_point(text) is not None for text in with_comma)
    return plain and any(not THOUSANDS.fullmatch(text) for text in with_comma)


def find_mixed_marks(texts: Sequence[Any]) -> tuple[int, int] | None:
    """Return where a text such as "1,234" and one such as "2.5" stand, if there are no others.

    In such a column the comma stands between thousands, also if training had decimal commas.

    >>> find_mixed_marks(["7", "1,234", "2.5"]), find_mixed_marks(["1,234", "2.5", "12,5"])
    ((1, 2), None)
    """
    # Cells with decimal commas beside decimal points are clear, each by itself.
    numeric = {k: text for k, text in enumerate(texts) if looks_like_number(text)}
    groups = [k for k, text in numeric.items() if THOUSANDS.fullmatch(text)]
    points = [k for k, text in numeric.items() if "," not in text and "." in text]
    others = [k for k, text in numeric.items() if "," in text and k not in groups]
    return (groups[0], points[0]) if groups and points and not others else None


def _with_point(text: Any) -> float | None:
    """Read a text as a number after its commas are turned into points."""
    return number(text.replace(",", ".")) if isinstance(text, str) else None


def looks_like_number(cell) -> bool:
    """Whether a text is a number in a form that is not read: 1,234.5, 12 %, $3, (5).

    >>> [looks_like_number(text) for text in ("1,234.5", "12%", "$3", "1 234", "north", "A4")]
    [True, True, True, True, False, False]
    >>> [looks_like_number(text) for text in ("\u22123.2", "(5)", "5-", "5-7")]
    [True, True, False, False]
    """
    return isinstance(cell, str) and FORMATTED.fullmatch(cell) is not None
