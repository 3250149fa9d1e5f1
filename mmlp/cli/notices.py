"""What the command line says beside its results, with the file's lines and names, and its own options."""

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from mmlp.estimators import outliers
from mmlp.estimators.outliers import Cell, Columns


def check_cells(
    path: Path,
    dtype,
    place: Callable[[int], str],
    data: Sequence[np.ndarray],
    names: Sequence[Sequence[str]],
) -> None:
    """As in the estimators; `place` says where a row stands in the file."""

    def at(table: Columns, cell: Cell) -> str:
        return f"{place(cell.row)}, column {(table.names or ())[cell.column]!r}:"

    outliers.check_cells(f"{path}, ", dtype, [*map(_columns, data, names)], at, stacklevel=2)


def _columns(values: np.ndarray, names: Sequence[str]) -> Columns:
    if values.ndim == 2:
        return Columns("", values, names)
    diagonal = np.diagonal(
        values, axis1=1, axis2=2
    )  # of matrices, where it bounds the other entries
    return Columns("", diagonal, [f"Y[{j}, {j}]" for j in range(diagonal.shape[1])], squared=False)


def say_unfinished(count: int, of: int, epochs: int) -> None:
    """That training ended at its limit."""
    if count:
        warnings.warn(
            f"{count} of {of} networks were still improving when training ended at its limit of {epochs} epochs; a larger "
            "--epochs may give a better model.",
            stacklevel=2,
        )
