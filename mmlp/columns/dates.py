"""Days and times as they are written in tables, as days since 1970-01-01 (UTC).

2024-03-05, 2024/3/5, 5.3.2024, 05/03/2024, 5-Mar-2024, 5 March 2024, Mar 5, 2024, 2024-03; after it
perhaps 14:30, 14:30:05.5, 2:30 pm, and Z or +01:00. Years of two digits are from 1969 to 2068. What
05/03/2024 means, a column must tell: by another cell such as 25/03/2024, or the user.
"""

import datetime
import math
import re
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

ZERO = datetime.datetime(1970, 1, 1)
YEAR = 365.2425  # days
MONTHS = {
    name: i
    for i, names in enumerate(
        "jan january|feb february|mar march|apr april|may|jun june|jul july|aug august|"
        "sep sept september|oct october|nov november|dec december".split("|"),
        1,
    )
    for name in names.split()
}
CLOCK = (
    r"(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2}(?:[.,]\d{1,9})?))?"
    r"(?: ?(?P<half>[ap])\.?m\.?)?(?: ?(?P<zone>z|utc|[+-]\d{2}:?\d{2}))?"
)
FORMS = [
    re.compile(f"(?:{day})(?:(?:t| +){CLOCK})?", re.IGNORECASE)
    for day in (
        r"(?P<year>\d{4})(?P<by>[-/.])(?P<month>\d{1,2})(?P=by)(?P<day>\d{1,2})",
        r"(?P<one>\d{1,2})(?P<by>[-/.])(?P<other>\d{1,2})(?P=by)(?P<year>\d{4}|\d{2})",
        r"(?P<day>\d{1,2})(?P<by>[- ])(?P<month>[a-z]{3,9})\.?(?P=by)(?P<year>\d{4}|\d{2})",
        r"(?P<month>[a-z]{3,9})\.? (?P<day>\d{1,2}),? (?P<year>\d{4})",
    )
]
FORMS += [re.compile(r"(?P<year>\d{4})-(?P<month>\d{2})"), re.compile(CLOCK, re.IGNORECASE)]


class Written(NamedTuple):
    """A date as it is written: its parts, and the two numbers whose order is not known."""

    parts: dict[str, str]
    unclear: tuple[int, int] | None


def written(text: str) -> Written | None:
    """The parts of a date, None where there is none."""
    match = next(filter(None, (form.fullmatch(text) for form in FORMS)), None)
    if match is None:
        return None
    parts = {name: part for name, part in match.groupdict().items() if part is not None}
    if parts.get("by") == "." and "one" in parts:
        parts |= {"day": parts.pop("one"), "month": parts.pop("other")}
    unclear = (int(parts["one"]), int(parts["other"])) if "one" in parts else None
    return Written(parts, unclear)


def is_clock(found: Written) -> bool:
    return "year" not in found.parts


def day_first(found: Iterable[Written]) -> set[bool]:
    """The orders that numbers such as 05/03/2024 leave: day first (True), month first (False).

    >>> day_first([written("05/03/2024"), written("25/03/2024")])
    {True}
    """
    orders = {True, False}
    for date in found:
        if date.unclear is not None:
            one, other = date.unclear
            orders -= {True} if other > 12 else set()
            orders -= {False} if one > 12 else set()
    return orders


def days(found: Written, *, first: bool) -> float | None:
    """Days since 1970-01-01, or parts of a day of a clock; None for 31 February and such.

    >>> days(written("02/01/1970 12:00"), first=True)
    1.5
    """
    parts = dict(found.parts)
    if found.unclear is not None:
        names = ("day", "month") if first else ("month", "day")
        parts |= dict(zip(names, (parts["one"], parts["other"]), strict=True))
    month = parts.get("month", "1")
    number = MONTHS.get(month.lower()) if month.isalpha() else int(month)
    hour, half = int(parts.get("hour", 0)), parts.get("half", "").lower()
    if number is None or (half and not 1 <= hour <= 12):
        return None
    hour = hour % 12 + 12 * (half == "p") if half else hour
    year = int(parts.get("year", 1970))
    if len(parts.get("year", "1970")) == 2:
        year += 1900 if year > 68 else 2000
    seconds = float(parts.get("second", "0").replace(",", "."))
    try:
        day = datetime.datetime(year, number, int(parts.get("day", 1)), hour)
    except ValueError:
        return None
    minutes = int(parts.get("minute", 0)) - _offset(parts.get("zone", "z"))
    if int(parts.get("minute", 0)) > 59 or seconds >= 60:
        return None
    return (day - ZERO) / datetime.timedelta(days=1) + minutes / 1440 + seconds / 86400


def _offset(zone: str) -> int:
    """Minutes of +01:00 and such."""
    if not zone.startswith(("+", "-")):
        return 0
    digits = zone[1:].replace(":", "")
    return int(f"{zone[0]}1") * (60 * int(digits[:2]) + int(digits[2:]))


def instant(cell: Any) -> float | None:
    """Days of one of the types for dates: Python's, NumPy's or pandas'; None for another."""
    if isinstance(cell, np.datetime64):
        return float((cell - np.datetime64(0, "s")) / np.timedelta64(1, "D"))
    if isinstance(cell, datetime.datetime):
        aware = cell.tzinfo is not None
        naive = cell.astimezone(datetime.UTC).replace(tzinfo=None) if aware else cell
        return (naive - ZERO) / datetime.timedelta(days=1)
    if isinstance(cell, datetime.date):
        return float((cell - ZERO.date()).days)
    if hasattr(cell, "to_timestamp"):  # a period of pandas: its first moment
        return instant(cell.to_timestamp())
    if isinstance(cell, datetime.time):
        return (cell.hour + cell.minute / 60 + cell.second / 3600) / 24
    return None


def shown(day: float, *, clock: bool = False) -> str:
    """A day as 2024-03-05.

    >>> shown(1.5), shown(0.25, clock=True)
    ('1970-01-02', '06:00')
    """
    moment = ZERO + datetime.timedelta(days=math.floor(day * 86400 + 0.5) / 86400)
    return f"{moment:%H:%M}" if clock else f"{moment:%Y-%m-%d}"
