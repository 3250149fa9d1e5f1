"""Users' tables, read by the extension of the file.

What cannot be read is a `ValueError`: the file, and all that is wrong with it, with the place and
what to do. The columns of arrays, which have no names, are called x0, x1, ...; nothing is guessed
or filled in here.
"""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from mmlp import atomic_files
from mmlp.tables.arrays import matrix, read_npy, read_npz
from mmlp.tables.cells import MAX_EXACT_FLOAT, Cells, decimal_commas
from mmlp.tables.kinds import Numbers, column, unread
from mmlp.tables.number_format import (
    BY_COLUMN,
    NumberFormat,
    find_ambiguous,
    find_decimal_comma,
)
from mmlp.tables.numbers import read_numbers
from mmlp.tables.problems import Problem, listed
from mmlp.tables.text import Row, read_arff, read_csv

INPUTS = (".csv", ".csv.gz", ".arff", ".npy", ".npz")
# The remedies of problems with cells, as the command line offers them.
OPTIONS = {
    "say it by dates": "say it by --dates",
    "say that the column holds categories": "say by --categories that the column holds categories",
    "give numbers instead of text": "describe the numbers by --decimal and --thousands",
    "write decimals with a point, or leave": (
        "write decimals with a point, or describe the numbers by --decimal, or leave"
    ),
    "and no thousands separators": (
        "and no thousands separators, or describe the numbers by --decimal and --thousands"
    ),
    "write 1234.5": "write 1234.5, or describe the numbers by --decimal and --thousands",
}


@dataclass(frozen=True)
class Table:
    """Named columns of one file: numbers, or text of any kind.

    A table with `faults` holds the rows that are whole, so that their cells can be checked too;
    `refuse` must be called before any of it is used.
    """

    path: Path
    names: tuple[str, ...]
    rows: list[Row] | np.ndarray  # (n, p)
    targets: tuple[str, ...] = ()  # the columns of `y` in an .npz
    line: int | None = (
        None  # of the first row, in a text of one line for each row of numbers
    )
    number_format: NumberFormat = BY_COLUMN  # of the numbers in text
    faulty: tuple[str, ...] = ()  # names that are missing or given twice
    ragged: tuple[str, ...] = ()  # lines with too many or too few cells

    @property
    def faults(self) -> tuple[str, ...]:
        """Whatever is wrong with the file that is not about single cells."""
        return self.faulty + self.ragged

    def __len__(self) -> int:
        return len(self.rows)

    def columns(self, names: Sequence[str]) -> np.ndarray:
        """These columns, (n, len(names)): float64, NaN where a value is missing, or text.

        Numbers in text are floats where the user gave their format.
        """
        self.check(names)
        position = {name: j for j, name in enumerate(self.names)}
        index = [position[name] for name in names]
        if isinstance(self.rows, np.ndarray):
            return self.rows[:, index].astype(np.float64, copy=False)
        found = np.empty((len(self.rows), len(index)), object)
        for i, row in enumerate(self.rows):
            found[i] = [row.cells[j] for j in index]
        if self.number_format.is_given:
            for j in range(len(index)):
                cells = Cells.of(found[:, j])
                values = [self.number_format.read(cell) for cell in cells.values]
                found[:, j] = np.array(values, object)[cells.codes]
        return found

    def numbers(self, names: Sequence[str]) -> tuple[np.ndarray, list[Problem]]:
        """These columns as numbers, NaN where a value is missing, and the cells that are none."""
        values = self.columns(names)
        if values.dtype != object:
            return values, []
        found, problems = np.full(values.shape, np.nan), []
        for j, name in enumerate(names):
            cells = Cells.of(values[:, j])
            kind = Numbers(0.0, commas=decimal_commas(cells.values))
            problem = unread(name, cells, kind)
            problems += [problem] if problem else []
            found[:, j] = column(kind, cells)
        return found, problems

    def number_problems(self, names: Sequence[str]) -> list[Problem]:
        """Return the cells of these columns that may be read as wrong numbers.

        Where the user gave the format of numbers, these are numbers in another format. Otherwise
        they are cells such as "1.600" in a table that has decimal commas.
        """
        if isinstance(self.rows, np.ndarray):
            return []
        names = list(dict.fromkeys(names))
        self.check(names)
        columns = self._cells
        if not self.number_format.is_given:
            expects_commas = self.number_format.expects_commas
            return find_ambiguous(
                columns, names, _settle, expects_commas=expects_commas
            )
        found = [self.number_format.find_foreign(name, columns[name]) for name in names]
        remedy = "correct it, or give the options --decimal and --thousands that fit the file"
        return [p._replace(text=f"{p.text}; {remedy}") for p in found if p is not None]

    def has_decimal_commas(self) -> bool:
        """Return whether a column shows decimal commas."""
        return find_decimal_comma(self._cells) is not None

    @cached_property
    def _cells(self) -> dict[str, Cells]:
        """The cells of all columns as they are written."""
        if isinstance(self.rows, np.ndarray):
            return {}
        rows = self.rows
        return {
            name: Cells.of(row.cells[j] for row in rows)
            for j, name in enumerate(self.names)
        }

    def place(self, row: int) -> str:
        """Where a row stands in the file."""
        if isinstance(self.rows, np.ndarray):
            return (
                f"row {row} (from 0)"
                if self.line is None
                else f"line {self.line + row}"
            )
        return f"line {self.rows[row].line}"

    def check(self, names: Sequence[str]) -> None:
        """Refuse names that the table has not, or that are given twice."""
        known, seen = (
            set(self.names),
            set(),
        )  # sets: a table may have tens of thousands of columns
        for name in names:
            if name in seen:
                twice = f"the column {name!r} is asked for twice"
                raise ValueError(f"{self.path}: {twice}; name it once.")
            seen.add(name)
            if name not in known:
                near = difflib.get_close_matches(name, self.names, 1)
                hint = (
                    f"did you mean {near[0]!r}?"
                    if near
                    else f"it has {_listed(self.names)}."
                )
                if self.faults:
                    missing = f"there is no column {name!r}; {hint.removesuffix('.')}"
                    raise ValueError(listed(str(self.path), [missing, *self.faults]))
                raise ValueError(f"{self.path} has no column {name!r}; {hint}")

    def others(self, names: Sequence[str]) -> tuple[str, ...]:
        """The names of all columns but these."""
        self.check(names)
        left_out = set(names)
        return tuple(name for name in self.names if name not in left_out)

    def refuse(self, problems: Sequence[Problem]) -> None:
        """Raise an error that tells them all, by the lines of the file, and the file's faults.

        Does nothing if there are neither.
        """
        texts = [problem.told(self.place) for problem in problems]
        for words, with_option in OPTIONS.items():
            texts = [text.replace(words, with_option) for text in texts]
        # Ragged lines come last: there may be thousands, but cells are named once a column.
        if texts or self.faults:
            raise ValueError(
                listed(str(self.path), [*self.faulty, *texts, *self.ragged])
            )


def read(
    path: Path,
    number_format: NumberFormat = BY_COLUMN,
    *,
    keep_faults: bool = False,
    has_codes: bool = False,
) -> Table:
    """Read the table in a file.

    Parameters
    ----------
    path : a file whose name ends in one of `INPUTS`. An .npz holds X (n, p) and, for regression,
        y (n,) or (n, d).
    number_format : how numbers in text are written; by default each column shows it.
    keep_faults : whether to return a table with faulty names or ragged lines, so that
        `Table.refuse` can tell them together with what is wrong with the cells.
    has_codes : whether columns of numbers may be codes, of which no digit may be lost: whole
        numbers that a float cannot hold are then kept as text.

    Raises
    ------
    ValueError
        The file cannot be read, or has faulty names or ragged lines and `keep_faults` is false.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "wind.csv")
    ...     _ = path.write_text("height,speed\\n10,4.5\\n20,6\\n")
    ...     table = read(path)
    >>> table.names, table.columns(["speed"]).tolist()
    (('height', 'speed'), [[4.5], [6.0]])
    """
    suffix = extension(path, INPUTS, "read")
    if suffix in (".npy", ".npz"):
        return _read_arrays(path, suffix)
    if suffix == ".arff":
        text = read_arff(path)
    else:
        # Where the quick reader gives up, the other one begins anew, which a pipe does not allow.
        quick = number_format.is_plain and not atomic_files.is_stream(path)
        numbers = read_numbers(path) if quick else None
        if (
            numbers is not None
            and has_codes
            and np.any(np.abs(numbers[1]) >= MAX_EXACT_FLOAT)
        ):
            numbers = None
        if numbers is not None:
            names, rows, first_line = numbers
            return Table(path, names, rows, line=first_line)
        text = read_csv(path)
    table = Table(
        path,
        text.names,
        text.rows,
        number_format=number_format,
        faulty=text.faulty,
        ragged=text.ragged,
    )
    if not keep_faults:
        table.refuse([])
    return table


def _read_arrays(path: Path, suffix: str) -> Table:
    if suffix == ".npy":
        arrays = {"X": read_npy(path)}
    else:
        arrays = read_npz(path, required=("X",), optional=("y",))
    X, y, targets = matrix(path, "X", arrays["X"]), arrays.get("y"), ()
    names = numbered("x", X.shape[1])
    if y is not None:
        y = matrix(path, "y", y[:, None] if y.ndim == 1 else y)
        X, targets = np.concatenate([X, y], axis=1), numbered("y", y.shape[1])
    return Table(path, names + targets, X, targets)


def read_matrices(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """X (n, p) and the matrices Y (n, d, d) of an .npz."""
    if not path.name.lower().endswith(".npz"):
        raise ValueError(
            f"{path} cannot hold matrices: they are read from an .npz with X (n, p) and Y "
            "(n, d, d); write it by `numpy.savez('data.npz', X=X, Y=Y)`."
        )
    arrays = read_npz(path, required=("X", "Y"))
    X, Y = matrix(path, "X", arrays["X"]), arrays["Y"]
    if Y.ndim != 3 or Y.shape[1] != Y.shape[2]:
        wanted = "it must be (n, d, d), one covariance matrix for each row of X"
        raise ValueError(f"{path}: Y has the shape {Y.shape}; {wanted}.")
    return X, Y


def extension(path: Path, known: Sequence[str], verb: str) -> str:
    name = path.name.lower()
    for suffix in known:
        if name.endswith(suffix) and name != suffix:
            return suffix
    hint = " (text with commas, semicolons or tabs between its columns: .csv)"
    hint = hint if verb == "read" else ""
    endings = f"{', '.join(known[:-1])} or {known[-1]}" if known[1:] else known[0]
    raise ValueError(f"cannot {verb} {path}: its name must end in {endings}{hint}.")


def numbered(letter: str, count: int) -> tuple[str, ...]:
    return tuple(f"{letter}{i}" for i in range(count))


def _settle(cell: str, has_commas: bool) -> str:
    """Say what to do about a cell such as "1.600"."""
    as_thousands = f"add --decimal , --thousands . if it is {cell.replace('.', '')}"
    if has_commas:
        return (
            f"{as_thousands}, or write it with a decimal comma if it is {float(cell):g}"
        )
    return f"{as_thousands}, or --decimal . if it is {float(cell):g}"


def _listed(names: Sequence[str], limit: int = 12) -> str:
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(map(repr, names[:limit])) + more
