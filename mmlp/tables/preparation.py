"""Prepare the table of a file for an estimator.

Choose columns, classify them, leave out rows that cannot be used, and collect
everything that is wrong, so that a user can correct it in one go. The rows of problems
are those of the file's table.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mmlp.tables.cells import Cells
from mmlp.tables.classification import classify_column
from mmlp.tables.encoder import ColumnTable, TableEncoder, check_learnable
from mmlp.tables.kinds import Kind, LeftOut, Numbers
from mmlp.tables.number_format import find_mixed_marks
from mmlp.tables.problems import Problem, ProblemsError, Remedy, join_problems
from mmlp.tables.table import Table

MIN_TRAINING_ROWS = 2
# An input with this correlation with a target looks like a copy of it.
MIN_LEAK_CORRELATION = 0.9999
# Two points always lie on a line.
MIN_ROWS_FOR_LEAKS = 3


@dataclass(frozen=True)
class TrainingData:
    """The rows and columns of a table that an estimator is fitted to.

    Parameters
    ----------
    inputs : ColumnTable
        The inputs of the rows that are used, classified.
    targets : array of shape (n_rows, n_targets)
    target_names : tuple of str
    rows : array of int, shape (n_rows,)
        Where the rows stand in the table of the file.
    summary : str
        The size of the table and what was left out.
    """

    inputs: ColumnTable
    targets: np.ndarray
    target_names: tuple[str, ...]
    rows: np.ndarray
    summary: str


@dataclass(frozen=True)
class PredictionData:
    """The rows of a table for a fitted estimator.

    Parameters
    ----------
    inputs : array of shape (n_rows, n_inputs)
        Cells for the encoder; without one, numbers, 0 where one is missing.
    targets : array of shape (n_rows, n_targets)
        NaN where a target is missing.
    is_incomplete : array of bool, shape (n_rows,)
        Without an encoder, the rows that lack an input: their results mean nothing.
        With one, no row.
    """

    inputs: np.ndarray
    targets: np.ndarray
    is_incomplete: np.ndarray


@dataclass(frozen=True)
class Leak:
    """An input that predicts a target almost exactly, alone and linearly."""

    input: str
    target: str
    correlation: float


def prepare_training_data(
    table: Table,
    inputs: Sequence[str],
    targets: Sequence[str],
    encoder: TableEncoder | None,
) -> TrainingData:
    """Select the rows and columns to fit an estimator to, and classify the columns.

    Parameters
    ----------
    table : Table
    inputs, targets : sequence of str
        Names of columns.
    encoder : TableEncoder or None
        Its arguments say what becomes of the columns; it is not fitted. None is for an
        estimator that takes numbers only: columns of anything else, and rows with
        missing values, are left out.

    Returns
    -------
    TrainingData

    Raises
    ------
    ProblemsError
        If cells of the table cannot be used.
    ValueError
        If too few rows or no columns are left.
    """
    problems = _find_number_problems(table, inputs, targets, encoder)
    y, target_problems = table.read_numbers(targets)
    problems = [
        _offer_another_target(problem, targets)
        for problem in join_problems(problems, target_problems)
    ]
    left_out: list[str] = []
    if encoder is None:
        columns, left_out, input_problems = _select_numeric_columns(table, inputs)
    else:
        columns, input_problems = _classify_inputs(table, inputs, encoder, problems)
    table.check_usable(join_problems(problems, input_problems))

    has_targets = ~find_rows_with_nan(y)
    has_inputs = np.ones(len(table), bool)
    if encoder is None:
        has_inputs = ~find_rows_with_nan(columns.values)
    rows = np.flatnonzero(has_targets & has_inputs)

    facts = [f"{len(table)} rows, {len(table.names)} columns"]
    if not has_targets.all():
        n_lost = np.sum(~has_targets)
        facts.append(f"{n_lost} rows left out: a target is missing")
    if not has_inputs[has_targets].all():
        n_lost = np.sum(~has_inputs[has_targets])
        facts.append(f"{n_lost} rows left out: a value is missing")
    if len(rows) < MIN_TRAINING_ROWS:
        raise ValueError(
            f"{table.path}: {'; '.join(facts)}; {len(rows)} are too few to fit."
        )
    if left_out:
        facts.append(f"left out {', '.join(left_out)}")
    return TrainingData(
        inputs=columns.take(rows),
        targets=y[rows],
        target_names=tuple(targets),
        rows=rows,
        summary="; ".join(facts),
    )


def prepare_prediction_data(
    table: Table,
    inputs: Sequence[str],
    targets: Sequence[str],
    encoder: TableEncoder | None,
) -> PredictionData:
    """Read the inputs of a fitted estimator, and the targets if there are any.

    Parameters
    ----------
    table : Table
    inputs : sequence of str
        The names of the inputs of training. Columns that training left out need not be
        in the table.
    targets : sequence of str
    encoder : TableEncoder or None
        The fitted encoder, or None for an estimator that takes numbers only.

    Returns
    -------
    PredictionData

    Raises
    ------
    ProblemsError
        If names, lines, targets or the format of numbers are faulty; it then lists the
        other problems of the inputs too. Alone, these raise it only without an encoder:
        with one, the estimator finds them when it encodes the rows.
    """
    if encoder is None:
        return _prepare_numeric_prediction(table, inputs, targets)

    kinds = dict(zip(inputs, encoder.kinds_, strict=True))
    used = [name for name in inputs if not isinstance(kinds[name], LeftOut)]
    numeric = [name for name in used if isinstance(kinds[name], Numbers)]
    problems = table.find_number_problems([*numeric, *targets])

    X = _insert_absent_columns(table.select_columns(used), used, inputs)
    X = _parse_numbers(X, encoder.kinds_)
    y, target_problems = table.read_numbers(targets)
    problems = join_problems(problems, target_problems)
    if problems or table.is_faulty:
        # Otherwise the estimator finds the problems when it encodes the rows.
        problems = join_problems(problems, _find_encoding_problems(encoder, X, inputs))
    table.check_usable(problems)
    return PredictionData(X, y, np.zeros(len(table), bool))


def prepare_scored_data(
    table: Table,
    inputs: Sequence[str],
    targets: Sequence[str],
    encoder: TableEncoder | None,
) -> tuple[np.ndarray, np.ndarray]:
    """Read the inputs and targets of the rows that can be scored.

    The parameters are those of `prepare_prediction_data`.

    Returns
    -------
    inputs : array of shape (n_rows, n_inputs)
    targets : array of shape (n_rows, n_targets)
    """
    data = prepare_prediction_data(table, inputs, targets, encoder)
    lacks_target = find_rows_with_nan(data.targets)
    if lacks_target.any():
        warnings.warn(
            f"{table.path}: {lacks_target.sum()} of {len(table)} rows lack a target and "
            "are not scored.",
            stacklevel=2,
        )
    is_scored = ~(lacks_target | data.is_incomplete)
    if encoder is not None and not is_scored.all():
        # Find problems here, with the rows of the table: the estimator would count
        # only the rows that are scored.
        table.check_usable(_find_encoding_problems(encoder, data.inputs, inputs))
    if not is_scored.any():
        raise ValueError(f"{table.path} has no row with all values that a score needs.")
    return data.inputs[is_scored], data.targets[is_scored]


def read_numeric_columns(columns: ColumnTable) -> tuple[np.ndarray, list[str]]:
    """Return the columns of a classified table that are numbers, and their names.

    Missing values are filled with the median.
    """
    names = []
    values = [np.empty((len(columns), 0))]
    for j, kind in enumerate(columns.kinds or ()):
        if not isinstance(kind, Numbers):
            continue
        column = columns.values[:, j]
        numbers = kind.read_array(column)
        is_missing = np.isnan(numbers)
        if not is_missing.all():
            names.append(columns.names[j])
            filled = np.where(is_missing, np.nanmedian(numbers), numbers)
            values.append(filled[:, None])
    return np.concatenate(values, axis=1), names


def find_leaks(data: TrainingData) -> list[Leak]:
    """Return the inputs that predict a target almost exactly."""
    if not data.target_names or len(data.inputs) < MIN_ROWS_FOR_LEAKS:
        return []
    X, names = read_numeric_columns(data.inputs)
    X = X - X.mean(axis=0)
    y = data.targets - data.targets.mean(axis=0)
    sizes = np.linalg.norm(X, axis=0)[:, None] * np.linalg.norm(y, axis=0)
    correlations = np.abs(X.T @ y) / np.where(sizes > 0, sizes, np.inf)
    return [
        Leak(names[i], data.target_names[j], float(correlations[i, j]))
        for i, j in np.argwhere(correlations > MIN_LEAK_CORRELATION).tolist()
    ]


def find_rows_with_nan(values: np.ndarray) -> np.ndarray:
    """Return which rows of numbers have a missing one, (n_rows,)."""
    return np.asarray(np.isnan(values).any(axis=1))


def _find_number_problems(
    table: Table,
    inputs: Sequence[str],
    targets: Sequence[str],
    encoder: TableEncoder | None,
) -> list[Problem]:
    """Return the problems of numbers in targets, and in inputs that may be numbers."""
    categories = _list_declared_categories(table, encoder)
    numeric_inputs = [name for name in inputs if name not in categories]
    return table.find_number_problems([*targets, *numeric_inputs])


def _offer_another_target(problem: Problem, targets: Sequence[str]) -> Problem:
    """Replace the remedy to leave a column out if the column is a target."""
    if problem.column not in targets:
        return problem
    return problem.replace_remedy(Remedy.LEAVE_COLUMN_OUT, Remedy.CHOOSE_ANOTHER_TARGET)


def _list_declared_categories(
    table: Table, encoder: TableEncoder | None
) -> Sequence[str]:
    """Return the columns that the user declared to hold categories."""
    if encoder is None or isinstance(encoder.categories, str):
        return ()
    table.check_names(encoder.categories)
    return encoder.categories


def _classify_inputs(
    table: Table,
    inputs: Sequence[str],
    encoder: TableEncoder,
    other_problems: Sequence[Problem],
) -> tuple[ColumnTable, Sequence[Problem]]:
    """Classify the inputs once, by all rows of the table, and return their problems."""
    categories = _list_declared_categories(table, encoder)
    columns = ColumnTable(
        values=table.select_columns(inputs),
        names=list(inputs),
        is_category=[name in categories for name in inputs],
    )
    try:
        columns = encoder.classify(columns)
        # The kinds have no statistics yet, but a table from which nothing can be learnt
        # is refused before any work starts.
        check_learnable(columns)
    except ProblemsError as error:
        return columns, error.problems
    except ValueError as error:
        table.check_usable(other_problems)
        raise ValueError(f"{table.path}: {error}") from None
    return columns, ()


def _select_numeric_columns(
    table: Table, inputs: Sequence[str]
) -> tuple[ColumnTable, list[str], list[Problem]]:
    """Return the columns of numbers, what is left out and why, and the problems."""
    X = table.select_columns(inputs)
    numeric = []
    kinds = []
    left_out = []
    problems = []
    for j, name in enumerate(inputs):
        result = classify_column(name, X[:, j], categories="ignore", dates="ignore")
        if isinstance(result, Problem):
            problems.append(result)
        elif isinstance(result, Numbers):
            numeric.append(name)
            kinds.append(result)
        elif isinstance(result, LeftOut):
            left_out.append(f"{name} ({result.why})")
    if not numeric and not problems:
        raise ValueError(
            f"{table.path} has no column of numbers; it holds "
            f"{', '.join(left_out):.200}."
        )
    values, _ = table.read_numbers(numeric)
    columns = ColumnTable(values, numeric, [False] * len(numeric), tuple(kinds))
    return columns, left_out, problems


def _prepare_numeric_prediction(
    table: Table, inputs: Sequence[str], targets: Sequence[str]
) -> PredictionData:
    """Read rows for an estimator that takes numbers only."""
    problems = table.find_number_problems([*inputs, *targets])
    X, input_problems = table.read_numbers(inputs)
    y, target_problems = table.read_numbers(targets)
    problems = join_problems(problems, [*target_problems, *input_problems])
    table.check_usable(problems)

    is_incomplete = find_rows_with_nan(X)
    if is_incomplete.any():
        warnings.warn(
            f"{table.path}: {is_incomplete.sum()} of {len(X)} rows lack a value; their "
            "results are blank.",
            stacklevel=3,
        )
    # Any number will do: the results of such a row are not shown.
    return PredictionData(np.where(np.isnan(X), 0.0, X), y, is_incomplete)


def _find_encoding_problems(
    encoder: TableEncoder, X: np.ndarray, names: Sequence[str]
) -> Sequence[Problem]:
    """Return the problems that an encoder finds."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            encoder.encode(X, names)
    except ProblemsError as error:
        return error.problems
    return ()


def _insert_absent_columns(
    X: np.ndarray, used: Sequence[str], inputs: Sequence[str]
) -> np.ndarray:
    """Add the columns that were not read, with missing cells."""
    if len(used) == len(inputs):
        return X
    missing = "" if X.dtype == object else np.nan
    whole = np.full((len(X), len(inputs)), missing, X.dtype)
    position = {name: j for j, name in enumerate(inputs)}
    whole[:, [position[name] for name in used]] = X
    return whole


def _parse_numbers(X: np.ndarray, kinds: Sequence[Kind]) -> np.ndarray:
    """Turn text into numbers in place, in the columns of numbers only.

    What "1.600" means has been settled by the whole table, of which the encoder sees
    the inputs only.
    """
    if X.dtype != object:
        return X
    for j, kind in enumerate(kinds):
        # A duration stays as it is: its number has no unit that the encoder could check.
        if not isinstance(kind, Numbers) or kind.durations:
            continue
        cells = Cells.of(X[:, j])
        if kind.commas and find_mixed_marks(cells.values):
            continue  # the encoder refuses it
        settled = []
        for cell in cells.values:
            value = kind.read(cell)
            settled.append(cell if value is None else value)
        X[:, j] = np.array(settled, object)[cells.codes]
    return X
