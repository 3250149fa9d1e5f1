"""What becomes of each column of a table, in a few lines for people."""

from collections.abc import Sequence

from mmlp.tables.dates import format_day
from mmlp.tables.encoder import TableEncoder
from mmlp.tables.kinds import MISSING_LEVEL, Categories, Dates, Kind, LeftOut, Numbers

MAX_LISTED_NAMES = 8
TITLES: dict[type, str] = {
    Numbers: "numbers",
    Categories: "text",
    Dates: "dates",
    LeftOut: "left out",
}


def summarize_columns(encoder: TableEncoder, names: Sequence[str]) -> list[str]:
    """Return a line for each kind of column, or one for each column of text and dates.

    >>> encoder = TableEncoder()
    >>> encoder.kinds_ = (Numbers(1.0), Numbers(2.0, missing=3), LeftOut("no values"))
    >>> print("\\n".join(summarize_columns(encoder, ["a", "b", "c"])))
    numbers   a, b (3 missing, filled by the median, with an indicator)
    left out  c (no values)
    """
    entries_of: dict[str, list[str]] = {title: [] for title in TITLES.values()}
    for name, kind in zip(names, encoder.kinds_, strict=True):
        entries_of[TITLES[type(kind)]].append(f"{name}{_describe(kind)}")

    lines = []
    for title, entries in entries_of.items():
        if title == "numbers":
            entries = _shorten(entries)
        if title in ("numbers", "left out") and entries:
            entries = [", ".join(entries)]
        for i, entry in enumerate(entries):
            heading = title if i == 0 else ""
            lines.append(f"{heading:9} {entry}")
    return lines


def needs_summary(encoder: TableEncoder) -> bool:
    """Return whether there is more to tell than that all columns are numbers."""
    return any(
        not isinstance(kind, Numbers) or kind.missing or kind.commas or kind.durations
        for kind in encoder.kinds_
    )


def _shorten(entries: list[str]) -> list[str]:
    """Shorten the list of columns without remarks; those with remarks are all kept."""
    plain = [entry for entry in entries if not entry.endswith(")")]
    n_more = len(plain) - MAX_LISTED_NAMES
    if n_more <= 0:
        return entries
    described = [entry for entry in entries if entry.endswith(")")]
    return [*plain[:MAX_LISTED_NAMES], f"and {n_more} more", *described]


def _describe(kind: Kind) -> str:
    """Return what there is to tell about a column, in brackets."""
    facts = "; ".join(_list_facts(kind))
    return f" ({facts})" if facts else ""


def _list_facts(kind: Kind) -> list[str]:
    """Return what there is to tell about a column."""
    facts = []
    filled = f"{kind.missing} missing, filled by the median, with an indicator"
    match kind:
        case Numbers():
            if kind.commas:
                facts.append("decimal commas")
            if kind.durations:
                facts.append("durations in days")
            if kind.missing:
                facts.append(filled)
        case Dates():
            first = format_day(kind.first, is_time_of_day=kind.alone)
            last = format_day(kind.last, is_time_of_day=kind.alone)
            facts.append(f"{first} to {last}")
            if kind.aware:
                facts.append("UTC")
            features = ["days"]
            if kind.season:
                features.append("season")
            if kind.clock:
                features.append("time of day")
            facts.append(f"as {', '.join(features)}")
            if kind.missing:
                facts.append(filled)
        case Categories():
            facts.append(f"{len(kind.levels)} levels")
            if kind.rare:
                facts.append(f"{kind.rare} rare ones pooled")
            if kind.missing:
                fate = "a level of their own"
                if MISSING_LEVEL not in kind.levels:
                    fate = "pooled with the rare ones"
                facts.append(f"{kind.missing} missing, {fate}")
        case LeftOut():
            facts.append(kind.why)
    return facts
