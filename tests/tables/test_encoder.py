"""Columns of any kind as numbers: what each becomes, and all that is wrong in one answer."""

import datetime
import json
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from encoders import fit_encoder
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder

from mmlp.tables.encoder import ColumnsWarning, TableEncoder, find_incomplete_rows
from mmlp.tables.kinds import Categories, Dates, LeftOut, Numbers
from mmlp.tables.problems import ProblemsError, Remedy
from mmlp.tables.summary import needs_summary, summarize_columns


def table(**columns):
    n = max(map(len, columns.values()))
    X = np.empty((n, len(columns)), object)
    for j, column in enumerate(columns.values()):
        X[:, j] = [*column, *[None] * (n - len(column))]
    return X, list(columns)


def encoded(options=None, forced=(), **columns):
    X, names = table(**columns)
    is_category = [name in forced for name in names]
    return fit_encoder(X, names, is_category, **(options or {}))


def kind(cells, **options):
    return encoded(options, a=cells, b=range(len(cells))).kinds_[0]


def test_numbers_are_filled_and_flagged_as_scikit_learn_does():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 3))
    X[rng.random(X.shape) < 0.2] = np.nan
    X[:, 2] = np.arange(50)
    names = ["a", "b", "c"]
    ours = fit_encoder(X, names)
    theirs = SimpleImputer(strategy="median", add_indicator=True).fit(X)
    assert np.array_equal(ours.encode(X, names), theirs.transform(X))
    whole = X[~np.isnan(X).any(axis=1)]
    assert 0 < len(whole) < 50
    assert np.array_equal(ours.encode(whole, names), theirs.transform(whole))
    assert ours.indicator_mask.tolist() == [False] * 3 + [True] * 2
    text = X.astype(object)
    text[np.isnan(X)] = ""
    from_text = fit_encoder(np.where(text == "", "", X.astype(str)), names)
    assert np.array_equal(from_text.encode(text, names), ours.encode(X, names))


def test_text_becomes_indicators_and_rare_levels_are_one():
    cells = ["x"] * 10 + ["y"] * 6 + ["z"] * 2 + ["w"] * 3 + [""] * 5
    X, names = table(a=cells)
    encoder = fit_encoder(X, names)
    assert encoder.kinds_ == (Categories(("x", "y", "(missing)"), 2, 5, ("z", "w")),)
    pooled = [
        [{"z": "rare", "w": "rare", "": "gone"}.get(cell, cell)] for cell in cells
    ]
    theirs = OneHotEncoder(categories=[["x", "y", "gone", "rare"]], sparse_output=False)
    assert np.array_equal(
        encoder.encode(X, names), theirs.fit_transform(np.array(pooled, object))
    )
    assert kind([f"level {i % 10000}" for i in range(60000)]).rare == 10000 - 30


def test_words_that_training_had_not_are_named():
    X, names = table(
        a=["x"] * 6 + ["y"] * 6, b=["u"] * 6 + ["v"] * 5 + ["w"], c=range(12)
    )
    encoder = fit_encoder(X, names)
    new, _ = table(a=["new"], b=["newer"], c=[None])
    with pytest.warns(ColumnsWarning) as found:
        row = encoder.encode(new, names)
    texts = [str(warning.message) for warning in found]
    assert (
        "column 'a' has values that were not in training: 'new'; they belong to none"
        in texts[1]
    )
    assert "'newer'; they count as rare ones." in texts[2]
    assert texts[0] == (
        "column 'c' has 1 missing cells, but had none in training: its median is used there."
    )
    assert row.tolist() == [[5.5, 0, 0, 0, 0, 1]]
    with pytest.warns(ColumnsWarning, match="'5', '6', '7', '8', '9' and 3 more"):
        encoder.encode(table(a=list("56789abc"), b=["u"] * 8, c=range(8))[0], names)


def test_dates_become_days_with_season_and_time_of_day_where_they_span_them():
    days = [f"2020-01-{i:02d}" for i in range(1, 29)]
    assert kind(days) == Dates(18262, 18289, 18275.5, None, False, False, False)
    years = [f"{year}-07-01" for year in range(2000, 2020)]
    assert kind(years).season
    assert not kind(years).clock
    hours = [f"2020-01-01 {h:02d}:30" for h in range(24)]
    assert not kind(hours).clock, "all of one day: the number says it"
    assert kind([*hours, "2020-01-03"]).clock
    clocks = kind([f"{h:02d}:30" for h in range(24)])
    assert (clocks.alone, clocks.clock, clocks.season) == (True, True, False)
    encoder = encoded(a=years)
    found = encoder.encode(table(a=["2000-07-01", "2010-07-01"])[0], ["a"])
    assert found[:, 0].tolist() == [0, 3652]
    assert np.allclose(np.hypot(found[:, 1], found[:, 2]), 1)
    assert np.allclose(found[0, 1:], found[1, 1:], atol=0.02), "the same season"
    gap = encoded(a=[*years, ""])
    assert np.array_equal(gap.encode(table(a=[""])[0], ["a"])[0, :3], gap.fill_values)
    assert np.hypot(*gap.fill_values[1:]) == pytest.approx(1), (
        "what stands for a missing date is a date"
    )


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        ([""] * 9, LeftOut("no values", 9)),
        (["x"] * 9, LeftOut("always 'x'")),
        ([f"id {i}" for i in range(9)], LeftOut("9 different texts, none in 5 rows")),
        (["1,5", "2,25", "3"], Numbers(2.25, commas=True, binary=False)),
        (["1"] * 9 + ["A"] * 9, Categories(("1", "A"))),
        ([True, False, True], Numbers(1.0)),
        (["1"] * 60 + ["2"] * 60 + ["A"] * 5, Categories(("1", "2", "A"))),
        (["-0,132", "0,512", "1,250"], Numbers(0.512, commas=True, binary=False)),
        (
            [Decimal("1.5"), Decimal("2.5"), Decimal("NaN")],
            Numbers(2.0, 1, binary=False),
        ),
        (
            ["x"] * 5 + ["(rare)"] * 5 + ["y"],
            Categories(("x", "'(rare)'"), 1, 0, ("y",)),
        ),
    ],
)
def test_what_a_column_is(cells, expected):
    assert kind(cells) == expected


@pytest.mark.parametrize(
    ("cells", "text"),
    [
        ([*range(99), "err"], "row 99 (from 0), column 'a': 'err' is not a number; correct it"),
        ([*range(99), "err", "err", "bad"], "'err' is not a number; correct it, or empty the cell,"
         " or leave the column out (2 more such cells)."),
        (["1", "inf", "inf"], "row 1 (from 0), column 'a': 'inf' is not finite; correct it"),
        ([*(f"2020-01-{i:02d}" for i in range(1, 32)), "nodate"], "is not a date like the others"),
        (["05/03/2024", "06/03/2024"], "'05/03/2024' may begin with the day or the month, and no "
         "cell tells; set `dates` to"),
        (["1,234", "2,500"], "'1,234' looks like a number in a form that is not read; write 1234"),
        (["999,50", "1.234", "12,25"], "looks like a number"),
        (["12 %", "7 %", "8"], "looks like a number"),
        ([0.5, "1,234"], "'1,234' looks like a number in a form that is not read"),
        (["05/13/2024", "13/05/2024"], "some dates begin with the day, others with the month"),
        ([10**400, 1, 2], "is not finite"),
    ],
)  # fmt: skip
def test_cells_that_do_not_belong_are_named(cells, text):
    with pytest.raises(ProblemsError) as info:
        kind(cells)
    assert text in str(info.value)


def test_all_problems_are_told_at_once():
    with pytest.raises(ProblemsError) as info:
        encoded(
            {"missing": "refuse", "categories": "refuse", "dates": "refuse"},
            a=[1, None, 3],
            b=["x", "y", "x"],
            c=["2020-01-01"] * 3,
        )
    assert [(p.column, p.row) for p in info.value.problems] == [
        ("b", 0),
        ("c", 0),
        ("a", 1),
    ]
    assert str(info.value).startswith(
        "X has 3 problems:\n  row 0 (from 0), column 'b': 'x' is te"
    )


def test_options():
    words, days = ["x"] * 9 + ["y"] * 9, ["05/03/2024"] * 9 + ["06/03/2024"] * 9
    assert kind(words, categories="ignore") == LeftOut("text")
    assert kind(days, dates="ignore") == LeftOut("dates")
    assert kind(days, dates="day-first").first == 19787
    assert kind(days, dates="month-first").first == 19787 + 59
    codes = encoded(forced=["a"], a=[1] * 9 + [2] * 9, b=range(18))
    assert codes.kinds_[0] == Categories(("1", "2"))
    numbers = fit_encoder(np.repeat([[1.0], [2.0]], 9, 0), ["a"], [True])
    assert numbers.kinds_[0] == Categories(("1", "2"))
    with pytest.raises(
        ValueError, match=r"no input has anything to learn from \(a: no"
    ):
        encoded(a=[""] * 5)


def test_codes_are_levels_by_their_numbers():
    X, names = table(code=["1", "2"] * 6, b=range(12))
    encoder = fit_encoder(X, names, [True, False])
    numbers = np.array([[1.0, 5.0], [2.0, 6.0]])
    assert np.array_equal(
        encoder.encode(numbers, names),
        encoder.encode(table(code=[1, "2.0"], b=[5, 6])[0], names),
    )


def test_without_filling_a_missing_value_is_refused_when_predicting():
    encoder = encoded({"missing": "refuse"}, a=[1, 2, 3])
    with pytest.raises(
        ProblemsError, match=r"row 1 \(from 0\), column 'a': the value is missing"
    ):
        encoder.encode(table(a=[1, None])[0], ["a"])
    assert encoded({"missing": "drop"}, a=[1, 2]).fills_missing, (
        "rows are left out of training alone"
    )
    kinds = encoded(a=[1, None]).kinds_
    assert find_incomplete_rows(kinds, table(a=[1, None])[0]).tolist() == [0, 1]


def test_it_goes_through_json_and_nothing_else_comes_back():
    encoder = encoded(
        a=[1, 2, None], b=["x"] * 6 + ["y"] * 6, c=["2020-01-01"] * 6, d=[None] * 6
    )
    plain = json.loads(json.dumps(encoder.to_json()))
    assert TableEncoder.from_json(plain).kinds_ == encoder.kinds_
    numbers, _, days, _ = plain["kinds"]
    for wrong in (
        numbers | {"fill": "x" * 3, "missing": [1]},
        numbers | {"fill": float("nan")},
        {"kind": "numbers", "fill": 1.0},
        {"kind": "os.system"},
        numbers | {"fill": 10**400},
        numbers | {"missing": -3},
        numbers | {"fill": True},
        numbers | {"durations": 1},
        numbers | {"durations": True, "binary": True},
        numbers | {"binary": None},
        {"kind": "words", "levels": ["x", "x"], "rare": 0, "missing": 0, "others": []},
        {
            "kind": "words",
            "levels": ["x", "(rare)"],
            "rare": 0,
            "missing": 0,
            "others": [],
        },
        {"kind": "words", "levels": "xyz", "rare": 0, "missing": 0, "others": []},
        {"kind": "words", "levels": ["x"], "rare": 0, "missing": 0, "others": 3},
        {"kind": "words", "levels": ["True"], "rare": 0, "missing": 0, "others": []},
        {"kind": "left out", "why": 3, "missing": 0},
        days | {"last": 1e308},
        days | {"day_first": "yes"},
        days | {"aware": None},
    ):
        with pytest.raises((ValueError, KeyError)):
            TableEncoder.from_json({"kinds": [wrong], "fills": True})


def test_a_summary_for_people():
    columns = {f"x{i}": range(20) for i in range(10)}
    encoder = encoded(**columns, gap=[*range(19), ""], station=["a", "b"] * 10, void=[""] * 20,
                      day=[f"{y}-01-01" for y in range(2000, 2020)])  # fmt: skip
    lines = summarize_columns(encoder, [*columns, "gap", "station", "void", "day"])
    assert lines == [
        "numbers   x0, x1, x2, x3, x4, x5, x6, x7, and 2 more, gap (1 missing, filled by the "
        "median, with an indicator)",
        "text      station (2 levels)",
        "dates     day (2000-01-01 to 2019-01-01; as days, season)",
        "left out  void (no values)",
    ]
    assert needs_summary(encoder)
    assert not needs_summary(encoded(a=[1, 2]))


@pytest.mark.parametrize(
    ("n_missing", "facts"),
    [
        (4, "2 levels; 1 rare ones pooled; 4 missing, pooled with the rare ones"),
        (5, "3 levels; 5 missing, a level of their own"),
    ],
)
def test_a_summary_tells_what_becomes_of_missing_text(n_missing, facts):
    encoder = encoded(a=[*["x", "y"] * 6, *[""] * n_missing])
    assert summarize_columns(encoder, ["a"]) == [f"text      a ({facts})"]


ISO_DAYS = [f"2024-{month:02d}-{day:02d}" for month in (3, 4) for day in range(1, 29)]


def predict(encoder, *cells):
    return encoder.encode(table(a=cells)[0], ["a"])[:, 0].tolist()


def test_a_prediction_refuses_ambiguous_dates_as_a_fit_does():
    encoder = encoded(a=ISO_DAYS)
    with pytest.raises(ProblemsError) as info:
        predict(encoder, "2024-03-07", "03/05/2024", "04/05/2024")
    (problem,) = info.value.problems
    assert (problem.kind, problem.column) == ("ambiguous date", "a")
    assert (problem.row, problem.value, problem.n_more) == (1, "03/05/2024", 1)
    assert problem.remedies == (Remedy.WRITE_ISO_DATE, Remedy.REFIT_WITH_DATE_ORDER)
    with pytest.raises(
        ProblemsError, match="some dates begin with the day, others with the month"
    ):
        predict(encoder, "25/03/2024", "03/26/2024")
    assert predict(encoder, "25/03/2024", "05/03/2024") == [24, 4], (
        "another cell tells, as in fit"
    )
    assert predict(encoder, "03/25/2024", "03/05/2024") == [24, 4]
    assert predict(encoder, "03/03/2024") == [2], "the same in both orders"
    told = encoded({"dates": "month-first"}, a=ISO_DAYS)
    assert predict(told, "03/05/2024") == [4]
    seen = encoded(a=["25/03/2024", "01/03/2024"])
    assert predict(seen, "05/03/2024") == [4], "training told"
    again = TableEncoder.from_json(json.loads(json.dumps(encoder.to_json())))
    with pytest.raises(ProblemsError, match="may begin with the day or the month"):
        predict(again, "03/05/2024")


def test_the_cell_that_is_ambiguous_is_the_one_that_is_named():
    with pytest.raises(
        ProblemsError, match=r"row 2 \(from 0\), column 'a': '05/04/2024' may begin"
    ):
        kind(["2024-01-02", "2024-01-03", "05/04/2024"])


NAIVE = [f"2024-03-{day:02d} 06:00" for day in range(1, 29)]
AWARE = [f"{text}+02:00" for text in NAIVE]


@pytest.mark.parametrize(
    ("training", "cell", "text"),
    [
        (NAIVE, AWARE[3], "'2024-03-04 06:00+02:00' has a time zone, but this column has none in "
         "training; write the local time of the training data, without a zone."),
        (AWARE, NAIVE[3], "'2024-03-04 06:00' has no time zone, but this column has one in "
         "training; add one, such as 2024-03-05 14:30+01:00."),
        (AWARE, "2024-03-04", "'2024-03-04' has no time zone"),
        (NAIVE, pd.Timestamp("2024-03-04 06:00", tz="UTC"), "has a time zone"),
        (AWARE, pd.Timestamp("2024-03-04 06:00"), "has no time zone"),
        (AWARE, np.datetime64("2024-03-04T06:00"), "has no time zone"),
        ([f"{hour:02d}:00" for hour in range(24)], "12:00Z", "has a time zone"),
    ],
)  # fmt: skip
def test_times_with_and_without_a_time_zone_are_not_mixed(training, cell, text):
    encoder = encoded(a=training)
    with pytest.raises(ProblemsError) as info:
        predict(encoder, training[0], cell)
    assert str(info.value).startswith("X, row 1 (from 0), column 'a': ")
    assert text in str(info.value)
    with pytest.raises(ProblemsError, match=r"column 'a': .* time zone"):
        kind([*training, cell])
    assert kind([*training, cell], dates="ignore") == LeftOut("dates")
    again = TableEncoder.from_json(json.loads(json.dumps(encoder.to_json())))
    with pytest.raises(ProblemsError, match="time zone"):
        predict(again, cell)


def test_time_zones_are_converted():
    encoder = encoded(a=AWARE)
    assert predict(encoder, "2024-03-01 04:00Z", "2024-03-01 23:00-05:00") == [0, 1]
    assert "UTC" in summarize_columns(encoder, ["a"])[0]


HOURS = [datetime.timedelta(hours=hour) for hour in range(25)]


def test_durations_are_numbers_of_days():
    encoder = encoded(a=[*HOURS, None])
    assert encoder.kinds_ == (Numbers(0.5, 1, durations=True, binary=False),)
    cells = (HOURS[6], np.timedelta64(6, "h"), pd.Timedelta(hours=6), "0 days 06:00:00")
    assert predict(encoder, *cells) == [0.25] * 4
    line = "numbers   a (durations in days; 1 missing, filled by the median, with an indicator)"
    assert summarize_columns(encoder, ["a"]) == [line]
    assert needs_summary(encoded(a=HOURS))
    array = np.arange(24).astype("timedelta64[h]")[:, None]
    assert encoder.encode(array, ["a"])[:, 0].tolist() == [
        hour / 24 for hour in range(24)
    ]
    again = TableEncoder.from_json(json.loads(json.dumps(encoder.to_json())))
    assert again.kinds_ == encoder.kinds_


def test_durations_are_not_mixed_with_numbers_that_have_no_unit():
    with pytest.raises(
        ProblemsError, match="'6' is not a duration like those of training; give"
    ):
        predict(encoded(a=HOURS), 6)
    with pytest.raises(
        ProblemsError, match=r"'6\.0' is not a duration like those of training"
    ):
        encoded(a=HOURS).encode(np.full((3, 1), 6.0), ["a"])
    with pytest.raises(
        ProblemsError, match=r"'0\.25 days' is a duration in a column of numbers"
    ):
        predict(encoded(a=range(24)), HOURS[6])
    with pytest.raises(
        ProblemsError, match=r"row 25 .*'6' is not a duration like others of the"
    ):
        kind([*HOURS, 6, 7])
    with pytest.raises(ValueError, match="no fixed length; turn it into days"):
        kind([np.timedelta64(3, "M")])


def test_booleans_are_the_numbers_1_and_0():
    for cells in (
        ["True", "False", "true"],
        [True, False, True],
        [1, 0, "TRUE"],
        [1, 0, 1],
    ):
        encoder = encoded(a=cells)
        assert encoder.kinds_ == (Numbers(1.0),)
        assert predict(encoder, True, "false", np.True_, 1, "1.0", False) == [
            1,
            0,
            1,
            1,
            1,
            0,
        ]
    assert kind(["yes", "no"] * 9) == Categories(("yes", "no")), (
        "other words stay words"
    )


def test_a_boolean_among_other_numbers_is_a_mistake():
    text = "'True' stands in a column of numbers other than 0 and 1; correct it, or empty the cell"
    for cell in ("TRUE", True, np.True_):
        with pytest.raises(ProblemsError, match=f"row 3 .*{text}"):
            kind([0, 1, 2, cell])
        with pytest.raises(ProblemsError, match=f"row 0 .*{text}"):
            predict(encoded(a=range(9)), cell)
        with pytest.raises(ProblemsError, match=f"row 0 .*{text}"):
            predict(fit_encoder(np.arange(9.0)[:, None], ["a"]), cell)
    codes = encoded(forced=["a"], a=[1, 2, True] * 6, b=range(18))
    assert codes.kinds_[0] == Categories(("1", "2"))


def test_a_stray_word_in_a_column_of_numbers_is_refused_by_its_row():
    """At most three cells and at most 2 %: more of them make a column of few values text."""
    cylinders = ["4", "6", "8"] * 50
    for strays in ([7], [7, 20], [7, 20, 149]):
        cells = list(cylinders)
        for row in strays:
            cells[row] = "Total"
        with pytest.raises(ProblemsError) as info:
            kind(cells)
        (problem,) = info.value.problems
        assert [problem.row, *problem.other_rows] == strays
        assert (problem.kind, problem.value) == ("not a number", "Total")
        assert Remedy.DECLARE_CATEGORIES in problem.remedies
        assert kind([cells[row] for row in range(150) if row not in strays]) == Numbers(
            6.0, binary=False
        )
        words = encoded(forced=["a"], a=cells, b=range(150)).kinds_[0]
        assert isinstance(words, Categories)
        assert ({*words.levels}, words.others) == ({"4", "6", "8"}, ("Total",))
        left_out = {"categories": "ignore"}
        with pytest.raises(
            ProblemsError, match=r"or leave the column out( \(also .*\))?\.$"
        ):
            encoded(left_out, a=cells, b=range(150))
    assert "(also row 20 (from 0) and row 149 (from 0))" in str(info.value)
    assert isinstance(kind(["Total", *cylinders[:48]]), Categories), (
        "1 of 49 is more than 2 %"
    )
    assert isinstance(kind(["x", "y", "z", "u", *cylinders * 9]), Categories), (
        "more than three"
    )
    with pytest.raises(
        ProblemsError, match=r"row 0 .*'x' is not a number.*row 1 .* row 2 \(from"
    ):
        kind(["x", "y", "z", *cylinders])


def test_missing_cells_do_not_hide_a_stray_word():
    cells = ["4", "6", "8", ""] * 49
    with pytest.raises(
        ProblemsError, match=r"row 3 \(from 0\).*'unknown' is not a number"
    ):
        kind([*cells[:3], "unknown", *cells])
    assert isinstance(kind(["4", "6"] * 20 + ["unknown"] + [""] * 99), Categories), (
        "1 of 41 values"
    )


def test_a_stray_word_among_dates_and_decimal_commas():
    with pytest.raises(
        ProblemsError, match=r"row 60 .*'unknown' is not a date like the others"
    ):
        kind(["2024-03-05", "2024-03-06", "2024-03-07"] * 20 + ["unknown"])
    for stray in ("n.v.", "none of both, or", "unknown"):
        with pytest.raises(
            ProblemsError, match=rf"row 60 \(from 0\).*'{stray}' is not a number"
        ):
            kind(["3,5", "4,5", "5,5"] * 20 + [stray])


def test_an_array_of_booleans_is_refused_where_its_text_is():
    encoder, names = encoded(a=[20, 30, 40, 50]), ["a"]
    for X in (np.array([[True]]), np.array([["True"]]), np.array([[True]], object)):
        with pytest.raises(
            ProblemsError, match="'True' stands in a column of numbers other"
        ):
            encoder.encode(X, names)


@pytest.mark.parametrize("text", ["\u2212{}.5", "({}.5)", "{}\u2009234", "{}\u2019234"])
def test_numbers_in_forms_that_are_not_read_are_not_left_out(text):
    cells = [text.format(i) if i % 3 == 0 else f"{i}.25" for i in range(1, 60)]
    with pytest.raises(
        ProblemsError, match="looks like a number in a form that is not read"
    ):
        kind(cells)


@pytest.mark.parametrize("form", [int, str, Decimal, np.int64])
def test_codes_beyond_the_floats_are_different_levels(form):
    cells = [form(9007199254740992 + i % 3) for i in range(18)]
    found = encoded(forced="a", a=cells).kinds_[0]
    assert found == Categories(
        ("9007199254740992", "9007199254740993", "9007199254740994")
    )
    assert Categories.name_level("1" * 5000) == "inf"
    assert Categories.name_level("0" * 5000 + "7") == "7"
    assert (
        Categories.name_level(1e22) == Categories.name_level("1e22") == "1" + "0" * 22
    )


def test_commas_between_thousands_are_not_the_decimal_commas_of_training():
    encoder, names = encoded(a=["0,5", "1,25", "12,5"] * 4), ["a"]
    cells = {form: table(a=[form, "2.5"])[0] for form in ("1,234", "12,5", "1234")}
    with pytest.raises(
        ProblemsError, match=r"'1,234' may be 1\.234 as in training or 1234, as"
    ):
        encoder.encode(cells["1,234"], names)
    assert encoder.encode(cells["12,5"], names).ravel().tolist() == [12.5, 2.5]
    assert encoder.encode(cells["1234"], names).ravel().tolist() == [1234, 2.5]
    assert encoder.encode(table(a=["1,234", "7"])[0], names).ravel().tolist() == [
        1.234,
        7,
    ]
