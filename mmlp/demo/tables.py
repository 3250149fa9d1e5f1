"""A table with the best values marked, for the page and for the terminal."""

from mmlp.reporting.tables import mark_best_cells


def table(
    title: str, columns: list[str], rows: dict[str, list], reference: str = ""
) -> dict:
    """A table of the page, its smallest numbers marked; those of the row `reference` do not count.

    >>> table("Error", ["model", "squared"], {"a": [0.5], "b": [0.25]})["rows"][1]
    {'name': 'b', 'cells': [{'mean': 0.25, 'best': True}]}
    """
    cells = {name: [{"mean": x} for x in row] for name, row in rows.items()}
    title = f"{title}, the smaller the better"
    return {
        "title": title,
        "columns": columns,
        "rows": mark_best_cells(cells, reference),
    }


def text(table: dict) -> str:
    """The same for a terminal; the best values have a star."""
    head, *columns = table["columns"]
    width = max(len(name) for name in (head, *(row["name"] for row in table["rows"])))
    lines = [
        f"{table['title']}\n",
        " " * width + "".join(f"{column:>16}" for column in columns),
    ]
    for row in table["rows"]:
        cells = (
            f"{cell['mean']:15.3g}{'*' if cell['best'] else ' '}"
            for cell in row["cells"]
        )
        lines.append(f"{row['name']:{width}}" + "".join(cells))
    return "\n".join(lines)
