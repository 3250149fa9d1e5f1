"""What the estimators share: arguments and rows, checked; predictions; what they tell others."""

import abc
import functools
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import (
    _check_sample_weight,
    check_is_fitted,
    validate_data,
)

from mmlp import serialization
from mmlp.errors import ArgumentError, CallWarning, CellError
from mmlp.estimators import model_files
from mmlp.estimators.arguments import Arguments
from mmlp.estimators.chunks import output_types, predictions
from mmlp.estimators.cross_fitting import Scaling, Training, unfinished
from mmlp.estimators.inputs import count_encoded_inputs, encode_rows
from mmlp.estimators.outliers import Columns, check_cells
from mmlp.metrics.scores import rescaled_weights
from mmlp.tables.encoder import ColumnsWarning, TableEncoder
from mmlp.training.forks import check_not_forked

ROWS = 2**14  # that `predicted_pieces` gives at once
MIN_ROWS_TO_JUDGE = 20


class FewRowsWarning(CallWarning):
    """Rows are so few that what was fitted cannot be judged."""


def guarded(fit: Callable) -> Callable:
    """A `fit` that fails leaves the estimator as it was; one that ends too early says so."""

    @functools.wraps(fit)
    def all_or_nothing(self, *args, **kwargs):
        check_not_forked(f"{type(self).__name__}.fit")
        before = dict(vars(self))
        try:
            fit(self, *args, **kwargs)
            count, of = self.unfinished()
            if count:
                warnings.warn(
                    f"`{type(self).__name__}.fit`: {count} of {of} networks reached max_epochs="
                    f"{self.epochs} while the rows held out were still improving; raise "
                    "`max_epochs`.",
                    ConvergenceWarning,
                    stacklevel=2,
                )
        except BaseException:
            vars(self).clear()
            vars(self).update(before)
            raise
        return self

    return all_or_nothing


class NetworkEstimator(Arguments, Training, BaseEstimator, abc.ABC):
    """An estimator whose fitted state is a tree of networks, `models_`, and plain numbers.

    A new one is a dataclass of its further arguments, with `fit`, `scores`, `_check_fitted`, and
    the five class variables. The command line and files then know it.
    """

    kind: ClassVar[str]  # its word in `mmlp fit`
    targets: ClassVar[
        str | None
    ]  # of `fit`: "columns", y (n, d), "matrices", Y (n, d, d), or None
    any_columns: ClassVar[bool] = False  # X may hold text, dates and missing values
    results: ClassVar[
        Mapping[str, Callable]
    ]  # what is predicted: name -> method of X, rows first
    n_targets: int = 0  # columns of y
    # The names of the columns of arrays, where the command line knows them.
    names: ClassVar[Sequence[str] | None] = None
    _numbers: ClassVar[tuple[str, ...]]  # the fitted attributes beside `models_`
    # fitted attributes that older files and pickles lack, with what they would have been
    _absent_in_old_files: ClassVar[Mapping[str, Any]] = {}

    columns_: TableEncoder  # where `any_columns`
    input_: Scaling
    models_: Any
    n_features_in_: int

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        model_files.CLASSES.setdefault(cls.__name__, cls)

    @abc.abstractmethod
    def scores(self, X, y: Any = None) -> dict[str, float]:
        """How good predictions are for these rows, by name."""

    def result_names(self, *, text: bool = False) -> tuple[str, ...]:
        """The names of what `predicted` gives."""
        return tuple(self.results)

    def predicted(self, X, *, text: bool = False) -> dict[str, np.ndarray]:
        """The results by name; with `text` those that a table of text is to hold."""
        return {name: result(self, X) for name, result in self.results.items()}

    def predicted_pieces(
        self, X, *, text: bool = False
    ) -> Iterator[dict[str, np.ndarray]]:
        """`predicted`, `ROWS` rows at a time, after all rows have been checked."""
        self._standard(X)
        reader = self._reader_of(X)
        for start in range(0, len(X), ROWS):
            with warnings.catch_warnings():
                warnings.simplefilter(
                    "ignore", ColumnsWarning
                )  # the check has given them
                results = reader.predicted(X[start : start + ROWS], text=text)
            yield results

    def _reader_of(self, X) -> "NetworkEstimator":
        """Return the estimator that reads any chunk of X as it reads the whole of X."""
        if not self.any_columns:
            return self
        reader: Any = object.__new__(type(self))
        vars(reader).update(vars(self))
        reader.columns_ = self.columns_.with_date_order_of(X)
        return reader

    @abc.abstractmethod
    def _check_fitted(self) -> None:
        """Refuse fitted numbers and networks, of a file, that cannot belong together."""

    def save(self, path: str | os.PathLike) -> None:
        """Write the fitted estimator to one file without code, for `mmlp.estimators.load`.

        A `random_state` that is a generator is left out: what is fitted does not depend on it.
        """
        check_is_fitted(self)
        model_files.save(self, path)

    def __getstate__(self):
        """With the networks as arrays and a description: `jnp.tanh` cannot be pickled."""
        state: Any = super().__getstate__()
        if "models_" in state:
            packed = serialization.pack_model(
                state["models_"], f"pickle of {type(self).__name__}"
            )
            state = {**state, "models_": packed}
        return state

    def __setstate__(self, state):
        if "models_" in state:
            check_not_forked(type(self).__name__)
            models = serialization.unpack_model(
                f"the pickle of {type(self).__name__}", *state["models_"]
            )
            state = {**self._absent_in_old_files, **state, "models_": models}
        super().__setstate__(state)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if self.any_columns:
            missing = getattr(self, "missing", None)
            tags.input_tags.allow_nan = missing in ("impute", "median")
        return tags

    def _scaling(self, X: np.ndarray, weight: np.ndarray) -> Scaling:
        """Return the scaling of encoded inputs, with a warm start the fitted one."""
        if self._warm:
            return self.input_
        return Scaling.of(X, weight, self.columns_.indicator_mask)

    def _weighted(self, sample_weight, *arrays: np.ndarray) -> list[np.ndarray]:
        """The numbers of the rows that count, and of these rows the weights and the arrays."""
        weight = _check_sample_weight(
            sample_weight, arrays[0], ensure_non_negative=True
        )
        weight = self._scaled_weight(weight)
        rows = weight > 0
        if rows.sum() < 2:
            raise ArgumentError(
                f"must leave at least two rows of positive weight, but of "
                f"n_samples={len(rows)} it makes the weight of all but {rows.sum()} zero",
                call=f"{type(self).__name__}.fit",
                argument="sample_weight",
            )
        return [np.flatnonzero(rows), *(array[rows] for array in (weight, *arrays))]

    def _scaled_weight(self, weight: np.ndarray) -> np.ndarray:
        """Return `rescaled_weights`, refusing those that the networks' dtype cannot hold."""
        largest = float(np.max(weight, initial=0.0))
        if largest == 0:
            return weight
        scaled = rescaled_weights(weight)
        smallest = np.finfo(self.dtype).tiny
        lost = (weight > 0) & (scaled < smallest)
        if lost.any():
            raise ArgumentError(
                f"holds weights from {weight[lost].min():.3g} to {largest:.3g}, but "
                f"{np.dtype(self.dtype).name} cannot hold a weight below {smallest:.2g} "
                "times the largest",
                call=f"{type(self).__name__}.fit",
                argument="sample_weight",
                remedy="set such weights to zero",
            )
        return scaled

    def _warn_of_few_rows(self, n: int) -> None:
        """Warn where rows are so few that no score or interval of the result can be trusted."""
        if n < MIN_ROWS_TO_JUDGE:
            warning = FewRowsWarning(
                f"{n} rows are too few to judge anything by: with fewer than "
                f"{MIN_ROWS_TO_JUDGE}, covariances, intervals and scores are little more "
                "than guesses",
                call=f"{type(self).__name__}.fit",
                remedy="collect more rows",
            )
            warnings.warn(warning, stacklevel=4)  # at the call of `fit`

    def _check_cells(self, rows: np.ndarray, X: np.ndarray, *targets: Columns) -> None:
        """Refuse or name cells that lie absurdly far out, in X and in targets."""
        tables = (Columns("X", X, getattr(self, "feature_names_in_", None)), *targets)
        call = f"{type(self).__name__}.fit"
        place = functools.partial(Columns.place, rows=rows)
        check_cells(call, self.dtype, tables, place, stacklevel=4)  # at `fit`

    @property
    def n_iter_(self) -> int:
        """Epochs of the last `fit`, of the networks that took most."""
        return max(len(history["loss"]) for history in self._histories())

    def _histories(self) -> list[dict[str, np.ndarray]]:
        return [
            getattr(self, name) for name in self._numbers if name.endswith("history_")
        ]

    def unfinished(self) -> tuple[int, int]:
        """How many networks came to `max_epochs` while they were improving, and of how many."""
        limits = self.epochs, self.full_patience
        flags = np.concatenate(
            [unfinished(history, *limits) for history in self._histories()]
        )
        return int(flags.sum()), len(flags)

    def _standard(self, X) -> np.ndarray:
        """Rows X, checked, in standard units and the networks' dtype."""
        self._check_ready()
        return self._cast(self.input_.forward(self._numbers_of(X)), "X")

    def _check_ready(self) -> None:
        """Refuse to predict what is not fitted, or in a process where JAX cannot run."""
        check_is_fitted(self)
        check_not_forked(type(self).__name__)

    def _numbers_of(self, X) -> np.ndarray:
        """X (n, p) of a prediction, checked, as the numbers (n, width) that `input_` scales."""
        if self.any_columns:
            return encode_rows(self, X)
        return np.asarray(validate_data(self, X, dtype=np.float64, reset=False))

    @property
    def _width(self) -> int:
        """What networks see of a row."""
        if self.any_columns:
            return count_encoded_inputs(self)
        return self.n_features_in_

    def _predict(self, function: Callable, X):
        """function(model, x) of standardised rows and all models."""
        rows = self._standard(X)  # first: it refuses an estimator that is not fitted
        return predictions(function, self.models_, rows)

    def _cast(
        self, values: np.ndarray, argument: str, columns: Any = None
    ) -> np.ndarray:
        """Standardised values (n, p) in the networks' dtype, which must hold their squares too.

        `columns` (p,) are their numbers in the argument, where these are not all of its columns.
        """
        wrong = np.argwhere(~(np.abs(values) <= np.sqrt(np.finfo(self.dtype).max)))
        if len(wrong):
            row, column = wrong[0].tolist()
            place = column if columns is None else int(columns[column])
            raise CellError(
                f"is {values[row, column]:.3g} in standard units, too large for "
                f"{np.dtype(self.dtype).name}",
                call=type(self).__name__,
                argument=argument,
                row=row,
                column=place,
                remedy="correct it, or remove the row",
            )
        return values.astype(self.dtype)

    def _check_outputs(
        self, what: str, function: Callable, models, *shapes, inputs=None
    ) -> None:
        """function(model, x) must give arrays of these shapes (None: any) in the right dtype."""
        row = np.zeros((1, inputs or self._width), self.dtype)

        def fits(x, shape: tuple) -> bool:
            sizes = zip(x.shape, (1, None, *shape), strict=False)
            right = all(n in (None, m) and m > 0 for m, n in sizes)
            return right and x.ndim == len(shape) + 2 and x.dtype == row.dtype

        found = output_types(function, models, row)
        if len(found) != len(shapes) or not all(map(fits, found, shapes)):
            text = ", ".join(f"{x.dtype} {x.shape}" for x in found)
            needed = f"{row.dtype} {shapes} are needed of each model"
            raise ValueError(f"its {what} gives {text} where {needed}")
