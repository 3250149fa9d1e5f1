"""What a column holds, once and for all: numbers, dates or words, or nothing to learn from.

`kind_of` decides by the cells of training; a kind then reads the cells of any other table.

Booleans are the numbers 1 and 0, in text as in NumPy and pandas: a column of True and False, also
mixed with 1 and 0, is one of numbers. Among any other numbers a boolean is a mistake. In a column
of words True and 1 are the same level, "1". Durations are numbers of days, and are not mixed with
numbers that have no unit.
"""

import decimal
import math
import numbers
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from mmlp.tables import dates as days
from mmlp.tables.cells import (
    MAX_EXACT_FLOAT,
    Cells,
    canonical,
    decimal_commas,
    find_mixed_marks,
    looks_like_number,
    missing,
    number,
)
from mmlp.tables.problems import Problem

LEAST, MOST = 5, 30  # rows of a level that gets an indicator; such levels of a column
MOSTLY = 0.9  # of the cells are numbers, or dates: the others are mistakes
# So few cells that are not numbers are mistakes even in a column of few different values.
MAX_STRAY_CELLS = 3
MAX_STRAY_SHARE = 0.02
KEPT = 1000  # rare levels that are remembered, to tell unknown ones
DIGITS = re.compile(r"[-+]?\d+")
NO_VALUE, RARE = "(missing)", "(rare)"
Reader = Callable[[Any], float | None]


class Options(NamedTuple):
    """How `missing`, `categories` and `dates` of an estimator are set; checked by the encoder."""

    missing: str = "impute"
    categories: str | Sequence = "auto"
    dates: str = "auto"


@dataclass(frozen=True)
class Numbers:
    """Numbers; `fill` stands for a missing one, of which there were so many."""

    fill: float
    missing: int = 0
    commas: bool = False
    durations: bool = False  # in days
    binary: bool = True  # nothing but 0 and 1, so that booleans are read

    def read(self, cell) -> float | None:
        if self.durations:
            found = days.duration(cell)
            return None if found is None else found.days
        if isinstance(cell, bool) and not self.binary:
            return None
        cell = cell.replace(",", ".") if self.commas and isinstance(cell, str) else cell
        value = number(cell)
        return None if value is None or math.isinf(value) else value

    def features(self, values: np.ndarray) -> list[np.ndarray]:
        return [values]

    def wrong(self, cell) -> str:
        """What is wrong with a cell that cannot be read."""
        if self.durations:
            remedy = "give it as a timedelta, or as a text such as '1 days 02:00:00'"
            return (
                f"{str(cell)!r:.60} is not a duration like those of training; {remedy}"
            )
        if isinstance(cell, days.Duration):
            remedy = "turn it into a number in the unit of the others"
            return f"{str(cell)!r:.60} is a duration in a column of numbers; {remedy}"
        if isinstance(cell, bool):
            remedy = "correct it, or empty the cell, or leave the column out"
            return (
                f"'{cell}' stands in a column of numbers other than 0 and 1; {remedy}"
            )
        if number(cell) is not None:
            return f"{str(cell)!r:.60} is not finite; correct it, or remove the row"
        comma = isinstance(cell, str) and decimal_commas([cell])
        remedy = (
            "write decimals with a point" if comma else "correct it, or empty the cell"
        )
        return f"{str(cell)!r:.60} is not a number; {remedy}, or leave the column out"


@dataclass(frozen=True)
class Dates:
    """Days, counted from the first; with the season, or the time of day, as a point of a circle."""

    first: float
    last: float
    fill: float
    day_first: (
        bool | None
    )  # how 05/03/2024 is read; None if neither training nor the user told
    season: bool
    clock: bool
    alone: bool  # times of day without a day
    missing: int = 0
    aware: bool = False  # with a time zone

    def read(self, cell) -> float | None:
        found = days.moment(cell)
        if (
            found is None
            or found.is_time_of_day != self.alone
            or found.is_aware != self.aware
        ):
            return None
        return found.days(self.day_first)

    def features(self, values: np.ndarray) -> list[np.ndarray]:
        periods = [days.YEAR] * self.season + [1.0] * self.clock
        turns = [2 * np.pi * values / period for period in periods]
        return [
            values - self.first,
            *(f(turn) for turn in turns for f in (np.sin, np.cos)),
        ]

    def wrong(self, cell) -> str:
        found = days.moment(cell)
        if found is not None and found.is_aware != self.aware:
            return f"{str(cell)!r:.60} {_other_zone(self.aware)}"
        what = "a time of day" if self.alone else "a date"
        remedy = "correct it, or empty the cell, or leave the column out"
        return f"{str(cell)!r:.60} is not {what} like the others; {remedy}"


@dataclass(frozen=True)
class Words:
    """Words, each of the `levels` with an indicator; all others, so many, are one level if any."""

    levels: tuple[str, ...]
    rare: int = 0
    missing: int = 0
    others: tuple[str, ...] = ()  # the rare ones, as far as they are kept

    @property
    def indicators(self) -> list[str]:
        return [*self.levels, *([RARE] if self.rare else [])]

    @staticmethod
    def word(cell) -> str:
        """The name of a level: 1, 1.0, "1" and True are one level, and so are equal dates."""
        cell = canonical(cell)
        if cell is None:
            return NO_VALUE
        value = number(cell)
        if value is not None:
            is_whole = math.isfinite(value) and value == int(value)
            return _whole_number(cell, value) if is_whole else str(value)
        if found := days.duration(cell):
            return str(found)
        if found := days.moment(cell):
            return days.label(found) or str(cell)
        return f"'{cell}'" if cell in (NO_VALUE, RARE) else str(cell)

    def level(self, word: str) -> str:
        return word if word in self.levels else RARE


def _whole_number(cell: Any, value: float) -> str:
    """Return the digits of a cell whose float is a whole number.

    Codes of more than 53 bits, such as 9007199254740993, are different though their floats are not.
    """
    is_exact = isinstance(cell, str | numbers.Integral | decimal.Decimal)
    if is_exact and abs(value) >= MAX_EXACT_FLOAT and DIGITS.fullmatch(str(cell)):
        return str(int(decimal.Decimal(str(cell))))  # `int` has a limit of digits
    return str(int(value))


@dataclass(frozen=True)
class LeftOut:
    """Nothing to learn from."""

    why: str
    missing: int = 0


Kind = Numbers | Dates | Words | LeftOut


def kind_of(
    name: str, cells: Cells, options: Options, *, forced: bool
) -> Kind | Problem:
    """What a column is; `forced`: words, though they may look like numbers."""
    absent = np.array([missing(cell) for cell in cells.values])
    present = [k for k, gone in enumerate(absent.tolist()) if not gone]
    gone = int(cells.counts[absent].sum())
    if not present:
        return LeftOut("no values", gone)
    if not forced:
        if problem := _mixed_durations(name, cells, present):
            return problem
        for kind in (
            _numbers(cells, present, gone),
            _dates(name, cells, present, gone, options),
        ):
            wrong = (
                kind
                if isinstance(kind, Problem)
                else _wrong(name, cells, present, kind, options)
            )
            if wrong is None or isinstance(wrong, Problem):
                return wrong or kind or LeftOut("no values", gone)
        if odd := _formatted(name, cells, present):
            return odd
    if options.categories == "ignore":
        return LeftOut("text", gone)
    if options.categories == "refuse":
        text = f"{str(cells.values[present[0]])!r:.60} is text; leave the column out, or turn it "
        return Problem(text + "into numbers", name, cells.row(present[0]))
    return _words(cells, gone)


def column(kind: Numbers | Dates, cells: Cells) -> np.ndarray:
    """A column as numbers, (n,), NaN where a value is missing or cannot be read."""
    if isinstance(kind, Dates):
        kind = with_order_of(kind, cells)
    return cells.spread(
        [None if missing(cell) else kind.read(cell) for cell in cells.values]
    )


def unread(name: str, cells: Cells, kind: Numbers | Dates) -> Problem | None:
    """The first cell that is not of the kind, if there is one."""
    if isinstance(kind, Dates) and kind.day_first is None:
        advice = "neither training nor this table tells; write it like 2024-03-05, or fit with "
        advice += "dates day-first or month-first"
        if problem := _order_problem(name, cells, advice):
            return problem
        kind = with_order_of(kind, cells)
    if isinstance(kind, Numbers) and not kind.durations:
        kind = replace(kind, binary=kind.binary and _is_binary(kind, cells))
        if kind.commas and (mixed := find_mixed_marks(cells.values)):
            return _mixed_marks_problem(name, cells, *mixed)
    wrong = [
        k for k, x in enumerate(cells.values) if not missing(x) and kind.read(x) is None
    ]
    if not wrong:
        return None
    more = int(cells.counts[wrong].sum()) - 1
    return Problem(kind.wrong(cells.values[wrong[0]]), name, cells.row(wrong[0]), more)


def _mixed_marks_problem(name: str, cells: Cells, group: int, point: int) -> Problem:
    """Return the problem of "1,234" beside "2.5" where training had decimal commas."""
    text = cells.values[group]
    message = (
        f"{text!r} may be {text.replace(',', '.')} as in training or {text.replace(',', '')}, as "
        f"another cell is {cells.values[point]!r:.40}; write all decimals with a point and no "
        "thousands separators"
    )
    return Problem(message, name, cells.row(group))


def _wrong(
    name: str, cells: Cells, present: list[int], kind, options: Options
) -> "Problem | bool | None":
    """None if all cells are of the kind, a problem if almost all are, else True."""
    if kind is None:
        return True
    if isinstance(kind, LeftOut):
        return None
    counts, read = (
        cells.counts,
        [k for k in present if kind.read(cells.values[k]) is not None],
    )
    if len(read) == len(present):
        return None
    share = counts[read].sum() / counts[present].sum()
    few = len(present) <= MOST and counts[present].mean() >= LEAST
    infinite = all(number(cells.values[k]) is not None for k in present)
    wrong_count = int(counts[present].sum() - counts[read].sum())
    max_strays = min(MAX_STRAY_CELLS, MAX_STRAY_SHARE * counts[present].sum())
    if wrong_count <= max_strays and not infinite:
        strays = sorted({*present} - {*read})
        may_be_words = few and options.categories not in ("ignore", "refuse")
        return _stray_cells(name, cells, strays, kind, may_be_words=may_be_words)
    return (
        unread(name, cells, kind) if infinite or (share >= MOSTLY and not few) else True
    )


def _stray_cells(
    name: str,
    cells: Cells,
    strays: list[int],
    kind: Numbers | Dates,
    *,
    may_be_words: bool,
) -> Problem:
    """Name every row of the few cells that do not belong to a column of numbers or dates."""
    rows = sorted(row for k in strays for row in cells.rows(k))
    text = kind.wrong(cells.values[cells.codes[rows[0]]])
    if may_be_words:
        text += ", or say that the column holds categories"
    return Problem(text, name, rows[0], other_rows=tuple(rows[1:]))


def _formatted(name: str, cells: Cells, present: list[int]) -> Problem | None:
    """Numbers that are written for people: they would be taken for words."""
    odd = [
        k
        for k in present
        if looks_like_number(cells.values[k]) and not _read(cells.values[k])
    ]
    like = [
        k
        for k in present
        if looks_like_number(cells.values[k]) or _read(cells.values[k])
    ]
    if not odd or cells.counts[like].sum() < MOSTLY * cells.counts[present].sum():
        return None
    text = f"{cells.values[odd[0]]!r:.60} looks like a number in a form that is not read; write "
    text += "1234.5, or say that the column holds categories, or leave it out"
    return Problem(text, name, cells.row(odd[0]), int(cells.counts[odd].sum()) - 1)


def _read(cell) -> bool:
    return number(cell) is not None


def _numbers(cells: Cells, present: list[int], gone: int) -> Numbers:
    commas = decimal_commas([cells.values[k] for k in present])
    durations = all(days.duration(cells.values[k]) is not None for k in present)
    kind = Numbers(0.0, gone, commas, durations)
    kind = replace(kind, binary=not durations and _is_binary(kind, cells))
    found = column(kind, cells)
    known = found[np.isfinite(found)]
    return replace(kind, fill=float(np.median(known)) if len(known) else 0.0)


def _is_binary(kind: Numbers, cells: Cells) -> bool:
    """Whether a column holds no number but 0 and 1."""
    return all(
        kind.read(cell) in (None, 0.0, 1.0) for cell in cells.values if cell is not None
    )


def _mixed_durations(name: str, cells: Cells, present: list[int]) -> Problem | None:
    """Return the problem of a column that holds durations and something else."""
    objects = [k for k in present if isinstance(cells.values[k], days.Duration)]
    others = [k for k in present if days.duration(cells.values[k]) is None]
    if not objects or not others:
        return None
    cell = cells.values[others[0]]
    more = int(cells.counts[others].sum()) - 1
    text = f"{str(cell)!r:.60} is not a duration like others of the column; turn it into one, or "
    text += "all of them into numbers"
    return Problem(text, name, cells.row(others[0]), more)


def _dates(name: str, cells: Cells, present: list[int], gone: int, options: Options):
    """Dates, None if there are none, a problem if their order or time zone is not known."""
    moments = {k: found for k in present if (found := days.moment(cells.values[k]))}
    moments = {k: found for k, found in moments.items() if found[:2] != (None, None)}
    if cells.counts[[*moments]].sum() < MOSTLY * cells.counts[present].sum():
        return None
    if options.dates == "ignore":
        return LeftOut("dates", gone)
    first_date = next(iter(moments))
    if options.dates == "refuse":
        text = f"{str(cells.values[first_date])!r:.60} is a date; leave the column out, or turn it "
        return Problem(text + "into numbers", name, cells.row(first_date))

    if problem := _mixed_zones(name, cells, moments):
        return problem
    alone = _are_most(cells, moments, lambda found: found.is_time_of_day)
    aware = moments[first_date].is_aware
    day_first = None
    if options.dates in ("day-first", "month-first"):
        day_first = options.dates == "day-first"
    else:
        advice = "no cell tells; say it by dates day-first or month-first"
        if problem := _order_problem(name, cells, advice):
            return problem
    kind = Dates(0.0, 0.0, 0.0, day_first, False, False, alone, gone, aware)
    kind = with_order_of(kind, cells)

    found = column(kind, cells)
    known = found[np.isfinite(found)]
    if len(known) < MOSTLY * (len(found) - gone):
        return None
    first = float(known.min())
    last = float(known.max())
    return replace(
        kind,
        first=first,
        last=last,
        fill=float(np.median(known)),
        season=last - first > days.YEAR,
        clock=alone or bool((known % 1).any() and last - first > 1),
    )


def _are_most(
    cells: Cells, moments: dict[int, days.Moment], condition: Callable
) -> bool:
    """Whether more than half of the rows with a moment fulfil a condition."""
    selected = [k for k, found in moments.items() if condition(found)]
    return bool(2 * cells.counts[selected].sum() > cells.counts[[*moments]].sum())


def _mixed_zones(
    name: str, cells: Cells, moments: dict[int, days.Moment]
) -> Problem | None:
    """Return the problem of a column in which some times have a time zone and others have none."""
    aware = _are_most(cells, moments, lambda found: found.is_aware)
    others = [k for k, found in moments.items() if found.is_aware != aware]
    if not others:
        return None
    has = "has no time zone, but most" if aware else "has a time zone, but most"
    have = "have one" if aware else "have none"
    text = f"{str(cells.values[others[0]])!r:.60} {has} cells of the column {have}; write all of "
    text += "them with a zone, or none"
    return Problem(
        text, name, cells.row(others[0]), int(cells.counts[others].sum()) - 1
    )


def _other_zone(aware: bool) -> str:
    """What is wrong with a time where training was aware of the time zone, or was not."""
    if aware:
        return (
            "has no time zone, but this column has one in training; add one, such as "
            "2024-03-05 14:30+01:00"
        )
    return (
        "has a time zone, but this column has none in training; write the local time of the "
        "training data, without a zone"
    )


def _order_problem(name: str, cells: Cells, advice: str) -> Problem | None:
    """Return the problem of dates such as 05/03/2024 whose order the column does not tell."""
    moments = {
        k: found for k, cell in enumerate(cells.values) if (found := days.moment(cell))
    }
    orders = days.possible_orders(moments.values())
    if not orders:
        text = "some dates begin with the day, others with the month; write 2024-03-05"
        return Problem(text, name)
    unclear = [k for k, found in moments.items() if found.is_ambiguous]
    if len(orders) == 1 or not unclear:
        return None
    text = f"{str(cells.values[unclear[0]])!r:.60} may begin with the day or the month, and {advice}"
    return Problem(
        text, name, cells.row(unclear[0]), int(cells.counts[unclear].sum()) - 1
    )


def with_order_of(kind: Dates, cells: Cells) -> Dates:
    """Return the kind with the order of day and month that only these cells tell, if they do."""
    if kind.day_first is not None:
        return kind
    orders = days.possible_orders(filter(None, map(days.moment, cells.values)))
    return replace(kind, day_first=orders.pop()) if len(orders) == 1 else kind


def _words(cells: Cells, gone: int) -> Words | LeftOut:
    count: dict[str, int] = {}
    for cell, times in zip(cells.values, cells.counts.tolist(), strict=True):
        count[Words.word(cell)] = count.get(Words.word(cell), 0) + times
    often = sorted(
        (word for word in count if count[word] >= LEAST), key=lambda word: -count[word]
    )
    levels = often[:MOST]
    others = [word for word in count if word not in set(levels)]
    if not levels:
        return LeftOut(f"{len(count)} different texts, none in {LEAST} rows", gone)
    if len(count) == 1:
        return LeftOut(f"always {levels[0]!r:.40}", gone)
    return Words(tuple(levels), len(others), gone, tuple(others[:KEPT]))
