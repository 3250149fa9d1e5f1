"""How numbers are written in text: decimal marks and thousands separators.

Python reads "1.600" as 1.6. In a table whose other numbers have decimal commas it may
as well be 1600, and only the user knows. So it is never guessed: such a cell is a
problem that names both readings, and a `NumberFormat` with a decimal mark settles it.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from mmlp.tables.cells import Cells, is_missing, parse_number
from mmlp.tables.problems import Problem, Remedy, quote

DECIMAL_MARKS = (".", ",")
THOUSANDS_SEPARATORS = (".", ",", " ", "'", "_")
# Programs also write a thousands space as one that does not break, and an apostrophe as
# a quotation mark.
SPACE = r"[ \u00a0\u2009\u202f]"
SEPARATOR_VARIANTS = {" ": SPACE, "'": "['\u2019]"}

# A column shows how its numbers are written if this share of its cells are numbers.
MIN_NUMERIC_SHARE = 0.9

EXPONENT = r"(?:[eE][-+]?\d+)?"
COMMA_THOUSANDS = re.compile(r"[-+]?[1-9]\d{0,2}(?:,\d{3})+")
POINT_THOUSANDS = re.compile(r"[-+]?[1-9]\d{0,2}(?:\.\d{3})+")
COMMA_DECIMAL = re.compile(rf"[-+]?(?:\d+|[1-9]\d{{0,2}}(?:\.\d{{3}})+)?,\d+{EXPONENT}")
POINT_DECIMAL = re.compile(rf"[-+]?(?:\d+|[1-9]\d{{0,2}}(?:,\d{{3}})+)?\.\d+{EXPONENT}")

# Numbers that are written for people. Typesetting has other minus signs (U+2212,
# U+2013), spaces and apostrophes than keyboards have, and accountants write -5 as (5).
AMOUNT = (
    rf"[$€£¥]?{SPACE}?\d{{1,3}}(?:\d*|(?:(?:{SPACE}|[,.'\u2019])\d{{3}})*)(?:[.,]\d+)?"
    rf"{SPACE}?[%$€£¥]?"
)
FORMATTED_NUMBER = re.compile(rf"[-+\u2212\u2013]?{AMOUNT}|\({AMOUNT}\)")


@dataclass(frozen=True)
class NumberFormat:
    """The separators within the numbers of a text table.

    Parameters
    ----------
    decimal : {".", ","}, optional
        The decimal mark; by default each column shows its own.
    thousands : str, optional
        The character between groups of three digits; by default there is none.
    expects_commas : bool, default=False
        Whether the training table had decimal commas. It decides what "1.600" may be
        where a table itself does not show its decimal mark.
    """

    decimal: str | None = None
    thousands: str | None = None
    expects_commas: bool = False

    def __post_init__(self) -> None:
        if self.decimal not in (None, *DECIMAL_MARKS):
            raise ValueError(
                f"the decimal mark must be . or , and not {self.decimal!r:.40}"
            )
        if self.thousands not in (None, *THOUSANDS_SEPARATORS):
            raise ValueError(
                f"the thousands separator cannot be {self.thousands!r:.40}"
            )
        if self.thousands is not None and self.thousands == self.decimal:
            raise ValueError(
                f"decimal mark and thousands separator are both {self.decimal!r}"
            )
        if not isinstance(self.expects_commas, bool):
            raise ValueError(f"its expects_commas is {self.expects_commas!r:.40}")

    @classmethod
    def from_options(cls, decimal: str | None, thousands: str | None) -> "NumberFormat":
        """Return the format that a user gives.

        Points between thousands imply decimal commas.

        >>> NumberFormat.from_options(None, ".").decimal
        ','
        """
        if decimal is None and thousands is not None:
            decimal = "," if thousands == "." else "."
        return cls(decimal, thousands)

    @property
    def is_given(self) -> bool:
        """Whether the user gave the separators, so that no column decides alone."""
        return self.decimal is not None

    @property
    def is_plain(self) -> bool:
        """Whether a text that Python reads as a number means this number here."""
        return self.decimal == "." or (self.decimal is None and not self.expects_commas)

    def read(self, cell: Any) -> Any:
        """Return a cell of this format as a number, and any other cell as it is.

        >>> NumberFormat(",", ".").read("1.600,5")
        1600.5
        """
        if not isinstance(cell, str) or self._pattern.fullmatch(cell) is None:
            return cell
        digits = re.sub(self._separator, "", cell) if self._separator else cell
        return float(digits.replace(self.decimal or ".", "."))

    def find_foreign(self, name: str, cells: Cells) -> Problem | None:
        """Return the problem of numbers of a column that are written in another format.

        Python may read such a cell, as "3.5" where the decimal mark is a comma, so that
        nothing else would notice it.
        """
        if not self.is_given or not _is_numeric(cells):
            return None

        foreign = [k for k, cell in enumerate(cells.values) if self._is_foreign(cell)]
        if not foreign:
            return None
        cell = cells.values[foreign[0]]
        return Problem(
            kind="foreign number format",
            column=name,
            message=f"{quote(cell)} is not a number with {self.describe()}",
            remedies=(Remedy.CORRECT_CELL, Remedy.CORRECT_NUMBER_FORMAT),
            row=cells.find_first_row(foreign[0]),
            value=cell,
            n_more=cells.count_rows(foreign) - 1,
        )

    def describe(self) -> str:
        """Return the separators in words.

        >>> NumberFormat(",", ".").describe()
        "decimal mark ',' and thousands separator '.'"
        """
        if self.thousands is None:
            return f"decimal mark {self.decimal!r} and no thousands separator"
        return (
            f"decimal mark {self.decimal!r} and thousands separator {self.thousands!r}"
        )

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON can hold them.

        `NumberFormat(**fields)` is the inverse.
        """
        return {
            "decimal": self.decimal,
            "thousands": self.thousands,
            "expects_commas": self.expects_commas,
        }

    def _is_foreign(self, cell: Any) -> bool:
        """Return whether a cell is a number in another format."""
        if not isinstance(cell, str) or is_missing(cell):
            return False
        is_number = _is_finite_number(cell) or looks_like_number(cell)
        return is_number and self._pattern.fullmatch(cell) is None

    @cached_property
    def _separator(self) -> str:
        """A pattern for the thousands separator, empty if there is none."""
        if self.thousands is None:
            return ""
        return SEPARATOR_VARIANTS.get(self.thousands, re.escape(self.thousands))

    @cached_property
    def _pattern(self) -> re.Pattern:
        """A pattern for the numbers of this format."""
        whole = r"\d+"
        if self._separator:
            whole = rf"(?:[1-9]\d{{0,2}}(?:{self._separator}\d{{3}})+|\d+)"
        mark = re.escape(self.decimal or ".")
        return re.compile(rf"[-+]?(?:{whole}(?:{mark}\d*)?|{mark}\d+){EXPONENT}")


# Each column shows its own decimal mark.
FORMAT_BY_COLUMN = NumberFormat()


def has_decimal_commas(texts: Iterable[Any]) -> bool:
    """Return whether texts are numbers with decimal commas.

    Commas between thousands are not decimal commas.

    >>> has_decimal_commas(["3,5", "-2"])
    True
    >>> has_decimal_commas(["1,234", "2,500"])
    False
    >>> has_decimal_commas(["0,125"])
    True
    """
    # A stray word such as "n.v." in the column does not decide how its numbers are
    # written.
    numeric = [
        text
        for text in texts
        if looks_like_number(text) or _read_comma_as_point(text) is not None
    ]
    if any("." in text for text in numeric):
        return False

    with_comma = [text for text in numeric if "," in text]
    are_numbers = all(_read_comma_as_point(text) is not None for text in with_comma)
    return are_numbers and any(
        COMMA_THOUSANDS.fullmatch(text) is None for text in with_comma
    )


def find_mixed_marks(texts: Sequence[Any]) -> tuple[int, int] | None:
    """Return the indices of a text such as "1,234" and of one such as "2.5".

    Beside "2.5" the comma of "1,234" may stand between thousands, even if the training
    table had decimal commas. None if there are not both, or if other cells settle it.

    >>> find_mixed_marks(["7", "1,234", "2.5"])
    (1, 2)
    >>> find_mixed_marks(["1,234", "2.5", "12,5"]) is None
    True
    """
    numeric = {k: text for k, text in enumerate(texts) if looks_like_number(text)}
    with_comma = {k: text for k, text in numeric.items() if "," in text}
    groups = [k for k, text in with_comma.items() if COMMA_THOUSANDS.fullmatch(text)]
    points = [k for k, text in numeric.items() if "," not in text and "." in text]
    # Cells with decimal commas beside decimal points are clear, each by itself.
    has_decimal_comma = len(groups) < len(with_comma)
    if not groups or not points or has_decimal_comma:
        return None
    return groups[0], points[0]


def looks_like_number(cell: Any) -> bool:
    """Return whether a text is a number as people write it: 1,234.5, 12 %, $3, (5).

    >>> texts = ("1,234.5", "12%", "$3", "1 234", "north", "A4")
    >>> [looks_like_number(text) for text in texts]
    [True, True, True, True, False, False]
    >>> [looks_like_number(text) for text in ("\u22123.2", "(5)", "5-", "5-7")]
    [True, True, False, False]
    """
    return isinstance(cell, str) and FORMATTED_NUMBER.fullmatch(cell) is not None


def find_decimal_comma(columns: Mapping[str, Cells]) -> tuple[str, str] | None:
    """Return a column and a cell of it that can only be a number with a decimal comma.

    >>> find_decimal_comma({"a": Cells.of(["1,600"]), "b": Cells.of(["7", "52,5"])})
    ('b', '52,5')
    """
    return _find_evidence(columns, _is_comma_decimal)


def find_ambiguous_numbers(
    columns: Mapping[str, Cells],
    names: Collection[str],
    *,
    expects_commas: bool = False,
) -> list[Problem]:
    """Return a problem for each column whose "1.600" may be 1.6 or 1600.

    Parameters
    ----------
    columns : mapping from str to Cells
        All columns of the table; those with decimal commas are the evidence.
    names : collection of str
        The columns that are read as numbers and so must be clear.
    expects_commas : bool, default=False
        Whether the training table had decimal commas. It counts where this table shows
        no decimal mark.

    Returns
    -------
    list of Problem
    """
    ambiguous = {}
    for name in names:
        index = _find_first_ambiguous(columns[name])
        if index is not None:
            ambiguous[name] = index
    if not ambiguous:
        return []

    comma = find_decimal_comma(columns)
    if comma is not None:
        column, cell = comma
        evidence = f"as column {column!r} has decimal commas ({cell!r:.40})"
        decimal_remedy = Remedy.WRITE_DECIMAL_COMMA
    elif expects_commas and _find_evidence(columns, _is_point_decimal) is None:
        evidence = "as the training table had decimal commas"
        decimal_remedy = Remedy.READ_AS_DECIMAL_POINT
    else:
        return []

    return [
        _describe_ambiguous_number(name, columns[name], index, evidence, decimal_remedy)
        for name, index in ambiguous.items()
    ]


def _describe_ambiguous_number(
    name: str, cells: Cells, index: int, evidence: str, decimal_remedy: Remedy
) -> Problem:
    """Return the problem of a cell such as "1.600"."""
    cell = cells.values[index]
    readings = (f"{float(cell):g}", cell.replace(".", ""))
    alike = [k for k, value in enumerate(cells.values) if _is_point_thousands(value)]
    return Problem(
        kind="ambiguous number",
        column=name,
        message=f"{cell!r} may be {' or '.join(readings)}, {evidence}",
        remedies=(Remedy.READ_AS_THOUSANDS, decimal_remedy),
        row=cells.find_first_row(index),
        value=cell,
        readings=readings,
        n_more=cells.count_rows(alike) - 1,
    )


def _find_first_ambiguous(cells: Cells) -> int | None:
    """Return the index of the first value such as "1.600", unless others settle it."""
    groups = [
        k
        for k, cell in enumerate(cells.values)
        if _is_point_thousands(cell) and parse_number(cell) is not None
    ]
    if not groups or any(map(_is_point_decimal, cells.values)):
        return None
    return groups[0] if _is_numeric(cells) else None


def _find_evidence(
    columns: Mapping[str, Cells], is_evidence: Callable[[Any], bool]
) -> tuple[str, str] | None:
    """Return the first numeric column with such a cell, and the cell."""
    for name, cells in columns.items():
        cell = next(filter(is_evidence, cells.values), None)
        if cell is not None and _is_numeric(cells):
            return name, cell
    return None


def _is_numeric(cells: Cells) -> bool:
    """Return whether almost all values are numbers, in whatever format."""
    present = cells.find_present()
    numeric = [k for k in present if _is_number_like(cells.values[k])]
    if not numeric:
        return False
    n_present = cells.count_rows(present)
    return cells.count_rows(numeric) >= MIN_NUMERIC_SHARE * n_present


def _is_number_like(cell: Any) -> bool:
    """Return whether a cell is a number in some format."""
    if parse_number(cell) is not None:
        return True
    return looks_like_number(cell) or _is_comma_decimal(cell)


def _is_finite_number(cell: str) -> bool:
    """Return whether Python reads a text as a finite number."""
    value = parse_number(cell)
    return value is not None and abs(value) < float("inf")


def _read_comma_as_point(text: Any) -> float | None:
    """Read a text as a number after its commas are turned into points."""
    if not isinstance(text, str):
        return None
    return parse_number(text.replace(",", "."))


def _is_comma_decimal(cell: Any) -> bool:
    """Return whether a cell can only have a decimal comma: 52,5 or 1.234,5, not 1,234."""
    if not isinstance(cell, str) or "," not in cell:
        return False
    if COMMA_THOUSANDS.fullmatch(cell) is not None:
        return False
    return COMMA_DECIMAL.fullmatch(cell) is not None


def _is_point_decimal(cell: Any) -> bool:
    """Return whether a cell can only have a decimal point: 3.5 or 0.125, not 1.600."""
    if not isinstance(cell, str) or "." not in cell:
        return False
    if POINT_THOUSANDS.fullmatch(cell) is not None:
        return False
    return POINT_DECIMAL.fullmatch(cell) is not None


def _is_point_thousands(cell: Any) -> bool:
    """Return whether a cell may have points between thousands: 1.600 or 12.345.678."""
    return isinstance(cell, str) and POINT_THOUSANDS.fullmatch(cell) is not None
