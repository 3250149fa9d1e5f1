"""What a column holds, once and for all: numbers, dates or words, or nothing to learn from.

`kind_of` decides by the cells of training; a kind then reads the cells of any other table.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from mmlp.columns import dates as days
from mmlp.columns.cells import Cells, decimal_commas, looks_like_number, missing, number
from mmlp.columns.problems import Problem

LEAST, MOST = 5, 30  # rows of a level that gets an indicator; such levels of a column
MOSTLY = 0.9  # of the cells are numbers, or dates: the others are mistakes
# So few cells that are not numbers are mistakes even in a column of few different values.
MAX_STRAY_CELLS = 3
MAX_STRAY_SHARE = 0.02
KEPT = 1000  # rare levels that are remembered, to tell unknown ones
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

    def read(self, cell) -> float | None:
        cell = cell.replace(",", ".") if self.commas and isinstance(cell, str) else cell
        value = number(cell)
        return None if value is None or math.isinf(value) else value

    def features(self, values: np.ndarray) -> list[np.ndarray]:
        return [values]

    def wrong(self, cell) -> str:
        """What is wrong with a cell that cannot be read."""
        if number(cell) is not None:
            return f"{str(cell)!r:.60} is not finite; correct it, or remove the row"
        comma = isinstance(cell, str) and decimal_commas([cell])
        remedy = "write decimals with a point" if comma else "correct it, or empty the cell"
        return f"{str(cell)!r:.60} is not a number; {remedy}, or leave the column out"


@dataclass(frozen=True)
class Dates:
    """Days, counted from the first; with the season, or the time of day, as a point of a circle."""

    first: float
    last: float
    fill: float
    day_first: bool
    season: bool
    clock: bool
    alone: bool  # times of day without a day
    missing: int = 0

    def read(self, cell) -> float | None:
        if not isinstance(cell, str):
            return days.instant(cell)
        found = days.written(cell)
        if found is None or days.is_clock(found) != self.alone:
            return None
        return days.days(found, first=self.day_first)

    def features(self, values: np.ndarray) -> list[np.ndarray]:
        periods = [days.YEAR] * self.season + [1.0] * self.clock
        turns = [2 * np.pi * values / period for period in periods]
        return [values - self.first, *(f(turn) for turn in turns for f in (np.sin, np.cos))]

    def wrong(self, cell) -> str:
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
        """The name of a level: codes that are equal numbers, 1 and 1.0, are one level."""
        if missing(cell):
            return NO_VALUE
        value = number(cell)
        if value is not None and math.isfinite(value):
            return str(int(value)) if value == int(value) else str(value)
        return f"'{cell}'" if cell in (NO_VALUE, RARE) else str(cell)

    def level(self, word: str) -> str:
        return word if word in self.levels else RARE


@dataclass(frozen=True)
class LeftOut:
    """Nothing to learn from."""

    why: str
    missing: int = 0


Kind = Numbers | Dates | Words | LeftOut


def kind_of(name: str, cells: Cells, options: Options, *, forced: bool) -> Kind | Problem:
    """What a column is; `forced`: words, though they may look like numbers."""
    absent = np.array([missing(cell) for cell in cells.values])
    present = [k for k, gone in enumerate(absent.tolist()) if not gone]
    gone = int(cells.counts[absent].sum())
    if not present:
        return LeftOut("no values", gone)
    if not forced:
        for kind in (_numbers(cells, present, gone), _dates(name, cells, present, gone, options)):
            wrong = (
                kind if isinstance(kind, Problem) else _wrong(name, cells, present, kind, options)
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
    return cells.spread([None if missing(cell) else kind.read(cell) for cell in cells.values])


def unread(name: str, cells: Cells, kind: Numbers | Dates) -> Problem | None:
    """The first cell that is not of the kind, if there is one."""
    wrong = [k for k, x in enumerate(cells.values) if not missing(x) and kind.read(x) is None]
    if not wrong:
        return None
    more = int(cells.counts[wrong].sum()) - 1
    return Problem(kind.wrong(cells.values[wrong[0]]), name, cells.row(wrong[0]), more)


def _wrong(
    name: str, cells: Cells, present: list[int], kind, options: Options
) -> "Problem | bool | None":
    """None if all cells are of the kind, a problem if almost all are, else True."""
    if kind is None:
        return True
    if isinstance(kind, LeftOut):
        return None
    counts, read = cells.counts, [k for k in present if kind.read(cells.values[k]) is not None]
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
    return unread(name, cells, kind) if infinite or (share >= MOSTLY and not few) else True


def _stray_cells(
    name: str, cells: Cells, strays: list[int], kind: Numbers | Dates, *, may_be_words: bool
) -> Problem:
    """Name every row of the few cells that do not belong to a column of numbers or dates."""
    rows = sorted(row for k in strays for row in cells.rows(k))
    text = kind.wrong(cells.values[cells.codes[rows[0]]])
    if may_be_words:
        text += ", or say that the column holds categories"
    return Problem(text, name, rows[0], other_rows=tuple(rows[1:]))


def _formatted(name: str, cells: Cells, present: list[int]) -> Problem | None:
    """Numbers that are written for people: they would be taken for words."""
    odd = [k for k in present if looks_like_number(cells.values[k]) and not _read(cells.values[k])]
    like = [k for k in present if looks_like_number(cells.values[k])]
    if not odd or cells.counts[like].sum() < MOSTLY * cells.counts[present].sum():
        return None
    text = f"{cells.values[odd[0]]!r:.60} looks like a number in a form that is not read; write "
    text += "1234.5, or say that the column holds categories, or leave it out"
    return Problem(text, name, cells.row(odd[0]), int(cells.counts[odd].sum()) - 1)


def _read(cell) -> bool:
    return number(cell) is not None


def _numbers(cells: Cells, present: list[int], gone: int) -> Numbers:
    commas = decimal_commas([cells.values[k] for k in present])
    found = column(Numbers(0.0, commas=commas), cells)
    known = found[np.isfinite(found)]
    return Numbers(float(np.median(known)) if len(known) else 0.0, gone, commas)


def _dates(name: str, cells: Cells, present: list[int], gone: int, options: Options):
    """Dates, None if there are none, a problem if their order is not known."""
    values = [cells.values[k] for k in present]
    texts = [found for x in values if isinstance(x, str) and (found := days.written(x))]
    alone = bool(texts) and all(map(days.is_clock, texts))
    orders = days.day_first(texts)
    if options.dates in ("day-first", "month-first"):
        orders = {options.dates == "day-first"}
    if not orders and len(texts) >= MOSTLY * len(values):
        text = "some dates begin with the day, others with the month; write 2024-03-05"
        return Problem(text, name)
    kind = Dates(0.0, 0.0, 0.0, True in orders, False, False, alone)
    found = column(kind, cells)
    known = found[np.isfinite(found)]
    if len(known) < MOSTLY * (len(found) - gone) or not len(known):
        return None
    if options.dates == "ignore":
        return LeftOut("dates", gone)
    first = next(k for k in present if kind.read(cells.values[k]) is not None)
    if options.dates == "refuse":
        text = f"{str(cells.values[first])!r:.60} is a date; leave the column out, or turn it "
        return Problem(text + "into numbers", name, cells.row(first))
    if any(text.unclear for text in texts) and len(orders) == 2:
        return Problem(
            f"{str(cells.values[first])!r:.60} may begin with the day or the month, and no cell "
            "tells; say it by dates day-first or month-first",
            name,
            cells.row(first),
        )
    low, high = float(known.min()), float(known.max())
    season, clock = high - low > days.YEAR, alone or bool((known % 1).any() and high - low > 1)
    middle = float(np.median(known))
    return Dates(low, high, middle, kind.day_first, season, clock, alone, gone)


def _words(cells: Cells, gone: int) -> Words | LeftOut:
    count: dict[str, int] = {}
    for cell, times in zip(cells.values, cells.counts.tolist(), strict=True):
        count[Words.word(cell)] = count.get(Words.word(cell), 0) + times
    often = sorted((word for word in count if count[word] >= LEAST), key=lambda word: -count[word])
    levels = often[:MOST]
    others = [word for word in count if word not in set(levels)]
    if not levels:
        return LeftOut(f"{len(count)} different texts, none in {LEAST} rows", gone)
    if len(count) == 1:
        return LeftOut(f"always {levels[0]!r:.40}", gone)
    return Words(tuple(levels), len(others), gone, tuple(others[:KEPT]))
