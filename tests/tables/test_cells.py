"""Cells of tables: missing, numbers, dates."""

import datetime
import math
from decimal import Decimal
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest

from mmlp.tables import dates
from mmlp.tables.cells import Cells, is_missing, normalize_cell, parse_number
from mmlp.tables.number_format import has_decimal_commas, looks_like_number

DAY = 19787.0  # 2024-03-05


@pytest.mark.parametrize(
    "cell",
    [
        "",
        " ",
        "NA",
        "n/a",
        "NaN",
        "null",
        "None",
        "?",
        "-",
        "#N/A",
        "\u2014",
        None,
        math.nan,
        pd.NA,
        pd.NaT,
    ],
)
def test_missing_cells(cell):
    assert is_missing(cell)


@pytest.mark.parametrize(
    "cell", ["0", 0, False, "no", "inf", math.inf, "nano", np.float32(1)]
)
def test_cells_that_are_not_missing(cell):
    assert not is_missing(cell)


def test_numbers_of_any_type():
    assert [parse_number(cell) for cell in ("-1.5e3", 2, np.int8(3), np.True_, "1_0", "x", "")] == [
        -1500, 2, 3, 1, None, None, None,
    ]  # fmt: skip


def test_a_column_by_its_different_values():
    cells = Cells.of(["b", "a ", "b", None])
    assert cells.values == ["b", "a", None]
    assert cells.counts.tolist() == [2, 1, 1]
    assert cells.find_first_row(1) == 1
    assert cells.spread([1.0, 2.0, None]).tolist()[:3] == [1, 2, 1]
    with pytest.raises(TypeError, match="argument must be a string or a number"):
        Cells.of([{}])


def test_decimal_commas_are_not_taken_for_thousands():
    assert has_decimal_commas(["1,5", "2"])
    assert has_decimal_commas(["1,500", "2,25"])
    assert not has_decimal_commas(["1,500", "2,250"]), "it may be either"
    assert not has_decimal_commas(["1.5"])
    assert not has_decimal_commas(["1,5,2"])
    assert has_decimal_commas(["0,125"])
    assert not has_decimal_commas(["999,50", "1.234"])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2024-03-05", DAY),
        ("2024/3/5", DAY),
        ("5.3.2024", DAY),
        ("5.3.24", DAY),
        ("5-Mar-2024", DAY),
        ("5 March 2024", DAY),
        ("Mar 5, 2024", DAY),
        ("SEPT 1, 2024", DAY + 180),
        ("2024-03", DAY - 4),
        ("2024-03-05T06:00", DAY + 0.25),
        ("2024-03-05 06:00:00.5Z", DAY + 0.25 + 0.5 / 86400),
        ("2024-03-05 06:00+06:00", DAY),
        ("2024-03-05 06:00-0600", DAY + 0.5),
        ("5.3.2024 6:00 pm", DAY + 0.75),
        ("5.3.2024 12:00 am", DAY),
        ("31.12.69", -1.0),
        ("06:00", 0.25),
    ],
)
def test_dates_as_they_are_written(text, expected):
    found = dates.parse_moment(text)
    assert found is not None
    assert found.in_days(day_first=True) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(
    "text",
    ["31.02.2024", "2024-13-01", "5 Foo 2024", "25:00", "12:60", "13:00 pm", "2024-00-10",
     "12:30+25:00", "0001-01-01 00:00+01:00", "31/02/2024"],
)  # fmt: skip
def test_what_looks_like_a_date_and_is_none(text):
    found = dates.parse_moment(text)
    assert found is not None
    assert found.in_days(day_first=True) is None
    assert found.in_days(day_first=None) is None


@pytest.mark.parametrize(
    "text", ["1.2.3", "20240305", "north", "2024", "1/2", "2024-03/05", ""]
)
def test_what_does_not_look_like_a_date(text):
    assert dates.parse_moment(text) is None


def test_the_order_of_day_and_month_comes_from_the_whole_column():
    def orders(*texts):
        return dates.find_possible_orders(dates.parse_moment(text) for text in texts)

    assert orders("05/03/2024", "25/03/2024") == {True}
    assert orders("05/03/2024", "03/25/2024") == {False}
    assert orders("05/03/2024", "2024-01-31") == {True, False}
    assert orders("25/03/2024", "03/25/2024") == set()
    assert orders("31/02/2024") == {True, False}, "it is no date in either order"
    date = dates.parse_moment("05/03/2024")
    assert date.is_ambiguous
    assert date.in_days(day_first=True) == DAY
    assert date.in_days(day_first=None) is None
    assert dates.format_day(date.in_days(day_first=False)) == "2024-05-03"
    assert not dates.parse_moment("05/05/2024").is_ambiguous
    assert dates.parse_moment("25/03/2024").in_days(day_first=None) == DAY + 20


def test_types_for_dates():
    east = datetime.timezone(datetime.timedelta(hours=6))
    for cell in (
        datetime.date(2024, 3, 5),
        datetime.datetime(2024, 3, 5),
        datetime.datetime(2024, 3, 5, 6, tzinfo=east),
        np.datetime64("2024-03-05"),
        np.datetime64("2024-03-05T00:00:00.000000000"),
        pd.Timestamp("2024-03-05"),
        pd.Timestamp("2024-03-05 06:00", tz=east),
        pd.Period("2024-03-05", "D"),
    ):
        assert dates.parse_moment(cell).in_days(day_first=None) == DAY
    assert (
        dates.parse_moment(np.datetime64("2024-03")).in_days(day_first=None) == DAY - 4
    )
    assert dates.parse_moment(3) is None
    assert dates.parse_moment(np.datetime64(10**6, "Y")).in_days(day_first=None) is None
    assert dates.parse_moment(datetime.datetime.max).in_days(day_first=None) is None, (
        "the last day is no use"
    )


@pytest.mark.parametrize(
    ("text", "objects"),
    [
        ("12:30", [datetime.time(12, 30)]),
        ("12:30:05.123456", [datetime.time(12, 30, 5, 123456)]),
        ("06:00+01:30", [datetime.time(
            6, tzinfo=datetime.timezone(datetime.timedelta(minutes=90)))]),
        ("1969-12-31 23:59:59.999999", [
            datetime.datetime(1969, 12, 31, 23, 59, 59, 999999),
            np.datetime64("1969-12-31T23:59:59.999999"),
            pd.Timestamp("1969-12-31 23:59:59.999999"),
        ]),
        ("2024-03-05 01:02:03.123456789", [
            np.datetime64("2024-03-05T01:02:03.123456789"),
            pd.Timestamp("2024-03-05 01:02:03.123456789"),
        ]),
        ("2024-03-05 01:02:03Z", [
            pd.Timestamp("2024-03-05 01:02:03", tz="UTC"),
            pd.Timestamp("2024-03-05 01:02:03", tz="UTC").tz_convert("Asia/Tokyo"),
            datetime.datetime(2024, 3, 5, 1, 2, 3, tzinfo=datetime.UTC),
        ]),
    ],
)  # fmt: skip
def test_a_text_and_an_object_of_one_moment_are_equal_to_the_last_bit(text, objects):
    for cell in objects:
        assert dates.parse_moment(cell) == dates.parse_moment(text)
        assert dates.label_moment(dates.parse_moment(cell)) == dates.label_moment(
            dates.parse_moment(text)
        )


def test_times_of_day_and_time_zones_are_told_apart():
    assert dates.parse_moment("12:30").is_time_of_day
    assert not dates.parse_moment(datetime.datetime(2024, 3, 5)).is_time_of_day
    aware = (
        "12:30Z",
        "2024-03-05 12:30 UTC",
        pd.Timestamp("2024-03-05", tz="Europe/Berlin"),
    )
    assert all(dates.parse_moment(cell).is_aware for cell in aware)
    naive = (
        "12:30",
        "2024-03-05 12:30",
        pd.Timestamp("2024-03-05"),
        datetime.date(2024, 3, 5),
    )
    assert not any(dates.parse_moment(cell).is_aware for cell in naive)


def test_durations_of_any_type():
    for cell in (
        datetime.timedelta(days=1, hours=12),
        np.timedelta64(36, "h"),
        np.timedelta64(36 * 3600 * 10**12, "ps"),
        pd.Timedelta(hours=36),
        pd.Timedelta(hours=36).as_unit("s"),
        str(pd.Timedelta(hours=36)),
        str(datetime.timedelta(hours=36)),
    ):
        assert dates.parse_duration(cell) == dates.Duration(1.5)
    back = pd.Timedelta(hours=-1, nanoseconds=7)
    assert (
        dates.parse_duration(str(back))
        == dates.parse_duration(back)
        == dates.parse_duration(back.to_numpy())
    )
    assert dates.parse_duration(np.timedelta64(2, "W")).days == 14
    for cell in (
        1.5,
        "1.5",
        "2 weeks",
        "12:30",
        "1 days 25:00:00",
        np.timedelta64(1, "M"),
        None,
    ):
        assert dates.parse_duration(cell) is None


def test_one_form_for_each_value_whatever_its_type():
    for cell in ("True", "true", " TRUE ", True, np.True_, b"true"):
        assert normalize_cell(cell) is True
    for cell in ("", "NA", "nan", None, math.nan, np.float32("nan"), pd.NA, pd.NaT, Decimal("sNaN"),
                 np.datetime64("NaT"), np.timedelta64("NaT")):  # fmt: skip
        assert normalize_cell(cell) is None
    for cell in ("yes", "T", "0.5", 1, 0.0):
        assert normalize_cell(cell) == cell
        assert type(normalize_cell(cell)) is type(cell)
    assert type(normalize_cell(np.str_("x"))) is str
    assert normalize_cell(datetime.timedelta(hours=6)) == dates.Duration(0.25)
    with pytest.raises(ValueError, match="which are not UTF-8 text; decode them"):
        normalize_cell(b"\xff")
    with pytest.raises(
        ValueError, match="'3 months', which has no fixed length; turn it into days"
    ):
        normalize_cell(np.timedelta64(3, "M"))


def test_a_boolean_among_equal_numbers_stays_one():
    assert [repr(cell) for cell in Cells.of([1, True, 1.0, 0, False, "1"]).values] == [
        "1", "True", "0", "False", "'1'",
    ]  # fmt: skip
    assert len(Cells.of(np.full(9, np.nan)).values) == 1
    for cell in ([1], np.ones(2)):
        with pytest.raises(TypeError, match="argument must be a string or a number"):
            Cells.of([cell])


def test_the_hour_that_a_clock_shows_twice_is_two_values():
    """Python compares these times as equal; they are an hour apart."""
    first = datetime.datetime(2024, 10, 27, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"))
    second = first.replace(fold=1)
    days = [
        dates.parse_moment(cell).in_days(day_first=None)
        for cell in Cells.of([first, second]).values
    ]
    assert len(days) == 2
    assert 24 * (days[1] - days[0]) == pytest.approx(1)


@pytest.mark.parametrize(
    "text",
    ["\u22123.2", "\u20131.5", "(1,234.50)", "1\u2009234", "1\u2019234.5", "-$3"],
)
def test_numbers_of_typesetting_and_of_accounts_look_like_numbers(text):
    assert looks_like_number(text)


@pytest.mark.parametrize("text", ["65+", "2-", "5-7", "(a)", "(5", "1\n234"])
def test_texts_that_do_not_look_like_numbers(text):
    assert not looks_like_number(text)
