"""The page of the results in a folder: index.html from *.json and figures.

A record has "experiment" (the name of its file), "command", "quick", "seconds", "date",
"device", "versions", "settings" and "result". The page shows these entries of "result",
all optional:

    title      the experiment in a few words
    about      a paragraph
    claims     [{"claim": what the paper says, "verdict", "evidence": text}]; the
               verdict is "holds", "does not hold" or "depends on ..."
    tables     see `mmlp.reporting.tables`
    figures    [{"file": "x.png", "caption", "alt"}], PNG or SVG files of the folder
    notes      [text, ...]: differences from the paper's setting, and how to read
               the scores

A file that is not such a record is left out; a line on stderr and on the page names it
and the reason.
"""

import dataclasses
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mmlp.reporting.content import Claim, Figure, Image
from mmlp.reporting.number_format import format_duration
from mmlp.reporting.page import write_page
from mmlp.reporting.tables import Table, TableText, check_text, format_table

MEDIA_TYPES = {".png": "image/png", ".svg": "image/svg+xml"}
# The exceptions that reading a damaged record may raise.
READING_ERRORS = (
    OSError,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    RecursionError,
)


@dataclasses.dataclass(frozen=True)
class Heading:
    """What stands above the results.

    Attributes
    ----------
    title : str
    about : str
        Introduction. The page adds that bold numbers are the best of their kind.
    contents_title : str
        Heading of the list of experiments and claims.
    """

    title: str
    about: str
    contents_title: str


@dataclasses.dataclass(frozen=True)
class MissingFigure:
    """A figure that a record names and that is not in the folder."""

    file: str


@dataclasses.dataclass(frozen=True)
class ResultSection:
    """One experiment as the page shows it.

    Attributes
    ----------
    name, title, about : str
    quick : bool
        Whether it was a quick run, whose numbers are not results.
    claims : list of Claim
    tables : list of TableText
    figures : list of Figure and MissingFigure
    notes : list of str
    command : str
    provenance : dict of str
        Time, device, versions, date and settings of the run, where they are known.
    """

    name: str
    title: str
    about: str
    quick: bool
    claims: list[Claim]
    tables: list[TableText]
    figures: list[Figure | MissingFigure]
    notes: list[str]
    command: str
    provenance: dict[str, str]


def write_results_page(
    folder: Path, heading: Heading, order: Sequence[str] = ()
) -> dict[str, str]:
    """Write FOLDER/index.html from the records FOLDER/*.json.

    Parameters
    ----------
    folder : Path
    heading : Heading
        Title and introduction of the page.
    order : sequence of str, default=()
        Experiments that come first; the others follow by name.

    Returns
    -------
    dict of str
        The files that were left out, with the reasons.
    """
    sections = []
    skipped = {}
    for path in _sort_records(folder, order):
        try:
            sections.append(read_section(path))
        except READING_ERRORS as error:
            lacks = "it lacks " if isinstance(error, KeyError) else ""
            reason = f"{lacks}{error}"
            skipped[path.name] = reason
            print(f"report: left out {path}: {reason}", file=sys.stderr)

    write_page(
        folder / "index.html",
        "results.html",
        heading=heading,
        sections=sections,
        skipped=skipped,
    )
    return skipped


def read_section(path: Path) -> ResultSection:
    """Read a record and what the page shows of it.

    Raises
    ------
    Exception
        One of `READING_ERRORS`, if the file is not a record.
    """
    record = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(record, dict) or not isinstance(record.get("result"), dict):
        raise ValueError("it is not a record of an experiment")
    name = path.stem
    if record.get("experiment") != name or not re.fullmatch("[a-z0-9-]+", name):
        raise ValueError(
            f"it says experiment {record.get('experiment')!r:.80}, which must be the "
            "name of the file"
        )

    result = record["result"]
    title = check_text(result.get("title") or "")
    tables = [Table.from_record(table) for table in result.get("tables", [])]
    figures = result.get("figures", [])
    return ResultSection(
        name=name,
        title=f"{name}: {title}" if title else name,
        about=check_text(result.get("about", "")),
        quick=bool(record.get("quick")),
        claims=[_read_claim(claim) for claim in result.get("claims", [])],
        tables=[format_table(table) for table in tables],
        figures=[_read_figure(figure, path.parent) for figure in figures],
        notes=[check_text(note) for note in result.get("notes", [])],
        command=check_text(record.get("command", "")),
        provenance=_describe_run(record),
    )


def _sort_records(folder: Path, order: Sequence[str]) -> list[Path]:
    """Return the JSON files of a folder, those of `order` first."""
    paths = {path.stem: path for path in folder.glob("*.json")}
    first = [name for name in order if name in paths]
    others = sorted(name for name in paths if name not in order)
    return [paths[name] for name in (*first, *others)]


def _read_claim(entry: dict[str, Any]) -> Claim:
    claim = Claim(
        verdict=check_text(entry["verdict"]),
        text=check_text(entry["claim"]),
        evidence=check_text(entry.get("evidence", "")),
        tone=check_text(entry.get("tone") or ""),
    )
    # Raise the error of an unknown verdict here, where it is reported for this record.
    _ = claim.css_class
    return claim


def _read_figure(entry: dict[str, Any], folder: Path) -> Figure | MissingFigure:
    """Read a figure; its file must stand in the same folder."""
    file = entry["file"]
    media_type = MEDIA_TYPES.get(Path(file).suffix)
    if media_type is None or Path(file).name != file:
        raise ValueError(
            f"a figure must be a PNG or SVG file of the same folder, got {file!r:.80}"
        )

    caption = check_text(entry.get("caption", ""))
    alt = check_text(entry.get("alt") or caption or file)
    try:
        data = (folder / file).read_bytes()
    except OSError:
        print(f"report: no figure {folder / file}", file=sys.stderr)
        return MissingFigure(file)
    return Figure([Image(data, alt, media_type)], caption)


def _describe_run(record: dict[str, Any]) -> dict[str, str]:
    """Return when, where and with which settings an experiment ran, as far as known."""
    versions = record.get("versions", {}).items()
    settings = record.get("settings", {}).items()
    entries = {
        "Time": format_duration(record["seconds"]) if "seconds" in record else "",
        "Device": check_text(record.get("device", "")),
        "Versions": ", ".join(f"{name} {version}" for name, version in versions),
        "Date": check_text(record.get("date", "")),
        "Settings": ", ".join(f"{name} = {value}" for name, value in settings),
    }
    return {name: text for name, text in entries.items() if text}
