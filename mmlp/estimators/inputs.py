"""The inputs of an estimator that takes columns of any type: checked and encoded.

The estimators hold a fitted `TableEncoder` as `columns_`. These functions read X as
`fit` and the predictions need it, and name the estimator in errors and warnings.
"""

import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils import _safe_indexing, check_consistent_length
from sklearn.utils.validation import validate_data

from mmlp.errors import CallError, CallWarning
from mmlp.estimators.arguments import check_choice
from mmlp.tables.encoder import (
    CATEGORY_CHOICES,
    DATE_CHOICES,
    LOOSE_VALIDATION,
    MISSING_CHOICES,
    ColumnTable,
    TableEncoder,
    find_declared_categories,
    find_incomplete_rows,
    preserve_cells,
)
from mmlp.tables.kinds import Kind, Numbers
from mmlp.tables.problems import ProblemsError
from mmlp.tables.summary import needs_summary, summarize_columns
from mmlp.terminal import escape_controls

MIN_ROWS = 2


@dataclass(frozen=True)
class TrainingTable:
    """The rows of X and y that an estimator learns from.

    Parameters
    ----------
    row_indices : array of int, shape (n_rows,)
        Where the rows stand in the X of `fit`.
    weights : array of shape (n_rows,)
    inputs : array of shape (n_rows, n_inputs)
        Encoded as finite numbers.
    targets : array of shape (n_rows, n_targets)
    is_vector : bool
        Whether y was a vector.
    """

    row_indices: np.ndarray
    weights: np.ndarray
    inputs: np.ndarray
    targets: np.ndarray
    is_vector: bool


@dataclass(frozen=True)
class EncodedRows:
    """Training rows after encoding.

    Parameters
    ----------
    encoder : TableEncoder
    values : array of shape (n_rows, n_inputs)
    kept : array of int, shape (n_rows,)
        The rows that are left: with `missing="drop"` the complete ones.
    """

    encoder: TableEncoder
    values: np.ndarray
    kept: np.ndarray


def read_training_table(estimator: Any, X: Any, y: Any, weights: Any) -> TrainingTable:
    """Check X and y, leave out rows that cannot be used, and encode X.

    The fitted encoder becomes `estimator.columns_`.

    Parameters
    ----------
    estimator : NetworkEstimator
        With the arguments `missing`, `categories` and `dates`.
    X : data frame, array or ColumnTable
    y : array of shape (n_rows,) or (n_rows, n_targets)
    weights : array of shape (n_rows,), optional
    """
    is_category = check_column_arguments(estimator, X)
    kinds = getattr(X, "kinds", None)
    X = preserve_cells(X)
    X, y, weights, known_rows = _leave_out_unknown_targets(estimator, X, y, weights)
    X, y = validate_data(
        estimator,
        X,
        y,
        multi_output=True,
        y_numeric=True,
        ensure_min_samples=MIN_ROWS,
        reset=not estimator._resumes,
        **LOOSE_VALIDATION,
    )
    is_vector = np.ndim(y) == 1
    y = np.asarray(y, np.float64).reshape(len(y), -1)

    used = estimator._select_weighted_rows(weights, np.asarray(X), y)
    X, y = used.arrays
    row_indices = known_rows[used.indices]
    table = ColumnTable(X, name_columns(estimator), is_category, kinds)
    encoded = encode_training_rows(estimator, table, row_indices, stacklevel=5)
    estimator.columns_ = encoded.encoder
    return TrainingTable(
        row_indices=row_indices[encoded.kept],
        weights=used.weights[encoded.kept],
        inputs=encoded.values,
        targets=y[encoded.kept],
        is_vector=is_vector,
    )


def read_columns(estimator: Any, X: Any) -> ColumnTable:
    """Check the X of `fit` where y is checked elsewhere."""
    is_category = check_column_arguments(estimator, X)
    kinds = getattr(X, "kinds", None)
    values = validate_data(
        estimator,
        preserve_cells(X),
        ensure_min_samples=MIN_ROWS,
        reset=not estimator._resumes,
        **LOOSE_VALIDATION,
    )
    names = name_columns(estimator)
    return ColumnTable(np.asarray(values), names, is_category, kinds)


def encode_training_rows(
    estimator: Any, table: ColumnTable, row_indices: np.ndarray, *, stacklevel: int
) -> EncodedRows:
    """Fit an encoder to a table and encode it, or with a warm start use the fitted one.

    Parameters
    ----------
    estimator : NetworkEstimator
    table : ColumnTable
    row_indices : array of int, shape (n_rows,)
        Where the rows stand in the X of `fit`, for errors.
    stacklevel : int
        Of the frame to which warnings are attributed; 1 is the caller.
    """
    kept = np.arange(len(table))
    try:
        if estimator._resumes:
            encoder = estimator.columns_
            _check_same_encoding(estimator, encoder.kinds_, table.is_category)
            if estimator.missing == "drop":
                is_incomplete = find_incomplete_rows(encoder.kinds_, table.values)
                kept = np.flatnonzero(~is_incomplete)
        else:
            encoder = TableEncoder(
                missing=estimator.missing,
                categories=estimator.categories,
                dates=estimator.dates,
            )
            kept = encoder.fit_table(table)
        _warn_of_dropped_rows(estimator, len(kept), len(table), stacklevel + 1)
        row_indices = row_indices[kept]
        values = encoder.encode(table.values[kept], table.names)
    except ProblemsError as error:
        # The table lacks the rows without a target or with weight zero; its user
        # counts them too.
        raise error.renumber(row_indices) from None
    except ValueError as error:
        problem = str(error).removesuffix(".")
        raise CallError(problem, call=f"{type(estimator).__name__}.fit") from None

    if getattr(estimator, "verbose", 0) and needs_summary(encoder):
        text = "\n".join(summarize_columns(encoder, table.names))
        print(escape_controls(text), file=sys.stderr, flush=True)
    return EncodedRows(encoder, values, kept)


def encode_rows(estimator: Any, X: Any) -> np.ndarray:
    """Check and encode the X of a prediction, (n_rows, n_inputs)."""
    values = validate_data(
        estimator, preserve_cells(X), reset=False, **LOOSE_VALIDATION
    )
    return estimator.columns_.encode(np.asarray(values), name_columns(estimator))


def check_column_arguments(estimator: Any, X: Any) -> list[bool]:
    """Check the arguments about columns; return which columns hold categories."""
    call = type(estimator).__name__
    check_choice(call, "missing", estimator.missing, MISSING_CHOICES)
    check_choice(call, "dates", estimator.dates, DATE_CHOICES)
    if not isinstance(estimator.categories, Sequence | np.ndarray) or isinstance(
        estimator.categories, str
    ):
        check_choice(call, "categories", estimator.categories, CATEGORY_CHOICES)
    return find_declared_categories(
        X, estimator.categories, names=estimator.names, class_name=call
    )


def name_columns(estimator: Any) -> list[str]:
    """Return the names of the columns of X, or their numbers."""
    names = getattr(estimator, "feature_names_in_", estimator.names)
    if names is None:
        names = range(estimator.n_features_in_)
    return [str(name) for name in names]


def count_encoded_inputs(estimator: Any) -> int:
    """Return the number of encoded inputs; refuse an encoder of other columns."""
    n_kinds = len(getattr(estimator.columns_, "kinds_", ()))
    if n_kinds != estimator.n_features_in_:  # in a file that was changed
        raise ValueError(
            f"its columns_ are not {estimator.n_features_in_} kinds of columns"
        )
    return len(estimator.columns_.indicator_mask)


def _leave_out_unknown_targets(
    estimator: Any, X: Any, y: Any, weights: Any
) -> tuple[Any, Any, Any, np.ndarray]:
    """Return X, y and weights of the rows with all targets, and the row indices."""
    try:
        values = np.asarray(y, np.float64)
    except (TypeError, ValueError):  # `validate_data` refuses it, if it must
        return X, y, weights, np.arange(np.shape(y)[0] if np.ndim(y) else 0)

    is_unknown: Any = np.zeros(0, bool)
    if values.ndim and values.size:
        is_missing = np.isnan(values.reshape(len(values), -1))
        is_unknown = np.asarray(is_missing.any(axis=1))
    n_rows = len(is_unknown)
    if not is_unknown.any():
        return X, y, weights, np.arange(n_rows)

    check_consistent_length(X, y, weights)
    call = f"{type(estimator).__name__}.fit"
    rows = np.flatnonzero(~is_unknown)
    if len(rows) < MIN_ROWS:
        raise CallError(
            f"{len(rows)} of {n_rows} rows have all targets: too few", call=call
        )
    warning = CallWarning(
        f"{n_rows - len(rows)} of {n_rows} rows are left out: a target is missing",
        call=call,
    )
    warnings.warn(warning, stacklevel=6)  # at the call of `fit`
    known_weights = None if weights is None else _safe_indexing(weights, rows)
    return _safe_indexing(X, rows), _safe_indexing(y, rows), known_weights, rows


def _warn_of_dropped_rows(
    estimator: Any, n_kept: int, n_rows: int, stacklevel: int
) -> None:
    """Warn of rows that are left out since a value is missing."""
    if n_kept == n_rows:
        return
    if n_kept < MIN_ROWS:
        raise ValueError(
            f"missing='drop' leaves {n_kept} of {n_rows} rows; use 'impute'."
        )
    warning = CallWarning(
        f"{n_rows - n_kept} of {n_rows} rows are left out: a value is missing",
        call=f"{type(estimator).__name__}.fit",
    )
    warnings.warn(warning, stacklevel=stacklevel + 1)


def _check_same_encoding(
    estimator: Any, kinds: Sequence[Kind], is_category: Sequence[bool]
) -> None:
    """Refuse to resume a fit with other arguments about columns."""
    are_codes = any(
        declared and isinstance(kind, Numbers)
        for declared, kind in zip(is_category, kinds, strict=True)
    )
    fills_missing = estimator.missing != "refuse"
    if are_codes or estimator.columns_.fills_missing != fills_missing:
        raise ValueError(
            "warm_start resumes with the `missing` and `categories` of the first fit."
        )
