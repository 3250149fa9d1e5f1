"""What the estimators share: their arguments and rows, checked, and what they tell others."""

import abc
import functools
import numbers
import os
import warnings
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import jax
import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from mmlp import checkpoint
from mmlp.estimators import saved
from mmlp.estimators.ensemble import Scaling, Settings, predict, unfinished
from mmlp.estimators.outliers import Columns, check_cells
from mmlp.linalg.checks import checked_size


def all_or_nothing(fit: Callable) -> Callable:
    """A `fit` that is interrupted or fails leaves the estimator as it was."""

    @functools.wraps(fit)
    def guarded(self, *args, **kwargs):
        before = dict(vars(self))
        try:
            return fit(self, *args, **kwargs)
        except BaseException:
            vars(self).clear()
            vars(self).update(before)
            raise

    return guarded


class NetworkEstimator(BaseEstimator, abc.ABC):
    """An estimator whose fitted state is a tree of networks, `models_`, and plain numbers.

    A new one has the arguments named here among its own, `fit`, `scores`, `_check_fitted`, and the
    five class variables. The command line and files then know it.
    """

    kind: ClassVar[str]  # its word in `mmlp fit`
    targets: ClassVar[str | None]  # of `fit`: "columns", y (n, d), "matrices", Y (n, d, d), or None
    results: ClassVar[Mapping[str, Callable]]  # what is predicted: name -> method of X, rows first
    n_targets: int = 0  # columns of y
    _numbers: ClassVar[tuple[str, ...]]  # the fitted attributes beside `models_`

    batch_size: int
    dtype: str
    learning_rate: float
    max_epochs: int
    n_models: int
    patience: int | None
    random_state: Any
    verbose: int
    input_: Scaling
    models_: Any
    n_features_in_: int
    feature_names_in_: np.ndarray  # only if X had names
    history_: dict[str, np.ndarray]

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        saved.CLASSES.setdefault(cls.__name__, cls)

    @abc.abstractmethod
    def scores(self, X, y: Any = None) -> dict[str, float]:
        """How good predictions are for these rows, by name."""

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
        if "models_" not in state:
            return state
        packed = checkpoint.packed(state["models_"], f"pickle of {type(self).__name__}")
        return {**state, "models_": packed}

    def __setstate__(self, state):
        if "models_" in state:
            models = checkpoint.unpacked(f"the pickle of {type(self).__name__}", *state["models_"])
            state = {**state, "models_": models}
        super().__setstate__(state)

    def _settings(self) -> Settings:
        """The arguments of training, checked."""
        name = type(self).__name__
        try:
            dtype = np.dtype(self.dtype)
        except TypeError:
            dtype = None
        if dtype not in (np.float32, np.float64):
            raise ValueError(
                f'`{name}(dtype=...)` must be "float32" or "float64", got {self.dtype!r}.'
            )
        if jax.dtypes.canonicalize_dtype(dtype) != dtype:
            raise ValueError(
                f'`{name}(dtype="float64")` needs 64-bit numbers in JAX: call '
                '`jax.config.update("jax_enable_x64", True)` first.'
            )
        rate = self.learning_rate
        if not (isinstance(rate, numbers.Real) and rate > 0):
            raise ValueError(f"`{name}(learning_rate=...)` must be positive, got {rate!r}.")
        for argument in ("max_epochs", "batch_size", "patience"):
            if argument != "patience" or self.patience is not None:
                checked_size(getattr(self, argument), f"{name}({argument}=...)")
        sizes = (self.max_epochs, self.batch_size, rate, self.patience)
        return Settings(*sizes, dtype, bool(self.verbose))

    def _one_of(self, argument: str, known) -> None:
        """Refuse a value of this argument that is not among the known."""
        value, name = getattr(self, argument), f"{type(self).__name__}({argument}=...)"
        if value not in known:
            raise ValueError(f"`{name}` must be one of {', '.join(known)}, got {value!r}.")

    def _folds(self, n: int) -> int:
        """`n_models`, checked; no more than rows."""
        argument = f"{type(self).__name__}(n_models=...)"
        if checked_size(self.n_models, argument) < 2:
            raise ValueError(
                f"`{argument}` must be at least 2, so that each is judged by rows that others see, "
                "got 1."
            )
        return min(self.n_models, n)

    def _seed(self, directory) -> int:
        if directory is not None and not isinstance(self.random_state, int | np.integer):
            raise ValueError(
                f"`{type(self).__name__}.fit(checkpoint=...)` can go on with the same run only if "
                f"`random_state` is a whole number, got {self.random_state!r}; set it."
            )
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _predict(self, function: Callable, X, part: str | None = None):
        """function(model, x) of standardised rows and all models, or those of a part of them."""
        check_is_fitted(self)
        X = np.asarray(validate_data(self, X, dtype=np.float64, reset=False))
        models = self.models_ if part is None else self.models_[part]
        return predict(function, models, self._cast(self.input_.forward(X), "X"))

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
        place = functools.partial(Columns.place, rows=rows)
        who = f"`{type(self).__name__}.fit`: "
        check_cells(who, self.dtype, tables, place, stacklevel=4)  # at the call of `fit`

    def unfinished(self) -> tuple[int, int]:
        """How many networks came to `max_epochs` while they were improving, and of how many."""
        settings = self._settings()
        histories = [getattr(self, name) for name in self._numbers if name.endswith("history_")]
        flags = np.concatenate([unfinished(history, settings) for history in histories])
        return int(flags.sum()), len(flags)

    def _warn_unfinished(self) -> None:
        count, of = self.unfinished()
        if count:
            warnings.warn(
                f"`{type(self).__name__}.fit`: {count} of {of} networks reached max_epochs="
                f"{self.max_epochs} while the rows held out were still improving; raise "
                "`max_epochs`.",
                ConvergenceWarning,
                stacklevel=4,  # at the call of `fit`
            )
