"""Tables of a page: what they hold, and the text of their cells.

A table is a `Table`. In the JSON record of an experiment it is a dictionary:

    table   {"title", "note", "columns": [heading of the names, headings of cells...],
             "rows": [row, ...]}
    row     {"name", "cells": [cell, ...], "emphasis": bool}, or {"group": text} above
            the rows of a group
    cell    text, a number, None (nothing), or {"mean", "error", "paper", "best": bool}:
            the standard error over seeds, the paper's value (a number or text), and
            whether it is the best of its column

A column in which a cell has a paper's value becomes two, obtained and paper.
"""

import dataclasses
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeGuard

from mmlp.reporting.number_format import NumberFormat, column_format, format_number

Value = float | str | None


@dataclasses.dataclass(frozen=True)
class Cell:
    """One cell: a number or a text, with its standard error and the paper's value."""

    value: Value = None
    error: float | None = None
    paper: Value = None
    best: bool = False


@dataclasses.dataclass(frozen=True)
class Row:
    """A named row of cells; `emphasis` prints it in bold."""

    name: str
    cells: Sequence[Cell]
    emphasis: bool = False


@dataclasses.dataclass(frozen=True)
class Group:
    """A heading across the table, above the rows of a group."""

    title: str


@dataclasses.dataclass(frozen=True)
class Table:
    """A table with its title and a note on how to read it.

    Attributes
    ----------
    title : str
    columns : sequence of str
        Heading of the row names, then one heading for each cell of a row.
    rows : sequence of Row and Group
    note : str, default=""
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Row | Group]
    note: str = ""

    @classmethod
    def from_record(cls, table: Mapping[str, Any]) -> "Table":
        """Read the dictionary that a record holds, which may be damaged.

        Raises
        ------
        ValueError, TypeError or KeyError
            If it is not a table.
        """
        return cls(
            title=check_text(table["title"]),
            columns=[check_text(column) for column in table["columns"]],
            rows=[_read_row(row) for row in table["rows"]],
            note=check_text(table.get("note") or ""),
        )


@dataclasses.dataclass(frozen=True)
class CellText:
    """A cell as it is written; `paper` is None where the column is not split in two."""

    text: str
    best: bool
    paper: str | None


@dataclasses.dataclass(frozen=True)
class RowText:
    """A row as it is written; one with a `group` has that title and no cells."""

    name: str
    cells: Sequence[CellText]
    emphasis: bool = False
    group: str | None = None


@dataclasses.dataclass(frozen=True)
class TableText:
    """A table as the template writes it.

    Attributes
    ----------
    title, note : str
    name_heading : str
        Heading of the column of row names.
    headings : list of str
        One for each cell of a row.
    has_paper : list of bool
        Whether a column shows the paper's values beside those obtained.
    rows : list of RowText
    """

    title: str
    note: str
    name_heading: str
    headings: list[str]
    has_paper: list[bool]
    rows: list[RowText]

    @property
    def n_columns(self) -> int:
        """Number of columns that the browser shows, with that of the names."""
        return 1 + len(self.headings) + sum(self.has_paper)


def mean_cell(values: Iterable[float], **entries: Any) -> dict[str, Any]:
    """Return a cell of a record: the mean of several seeds and its standard error.

    Parameters
    ----------
    values : iterable of float
        One value for each seed.
    **entries
        Further entries of the cell, such as `paper=1.8`.

    Returns
    -------
    dict
        With "mean", "error" (None for a single seed), and the entries.

    Examples
    --------
    >>> mean_cell([1.0, 2.0, 3.0], paper=1.8)
    {'mean': 2.0, 'error': 0.5773502691896258, 'paper': 1.8}
    """
    values = list(values)
    error = None
    if len(values) > 1:
        error = statistics.stdev(values) / len(values) ** 0.5
    return {"mean": statistics.fmean(values), "error": error, **entries}


def mark_best_cells(
    rows: Mapping[str, Sequence[dict[str, Any]]], reference: str = ""
) -> list[dict[str, Any]]:
    """Return rows of a record in which the smallest mean of each column is the best.

    Parameters
    ----------
    rows : mapping from row name to cells
        Each cell is a dictionary with a "mean".
    reference : str, default=""
        A row that does not compete, such as a noise floor.

    Returns
    -------
    list of dict
        Rows with "name" and "cells"; each cell has a new entry "best".

    Examples
    --------
    >>> mark_best_cells({"a": [{"mean": 2.0}], "b": [{"mean": 1.0}]})[1]
    {'name': 'b', 'cells': [{'mean': 1.0, 'best': True}]}
    """
    competitors = [cells for name, cells in rows.items() if name != reference]
    smallest = [
        min(cell["mean"] for cell in column)
        for column in zip(*competitors, strict=True)
    ]
    marked = []
    for name, cells in rows.items():
        marked_cells = []
        for cell, best in zip(cells, smallest, strict=True):
            is_best = name != reference and cell["mean"] == best
            marked_cells.append({**cell, "best": is_best})
        marked.append({"name": name, "cells": marked_cells})
    return marked


def format_table(table: Table) -> TableText:
    """Write the numbers of a table as text, aligned by columns.

    Raises
    ------
    ValueError
        If a row does not have one cell for each column.
    """
    rows = [row for row in table.rows if isinstance(row, Row)]
    name_heading, *headings = table.columns
    for row in rows:
        if len(row.cells) != len(headings):
            raise ValueError(
                f"the row {row.name!r:.80} has {len(row.cells)} cells for "
                f"{len(headings)} columns"
            )

    columns = [[row.cells[i] for row in rows] for i in range(len(headings))]
    has_paper = [any(cell.paper is not None for cell in column) for column in columns]
    formats = [_choose_format(column) for column in columns]
    return TableText(
        title=table.title,
        note=table.note,
        name_heading=name_heading,
        headings=headings,
        has_paper=has_paper,
        rows=[_format_row(row, has_paper, formats) for row in table.rows],
    )


def check_text(value: Any) -> str:
    """Return a text of a record, or raise a TypeError if it is something else."""
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.80} must be text")
    return value


def _read_row(row: Mapping[str, Any]) -> Row | Group:
    if "group" in row:
        return Group(check_text(row["group"]))
    return Row(
        name=check_text(row["name"]),
        cells=[_read_cell(cell) for cell in row["cells"]],
        emphasis=bool(row.get("emphasis")),
    )


def _read_cell(cell: Any) -> Cell:
    if not isinstance(cell, dict):
        return Cell(cell)
    return Cell(
        value=cell.get("mean"),
        error=cell.get("error"),
        paper=cell.get("paper"),
        best=bool(cell.get("best")),
    )


def _choose_format(column: Sequence[Cell]) -> NumberFormat:
    values = [value for cell in column for value in (cell.value, cell.paper)]
    without_error = [cell.value for cell in column if cell.error is None]
    return column_format(_numbers(values), _numbers(without_error))


def _format_row(
    row: Row | Group, has_paper: list[bool], formats: list[NumberFormat]
) -> RowText:
    if isinstance(row, Group):
        return RowText(name="", cells=[], group=row.title)

    cells = []
    for cell, shows_paper, number_format in zip(
        row.cells, has_paper, formats, strict=True
    ):
        text = _format_value(
            cell.value,
            cell.error,
            powers=number_format.powers,
            decimals=number_format.decimals,
        )
        paper = None
        if shows_paper:
            paper = _format_value(cell.paper, None, powers=number_format.powers)
        cells.append(CellText(text=text, best=cell.best, paper=paper))
    return RowText(name=row.name, cells=cells, emphasis=row.emphasis)


def _format_value(
    value: Value, error: float | None, *, powers: bool, decimals: int | None = None
) -> str:
    if _is_number(value):
        return format_number(value, error, powers=powers, decimals=decimals)
    return "" if value is None else str(value)


def _numbers(values: Iterable[Value]) -> list[float]:
    return [value for value in values if _is_number(value)]


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)
