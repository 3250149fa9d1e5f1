"""The columns of y: their names, and which of them are constant.

A constant target has no density, and a covariance that is learnt for it shrinks towards
zero until training fails; on the way it spoils those of the other targets. So constant
targets are kept out of everything that is learnt, and are put back into what is
predicted.
"""

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from mmlp.argument_checks import check_floats
from mmlp.errors import CallError, CallWarning
from mmlp.estimators.precision import MAX_ROUNDING_IN_DEVIATIONS

MAX_NAMES_SHOWN = 5


class ConstantTargetWarning(CallWarning):
    """A target is constant: it is predicted, but densities and scores leave it out."""


class TargetColumns(NamedTuple):
    """Which of the columns of y vary, and which are constant.

    Attributes
    ----------
    varying : array of int, shape (n_varying,)
    constant : array of int, shape (n_constant,)
    values : array of shape (n_constant,)
        The values of the constant columns.
    """

    varying: np.ndarray
    constant: np.ndarray
    values: np.ndarray

    @classmethod
    def of(cls, y: np.ndarray) -> "TargetColumns":
        """Return those of y (n, d).

        The value of a constant column is its median, which is exact if all values are
        equal.
        """
        constant = is_constant(y)
        columns = np.flatnonzero(constant)
        return cls(np.flatnonzero(~constant), columns, np.median(y[:, columns], axis=0))

    @property
    def count(self) -> int:
        """The number d of all columns."""
        return len(self.varying) + len(self.constant)

    def with_constants(self, values: np.ndarray) -> np.ndarray:
        """Return values (n, d) of all targets, from those of the varying ones."""
        if not len(self.constant):
            return values
        whole = np.empty((len(values), self.count))
        whole[:, self.varying] = values
        whole[:, self.constant] = self.values
        return whole

    def with_zeros(self, values: np.ndarray) -> np.ndarray:
        """Return values (..., d) of all targets: zero for constant ones.

        `values` are those of the varying targets, such as deviations.
        """
        if not len(self.constant):
            return values
        whole = np.zeros((*values.shape[:-1], self.count), values.dtype)
        whole[..., self.varying] = values
        return whole

    def differing(self, y: np.ndarray) -> np.ndarray:
        """Return which rows of y (n, d) differ from a constant of `fit`, (n,)."""
        distance = np.abs(y[:, self.constant] - self.values)
        return np.any(distance > rounding_range(self.values), axis=1)


def rounding_range(size: np.ndarray) -> np.ndarray:
    """Return the range of values of this size within which they count as one number.

    Values of float64 are rounded by up to half a spacing, and a mean that is rounded by
    more than `MAX_ROUNDING_IN_DEVIATIONS` standard deviations is not precise enough for
    a density. The standard deviation is at most half the range (Popoviciu, 1935). So a
    column has no density, whatever its values are, if

        spacing / 2 >= MAX_ROUNDING_IN_DEVIATIONS * range / 2

    that is, if range <= spacing / MAX_ROUNDING_IN_DEVIATIONS.
    """
    return np.spacing(np.abs(size)) / MAX_ROUNDING_IN_DEVIATIONS


def is_constant(y: np.ndarray) -> np.ndarray:
    """Return which columns of y (n, d) hold one number, up to rounding in float64.

    >>> is_constant(np.array([[0.3, 1e6, 1.0], [0.1 + 0.2, 1e6 + 1e-9, 1.0 + 1e-9]]))
    array([ True,  True, False])
    """
    largest = np.max(np.abs(y), axis=0)
    return np.max(y, axis=0) - np.min(y, axis=0) <= rounding_range(largest)


def find_columns(
    call: str, y: np.ndarray, names: Sequence[str] | None, stacklevel: int
) -> TargetColumns:
    """Return the columns of y (n, d), with a warning for those that are constant.

    Raises
    ------
    ValueError
        If every column is constant.
    """
    columns = TargetColumns.of(y)
    if not len(columns.varying):
        which = "the target is" if y.shape[1] == 1 else f"all {y.shape[1]} targets are"
        raise CallError(
            f"{which} constant over the {len(y)} rows that are used: there is nothing "
            "to learn",
            call=call,
            remedy="give a target that varies",
        )
    if len(columns.constant):
        warning = ConstantTargetWarning(describe_constants(columns, names), call=call)
        warnings.warn(warning, stacklevel=stacklevel + 1)
    return columns


def describe_constants(columns: TargetColumns, names: Sequence[str] | None) -> str:
    """Return a sentence about the constant targets and their predictions."""
    listed = describe_columns(columns.constant, names)
    verb = f"is constant, {columns.values[0]:.6g}, and is"
    whose = "its"
    if len(columns.constant) > 1:
        verb = "are constant, and are"
        whose = "their"
    return (
        f"{listed} {verb} kept out of the covariance that is learnt: {whose} variance "
        "is predicted as zero, and densities and scores are those of the other targets"
    )


def describe_columns(
    columns: np.ndarray, names: Sequence[str] | None, word: str = "target"
) -> str:
    """Return columns as text, such as "target 'u'" or "targets 0, 1, 2 (from 0)"."""
    shown = columns[:MAX_NAMES_SHOWN].tolist()
    if names is None:
        labels = [str(column) for column in shown]
    else:
        labels = [repr(str(names[column])) for column in shown]
    others = len(columns) - len(shown)
    more = f" and {others} more" if others else ""
    plural = "" if len(columns) == 1 else "s"
    from_zero = " (from 0)" if names is None else ""
    return f"{word}{plural} {', '.join(labels)}{more}{from_zero}"


def text_names(y: Any) -> list[str] | None:
    """Return the names of the columns of a data frame, where all of them are text.

    This is scikit-learn's rule for X. The name of a series is not one of them: with a
    single target there is no order to get wrong, and scikit-learn's tools pass series
    of any name.
    """
    columns = getattr(y, "columns", None)
    if columns is None or callable(columns):
        return None
    names = list(columns)
    return names if names and all(isinstance(name, str) for name in names) else None


def convert_to_numbers(call: str, y: Any, argument: str = "y") -> Any:
    """Return y, with floats in the place of pandas' own types of numbers.

    NumPy makes numbers of dates and durations without a word, in whatever unit they are
    stored, and a large negative one of a missing date.

    Raises
    ------
    ValueError
        If a column holds dates or durations, or anything else that is not a number.
    """
    is_frame = hasattr(y, "iloc") and hasattr(y, "columns")
    dtypes = list(y.dtypes) if is_frame else [getattr(y, "dtype", None)]
    names = [str(name) for name in y.columns] if is_frame else None
    timed = [
        j
        for j, dtype in enumerate(dtypes)
        if getattr(dtype, "kind", None) in ("m", "M")
    ]
    if timed:
        where = (
            ""
            if len(dtypes) == 1
            else f" in {describe_columns(np.array(timed), names)}"
        )
        raise ValueError(
            f"`{call}({argument}=...)` holds dates or durations{where}, and must hold "
            "numbers: count them in a unit, such as `(y - y.min()) / np.timedelta64(1, "
            "'D')`."
        )
    if is_frame and not all(isinstance(dtype, np.dtype) for dtype in dtypes):
        try:
            return y.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"`{call}({argument}=...)` must hold numbers: {error}."
            ) from None
    return y


def check_names(
    call: str, y: Any, fitted: Sequence[str] | None, argument: str = "y"
) -> None:
    """Raise a ValueError if the columns of a data frame are not those of `fit`.

    An array or a series has no names, and is taken as it is.
    """
    names = text_names(y)
    if names is None or fitted is None or names == list(fitted):
        return
    texts = [
        f"`{call}({argument}=...)`: the target names should match those that were "
        "passed to `fit`."
    ]
    unseen = [name for name in names if name not in fitted]
    missing = [name for name in fitted if name not in names]
    if unseen:
        texts.append(f"Names unseen at fit time: {_join_names(unseen)}.")
    if missing:
        texts.append(
            f"Names seen at fit time, yet now missing: {_join_names(missing)}."
        )
    if not unseen and not missing:
        texts.append(
            "They must be in the same order as they were in `fit`: "
            f"{_join_names(list(fitted))}; got {_join_names(names)}. "
            f"Select them by name, such as `{argument}[model.target_names_]`."
        )
    raise ValueError(" ".join(texts))


def column_labels(call: str, y: Any) -> list[Any] | None:
    """Return the labels of the columns of a data frame, of any type, if they differ."""
    columns = getattr(y, "columns", None)
    if columns is None or callable(columns):
        return None
    labels = list(columns)
    seen = set()
    for label in labels:
        if label in seen:
            raise ValueError(
                f"`{call}(y=...)` has two columns called {label!r}; rename one."
            )
        seen.add(label)
    return labels


def check_order(
    call: str, y: Any, fitted: Sequence[Any] | None, argument: str = "y"
) -> None:
    """Raise a ValueError if a data frame has the labels of `fit` in another order.

    This is for labels that are not text, such as numbers or those of a MultiIndex:
    `check_names` does not know them, and other labels are no error.
    """
    columns = getattr(y, "columns", None)
    if columns is None or callable(columns) or fitted is None:
        return
    labels = list(columns)
    if (
        labels != list(fitted)
        and len(labels) == len(fitted)
        and set(labels) == set(fitted)
    ):
        raise ValueError(
            f"`{call}({argument}=...)`: the columns must be in the same order as they "
            f"were in `fit`: {_join_names(list(fitted))}; got {_join_names(labels)}."
        )


def _join_names(names: Sequence[Any]) -> str:
    """Return quoted names with commas between them, at most `MAX_NAMES_SHOWN`."""
    more = (
        f" and {len(names) - MAX_NAMES_SHOWN} more"
        if len(names) > MAX_NAMES_SHOWN
        else ""
    )
    return ", ".join(map(repr, names[:MAX_NAMES_SHOWN])) + more


class FittedTargets(NamedTuple):
    """What `fit` has learnt about the columns of y.

    Attributes
    ----------
    columns : TargetColumns
    names : names of the targets, if y was a data frame with names of text
    labels : labels of any type, if y was a data frame
    """

    columns: TargetColumns
    names: Sequence[str] | None
    labels: Sequence[Any] | None


def check_targets(
    y: Any, n_rows: int, fitted: FittedTargets, *, call: str, argument: str = "y"
) -> np.ndarray:
    """Return targets of a fitted regressor as finite float64, with their names checked.

    Parameters
    ----------
    y : array or data frame of shape (n_rows, d), or (n_rows,) for a single target
    n_rows : int
    fitted : FittedTargets
    call, argument : str
        What errors and warnings name.

    Returns
    -------
    array of shape (n_rows, d)

    Raises
    ------
    ValueError
        If names, shape or numbers do not suit the fit.

    Warns
    -----
    ConstantTargetWarning
        If a target was constant in `fit` and differs here: the density of all targets
        is zero there, and what is returned is that of the others.
    """
    n_targets = fitted.columns.count
    check_names(call, y, fitted.names, argument)
    check_order(call, y, fitted.labels, argument)
    y = np.asarray(convert_to_numbers(call, y, argument), np.float64)
    is_single = n_targets == 1 and y.shape == (n_rows,)
    if y.shape != (n_rows, n_targets) and not is_single:
        raise ValueError(
            f"`{call}({argument}=...)` needs {argument} of shape ({n_rows}, "
            f"{n_targets}), a row for each of X and a column for each target of `fit`, "
            f"got shape {y.shape}."
        )
    y = y.reshape(n_rows, n_targets)
    y = np.asarray(check_floats(y, f"{call}({argument}=...)", "(n, d)", ndim=2))

    differing = fitted.columns.differing(y)
    if differing.any():
        constant = describe_columns(fitted.columns.constant, fitted.names)
        warning = ConstantTargetWarning(
            f"{differing.sum()} of {n_rows} rows differ from the constant of training "
            f"in {constant}. The density of all targets is zero there; densities and "
            "scores are those of the other targets",
            call=call,
        )
        # Attributed to the caller of a method that calls `_check_targets`; for `y_val`
        # to the decorator of `fit`, and in `log_score` to that method itself.
        warnings.warn(warning, stacklevel=4)
    return y


def check_constants(
    columns: Any, values: Any, n_varying: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return constant targets and their values from a file, or raise a ValueError.

    Parameters
    ----------
    columns, values : Any
        What a damaged or crafted file may give for `constant_targets_` and
        `constant_values_`.
    n_varying : int
        The number of targets that vary.
    """
    if not (isinstance(columns, np.ndarray) and isinstance(values, np.ndarray)):
        raise ValueError("its constant_targets_ and constant_values_ are not arrays")
    count = n_varying + columns.size
    is_whole = columns.ndim == 1 and (columns.dtype.kind in "iu" or not columns.size)
    is_ascending = is_whole and np.all(np.diff(columns) > 0)
    if not is_ascending or np.any((columns < 0) | (columns >= count)):
        raise ValueError(
            f"its constant_targets_ are not some of {count} columns, in order"
        )
    is_matching = values.shape == columns.shape
    if not is_matching or not np.isfinite(values.astype(np.float64)).all():
        raise ValueError(f"its constant_values_ are not {columns.size} finite numbers")
    return columns.astype(int), values.astype(np.float64)
