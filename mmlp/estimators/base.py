"""What the estimators share: arguments and rows, checked; predictions; what they tell others."""

import abc
import contextlib
import functools
import numbers
import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

import jax
import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from mmlp import checkpoint
from mmlp.estimators import saved
from mmlp.estimators.ensemble import Scaling, Training, unfinished
from mmlp.estimators.outliers import Columns, check_cells
from mmlp.estimators.pieces import output_types, predictions
from mmlp.linalg.checks import checked_size, checked_sizes

ROWS = 2**14  # that `predicted_pieces` gives at once


def guarded(fit: Callable) -> Callable:
    """A `fit` that fails leaves the estimator as it was; one that ends too early says so."""

    @functools.wraps(fit)
    def all_or_nothing(self, *args, **kwargs):
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


class NetworkEstimator(Training, BaseEstimator, abc.ABC):
    """An estimator whose fitted state is a tree of networks, `models_`, and plain numbers.

    A new one is a dataclass of its further arguments, with `fit`, `scores`, `_check_fitted`, and
    the five class variables. The command line and files then know it.
    """

    kind: ClassVar[str]  # its word in `mmlp fit`
    targets: ClassVar[str | None]  # of `fit`: "columns", y (n, d), "matrices", Y (n, d, d), or None
    any_columns: ClassVar[bool] = False  # X may hold text, dates and missing values
    results: ClassVar[Mapping[str, Callable]]  # what is predicted: name -> method of X, rows first
    n_targets: int = 0  # columns of y
    _numbers: ClassVar[tuple[str, ...]]  # the fitted attributes beside `models_`
    _may_be_none: ClassVar[tuple[str, ...]] = ("patience",)  # whole numbers of training

    input_: Scaling
    models_: Any
    n_features_in_: int

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        saved.CLASSES.setdefault(cls.__name__, cls)

    @abc.abstractmethod
    def scores(self, X, y: Any = None) -> dict[str, float]:
        """How good predictions are for these rows, by name."""

    def result_names(self, *, text: bool = False) -> tuple[str, ...]:
        """The names of what `predicted` gives."""
        return tuple(self.results)

    def predicted(self, X, *, text: bool = False) -> dict[str, np.ndarray]:
        """The results by name; with `text` those that a table of text is to hold."""
        return {name: result(self, X) for name, result in self.results.items()}

    def predicted_pieces(self, X, *, text: bool = False) -> Iterator[dict[str, np.ndarray]]:
        """`predicted`, `ROWS` rows at a time, after all rows have been checked."""
        self._standard(X)
        for start in range(0, len(X), ROWS):
            yield self.predicted(X[start : start + ROWS], text=text)

    @abc.abstractmethod
    def _check_fitted(self) -> None:
        """Refuse fitted numbers and networks, of a file, that cannot belong together."""

    def save(self, path: str | os.PathLike) -> None:
        """Write the fitted estimator to one file without code, for `mmlp.estimators.load`.

        A `random_state` that is a generator is left out: what is fitted does not depend on it.
        """
        check_is_fitted(self)
        saved.save(self, path)

    def __getstate__(self):
        """With the networks as arrays and a description: `jnp.tanh` cannot be pickled."""
        state: Any = super().__getstate__()
        if "models_" in state:
            packed = checkpoint.packed(state["models_"], f"pickle of {type(self).__name__}")
            state = {**state, "models_": packed}
        return state

    def __setstate__(self, state):
        if "models_" in state:
            models = checkpoint.unpacked(f"the pickle of {type(self).__name__}", *state["models_"])
            state = {**state, "models_": models}
        super().__setstate__(state)

    def _checked_seed(self, directory) -> int:
        """A seed by `random_state`, after the arguments of training are checked."""
        name, rate, given, dtype = type(self).__name__, self.learning_rate, self.dtype, None
        with contextlib.suppress(TypeError):
            dtype = np.dtype(given)
        if dtype not in (np.float32, np.float64):
            raise ValueError(f'`{name}(dtype=...)` must be "float32" or "float64", got {given!r}.')
        if jax.dtypes.canonicalize_dtype(dtype) != dtype:
            remedy = 'call `jax.config.update("jax_enable_x64", True)` first'
            raise ValueError(f'`{name}(dtype="float64")` needs 64-bit numbers in JAX: {remedy}.')
        known = rate is None and "learning_rate" in self._may_be_none
        number = isinstance(rate, numbers.Real) and not isinstance(rate, bool | np.bool_)
        if not (known or (number and 0 < rate < float("inf"))):
            wanted = "a positive number, such as 0.01"
            raise ValueError(f"`{name}(learning_rate=...)` must be {wanted}, got {rate!r}.")
        for argument in ("max_epochs", "batch_size", "patience"):
            if argument not in self._may_be_none or getattr(self, argument) is not None:
                self._size(argument)
        if directory is not None and not isinstance(self.random_state, int | np.integer):
            raise ValueError(
                f"`{name}.fit(checkpoint=...)` can go on with the same run only if `random_state` "
                f"is a whole number, got {self.random_state!r}; set it."
            )
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _size(self, argument: str) -> int:
        return checked_size(getattr(self, argument), f"{type(self).__name__}({argument}=...)")

    def _sizes(self, argument: str) -> tuple[int, ...]:
        return checked_sizes(getattr(self, argument), f"{type(self).__name__}({argument}=...)")

    def _paths(self, network: str, features: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """`hidden_dims` and the widths `features` of the vector path, which go together."""
        matrices, name = self._sizes("hidden_dims"), f"{type(self).__name__}(hidden_features=...)"
        vectors = checked_sizes(features, name)
        if network == "joint" and matrices and len(matrices) != len(vectors):
            raise ValueError(
                f"`{name}` must have one width for each of the {len(matrices)} hidden_dims, got "
                f'{vectors}; or use network="cholesky", which has no matrices.'
            )
        return matrices, vectors

    def _one_of(self, argument: str, known) -> None:
        value, name = getattr(self, argument), f"{type(self).__name__}({argument}=...)"
        if value not in known:
            raise ValueError(f"`{name}` must be one of {', '.join(known)}, got {value!r}.")

    def _folds(self, n: int) -> int:
        """`n_models`, checked; no more than rows."""
        count = self._size("n_models")
        if count < 2:
            why = "so that each is judged by rows that others see"
            name = type(self).__name__
            raise ValueError(f"`{name}(n_models=...)` must be at least 2, {why}, got 1.")
        return min(count, n)

    def _weighted(self, sample_weight, *arrays: np.ndarray) -> list[np.ndarray]:
        """The numbers of the rows that count, and of these rows the weights and the arrays."""
        weight = _check_sample_weight(sample_weight, arrays[0], ensure_non_negative=True)
        rows = weight > 0
        if rows.sum() < 2:
            raise ValueError(
                f"`{type(self).__name__}.fit(sample_weight=...)` must leave at least two rows of "
                f"positive weight, but of n_samples={len(rows)} it makes the weight of all but "
                f"{rows.sum()} zero."
            )
        return [np.flatnonzero(rows), *(array[rows] for array in (weight, *arrays))]

    def _check_cells(self, rows: np.ndarray, X: np.ndarray, *targets: Columns) -> None:
        """Refuse or name cells that lie absurdly far out, in X and in targets."""
        tables = (Columns("X", X, getattr(self, "feature_names_in_", None)), *targets)
        who, place = f"`{type(self).__name__}.fit`: ", functools.partial(Columns.place, rows=rows)
        check_cells(who, self.dtype, tables, place, stacklevel=4)  # at the call of `fit`

    def unfinished(self) -> tuple[int, int]:
        """How many networks came to `max_epochs` while they were improving, and of how many."""
        limits = self.epochs, self.full_patience
        histories = [getattr(self, name) for name in self._numbers if name.endswith("history_")]
        flags = np.concatenate([unfinished(history, *limits) for history in histories])
        return int(flags.sum()), len(flags)

    def _standard(self, X) -> np.ndarray:
        """Rows X, checked, in standard units and the networks' dtype."""
        check_is_fitted(self)
        return self._cast(self.input_.forward(self._numbers_of(X)), "X")

    def _numbers_of(self, X) -> np.ndarray:
        """X (n, p) of a prediction, checked, as the numbers (n, width) that `input_` scales."""
        return np.asarray(validate_data(self, X, dtype=np.float64, reset=False))

    @property
    def _width(self) -> int:
        """What networks see of a row."""
        return self.n_features_in_

    def _predict(self, function: Callable, X):
        """function(model, x) of standardised rows and all models."""
        rows = self._standard(X)  # first: it refuses an estimator that is not fitted
        return predictions(function, self.models_, rows)

    def _cast(self, values: np.ndarray, argument: str) -> np.ndarray:
        """Standardised values (n, p) in the networks' dtype, which must hold their squares too."""
        wrong = np.argwhere(~(np.abs(values) <= np.sqrt(np.finfo(self.dtype).max)))
        if len(wrong):
            row, column = wrong[0].tolist()
            raise ValueError(
                f"`{type(self).__name__}`: {argument} in row {row}, column {column} (from 0) is "
                f"{values[row, column]:.3g} in standard units, too large for "
                f"{np.dtype(self.dtype).name}; correct it, or remove the row."
            )
        return values.astype(self.dtype)

    def _check_outputs(self, what: str, function: Callable, models, *shapes, inputs=None) -> None:
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
