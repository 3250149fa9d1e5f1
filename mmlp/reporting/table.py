"""A table of the page of results, and its numbers to the digits that a reader wants.

    {"title", "note", "columns": [heading of the names, headings of the cells...], "rows": [...]}
    row     {"name", "cells": [cell, ...], "emphasis": bool}, or {"group": text} above its rows
    cell    text, a number, None (nothing), or {"mean", "error", "paper", "best": bool}: standard
            error over seeds, the paper's value (a number or text), whether it is the best

A column in which a cell has a paper's value becomes two, obtained and paper.
"""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from html import escape
from typing import Any

MINUS, SUPERSCRIPTS = "\u2212", str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def cell(values: Iterable[float], **more) -> dict:
    """A cell with the mean and the standard error of the values of several seeds.

    >>> cell([1.0, 2.0, 3.0], paper=1.8)
    {'mean': 2.0, 'error': 0.5773502691896258, 'paper': 1.8}
    """
    values = list(values)
    error = statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else None
    return {"mean": statistics.fmean(values), "error": error, **more}


def marked(rows: Mapping[str, Sequence[dict]], apart: str = "") -> list[dict]:
    """Rows from cells by name; the smallest mean of a column is the best, the row `apart` aside.

    >>> marked({"a": [{"mean": 2.0}], "b": [{"mean": 1.0}]})[1]
    {'name': 'b', 'cells': [{'mean': 1.0, 'best': True}]}
    """
    columns = zip(
        *(cells for name, cells in rows.items() if name != apart), strict=True
    )
    least = [min(entry["mean"] for entry in column) for column in columns]
    made = {name: [] for name in rows}
    for name, cells in rows.items():
        for entry, x in zip(cells, least, strict=True):
            made[name].append(entry | {"best": name != apart and entry["mean"] == x})
    return [{"name": name, "cells": cells} for name, cells in made.items()]


def table_html(table: dict) -> str:
    """A table of a record, with its title and note."""
    columns, rows = table["columns"], table["rows"]
    named, width = [row for row in rows if "group" not in row], len(columns) - 1
    for row in named:
        if (n := len(row["cells"])) != width:
            raise ValueError(
                f"the row {row['name']!r:.80} has {n} cells for {width} columns"
            )
    by_column = [[_entries(row["cells"][i]) for row in named] for i in range(width)]
    paired = [
        any(entry.get("paper") is not None for entry in column) for column in by_column
    ]
    styles = list(map(_style, by_column))
    body = "".join(_row(row, paired, styles) for row in rows)
    note = f"<p><small>{escape(table['note'])}</small></p>" if table.get("note") else ""
    title = escape(table["title"])
    return (
        f'<h3>{title}</h3>{note}\n<div class="box" role="region" aria-label="{title}" tabindex="0">'
        f"<table>\n<thead>{_head(columns, paired)}</thead>\n<tbody>\n{body}</tbody>\n</table></div>"
    )


def _head(columns: list[str], paired: list[bool]) -> str:
    deep = ' rowspan="2"' if any(paired) else ""
    cells = f'<th scope="col"{deep}>{escape(columns[0])}</th>'
    for column, pair in zip(columns[1:], paired, strict=True):
        span = ' scope="colgroup" colspan="2"' if pair else f' scope="col"{deep}'
        cells += f"<th{span}>{escape(column)}</th>"
    halves = (
        '<th scope="col">obtained</th><th scope="col" class="paper">paper</th>'
        * sum(paired)
    )
    return f"<tr>{cells}</tr>" + (f"<tr>{halves}</tr>" if halves else "")


def _row(row: dict, paired: list[bool], styles: list[tuple[bool, int]]) -> str:
    if "group" in row:
        head = f'<th scope="colgroup" colspan="{1 + len(paired) + sum(paired)}">'
        return (
            f'<tr class="group">{head}<span>{escape(row["group"])}</span></th></tr>\n'
        )
    cells = ""
    for entry, pair, (powers, digits) in zip(row["cells"], paired, styles, strict=True):
        entry = _entries(entry)
        text = _value(
            entry.get("mean"), entry.get("error"), powers=powers, digits=digits
        )
        cells += (
            f'<td><strong class="best">{text}</strong>'
            if entry.get("best")
            else f"<td>{text}"
        )
        cells += "</td>"
        if pair:
            cells += (
                f'<td class="paper">{_value(entry.get("paper"), powers=powers)}</td>'
            )
    emphasis = ' class="emphasis"' if row.get("emphasis") else ""
    return f'<tr{emphasis}><th scope="row">{escape(row["name"])}</th>{cells}</tr>\n'


def _entries(cell) -> dict:
    return cell if isinstance(cell, dict) else {"mean": cell}


def _style(column: Sequence[dict]) -> tuple[bool, int]:
    """Whether a column is written with powers of ten, and the decimals of numbers without error."""
    numbers = [
        entry[name] for entry in column for name in ("mean", "paper") if name in entry
    ]
    bare = [
        entry["mean"]
        for entry in column
        if "mean" in entry and entry.get("error") is None
    ]
    powers = needs_powers(filter(_is_number, numbers))
    return powers, 2 if powers else decimals(filter(_is_number, bare))


def _is_number(value) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _value(value, error=None, **style) -> str:
    if _is_number(value):
        return show(value, error, **style)
    return escape("" if value is None else str(value))


def decimals(values: Iterable[float]) -> int:
    """The decimals that align a column: four digits of the largest, or fewer if none needs them.

    >>> decimals([0.5, 0.66667, 12.0]), decimals([2, 12]), decimals([0.5, 0.25])
    (2, 0, 2)
    """
    finite = [value for value in values if math.isfinite(value)]
    largest = _exponent(f"{max(map(abs, finite), default=0):.3e}")
    return max(
        0, min(3 - largest, max((-_place(value) for value in finite), default=0))
    )


def needs_powers(values: Iterable[float]) -> bool:
    """Whether a column of these numbers is easier to read with powers of ten.

    >>> needs_powers([0.5, -63.95]), needs_powers([0.5, 3e-4])
    (False, True)
    """
    sizes = [abs(value) for value in values if value and math.isfinite(value)]
    return bool(sizes) and (min(sizes) < 1e-2 or max(sizes) >= 1e5)


def show(
    mean, error: float | None = None, *, powers=False, digits: int | None = None
) -> str:
    """A number, or mean and standard error; with `powers` of ten, but not from 0.1 to 9999.

    The error has one significant digit, two if the first is 1. Without an error the number has
    `digits` decimals (after the power of ten is taken out), or up to four significant digits.

    >>> show(1.0712e-2, 3.1e-4, powers=True), show(-63.954, 0.127), show(5.8e-6, powers=True)
    ('(1.07 ± 0.03)·10⁻²', '\u221263.95 ± 0.13', '5.8·10⁻⁶')
    >>> show(0.5, powers=True)
    '0.5'
    """
    error = error if error is not None and math.isfinite(error) else None
    if not math.isfinite(mean) or (mean == 0 and not error):
        return f"{mean:g}".replace("-", MINUS)
    if isinstance(mean, int) and error is None and not powers and not digits:
        return f"{mean:,}".replace("-", MINUS)
    if error:
        first = f"{error:.1e}"
        least = (
            _exponent(f"{mean:e}") - 9
        )  # an error that is next to nothing: ten digits
        place = max(_exponent(first) - first.startswith("1"), least)
    elif digits is None:
        place = _place(mean)
    else:
        place = (_exponent(f"{mean:.{digits}e}") if powers else 0) - digits
    values = [
        round(Decimal(value), -place) for value in (mean, error) if value is not None
    ]
    exponent = _exponent(f"{max(map(abs, values)):e}") if powers else 0
    exponent = 0 if -1 <= exponent <= 3 else exponent
    shown = max(0, exponent - place)
    text = " ± ".join(f"{value.scaleb(-exponent):.{shown}f}" for value in values)
    text = (f"({text})" if exponent and error is not None else text).replace("-", MINUS)
    return f"{text}·10{str(exponent).translate(SUPERSCRIPTS)}" if exponent else text


def rounded(values: Any, digits: int = 4) -> Any:
    """A number to significant digits, or nested lists of them from an array: for a JSON file.

    >>> rounded([1.23456, 1e-9 / 3])
    [1.235, 3.333e-10]
    """
    if not isinstance(values, Iterable):
        return float(f"{values:.{digits}g}")
    return [rounded(value, digits) for value in values]


def duration(seconds: float) -> str:
    """
    >>> duration(4.2), duration(200), duration(4200)
    ('4.2 s', '3 min 20 s', '1 h 10 min')
    """
    if seconds < 60:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    return (
        f"{minutes} min {rest} s"
        if minutes < 60
        else f"{minutes // 60} h {minutes % 60} min"
    )


def _place(value: float) -> int:
    """The power of ten of the last of four digits that is not zero."""
    return int(Decimal(f"{value:.4g}").normalize().as_tuple().exponent)


def _exponent(scientific: str) -> int:
    return int(scientific.partition("e")[2])
