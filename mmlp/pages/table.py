"""A table of the page of results.

    {"title", "note", "columns": [heading of the names, headings of the cells...], "rows": [...]}
    row     {"name", "cells": [cell, ...], "emphasis": bool}, or {"group": text} above its rows
    cell    text, a number, None (nothing), or {"mean", "error", "paper", "best": bool}: standard
            error over seeds, the paper's value (a number or text), whether it is the best

A column in which a cell has a paper's value becomes two, obtained and paper.
"""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from html import escape

from mmlp.pages.numbers import decimals, needs_powers, show


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
    columns = zip(*(cells for name, cells in rows.items() if name != apart), strict=True)
    least = [min(entry["mean"] for entry in column) for column in columns]
    made = []
    for name, cells in rows.items():
        best = [name != apart and entry["mean"] == x for entry, x in zip(cells, least, strict=True)]
        cells = [entry | {"best": is_best} for entry, is_best in zip(cells, best, strict=True)]
        made.append({"name": name, "cells": cells})
    return made


def table_html(table: dict) -> str:
    """A table of a record, with its title and note."""
    columns, rows = table["columns"], table["rows"]
    named, width = [row for row in rows if "group" not in row], len(columns) - 1
    for row in named:
        if len(row["cells"]) != width:
            got = f"the row {row['name']!r:.80} has {len(row['cells'])} cells"
            raise ValueError(f"{got} for {width} columns")
    by_column = [[_entries(row["cells"][i]) for row in named] for i in range(width)]
    paired = [any(entry.get("paper") is not None for entry in column) for column in by_column]
    styles = [_style(column) for column in by_column]
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
    halves = '<th scope="col">obtained</th><th scope="col" class="paper">paper</th>' * sum(paired)
    return f"<tr>{cells}</tr>" + (f"<tr>{halves}</tr>" if halves else "")


def _row(row: dict, paired: list[bool], styles: list[tuple[bool, int]]) -> str:
    if "group" in row:
        head = f'<th scope="colgroup" colspan="{1 + len(paired) + sum(paired)}">'
        return f'<tr class="group">{head}<span>{escape(row["group"])}</span></th></tr>\n'
    cells = ""
    for entry, pair, (powers, digits) in zip(row["cells"], paired, styles, strict=True):
        entry = _entries(entry)
        text = _value(entry.get("mean"), entry.get("error"), powers=powers, digits=digits)
        cells += (
            f'<td><strong class="best">{text}</strong></td>'
            if entry.get("best")
            else f"<td>{text}</td>"
        )
        cells += (
            f'<td class="paper">{_value(entry.get("paper"), powers=powers)}</td>' if pair else ""
        )
    emphasis = ' class="emphasis"' if row.get("emphasis") else ""
    return f'<tr{emphasis}><th scope="row">{escape(row["name"])}</th>{cells}</tr>\n'


def _entries(cell) -> dict:
    return cell if isinstance(cell, dict) else {"mean": cell}


def _style(column: Sequence[dict]) -> tuple[bool, int]:
    """Whether a column is written with powers of ten, and the decimals of numbers without error."""
    numbers = [entry[name] for entry in column for name in ("mean", "paper") if name in entry]
    bare = [entry["mean"] for entry in column if "mean" in entry and entry.get("error") is None]
    powers = needs_powers(filter(_is_number, numbers))
    return powers, 2 if powers else decimals(filter(_is_number, bare))


def _is_number(value) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _value(value, error=None, **style) -> str:
    if _is_number(value):
        return show(value, error, **style)
    return escape("" if value is None else str(value))
