"""`{speed} TABLE` shows a table of results/speed.json, `{speed} figure` its picture."""

from pathlib import Path

from rivals import figure, tables
from sphinx.util.docutils import SphinxDirective

DRAWN = Path(__file__).parent.parent / "_build" / "drawn"


class Speed(SphinxDirective):
    """A table by its name in benchmarks/rivals/tables.py, "figure", "gpu" or "machine"."""

    required_arguments = 1

    def run(self):
        self.env.note_reread()  # the files may have changed
        return self.parse_text_to_nodes(text(self.arguments[0]))


def text(name: str) -> str:
    """What stands in the page; where there is no record, the command that makes it."""
    if name == "gpu":
        record = tables.read_record("speed-h200")
        return (
            tables.format_gpu(record)
            if record
            else "Not measured yet: `benchmarks/gpu.py --record`."
        )
    record = tables.read_record() or {}
    if name == "machine":
        return tables.format_machine(record)
    if name == "figure":
        DRAWN.mkdir(parents=True, exist_ok=True)
        figure.draw_record(record, DRAWN / "speed.png")
        return "![ratios, growth with size, first fit](/_build/drawn/speed.png)"
    return tables.format_table(record, name)


def setup(app):
    app.add_directive("speed", Speed)
    return {"parallel_read_safe": True}
