"""A table as an estimator can use it: which rows and columns, and everything that is wrong."""

import contextlib
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from mmlp.columns.cells import Cells
from mmlp.columns.encoder import Encoder
from mmlp.columns.kinds import LeftOut, Numbers, Options, column, kind_of
from mmlp.columns.problems import Problem, ProblemsError
from mmlp.tables import Table

LEAK = 0.9999  # the correlation of an input with a target that looks like a copy


class Examined(NamedTuple):
    """Inputs (n, p) and targets (n, d) of the rows that are used, their numbers in the table."""

    X: np.ndarray
    y: np.ndarray
    inputs: Sequence[str]
    targets: Sequence[str]
    rows: np.ndarray
    told: str  # what was left out


def examined(table: Table, inputs: Sequence[str], targets: Sequence[str], estimator) -> Examined:
    """The rows that have all targets; for an estimator of numbers alone, those without gaps."""
    X = table.columns(inputs)
    y, problems = table.numbers(targets)
    other = "or choose another target"
    problems = [p._replace(text=p.text.replace("or leave the column out", other)) for p in problems]
    if estimator.any_columns:
        told, problems = "", problems + _problems(table, X, inputs, estimator)
    else:
        X, inputs, told, more = _numbers_alone(table, inputs)
        problems += more
    table.refuse(problems)
    whole = ~np.isnan(y).any(axis=1)
    gaps = np.zeros(len(X), bool) if estimator.any_columns else np.isnan(X).any(axis=1)
    rows = np.flatnonzero(whole & ~gaps)
    lost = [(~whole, "a target is missing"), (whole & gaps, "a value is missing")]
    parts = [f"{len(table)} rows, {len(table.names)} columns"]
    parts += [f"{lacking.sum()} rows left out: {why}" for lacking, why in lost if lacking.any()]
    if len(rows) < 2:
        raise ValueError(f"{table.path}: {'; '.join(parts)}; {len(rows)} are too few to fit.")
    return Examined(
        X[rows], y[rows], inputs, targets, rows, "; ".join(filter(None, [*parts, told]))
    )


def rows_for(estimator, table: Table, inputs: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """The rows that a fitted estimator predicts, and which lack a value that it needs, (n,)."""
    if estimator.any_columns:
        return table.columns(inputs), np.zeros(len(table), bool)
    X, problems = table.numbers(inputs)
    table.refuse(problems)
    gaps = np.isnan(X)
    rows = np.asarray(gaps.any(axis=1))
    if rows.any():
        text = f"{table.path}: {rows.sum()} of {len(X)} rows lack a value; their results are blank."
        warnings.warn(text, stacklevel=2)
    return np.where(gaps, 0.0, X), rows  # any number will do: what comes of it is not shown


def known_rows(estimator, table: Table, inputs: Sequence[str], targets: Sequence[str]) -> tuple:
    """The inputs and targets of rows that a score can be made of."""
    X, gaps = rows_for(estimator, table, inputs)
    y, problems = table.numbers(targets)
    if problems and estimator.any_columns:
        try:
            estimator.columns_(X, inputs)
        except ProblemsError as error:
            problems += error.problems
    table.refuse(problems)
    gone = np.isnan(y).any(axis=1)
    if gone.any():
        text = f"{table.path}: {gone.sum()} of {len(X)} rows lack a target and are not scored."
        warnings.warn(text, stacklevel=2)
    rows = ~(gone | gaps)
    if not rows.any():
        raise ValueError(f"{table.path} has no row with all values that a score needs.")
    return (X[rows], y[rows]) if targets else (X[rows],)


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
        columns: Any = [column(k, cells[j]) for j, k in enumerate(kinds) if isinstance(k, Numbers)]
        X = np.stack(columns, axis=1) if some else np.empty((len(X), 0))
    else:
        some = np.flatnonzero(~np.isnan(X).all(axis=0)).tolist()
        X = X[:, some]
    gaps = np.isnan(X)
    return np.where(gaps, np.nanmedian(X, axis=0) if X.size else 0, X), [names[j] for j in some]


def leaks(found: Examined) -> Iterator[str]:
    """Inputs that tell a target, almost exactly."""
    if not found.targets:
        return
    X, names = plain_numbers(found.X, found.inputs)
    x, y = (values - values.mean(axis=0) for values in (X, found.y))
    sizes = np.linalg.norm(x, axis=0)[:, None] * np.linalg.norm(y, axis=0)
    correlation = np.abs(x.T @ y) / np.where(sizes > 0, sizes, np.inf)
    for i, j in np.argwhere(correlation > LEAK).tolist():
        yield (
            f"column {names[i]!r} tells the target {found.targets[j]!r} almost exactly "
            f"(correlation {correlation[i, j]:.6f}); if it is not known when you predict, leave it "
            f"out: --ignore {names[i]}"
        )


def _problems(table: Table, X: np.ndarray, inputs: Sequence[str], estimator) -> list[Problem]:
    """Those of inputs of any kind."""
    options = Options(estimator.missing, estimator.categories, estimator.dates)
    named = () if isinstance(options.categories, str) else options.categories
    table.check(named)
    try:
        Encoder.of(X, inputs, options, [name in named for name in inputs])
    except ProblemsError as error:
        return list(error.problems)
    except ValueError as error:
        raise ValueError(f"{table.path}: {error}") from None
    return []


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
        raise ValueError(f"{table.path} has no column of numbers; it holds {', '.join(left):.200}.")
    told = f"left out {', '.join(left)}" if left else ""
    return (table.numbers(used)[0] if used else X), used, told, problems
