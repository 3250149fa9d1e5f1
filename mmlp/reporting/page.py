"""One self-contained page of the results in a folder: OUT/index.html from OUT/*.json and figures.

A record has "experiment" (the name of its file), "command", "quick", "seconds", "date", "device",
"versions", "settings" and "result". The page shows these entries of "result", all optional:

    title      what the experiment is, a few words
    about      a paragraph
    claims     [{"claim": what the paper says, "verdict", "evidence": text}]; the verdict is
               "holds", "does not hold" or "depends on ..."
    tables     see `mmlp.reporting.table`
    figures    [{"file": "x.png", "caption", "alt"}], files of the same folder, PNG or SVG
    notes      [what is not like for like with the paper, ...]

A file that is no such record is left out: a line on stderr and on the page says which and why.
Text is escaped; the page holds no script and needs no network.
"""

import base64
import json
import re
import sys
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from string import Template
from typing import NamedTuple

from mmlp import atomic_files
from mmlp.reporting.table import duration, table_html

IMAGES = {".png": "image/png", ".svg": "image/svg+xml"}
COLOURS = {
    "holds": "holds",
    "does not hold": "fails",
    "depends": "depends",
}  # by first words
PAGE = Template(Path(__file__).with_suffix(".html").read_text(encoding="utf-8"))
STYLE = Path(__file__).with_suffix(".css").read_text(encoding="utf-8")
BOLD = '<strong class="best">bold</strong> marks the best of its kind.'
DAMAGED = (OSError, ValueError, TypeError, LookupError, AttributeError, ArithmeticError)


class Heading(NamedTuple):
    """What stands above the results, in HTML: title, introduction, heading of the contents."""

    title: str
    about: str
    over_contents: str


def build(out: Path, heading: Heading, order: Sequence[str] = ()) -> dict[str, str]:
    """Write OUT/index.html from OUT/*.json; gives the files that were left out, with the reasons.

    Those in `order` come first, the others follow by name.
    """
    sections, contents, skipped = "", "", {}
    paths = {
        path.stem: path
        for path in sorted(out.glob("*.json"), key=lambda path: path.stem)
    }
    for path in [paths.pop(name) for name in order if name in paths] + list(
        paths.values()
    ):
        try:
            entry, section = _parts(_record(path), out)
        except (*DAMAGED, RecursionError) as error:
            skipped[path.name] = (
                f"{'it lacks ' if isinstance(error, KeyError) else ''}{error}"
            )
            print(f"report: left out {path}: {skipped[path.name]}", file=sys.stderr)
        else:
            sections, contents = sections + section, contents + entry
    reasons = bullets(
        f"<code>{escape(n)}</code>: {escape(reason)}" for n, reason in skipped.items()
    )
    left_out = (
        reasons and f'<section id="left-out"><h2>Left out</h2>{reasons}</section>'
    )
    write(
        out / "index.html",
        heading,
        contents or "<p>No results yet.</p>",
        left_out + sections,
    )
    return skipped


def write(path: Path, heading: Heading, contents: str, sections: str) -> None:
    """The page of these contents and sections, in HTML; it is whole, or what was there before."""
    parts = {"style": STYLE, "contents": contents, "sections": sections}
    atomic_files.replace_file(
        path, PAGE.substitute(heading._asdict(), **parts).encode()
    )


def _record(path: Path) -> dict:
    record = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(record, dict) or not isinstance(record.get("result"), dict):
        raise ValueError("it is not a record of an experiment")
    name = record.get("experiment")
    if name != path.stem or not re.fullmatch("[a-z0-9-]+", path.stem):
        raise ValueError(
            f"it says experiment {name!r:.80}, which must be the name of the file"
        )
    return record


def _parts(record: dict, out: Path) -> tuple[str, str]:
    """An experiment's heading with its claims, for the contents, and its section."""
    result, name = record["result"], record["experiment"]
    title = f"{name}: {escape(result['title'])}" if result.get("title") else name
    quick = ' <span class="quick">quick run</span>' if record.get("quick") else ""
    warning = "A quick run, to see that it works: its numbers are not results."
    notes = bullets(map(escape, result.get("notes", [])))
    parts = [
        f'<section id="{name}" aria-labelledby="{name}-title">',
        f'<h2 id="{name}-title">{title}{quick}</h2>',
        quick and f'<p class="warning">{warning}</p>',
        f"<p>{escape(result['about'])}</p>" if "about" in result else "",
        claims_html(result.get("claims", []), "<br><small>{}</small>"),
        *(table_html(table) for table in result.get("tables", [])),
        *(_figure(figure, out) for figure in result.get("figures", [])),
        notes and f"<h3>Not like for like</h3>{notes}",
        _provenance(record),
        "</section>\n",
    ]
    claims = claims_html(result.get("claims", []))
    link = f'<h3><a href="#{name}">{title}</a>{quick}</h3>\n{claims}\n'
    return link, "\n".join(part for part in parts if part)


def claims_html(claims: Iterable[dict], evidence: str = "") -> str:
    """A list of verdicts and claims, with what `evidence` makes of the evidence.

    A verdict of other words than the three says by its "tone" which of them it is like.
    """
    items = []
    for claim in claims:
        verdict, more = (
            claim["verdict"],
            evidence.format(escape(claim.get("evidence", ""))),
        )
        words = claim.get("tone") or verdict
        words = "depends" if re.match("depends($| )", words) else words
        if words not in COLOURS:
            known = "'holds', 'does not hold' or 'depends on ...'"
            raise ValueError(f"a verdict must be {known}, got {verdict!r:.80}")
        strong = f'<strong class="verdict {COLOURS[words]}">{escape(verdict)}</strong>'
        items.append(f"{strong} <span>{escape(claim['claim'])}{more}</span>")
    return bullets(items, "claims")


def _provenance(record: dict) -> str:
    """How the section was made."""
    versions = ", ".join(" ".join(pair) for pair in record.get("versions", {}).items())
    settings = (
        f"{name} = {value}" for name, value in record.get("settings", {}).items()
    )
    entries = {
        "Command": f"<code>{escape(record['command'])}</code>"
        if "command" in record
        else "",
        "Time": duration(record["seconds"]) if "seconds" in record else "",
        "Device": escape(record.get("device", "")),
        "Versions": escape(versions),
        "Date": escape(record.get("date", "")),
        "Settings": escape(", ".join(settings)),
    }
    rows = "".join(f"<dt>{name}<dd>{value}" for name, value in entries.items() if value)
    return f"<h3>How it was made</h3><dl>{rows}</dl>"


def _figure(figure: dict, out: Path) -> str:
    file, caption = figure["file"], figure.get("caption", "")
    kind = IMAGES.get(Path(file).suffix)
    if kind is None or Path(file).name != file:
        raise ValueError(
            f"a figure must be a PNG or SVG file of the same folder, got {file!r:.80}"
        )
    try:
        data = base64.b64encode((out / file).read_bytes()).decode()
    except OSError:
        print(f"report: no figure {out / file}", file=sys.stderr)
        missing = f"The figure {escape(file)} is missing: run the command again."
        return f'<p class="warning">{missing}</p>'
    alt = escape(figure.get("alt") or caption or file)
    image = (
        f'<div class="image"><img src="data:{kind};base64,{data}" alt="{alt}"></div>'
    )
    return f"<figure>{image}<figcaption>{escape(caption)}</figcaption></figure>"


def bullets(items: Iterable[str], kind: str = "") -> str:
    """An HTML list, or nothing."""
    text = "".join(f"<li>{item}" for item in items)
    return text and f"<ul{f' class={kind!r}' if kind else ''}>{text}</ul>"
