"""One self-contained page of all results in a folder: OUT/index.html from OUT/*.json and the figures beside them.

Every experiment builds it again when it ends. A record has "experiment" (the name of its file), "command", "quick", "seconds", "date", "device",
"versions", "settings" and "result". The page shows these entries of "result", all of them optional:

    title      what the experiment is, a few words
    about      a paragraph
    claims     [{"claim": what the paper says, "verdict": "holds", "does not hold" or "depends on ...", "evidence": text}]
    tables     [{"title", "note", "columns": [heading of the names, headings of the cells...], "rows": [row, ...]}]
               row: {"name", "cells": [cell, ...], "emphasis": bool}, or {"group": text} above the rows that it is about
               cell: text, a number, None (nothing), or {"mean", "error", "paper", "best": bool}, all optional:
               standard error over seeds, the paper's value (a number or text), and whether it is the best of its kind
    figures    [{"file": "x.png", "caption", "alt"}], files of the same folder, PNG or SVG
    notes      [what is not like for like with the paper, ...]

A column in which a cell has a paper's value becomes two, obtained and paper. A file that is no such record is left out: a
line on stderr and on the page says which and why. Text is escaped; the page holds no script and
needs no network.
"""

import base64
import json
import re
import statistics
import sys
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

from mmlp.checkpoint import files
from mmlp.pages.numbers import decimals, duration, needs_powers, show

IMAGES = {".png": "image/png", ".svg": "image/svg+xml"}
VERDICTS = {
    "holds": "holds",
    "does not hold": "fails",
    "depends": "depends",
}  # its first words, the colour
STYLE = Path(__file__).with_suffix(".css").read_text(encoding="utf-8")
BOLD = '<strong class="best">bold</strong> marks the best of its kind.'


class Heading(NamedTuple):
    """What stands above the results, in HTML: title, introduction, heading of the contents."""

    title: str
    about: str
    contents: str


def cell(values: Iterable[float], **more) -> dict:
    """A cell with the mean and the standard error of the values of several seeds.

    >>> cell([1.0, 2.0, 3.0], paper=1.8)
    {'mean': 2.0, 'error': 0.5773502691896258, 'paper': 1.8}
    """
    values = list(values)
    error = statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else None
    return {"mean": statistics.fmean(values), "error": error, **more}


def build(out: Path, heading: Heading, order: Sequence[str] = ()) -> dict[str, str]:
    """Write OUT/index.html from OUT/*.json; gives the files that were left out, with the reasons.

    Those in `order` come first, the others follow by name.
    """
    sections, contents, skipped = {}, {}, {}
    rank = {name: place for place, name in enumerate(order)}
    paths = sorted(out.glob("*.json"), key=lambda path: (rank.get(path.stem, len(rank)), path.stem))
    for path in paths:
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
            if not isinstance(record, dict) or not isinstance(record.get("result"), dict):
                raise ValueError("it is not a record of an experiment")
            if record.get("experiment") != path.stem or not re.fullmatch("[a-z0-9-]+", path.stem):
                raise ValueError(
                    f"it says experiment {record.get('experiment')!r:.80}, which must be the name of the file"
                )
            sections[path.stem], contents[path.stem] = _section(record, out), _contents(record)
        except (
            OSError,
            ValueError,
            TypeError,
            KeyError,
            AttributeError,
            ArithmeticError,
            RecursionError,
        ) as error:
            missing = "it lacks " if isinstance(error, KeyError) else ""
            skipped[path.name] = f"{missing}{error}"
            print(f"report: left out {path}: {missing}{error}", file=sys.stderr)
    files.replace(out / "index.html", _page(heading, sections, contents, skipped).encode())
    return skipped


def _page(
    heading: Heading, sections: dict[str, str], contents: dict[str, str], skipped: dict[str, str]
) -> str:
    title, about, over = heading
    left_out = "".join(
        f"<li><code>{escape(name)}</code>: {escape(reason)}" for name, reason in skipped.items()
    )
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<link rel="icon" href="data:,">
<title>matrix-mlp: {title}</title>
<style>{STYLE}</style>
</head>
<body>
<header>
<h1>{title}</h1>
<p>{about}</p>
</header>
<main>
<nav aria-labelledby="verdicts">
<h2 id="verdicts">{over}</h2>
{"".join(contents.values()) or "<p>No results yet.</p>"}
</nav>
{f'<section id="left-out"><h2>Left out</h2><ul>{left_out}</ul></section>' if left_out else ""}
{"".join(sections.values())}
</main>
</body>
</html>
"""


def _contents(record: dict) -> str:
    """The heading of an experiment as a link, with its claims and verdicts."""
    name, claims = record["experiment"], record["result"].get("claims", [])
    items = "".join(
        f"<li>{_verdict(claim)} <span>{escape(claim['claim'])}</span>" for claim in claims
    )
    claims = f'<ul class="claims">{items}</ul>\n' if items else ""
    return f'<h3><a href="#{name}">{_title(record)}</a>{_quick(record)}</h3>\n{claims}'


def _section(record: dict, out: Path) -> str:
    result, name = record["result"], record["experiment"]
    claims = "".join(
        f"<li>{_verdict(claim)} <span>{escape(claim['claim'])}<br><small>{escape(claim.get('evidence', ''))}</small></span>"
        for claim in result.get("claims", [])
    )
    notes = "".join(f"<li>{escape(note)}" for note in result.get("notes", []))
    warning = "A quick run, to see that it works: its numbers are not results."
    parts = [
        f'<section id="{name}" aria-labelledby="{name}-title">\n<h2 id="{name}-title">{_title(record)}{_quick(record)}</h2>',
        f'<p class="warning">{warning}</p>' if record.get("quick") else "",
        f"<p>{escape(result['about'])}</p>" if "about" in result else "",
        f'<ul class="claims">{claims}</ul>' if claims else "",
        *(table_html(table) for table in result.get("tables", [])),
        *(_figure(figure, out) for figure in result.get("figures", [])),
        f"<h3>Not like for like</h3><ul>{notes}</ul>" if notes else "",
        _provenance(record),
        "</section>\n",
    ]
    return "\n".join(part for part in parts if part)


def _title(record: dict) -> str:
    name, title = record["experiment"], record["result"].get("title")
    return f"{name}: {escape(title)}" if title else name


def _quick(record: dict) -> str:
    return ' <span class="quick">quick run</span>' if record.get("quick") else ""


def _verdict(claim: dict) -> str:
    verdict = claim["verdict"]
    kind = next(
        (kind for words, kind in VERDICTS.items() if re.match(rf"{words}($| )", verdict)), None
    )
    if kind is None or (kind != "depends" and verdict not in VERDICTS):
        raise ValueError(
            f"a verdict must be 'holds', 'does not hold' or 'depends on ...', got {verdict!r:.80}"
        )
    return f'<strong class="verdict {kind}">{escape(verdict)}</strong>'


def _provenance(record: dict) -> str:
    """How the section was made: command, time, machine, versions, settings."""
    versions = ", ".join(
        f"{name} {version}" for name, version in record.get("versions", {}).items()
    )
    entries = {
        "Command": f"<code>{escape(record['command'])}</code>" if "command" in record else "",
        "Time": duration(record["seconds"]) if "seconds" in record else "",
        "Device": escape(record.get("device", "")),
        "Versions": escape(versions),
        "Date": escape(record.get("date", "")),
        "Settings": escape(
            ", ".join(f"{name} = {value}" for name, value in record.get("settings", {}).items())
        ),
    }
    rows = "".join(f"<dt>{name}<dd>{value}" for name, value in entries.items() if value)
    return f"<h3>How it was made</h3><dl>{rows}</dl>"


def _figure(figure: dict, out: Path) -> str:
    file, caption = figure["file"], figure.get("caption", "")
    kind = IMAGES.get(Path(file).suffix)
    if kind is None or Path(file).name != file:
        raise ValueError(f"a figure must be a PNG or SVG file of the same folder, got {file!r:.80}")
    try:
        data = base64.b64encode((out / file).read_bytes()).decode()
    except OSError:
        print(f"report: no figure {out / file}", file=sys.stderr)
        return (
            f'<p class="warning">The figure {escape(file)} is missing: run the command again.</p>'
        )
    image = f'<img src="data:{kind};base64,{data}" alt="{escape(figure.get("alt") or caption or file)}">'
    return f'<figure><div class="image">{image}</div><figcaption>{escape(caption)}</figcaption></figure>'


def table_html(table: dict) -> str:
    """A table of a record, with its title and note."""
    columns, rows = table["columns"], table["rows"]
    for row in rows:
        if "group" not in row and len(row["cells"]) != len(columns) - 1:
            raise ValueError(
                f"the row {row['name']!r:.80} has {len(row['cells'])} cells for {len(columns) - 1} columns"
            )
    by_column = list(
        zip(
            *([_cell(cell) for cell in row["cells"]] for row in rows if "group" not in row),
            strict=True,
        )
    )
    by_column = by_column or [()] * (len(columns) - 1)
    paired = [any(cell.get("paper") is not None for cell in cells) for cells in by_column]
    styles = [_style(cells) for cells in by_column]
    body = "".join(_row(row, paired, styles) for row in rows)
    note = f"<p><small>{escape(table['note'])}</small></p>" if table.get("note") else ""
    title = escape(table["title"])
    return (
        f'<h3>{title}</h3>{note}\n<div class="box" role="region" aria-label="{title}" tabindex="0"><table>'
        f"\n<thead>{_head(columns, paired)}</thead>\n<tbody>\n{body}</tbody>\n</table></div>"
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
        width = 1 + len(paired) + sum(paired)
        return f'<tr class="group"><th scope="colgroup" colspan="{width}"><span>{escape(row["group"])}</span></th></tr>\n'
    cells = ""
    for cell, pair, (powers, digits) in zip(map(_cell, row["cells"]), paired, styles, strict=True):
        text = _value(cell.get("mean"), cell.get("error"), powers=powers, digits=digits)
        text = f'<strong class="best">{text}</strong>' if cell.get("best") else text
        cells += f"<td>{text}</td>"
        cells += (
            f'<td class="paper">{_value(cell.get("paper"), powers=powers)}</td>' if pair else ""
        )
    emphasis = ' class="emphasis"' if row.get("emphasis") else ""
    return f'<tr{emphasis}><th scope="row">{escape(row["name"])}</th>{cells}</tr>\n'


def _cell(cell) -> dict:
    return cell if isinstance(cell, dict) else {"mean": cell}


def _style(cells: Sequence[dict]) -> tuple[bool, int]:
    """Whether a column is written with powers of ten, and the decimals of its numbers without an error."""
    numbers = [
        cell[entry] for cell in cells for entry in ("mean", "paper") if _is_number(cell.get(entry))
    ]
    bare = [
        cell["mean"] for cell in cells if _is_number(cell.get("mean")) and cell.get("error") is None
    ]
    powers = needs_powers(numbers)
    return powers, 2 if powers else decimals(bare)


def _is_number(value) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _value(value, error=None, **style) -> str:
    if _is_number(value):
        return show(value, error, **style)
    return escape("" if value is None else str(value))
