"""The kinds of columns: numbers, dates, categories, and columns without information.

A kind reads the cells of any table with this column and turns them into features. It
holds two things. How cells are read is decided once, by `classification.py`. The
statistics of the training rows, such as the median or the levels, come from `learn`.

Booleans are the numbers 1 and 0, in text as in NumPy and pandas: a column of True and
False, also mixed with 1 and 0, holds numbers. Among any other numbers a boolean is a
mistake. In a column of categories True and 1 are the same level, "1". Durations are
numbers of days, and are not mixed with numbers that have no unit.

The fields of the kinds are keys in model files, so renaming one changes the format.
"""

import dataclasses
import decimal
import math
import numbers
import re
import sys
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from mmlp.tables.cells import (
    MAX_EXACT_FLOAT,
    Cells,
    normalize_cell,
    parse_number,
)
from mmlp.tables.dates import (
    DAYS_PER_YEAR,
    Duration,
    find_possible_orders,
    label_moment,
    parse_duration,
    parse_moment,
)
from mmlp.tables.number_format import find_mixed_marks, has_decimal_commas
from mmlp.tables.problems import Problem, ProblemKind, Remedy, quote

# A level in fewer rows than this is pooled with the other rare ones.
MIN_ROWS_PER_LEVEL = 5
MAX_LEVELS = 30
# Rare levels are remembered, so that unknown ones can be told from them.
MAX_REMEMBERED_LEVELS = 1000
MISSING_LEVEL = "(missing)"
RARE_LEVEL = "(rare)"

# A bound for days since 1970 in a model file; the year 9999 is within it.
MAX_DAYS = 4e6
WHOLE_NUMBER = re.compile(r"[-+]?\d+")


class Complaint(NamedTuple):
    """What is wrong with a cell: a `Problem` without its place."""

    kind: ProblemKind
    message: str
    remedies: tuple[Remedy, ...]


@dataclass(frozen=True)
class Numbers:
    """A column of numbers.

    Parameters
    ----------
    fill : float
        Median of the training rows, which stands for a missing value.
    missing : int
        Number of training rows without a value.
    commas : bool
        Whether decimals are written with a comma.
    durations : bool
        Whether cells are durations, in days.
    binary : bool
        Whether booleans are read, as 1 and 0: the training column has no other numbers.
        True until a column is classified.
    """

    fill: float = 0.0
    missing: int = 0
    commas: bool = False
    durations: bool = False
    binary: bool = True

    def read(self, cell: Any) -> float | None:
        """Return a cell as a number, or None if it cannot be read."""
        if self.durations:
            duration = parse_duration(cell)
            return None if duration is None else duration.days
        if isinstance(cell, bool) and not self.binary:
            return None
        if self.commas and isinstance(cell, str):
            cell = cell.replace(",", ".")
        value = parse_number(cell)
        return None if value is None or math.isinf(value) else value

    def read_column(self, cells: Cells) -> np.ndarray:
        """Return a column as numbers, (n_rows,), NaN where a cell cannot be read."""
        return _read_values(self, cells)

    def needs_parsing(self, column: np.ndarray) -> bool:
        """Return whether an array holds anything but the numbers of this column."""
        if not is_numeric(column) or self.durations:
            return True
        return column.dtype.kind == "b" and not self.binary

    def read_array(self, column: np.ndarray) -> np.ndarray:
        """Return an array as numbers, (n_rows,), NaN where a cell cannot be read."""
        if self.needs_parsing(column):
            return self.read_column(Cells.of(column))
        return column.astype(np.float64)

    def learn(self, column: np.ndarray) -> "Numbers | LeftOut":
        """Return the kind with the statistics of these rows."""
        values = self.read_array(column)
        known = values[~np.isnan(values)]
        n_missing = len(values) - len(known)
        if not len(known):
            return LeftOut("no values", n_missing)
        return dataclasses.replace(
            self, fill=float(np.median(known)), missing=n_missing
        )

    def make_features(self, values: np.ndarray) -> list[np.ndarray]:
        """Return the features of the numbers, each (n_rows,)."""
        return [values]

    def name_features(self, column: str) -> list[str]:
        """Return the names of the features."""
        return [column]

    def holds_only_binary(self, cells: Cells) -> bool:
        """Return whether no cell is a number other than 0 and 1."""
        return all(
            self.read(cell) in (None, 0.0, 1.0)
            for cell in cells.values
            if cell is not None
        )

    def complain(self, cell: Any) -> Complaint:
        """Return what is wrong with a cell that cannot be read."""
        if self.durations:
            return Complaint(
                "not a duration",
                f"{quote(cell)} is not a duration like those of training",
                (Remedy.WRITE_DURATION,),
            )
        if isinstance(cell, Duration):
            return Complaint(
                "duration among numbers",
                f"{quote(cell)} is a duration in a column of numbers",
                (Remedy.WRITE_DURATION_AS_NUMBER,),
            )
        if isinstance(cell, bool):
            return Complaint(
                "boolean among numbers",
                f"'{cell}' stands in a column of numbers other than 0 and 1",
                (Remedy.CORRECT_CELL, Remedy.EMPTY_CELL, Remedy.LEAVE_COLUMN_OUT),
            )
        if parse_number(cell) is not None:
            return Complaint(
                "not finite",
                f"{quote(cell)} is not finite",
                (Remedy.CORRECT_CELL, Remedy.REMOVE_ROW),
            )
        remedies = (Remedy.CORRECT_CELL, Remedy.EMPTY_CELL, Remedy.LEAVE_COLUMN_OUT)
        if isinstance(cell, str) and has_decimal_commas([cell]):
            remedies = (
                Remedy.WRITE_DECIMAL_POINT,
                Remedy.GIVE_DECIMAL_MARK,
                Remedy.LEAVE_COLUMN_OUT,
            )
        return Complaint("not a number", f"{quote(cell)} is not a number", remedies)


@dataclass(frozen=True)
class Dates:
    """A column of dates or of times of day.

    The features are the days since the first one, and the season and the time of day as
    points of a circle, so that December is near January.

    Parameters
    ----------
    first, last, fill : float
        First day, last day and median of the training rows, in days since 1970-01-01.
    day_first : bool, optional
        How 05/03/2024 is read; None if neither the training rows nor the user told.
    season : bool
        Whether the season is a feature: the training rows span more than a year.
    clock : bool
        Whether the time of day is a feature.
    alone : bool
        Whether cells are times of day without a date.
    missing : int
        Number of training rows without a value.
    aware : bool
        Whether cells have a time zone.
    """

    first: float = 0.0
    last: float = 0.0
    fill: float = 0.0
    day_first: bool | None = None
    season: bool = False
    clock: bool = False
    alone: bool = False
    missing: int = 0
    aware: bool = False

    def read(self, cell: Any) -> float | None:
        """Return a cell in days, or None if it cannot be read."""
        moment = parse_moment(cell)
        if moment is None:
            return None
        if moment.is_time_of_day != self.alone or moment.is_aware != self.aware:
            return None
        return moment.in_days(day_first=self.day_first)

    def read_column(self, cells: Cells) -> np.ndarray:
        """Return a column in days, (n_rows,), NaN where a cell cannot be read."""
        return _read_values(self.with_order_of(cells), cells)

    def learn(self, column: np.ndarray) -> "Dates | LeftOut":
        """Return the kind with the statistics of these rows."""
        values = self.read_column(Cells.of(column))
        known = values[~np.isnan(values)]
        n_missing = len(values) - len(known)
        if not len(known):
            return LeftOut("no values", n_missing)

        first = float(known.min())
        last = float(known.max())
        has_times = bool((known % 1).any())
        return dataclasses.replace(
            self,
            first=first,
            last=last,
            fill=float(np.median(known)),
            season=last - first > DAYS_PER_YEAR,
            clock=self.alone or (has_times and last - first > 1),
            missing=n_missing,
        )

    def make_features(self, values: np.ndarray) -> list[np.ndarray]:
        """Return the features of the days, each (n_rows,)."""
        features = [values - self.first]
        for period in self._periods().values():
            angle = 2 * np.pi * values / period
            features += [np.sin(angle), np.cos(angle)]
        return features

    def name_features(self, column: str) -> list[str]:
        """Return the names of the features."""
        names = [column]
        for cycle in self._periods():
            names += [f"{column}_{cycle}_sin", f"{column}_{cycle}_cos"]
        return names

    def with_order_of(self, cells: Cells) -> "Dates":
        """Return the kind with the order of day and month that these cells show.

        An order that is already known stays.
        """
        if self.day_first is not None:
            return self
        moments = filter(None, map(parse_moment, cells.values))
        orders = find_possible_orders(moments)
        if len(orders) != 1:
            return self
        return dataclasses.replace(self, day_first=orders.pop())

    def complain(self, cell: Any) -> Complaint:
        """Return what is wrong with a cell that cannot be read."""
        moment = parse_moment(cell)
        if moment is not None and moment.is_aware != self.aware:
            cell_has = "has no time zone" if self.aware else "has a time zone"
            column_has = "has one in training" if self.aware else "has none in training"
            remedy = Remedy.ADD_TIME_ZONE if self.aware else Remedy.REMOVE_TIME_ZONE
            message = f"{quote(cell)} {cell_has}, but this column {column_has}"
            return Complaint("time zone", message, (remedy,))
        form = "a time of day" if self.alone else "a date"
        return Complaint(
            "not a date",
            f"{quote(cell)} is not {form} like the others",
            (Remedy.CORRECT_CELL, Remedy.EMPTY_CELL, Remedy.LEAVE_COLUMN_OUT),
        )

    def _periods(self) -> dict[str, float]:
        """Return the cycles that are features, with their lengths in days."""
        periods = {}
        if self.season:
            periods["season"] = DAYS_PER_YEAR
        if self.clock:
            periods["time"] = 1.0
        return periods


@dataclass(frozen=True)
class Categories:
    """A column of categories, each of its frequent levels with an indicator.

    Parameters
    ----------
    levels : tuple of str
        The frequent levels, the most frequent first.
    rare : int
        Number of all other levels, which share one indicator.
    missing : int
        Number of training rows without a value. They count as one more level, which
        may be rare.
    others : tuple of str
        The rare levels, as far as they are remembered.
    """

    levels: tuple[str, ...] = ()
    rare: int = 0
    missing: int = 0
    others: tuple[str, ...] = ()

    @property
    def indicators(self) -> list[str]:
        """The levels that have an indicator."""
        return [*self.levels, RARE_LEVEL] if self.rare else [*self.levels]

    @staticmethod
    def name_level(cell: Any) -> str:
        """Return the level of a cell.

        1, 1.0, "1" and True are one level, and so are equal dates.
        """
        cell = normalize_cell(cell)
        if cell is None:
            return MISSING_LEVEL
        value = parse_number(cell)
        if value is not None:
            return _name_number(cell, value)
        duration = parse_duration(cell)
        if duration is not None:
            return str(duration)
        moment = parse_moment(cell)
        if moment is not None:
            return label_moment(moment) or str(cell)
        # A text that reads like a level of our own must not be taken for it.
        return f"'{cell}'" if cell in (MISSING_LEVEL, RARE_LEVEL) else str(cell)

    def pool(self, level: str) -> str:
        """Return a level with an indicator as it is, and any other as the rare one.

        If training had no rare levels, that one has no indicator: all of them are 0.
        """
        return level if level in self.levels else RARE_LEVEL

    def learn(self, column: np.ndarray) -> "Categories | LeftOut":
        """Return the kind with the statistics of these rows."""
        cells = Cells.of(column)
        n_missing = cells.count_missing()
        n_rows_of_level: dict[str, int] = {}
        for cell, n_rows in zip(cells.values, cells.counts.tolist(), strict=True):
            level = self.name_level(cell)
            n_rows_of_level[level] = n_rows_of_level.get(level, 0) + n_rows
        frequent = [
            level
            for level, n_rows in n_rows_of_level.items()
            if n_rows >= MIN_ROWS_PER_LEVEL
        ]
        frequent.sort(key=lambda level: -n_rows_of_level[level])
        levels = frequent[:MAX_LEVELS]
        with_indicator = set(levels)
        others = [level for level in n_rows_of_level if level not in with_indicator]

        if n_missing == len(column):
            return LeftOut("no values", n_missing)
        if not levels:
            n_texts = len(n_rows_of_level)
            reason = f"{n_texts} different texts, none in {MIN_ROWS_PER_LEVEL} rows"
            return LeftOut(reason, n_missing)
        if len(n_rows_of_level) == 1:
            return LeftOut(f"always {levels[0]!r:.40}", n_missing)
        remembered = tuple(others[:MAX_REMEMBERED_LEVELS])
        return Categories(
            levels=tuple(levels),
            rare=len(others),
            missing=n_missing,
            others=remembered,
        )


@dataclass(frozen=True)
class LeftOut:
    """A column that is not used.

    Parameters
    ----------
    why : str
        The reason, such as "no values".
    missing : int
        Number of training rows without a value.
    """

    why: str
    missing: int = 0

    def learn(self, column: np.ndarray) -> "LeftOut":
        """Return the kind with the statistics of these rows."""
        return dataclasses.replace(self, missing=int(find_missing(column).sum()))


Kind = Numbers | Dates | Categories | LeftOut


def _name_number(cell: Any, value: float) -> str:
    """Return the level of a number; 1.0 is written as 1.

    Codes of more than 53 bits, such as 9007199254740993, are different levels though
    their floats are equal.
    """
    if not math.isfinite(value) or value != int(value):
        return str(value)
    is_exact = isinstance(cell, str | numbers.Integral | decimal.Decimal)
    if is_exact and abs(value) >= MAX_EXACT_FLOAT:
        digits = str(cell)
        if WHOLE_NUMBER.fullmatch(digits):
            # `int` of a text has a limit of digits, `Decimal` has none.
            return str(int(decimal.Decimal(digits)))
    return str(int(value))


def is_numeric(array: np.ndarray) -> bool:
    """Return whether an array holds numbers or booleans of NumPy."""
    return array.dtype.kind in "biuf"


def find_missing(column: np.ndarray) -> np.ndarray:
    """Return which cells of a column are missing, (n_rows,)."""
    if is_numeric(column):
        return np.isnan(column.astype(np.float64))
    cells = Cells.of(column)
    is_missing_value = np.array([cell is None for cell in cells.values], bool)
    return is_missing_value[cells.codes]


def find_unreadable(name: str, cells: Cells, kind: Numbers | Dates) -> Problem | None:
    """Return the problem of the first cell that is not of the kind, if there is one."""
    if isinstance(kind, Dates) and kind.day_first is None:
        problem = find_ambiguous_dates(
            name,
            cells,
            "neither the training rows nor this table tell",
            (Remedy.WRITE_ISO_DATE, Remedy.REFIT_WITH_DATE_ORDER),
        )
        if problem is not None:
            return problem
        kind = kind.with_order_of(cells)
    if isinstance(kind, Numbers) and not kind.durations:
        # Beside other numbers a boolean is wrong, even if training had only 0 and 1.
        is_binary = kind.binary and kind.holds_only_binary(cells)
        kind = dataclasses.replace(kind, binary=is_binary)
        mixed = find_mixed_marks(cells.values) if kind.commas else None
        if mixed is not None:
            return _describe_mixed_marks(name, cells, *mixed)

    unreadable = [k for k in cells.find_present() if kind.read(cells.values[k]) is None]
    if not unreadable:
        return None
    return make_problem(
        name,
        cells,
        kind.complain(cells.values[unreadable[0]]),
        index=unreadable[0],
        n_more=cells.count_rows(unreadable) - 1,
    )


def find_ambiguous_dates(
    name: str, cells: Cells, reason: str, remedies: tuple[Remedy, ...]
) -> Problem | None:
    """Return the problem of dates such as 05/03/2024 whose order no cell tells."""
    moments = {k: parse_moment(cell) for k, cell in enumerate(cells.values)}
    moments = {k: moment for k, moment in moments.items() if moment is not None}
    orders = find_possible_orders(moments.values())
    if not orders:
        return Problem(
            kind="mixed date orders",
            column=name,
            message="some dates begin with the day, others with the month",
            remedies=(Remedy.WRITE_ISO_DATE,),
        )

    ambiguous = [k for k, moment in moments.items() if moment.is_ambiguous]
    if len(orders) == 1 or not ambiguous:
        return None
    cell = quote(cells.values[ambiguous[0]])
    message = f"{cell} may begin with the day or the month, and {reason}"
    return make_problem(
        name,
        cells,
        Complaint("ambiguous date", message, remedies),
        index=ambiguous[0],
        n_more=cells.count_rows(ambiguous) - 1,
    )


def make_problem(
    name: str, cells: Cells, complaint: Complaint, *, index: int, n_more: int = 0
) -> Problem:
    """Return the problem of the value with this index."""
    return Problem(
        kind=complaint.kind,
        column=name,
        message=complaint.message,
        remedies=complaint.remedies,
        row=cells.find_first_row(index),
        value=cells.values[index],
        n_more=n_more,
    )


def _describe_mixed_marks(name: str, cells: Cells, group: int, point: int) -> Problem:
    """Return the problem of "1,234" beside "2.5" where training had decimal commas."""
    cell = cells.values[group]
    readings = (cell.replace(",", "."), cell.replace(",", ""))
    return Problem(
        kind="ambiguous number",
        column=name,
        message=(
            f"{cell!r} may be {readings[0]} as in training or {readings[1]}, as another "
            f"cell is {cells.values[point]!r:.40}"
        ),
        remedies=(Remedy.WRITE_ALL_NUMBERS_PLAINLY, Remedy.GIVE_NUMBER_FORMAT),
        row=cells.find_first_row(group),
        value=cell,
        readings=readings,
    )


def _read_values(kind: Numbers | Dates, cells: Cells) -> np.ndarray:
    """Return what a kind reads, (n_rows,), NaN where a cell is missing or unreadable."""
    return cells.spread(
        None if cell is None else kind.read(cell) for cell in cells.values
    )


# Kinds in a model file. ---------------------------------------------------------------

# The names that existing model files use.
KIND_NAMES: dict[type, str] = {
    Numbers: "numbers",
    Dates: "dates",
    Categories: "words",
    LeftOut: "left out",
}
# Fields that older files lack, in words for the message.
LATER_FIELDS = {
    "durations": "durations",
    "binary": "0 and 1",
    "aware": "dates with a time zone",
}


def kind_to_json(kind: Kind) -> dict[str, Any]:
    """Return a kind as JSON can hold it."""
    return {"kind": KIND_NAMES[type(kind)], **dataclasses.asdict(kind)}


def kind_from_json(entry: dict[str, Any]) -> Kind:
    """Return the kind that `kind_to_json` wrote.

    The messages of errors speak of the model file as "it"; the caller names it.

    Raises
    ------
    ValueError, KeyError
        If the entry cannot come from a fitted encoder: a file may have been changed.
    """
    kinds = {name: kind for kind, name in KIND_NAMES.items()}
    kind = kinds[entry["kind"]]
    values = {name: value for name, value in entry.items() if name != "kind"}
    types = {field.name: field.type for field in dataclasses.fields(kind)}

    absent = [name for name in LATER_FIELDS if name in types and name not in values]
    if absent:
        raise ValueError(
            f"its columns do not tell whether they are {LATER_FIELDS[absent[0]]}: "
            "another version wrote it; fit anew"
        )
    if values.keys() != types.keys():
        raise ValueError(f"a column of it has {', '.join(map(str, values)):.80}")
    for name, value in values.items():
        if not _has_type(value, types[name]) or (name == "missing" and value < 0):
            raise ValueError(f"the {name} of a column of it is {value!r:.80}")

    values = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in values.items()
    }
    result: Any = kind(**values)
    if not _is_consistent(result):
        raise ValueError(f"a column of it is {result!r:.200}")
    return result


def _is_consistent(kind: Kind) -> bool:
    """Return whether the fields of a kind can have come from a table."""
    match kind:
        case Dates(first=first, last=last, fill=fill):
            return max(abs(first), abs(last), abs(fill)) <= MAX_DAYS
        case Categories(levels=levels, others=others):
            # A level that no cell is read as would never be met.
            names = [name for name in (*levels, *others) if name != MISSING_LEVEL]
            return bool(levels) and all(
                Categories.name_level(name) == name for name in names
            )
        case Numbers(commas=commas, durations=durations, binary=binary):
            return not durations or not (commas or binary)
    return True


def _has_type(value: Any, wanted: Any) -> bool:
    """Return whether a value of a file has the type of a field."""
    if wanted is float:
        return type(value) in (int, float) and abs(value) <= sys.float_info.max
    if wanted == bool | None:
        return value is None or type(value) is bool
    if wanted in (bool, int, str):
        return type(value) is wanted

    # What is left are levels: texts that differ from each other and from the rare one.
    if not isinstance(value, list):
        return False
    if not all(isinstance(level, str) for level in value):
        return False
    return len({*value, RARE_LEVEL}) == len(value) + 1
