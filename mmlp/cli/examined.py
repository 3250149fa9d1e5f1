"""A table as an estimator can use it: which rows and columns, and everything that is wrong."""

import contextlib
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from mmlp.cli.names import format_argument
from mmlp.tables import Table
from mmlp.tables.cells import Cells, find_mixed_marks
from mmlp.tables.encoder import Encoder
from mmlp.tables.kinds import Kind, LeftOut, Numbers, Options, column, kind_of
from mmlp.tables.problems import Problem, ProblemsError

LEAK = 0.9999  # the correlation of an input with a target that looks like a copy


class Examined(NamedTuple):
    """Inputs (n, p) and targets (n, d) of the rows that are used, their numbers in the table."""

    X: np.ndarray
    y: np.ndarray
    inputs: Sequence[str]
    targets: Sequence[str]
    rows: np.ndarray
    told: str  # what was left out


def examined(
    table: Table, inputs: Sequence[str], targets: Sequence[str], estimator
) -> Examined:
    """The rows that have all targets; for an estimator of numbers alone, those without gaps."""
    X = table.columns(inputs)
    categories = _named_categories(table, estimator)
    as_numbers = [name for name in inputs if name not in categories]
    problems = table.number_problems([*targets, *as_numbers])
    y, target_problems = table.numbers(targets)
    problems = _joined(problems, target_problems)
    other = "or choose another target"
    problems = [
        p._replace(text=p.text.replace("or leave the column out", other))
        if p.column in targets
        else p
        for p in problems
    ]
    if estimator.any_columns:
        told = ""
        problems = _joined(
            problems, _encoding_problems(table, X, inputs, estimator, problems)
        )
    else:
        X, inputs, told, input_problems = _numbers_alone(table, inputs)
        problems = _joined(problems, input_problems)
    table.refuse(problems)
    whole = ~np.isnan(y).any(axis=1)
    gaps = np.zeros(len(X), bool) if estimator.any_columns else np.isnan(X).any(axis=1)
    rows = np.flatnonzero(whole & ~gaps)
    lost = [(~whole, "a target is missing"), (whole & gaps, "a value is missing")]
    parts = [f"{len(table)} rows, {len(table.names)} columns"]
    parts += [
        f"{lacking.sum()} rows left out: {why}"
        for lacking, why in lost
        if lacking.any()
    ]
    if len(rows) < 2:
        raise ValueError(
            f"{table.path}: {'; '.join(parts)}; {len(rows)} are too few to fit."
        )
    return Examined(
        X[rows], y[rows], inputs, targets, rows, "; ".join(filter(None, [*parts, told]))
    )


class Known(NamedTuple):
    """What a table holds for a fitted estimator: X (n, p), y (n, d) and which rows have gaps, (n,).

    Where a row lacks a value that the estimator needs, X holds a number in its place.
    """

    X: np.ndarray
    y: np.ndarray
    gaps: np.ndarray


def read_for(
    estimator, table: Table, inputs: Sequence[str], targets: Sequence[str] = ()
) -> Known:
    """Read the inputs, and the targets if any are given, that a fitted estimator knows.

    Everything that is wrong with the table is told in one answer. Columns that training left out
    need not be there.
    """
    left_out = left_out_inputs(estimator, inputs)
    used = [name for name in inputs if name not in left_out]
    problems = table.number_problems(
        [*_numeric_inputs(estimator, used, inputs), *targets]
    )
    if estimator.any_columns:
        X = _as_numbers(
            _spread(table.columns(used), used, inputs), estimator.columns_.kinds
        )
        gaps = np.zeros(len(table), bool)
        input_problems = []
    else:
        X, input_problems = table.numbers(used)
        gaps = np.asarray(np.isnan(X).any(axis=1))
        # Any number will do: the results of such a row are not shown.
        X = np.where(np.isnan(X), 0.0, X)
    y, target_problems = table.numbers(targets)
    problems = _joined(problems, [*target_problems, *input_problems])
    if estimator.any_columns and (problems or table.faults):
        # Otherwise the estimator itself finds them when it encodes the rows.
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                estimator.columns_(X, inputs)
        except ProblemsError as error:
            problems = _joined(problems, error.problems)
    table.refuse(problems)
    if gaps.any():
        text = f"{table.path}: {gaps.sum()} of {len(X)} rows lack a value; their results are blank."
        warnings.warn(text, stacklevel=2)
    return Known(X, y, gaps)


def known_rows(
    estimator, table: Table, inputs: Sequence[str], targets: Sequence[str]
) -> tuple:
    """The inputs and targets of rows that a score can be made of."""
    X, y, gaps = read_for(estimator, table, inputs, targets)
    gone = np.isnan(y).any(axis=1)
    if gone.any():
        text = f"{table.path}: {gone.sum()} of {len(X)} rows lack a target and are not scored."
        warnings.warn(text, stacklevel=2)
    rows = ~(gone | gaps)
    if not rows.any():
        raise ValueError(f"{table.path} has no row with all values that a score needs.")
    return (X[rows], y[rows]) if targets else (X[rows],)


def left_out_inputs(estimator, inputs: Sequence[str]) -> set[str]:
    """Return the inputs from which a fitted estimator learnt nothing and which it does not read."""
    if not estimator.any_columns:
        return set()
    kinds = estimator.columns_.kinds
    return {
        name
        for name, kind in zip(inputs, kinds, strict=True)
        if isinstance(kind, LeftOut)
    }


def expects_decimal_commas(estimator) -> bool:
    """Return whether the table that an estimator was fitted to had inputs with decimal commas."""
    kinds = estimator.columns_.kinds if estimator.any_columns else ()
    return any(isinstance(kind, Numbers) and kind.commas for kind in kinds)


def _numeric_inputs(estimator, used: Sequence[str], inputs: Sequence[str]) -> list[str]:
    """Return those of the `used` columns that a fitted estimator reads as numbers."""
    if not estimator.any_columns:
        return list(used)
    kinds = dict(zip(inputs, estimator.columns_.kinds, strict=True))
    return [name for name in used if isinstance(kinds[name], Numbers)]


def _spread(X: np.ndarray, used: Sequence[str], inputs: Sequence[str]) -> np.ndarray:
    """Add the columns that were not read, with missing cells."""
    if len(used) == len(inputs):
        return X
    absent = "" if X.dtype == object else np.nan
    whole = np.full((len(X), len(inputs)), absent, X.dtype)
    position = {name: j for j, name in enumerate(inputs)}
    whole[:, [position[name] for name in used]] = X
    return whole


def _as_numbers(X: np.ndarray, kinds: Sequence[Kind]) -> np.ndarray:
    """Turn the text of columns of numbers into numbers; cells that are none stay as they are.

    What "1.600" is has been settled by the whole table, of which the estimator sees the inputs.
    """
    if X.dtype != object:
        return X
    for j, kind in enumerate(kinds):
        if isinstance(kind, Numbers):
            cells = Cells.of(X[:, j])
            if kind.commas and find_mixed_marks(cells.values):
                continue  # the estimator refuses it
            values = [kind.read(cell) for cell in cells.values]
            settled = [
                cell if value is None else value
                for cell, value in zip(cells.values, values, strict=True)
            ]
            X[:, j] = np.array(settled, object)[cells.codes]
    return X


def _joined(problems: Sequence[Problem], more: Sequence[Problem]) -> list[Problem]:
    """Add problems of columns that have none yet: one cause is told once."""
    columns = {problem.column for problem in problems}
    return [*problems, *(problem for problem in more if problem.column not in columns)]


@contextlib.contextmanager
def told_by_lines(table: Table | None):
    """What is wrong with cells is told by the lines of the file."""
    try:
        yield
    except ProblemsError as error:
        if table is None:
            raise
        table.refuse(error.problems)


def plain_numbers(X: np.ndarray, names: Sequence[str]) -> tuple[np.ndarray, list[str]]:
    """The columns of X that are numbers, a missing one filled by the median, and their names."""
    if X.dtype == object:
        cells = list(map(Cells.of, X.T))
        kinds = [kind_of("", some, Options(), forced=False) for some in cells]
        some = [j for j, kind in enumerate(kinds) if isinstance(kind, Numbers)]
        columns: Any = [
            column(k, cells[j]) for j, k in enumerate(kinds) if isinstance(k, Numbers)
        ]
        X = np.stack(columns, axis=1) if some else np.empty((len(X), 0))
    else:
        some = np.flatnonzero(~np.isnan(X).all(axis=0)).tolist()
        X = X[:, some]
    gaps = np.isnan(X)
    return np.where(gaps, np.nanmedian(X, axis=0) if X.size else 0, X), [
        names[j] for j in some
    ]


def leaks(found: Examined) -> Iterator[str]:
    """Inputs that tell a target, almost exactly."""
    if not found.targets or len(found.X) < 3:  # two points are always on a line
        return
    X, names = plain_numbers(found.X, found.inputs)
    x, y = (values - values.mean(axis=0) for values in (X, found.y))
    sizes = np.linalg.norm(x, axis=0)[:, None] * np.linalg.norm(y, axis=0)
    correlation = np.abs(x.T @ y) / np.where(sizes > 0, sizes, np.inf)
    for i, j in np.argwhere(correlation > LEAK).tolist():
        yield (
            f"column {names[i]!r} tells the target {found.targets[j]!r} almost exactly "
            f"(correlation {correlation[i, j]:.6f}); if it is not known when you predict, leave it "
            f"out: --ignore {format_argument([names[i]])}"
        )


def _named_categories(table: Table, estimator) -> Sequence[str]:
    """Return the columns that are said to hold categories."""
    categories = getattr(estimator, "categories", "auto")
    named = () if isinstance(categories, str) else categories
    table.check(named)
    return named


def _encoding_problems(
    table: Table,
    X: np.ndarray,
    inputs: Sequence[str],
    estimator,
    others: Sequence[Problem],
) -> Sequence[Problem]:
    """Return the problems of inputs of any kind; `others` are told where there is none of these."""
    options = Options(estimator.missing, estimator.categories, estimator.dates)
    named = _named_categories(table, estimator)
    try:
        Encoder.of(X, inputs, options, [name in named for name in inputs])
    except ProblemsError as error:
        return error.problems
    except ValueError as error:
        table.refuse(others)
        raise ValueError(f"{table.path}: {error}") from None
    return ()


def _numbers_alone(table: Table, inputs: Sequence[str]):
    """Columns that are numbers, their names, what is left out, and what is wrong with them."""
    X = table.columns(inputs)
    kinds = [
        kind_of(name, Cells.of(X[:, j]), Options("", "ignore", "ignore"), forced=False)
        for j, name in enumerate(inputs)
    ]
    named = list(zip(inputs, kinds, strict=True))
    problems = [kind for _, kind in named if isinstance(kind, Problem)]
    left = [f"{name} ({kind.why})" for name, kind in named if isinstance(kind, LeftOut)]
    used = [name for name, kind in named if isinstance(kind, Numbers)]
    if not used and not problems:
        raise ValueError(
            f"{table.path} has no column of numbers; it holds {', '.join(left):.200}."
        )
    told = f"left out {', '.join(left)}" if left else ""
    return (table.numbers(used)[0] if used else X), used, told, problems
