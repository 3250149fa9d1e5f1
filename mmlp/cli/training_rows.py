"""Rows of a file for `mmlp fit`: read, checked, and split into training and test rows."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mmlp import tables
from mmlp.cli.arguments import WORDS_FOR_CATEGORIES, FitOptions
from mmlp.cli.column_names import explain_split_name
from mmlp.cli.messages import describe
from mmlp.cli.table_problems import OPTION_WORDING, describe_leak, explain_problems
from mmlp.estimators.outliers import Cell, Columns, check_cells
from mmlp.estimators.spd import factorize
from mmlp.tables.encoder import ColumnTable, TableEncoder, find_declared_categories
from mmlp.tables.number_format import FORMAT_BY_COLUMN, NumberFormat
from mmlp.tables.preparation import (
    find_leaks,
    prepare_training_data,
    read_numeric_columns,
)
from mmlp.tables.problems import ProblemsError

MIN_ROWS = 2  # to train on, and to test on


@dataclass(frozen=True)
class TrainingRows:
    """The rows of a file that an estimator can be fitted to.

    Parameters
    ----------
    inputs : ColumnTable
        The inputs, classified.
    targets : array of shape (n_rows, n_targets) or (n_rows, d, d), or None
        None for an estimator without targets.
    target_names : sequence of str
    place : callable
        Says where a row is in the file, such as "line 3".
    summary : str
        The size of the table and what was left out; empty for a plain table of numbers.
    number_format : NumberFormat
        How numbers are written in other tables of this kind.
    """

    inputs: ColumnTable
    targets: np.ndarray | None
    target_names: Sequence[str]
    place: Callable[[int], str]
    summary: str = ""
    number_format: NumberFormat = FORMAT_BY_COLUMN

    def __len__(self) -> int:
        return len(self.inputs)

    def take(self, rows: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return the inputs and, if there are any, the targets of some rows."""
        X = self.inputs.values[rows]
        return (X,) if self.targets is None else (X, self.targets[rows])


def read_training_rows(command: FitOptions, estimator: Any) -> TrainingRows:
    """Read the data of a command as its estimator needs them.

    Raises
    ------
    ValueError
        With everything that is wrong with the file.
    """
    if estimator.targets == "matrices":
        return _read_matrix_rows(command.data, estimator)
    return _read_table_rows(command, estimator)


def read_matrices(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Read X and Y of an .npz, and check all matrices before any is used."""
    X, Y = tables.read_matrices(path)
    try:
        factorize(Y)
    except ValueError as error:
        raise ValueError(f"{path}: {describe(error)}") from None
    return X, Y


def check_far_cells(path: Path, dtype: Any, rows: TrainingRows) -> None:
    """Refuse cells that overflow, and warn of cells absurdly far out, by their lines."""

    def place(columns: Columns, cell: Cell) -> str:
        name = (columns.names or ())[cell.column]
        return f"{path}, {rows.place(cell.row)}, column {name!r}:"

    values, names = read_numeric_columns(rows.inputs)
    columns = [Columns("", values, names)]
    if rows.targets is not None and rows.targets.ndim == 2:
        columns.append(Columns("", rows.targets, rows.target_names))
    elif rows.targets is not None:
        # The diagonal bounds the other entries of a covariance.
        diagonal = np.diagonal(rows.targets, axis1=1, axis2=2)
        names = [f"Y[{j}, {j}]" for j in range(diagonal.shape[1])]
        columns.append(Columns("", diagonal, names, squared=False))
    check_cells("", dtype, columns, place, stacklevel=2)


def split_rows(command: FitOptions, n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw the test rows.

    Returns
    -------
    training_rows, test_rows : arrays of int
        Row indices, ascending.
    """
    n_test = round(command.test * n_rows)
    if command.test and not MIN_ROWS <= n_test <= n_rows - MIN_ROWS:
        raise ValueError(
            f"{command.data} has {n_rows} rows, too few for --test {command.test:g}; use "
            "another share."
        )
    order = np.random.default_rng(command.seed).permutation(n_rows)
    return np.sort(order[n_test:]), np.sort(order[:n_test])


def _read_matrix_rows(path: Path, estimator: Any) -> TrainingRows:
    """Read rows whose targets are matrices."""
    X, Y = read_matrices(path)
    if len(X) < MIN_ROWS:
        raise ValueError(f"{path} has {len(X)} row, too few to fit.")

    names = tables.make_column_names("x", X.shape[1])
    encoder = _make_encoder(estimator)
    is_category = find_declared_categories(
        X, encoder.categories, names, type(estimator).__name__
    )
    try:
        inputs = encoder.classify(ColumnTable(X, list(names), is_category))
    except ProblemsError as error:
        raise ProblemsError(str(path), error.problems, wording=OPTION_WORDING) from None
    return TrainingRows(inputs, Y, (), "row {} (from 0)".format)


def _read_table_rows(command: FitOptions, estimator: Any) -> TrainingRows:
    """Read rows whose targets, if any, are columns."""
    options = vars(command)
    number_format = NumberFormat.from_options(
        options.get("decimal"), options.get("thousands")
    )
    declares_categories = not isinstance(getattr(estimator, "categories", "auto"), str)
    table = tables.read(
        command.data, number_format, keep_faults=True, has_codes=declares_categories
    )
    for option in ("targets", "ignore", "categories"):
        _check_split_names(table, option, options.get(option, ()))
    inputs, targets = _choose_columns(command, table, estimator)

    encoder = _make_encoder(estimator) if estimator.any_columns else None
    with explain_problems(table):
        data = prepare_training_data(table, inputs, targets, encoder)
    for leak in find_leaks(data):
        warnings.warn(describe_leak(leak), stacklevel=2)

    summary = ""
    if data.inputs.values.dtype == object or ";" in data.summary:
        summary = f"{table.path}: {data.summary}"
    if not number_format.is_given:
        number_format = NumberFormat(expects_commas=table.has_decimal_commas())
    return TrainingRows(
        inputs=data.inputs,
        targets=data.targets if estimator.targets == "columns" else None,
        target_names=targets,
        place=lambda row: table.describe_place(int(data.rows[row])),
        summary=summary,
        number_format=number_format,
    )


def _choose_columns(
    command: FitOptions, table: tables.Table, estimator: Any
) -> tuple[Sequence[str], Sequence[str]]:
    """Return the names of the inputs and of the targets."""
    ignore = getattr(command, "ignore", ())
    targets = getattr(command, "targets", ()) or table.targets
    if estimator.targets == "columns":
        if not targets:
            raise ValueError(
                f"{command.data} has no array 'y' to predict; add it, or name columns of X "
                "by --targets x0,x1."
            )
        inputs = table.list_other_names((*targets, *ignore))
    else:
        # The targets of an .npz are left out, and may be named by --ignore as well.
        inputs = table.list_other_names(tuple(dict.fromkeys((*targets, *ignore))))
        targets = ()
    if not inputs:
        table.check_usable()
        raise ValueError(
            f"{table.path} has no columns left as inputs; name fewer columns."
        )
    return inputs, targets


def _make_encoder(estimator: Any) -> TableEncoder:
    """Return an encoder with the arguments of an estimator about columns."""
    return TableEncoder(
        missing=estimator.missing,
        categories=estimator.categories,
        dates=estimator.dates,
    )


def _check_split_names(table: tables.Table, option: str, names: Sequence[str]) -> None:
    """Explain how to give a column whose name has commas, where an option has its parts."""
    known = {*table.names, *WORDS_FOR_CATEGORIES}
    missing = [name for name in names if name not in known]
    if not missing:
        return
    remedy = explain_split_name(names, table.names, option)
    if remedy:
        raise ValueError(f"{table.path} has no column {missing[0]!r}; {remedy}.")
