"""Inputs as they are: text, dates and missing values of a data frame or an object array."""

import dataclasses
import sys
import warnings
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from sklearn.utils import _safe_indexing, check_consistent_length
from sklearn.utils.validation import validate_data

from mmlp.errors import CallError, CallWarning
from mmlp.estimators.arguments import check_choice
from mmlp.estimators.scaling import Scaling
from mmlp.tables.cells import MAX_EXACT_FLOAT
from mmlp.tables.encoder import CHOICES, Encoder
from mmlp.tables.kinds import Numbers, Options
from mmlp.tables.problems import ProblemsError
from mmlp.tables.summary import remarkable, summary
from mmlp.terminal import escape_controls

LOOSE: dict[str, Any] = {"dtype": None, "ensure_all_finite": "allow-nan"}


@dataclasses.dataclass(eq=False, repr=False, kw_only=True)
class TableInputs:
    """The arguments that say what becomes of columns that are not plain numbers.

    Text becomes indicators, of the 30 most frequent values at most, and of those in fewer than five
    rows together; dates become days, with the season if they span a year, and the time of day.
    Booleans are the numbers 1 and 0, also if they are written as True and False in a text;
    durations are numbers of days. Equal cells give equal numbers, whether they come from a file,
    from NumPy or from any type of pandas. Dates with and without a time zone are not mixed, neither
    in a column nor between training and prediction.
    Missing values are filled by the median and get an indicator, or (`missing="drop"`) their rows
    are left out of training, or ("refuse") they are an error. `categories` may also name columns of
    numbers that are codes; "ignore" leaves text out. Dates such as 05/03/2024, of which no cell
    tells the order, need `dates` "day-first" or "month-first", in training as in prediction.
    """

    missing: str = "impute"
    categories: Any = "auto"
    dates: str = "auto"

    any_columns: ClassVar[bool] = True
    columns_: ClassVar[Encoder]
    names: ClassVar[Sequence[str] | None] = (
        None  # of the columns of arrays, if they have any
    )

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()  # pyright: ignore[reportAttributeAccessIssue]
        tags.input_tags.allow_nan = self.missing == "impute"
        return tags

    def _table(self: Any, X, y, sample_weight) -> tuple:
        """The numbers of the rows to learn from; of these weights, X (n, width), y (n, d); was y
        a vector?
        """
        forced, X = self._forced(X), by_cells(X)
        X, y, sample_weight, known = self._known_targets(X, y, sample_weight)
        rules: Any = {"multi_output": True, "y_numeric": True, "ensure_min_samples": 2}
        X, y = validate_data(self, X, y, **LOOSE, **rules, reset=not self._resumes)
        vector, y = np.ndim(y) == 1, np.asarray(y, np.float64).reshape(len(y), -1)
        rows, weight, (X, y) = self._select_weighted_rows(
            sample_weight, np.asarray(X), y
        )
        X, (rows, weight, y) = self._encoded(X, forced, known[rows], weight, y)
        return rows, weight, X, y, vector

    def _scaling(self: Any, X: np.ndarray, weight: np.ndarray) -> Scaling:
        """That of the inputs."""
        if self._resumes:
            return self.input_
        return Scaling.of(X, weight, self.columns_.indicators)

    def _known_targets(self, X, y, sample_weight) -> tuple[Any, Any, Any, np.ndarray]:
        """X, y and weights of the rows that have all targets, and the numbers of these rows."""
        try:
            values = np.asarray(y, np.float64)
        except (TypeError, ValueError):  # it is refused elsewhere, if it must be
            return X, y, sample_weight, np.arange(np.shape(y)[0] if np.ndim(y) else 0)
        flat: Any = (
            values.reshape(len(values), -1)
            if values.ndim and values.size
            else np.empty((0, 1))
        )
        gone: Any = np.isnan(flat).any(axis=1)
        every, rows = np.arange(len(gone)), np.flatnonzero(~gone)
        if not gone.any():
            return X, y, sample_weight, every
        check_consistent_length(X, y, sample_weight)
        name, n = type(self).__name__, len(gone)
        if len(rows) < 2:
            raise CallError(
                f"{len(rows)} of {n} rows have all targets: too few", call=f"{name}.fit"
            )
        warning = CallWarning(
            f"{n - len(rows)} of {n} rows are left out: a target is missing",
            call=f"{name}.fit",
        )
        warnings.warn(warning, stacklevel=4)
        weight = None if sample_weight is None else _safe_indexing(sample_weight, rows)
        return _safe_indexing(X, rows), _safe_indexing(y, rows), weight, rows

    def _encoded(self: Any, X: np.ndarray, forced: Sequence[bool], *others: np.ndarray):
        """X (n, p) as numbers, from now on by `columns_`, and the other arrays, of rows used."""
        names, rows = self._column_names(), np.arange(len(X))
        options = Options(self.missing, self.categories, self.dates)
        try:
            encoder = self._encoder(X, names, options, forced)
            if self.missing == "drop" and (gaps := encoder.gaps(X)).any():
                rows = rows[~gaps]
                if len(rows) < 2:
                    raise ValueError(
                        f"missing='drop' leaves {len(rows)} of {len(X)} rows; use 'impute'."
                    )
                warning = CallWarning(
                    f"{int(gaps.sum())} of {len(X)} rows are left out: a value is missing",
                    call=f"{type(self).__name__}.fit",
                )
                warnings.warn(warning, stacklevel=4)
                encoder = self._encoder(X[rows], names, options, forced)
            self.columns_ = encoder
            encoded = encoder(X[rows], names)
        except ProblemsError as error:
            # X lacks the rows without a target or with weight zero; the caller counts them.
            raise error.renumber(others[0][rows]) from None
        except ValueError as error:
            problem = str(error).removesuffix(".")
            raise CallError(problem, call=f"{type(self).__name__}.fit") from None
        if getattr(self, "verbose", 0) and remarkable(encoder):
            text = "\n".join(summary(encoder, names))
            print(escape_controls(text), file=sys.stderr, flush=True)
        return encoded, [array[rows] for array in others]

    def _encoder(self: Any, *given) -> Encoder:
        """That of these rows, or of the networks to go on from."""
        if not self._resumes:
            return Encoder.of(*given)
        kinds, forced = self.columns_.kinds, given[-1]
        codes = any(
            said and isinstance(kind, Numbers)
            for said, kind in zip(forced, kinds, strict=True)
        )
        if codes or self.columns_.fills != (self.missing != "refuse"):
            raise ValueError(
                "warm_start goes on with the `missing` and `categories` it began with."
            )
        return self.columns_

    def _forced(self, X) -> list[bool]:
        """Which columns are said to be words: by `categories`, or by pandas' type category."""
        for argument, known in CHOICES.items():
            if not (
                argument == "categories"
                and isinstance(self.categories, Sequence | np.ndarray)
            ):
                check_choice(
                    type(self).__name__, argument, getattr(self, argument), known
                )
        columns = getattr(X, "columns", ())
        if len(set(columns)) < len(columns):
            twice = next(
                name for i, name in enumerate(columns) if name in list(columns)[:i]
            )
            raise ValueError(f"`X` has two columns called {twice!r}; rename one.")
        by_type = [str(kind) == "category" for kind in X.dtypes] if len(columns) else []
        shape = (0, len(by_type)) if by_type else np.asarray(X).shape
        forced = by_type or [False] * (shape[1] if len(shape) == 2 else 0)
        if isinstance(self.categories, str):
            return forced
        names = [*map(str, getattr(X, "columns", self.names or range(len(forced))))]
        for name in map(str, self.categories):
            if name not in names:
                what = f"{type(self).__name__}(categories=...)"
                raise ValueError(
                    f"`{what}` names the column {name!r}, which X has not."
                )
            forced[names.index(name)] = True
        return forced

    def _column_names(self) -> list[str]:
        names = getattr(self, "feature_names_in_", self.names)
        count = self.n_features_in_  # pyright: ignore[reportAttributeAccessIssue]
        return (
            [f"{j}" for j in range(count)]
            if names is None
            else [str(name) for name in names]
        )

    def _encode_inputs(self, X) -> np.ndarray:
        """X (n, p) of a prediction, checked, as numbers."""
        X = np.asarray(validate_data(self, by_cells(X), reset=False, **LOOSE))
        return self.columns_(X, self._column_names())

    def _reader_of(self, X) -> Any:
        reader: Any = object.__new__(type(self))
        vars(reader).update(vars(self))
        reader.columns_ = self.columns_.with_order_of(np.asarray(by_cells(X)))
        return reader

    @property
    def _width(self: Any) -> int:
        kinds = getattr(self.columns_, "kinds", ())
        if len(kinds) != self.n_features_in_:  # in a file of another hand
            raise ValueError(
                f"its columns_ are not {self.n_features_in_} kinds of columns"
            )
        return len(self.columns_.indicators)


def by_cells(X):
    """Return a data frame of objects, if NumPy has no array that keeps its values as they are.

    Dates, durations, and pandas' own types (nullable, categorical, those of Arrow) become the
    objects that they stand for: the cells then have the same forms as those of a text or an array.
    """
    if not hasattr(X, "iloc") or not hasattr(X, "columns"):
        return X
    is_kept = all(map(_is_kept_by_numpy, X.dtypes)) and not _loses_digits(X)
    return X if is_kept else X.astype(object)


def _loses_digits(X: Any) -> bool:
    """Whether integers of a data frame, such as long codes, are rounded beside floats."""
    if not len(X) or len(set(X.dtypes)) < 2:
        return False
    integers = [j for j, dtype in enumerate(X.dtypes) if _is_of_64_bits(dtype)]
    extremes = [(X.iloc[:, j].min(), X.iloc[:, j].max()) for j in integers]
    return any(
        max(abs(int(low)), abs(int(high))) >= MAX_EXACT_FLOAT for low, high in extremes
    )


def _is_of_64_bits(dtype: Any) -> bool:
    return isinstance(dtype, np.dtype) and dtype.kind in "iu" and dtype.itemsize == 8


def _is_kept_by_numpy(dtype: Any) -> bool:
    """Whether a column of this type keeps its values in an array with columns of other types."""
    is_sparse = hasattr(dtype, "fill_value")
    return is_sparse or (isinstance(dtype, np.dtype) and dtype.kind not in "Mm")
