"""One table from many sources: files, NumPy arrays, and data frames of all types of pandas."""

import csv
import datetime
import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_array

from mmlp import tables
from mmlp.tables.encoder import LOOSE_VALIDATION, preserve_cells

Columns = dict[str, list[Any]]  # plain values of Python, None where one is missing
ARROW = importlib.util.find_spec("pyarrow") is not None


def write_text(cell: Any) -> str:
    """Return a cell as pandas writes it; Python writes a duration like a time of day."""
    if isinstance(cell, datetime.timedelta):
        return str(pd.Timedelta(cell))
    return "" if cell is None else str(cell)


def read_csv(columns: Columns, folder: Path) -> np.ndarray:
    path = folder / "table.csv"
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows([write_text(cell) for cell in row] for row in _rows(columns))
    return tables.read(path).select_columns(list(columns))


def read_csv_of_pandas(columns: Columns, folder: Path) -> np.ndarray:
    path = folder / "table.csv"
    pd.DataFrame(columns).to_csv(path, index=False)
    return tables.read(path).select_columns(list(columns))


def text_array(columns: Columns, folder: Path) -> np.ndarray:
    return np.array([[write_text(cell) for cell in row] for row in _rows(columns)])


def object_array(columns: Columns, folder: Path) -> np.ndarray:
    found = np.empty((len(_rows(columns)), len(columns)), object)
    for j, cells in enumerate(columns.values()):
        found[:, j] = cells
    return found


def numpy_scalars(columns: Columns, folder: Path) -> np.ndarray:
    """Return objects of NumPy's types; a missing value is NaN or NaT."""
    found = object_array(columns, folder)
    for j, cells in enumerate(columns.values()):
        found[:, j] = [_numpy_scalar(cell) for cell in cells]
    return found


def native_array(columns: Columns, folder: Path) -> Any:
    """Return what NumPy makes of a list of rows."""
    if any(isinstance(cell, str) for cells in columns.values() for cell in cells):
        return object_array(
            columns, folder
        )  # a list would turn None into the text "None"
    return [list(row) for row in _rows(columns)]


def frame(columns: Columns, folder: Path) -> pd.DataFrame:
    return pd.DataFrame(columns)


def object_frame(columns: Columns, folder: Path) -> pd.DataFrame:
    return pd.DataFrame(columns, dtype=object)


def nullable_frame(columns: Columns, folder: Path) -> pd.DataFrame:
    return pd.DataFrame(columns).convert_dtypes()


def text_frame(columns: Columns, folder: Path) -> pd.DataFrame:
    text = [[write_text(cell) or pd.NA for cell in row] for row in _rows(columns)]
    return pd.DataFrame(text, columns=list(columns), dtype="string")


def categorical_frame(columns: Columns, folder: Path) -> pd.DataFrame:
    return pd.DataFrame(columns).astype("category")


def arrow_frame(columns: Columns, folder: Path) -> pd.DataFrame:
    return pd.DataFrame(columns).convert_dtypes(dtype_backend="pyarrow")


SOURCES = {
    "CSV": read_csv,
    "CSV of pandas": read_csv_of_pandas,
    "NumPy text": text_array,
    "NumPy objects": object_array,
    "NumPy scalars": numpy_scalars,
    "NumPy native": native_array,
    "pandas": frame,
    "pandas objects": object_frame,
    "pandas nullable": nullable_frame,
    "pandas text": text_frame,
    "pandas categorical": categorical_frame,
} | ({"pandas Arrow": arrow_frame} if ARROW else {})


def cells_of(X: Any) -> np.ndarray:
    """Return the cells (n, p) of an array or a data frame as the estimators get them."""
    return np.asarray(check_array(preserve_cells(X), **LOOSE_VALIDATION))


def _rows(columns: Columns) -> list[tuple]:
    return list(zip(*columns.values(), strict=True))


def _numpy_scalar(cell: Any) -> Any:
    match cell:
        case None:
            return np.float32("nan")
        case bool() | int() | float() | str():
            return np.array(cell)[()]
        case datetime.timedelta():
            return np.timedelta64(cell)
        case datetime.datetime() if cell.tzinfo is not None:
            return pd.Timestamp(cell).tz_convert("Asia/Tokyo")
        case datetime.datetime() | datetime.date():
            return np.datetime64(cell)
    return cell
