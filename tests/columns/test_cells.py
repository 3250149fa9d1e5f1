"""Cells of tables: missing, numbers, dates."""

import datetime
import math

import numpy as np
import pandas as pd
import pytest

from mmlp.columns import dates
from mmlp.columns.cells import Cells, decimal_commas, missing, number

DAY = 19787.0  # 2024-03-05


@pytest.mark.parametrize(
    "cell", ["", " ", "NA", "n/a", "NaN", "null", "None", "?", "-", None, math.nan, pd.NA, pd.NaT]
)
def test_missing_cells(cell):
    assert missing(cell)


@pytest.mark.parametrize("cell", ["0", 0, False, "no", "inf", math.inf, "nano", np.float32(1)])
def test_cells_that_are_not_missing(cell):
    assert not missing(cell)


def test_numbers_of_any_type():
    assert [number(cell) for cell in ("-1.5e3", 2, np.int8(3), np.True_, "1_0", "x", "")] == [
        -1500, 2, 3, 1, None, None, None,
    ]  # fmt: skip


def test_a_column_by_its_different_values():
    cells = Cells.of(["b", "a ", "b", None])
    assert cells.values == ["b", "a", None]
    assert cells.counts.tolist() == [2, 1, 1]
    assert cells.row(1) == 1
    assert cells.spread([1.0, 2.0, None]).tolist()[:3] == [1, 2, 1]
    with pytest.raises(TypeError, match="argument must be a string or a number"):
        Cells.of([{}])


def test_decimal_commas_are_not_taken_for_thousands():
    assert decimal_commas(["1,5", "2"])
    assert decimal_commas(["1,500", "2,25"])
    assert not decimal_commas(["1,500", "2,250"]), "it may be either"
    assert not decimal_commas(["1.5"])
    assert not decimal_commas(["1,5,2"])
    assert decimal_commas(["0,125"])
    assert not decimal_commas(["999,50", "1.234"])


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
    found = dates.written(text)
    assert found is not None
    assert dates.days(found, first=True) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(
    "text", ["31.02.2024", "2024-13-01", "5 Foo 2024", "25:00", "12:60", "13:00 pm", "2024-00-10"]
)
def test_what_looks_like_a_date_and_is_none(text):
    found = dates.written(text)
    assert found is not None
    assert dates.days(found, first=True) is None


@pytest.mark.parametrize("text", ["1.2.3", "20240305", "north", "2024", "1/2", "2024-03/05", ""])
def test_what_does_not_look_like_a_date(text):
    assert dates.written(text) is None


def test_the_order_of_day_and_month_comes_from_the_whole_column():
    def orders(*texts):
        return dates.day_first(dates.written(text) for text in texts)

    assert orders("05/03/2024", "25/03/2024") == {True}
    assert orders("05/03/2024", "03/25/2024") == {False}
    assert orders("05/03/2024", "2024-01-31") == {True, False}
    assert orders("25/03/2024", "03/25/2024") == set()
    date = dates.written("05/03/2024")
    assert dates.days(date, first=True) == DAY
    assert dates.shown(dates.days(date, first=False)) == "2024-05-03"


def test_types_for_dates():
    east = datetime.timezone(datetime.timedelta(hours=6))
    for cell in (
        datetime.date(2024, 3, 5),
        datetime.datetime(2024, 3, 5),
        datetime.datetime(2024, 3, 5, 6, tzinfo=east),
        np.datetime64("2024-03-05"),
        np.datetime64("2024-03-05T00:00:00.000000000"),
        pd.Timestamp("2024-03-05"),
    ):
        assert dates.instant(cell) == DAY
    assert dates.instant(datetime.time(6)) == 0.25
    assert dates.instant(pd.Period("2024-03-05", "D")) == DAY
    assert dates.instant(3) is None
