"""Tables of the tour, for the page and for the terminal."""

from collections.abc import Mapping, Sequence
from typing import Any

from mmlp.reporting.tables import mark_best_cells


def make_table(
    title: str,
    columns: Sequence[str],
    rows: Mapping[str, Sequence[float]],
    reference: str = "",
) -> dict[str, Any]:
    """Return a table of a record in which the smallest numbers are marked.

    Parameters
    ----------
    title : str
    columns : sequence of str
        Heading of the row names, then those of the numbers.
    rows : mapping from row name to numbers
    reference : str, default ""
        A row that does not compete.

    Returns
    -------
    dict

    Examples
    --------
    >>> table = make_table("Error", ["model", "squared"], {"a": [0.5], "b": [0.25]})
    >>> table["rows"][1]
    {'name': 'b', 'cells': [{'mean': 0.25, 'best': True}]}
    """
    cells = {
        name: [{"mean": number} for number in numbers] for name, numbers in rows.items()
    }
    return {
        "title": f"{title}, the smaller the better",
        "columns": list(columns),
        "rows": mark_best_cells(cells, reference),
    }


def format_for_terminal(table: dict[str, Any]) -> str:
    """Return the lines of a table of `make_table`; the best values have a star."""
    name_heading, *headings = table["columns"]
    names = [name_heading, *(row["name"] for row in table["rows"])]
    width = max(len(name) for name in names)

    lines = [table["title"], ""]
    lines.append(" " * width + "".join(f"{heading:>16}" for heading in headings))
    for row in table["rows"]:
        line = f"{row['name']:{width}}"
        for cell in row["cells"]:
            star = "*" if cell["best"] else " "
            line += f"{cell['mean']:15.3g}{star}"
        lines.append(line)
    return "\n".join(lines)
