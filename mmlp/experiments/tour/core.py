"""What the parts of the tour share: a table with the best values marked, for the page and for the terminal."""

from collections.abc import Mapping, Sequence


def table(
    title: str,
    columns: Sequence[str],
    rows: Mapping[str, Sequence[float]],
    *,
    note="",
    reference=None,
) -> dict:
    """A table of the report page; in each column the smallest number is marked, that of the row `reference` apart.

    >>> table("Error", ["model", "squared"], {"a": [0.5], "b": [0.25]})["rows"][1]
    {'name': 'b', 'cells': [{'mean': 0.25, 'best': True}]}
    """
    best = [
        min(column)
        for column in zip(*(row for name, row in rows.items() if name != reference), strict=True)
    ]
    marked = [
        {
            "name": name,
            "cells": [
                {"mean": x, "best": x == b and name != reference}
                for x, b in zip(row, best, strict=True)
            ],
        }
        for name, row in rows.items()
    ]
    return {"title": title, "note": note, "columns": list(columns), "rows": marked}


def text(table: dict) -> str:
    """The same for a terminal; the best values have a star."""
    head, *columns = table["columns"]
    width = max(len(name) for name in (head, *(row["name"] for row in table["rows"])))
    lines = [
        f"{table['title']}\n",
        f"{'':{width}}" + "".join(f"{column:>16}" for column in columns),
    ]
    for row in table["rows"]:
        cells = (f"{cell['mean']:15.3g}{'*' if cell['best'] else ' '}" for cell in row["cells"])
        lines.append(f"{row['name']:{width}}" + "".join(cells))
    return "\n".join(lines)
