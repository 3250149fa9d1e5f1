"""Decide what a column holds: numbers, dates or categories.

`classify_column` is called once for each column of a training table. It looks at all
cells of the column and returns how they are to be read, or the problem that keeps the
column from being used. It learns no statistics: `Kind.learn` does, from the rows that
a model is trained on.

The functions work on the distinct values of a column: `present` lists the indices of
those in `cells.values` that are not missing.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from mmlp.tables.cells import Cells, parse_number
from mmlp.tables.dates import Duration, Moment, parse_duration, parse_moment
from mmlp.tables.kinds import (
    MAX_LEVELS,
    MIN_ROWS_PER_LEVEL,
    Categories,
    Complaint,
    Dates,
    Kind,
    LeftOut,
    Numbers,
    find_ambiguous_dates,
    find_unreadable,
    is_numeric,
    make_problem,
)
from mmlp.tables.number_format import has_decimal_commas, looks_like_number
from mmlp.tables.problems import Problem, Remedy, quote

# If this share of the cells are numbers, or dates, the others are mistakes.
MIN_SHARE_OF_KIND = 0.9
# At most this many stray cells are mistakes even in a column of few distinct values,
# which could otherwise hold categories.
MAX_STRAY_CELLS = 3
MAX_STRAY_SHARE = 0.02


def classify_column(
    name: str,
    column: np.ndarray,
    *,
    categories: Any = "auto",
    dates: str = "auto",
    is_category: bool = False,
) -> Kind | Problem:
    """Decide what a column holds.

    Parameters
    ----------
    name : str
        Name of the column, for the problem.
    column : array of shape (n_rows,)
        Numbers, or cells of any type.
    categories : {"auto", "ignore", "refuse"} or sequence
        What becomes of text. A sequence, which names columns, stands for "auto".
    dates : {"auto", "day-first", "month-first", "ignore", "refuse"}
        What becomes of dates, and how 05/03/2024 is read.
    is_category : bool, default=False
        Whether the column holds categories, though they may look like numbers.

    Returns
    -------
    Kind or Problem
        A kind without statistics, or why the column cannot be used.
    """
    if is_numeric(column) and not is_category:
        return _classify_numeric(column)

    cells = Cells.of(column)
    present = cells.find_present()
    if not present:
        return LeftOut("no values")

    text_choice = categories if isinstance(categories, str) else "auto"
    if not is_category:
        result = _classify_by_content(
            name, cells, present, dates, may_be_text=text_choice == "auto"
        )
        if result is not None:
            return result

    if text_choice == "ignore":
        return LeftOut("text")
    if text_choice == "refuse":
        complaint = Complaint(
            "text",
            f"{quote(cells.values[present[0]])} is text",
            (Remedy.LEAVE_COLUMN_OUT, Remedy.TURN_INTO_NUMBERS),
        )
        return make_problem(name, cells, complaint, index=present[0])
    return Categories()


def _classify_numeric(column: np.ndarray) -> Numbers | LeftOut:
    """Classify an array of numbers, NaN where one is missing."""
    values = column.astype(np.float64)
    known = values[~np.isnan(values)]
    if not len(known):
        return LeftOut("no values")
    return Numbers(binary=bool(np.isin(known, (0.0, 1.0)).all()))


def _classify_by_content(
    name: str, cells: Cells, present: list[int], dates: str, *, may_be_text: bool
) -> Kind | Problem | None:
    """Classify a column of numbers or dates; None if it can only be text."""
    problem = _find_mixed_durations(name, cells, present)
    if problem is not None:
        return problem

    numbers = _propose_numbers(cells, present)
    result = _match_kind(numbers, name, cells, present, may_be_text=may_be_text)
    if result is not None:
        return result

    proposal = _propose_dates(name, cells, present, dates)
    if isinstance(proposal, Dates):
        result = _match_kind(proposal, name, cells, present, may_be_text=may_be_text)
        if result is not None:
            return result
    elif proposal is not None:
        return proposal

    return _find_formatted_numbers(name, cells, present)


def _match_kind(
    kind: Numbers | Dates,
    name: str,
    cells: Cells,
    present: list[int],
    *,
    may_be_text: bool,
) -> Kind | Problem | None:
    """Check whether the cells of a column are of the proposed kind.

    Returns
    -------
    Kind, Problem or None
        The kind if all cells are of it; a problem if almost all are, or if the others
        are numbers that cannot be used; None if the column is of another kind.
    """
    readable = [k for k in present if kind.read(cells.values[k]) is not None]
    if len(readable) == len(present):
        return kind

    n_present = cells.count_rows(present)
    n_readable = cells.count_rows(readable)
    n_unreadable = n_present - n_readable
    mean_rows = cells.counts[present].mean()
    has_few_values = len(present) <= MAX_LEVELS and mean_rows >= MIN_ROWS_PER_LEVEL
    # Infinite numbers, and booleans among other numbers, cannot be read; but they never
    # make a column one of categories, however many they are.
    are_all_numbers = all(parse_number(cells.values[k]) is not None for k in present)

    max_strays = min(MAX_STRAY_CELLS, MAX_STRAY_SHARE * n_present)
    if n_unreadable <= max_strays and not are_all_numbers:
        strays = sorted({*present} - {*readable})
        may_be_categories = has_few_values and may_be_text
        return _describe_stray_cells(
            kind, name, cells, strays, may_be_categories=may_be_categories
        )
    mostly_readable = n_readable / n_present >= MIN_SHARE_OF_KIND
    if are_all_numbers or (mostly_readable and not has_few_values):
        return find_unreadable(name, cells, kind)
    return None


def _describe_stray_cells(
    kind: Numbers | Dates,
    name: str,
    cells: Cells,
    strays: list[int],
    *,
    may_be_categories: bool,
) -> Problem:
    """Name all rows of the few cells that do not belong to a column."""
    rows = sorted(row for k in strays for row in cells.find_rows(k))
    cell = cells.values[cells.codes[rows[0]]]
    complaint = kind.complain(cell)
    remedies = complaint.remedies
    if may_be_categories:
        remedies = (*remedies, Remedy.DECLARE_CATEGORIES)
    return Problem(
        kind=complaint.kind,
        column=name,
        message=complaint.message,
        remedies=remedies,
        row=rows[0],
        value=cell,
        other_rows=tuple(rows[1:]),
    )


def _find_formatted_numbers(
    name: str, cells: Cells, present: list[int]
) -> Problem | None:
    """Return the problem of numbers such as 1,234.5, which would be taken for text."""
    formatted = [k for k in present if looks_like_number(cells.values[k])]
    plain = [k for k in present if parse_number(cells.values[k]) is not None]
    unreadable = sorted({*formatted} - {*plain})
    numeric = sorted({*formatted, *plain})
    min_rows = MIN_SHARE_OF_KIND * cells.count_rows(present)
    if not unreadable or cells.count_rows(numeric) < min_rows:
        return None

    cell = quote(cells.values[unreadable[0]])
    complaint = Complaint(
        "formatted number",
        f"{cell} looks like a number in a form that is not read",
        (
            Remedy.WRITE_NUMBER_PLAINLY,
            Remedy.GIVE_NUMBER_FORMAT,
            Remedy.DECLARE_CATEGORIES,
            Remedy.LEAVE_COLUMN_OUT,
        ),
    )
    return make_problem(
        name,
        cells,
        complaint,
        index=unreadable[0],
        n_more=cells.count_rows(unreadable) - 1,
    )


def _propose_numbers(cells: Cells, present: list[int]) -> Numbers:
    """Return how the numbers of a column would be read."""
    values = [cells.values[k] for k in present]
    if all(parse_duration(value) is not None for value in values):
        return Numbers(durations=True, binary=False)
    numbers = Numbers(commas=has_decimal_commas(values))
    return dataclasses.replace(numbers, binary=numbers.holds_only_binary(cells))


def _find_mixed_durations(
    name: str, cells: Cells, present: list[int]
) -> Problem | None:
    """Return the problem of a column that holds durations and something else."""
    # A text such as "2 days" does not make a column one of durations: it may be a level
    # of a category.
    durations = [k for k in present if isinstance(cells.values[k], Duration)]
    others = [k for k in present if parse_duration(cells.values[k]) is None]
    if not durations or not others:
        return None
    complaint = Complaint(
        "not a duration",
        f"{quote(cells.values[others[0]])} is not a duration like others of the column",
        (Remedy.WRITE_ALL_DURATIONS,),
    )
    return make_problem(
        name,
        cells,
        complaint,
        index=others[0],
        n_more=cells.count_rows(others) - 1,
    )


def _propose_dates(
    name: str, cells: Cells, present: list[int], dates: str
) -> Dates | LeftOut | Problem | None:
    """Return how the dates of a column would be read, None if there are too few.

    With `dates="ignore"` the column is left out. A problem means that dates are
    refused, or that their order of day and month, or their time zone, is not clear.
    """
    parsed = {k: parse_moment(cells.values[k]) for k in present}
    moments = {
        k: moment
        for k, moment in parsed.items()
        if moment is not None and moment.is_readable
    }
    n_present = cells.count_rows(present)
    if cells.count_rows([*moments]) < MIN_SHARE_OF_KIND * n_present:
        return None
    if dates == "ignore":
        return LeftOut("dates")
    first = next(iter(moments))
    if dates == "refuse":
        complaint = Complaint(
            "date",
            f"{quote(cells.values[first])} is a date",
            (Remedy.LEAVE_COLUMN_OUT, Remedy.TURN_INTO_NUMBERS),
        )
        return make_problem(name, cells, complaint, index=first)

    problem = _find_mixed_zones(name, cells, moments)
    if problem is not None:
        return problem

    day_first = None
    if dates in ("day-first", "month-first"):
        day_first = dates == "day-first"
    else:
        problem = find_ambiguous_dates(
            name, cells, "no cell tells", (Remedy.SET_DATE_ORDER,)
        )
        if problem is not None:
            return problem

    kind = Dates(
        day_first=day_first,
        alone=_holds_for_most_rows(
            cells, moments, lambda moment: moment.is_time_of_day
        ),
        aware=moments[first].is_aware,
    )
    kind = kind.with_order_of(cells)
    readable = [k for k in present if kind.read(cells.values[k]) is not None]
    if cells.count_rows(readable) < MIN_SHARE_OF_KIND * n_present:
        return None
    return kind


def _holds_for_most_rows(
    cells: Cells, moments: dict[int, Moment], condition: Callable[[Moment], bool]
) -> bool:
    """Return whether more than half of the rows with a moment fulfil a condition."""
    selected = [k for k, moment in moments.items() if condition(moment)]
    return 2 * cells.count_rows(selected) > cells.count_rows([*moments])


def _find_mixed_zones(
    name: str, cells: Cells, moments: dict[int, Moment]
) -> Problem | None:
    """Return the problem of a column in which only some times have a time zone."""
    are_aware = _holds_for_most_rows(cells, moments, lambda moment: moment.is_aware)
    others = [k for k, moment in moments.items() if moment.is_aware != are_aware]
    if not others:
        return None
    cell_has = "has no time zone" if are_aware else "has a time zone"
    most_have = "have one" if are_aware else "have none"
    cell = quote(cells.values[others[0]])
    complaint = Complaint(
        "time zone",
        f"{cell} {cell_has}, but most cells of the column {most_have}",
        (Remedy.ALIGN_TIME_ZONES,),
    )
    return make_problem(
        name,
        cells,
        complaint,
        index=others[0],
        n_more=cells.count_rows(others) - 1,
    )
