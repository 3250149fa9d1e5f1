"""What becomes of each column of a table, in a few lines for people."""

from collections.abc import Sequence

from mmlp.tables import dates as days
from mmlp.tables.encoder import Encoder
from mmlp.tables.kinds import Dates, Kind, LeftOut, Numbers, Words

SHOWN = 8  # names in a line


def summary(encoder: Encoder, names: Sequence[str]) -> list[str]:
    """A line for each kind of column, or more where there is more to say.

    >>> encoder = Encoder((Numbers(1.0), Numbers(2.0, missing=3), LeftOut("no values", 9)))
    >>> print("\\n".join(summary(encoder, ["a", "b", "c"])))
    numbers   a, b (3 missing, filled by the median, with an indicator)
    left out  c (no values)
    """
    told: dict[str, list[str]] = {}
    for name, kind in zip(names, encoder.kinds, strict=True):
        title = {
            Numbers: "numbers",
            Dates: "dates",
            Words: "text",
            LeftOut: "left out",
        }[type(kind)]
        told.setdefault(title, []).append(f"{name}{_more(kind)}")
    lines = []
    for title in ("numbers", "text", "dates", "left out"):
        entries = told.get(title, [])
        if (
            title == "numbers"
        ):  # those with nothing to tell need not stand in a line each
            entries = _shortened(entries)
        entries = (
            entries
            if title in ("text", "dates")
            else [", ".join(entries)] * bool(entries)
        )
        lines += [
            f"{title if i == 0 else '':9} {entry}" for i, entry in enumerate(entries)
        ]
    return lines


def remarkable(encoder: Encoder) -> bool:
    """Whether there is more to tell than that all columns are numbers."""
    return any(
        not isinstance(kind, Numbers) or kind.missing or kind.commas or kind.durations
        for kind in encoder.kinds
    )


def _shortened(entries: list[str]) -> list[str]:
    plain = [entry for entry in entries if not entry.endswith(")")]
    if len(plain) <= SHOWN:
        return entries
    special = [entry for entry in entries if entry.endswith(")")]
    return [*plain[:SHOWN], f"and {len(plain) - SHOWN} more", *special]


def _more(kind: Kind) -> str:
    gaps = f"{kind.missing} missing" if kind.missing else ""
    filled = gaps and f"{gaps}, filled by the median, with an indicator"
    match kind:
        case Numbers(commas=commas, durations=durations):
            parts = ["decimal commas" * commas, "durations in days" * durations, filled]
        case Dates(
            first=first, last=last, season=season, clock=clock, alone=alone, aware=aware
        ):
            span = " to ".join(days.shown(x, clock=alone) for x in (first, last))
            how = ["days", *["season"] * season, *["time of day"] * clock]
            parts = [span, "UTC" * aware, "as " + ", ".join(how), filled]
        case Words(levels=levels, rare=rare):
            pooled = f"{rare} rare ones pooled" if rare else ""
            parts = [
                f"{len(levels)} levels",
                pooled,
                gaps and f"{gaps}, a level of their own",
            ]
        case LeftOut(why=why):
            parts = [why]
    text = "; ".join(filter(None, parts))
    return f" ({text})" if text else ""
