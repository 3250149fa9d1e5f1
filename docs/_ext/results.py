"""Tables from results/*.json, so that no figure of an experiment is typed by hand.

`{results}` shows the claims and tables of every record; the whole page of results, with figures drawn anew from the
records, is put beside the documentation as report/index.html.
"""

import json
import shutil
from pathlib import Path

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from mmlp.experiments import report, reproduce

ROOT = Path(__file__).parent.parent.parent
RESULTS = ROOT / "results"


def build(app) -> None:
    """The page of results, from the records."""
    folder = Path(app.outdir) / "report"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for path in RESULTS.glob("*.*"):
        shutil.copy(path, folder)
    for path in RESULTS.glob("*.json"):
        record = json.loads(path.read_text())
        if record.get("experiment") in reproduce.TARGETS:
            reproduce.load(record["experiment"]).draw(record, folder)
    report.build(folder)


class Results(SphinxDirective):
    """The records of results/ in the order of the report."""

    def run(self):
        found = []
        for path in sorted(RESULTS.glob("*.json"), key=lambda path: report.rank(path.stem)):
            self.env.note_dependency(str(path))
            found += self.section(json.loads(path.read_text()))
        return found or self.parse_text_to_nodes("No results are stored in `results/` yet.")

    def section(self, record: dict) -> list[nodes.Node]:
        result = record["result"]
        claims = [
            f"- **{claim['verdict']}**: {claim['claim']} {claim.get('evidence', '')}" for claim in result.get("claims", [])
        ]
        notes = [f"- {note}" for note in result.get("notes", [])]
        intro = f"""## {record["experiment"]}: {result.get("title", "")}

{result.get("about", "")}

{chr(10).join(claims)}
"""
        outro = ("Not like for like:\n\n" + "\n".join(notes) if notes else "") + f"\n\nMade by `{record['command']}`."
        tables = [nodes.raw("", report.table_html(table), format="html") for table in result.get("tables", [])]
        return [*self.parse_text_to_nodes(intro, allow_section_headings=True), *tables, *self.parse_text_to_nodes(outro)]


def setup(app):
    app.connect("builder-inited", build)
    app.add_directive("results", Results)
    return {"parallel_read_safe": True}
