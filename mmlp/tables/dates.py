"""Dates, times of day and durations in cells of any type, counted in days.

A text may be 2024-03-05, 2024/3/5, 5.3.2024, 05/03/2024, 5-Mar-2024, 5 March 2024, Mar 5, 2024 or
2024-03, perhaps followed by 14:30, 14:30:05.5 or 2:30 pm, and by Z or +01:00. Years of two digits
are from 1969 to 2068. The meaning of 05/03/2024 must come from the column, by another cell such as
25/03/2024, or from the user. Objects are those of Python, NumPy and pandas.

Every cell is first an exact fraction of integers, which is then rounded once: a text and an object
that mean the same moment give the same number to the last bit.
"""

import datetime
import math
import re
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

ZERO = datetime.datetime(1970, 1, 1)
ZERO_ORDINAL = ZERO.toordinal()
LAST_DAY = datetime.date.max.toordinal() - ZERO_ORDINAL
FIRST_DAY = datetime.date.min.toordinal() - ZERO_ORDINAL
YEAR = 365.2425  # days
NANOSECONDS_PER_SECOND = 10**9
NANOSECONDS_PER_DAY = 86400 * NANOSECONDS_PER_SECOND
UNITS_PER_DAY = {"D": 1, "h": 24, "m": 1440, "s": 86400}
UNITS_PER_DAY |= {f"{unit}s": 86400 * 1000**i for i, unit in enumerate("munpfa", 1)}
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
    r"(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?:[.,](?P<fraction>\d{1,9}))?)?"
    r"(?: ?(?P<half>[ap])\.?m\.?)?(?: ?(?P<zone>z|utc|[+-]\d{2}:?\d{2}))?"
)
FORMS = [
    re.compile(f"(?:{day})(?:(?:t| +){CLOCK})?", re.IGNORECASE | re.ASCII)
    for day in (
        r"(?P<year>\d{4})(?P<by>[-/.])(?P<month>\d{1,2})(?P=by)(?P<day>\d{1,2})",
        r"(?P<one>\d{1,2})(?P<by>[-/.])(?P<other>\d{1,2})(?P=by)(?P<year>\d{4}|\d{2})",
        r"(?P<day>\d{1,2})(?P<by>[- ])(?P<month>[a-z]{3,9})\.?(?P=by)(?P<year>\d{4}|\d{2})",
        r"(?P<month>[a-z]{3,9})\.? (?P<day>\d{1,2}),? (?P<year>\d{4})",
    )
]
FORMS += [
    re.compile(r"(?P<year>\d{4})-(?P<month>\d{2})", re.ASCII),
    re.compile(CLOCK, re.IGNORECASE | re.ASCII),
]
# The texts that pandas ("-1 days +23:00:00") and Python ("1 day, 2:00:00") write for durations.
DURATION = re.compile(
    r"(?P<days>-?\d{1,9}) days?"
    r"(?:,? \+?(?P<hour>\d{1,2}):(?P<minute>\d{2}):(?P<second>\d{2})(?:\.(?P<fraction>\d{1,9}))?)?",
    re.ASCII,
)


class Moment(NamedTuple):
    """A date or a time of day, in days since 1970-01-01 (UTC) or since midnight.

    Dates such as 05/03/2024 have a reading with the day first and one with the month first; the
    two are equal for all other dates. A reading that is no date, such as 31 February, is None.
    """

    day_first: float | None
    month_first: float | None
    is_time_of_day: bool
    is_aware: bool

    @property
    def is_ambiguous(self) -> bool:
        """Whether both readings are dates, and different ones."""
        return None not in self[:2] and self.day_first != self.month_first

    def days(self, day_first: bool | None) -> float | None:
        """Return the reading in this order, or for None the only one there is."""
        if day_first is not None:
            return self.day_first if day_first else self.month_first
        if self.is_ambiguous:
            return None
        return self.month_first if self.day_first is None else self.day_first


class Duration(NamedTuple):
    """A length of time, which is neither a number without a unit nor a date."""

    days: float

    def __str__(self) -> str:
        return f"{self.days} days"


def moment(cell: Any) -> Moment | None:
    """Return the date or time of day in a text or an object, None for anything else.

    >>> moment("1970-01-02 12:00").days(None)
    1.5
    >>> moment("02/01/1970").days(None) is None
    True
    >>> moment("02/01/1970").days(True)
    1.0
    """
    return _parse_moment(cell) if isinstance(cell, str) else _moment_of_object(cell)


def possible_orders(moments: Iterable[Moment]) -> set[bool]:
    """Return the orders that all dates allow: day first (True), month first (False).

    >>> possible_orders([moment("05/03/2024"), moment("25/03/2024")])
    {True}
    """
    orders = {True, False}
    for date in moments:
        if date.day_first is None and date.month_first is not None:
            orders.discard(True)
        if date.month_first is None and date.day_first is not None:
            orders.discard(False)
    return orders


def duration(cell: Any) -> Duration | None:
    """Return the duration in a text or an object, None for anything else.

    Months and years have no fixed length; NumPy's durations in these units are not read.

    >>> duration("1 days 12:00:00"), duration(datetime.timedelta(hours=6)), duration("2 weeks")
    (Duration(days=1.5), Duration(days=0.25), None)
    """
    if isinstance(cell, Duration):
        return cell
    if isinstance(cell, str):
        match = DURATION.fullmatch(cell)
        return None if match is None else _duration_of_parts(match.groupdict())
    if isinstance(cell, np.timedelta64):
        unit, step = np.datetime_data(cell.dtype)
        return _duration_in_units(int(cell.astype(np.int64)) * step, unit)
    if isinstance(cell, datetime.timedelta):
        seconds = 86400 * cell.days + cell.seconds
        nanoseconds = 1000 * cell.microseconds + getattr(cell, "nanoseconds", 0)
        return Duration(_in_days(seconds, nanoseconds))
    return None


def label(found: Moment) -> str | None:
    """Return one name for all spellings of a moment; None where its order is not known.

    >>> label(moment("5 March 2024")), label(moment("12:30")), label(moment("05/03/2024"))
    ('2024-03-05', '12:30:00', None)
    """
    day = found.days(None)
    if day is None:
        return None
    time = ZERO + datetime.timedelta(microseconds=round(day * 86_400_000_000))
    zone = "+00:00" if found.is_aware else ""
    if found.is_time_of_day:
        return f"{time.time().isoformat()}{zone}"
    if not zone and time.time() == datetime.time():
        return f"{time.date().isoformat()}"
    return f"{time.isoformat(' ')}{zone}"


def shown(day: float, *, clock: bool = False) -> str:
    """A day as 2024-03-05.

    >>> shown(1.5), shown(0.25, clock=True)
    ('1970-01-02', '06:00')
    """
    moment = ZERO + datetime.timedelta(days=math.floor(day * 86400 + 0.5) / 86400)
    return f"{moment:%H:%M}" if clock else f"{moment:%Y-%m-%d}"


def _parse_moment(text: str) -> Moment | None:
    match = next(filter(None, (form.fullmatch(text) for form in FORMS)), None)
    if match is None:
        return None
    parts = {name: part for name, part in match.groupdict().items() if part is not None}
    is_time_of_day = "year" not in parts
    is_aware = "zone" in parts
    if "one" not in parts:
        days = _days_of_parts(parts)
        return Moment(days, days, is_time_of_day, is_aware)

    day_first = _days_of_parts(parts | {"day": parts["one"], "month": parts["other"]})
    if parts["by"] == ".":
        return Moment(day_first, day_first, is_time_of_day, is_aware)
    month_first = _days_of_parts(parts | {"day": parts["other"], "month": parts["one"]})
    return Moment(day_first, month_first, is_time_of_day, is_aware)


def _days_of_parts(parts: dict[str, str]) -> float | None:
    """Return days since 1970-01-01, or the part of a day; None for 31 February and such."""
    month = parts.get("month", "1")
    month_number = MONTHS.get(month.lower(), 0) if month.isalpha() else int(month)
    year = int(parts.get("year", "1970"))
    if len(parts.get("year", "1970")) == 2:
        year += 1900 if year > 68 else 2000

    hour = int(parts.get("hour", "0"))
    half = parts.get("half", "").lower()
    if half and not 1 <= hour <= 12:
        return None
    if half:
        hour = hour % 12 + (12 if half == "p" else 0)

    minute = int(parts.get("minute", "0"))
    second = int(parts.get("second", "0"))
    offset = _zone_seconds(parts.get("zone", "z"))
    try:
        day = datetime.datetime(
            year, month_number, int(parts.get("day", "1")), hour, minute, second
        )
    except ValueError:
        return None
    if offset is None:
        return None
    seconds = _seconds_since_zero(day) - offset
    if "year" not in parts:
        seconds %= 86400
    return _bounded(_in_days(seconds, _nanoseconds(parts.get("fraction", ""))))


def _moment_of_object(cell: Any) -> Moment | None:
    """Return the moment in an object of Python, NumPy or pandas."""
    if isinstance(cell, np.datetime64):
        days = _days_of_datetime64(cell)
        return Moment(days, days, is_time_of_day=False, is_aware=False)
    if hasattr(cell, "to_timestamp"):  # a period of pandas stands for its first moment
        return _moment_of_object(cell.to_timestamp())
    if isinstance(cell, datetime.time):
        seconds = 3600 * cell.hour + 60 * cell.minute + cell.second
    elif isinstance(cell, datetime.datetime):
        seconds = _seconds_since_zero(cell)
    elif isinstance(cell, datetime.date):
        days = float(cell.toordinal() - ZERO_ORDINAL)
        return Moment(days, days, is_time_of_day=False, is_aware=False)
    else:
        return None

    offset = cell.utcoffset()
    nanoseconds = 1000 * cell.microsecond + getattr(cell, "nanosecond", 0)
    if offset is not None:
        seconds -= 86400 * offset.days + offset.seconds
        nanoseconds -= 1000 * offset.microseconds
    if isinstance(cell, datetime.time):
        seconds %= 86400
    days = _bounded(_in_days(seconds, nanoseconds))
    return Moment(days, days, isinstance(cell, datetime.time), offset is not None)


def _days_of_datetime64(cell: np.datetime64) -> float | None:
    unit, step = np.datetime_data(cell.dtype)
    if unit in ("Y", "M"):
        cell = cell.astype("datetime64[D]")
        unit, step = "D", 1
    found = _duration_in_units(int(cell.astype(np.int64)) * step, unit)
    return None if found is None else _bounded(found.days)


def _duration_in_units(count: int, unit: str) -> Duration | None:
    if unit == "W":
        return Duration(float(7 * count))
    return Duration(count / UNITS_PER_DAY[unit]) if unit in UNITS_PER_DAY else None


def _duration_of_parts(parts: dict[str, str | None]) -> Duration | None:
    hour, minute, second = (
        int(parts[name] or 0) for name in ("hour", "minute", "second")
    )
    if hour > 23 or minute > 59 or second > 59:
        return None
    seconds = 86400 * int(parts["days"] or 0) + 3600 * hour + 60 * minute + second
    return Duration(_in_days(seconds, _nanoseconds(parts["fraction"] or "")))


def _seconds_since_zero(moment: datetime.datetime) -> int:
    days = moment.toordinal() - ZERO_ORDINAL
    return 86400 * days + 3600 * moment.hour + 60 * moment.minute + moment.second


def _nanoseconds(fraction: str) -> int:
    """Return the digits after the point of a second as nanoseconds."""
    return int(fraction.ljust(9, "0"))


def _in_days(seconds: int, nanoseconds: int) -> float:
    return (seconds * NANOSECONDS_PER_SECOND + nanoseconds) / NANOSECONDS_PER_DAY


def _bounded(days: float) -> float | None:
    """Return None outside of the years 1 to 9999, which neither a text nor Python can write."""
    return days if FIRST_DAY <= days <= LAST_DAY else None


def _zone_seconds(zone: str) -> int | None:
    """Return the seconds of +01:00 and such, None for +99:00."""
    if not zone.startswith(("+", "-")):
        return 0
    digits = zone[1:].replace(":", "")
    hours = int(digits[:2])
    minutes = int(digits[2:])
    if hours > 23 or minutes > 59:
        return None
    seconds = 3600 * hours + 60 * minutes
    return -seconds if zone.startswith("-") else seconds
