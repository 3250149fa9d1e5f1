"""Write a page from a template: one HTML file that needs no network and no script."""

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mmlp import atomic_files
from mmlp.reporting.content import Figure
from mmlp.reporting.tables import Table, format_table

if TYPE_CHECKING:
    import jinja2

TEMPLATES = Path(__file__).with_name("templates")


def write_page(path: Path, template: str, **content: Any) -> None:
    """Write a page in one step: the file is complete, or what was there before.

    Parameters
    ----------
    path : Path
        The file to write.
    template : str
        Name of a file in the folder of templates.
    **content
        What the template shows. All text is escaped.
    """
    html = load_templates().get_template(template).render(**content)
    # A name from a damaged table may hold half of a surrogate pair.
    atomic_files.replace_file(path, html.encode(errors="replace"))


def render_table(table: Table) -> str:
    """Return a table as HTML, with its title and note, to be part of another page.

    Parameters
    ----------
    table : Table
        `Table.from_record` reads one from a record.

    Returns
    -------
    str
    """
    template = load_templates().get_template("table.html")
    return template.render(table=format_table(table))


@functools.cache
def load_templates() -> "jinja2.Environment":
    """Return the templates; text is escaped, and an unknown name is an error."""
    # jinja2 is loaded when the first page is written: programs that write none are
    # faster.
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["format_table"] = format_table
    environment.tests["figure"] = lambda part: isinstance(part, Figure)
    return environment
