"""Equal cells give equal numbers, whatever the source of the table."""

import datetime
import itertools

import numpy as np
import pytest
from encoders import fit_encoder
from sources import SOURCES, cells_of

from mmlp import tables
from mmlp.tables.kinds import Categories, Dates, LeftOut, Numbers

N = 24
DAY = datetime.date(2021, 11, 3)
TIME = datetime.datetime(2021, 11, 3, 17, 5, 9)
UTC = datetime.UTC
COLUMNS = {
    "booleans": [i % 3 == 0 for i in range(N)],
    "booleans with gaps": [None if i % 7 == 2 else i % 3 == 0 for i in range(N)],
    "booleans and numbers": [(True, 1, 0, False, 1.0)[i % 5] for i in range(N)],
    "integers": [(i * i) % 11 - 4 for i in range(N)],
    "integers with gaps": [None if i == 5 else i for i in range(N)],
    "numbers": [0.1 * i - 0.7 for i in range(N)],
    "numbers with gaps": [None if i % 5 == 1 else 1e-7 * i**3 for i in range(N)],
    "words": [("north", "south", "west")[i % 3] for i in range(N)],
    "words with gaps": [("north", None, "south", "Été")[i % 4] for i in range(N)],
    "words and booleans": [(True, "unknown", False)[i % 3] for i in range(N)],
    "words and numbers": [(1, "A", 2.5, True)[i % 4] for i in range(N)],
    "numbers as text": [("1", "2.0", "30")[i % 3] for i in range(N)],
    "dates": [DAY + datetime.timedelta(days=40 * i) for i in range(N)],
    "dates with gaps": [
        None if i == 3 else DAY + datetime.timedelta(days=i) for i in range(N)
    ],
    "moments": [TIME + datetime.timedelta(hours=7.3 * i) for i in range(N)],
    "moments with a zone": [
        TIME.replace(tzinfo=UTC) + datetime.timedelta(minutes=997 * i) for i in range(N)
    ],
    "times of day": [
        datetime.time(i % 24, 7 * i % 60, i, 125000 * (i % 2)) for i in range(N)
    ],
    "durations": [
        datetime.timedelta(days=1, hours=3 * i, microseconds=i) for i in range(N)
    ],
    "negative durations": [
        datetime.timedelta(days=-3, minutes=11 * i) for i in range(N)
    ],
}
KINDS = {
    "booleans": Numbers(0.0),
    "booleans with gaps": Numbers(0.0, 4),
    "booleans and numbers": Numbers(1.0),
    "words and booleans": Categories(("1", "unknown", "0")),
    "words and numbers": Categories(("1", "A", "2.5")),
}


def encoder_of(X, names, forced):
    return fit_encoder(cells_of(X), names, forced)


@pytest.mark.parametrize("name", COLUMNS)
def test_equal_cells_give_equal_numbers_for_all_pairs_of_sources(name, tmp_path):
    columns = {"x": [0.5 * i for i in range(N)], name: COLUMNS[name]}
    names = list(columns)
    tables = {source: make(columns, tmp_path) for source, make in SOURCES.items()}
    encoders = {}
    for source, table in tables.items():
        forced = [False, source == "pandas categorical"]
        encoders[source] = encoder_of(table, names, forced)
        numbers = {
            other: encoders[source].encode(cells_of(another), names)
            for other, another in tables.items()
        }
        for one, other in itertools.combinations(numbers, 2):
            assert np.array_equal(numbers[one], numbers[other]), (source, one, other)

    del encoders["pandas categorical"]  # a user who chooses this type asks for levels
    assert len({encoder.kinds_ for encoder in encoders.values()}) == 1, encoders
    kind = encoders["CSV"].kinds_[1]
    assert not isinstance(kind, LeftOut)
    assert kind == KINDS.get(name, kind)


def test_codes_are_the_same_levels_from_all_sources(tmp_path):
    names = [
        name for name in COLUMNS if "numbers" not in name and "negative" not in name
    ]
    columns = {"x": [0.5 * i for i in range(N)]}
    columns |= {name: [COLUMNS[name][i % 4] for i in range(N)] for name in names}
    forced = [name in names for name in columns]
    tables = [cells_of(make(columns, tmp_path)) for make in SOURCES.values()]
    encoders = [fit_encoder(X, list(columns), forced) for X in tables]
    assert len({encoder.kinds_ for encoder in encoders}) == 1
    assert all(isinstance(kind, Categories) for kind in encoders[0].kinds_[1:])
    numbers = [encoders[0].encode(X, list(columns)) for X in tables]
    assert all(np.array_equal(numbers[0], other) for other in numbers[1:])


def test_kinds_of_times_and_durations(tmp_path):
    def kind(name):
        return encoder_of(
            SOURCES["pandas"]({name: COLUMNS[name]}, tmp_path), [name], [False]
        ).kinds_[0]

    clock = kind("times of day")
    assert isinstance(clock, Dates)
    assert (clock.alone, clock.clock, clock.season, clock.aware) == (
        True,
        True,
        False,
        False,
    )
    assert kind("moments with a zone").aware
    assert not kind("moments").aware
    durations = kind("durations")
    assert isinstance(durations, Numbers)
    assert durations.durations
    assert durations.fill == pytest.approx(1 + 3 * 11.5 / 24)


def test_long_codes_keep_their_digits_from_all_sources(tmp_path):
    """A float holds no whole number of more than 53 bits, so that two codes would be one level."""
    codes = [2**60 + 1 + i % 3 for i in range(N)]
    columns = {"x": [0.5 * i for i in range(N)], "code": codes}
    for source, make in SOURCES.items():
        if source in ("CSV", "CSV of pandas"):
            make(columns, tmp_path)
            X = tables.read(tmp_path / "table.csv", has_codes=True).select_columns(
                list(columns)
            )
        elif source == "NumPy native":  # NumPy makes floats of integers beside floats
            continue
        else:
            X = make(columns, tmp_path)
        found = encoder_of(X, list(columns), [False, True]).kinds_[1]
        assert found == Categories(tuple(map(str, codes[:3]))), source
