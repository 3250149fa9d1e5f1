"""Plain numbers are read at once, all else cell by cell: with the same result or the same words."""

import gzip

import numpy as np
import pytest

from mmlp import tables
from mmlp.tables import output_files, table, text_files

PLAIN = [
    "a,b\n1,2\n3,4\n",
    "a,b\n1,2\n3,4",
    "a;b\r\n1;2\r\n3;4\r\n",
    "\ufeffa\tb\n1\t2\n",
    "a\n1\n2\n",
    "height , speed\n-1.5e-3, .5\n 1E+10,-.25e3\n",
    "sep=;\na;b\n1;2\n3;4\n",
    "\ufeffsep=,\r\na,b\r\n1,2\r\n3,4\r\n",
    '"sep=\t"\na\tb\n1\t2\n',
    "SEP=;;\na;b\n1;2\n",
    "sep=,\na\n1\n",
    "a,b\n1e-400,00012\n0.1,123456789012345678901234567890\n",
    "a,b\n9007199254740993,1.7976931348623157e308\n4.9e-324,2.2250738585072011e-308\n",
]
ODD_CELLS = [
    "", "?", "nan", "inf", "1e999", "1.2.3", "2026-11-15", "1e5e5", "1e", "e5", "-", "+", ".",
    "--1", "1-2", "1 2", "1_0", "0x10", "1e1.5", "1e-.5", "+1", "5.", "1 ", '"1"', "anna", "1,5",
    "\u0665", "-e5", "1e+-5", "1\t2", "\x0b1", "1\n", "1\r2",
]  # fmt: skip


def outcome(path):
    """What reading says: names and numbers, or the words of the error."""
    try:
        found = tables.read(path)
        values, problems = found.read_numbers(found.names)
        found.check_usable(problems)
        return found.names, repr(values.tolist()), found.describe_place(len(found) - 1)
    except ValueError as error:
        return str(error)


def both(path, monkeypatch):
    ours = outcome(path)
    with monkeypatch.context() as patch:
        patch.setattr(table, "read_numeric_csv", lambda path: None)
        return ours, outcome(path)


@pytest.mark.parametrize("size", [2**24, 7])  # bytes of a piece
@pytest.mark.parametrize("text", PLAIN)
def test_plain_numbers_are_read_at_once_as_they_would_be_one_by_one(
    text, size, tmp_path, monkeypatch
):
    monkeypatch.setattr(text_files, "BYTES_PER_CHUNK", size)
    for path, content in (
        ("t.csv", text.encode()),
        ("t.csv.gz", gzip.compress(text.encode())),
    ):
        path = tmp_path / path
        path.write_bytes(content)
        assert text_files.read_numeric_csv(path) is not None
        ours, other = both(path, monkeypatch)
        assert ours == other


@pytest.mark.parametrize("cell", ODD_CELLS)
def test_whatever_is_odd_is_read_or_refused_cell_by_cell(cell, tmp_path, monkeypatch):
    path = tmp_path / "t.csv"
    for text in (f"a,b\n1,2\n3,{cell}\n5,6\n", f"a\n{cell}\n2\n", f"a,{cell}\n1,2\n"):
        path.write_bytes(text.encode())
        ours, other = both(path, monkeypatch)
        assert ours == other
    path.write_bytes(f"a,b\n1,2\n3,{cell}\n".encode())
    assert text_files.read_numeric_csv(path) is None


def test_texts_of_random_characters_are_read_alike_by_both(tmp_path, monkeypatch):
    rng, path, plain = np.random.default_rng(0), tmp_path / "t.csv", 0
    characters = np.array(list("0123456789" * 3 + '..--ee++E,,,,,,\n\n\n\n \r";\t'))
    for _ in range(400):
        text = "a,b\n" + "".join(rng.choice(characters, rng.integers(1, 12)))
        path.write_bytes(text.encode())
        ours, other = both(path, monkeypatch)
        assert ours == other, text
        plain += text_files.read_numeric_csv(path) is not None
    assert 5 < plain < 200


def test_numbers_of_all_sizes_come_back_bit_for_bit(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((5000, 3)) * 10.0 ** rng.integers(-300, 300, (5000, 3))
    tables.write(tmp_path / "t.csv", {"X": X}, "abc")
    found = text_files.read_numeric_csv(tmp_path / "t.csv")
    assert found is not None
    assert found[0] == ("a", "b", "c")
    assert np.array_equal(found[1], X)


def test_results_in_pieces_are_written_like_those_in_one(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(output_files, "ROWS_PER_CHUNK", 3)
    rng = np.random.default_rng(0)
    whole = {
        "mean": rng.normal(size=(10, 2)),
        "covariance": rng.normal(size=(10, 2, 2)),
    }
    for results in (
        whole,
        {"X": whole["mean"]},
        {"X": whole["mean"].astype(np.float32)},
    ):
        cuts = [slice(0, 4), slice(4, 8), slice(8, 10)]
        pieces = [{name: array[cut] for name, array in results.items()} for cut in cuts]
        suffixes = ("csv", "npz", "npy") if len(results) == 1 else ("csv", "npz")
        for suffix in suffixes:
            one, many = tmp_path / f"one.{suffix}", tmp_path / f"many.{suffix}"
            tables.write(one, results, ("u", "v"))
            tables.write(many, iter(pieces), ("u", "v"))
            assert one.read_bytes() == many.read_bytes() or suffix == "npz"
            if suffix == "npz":
                with np.load(many) as found:
                    assert all(
                        np.array_equal(found[name], results[name]) for name in results
                    )
        tables.write(None, iter(pieces), ("u", "v"))
        assert capsys.readouterr().out == (tmp_path / "one.csv").read_text()


def test_a_piece_that_fails_leaves_what_was_there(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("before")

    def pieces():
        yield {"X": np.ones((2, 1))}
        raise ValueError("of the second piece")

    with pytest.raises(ValueError, match="of the second piece"):
        tables.write(path, pieces(), ("u",))
    assert [file.name for file in tmp_path.iterdir()] == ["t.csv"]
    assert path.read_text() == "before"
