"""Dates, times of day and durations in cells of any type, counted in days.

A text may be 2024-03-05, 2024/3/5, 5.3.2024, 05/03/2024, 5-Mar-2024, 5 March 2024,
Mar 5, 2024 or 2024-03, perhaps followed by 14:30, 14:30:05.5 or 2:30 pm, and by Z or
+01:00. Years of two digits are from 1969 to 2068. The meaning of 05/03/2024 must come
from the column, by another cell such as 25/03/2024, or from the user. Objects are those
of Python, NumPy and pandas.

Every cell is first an exact fraction of integers, which is then rounded once: a text
and an object that mean the same moment give the same number to the last bit.
"""

import datetime
import math
import re
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

EPOCH = datetime.datetime(1970, 1, 1)
EPOCH_ORDINAL = EPOCH.toordinal()
FIRST_DAY = datetime.date.min.toordinal() - EPOCH_ORDINAL
LAST_DAY = datetime.date.max.toordinal() - EPOCH_ORDINAL
DAYS_PER_YEAR = 365.2425
SECONDS_PER_DAY = 86_400
NANOSECONDS_PER_SECOND = 10**9
NANOSECONDS_PER_DAY = SECONDS_PER_DAY * NANOSECONDS_PER_SECOND
# The units of NumPy that have a fixed length.
UNITS_PER_DAY = {
    "D": 1,
    "h": 24,
    "m": 1440,
    "s": SECONDS_PER_DAY,
    "ms": SECONDS_PER_DAY * 10**3,
    "us": SECONDS_PER_DAY * 10**6,
    "ns": SECONDS_PER_DAY * 10**9,
    "ps": SECONDS_PER_DAY * 10**12,
    "fs": SECONDS_PER_DAY * 10**15,
    "as": SECONDS_PER_DAY * 10**18,
}
# Years of two digits up to this one are from 2000 on, as POSIX reads them.
LAST_SHORT_YEAR_OF_2000 = 68

MONTH_NAMES = (
    ("jan", "january"),
    ("feb", "february"),
    ("mar", "march"),
    ("apr", "april"),
    ("may",),
    ("jun", "june"),
    ("jul", "july"),
    ("aug", "august"),
    ("sep", "sept", "september"),
    ("oct", "october"),
    ("nov", "november"),
    ("dec", "december"),
)
MONTH_NUMBERS = {
    name: number for number, names in enumerate(MONTH_NAMES, 1) for name in names
}

TIME_PATTERN = (
    r"(?P<hour>\d{1,2}):(?P<minute>\d{2})"
    r"(?::(?P<second>\d{2})(?:[.,](?P<fraction>\d{1,9}))?)?"
    r"(?: ?(?P<am_or_pm>[ap])\.?m\.?)?(?: ?(?P<zone>z|utc|[+-]\d{2}:?\d{2}))?"
)
DATE_PATTERNS = (
    r"(?P<year>\d{4})(?P<mark>[-/.])(?P<month>\d{1,2})(?P=mark)(?P<day>\d{1,2})",
    r"(?P<left>\d{1,2})(?P<mark>[-/.])(?P<middle>\d{1,2})(?P=mark)"
    r"(?P<year>\d{4}|\d{2})",
    r"(?P<day>\d{1,2})(?P<mark>[- ])(?P<month>[a-z]{3,9})\.?(?P=mark)"
    r"(?P<year>\d{4}|\d{2})",
    r"(?P<month>[a-z]{3,9})\.? (?P<day>\d{1,2}),? (?P<year>\d{4})",
)
MOMENT_PATTERNS = (
    *(
        re.compile(f"(?:{date})(?:(?:t| +){TIME_PATTERN})?", re.IGNORECASE | re.ASCII)
        for date in DATE_PATTERNS
    ),
    re.compile(r"(?P<year>\d{4})-(?P<month>\d{2})", re.ASCII),
    re.compile(TIME_PATTERN, re.IGNORECASE | re.ASCII),
)
# The texts that pandas ("-1 days +23:00:00") and Python ("1 day, 2:00:00") write.
DURATION_PATTERN = re.compile(
    r"(?P<days>-?\d{1,9}) days?"
    r"(?:,? \+?(?P<hour>\d{1,2}):(?P<minute>\d{2}):(?P<second>\d{2})"
    r"(?:\.(?P<fraction>\d{1,9}))?)?",
    re.ASCII,
)


class Moment(NamedTuple):
    """A date or a time of day, in days since 1970-01-01 (UTC) or since midnight.

    Dates such as 05/03/2024 have a reading with the day first and one with the month
    first; the two are equal for all other dates. A reading that is no date, such as
    31 February, is None.
    """

    day_first: float | None
    month_first: float | None
    is_time_of_day: bool
    is_aware: bool

    @property
    def is_ambiguous(self) -> bool:
        """Whether both readings are dates, and different ones."""
        if self.day_first is None or self.month_first is None:
            return False
        return self.day_first != self.month_first

    @property
    def is_readable(self) -> bool:
        """Whether one of the readings is a date."""
        return self.day_first is not None or self.month_first is not None

    def in_days(self, *, day_first: bool | None) -> float | None:
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


def parse_moment(cell: Any) -> Moment | None:
    """Return the date or time of day in a text or an object, None for anything else.

    >>> parse_moment("1970-01-02 12:00").in_days(day_first=None)
    1.5
    >>> parse_moment("02/01/1970").in_days(day_first=None) is None
    True
    >>> parse_moment("02/01/1970").in_days(day_first=True)
    1.0
    """
    if isinstance(cell, str):
        return _parse_text(cell)
    return _convert_object(cell)


def find_possible_orders(moments: Iterable[Moment]) -> set[bool]:
    """Return the orders that all dates allow: day first (True), month first (False).

    >>> find_possible_orders([parse_moment("05/03/2024"), parse_moment("25/03/2024")])
    {True}
    """
    orders = {True, False}
    for moment in moments:
        if moment.day_first is None and moment.month_first is not None:
            orders.discard(True)
        if moment.month_first is None and moment.day_first is not None:
            orders.discard(False)
    return orders


def parse_duration(cell: Any) -> Duration | None:
    """Return the duration in a text or an object, None for anything else.

    Months and years have no fixed length; NumPy's durations in these units are not
    read.

    >>> parse_duration("1 days 12:00:00")
    Duration(days=1.5)
    >>> parse_duration(datetime.timedelta(hours=6))
    Duration(days=0.25)
    >>> parse_duration("2 weeks") is None
    True
    """
    if isinstance(cell, Duration):
        return cell
    if isinstance(cell, str):
        match = DURATION_PATTERN.fullmatch(cell)
        return None if match is None else _parse_duration_parts(match.groupdict())
    if isinstance(cell, np.timedelta64):
        unit, step = np.datetime_data(cell.dtype)
        return _convert_units(int(cell.astype(np.int64)) * step, unit)
    if isinstance(cell, datetime.timedelta):
        seconds = SECONDS_PER_DAY * cell.days + cell.seconds
        nanoseconds = 1000 * cell.microseconds + getattr(cell, "nanoseconds", 0)
        return Duration(_divide_into_days(seconds, nanoseconds))
    return None


def label_moment(moment: Moment) -> str | None:
    """Return one name for all spellings of a moment; None if its order is unknown.

    >>> label_moment(parse_moment("5 March 2024"))
    '2024-03-05'
    >>> label_moment(parse_moment("12:30"))
    '12:30:00'
    >>> label_moment(parse_moment("05/03/2024")) is None
    True
    """
    days = moment.in_days(day_first=None)
    if days is None:
        return None

    microseconds = round(days * (1_000_000 * SECONDS_PER_DAY))
    time = EPOCH + datetime.timedelta(microseconds=microseconds)
    zone = "+00:00" if moment.is_aware else ""
    if moment.is_time_of_day:
        return f"{time.time().isoformat()}{zone}"
    if not zone and time.time() == datetime.time():
        return f"{time.date().isoformat()}"
    return f"{time.isoformat(' ')}{zone}"


def format_day(days: float, *, is_time_of_day: bool = False) -> str:
    """Return days since 1970 as a date, or a part of a day as a time.

    >>> format_day(1.5)
    '1970-01-02'
    >>> format_day(0.25, is_time_of_day=True)
    '06:00'
    """
    seconds = math.floor(days * SECONDS_PER_DAY + 0.5)
    moment = EPOCH + datetime.timedelta(seconds=seconds)
    return f"{moment:%H:%M}" if is_time_of_day else f"{moment:%Y-%m-%d}"


def _parse_text(text: str) -> Moment | None:
    """Return the moment in a text."""
    matches = (pattern.fullmatch(text) for pattern in MOMENT_PATTERNS)
    match = next(filter(None, matches), None)
    if match is None:
        return None

    parts = {name: part for name, part in match.groupdict().items() if part is not None}
    is_time_of_day = "year" not in parts
    is_aware = "zone" in parts
    if "left" not in parts:
        days = _convert_parts(parts)
        return Moment(days, days, is_time_of_day, is_aware)

    day_first = _convert_parts(parts | {"day": parts["left"], "month": parts["middle"]})
    if parts["mark"] == ".":  # with points, the day always comes first
        return Moment(day_first, day_first, is_time_of_day, is_aware)
    month_first = _convert_parts(
        parts | {"day": parts["middle"], "month": parts["left"]}
    )
    return Moment(day_first, month_first, is_time_of_day, is_aware)


def _convert_parts(parts: dict[str, str]) -> float | None:
    """Return days since 1970-01-01, or the part of a day; None for 31 February."""
    month = parts.get("month", "1")
    month_number = MONTH_NUMBERS.get(month.lower(), 0)
    if not month.isalpha():
        month_number = int(month)

    year_digits = parts.get("year", "1970")
    year = int(year_digits)
    if len(year_digits) == 2:
        year += 1900 if year > LAST_SHORT_YEAR_OF_2000 else 2000

    hour = int(parts.get("hour", "0"))
    am_or_pm = parts.get("am_or_pm", "").lower()
    if am_or_pm and not 1 <= hour <= 12:
        return None
    if am_or_pm:
        hour = hour % 12 + (12 if am_or_pm == "p" else 0)

    minute = int(parts.get("minute", "0"))
    second = int(parts.get("second", "0"))
    offset = _parse_zone(parts.get("zone", "z"))
    try:
        moment = datetime.datetime(
            year, month_number, int(parts.get("day", "1")), hour, minute, second
        )
    except ValueError:
        return None
    if offset is None:
        return None

    seconds = _count_seconds(moment) - offset
    if "year" not in parts:
        seconds %= SECONDS_PER_DAY
    nanoseconds = _parse_fraction(parts.get("fraction", ""))
    return _check_range(_divide_into_days(seconds, nanoseconds))


def _convert_object(cell: Any) -> Moment | None:
    """Return the moment in an object of Python, NumPy or pandas."""
    if isinstance(cell, np.datetime64):
        days = _convert_datetime64(cell)
        return Moment(days, days, is_time_of_day=False, is_aware=False)
    if hasattr(cell, "to_timestamp"):  # a period of pandas stands for its first moment
        return _convert_object(cell.to_timestamp())
    if isinstance(cell, datetime.time):
        seconds = 3600 * cell.hour + 60 * cell.minute + cell.second
    elif isinstance(cell, datetime.datetime):
        seconds = _count_seconds(cell)
    elif isinstance(cell, datetime.date):
        days = float(cell.toordinal() - EPOCH_ORDINAL)
        return Moment(days, days, is_time_of_day=False, is_aware=False)
    else:
        return None

    offset = cell.utcoffset()
    nanoseconds = 1000 * cell.microsecond + getattr(cell, "nanosecond", 0)
    if offset is not None:
        seconds -= SECONDS_PER_DAY * offset.days + offset.seconds
        nanoseconds -= 1000 * offset.microseconds
    if isinstance(cell, datetime.time):
        seconds %= SECONDS_PER_DAY
    days = _check_range(_divide_into_days(seconds, nanoseconds))
    return Moment(
        days,
        days,
        is_time_of_day=isinstance(cell, datetime.time),
        is_aware=offset is not None,
    )


def _convert_datetime64(cell: np.datetime64) -> float | None:
    """Return a moment of NumPy in days since 1970-01-01."""
    unit, step = np.datetime_data(cell.dtype)
    if unit in ("Y", "M"):
        cell = cell.astype("datetime64[D]")
        unit = "D"
        step = 1
    since_epoch = _convert_units(int(cell.astype(np.int64)) * step, unit)
    return None if since_epoch is None else _check_range(since_epoch.days)


def _convert_units(count: int, unit: str) -> Duration | None:
    """Return a count of NumPy's units; None for units without a fixed length."""
    if unit == "W":
        return Duration(float(7 * count))
    if unit not in UNITS_PER_DAY:
        return None
    return Duration(count / UNITS_PER_DAY[unit])


def _parse_duration_parts(parts: dict[str, str | None]) -> Duration | None:
    """Return the duration in the parts of a text; None for 25:00:00."""
    hour = int(parts["hour"] or 0)
    minute = int(parts["minute"] or 0)
    second = int(parts["second"] or 0)
    if hour > 23 or minute > 59 or second > 59:
        return None
    days = int(parts["days"] or 0)
    seconds = SECONDS_PER_DAY * days + 3600 * hour + 60 * minute + second
    nanoseconds = _parse_fraction(parts["fraction"] or "")
    return Duration(_divide_into_days(seconds, nanoseconds))


def _count_seconds(moment: datetime.datetime) -> int:
    """Return the whole seconds since 1970-01-01, without the time zone."""
    days = moment.toordinal() - EPOCH_ORDINAL
    seconds = 3600 * moment.hour + 60 * moment.minute + moment.second
    return SECONDS_PER_DAY * days + seconds


def _parse_fraction(digits: str) -> int:
    """Return the digits after the point of a second as nanoseconds."""
    return int(digits.ljust(9, "0"))


def _divide_into_days(seconds: int, nanoseconds: int) -> float:
    """Return a length of time in days, rounded once."""
    return (seconds * NANOSECONDS_PER_SECOND + nanoseconds) / NANOSECONDS_PER_DAY


def _check_range(days: float) -> float | None:
    """Return the days, or None outside of the years 1 to 9999 that Python knows."""
    return days if FIRST_DAY <= days <= LAST_DAY else None


def _parse_zone(zone: str) -> int | None:
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
