"""Read a table from a file, whose extension tells the format.

A file that cannot be read raises a `ValueError` with the file, everything that is wrong
with it, and what to do. The columns of arrays, which have no names, are called x0, x1,
and so on. Missing values are not filled in here.
"""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from mmlp import atomic_files
from mmlp.tables.array_files import check_matrix, read_npy, read_npz
from mmlp.tables.cells import MAX_EXACT_FLOAT, Cells
from mmlp.tables.kinds import Numbers, find_unreadable
from mmlp.tables.number_format import (
    FORMAT_BY_COLUMN,
    NumberFormat,
    find_ambiguous_numbers,
    find_decimal_comma,
    has_decimal_commas,
)
from mmlp.tables.problems import Problem, ProblemsError, Wording, list_problems
from mmlp.tables.text_files import Row, read_arff, read_csv, read_numeric_csv

INPUT_EXTENSIONS = (".csv", ".csv.gz", ".arff", ".npy", ".npz")
MAX_LISTED_COLUMNS = 12


@dataclass(frozen=True)
class Table:
    """Named columns of one file: numbers, or text of any kind.

    A table with faulty names or ragged lines holds the rows that are whole, so that
    their cells can be checked too; `check_usable` must be called before any of it is
    used.

    Parameters
    ----------
    path : Path
    names : tuple of str
    rows : list of Row, or array of shape (n_rows, n_columns)
        Text, or numbers.
    targets : tuple of str
        The columns of y in an .npz.
    first_line : int, optional
        The line of the first row, in a text that has one line for each row of numbers.
    number_format : NumberFormat
        How numbers in text are written.
    name_faults : tuple of str
        What is wrong with the names: missing, or given twice.
    line_faults : tuple of str
        What is wrong with the lines that have too many or too few cells.
    """

    path: Path
    names: tuple[str, ...]
    rows: list[Row] | np.ndarray
    targets: tuple[str, ...] = ()
    first_line: int | None = None
    number_format: NumberFormat = FORMAT_BY_COLUMN
    name_faults: tuple[str, ...] = ()
    line_faults: tuple[str, ...] = ()

    @property
    def is_faulty(self) -> bool:
        """Whether there is something wrong with names or lines."""
        return bool(self.name_faults or self.line_faults)

    def __len__(self) -> int:
        return len(self.rows)

    def select_columns(self, names: Sequence[str]) -> np.ndarray:
        """Return columns as an array.

        Parameters
        ----------
        names : sequence of str

        Returns
        -------
        array of shape (n_rows, n_columns)
            float64, NaN where a value is missing, or objects: text, and floats where
            the user gave the format of numbers.
        """
        self.check_names(names)
        position = {name: j for j, name in enumerate(self.names)}
        indices = [position[name] for name in names]
        if isinstance(self.rows, np.ndarray):
            return self.rows[:, indices].astype(np.float64, copy=False)

        values = np.empty((len(self.rows), len(indices)), object)
        for i, row in enumerate(self.rows):
            values[i] = [row.cells[j] for j in indices]
        if self.number_format.is_given:
            for j in range(len(indices)):
                cells = Cells.of(values[:, j])
                numbers = [self.number_format.read(cell) for cell in cells.values]
                values[:, j] = np.array(numbers, object)[cells.codes]
        return values

    def read_numbers(self, names: Sequence[str]) -> tuple[np.ndarray, list[Problem]]:
        """Return columns as numbers, NaN where a value is missing, and their problems.

        Parameters
        ----------
        names : sequence of str

        Returns
        -------
        values : array of shape (n_rows, n_columns), float64
        problems : list of Problem
            The cells that are not numbers.
        """
        values = self.select_columns(names)
        if values.dtype != object:
            return values, []

        numbers = np.full(values.shape, np.nan)
        problems = []
        for j, name in enumerate(names):
            cells = Cells.of(values[:, j])
            kind = Numbers(commas=has_decimal_commas(cells.values))
            problem = find_unreadable(name, cells, kind)
            if problem is not None:
                problems.append(problem)
            numbers[:, j] = kind.read_column(cells)
        return numbers, problems

    def find_number_problems(self, names: Sequence[str]) -> list[Problem]:
        """Return the cells of these columns that may be read as wrong numbers.

        Where the user gave the format of numbers, these are numbers in another format.
        Otherwise they are cells such as "1.600" in a table that has decimal commas.
        """
        if isinstance(self.rows, np.ndarray):
            return []
        names = list(dict.fromkeys(names))
        self.check_names(names)
        columns = self._cells
        if not self.number_format.is_given:
            return find_ambiguous_numbers(
                columns, names, expects_commas=self.number_format.expects_commas
            )
        problems = [
            self.number_format.find_foreign(name, columns[name]) for name in names
        ]
        return [problem for problem in problems if problem is not None]

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

    def describe_place(self, row: int) -> str:
        """Return where a row stands in the file."""
        if not isinstance(self.rows, np.ndarray):
            return f"line {self.rows[row].line}"
        if self.first_line is None:
            return f"row {row} (from 0)"
        return f"line {self.first_line + row}"

    def check_names(self, names: Sequence[str]) -> None:
        """Raise a ValueError for names that are unknown, or given twice."""
        # Sets, because a table may have tens of thousands of columns.
        known = set(self.names)
        seen = set()
        for name in names:
            if name in seen:
                raise ValueError(
                    f"{self.path}: the column {name!r} is asked for twice; name it once."
                )
            seen.add(name)
            if name not in known:
                raise ValueError(self._describe_unknown(name))

    def _describe_unknown(self, name: str) -> str:
        """Return the message for a name that the table does not have."""
        similar = difflib.get_close_matches(name, self.names, 1)
        if similar:
            hint = f"did you mean {similar[0]!r}?"
        else:
            hint = f"it has {_list_names(self.names)}."
        if not self.is_faulty:
            return f"{self.path} has no column {name!r}; {hint}"
        unknown = f"there is no column {name!r}; {hint.removesuffix('.')}"
        faults = [unknown, *self.name_faults, *self.line_faults]
        return list_problems(str(self.path), faults)

    def list_other_names(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return the names of all columns but these."""
        self.check_names(names)
        excluded = set(names)
        return tuple(name for name in self.names if name not in excluded)

    def check_usable(
        self, problems: Sequence[Problem] = (), wording: Wording | None = None
    ) -> None:
        """Raise an error with the problems, by lines, and the faults of the file.

        Parameters
        ----------
        problems : sequence of Problem
            With the rows of this table.
        wording : mapping from Remedy to str, optional
            The remedies in the words of a front end.

        Raises
        ------
        ProblemsError
            If there is any problem or fault.
        """
        if problems or self.is_faulty:
            raise ProblemsError(
                str(self.path),
                problems,
                place=self.describe_place,
                wording=wording,
                name_faults=self.name_faults,
                line_faults=self.line_faults,
            )


def read(
    path: Path,
    number_format: NumberFormat = FORMAT_BY_COLUMN,
    *,
    keep_faults: bool = False,
    has_codes: bool = False,
) -> Table:
    """Read the table in a file.

    Parameters
    ----------
    path : Path
        A file whose name ends in one of `INPUT_EXTENSIONS`. An .npz holds X of shape
        (n, p) and, for regression, y of shape (n,) or (n, d).
    number_format : NumberFormat, optional
        How numbers in text are written; by default each column shows it.
    keep_faults : bool, default=False
        Whether to return a table with faulty names or ragged lines, so that
        `Table.check_usable` can report them together with problems of cells.
    has_codes : bool, default=False
        Whether columns of numbers may be codes, of which no digit may be lost: whole
        numbers that a float cannot hold are then kept as text.

    Returns
    -------
    Table

    Raises
    ------
    ValueError
        If the file cannot be read, or has faulty names or ragged lines and
        `keep_faults` is false.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "wind.csv")
    ...     _ = path.write_text("height,speed\\n10,4.5\\n20,6\\n")
    ...     table = read(path)
    >>> table.names, table.select_columns(["speed"]).tolist()
    (('height', 'speed'), [[4.5], [6.0]])
    """
    suffix = find_extension(path, INPUT_EXTENSIONS, "read")
    if suffix in (".npy", ".npz"):
        return _read_arrays(path, suffix)

    if suffix == ".arff":
        text = read_arff(path)
    else:
        # Where the quick reader gives up, the other one begins anew, which a pipe does
        # not allow.
        may_be_numeric = number_format.is_plain and not atomic_files.is_stream(path)
        numbers = read_numeric_csv(path) if may_be_numeric else None
        if numbers is not None:
            names, rows, first_line = numbers
            if not has_codes or np.all(np.abs(rows) < MAX_EXACT_FLOAT):
                return Table(path, names, rows, first_line=first_line)
        text = read_csv(path)

    table = Table(
        path,
        text.names,
        text.rows,
        number_format=number_format,
        name_faults=text.name_faults,
        line_faults=text.line_faults,
    )
    if not keep_faults:
        table.check_usable()
    return table


def _read_arrays(path: Path, suffix: str) -> Table:
    """Read an .npy or .npz with columns that have no names."""
    if suffix == ".npy":
        X = read_npy(path)
        return Table(path, make_column_names("x", X.shape[1]), X)

    arrays = read_npz(path, required=("X",), optional=("y",))
    X = check_matrix(path, "X", arrays["X"])
    names = make_column_names("x", X.shape[1])
    if "y" not in arrays:
        return Table(path, names, X)
    y = arrays["y"]
    y = check_matrix(path, "y", y[:, None] if y.ndim == 1 else y)
    targets = make_column_names("y", y.shape[1])
    return Table(path, names + targets, np.concatenate([X, y], axis=1), targets)


def read_matrices(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Read X (n, p) and matrices Y (n, d, d) from an .npz.

    Parameters
    ----------
    path : Path

    Returns
    -------
    X : array of shape (n, p), float64
    Y : array of shape (n, d, d), float64
    """
    if not path.name.lower().endswith(".npz"):
        raise ValueError(
            f"{path} cannot hold matrices: they are read from an .npz with X (n, p) and "
            "Y (n, d, d); write it by `numpy.savez('data.npz', X=X, Y=Y)`."
        )
    arrays = read_npz(path, required=("X", "Y"))
    X = check_matrix(path, "X", arrays["X"])
    Y = arrays["Y"]
    if Y.ndim != 3 or Y.shape[1] != Y.shape[2]:
        raise ValueError(
            f"{path}: Y has the shape {Y.shape}; it must be (n, d, d), one covariance "
            "matrix for each row of X."
        )
    return X, Y


def find_extension(path: Path, known: Sequence[str], verb: str) -> str:
    """Return the extension of a file, one of `known`.

    Parameters
    ----------
    path : Path
    known : sequence of str
        With their points, in lower case.
    verb : {"read", "write"}
        What is to be done with the file, for the error.
    """
    name = path.name.lower()
    for suffix in known:
        if name.endswith(suffix) and name != suffix:
            return suffix

    endings = known[0]
    if len(known) > 1:
        endings = f"{', '.join(known[:-1])} or {known[-1]}"
    hint = ""
    if verb == "read":
        hint = " (text with commas, semicolons or tabs between its columns: .csv)"
    raise ValueError(f"cannot {verb} {path}: its name must end in {endings}{hint}.")


def make_column_names(letter: str, count: int) -> tuple[str, ...]:
    """Return names for columns that have none: x0, x1, and so on."""
    return tuple(f"{letter}{i}" for i in range(count))


def _list_names(names: Sequence[str]) -> str:
    """Return the first names of columns, and how many more there are."""
    listed = ", ".join(map(repr, names[:MAX_LISTED_COLUMNS]))
    n_more = len(names) - MAX_LISTED_COLUMNS
    return f"{listed} and {n_more} more" if n_more > 0 else listed
