"""`TableEncoder`: a scikit-learn transformer from columns of any type to numbers.

`fit` classifies each column once and learns its statistics. The state of a
fitted encoder is one kind for each column, which a model file can hold as JSON.
"""

import copy
import dataclasses
import functools
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from mmlp.tables.cells import MAX_EXACT_FLOAT, Cells
from mmlp.tables.classification import classify_column
from mmlp.tables.kinds import (
    MISSING_LEVEL,
    Categories,
    Dates,
    Kind,
    LeftOut,
    Numbers,
    find_missing,
    find_unreadable,
    is_numeric,
    kind_from_json,
    kind_to_json,
)
from mmlp.tables.number_format import find_ambiguous_numbers
from mmlp.tables.problems import Problem, ProblemsError, Remedy

# "impute" is the name of "median" in the estimators.
MISSING_CHOICES = ("median", "impute", "drop", "refuse")
CATEGORY_CHOICES = ("auto", "ignore", "refuse")
DATE_CHOICES = ("auto", "day-first", "month-first", "ignore", "refuse")

# The options of `validate_data` for tables of any type, with missing values.
LOOSE_VALIDATION: dict[str, Any] = {"dtype": None, "ensure_all_finite": "allow-nan"}

MAX_LISTED_LEVELS = 5
MIN_COMPLETE_ROWS = 2


class ColumnsWarning(UserWarning):
    """A table to predict differs from the training table.

    For instance, it has unknown categories, or missing cells in a column that had none.
    """


@dataclasses.dataclass(frozen=True)
class ColumnTable:
    """The columns that an encoder reads.

    A `Table` is the content of a file; this is an array of any origin.

    Parameters
    ----------
    values : array of shape (n_rows, n_columns)
        Numbers, or objects of any type.
    names : list of str
    is_category : list of bool
        Which columns hold categories, as declared by the user or by their type.
    kinds : tuple of Kind, optional
        The kinds of the columns, if they have been classified.
    """

    values: np.ndarray
    names: list[str]
    is_category: list[bool]
    kinds: tuple[Kind, ...] | None = None

    def __len__(self) -> int:
        return len(self.values)

    def take(self, rows: np.ndarray) -> "ColumnTable":
        """Return the table of these rows, with the same kinds."""
        return dataclasses.replace(self, values=self.values[rows])


class TableEncoder(TransformerMixin, BaseEstimator):
    """Encode columns of numbers, text, dates and missing values as finite numbers.

    Each column is classified once, when the encoder is fitted:

    - Numbers stay as they are. Text such as "3.5" or "3,5" is read as numbers; True
      and False are 1 and 0; durations become days.
    - Text becomes indicators: one for each of the 30 most frequent levels with at least
      five rows, and one for all rare levels together.
    - Dates become days since the first one, with the season if they span more than a
      year, and the time of day if they have one, both as sine and cosine.
    - Columns without information, such as constant text, are left out.

    Equal cells give equal numbers, whether they come from a file, from NumPy or from
    any type of pandas. Cells that do not belong to their column, such as a stray word
    among numbers, raise an error that lists all of them.

    Parameters
    ----------
    missing : {"median", "drop", "refuse"}, default="median"
        What becomes of missing values. "median" fills numbers and dates with the median
        of the training rows and adds an indicator for each column that had missing
        values; missing text counts as one more level, which may be rare. "drop" learns
        from the complete rows only, and fills missing values in `transform`. "refuse"
        raises an error. "impute" is another name of "median".
    categories : {"auto", "ignore", "refuse"} or sequence of str, default="auto"
        What becomes of text. "auto" encodes it, "ignore" leaves its columns out, and
        "refuse" raises an error. A sequence names columns that hold categories though
        they look like numbers, such as codes; all other text is encoded too.
    dates : {"auto", "day-first", "month-first", "ignore", "refuse"}, default="auto"
        What becomes of dates. "day-first" and "month-first" tell how 05/03/2024 is
        read; with "auto" another cell of the column, such as 25/03/2024, has to show
        it. "ignore" leaves dates out, and "refuse" raises an error.

    Attributes
    ----------
    kinds_ : tuple
        What each column holds and its statistics: `Numbers`, `Dates`, `Categories` or
        `LeftOut` of `mmlp.tables.kinds`.
    n_features_in_ : int
        Number of columns seen by `fit`.
    feature_names_in_ : array of shape (n_features_in_,)
        Names of the columns, if `fit` has seen a data frame with names that are text.

    See Also
    --------
    MultivariateRegressor : Encodes its inputs in the same way.

    Notes
    -----
    The columns of the result are the features of numbers and dates in the order of the
    table, then the indicators of missing values, then those of categories.
    `get_feature_names_out` names them.

    Examples
    --------
    >>> import numpy as np
    >>> from mmlp.tables import TableEncoder
    >>> X = np.array(
    ...     [["1.5", "north"], ["2.5", "south"], ["", "north"]] * 5, dtype=object
    ... )
    >>> encoder = TableEncoder().fit(X)
    >>> encoder.get_feature_names_out().tolist()
    ['x0', 'missingindicator_x0', 'x1_north', 'x1_south']
    >>> encoder.transform(X[:3])
    array([[1.5, 0. , 1. , 0. ],
           [2.5, 0. , 0. , 1. ],
           [2. , 1. , 1. , 0. ]])

    It is the first step of any pipeline of scikit-learn:

    >>> from sklearn.linear_model import Ridge
    >>> from sklearn.pipeline import make_pipeline
    >>> model = make_pipeline(TableEncoder(), Ridge()).fit(X, np.arange(15.0))
    >>> model.predict(X).shape
    (15,)
    """

    kinds_: tuple[Kind, ...]
    n_features_in_: int

    def __init__(
        self,
        missing: str = "median",
        categories: str | Sequence[Any] = "auto",
        dates: str = "auto",
    ) -> None:
        self.missing = missing
        self.categories = categories
        self.dates = dates

    def fit(self, X: Any, y: Any = None) -> "TableEncoder":
        """Classify the columns of X and learn their statistics.

        Parameters
        ----------
        X : data frame or array of shape (n_rows, n_columns)
            Numbers, text, dates, times of day, durations, booleans and missing values.
        y : ignored
            For the pipelines of scikit-learn.

        Returns
        -------
        TableEncoder
            The fitted encoder.

        Raises
        ------
        ProblemsError
            A ValueError that lists all cells that cannot be used.
        """
        self._check_arguments()
        is_category = find_declared_categories(X, self.categories)
        values = validate_data(self, preserve_cells(X), **LOOSE_VALIDATION)
        names = self._name_columns()
        self.fit_table(ColumnTable(np.asarray(values), names, is_category))
        return self

    def classify(self, table: ColumnTable) -> ColumnTable:
        """Return a table with the kinds of its columns, still without statistics.

        Parameters
        ----------
        table : ColumnTable
            Its values have been validated.

        Returns
        -------
        ColumnTable
            The same values and names, with kinds.

        Raises
        ------
        ProblemsError
            If a column cannot be used.
        """
        kinds: list[Kind] = []
        readable = []
        problems = []
        for j, name in enumerate(table.names):
            result = classify_column(
                name,
                table.values[:, j],
                categories=self.categories,
                dates=self.dates,
                is_category=table.is_category[j],
            )
            if isinstance(result, Problem):
                problems.append(result)
            else:
                kinds.append(result)
                readable.append(j)

        values = table.values[:, readable] if problems else table.values
        names = [table.names[j] for j in readable]
        problems += find_ambiguity_problems(values, names, kinds)
        if self.missing == "refuse":
            # Missing cells do no harm in columns that are left out, and only learning
            # tells which these are.
            learnt = [kind.learn(values[:, j]) for j, kind in enumerate(kinds)]
            problems += find_missing_problems(values, names, learnt)
        if problems:
            raise ProblemsError("X", problems)
        return dataclasses.replace(table, kinds=tuple(kinds))

    def fit_table(self, table: ColumnTable) -> np.ndarray:
        """Learn from a table whose values have been validated.

        Parameters
        ----------
        table : ColumnTable
            A table that has been classified is not classified again.

        Returns
        -------
        array of int
            The rows that were learnt from: all, or with `missing="drop"` the complete
            ones.
        """
        if table.kinds is None:
            table = self.classify(table)

        rows = np.arange(len(table))
        kinds = _learn_checked_kinds(table)
        if self.missing == "drop":
            rows = np.flatnonzero(~find_incomplete_rows(kinds, table.values))
            if len(rows) < len(table):
                _check_complete_rows(len(rows), len(table))
                kinds = _learn_checked_kinds(table.take(rows))

        self.kinds_ = kinds
        self.n_features_in_ = len(kinds)
        return rows

    def transform(self, X: Any) -> np.ndarray:
        """Encode rows as finite numbers.

        Parameters
        ----------
        X : data frame or array of shape (n_rows, n_columns)
            The columns that `fit` has seen, in the same order.

        Returns
        -------
        array of shape (n_rows, n_features), float64

        Raises
        ------
        ProblemsError
            A ValueError that lists all cells that cannot be read; with
            `missing="refuse"`, at first only the missing ones.

        Warns
        -----
        ColumnsWarning
            If a column has levels or missing values that the training rows had not.
        """
        check_is_fitted(self, "kinds_")
        values = validate_data(self, preserve_cells(X), reset=False, **LOOSE_VALIDATION)
        return self.encode(np.asarray(values), self._name_columns())

    def encode(self, values: np.ndarray, names: Sequence[str]) -> np.ndarray:
        """Encode values (n_rows, n_columns) that have been validated.

        Parameters
        ----------
        values : array of shape (n_rows, n_columns)
        names : sequence of str
            Names of the columns, for problems and warnings.

        Returns
        -------
        array of shape (n_rows, n_features), float64
        """
        if not self.fills_missing:
            problems = find_missing_problems(values, names, self.kinds_)
            if problems:
                raise ProblemsError("X", problems)

        problems = find_ambiguity_problems(
            values, names, self.kinds_, expects_commas=self.expects_decimal_commas
        )
        features = []
        for name, kind, column in zip(names, self.kinds_, values.T, strict=True):
            if isinstance(kind, Numbers | Dates):
                numbers = _read_column(kind, column, name)
                if isinstance(numbers, Problem):
                    problems.append(numbers)
                else:
                    features += kind.make_features(numbers)
        if problems:
            raise ProblemsError("X", problems)

        levels = [
            _read_levels(kind, Cells.of(column), name)
            for name, kind, column in zip(names, self.kinds_, values.T, strict=True)
            if isinstance(kind, Categories)
        ]
        return self._join(len(values), features, levels)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the columns of the result.

        Parameters
        ----------
        input_features : sequence of str, optional
            Names of the columns of X, by default those that `fit` has seen, or x0, x1,
            and so on.

        Returns
        -------
        array of str, shape (n_features,)
        """
        from sklearn.utils.validation import _check_feature_names_in

        check_is_fitted(self, "kinds_")
        columns: Any = _check_feature_names_in(self, input_features)
        named = list(zip(columns, self.kinds_, strict=True))
        names: list[str] = []
        for column, kind in named:
            if isinstance(kind, Numbers | Dates):
                names += kind.name_features(column)
        for column, kind in named:
            if isinstance(kind, Numbers | Dates) and kind.missing:
                names.append(f"missingindicator_{column}")
        for column, kind in named:
            if isinstance(kind, Categories):
                names += [f"{column}_{level}" for level in kind.indicators]
        return np.array(names, dtype=object)

    @property
    def fills_missing(self) -> bool:
        """Whether missing values are filled in rather than refused."""
        return self.missing != "refuse"

    @property
    def expects_decimal_commas(self) -> bool:
        """Whether the training rows had decimal commas."""
        return any(isinstance(kind, Numbers) and kind.commas for kind in self.kinds_)

    @property
    def fill_values(self) -> np.ndarray:
        """What stands for missing values in the features of numbers and dates."""
        return _make_fill_values(self.kinds_)

    @property
    def indicator_mask(self) -> np.ndarray:
        """Which features are indicators, so 0 or 1, (n_features,)."""
        n_numeric = len(self.fill_values)
        n_missing_indicators = _count_missing_indicators(self.kinds_)
        n_levels = sum(len(kind.indicators) for kind in _select_categories(self.kinds_))
        n_features = n_numeric + n_missing_indicators + n_levels
        return np.arange(n_features) >= n_numeric

    def with_date_order_of(self, X: Any) -> "TableEncoder":
        """Return an encoder that reads 05/03/2024 as the whole table X shows it.

        Chunks of the table need not show the order of day and month themselves.

        Parameters
        ----------
        X : data frame or array of shape (n_rows, n_columns)
            The columns that `fit` has seen, in the same order.

        Returns
        -------
        TableEncoder
            A copy of this fitted encoder, which itself stays as it is.
        """
        values = np.asarray(preserve_cells(X))
        kinds = tuple(
            kind.with_order_of(Cells.of(values[:, j]))
            if isinstance(kind, Dates)
            else kind
            for j, kind in enumerate(self.kinds_)
        )
        encoder = copy.copy(self)
        encoder.kinds_ = kinds
        return encoder

    def to_json(self) -> dict[str, Any]:
        """Return the fitted encoder as JSON can hold it.

        Returns
        -------
        dict
            The kinds of the columns, and whether missing values are filled in.
        """
        kinds = [kind_to_json(kind) for kind in self.kinds_]
        return {"kinds": kinds, "fills": self.fills_missing}

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> "TableEncoder":
        """Return an encoder that encodes as the one that `to_json` wrote.

        The arguments that only `fit` needs, and the names of the columns, are not kept.
        The messages of errors speak of the file as "it"; the caller names it.

        Parameters
        ----------
        content : dict
            What `to_json` returned, or what JSON made of it.

        Returns
        -------
        TableEncoder
            A fitted encoder.

        Raises
        ------
        ValueError, KeyError
            If the content cannot come from a fitted encoder.
        """
        kinds = tuple(kind_from_json(dict(entry)) for entry in content["kinds"])
        fills_missing = content["fills"]
        if not isinstance(fills_missing, bool):
            raise ValueError(f"its fills is {fills_missing!r:.80}")
        encoder = cls(missing="median" if fills_missing else "refuse")
        encoder.kinds_ = kinds
        encoder.n_features_in_ = len(kinds)
        return encoder

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.fills_missing
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags

    def _check_arguments(self) -> None:
        """Raise a ValueError for arguments that are not among the choices."""
        choices = {"missing": MISSING_CHOICES, "dates": DATE_CHOICES}
        if isinstance(self.categories, str):
            choices["categories"] = CATEGORY_CHOICES
        for argument, known in choices.items():
            value = getattr(self, argument)
            if value not in known:
                raise ValueError(
                    f"`TableEncoder({argument}=...)` must be one of "
                    f"{', '.join(known)}, got {value!r:.80}."
                )

    def _name_columns(self) -> list[str]:
        """Return the names of the columns, or their numbers."""
        names = getattr(self, "feature_names_in_", range(self.n_features_in_))
        return [str(name) for name in names]

    def _join(
        self, n_rows: int, features: list[np.ndarray], levels: list[np.ndarray]
    ) -> np.ndarray:
        """Fill missing values, and put features and indicators side by side."""
        blocks = [np.empty((n_rows, 0))]
        if features:
            numbers = np.column_stack(features)
            if np.isfinite(numbers).all():
                # There is nothing to fill in, and the imputers take long to import.
                n_missing_indicators = _count_missing_indicators(self.kinds_)
                blocks += [numbers, np.zeros((n_rows, n_missing_indicators))]
            else:
                # A date has several features, but one indicator of missing values.
                first_features = numbers[:, self._find_first_features()]
                transformers = _make_transformers(self.kinds_)
                blocks += [
                    transformers.imputer.transform(numbers),
                    transformers.missing_indicator.transform(first_features),
                ]
        if levels:
            one_hot_encoder = _make_transformers(self.kinds_).one_hot_encoder
            blocks.append(one_hot_encoder.transform(np.column_stack(levels)))
        return np.concatenate(blocks, axis=1)

    def _find_first_features(self) -> list[int]:
        """Return the index of the first feature of each number or date."""
        sizes = [len(kind.name_features("")) for kind in _select_numeric(self.kinds_)]
        return np.cumsum([0, *sizes[:-1]]).tolist()


class _Transformers:
    """The transformers of scikit-learn that make the encoded table.

    They are not fitted to a table, but to one or two synthetic rows that carry the
    statistics of the kinds.
    """

    def __init__(self, kinds: Sequence[Kind]) -> None:
        numeric = _select_numeric(kinds)
        self._fill_values = _make_fill_values(kinds)
        self._has_missing = [kind.missing > 0 for kind in numeric]
        self._levels = [kind.indicators for kind in _select_categories(kinds)]

    @functools.cached_property
    def imputer(self) -> Any:
        """Fills missing numbers."""
        from sklearn.impute import SimpleImputer

        return SimpleImputer(strategy="median").fit(self._fill_values[None])

    @functools.cached_property
    def missing_indicator(self) -> Any:
        """Marks missing numbers of columns that had missing ones in training."""
        from sklearn.impute import MissingIndicator

        complete = np.zeros(len(self._has_missing))
        incomplete = np.where(self._has_missing, np.nan, 0.0)
        rows = np.stack([complete, incomplete])
        return MissingIndicator(error_on_new=False).fit(rows)

    @functools.cached_property
    def one_hot_encoder(self) -> Any:
        """Makes the indicators of categories."""
        from sklearn.preprocessing import OneHotEncoder

        categories: Any = [np.array(levels, object) for levels in self._levels]
        encoder = OneHotEncoder(
            categories=categories,
            handle_unknown="ignore",
            sparse_output=False,
        )
        row = [levels[0] for levels in self._levels]
        return encoder.fit(np.array([row], object))


@functools.lru_cache(maxsize=8)
def _make_transformers(kinds: tuple[Kind, ...]) -> _Transformers:
    """Return the transformers for these kinds, which take a while to make."""
    return _Transformers(kinds)


def _select_numeric(kinds: Sequence[Kind]) -> list[Numbers | Dates]:
    """Return the kinds whose features are numbers."""
    return [kind for kind in kinds if isinstance(kind, Numbers | Dates)]


def _select_categories(kinds: Sequence[Kind]) -> list[Categories]:
    """Return the kinds whose features are indicators."""
    return [kind for kind in kinds if isinstance(kind, Categories)]


def _count_missing_indicators(kinds: Sequence[Kind]) -> int:
    """Return the number of columns that have an indicator of missing values."""
    return sum(kind.missing > 0 for kind in _select_numeric(kinds))


def _make_fill_values(kinds: Sequence[Kind]) -> np.ndarray:
    """Return the features that stand for missing numbers and dates."""
    features = [np.empty(0)]
    for kind in _select_numeric(kinds):
        features += kind.make_features(np.array([kind.fill]))
    return np.concatenate(features)


def find_declared_categories(
    X: Any,
    categories: Any,
    names: Sequence[str] | None = None,
    class_name: str = "TableEncoder",
) -> list[bool]:
    """Return which columns are declared to hold categories.

    Parameters
    ----------
    X : data frame, array or ColumnTable
        Columns of pandas' type category hold categories.
    categories : str or sequence
        A sequence names columns, or gives their numbers in an array without names.
    names : sequence of str, optional
        Names of the columns of an array.
    class_name : str
        The class whose argument `categories` is, for the error.
    """
    if isinstance(X, ColumnTable):
        return X.is_category
    columns = list(getattr(X, "columns", ()))
    if len(set(columns)) < len(columns):
        twice = next(name for i, name in enumerate(columns) if name in columns[:i])
        raise ValueError(f"`X` has two columns called {twice!r}; rename one.")

    if columns:
        is_category = [str(dtype) == "category" for dtype in X.dtypes]
    else:
        shape = np.asarray(X).shape
        is_category = [False] * (shape[1] if len(shape) == 2 else 0)
    if isinstance(categories, str):
        return is_category

    known = [str(name) for name in columns or names or range(len(is_category))]
    for name in map(str, categories):
        if name not in known:
            raise ValueError(
                f"`{class_name}(categories=...)` names the column {name!r}, which X "
                "does not have."
            )
        is_category[known.index(name)] = True
    return is_category


def preserve_cells(X: Any) -> Any:
    """Return X such that its conversion to a NumPy array preserves the cells.

    In a data frame, dates, durations, and pandas' own types (nullable, categorical,
    those of Arrow) become the objects that they stand for: the cells then have the same
    forms as those of a text or an array. A `ColumnTable` gives its values. Anything
    else is returned as it is.
    """
    if isinstance(X, ColumnTable):
        return X.values
    if not hasattr(X, "iloc") or not hasattr(X, "columns"):
        return X
    is_kept = all(map(_is_kept_by_numpy, X.dtypes)) and not _loses_digits(X)
    return X if is_kept else X.astype(object)


def _loses_digits(X: Any) -> bool:
    """Return whether long integers, such as codes, would be rounded beside floats."""
    if not len(X) or len(set(X.dtypes)) < 2:
        return False
    for j, dtype in enumerate(X.dtypes):
        is_integer = isinstance(dtype, np.dtype) and dtype.kind in "iu"
        if is_integer and dtype.itemsize == 8:
            column = X.iloc[:, j]
            largest = max(abs(int(column.min())), abs(int(column.max())))
            if largest >= MAX_EXACT_FLOAT:
                return True
    return False


def _is_kept_by_numpy(dtype: Any) -> bool:
    """Return whether an array of mixed columns keeps the values of this type."""
    is_sparse = hasattr(dtype, "fill_value")
    return is_sparse or (isinstance(dtype, np.dtype) and dtype.kind not in "Mm")


def find_incomplete_rows(kinds: Sequence[Kind], values: np.ndarray) -> np.ndarray:
    """Return which rows lack a value in a column that is used, (n_rows,)."""
    used = [j for j, kind in enumerate(kinds) if not isinstance(kind, LeftOut)]
    return np.any([find_missing(values[:, j]) for j in used], axis=0)


def find_missing_problems(
    values: np.ndarray, names: Sequence[str], kinds: Sequence[Kind]
) -> list[Problem]:
    """Return a problem for each used column with missing cells."""
    problems = []
    for j, kind in enumerate(kinds):
        if isinstance(kind, LeftOut):
            continue
        is_absent = find_missing(values[:, j])
        if is_absent.any():
            problem = Problem(
                kind="missing value",
                column=names[j],
                message="the value is missing",
                remedies=(Remedy.FILL_CELL, Remedy.REMOVE_ROW),
                row=int(np.argmax(is_absent)),
                n_more=int(is_absent.sum()) - 1,
            )
            problems.append(problem)
    return problems


def find_ambiguity_problems(
    values: np.ndarray,
    names: Sequence[str],
    kinds: Sequence[Kind],
    *,
    expects_commas: bool = False,
) -> list[Problem]:
    """Return a problem for each numeric column with cells such as "1.600"."""
    if is_numeric(values):
        return []
    columns = {
        name: Cells.of(values[:, j])
        for j, name in enumerate(names)
        if isinstance(kinds[j], Numbers)
    }
    # Numeric columns are both the evidence of decimal commas and what must be clear.
    return find_ambiguous_numbers(columns, columns, expects_commas=expects_commas)


def check_learnable(table: ColumnTable) -> None:
    """Raise a ValueError if nothing can be learnt from a classified table."""
    _learn_checked_kinds(table)


def _learn_checked_kinds(table: ColumnTable) -> tuple[Kind, ...]:
    """Return the learnt kinds of all columns; raise if all of them are left out."""
    kinds = _learn_kinds(table)
    _check_any_used(table.names, kinds)
    return kinds


def _learn_kinds(table: ColumnTable) -> tuple[Kind, ...]:
    """Return the kinds of a classified table with the statistics of its rows."""
    return tuple(
        kind.learn(table.values[:, j]) for j, kind in enumerate(table.kinds or ())
    )


def _check_any_used(names: Sequence[str], kinds: Sequence[Kind]) -> None:
    """Raise a ValueError with the reasons if all columns are left out."""
    reasons = [
        f"{name}: {kind.why}"
        for name, kind in zip(names, kinds, strict=True)
        if isinstance(kind, LeftOut)
    ]
    if len(reasons) == len(kinds):
        listed = "; ".join(reasons)
        raise ValueError(f"no input has anything to learn from ({listed:.200}).")


def _check_complete_rows(n_complete: int, n_rows: int) -> None:
    """Raise a ValueError if too few rows are left to learn from."""
    if n_complete < MIN_COMPLETE_ROWS:
        raise ValueError(
            f"missing='drop' leaves {n_complete} of {n_rows} rows; use 'impute'."
        )


def _read_column(
    kind: Numbers | Dates, column: np.ndarray, name: str
) -> np.ndarray | Problem:
    """Return a column as numbers, NaN where a value is missing, or its problem.

    Warn if values are missing in a column that had none missing in training.
    """
    if isinstance(kind, Numbers) and not kind.needs_parsing(column):
        values = kind.read_array(column)
    else:
        cells = Cells.of(column)
        problem = find_unreadable(name, cells, kind)
        if problem is not None:
            return problem
        values = kind.read_column(cells)

    n_missing = int(np.isnan(values).sum())
    if n_missing and not kind.missing:
        warnings.warn(
            f"column {name!r} has {n_missing} missing cells, but had none in training: "
            "its median is used there.",
            ColumnsWarning,
            stacklevel=2,
        )
    return values


def _read_levels(kind: Categories, cells: Cells, name: str) -> np.ndarray:
    """Return the level of each row, (n_rows,), and warn of unknown levels."""
    levels = [kind.name_level(cell) for cell in cells.values]
    unknown = sorted({*levels} - {*kind.levels, *kind.others})
    if MISSING_LEVEL in unknown:
        unknown.remove(MISSING_LEVEL)
        warnings.warn(
            f"column {name!r} has missing cells, but had none in training.",
            ColumnsWarning,
            stacklevel=2,
        )
    if unknown:
        listed = ", ".join(map(repr, unknown[:MAX_LISTED_LEVELS]))
        n_more = len(unknown) - MAX_LISTED_LEVELS
        more = f" and {n_more} more" if n_more > 0 else ""
        treatment = "they belong to none of the known ones"
        if kind.rare:
            treatment = "they count as rare ones"
        warnings.warn(
            f"column {name!r} has values that were not in training: {listed}{more}; "
            f"{treatment}.",
            ColumnsWarning,
            stacklevel=2,
        )
    return np.array([kind.pool(level) for level in levels], object)[cells.codes]
