"""Tables from results/*.json, so that no figure of an experiment is typed by hand.

`{results}` shows the claims and tables of the paper's experiments, `{results} NAME` those of one.
The page of results, with figures drawn anew from the records, becomes report/index.html.
"""

import json
import shutil
from pathlib import Path

from sphinx.util.docutils import SphinxDirective

from mmlp.reporting.page import render_table
from mmlp.reporting.results_page import write_results_page
from mmlp.reporting.tables import Table
from reproduction.harness.run import PAGE_HEADING, find_experiment
from reproduction.harness.targets import TARGETS

ROOT = Path(__file__).parent.parent.parent
RESULTS = ROOT / "results"


def build(app) -> None:
    """The page of results, from the records."""
    folder = Path(app.outdir) / "report"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for path in RESULTS.glob("*.json"):
        record = json.loads(path.read_text())
        if "experiment" in record:  # others are tables of benchmarks
            shutil.copy(path, folder)
            draw(record, folder)
    write_results_page(folder, PAGE_HEADING, TARGETS)


def draw(record: dict, folder: Path) -> None:
    """The figures of a record, by the experiment that made it."""
    if record["result"].get("figures"):
        find_experiment(record["experiment"]).draw(record, folder)


def verdicts(record: dict) -> list[str]:
    """A line for each claim."""
    return [
        f"{claim['verdict']}: {claim['claim']} {claim.get('evidence', '')}".strip()
        for claim in record["result"]["claims"]
    ]


class Results(SphinxDirective):
    """The records of the paper's experiments in order, or of the one named, without a heading."""

    optional_arguments = 1

    def run(self):
        self.env.note_reread()  # the files may have changed
        return self.parse_text_to_nodes(
            text(*self.arguments), allow_section_headings=True
        )


def text(name: str | None = None) -> str:
    """The stored records as text; those that are missing, with the command that makes them."""
    wanted = [name] if name else TARGETS
    there = [one for one in wanted if (RESULTS / f"{one}.json").exists()]
    records = [json.loads((RESULTS / f"{one}.json").read_text()) for one in there]
    missing = ", ".join(
        f"`python -m reproduction {one}`" for one in wanted if one not in there
    )
    parts = [body(record) if name else section(record) for record in records]
    return "\n\n".join([*parts, f"Not measured yet: {missing}."] if missing else parts)


def section(record: dict) -> str:
    return f"## {record['experiment']}: {record['result'].get('title', '')}\n\n{body(record)}"


def body(record: dict) -> str:
    """Text and claims; tables; notes."""
    result = record["result"]
    tables = "\n".join(
        f"```{{raw}} html\n{render_table(Table.from_record(table))}\n```"
        for table in result.get("tables", [])
    )
    notes = "".join(f"- Note: {note}\n" for note in result.get("notes", []))
    return f"""{result.get("about", "")}

{"".join(f"- {line}{chr(10)}" for line in verdicts(record))}
{tables}

{notes}

Made by `{record["command"]}`.
"""


def setup(app):
    app.connect("builder-inited", build)
    app.add_directive("results", Results)
    return {"parallel_read_safe": True}
