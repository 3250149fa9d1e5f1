"""The parts of a report: what a section holds, and the page that they make."""

import dataclasses
from collections.abc import Sequence
from html import escape
from pathlib import Path

from mmlp.reporting.page import Heading, bullets, claims_html, write
from mmlp.reporting.table import table_html

GOOD, BAD, EVEN = "holds", "does not hold", "depends"  # the tones of a verdict


@dataclasses.dataclass
class Section:
    """A heading, what it is about, verdicts, and tables and figures in HTML."""

    name: str
    title: str
    about: str = ""
    claims: list[dict] = dataclasses.field(default_factory=list)
    parts: list[str] = dataclasses.field(default_factory=list)
    notes: list[str] = dataclasses.field(default_factory=list)
    warning: str = ""

    def claim(self, tone: str, verdict: str, claim: str, evidence: str = "") -> None:
        entry = {"tone": tone, "verdict": verdict, "claim": claim, "evidence": evidence}
        self.claims.append(entry)

    def table(
        self, title: str, columns: Sequence[str], rows: Sequence[dict], note: str = ""
    ):
        table = {
            "title": title,
            "columns": list(columns),
            "rows": list(rows),
            "note": note,
        }
        self.parts.append(table_html(table))

    def html(self) -> str:
        notes = bullets(map(escape, self.notes))
        parts = [
            f'<section id="{self.name}" aria-labelledby="{self.name}-title">',
            f'<h2 id="{self.name}-title">{escape(self.title)}</h2>',
            self.warning and f'<p class="warning">{escape(self.warning)}</p>',
            self.about and f"<p>{escape(self.about)}</p>",
            claims_html(self.claims, "<br><small>{}</small>"),
            *self.parts,
            notes and f"<h3>How to read this</h3>{notes}",
            "</section>\n",
        ]
        return "\n".join(filter(None, parts))

    def entry(self) -> str:
        """Of the contents."""
        link = f'<h3><a href="#{self.name}">{escape(self.title)}</a></h3>'
        return f"{link}\n{claims_html(self.claims)}\n"


def write_page(path: Path, title: str, about: str, sections: Sequence[Section]) -> None:
    heading = Heading(escape(title), escape(about), "In short")
    contents = "".join(section.entry() for section in sections)
    write(path, heading, contents, "".join(section.html() for section in sections))
