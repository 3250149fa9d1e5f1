"""`mmlp fit`: a file and the arguments of a kind in, a trained model out, and how good it is."""

import shutil
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from mmlp import tables
from mmlp.cli import interrupts
from mmlp.cli.arguments import DEFAULT_REPORT_FOLDER, REPORT_SUFFIX, FitOptions
from mmlp.cli.messages import describe
from mmlp.cli.names import explain_split_name
from mmlp.cli.table_problems import OPTION_WORDING, describe_leak, explain_problems
from mmlp.errors import AnotherRunError, UnusableCheckpointError
from mmlp.estimators.model_files import kinds, save
from mmlp.estimators.outliers import Cell, Columns, FarCellWarning, check_cells
from mmlp.estimators.spd import factored
from mmlp.estimators.target_columns import ConstantTargetWarning, describe_constants
from mmlp.tables.encoder import ColumnTable, TableEncoder, find_declared_categories
from mmlp.tables.number_format import FORMAT_BY_COLUMN, NumberFormat
from mmlp.tables.preparation import (
    find_leaks,
    prepare_training_data,
    read_numeric_columns,
)
from mmlp.tables.problems import ProblemsError
from mmlp.terminal import escape_controls
from mmlp.training.checkpoints import lock_directory


class Rows(NamedTuple):
    """What was read: X, then targets; the names of columns; where a row stands in the file."""

    data: tuple[np.ndarray, ...]
    columns: ColumnTable  # the inputs, classified
    inputs: Sequence[str]
    targets: Sequence[str]
    place: Callable[[int], str]
    told: str = ""  # of the table, if there is more to it than numbers
    # As other tables of the kind are to be read.
    number_format: NumberFormat = FORMAT_BY_COLUMN


def fit(command: FitOptions, out: Path) -> dict:
    """Train, write the model, and score it by the rows that `--test` keeps."""
    estimator = kinds()[command.kind](**command.params())
    rows = (
        _matrix_rows(command, estimator)
        if estimator.targets == "matrices"
        else _read(command, estimator)
    )
    _check_cells(command.data, estimator.dtype, rows)
    kept, used = _split(command, len(rows.data[0]))
    test, train = ([array[some] for array in rows.data] for some in (kept, used))
    estimator.names = rows.inputs
    if rows.told and not command.quiet:
        print(escape_controls(rows.told), file=sys.stderr)
    checkpoint = out.with_name(f"{out.name}.checkpoint") / command.kind
    with lock_directory(checkpoint.parent):
        with interrupts.Resumable(checkpoint):
            _fit_or_explain(
                command.data,
                estimator,
                [_training_inputs(estimator, rows, used), *train[1:]],
                checkpoint,
                place=lambda row: rows.place(int(used[row])),
                overwrite=command.overwrite,
            )
        # first of all: whatever is wrong with the test rows, it is not lost
        if rows.number_format != FORMAT_BY_COLUMN:
            estimator.number_format_ = rows.number_format
        save(estimator, out, feature_names_in_=rows.inputs, target_names_=rows.targets)
        if checkpoint.exists():  # not every estimator needs one
            shutil.rmtree(checkpoint)
    columns = getattr(estimator, "_target_columns", None)
    if columns is not None and len(columns.constant):
        warnings.warn(f"{describe_constants(columns, rows.targets)}.", stacklevel=2)
    count, of = estimator.unfinished()
    if count:
        warnings.warn(
            f"{count} of {of} networks were still improving when training ended at its limit of "
            f"{estimator.epochs} epochs; a larger --epochs may give a better model.",
            stacklevel=2,
        )
    tested = scores(estimator, *test) if len(test[0]) else {}
    results: dict = {f"test_{name}": value for name, value in tested.items()}
    if command.report is not None:
        from mmlp.reporting import report

        # without --test of the rows of training, which the page then says
        judged, some = (test, kept) if len(kept) else (train, used)
        place = rows.place if not len(kept) else lambda i: rows.place(int(some[i]))
        names = {"inputs": rows.inputs, "targets": rows.targets, "place": place}
        how = {"train": train, "title": f"{out.name} on {command.data.name}"}
        folder, quiet = report_folder(command.report, out), command.quiet
        X, y = (*judged, None)[:2]
        page = report(estimator, X, y, folder, progress=not quiet, **names, **how)
        results["report"] = str(page)
    return results


def _training_inputs(
    estimator, rows: Rows, used: np.ndarray
) -> ColumnTable | np.ndarray:
    """Return the inputs of the rows to train on, with the kinds of their columns."""
    if estimator.any_columns:
        return rows.columns.take(used)
    return rows.columns.values[used]


def report_folder(given: Path, model: Path) -> Path:
    """Where the page of a model goes."""
    return (
        Path(f"{model.stem}{REPORT_SUFFIX}")
        if given == DEFAULT_REPORT_FOLDER
        else given
    )


def scores(estimator, X: np.ndarray, *targets: np.ndarray) -> dict[str, float]:
    return {"rows": len(X), **estimator.scores(X, *targets)}


def matrices(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """X and Y of an .npz, all rows checked before any is used."""
    X, Y = tables.read_matrices(path)
    try:
        factored(Y)
    except ValueError as error:
        raise ValueError(f"{path}: {describe(error)}") from None
    return X, Y


def _matrix_rows(command: FitOptions, estimator) -> Rows:
    X, Y = matrices(command.data)
    if len(X) < 2:
        raise ValueError(f"{command.data} has {len(X)} row, too few to fit.")
    names = tables.number_columns("x", X.shape[1])
    encoder = _make_encoder(estimator)
    is_category = find_declared_categories(
        X, encoder.categories, names, type(estimator).__name__
    )
    try:
        columns = encoder.classify(ColumnTable(X, list(names), is_category))
    except ProblemsError as error:
        raise ProblemsError(
            str(command.data), error.problems, wording=OPTION_WORDING
        ) from None
    return Rows((X, Y), columns, names, (), "row {} (from 0)".format)


def _make_encoder(estimator) -> TableEncoder:
    """Return an encoder with the arguments of an estimator about columns."""
    return TableEncoder(
        missing=estimator.missing,
        categories=estimator.categories,
        dates=estimator.dates,
    )


def _read(command: FitOptions, estimator) -> Rows:
    """The rows that an estimator of columns is fitted to."""
    options = vars(command)
    number_format = NumberFormat.from_options(
        options.get("decimal"), options.get("thousands")
    )
    has_codes = not isinstance(getattr(estimator, "categories", "auto"), str)
    table = tables.read(
        command.data, number_format, keep_faults=True, has_codes=has_codes
    )
    for option in ("targets", "ignore", "categories"):
        _check_split_names(table, option, options.get(option, ()))
    ignore = options.get("ignore", ())
    targets = options.get("targets", ()) or table.targets
    if estimator.targets == "columns" and not targets:
        remedy = "add it, or name columns of X by --targets x0,x1"
        raise ValueError(f"{command.data} has no array 'y' to predict; {remedy}.")
    names = (*targets, *ignore)
    if estimator.targets is None:  # a column may be both
        names, targets = tuple(dict.fromkeys(names)), ()
    inputs = table.others(names)
    if not inputs:
        table.check_usable()
        raise ValueError(
            f"{table.path} has no columns left as inputs; name fewer columns."
        )
    encoder = _make_encoder(estimator) if estimator.any_columns else None
    with explain_problems(table):
        found = prepare_training_data(table, inputs, targets, encoder)
    for leak in find_leaks(found):
        warnings.warn(describe_leak(leak), stacklevel=2)
    X = found.inputs.values
    data = (X, found.targets) if estimator.targets == "columns" else (X,)
    told = ""
    if X.dtype == object or ";" in found.summary:
        told = f"{table.path}: {found.summary}"
    if not number_format.is_given:
        number_format = NumberFormat(expects_commas=table.has_decimal_commas())
    return Rows(
        data,
        found.inputs,
        found.inputs.names,
        targets,
        lambda row: table.place(int(found.rows[row])),
        told,
        number_format,
    )


def _check_split_names(table: tables.Table, option: str, names: Sequence[str]) -> None:
    """Explain how to give a column whose name has commas, where an option has its pieces."""
    known = {*table.names, "auto", "ignore", "refuse"}
    missing = [name for name in names if name not in known]
    if missing and (remedy := explain_split_name(names, table.names, option)):
        raise ValueError(f"{table.path} has no column {missing[0]!r}; {remedy}.")


def _check_cells(path: Path, dtype, rows: Rows) -> None:
    """Refuse or name cells that lie absurdly far out, by the file's lines and names."""

    def at(table: Columns, cell: Cell) -> str:
        column = (table.names or ())[cell.column]
        return f"{path}, {rows.place(cell.row)}, column {column!r}:"

    values, names = read_numeric_columns(rows.columns)
    found = [Columns("", values, names)]
    for targets in rows.data[1:]:
        if targets.ndim == 2:
            found.append(Columns("", targets, rows.targets))
        else:
            # The diagonal bounds the other entries of a covariance.
            diagonal = np.diagonal(targets, axis1=1, axis2=2)
            names = [f"Y[{j}, {j}]" for j in range(diagonal.shape[1])]
            found.append(Columns("", diagonal, names, squared=False))
    check_cells("", dtype, found, at, stacklevel=2)


def _split(command: FitOptions, n: int) -> tuple[np.ndarray, np.ndarray]:
    """The numbers of the rows that are kept for a test, and of those to train on."""
    share = command.test
    order, kept = np.random.default_rng(command.seed).permutation(n), round(share * n)
    if share and not 2 <= kept <= n - 2:
        raise ValueError(
            f"{command.data} has {n} rows, too few for --test {share:g}; use another share."
        )
    return np.sort(order[:kept]), np.sort(order[kept:])


def _fit_or_explain(
    path: Path,
    estimator,
    data: Sequence[Any],
    checkpoint: Path,
    *,
    place: Callable[[int], str],
    overwrite: bool,
) -> None:
    """Fit, from the checkpoint if it is one of the same training; explain errors by options.

    `place` tells where a row of the data stands in the file. With `overwrite`, a checkpoint of
    another training is discarded. Nobody else is at work there: the caller holds the lock.
    """
    try:
        try:
            _fit_quietly(estimator, data, checkpoint)
        except UnusableCheckpointError:
            if not overwrite:
                raise
            shutil.rmtree(checkpoint)
            _fit_quietly(estimator, data, checkpoint)
    except AnotherRunError:
        raise AnotherRunError(
            checkpoint, "keeps an unfinished training with other data or options"
        ) from None
    except UnusableCheckpointError:
        raise
    except ProblemsError as error:
        raise ProblemsError(
            str(path), error.problems, place=place, wording=OPTION_WORDING
        ) from None
    except ValueError as error:
        raise ValueError(f"{path}: {describe(error)}") from error


def _fit_quietly(estimator, data: Sequence[Any], checkpoint: Path) -> None:
    """Fit without the warnings that the command words by its options."""
    with warnings.catch_warnings():
        for category in (FarCellWarning, ConvergenceWarning, ConstantTargetWarning):
            warnings.simplefilter("ignore", category)
        estimator.fit(*data, checkpoint=checkpoint)
