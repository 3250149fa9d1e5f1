"""Tables: what can be read is read as it stands; what cannot is told in one line, with a remedy."""

import gzip
import os
import threading

import numpy as np
import pytest
from table_files import TABLE, read

from mmlp import tables
from mmlp.tables.text_files import find_name_faults

ARFF = """% made by hand
@RELATION t
@attribute a real
@attribute 'b' numeric
@ATTRIBUTE\tc integer

@Data
1,2,3
4,'5',6
"""


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("t.csv", TABLE),
        ("T.CSV", TABLE),
        ("t.csv", TABLE.replace(",", ";")),
        ("t.csv", TABLE.replace(",", "\t")),
        ("t.csv", TABLE.replace(",", " , ")),
        ("t.csv", TABLE.replace("\n", "\r\n")),
        ("t.csv", TABLE.replace("\n", "\r")),
        ("t.csv", "\ufeff" + TABLE),
        ("t.csv", "\n" + TABLE.replace("\n4", "\n\n4") + "\n \n"),
        ("t.csv", '"a","b","c"\n"1",2,3\n4,"5",6'),
        ("t.csv.gz", gzip.compress(TABLE.encode(), mtime=0)),
        ("t.arff", ARFF),
    ],
)  # fmt: skip
def test_text_in_its_usual_dialects(name, content, tmp_path):
    table = read(tmp_path, name, content)
    assert table.names == ("a", "b", "c")
    assert len(table) == 2
    numbers, problems = table.read_numbers(["c", "a"])
    assert numbers.tolist() == [[3, 1], [6, 4]]
    assert numbers.dtype == np.float64
    assert not problems


def test_quoted_names_and_values_may_hold_separators_and_line_breaks(tmp_path):
    table = read(tmp_path, "t.csv", '"wind, speed","note"\n1.5,"two\nlines"\n2.5,ok\n')
    assert table.names == ("wind, speed", "note")
    assert table.select_columns(["wind, speed", "note"]).tolist() == [
        ["1.5", "two\nlines"],
        ["2.5", "ok"],
    ]
    assert [table.describe_place(row) for row in (0, 1)] == ["line 2", "line 4"]
    table = read(
        tmp_path,
        "t.arff",
        "@attribute 'wind speed' numeric\n@attribute note string\n@data\n1.5,'a, b'\n",
    )
    assert table.names == ("wind speed", "note")
    assert table.select_columns(["wind speed", "note"]).tolist() == [["1.5", "a, b"]]


def test_arrays_are_tables_with_numbered_columns(tmp_path):
    X, y = np.arange(6).reshape(3, 2), np.array([1.5, 2.5, 3.5])
    table = read(tmp_path, "t.npy", X)
    assert (table.names, table.targets) == (("x0", "x1"), ())
    assert table.select_columns(["x1"]).tolist() == [[1], [3], [5]]
    table = read(tmp_path, "t.npz", {"X": X, "y": y, "other": np.array([object()])})
    assert (table.names, table.targets) == (("x0", "x1", "y0"), ("y0",))
    assert table.select_columns(["y0", "x0"]).tolist() == [[1.5, 0], [2.5, 2], [3.5, 4]]
    assert read(tmp_path, "t.npz", {"X": X, "y": np.stack([y, y], 1)}).targets == (
        "y0",
        "y1",
    )


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("inf", "'inf' is not finite; correct it, or remove the row."),
        ("1e999", "'1e999' is not finite"),
        (
            "anna",
            "'anna' is not a number; correct it, or empty the cell, or leave the column out.",
        ),
        ("2026-11-15", "'2026-11-15' is not a number"),
        ('"1,500"', "'1,500' is not a number"),
        ("0x10", "'0x10' is not a number"),
    ],
)
def test_a_cell_that_is_no_finite_number_is_named_by_line_and_column(
    cell, message, tmp_path
):
    table = read(tmp_path, "t.csv", f"a,b\n1,2\n3,{cell}\n")
    with pytest.raises(ValueError, match=r"t\.csv, line 3, column 'b': ") as info:
        table.check_usable(table.read_numbers(["a", "b"])[1])
    assert message in str(info.value)
    table = read(tmp_path, "t.csv", f"a,b\n1,{cell}\n3,{cell}\n{cell},4")
    with pytest.raises(
        ValueError, match=r"line 2, column 'b': .* \(1 more such cells\)\.$"
    ):
        table.check_usable(table.read_numbers(["b"])[1])
    with pytest.raises(
        ValueError, match=r"t\.csv has 2 problems:\n  line 2.*\n  line 4"
    ):
        table.check_usable(table.read_numbers(["b", "a"])[1])


@pytest.mark.parametrize("cell", ["", "NA", "nan", "?", "n/a", "NULL"])
def test_a_missing_value_is_nan(cell, tmp_path):
    table = read(tmp_path, "t.csv", f"a,b\n1,2\n3,{cell}\n")
    assert np.isnan(table.read_numbers(["b"])[0]).tolist() == [[False], [True]]


def test_a_blank_line_is_a_missing_value_where_there_is_one_column(tmp_path):
    table = read(tmp_path, "t.csv", "a\n1\n\n2\n\n")
    assert np.isnan(table.read_numbers(["a"])[0]).tolist() == [[False], [True], [False]]


def test_all_that_is_wrong_with_a_file_is_told_at_once(tmp_path):
    with pytest.raises(ValueError, match="has 4 problems") as info:
        read(tmp_path, "t.csv", "a,,a\n1,2\n1,2,3\n1,2,3,4\n")
    assert [line.split(":")[0].strip() for line in str(info.value).splitlines()[1:]] == [
        "line 1", "line 1", "line 2", "line 4",
    ]  # fmt: skip
    with pytest.raises(ValueError, match="has 50 problems") as info:
        read(tmp_path, "t.csv", "a,b\n" + "1\n" * 50)
    assert str(info.value).endswith("\n  and 38 more.")


def test_columns_that_are_not_there_or_asked_for_twice(tmp_path):
    table = read(tmp_path, "t.csv", "speed,direction\n1,2\n")
    with pytest.raises(
        ValueError, match=r"t\.csv has no column 'sped'; did you mean 'speed'\?"
    ):
        table.select_columns(["sped"])
    with pytest.raises(
        ValueError, match=r"t\.csv has no column 'y'; it has 'speed', 'direction'\.$"
    ):
        table.select_columns(["y"])
    with pytest.raises(ValueError, match="the column 'speed' is asked for twice"):
        table.select_columns(["speed", "speed"])
    table = read(tmp_path, "t.npy", np.ones((2, 30)))
    with pytest.raises(ValueError, match=r"it has 'x0', .*'x11' and 18 more\.$"):
        table.select_columns(["target"])


def test_what_the_system_refuses_is_an_oserror(tmp_path):
    for name in ("t.csv", "t.npz"):
        with pytest.raises(FileNotFoundError):
            tables.read(tmp_path / name)
        (tmp_path / name).mkdir()
        with pytest.raises(IsADirectoryError):
            tables.read(tmp_path / name)


def test_matrices_come_from_an_npz_only(tmp_path):
    X, Y = np.ones((3, 2)), np.broadcast_to(np.eye(2), (3, 2, 2))
    np.savez(tmp_path / "t.npz", X=X, Y=Y)
    assert np.array_equal(tables.read_matrices(tmp_path / "t.npz")[1], Y)
    with pytest.raises(
        ValueError,
        match=r"t\.csv cannot hold matrices: they are read from an \.npz with X",
    ):
        tables.read_matrices(tmp_path / "t.csv")
    np.savez(tmp_path / "t.npz", X=X, Y=Y[:, :1])
    with pytest.raises(
        ValueError, match=r"Y has the shape \(3, 1, 2\); it must be \(n, d, d\)"
    ):
        tables.read_matrices(tmp_path / "t.npz")
    np.savez(tmp_path / "t.npz", X=X)
    with pytest.raises(
        ValueError,
        match=r"has no array 'Y' but 'X'; write it by `numpy.savez\('t.npz', X=X, Y=Y\)`",
    ):
        tables.read_matrices(tmp_path / "t.npz")


def test_what_is_written_is_what_is_read(tmp_path, capsys):
    rng = np.random.default_rng(0)
    mean, covariance = (
        rng.normal(size=(4, 2)) * 1e-7,
        rng.normal(size=(4, 2, 2)).astype(np.float32),
    )
    results, axis = (
        {"mean": mean, "covariance": covariance, "score": mean[:, 0]},
        ("u", "v"),
    )
    tables.write(tmp_path / "t.csv", results, axis)
    table = tables.read(tmp_path / "t.csv")
    assert table.names == (
        "mean_u",
        "mean_v",
        "covariance_u_u",
        "covariance_u_v",
        "covariance_v_v",
        "score",
    )
    assert np.array_equal(table.select_columns(["mean_u", "mean_v"]), mean)
    assert np.array_equal(
        table.select_columns(["covariance_u_v"])[:, 0], covariance[:, 0, 1]
    )
    tables.write(None, results, axis)
    assert capsys.readouterr().out == (tmp_path / "t.csv").read_text()
    tables.write(tmp_path / "t.npz", results, axis)
    with np.load(tmp_path / "t.npz") as content:
        assert all(
            np.array_equal(content[name], array) for name, array in results.items()
        )
    tables.write(tmp_path / "t.npy", {"X": mean}, axis)
    assert np.array_equal(np.load(tmp_path / "t.npy"), mean)
    tables.write(tmp_path / "x.csv", {"X": mean}, axis)
    assert tables.read(tmp_path / "x.csv").names == axis
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "t.csv",
        "t.npy",
        "t.npz",
        "x.csv",
    ]


def test_outputs_that_cannot_hold_the_results_are_refused(tmp_path):
    results = {"mean": np.ones((2, 1)), "covariance": np.ones((2, 1, 1))}
    with pytest.raises(
        ValueError,
        match=r"t\.npy can hold one array, but there are mean and covariance; use \.npz or \.csv",
    ):
        tables.write(tmp_path / "t.npy", results, ("u",))
    with pytest.raises(
        ValueError,
        match=r"cannot write .*t\.xlsx: its name must end in \.csv, \.npz or \.npy\.$",
    ):
        tables.write(tmp_path / "t.xlsx", results, ("u",))
    assert not list(tmp_path.iterdir())


def test_rows_are_told_by_their_place_in_the_file(tmp_path):
    assert read(tmp_path, "t.csv", "a,b\n1,2\n\n3,4\n").describe_place(1) == "line 4"
    assert (
        read(tmp_path, "t.npy", np.ones((3, 2))).describe_place(1) == "row 1 (from 0)"
    )


class Counted(str):
    """A name that counts how often it is compared."""

    comparisons = 0
    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other):
        Counted.comparisons += 1
        return str.__eq__(self, other)


def test_the_work_on_names_grows_like_their_number(tmp_path, monkeypatch):
    """Columns looked up one by one in a list would be compared two million times here."""
    monkeypatch.setattr(Counted, "comparisons", 0)
    names = [Counted(f"x{i}") for i in range(2000)]
    table = tables.Table(tmp_path, tuple(names), np.arange(4000.0).reshape(2, 2000))
    wanted = [Counted(name) for name in reversed(names)]  # equal, not the same
    assert table.select_columns(wanted)[0, 0] == 1999
    assert find_name_faults(names) == []
    assert table.list_other_names(wanted[:1999]) == ("x0",)
    assert Counted.comparisons < 10 * len(names)


@pytest.mark.parametrize("separator", [",", ";", "\t", "|", " ", "^"])
@pytest.mark.parametrize("cell", ["3", "word"])
def test_a_first_line_may_name_the_separator_and_lines_keep_their_numbers(
    separator, cell, tmp_path
):
    lines = [
        f"sep={separator}",
        separator.join("ab"),
        separator.join("12"),
        cell + separator + "4",
    ]
    for first in ("", "\n"):
        table = read(tmp_path, "t.csv", first + "\n".join(lines))
        assert table.names == ("a", "b")
        assert table.select_columns(["b"]).astype(float).tolist() == [[2], [4]]
        assert [table.describe_place(row) for row in (0, 1)] == [
            f"line {3 + len(first)}",
            f"line {4 + len(first)}",
        ]
    with pytest.raises(
        ValueError, match=r"t\.csv, line 4: 1 cells where there are 2 columns"
    ):
        read(tmp_path, "t.csv", "\n".join([*lines[:3], "5", lines[3]]))
    with pytest.raises(
        ValueError, match=r"t\.csv, line 2: columns 1 and 2 are both called 'a'"
    ):
        read(tmp_path, "t.csv", "\n".join([lines[0], separator.join("aa"), *lines[2:]]))


def test_a_file_of_nothing_but_a_separator_line_is_empty(tmp_path):
    with pytest.raises(
        ValueError, match=r"t\.csv is empty; its first line must name the columns"
    ):
        read(tmp_path, "t.csv", "sep=;\n")
    with pytest.raises(ValueError, match=r"t\.csv has 2 columns but no rows"):
        read(tmp_path, "t.csv", "sep=;\na;b\n")
    assert read(tmp_path, "t.csv", "sep=a,b\n1,2\n").names == ("sep=a", "b"), "a name"


def test_faults_are_kept_for_one_answer_and_refused_otherwise(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,,a,a (column 3)\n1,2,3,4\n1,2\n5,x,7,8\n")
    table = tables.read(path, keep_faults=True)
    assert len(table) == 2
    assert len(set(table.names)) == 4, "names that are given twice are told apart"
    unnamed = table.names[1]
    with pytest.raises(ValueError, match="has 4 problems") as info:
        table.check_usable(table.read_numbers(table.names)[1])
    places = [
        line.partition(":")[0].strip() for line in str(info.value).splitlines()[1:]
    ]
    assert places == ["line 1", "line 1", f"line 4, column '{unnamed}'", "line 3"]
    with pytest.raises(ValueError, match="has 3 problems"):
        tables.read(path)
    path.write_text("a,b\n" + "1\n" * 50 + "1,x\n")
    table = tables.read(path, keep_faults=True)
    with pytest.raises(
        ValueError, match=r"has 51 problems:\n  line 52, column 'b': 'x' is not a"
    ):
        table.check_usable(table.read_numbers(["b"])[1])


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
@pytest.mark.parametrize("cells", ["1,2", "a,2"])
def test_a_pipe_is_read_once(cells, tmp_path):
    pipe = tmp_path / "table.csv"
    os.mkfifo(pipe)

    found = []
    reader = threading.Thread(
        target=lambda: found.append(tables.read(pipe)), daemon=True
    )
    reader.start()
    pipe.write_text(f"x,y\n{cells}\n")
    reader.join(timeout=10)
    if reader.is_alive():
        os.close(os.open(pipe, os.O_WRONLY))  # lets a second reader end
        pytest.fail("the pipe was opened a second time")
    assert found[0].read_numbers(["y"])[0].tolist() == [[2.0]]
