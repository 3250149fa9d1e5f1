"""The base class of the estimators: arguments, rows, predictions in chunks, files."""

import abc
import functools
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn import utils
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
from mmlp.estimators.arguments import (
    check_count,
    check_dtype,
    check_flag,
    check_learning_rate,
    check_random_state,
)
from mmlp.estimators.chunks import apply_networks, trace_outputs
from mmlp.estimators.inputs import count_encoded_inputs, encode_rows
from mmlp.estimators.outliers import Columns, check_cells
from mmlp.estimators.scaling import Scaling
from mmlp.estimators.training_settings import TrainingSettings, find_unfinished
from mmlp.metrics.scores import rescale_weights
from mmlp.tables.encoder import ColumnsWarning, TableEncoder
from mmlp.training.forks import check_not_forked

# `predict_results_in_chunks` yields this many rows at a time.
ROWS_PER_RESULT = 2**14

MIN_ROWS_TO_JUDGE = 20


class FewRowsWarning(CallWarning):
    """There are so few rows that the fitted model cannot be judged."""


class WeightedRows(NamedTuple):
    """The rows that have a positive weight.

    Attributes
    ----------
    indices : array of int, shape (n_rows,)
        Their places among all rows.
    weights : array of shape (n_rows,)
    arrays : list of arrays with n_rows rows
    """

    indices: np.ndarray
    weights: np.ndarray
    arrays: list[np.ndarray]


def restore_on_error(fit: Callable) -> Callable:
    """Decorate `fit` so that it leaves the estimator as it was if it fails.

    If it succeeds, but networks were still improving at the last epoch, there is a
    `ConvergenceWarning`.
    """

    @functools.wraps(fit)
    def fit_or_restore(self, *args, **kwargs):
        check_not_forked(f"{type(self).__name__}.fit")
        before = dict(vars(self))
        try:
            fit(self, *args, **kwargs)
            n_unfinished, n_networks = self.count_unfinished()
            if n_unfinished:
                warnings.warn(
                    f"`{type(self).__name__}.fit`: {n_unfinished} of {n_networks} "
                    f"networks reached max_epochs={self.epochs} while held-out rows "
                    "were still improving; raise `max_epochs`.",
                    ConvergenceWarning,
                    stacklevel=2,
                )
        except BaseException:
            vars(self).clear()
            vars(self).update(before)
            raise
        return self

    return fit_or_restore


class NetworkEstimator(BaseEstimator, abc.ABC):
    """An estimator whose fitted state is a tree of networks and plain numbers.

    A new estimator has an `__init__` with the arguments of training below and its own,
    the methods `fit`, `scores` and `_check_fitted`, and the class variables `kind`,
    `targets`, `results` and `_fitted_attributes`. The command line and model files then
    know it.
    """

    # The name of the estimator in `mmlp fit`.
    kind: ClassVar[str]
    # What `fit` takes beside X: "columns" y (n, d), "matrices" Y (n, d, d), or None.
    targets: ClassVar[str | None]
    # Whether X may hold text, dates and missing values.
    any_columns: ClassVar[bool] = False
    # What is predicted: names, and methods of X whose results have a row for each of X.
    results: ClassVar[Mapping[str, Callable]]
    # The number of columns of y; estimators with targets override it.
    n_targets = 0
    # The names of the columns of arrays, if the command line knows them.
    names: ClassVar[Sequence[str] | None] = None
    # The fitted attributes, beside `models_`, that a model file holds.
    _fitted_attributes: ClassVar[tuple[str, ...]]
    # Attributes that older files and pickles lack, and the values they would have had.
    _absent_in_old_files: ClassVar[Mapping[str, Any]] = {}
    # The arguments of training that may be None.
    _may_be_none: ClassVar[tuple[str, ...]] = ("patience",)

    # The arguments of training; some estimators choose those that are None.
    max_epochs: Any
    batch_size: Any
    learning_rate: Any
    patience: int | None
    random_state: Any
    dtype: str
    verbose: int
    warm_start: bool

    # Set by `fit`; `columns_` only if `any_columns`.
    columns_: TableEncoder
    input_: Scaling
    models_: Any
    n_features_in_: int

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        model_files.CLASSES.setdefault(cls.__name__, cls)

    @abc.abstractmethod
    def scores(self, X: ArrayLike, y: Any = None) -> dict[str, float]:
        """Return scores of the predictions for some rows.

        Parameters
        ----------
        X : array or data frame of shape (n, p)
        y : array or data frame with n rows, optional

        Returns
        -------
        dict of float
            Scores by name.
        """

    @abc.abstractmethod
    def _check_fitted(self) -> None:
        """Raise a ValueError if numbers and networks of a file do not match."""

    # ------------------------------------------------------------------ predictions

    def result_names(self, *, text: bool = False) -> tuple[str, ...]:
        """Return the names of what `predict_results` returns.

        Parameters
        ----------
        text : bool, default=False
            Restrict them to what a table of text should hold.

        Returns
        -------
        tuple of str
        """
        return tuple(self.results)

    def predict_results(
        self, X: ArrayLike, *, text: bool = False
    ) -> dict[str, np.ndarray]:
        """Return all predictions by name.

        Parameters
        ----------
        X : array or data frame of shape (n, p)
        text : bool, default=False
            Restrict them to what a table of text should hold.

        Returns
        -------
        dict of arrays with n rows
        """
        return {name: result(self, X) for name, result in self.results.items()}

    def predict_results_in_chunks(
        self, X: Any, *, text: bool = False
    ) -> Iterator[dict[str, np.ndarray]]:
        """Yield `predict_results` for some rows at a time, after all have been checked.

        Parameters
        ----------
        X : array or data frame of shape (n, p)
        text : bool, default=False
            Restrict them to what a table of text should hold.

        Yields
        ------
        dict of arrays
        """
        self._standardize(X)
        reader = self._reader_of(X)
        for start in range(0, len(X), ROWS_PER_RESULT):
            with warnings.catch_warnings():
                # The check of all rows has issued them already.
                warnings.simplefilter("ignore", ColumnsWarning)
                rows = X[start : start + ROWS_PER_RESULT]
                results = reader.predict_results(rows, text=text)
            yield results

    def _reader_of(self, X: Any) -> "NetworkEstimator":
        """Return the estimator that reads any part of X as it reads the whole of X."""
        if not self.any_columns:
            return self
        reader: Any = object.__new__(type(self))
        vars(reader).update(vars(self))
        reader.columns_ = self.columns_.with_date_order_of(X)
        return reader

    def _standardize(self, X: Any) -> np.ndarray:
        """Return rows X, checked, in standard units and the dtype of the networks."""
        self._check_ready()
        return self._cast(self.input_.forward(self._encode_inputs(X)), "X")

    def _check_ready(self) -> None:
        """Raise an error if nothing is fitted, or in a process where JAX cannot run."""
        check_is_fitted(self)
        check_not_forked(type(self).__name__)

    def _encode_inputs(self, X: Any) -> np.ndarray:
        """Return X (n, p), checked, as the numbers (n, width) that `input_` scales."""
        if self.any_columns:
            return encode_rows(self, X)
        return np.asarray(validate_data(self, X, dtype=np.float64, reset=False))

    @property
    def _width(self) -> int:
        """The number of inputs of the networks."""
        if self.any_columns:
            return count_encoded_inputs(self)
        return self.n_features_in_

    def _apply_networks(self, function: Callable, X: Any) -> Any:
        """Return function(network, x) for all rows and all networks."""
        inputs = self._standardize(X)
        return apply_networks(function, self.models_, inputs)

    def _cast(
        self,
        values: np.ndarray,
        argument: str,
        columns: Sequence[int] | np.ndarray | None = None,
    ) -> np.ndarray:
        """Return standardized values (n, p) in the dtype of the networks.

        Their squares must be within its range. `columns` (p,) are their places in the
        argument, if these are not all of its columns.
        """
        limit = np.sqrt(np.finfo(self.dtype).max)
        too_large = np.argwhere(~(np.abs(values) <= limit))
        if len(too_large):
            row, column = too_large[0].tolist()
            raise CellError(
                f"is {values[row, column]:.3g} in standard units, too large for "
                f"{np.dtype(self.dtype).name}",
                call=type(self).__name__,
                argument=argument,
                row=row,
                column=column if columns is None else int(columns[column]),
                remedy="correct it, or remove the row",
            )
        return values.astype(self.dtype)

    # -------------------------------------------------------------------- arguments

    @property
    def _resumes(self) -> bool:
        """Whether `fit` resumes from the networks that were fitted before."""
        return bool(self.warm_start) and "models_" in vars(self)

    def _check_training_arguments(self, checkpoint: Any) -> int:
        """Check the arguments of training, and return a seed from `random_state`."""
        call = type(self).__name__
        check_dtype(call, self.dtype)
        if not self._is_none("learning_rate"):
            check_learning_rate(call, self.learning_rate)
        if not self._is_none("max_epochs"):
            check_count(call, "max_epochs", self.max_epochs)
        # No upper limit: a batch may exceed the table, and patience the epochs.
        if not self._is_none("batch_size"):
            check_count(call, "batch_size", self.batch_size, is_limited=False)
        if not self._is_none("patience"):
            check_count(call, "patience", self.patience, is_limited=False)
        check_flag(call, "warm_start", self.warm_start)
        check_random_state(
            call,
            self.random_state,
            has_checkpoint=checkpoint is not None,
            resumes=self._resumes,
        )
        random = utils.check_random_state(self.random_state)
        return int(random.randint(2**31 - 1))

    def _is_none(self, argument: str) -> bool:
        """Return whether an argument is None, and may be."""
        return argument in self._may_be_none and getattr(self, argument) is None

    def _training_settings(self) -> TrainingSettings:
        """Return how the networks are trained."""
        return TrainingSettings(
            max_epochs=self.max_epochs,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            patience=self._effective_patience,
            dtype=self.dtype,
            show_progress=bool(self.verbose),
        )

    @property
    def _effective_patience(self) -> int | None:
        """The patience of `_training_settings`, by which `count_unfinished` judges too.

        `MultivariateRegressor` trains with a shorter one on large tables
        (`shorten_patience`).
        """
        return self.patience

    # ------------------------------------------------------------- rows of training

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if self.any_columns:
            missing = getattr(self, "missing", None)
            tags.input_tags.allow_nan = missing in ("impute", "median")
        return tags

    def _scale_inputs(self, inputs: np.ndarray, row_weights: np.ndarray) -> Scaling:
        """Return the scaling of encoded inputs."""
        return Scaling.of(inputs, row_weights, self.columns_.indicator_mask)

    def _select_weighted_rows(
        self, sample_weight: Any, *arrays: np.ndarray
    ) -> WeightedRows:
        """Return the rows of positive weight, with weights that the dtype can hold."""
        weights = _check_sample_weight(
            sample_weight, arrays[0], ensure_non_negative=True
        )
        weights = self._rescale_weights(weights)
        is_used = weights > 0
        if is_used.sum() < 2:
            raise ArgumentError(
                f"must leave at least two rows of positive weight, but of "
                f"n_samples={len(is_used)} it makes the weight of all but "
                f"{is_used.sum()} zero",
                call=f"{type(self).__name__}.fit",
                argument="sample_weight",
            )
        return WeightedRows(
            indices=np.flatnonzero(is_used),
            weights=weights[is_used],
            arrays=[array[is_used] for array in arrays],
        )

    def _rescale_weights(self, weights: np.ndarray) -> np.ndarray:
        """Return rescaled weights, or raise an error if the dtype loses some."""
        largest = float(np.max(weights, initial=0.0))
        if largest == 0:
            return weights
        scaled = rescale_weights(weights)
        smallest = np.finfo(self.dtype).tiny
        is_lost = (weights > 0) & (scaled < smallest)
        if is_lost.any():
            raise ArgumentError(
                f"holds weights from {weights[is_lost].min():.3g} to {largest:.3g}, "
                f"but {np.dtype(self.dtype).name} cannot hold a weight below "
                f"{smallest:.2g} times the largest",
                call=f"{type(self).__name__}.fit",
                argument="sample_weight",
                remedy="set such weights to zero",
            )
        return scaled

    def _check_cells(
        self,
        indices: np.ndarray,
        inputs: np.ndarray,
        *targets: Columns,
        stacklevel: int,
    ) -> None:
        """Check for cells that lie absurdly far out, in the inputs and in targets.

        Parameters
        ----------
        indices : array of int, shape (n_rows,)
            The places of the rows in the arguments of `fit`.
        inputs : array of shape (n_rows, n_inputs)
        *targets : Columns
        stacklevel : int
            Of the frame to which warnings are attributed; 1 is the caller.
        """
        call = f"{type(self).__name__}.fit"
        columns = Columns("X", inputs, getattr(self, "feature_names_in_", None))
        check_cells(
            call,
            self.dtype,
            (columns, *targets),
            functools.partial(Columns.place, rows=indices),
            stacklevel=stacklevel + 1,
        )

    def _warn_of_few_rows(self, n_rows: int, *, stacklevel: int) -> None:
        """Warn if no score or interval of the result can be trusted."""
        if n_rows < MIN_ROWS_TO_JUDGE:
            warning = FewRowsWarning(
                f"{n_rows} rows are too few to judge anything by: with fewer than "
                f"{MIN_ROWS_TO_JUDGE}, covariances, intervals and scores are little "
                "more than guesses",
                call=f"{type(self).__name__}.fit",
                remedy="collect more rows",
            )
            warnings.warn(warning, stacklevel=stacklevel + 1)

    # --------------------------------------------------------------------- training

    @property
    def epochs(self) -> int:
        """The limit of epochs: `max_epochs`, or what was chosen if that is None."""
        return getattr(self, "epochs_", self.max_epochs)

    @property
    def n_iter_(self) -> int:
        """Epochs of the last `fit`, of the networks that took most."""
        return max(len(history["loss"]) for history in self._histories())

    def _histories(self) -> list[dict[str, np.ndarray]]:
        return [
            getattr(self, name)
            for name in self._fitted_attributes
            if name.endswith("history_")
        ]

    def count_unfinished(self) -> tuple[int, int]:
        """Count the networks that were still improving at the last epoch.

        Returns
        -------
        n_unfinished : int
        n_networks : int
        """
        is_unfinished = np.concatenate(
            [
                find_unfinished(history, self.epochs, self._effective_patience)
                for history in self._histories()
            ]
        )
        return int(is_unfinished.sum()), len(is_unfinished)

    # ------------------------------------------------------------ files and pickles

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted estimator to one file without code.

        `mmlp.estimators.load` reads it. A `random_state` that is a generator is left
        out: predictions do not depend on it.

        Parameters
        ----------
        path : path
        """
        check_is_fitted(self)
        model_files.save(self, path)

    def __getstate__(self):
        """Return the state with networks as arrays and a description, for pickles.

        Functions such as `jnp.tanh`, which networks hold, cannot be pickled.
        """
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

    def _check_outputs(
        self,
        name: str,
        function: Callable,
        networks: Any,
        *shapes: tuple[int | None, ...],
        n_inputs: int | None = None,
    ) -> None:
        """Raise a ValueError if function(network, x) has other outputs than expected.

        Parameters
        ----------
        name : str
            What the error calls the networks.
        function : callable
        networks : stack of networks
        *shapes : tuples
            The shapes of the expected arrays; None is any size.
        n_inputs : int, optional
            Inputs of the networks; by default those of the estimator.
        """
        row = np.zeros((1, n_inputs or self._width), self.dtype)
        outputs = trace_outputs(function, networks, row)

        def is_expected(output: Any, shape: tuple[int | None, ...]) -> bool:
            # The first two axes are those of rows and networks.
            expected = (1, None, *shape)
            return (
                output.dtype == row.dtype
                and output.ndim == len(expected)
                and all(
                    size > 0 and wanted in (None, size)
                    for size, wanted in zip(output.shape, expected, strict=True)
                )
            )

        if len(outputs) != len(shapes) or not all(map(is_expected, outputs, shapes)):
            text = ", ".join(f"{x.dtype} {x.shape}" for x in outputs)
            needed = f"{row.dtype} {shapes} are needed of each model"
            raise ValueError(f"its {name} gives {text} where {needed}")
