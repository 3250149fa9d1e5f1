"""How the numbers of a text table are written: the decimal mark and the thousands separator.

Python reads "1.600" as 1.6. In a table whose other numbers have decimal commas it may as well be
1600, and only the user knows. So it is never guessed: such a cell is a problem that names both
readings, and a `NumberFormat` with a decimal mark settles it.
"""

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from mmlp.tables.cells import Cells, looks_like_number, missing, number
from mmlp.tables.problems import Problem

DECIMALS = (".", ",")
THOUSANDS_SEPARATORS = (".", ",", " ", "'", "_")
# Programs also write a thousands space as one that does not break, and an apostrophe as a quote.
VARIANTS = {" ": "[ \u00a0\u2009\u202f]", "'": "['\u2019]"}

MIN_NUMERIC_SHARE = (
    0.9  # of the cells with a value, in a column whose cells are evidence
)
EXPONENT = r"(?:[eE][-+]?\d+)?"
COMMA_THOUSANDS = re.compile(r"[-+]?[1-9]\d{0,2}(?:,\d{3})+")
POINT_THOUSANDS = re.compile(r"[-+]?[1-9]\d{0,2}(?:\.\d{3})+")
COMMA_DECIMAL = re.compile(rf"[-+]?(?:\d+|[1-9]\d{{0,2}}(?:\.\d{{3}})+)?,\d+{EXPONENT}")
POINT_DECIMAL = re.compile(rf"[-+]?(?:\d+|[1-9]\d{{0,2}}(?:,\d{{3}})+)?\.\d+{EXPONENT}")


@dataclass(frozen=True)
class NumberFormat:
    """The separators within the numbers of a text table.

    Parameters
    ----------
    decimal : "." or ",", or None if each column shows its own decimal mark.
    thousands : the character between groups of three digits, or None if there is none.
    expects_commas : whether the table of training had decimal commas. It decides what "1.600" may
        be where the table itself does not show its decimal mark.
    """

    decimal: str | None = None
    thousands: str | None = None
    expects_commas: bool = False

    def __post_init__(self):
        if self.decimal not in (None, *DECIMALS):
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
        """Return the format that a user gives; points between thousands imply decimal commas.

        >>> NumberFormat.from_options(None, ".").decimal
        ','
        """
        if decimal is None and thousands is not None:
            decimal = "," if thousands == "." else "."
        return cls(decimal, thousands)

    @property
    def is_given(self) -> bool:
        """Whether the user gave the separators, so that no column decides for itself."""
        return self.decimal is not None

    @property
    def is_plain(self) -> bool:
        """Whether Python's reading of numbers with decimal points is right for this format."""
        return self.decimal == "." or (self.decimal is None and not self.expects_commas)

    def read(self, cell: Any) -> Any:
        """Return the number that a cell of this format is; leave other cells as they are.

        >>> NumberFormat(",", ".").read("1.600,5")
        1600.5
        """
        if not isinstance(cell, str) or self._pattern.fullmatch(cell) is None:
            return cell
        without_groups = re.sub(self._group, "", cell) if self._group else cell
        return float(without_groups.replace(self.decimal or ".", "."))

    def find_foreign(self, name: str, cells: Cells) -> Problem | None:
        """Return the first number of a column that is written in another format, if any.

        Python may read such a cell, as "3.5" where the decimal mark is a comma, so that nothing
        else would notice it.
        """
        if not self.is_given or not _is_numeric(cells):
            return None
        foreign = [
            k
            for k, cell in enumerate(cells.values)
            if isinstance(cell, str)
            and not missing(cell)
            and (_is_finite_number(cell) or looks_like_number(cell))
            and self._pattern.fullmatch(cell) is None
        ]
        if not foreign:
            return None
        text = (
            f"{cells.values[foreign[0]]!r:.60} is not a number with {self.describe()}"
        )
        more = int(cells.counts[foreign].sum()) - 1
        return Problem(text, name, cells.row(foreign[0]), more)

    def describe(self) -> str:
        """In words.

        >>> NumberFormat(",", ".").describe()
        "decimal mark ',' and thousands separator '.'"
        """
        if self.thousands is None:
            return f"decimal mark {self.decimal!r} and no thousands separator"
        return (
            f"decimal mark {self.decimal!r} and thousands separator {self.thousands!r}"
        )

    def plain(self) -> dict[str, Any]:
        """Return the fields as JSON can hold them; `NumberFormat(**fields)` is the inverse."""
        return {
            "decimal": self.decimal,
            "thousands": self.thousands,
            "expects_commas": self.expects_commas,
        }

    @cached_property
    def _group(self) -> str:
        """A pattern for the thousands separator, empty if there is none."""
        if self.thousands is None:
            return ""
        return VARIANTS.get(self.thousands, re.escape(self.thousands))

    @cached_property
    def _pattern(self) -> re.Pattern:
        """A pattern for the numbers of this format."""
        whole = r"\d+"
        if self._group:
            whole = rf"(?:[1-9]\d{{0,2}}(?:{self._group}\d{{3}})+|\d+)"
        mark = re.escape(self.decimal or ".")
        return re.compile(rf"[-+]?(?:{whole}(?:{mark}\d*)?|{mark}\d+){EXPONENT}")


BY_COLUMN = NumberFormat()  # each column shows its own decimal mark


def find_decimal_comma(columns: Mapping[str, Cells]) -> tuple[str, str] | None:
    """Return a column and a cell of it that can only be a number with a decimal comma, if any.

    >>> find_decimal_comma({"a": Cells.of(["1,600"]), "b": Cells.of(["7", "52,5"])})
    ('b', '52,5')
    """
    return _find(columns, _is_comma_decimal)


def find_ambiguous(
    columns: Mapping[str, Cells],
    names: Collection[str],
    remedy: Callable[[str, bool], str],
    *,
    expects_commas: bool = False,
) -> list[Problem]:
    """Return a problem for each column whose "1.600" may be 1.6 or 1600.

    Parameters
    ----------
    columns : all columns of the table; those with decimal commas are the evidence.
    names : the columns that are read as numbers and so must be clear.
    remedy : what to do about a cell, given it and whether the table itself has decimal commas.
    expects_commas : whether the table of training had decimal commas. It counts where this table
        shows no decimal mark.
    """
    ambiguous = {
        name: k for name in names if (k := _first_ambiguous(columns[name])) is not None
    }
    if not ambiguous:
        return []
    comma = find_decimal_comma(columns)
    if comma is not None:
        evidence = f"as column {comma[0]!r} has decimal commas ({comma[1]!r:.40})"
    elif expects_commas and _find(columns, _is_point_decimal) is None:
        evidence = "as the table of training had decimal commas"
    else:
        return []
    problems = []
    for name, k in ambiguous.items():
        cells = columns[name]
        cell = cells.values[k]
        readings = f"{float(cell):g} or {cell.replace('.', '')}"
        text = (
            f"{cell!r} may be {readings}, {evidence}; {remedy(cell, comma is not None)}"
        )
        alike = [
            i for i, value in enumerate(cells.values) if _is_point_thousands(value)
        ]
        more = int(cells.counts[alike].sum()) - 1
        problems.append(Problem(text, name, cells.row(k), more))
    return problems


def _first_ambiguous(cells: Cells) -> int | None:
    """Return the number of the first value such as "1.600", unless other cells make it clear."""
    groups = [
        k
        for k, cell in enumerate(cells.values)
        if _is_point_thousands(cell) and number(cell) is not None
    ]
    if (
        not groups
        or any(map(_is_point_decimal, cells.values))
        or not _is_numeric(cells)
    ):
        return None
    return groups[0]


def _find(
    columns: Mapping[str, Cells], is_evidence: Callable[[Any], bool]
) -> tuple[str, str] | None:
    """Return the first cell with this property in a column of numbers, and that column's name."""
    for name, cells in columns.items():
        cell = next(filter(is_evidence, cells.values), None)
        if cell is not None and _is_numeric(cells):
            return name, cell
    return None


def _is_numeric(cells: Cells) -> bool:
    """Whether almost all cells with a value are numbers, in whatever format."""
    counts = cells.counts
    present = [k for k, cell in enumerate(cells.values) if not missing(cell)]
    numeric = [k for k in present if _is_number_like(cells.values[k])]
    return (
        bool(numeric)
        and counts[numeric].sum() >= MIN_NUMERIC_SHARE * counts[present].sum()
    )


def _is_number_like(cell: Any) -> bool:
    return (
        number(cell) is not None or looks_like_number(cell) or _is_comma_decimal(cell)
    )


def _is_finite_number(cell: str) -> bool:
    value = number(cell)
    return value is not None and abs(value) < float("inf")


def _is_comma_decimal(cell: Any) -> bool:
    """Whether a cell can only be a number with a decimal comma: 52,5 or 1.234,5 but not 1,234."""
    is_text = isinstance(cell, str) and "," in cell
    return is_text and bool(
        COMMA_DECIMAL.fullmatch(cell) and not COMMA_THOUSANDS.fullmatch(cell)
    )


def _is_point_decimal(cell: Any) -> bool:
    """Whether a cell can only be a number with a decimal point: 3.5 or 0.125 but not 1.600."""
    is_text = isinstance(cell, str) and "." in cell
    return is_text and bool(
        POINT_DECIMAL.fullmatch(cell) and not POINT_THOUSANDS.fullmatch(cell)
    )


def _is_point_thousands(cell: Any) -> bool:
    return isinstance(cell, str) and POINT_THOUSANDS.fullmatch(cell) is not None
