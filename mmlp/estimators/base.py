"""What the estimators share: their arguments, the scaling of columns, and one file that holds a fitted one."""

import abc
import functools
import numbers
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import jax
import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from mmlp import checkpoint
from mmlp.checkpoint import files
from mmlp.estimators import saved
from mmlp.estimators.outliers import Columns, check_cells
from mmlp.estimators.scaling import Scaling
from mmlp.estimators.training import Settings, unfinished
from mmlp.linalg.checks import checked_size

NAMES = ("feature_names_in_", "target_names_")  # of columns, where there are any
KINDS: dict[str, type["NetworkEstimator"]] = {}


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

    A subclass has the arguments named here among its own, and lists in `_numbers` its fitted attributes beside `models_`.
    """

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
    _numbers: ClassVar[tuple[str, ...]]

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        KINDS.setdefault(cls.__name__, cls)

    def save(self, path: str | os.PathLike) -> None:
        """Write the fitted estimator to one file, which holds no code; `mmlp.estimators.load` reads it.

        A `random_state` that is a generator is left out: what is fitted does not depend on it any more.
        """
        check_is_fitted(self)
        arrays, content = checkpoint.packed(self.models_, f"{type(self).__name__}.save")
        params = self.get_params()
        if isinstance(self.random_state, np.random.RandomState):
            params["random_state"] = None
        params = {name: saved.builtin(value) for name, value in params.items()}
        params |= {"dtype": np.dtype(self.dtype).name}
        fitted = {
            name: saved.plain(getattr(self, name)) for name in (*self._numbers, "n_features_in_")
        }
        fitted |= {name: list(getattr(self, name)) for name in NAMES if hasattr(self, name)}
        metadata = {
            "kind": "estimator",
            "version": files.VERSION,
            "estimator": type(self).__name__,
            "params": checkpoint.describe(params, "", {}),
            "fitted": fitted,
        }
        files.write(Path(path), arrays, metadata | content)

    def __getstate__(self):
        """With the networks as arrays and a description: a jitted function such as `jnp.tanh` cannot be pickled."""
        state: Any = super().__getstate__()
        if "models_" in state:
            state = {
                **state,
                "models_": checkpoint.packed(state["models_"], f"pickle of {type(self).__name__}"),
            }
        return state

    def __setstate__(self, state):
        if "models_" in state:
            models = checkpoint.unpacked(f"the pickle of {type(self).__name__}", *state["models_"])
            state = {**state, "models_": models}
        super().__setstate__(state)

    @abc.abstractmethod
    def _check_fitted(self) -> None:
        """Refuse fitted numbers and networks, of a file, that cannot belong together."""

    @property
    def _n_targets(self) -> int:
        """How many names of targets a file may hold."""
        return 0

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
                f'`{name}(dtype="float64")` needs 64-bit numbers in JAX: call `jax.config.update("jax_enable_x64", True)` '
                "first."
            )
        if not (isinstance(self.learning_rate, numbers.Real) and self.learning_rate > 0):
            raise ValueError(
                f"`{name}(learning_rate=...)` must be positive, got {self.learning_rate!r}."
            )
        for argument in (
            "max_epochs",
            "batch_size",
            *(("patience",) if self.patience is not None else ()),
        ):
            checked_size(getattr(self, argument), f"{name}({argument}=...)")
        return Settings(
            self.max_epochs,
            self.batch_size,
            self.learning_rate,
            self.patience,
            dtype,
            bool(self.verbose),
        )

    def _rows(self, X) -> np.ndarray:
        """X (n, p) of `fit`, checked, in float64."""
        return np.asarray(validate_data(self, X, dtype=np.float64, ensure_min_samples=2))

    def _standardised(self, X) -> np.ndarray:
        """X (n, p) of a prediction, checked, as the networks read it."""
        check_is_fitted(self)
        return self._cast(
            self.input_.forward(np.asarray(validate_data(self, X, dtype=np.float64, reset=False))),
            "X",
        )

    def _cast(self, values: np.ndarray, argument: str) -> np.ndarray:
        """Standardised values (n, p) in the networks' dtype, which must hold their squares too."""
        wrong = np.argwhere(~(np.abs(values) <= np.sqrt(np.finfo(self.dtype).max)))
        if len(wrong):
            row, column = wrong[0].tolist()
            raise ValueError(
                f"`{type(self).__name__}`: {argument} in row {row}, column {column} (from 0) is {values[row, column]:.3g} "
                f"in standard units, too large for {np.dtype(self.dtype).name}; correct it, or remove the row."
            )
        return values.astype(self.dtype)

    def _weighted(self, sample_weight, *arrays: np.ndarray) -> list[np.ndarray]:
        """The numbers of the rows that count, and of these rows the weights and the arrays."""
        weight = _check_sample_weight(sample_weight, arrays[0], ensure_non_negative=True)
        rows = weight > 0
        if rows.sum() < 2:
            raise ValueError(
                f"`{type(self).__name__}.fit(sample_weight=...)` must leave at least two rows of positive weight, but of "
                f"n_samples={len(rows)} it makes the weight of all but {rows.sum()} zero."
            )
        return [np.flatnonzero(rows), *(array[rows] for array in (weight, *arrays))]

    def _check_cells(self, rows: np.ndarray, X: np.ndarray, *targets: Columns) -> None:
        """Refuse or name cells that lie absurdly far out, in X and in targets."""
        names = getattr(self, "feature_names_in_", None)
        tables = (Columns("X", X, names), *targets)
        place = functools.partial(Columns.place, rows=rows)
        check_cells(
            f"`{type(self).__name__}.fit`: ", self.dtype, tables, place, stacklevel=4
        )  # at the call of `fit`

    def _unfinished(self) -> tuple[int, int]:
        """How many networks came to `max_epochs` while they were improving, and of how many."""
        settings = self._settings()
        histories = [getattr(self, name) for name in self._numbers if name.endswith("history_")]
        flags = np.concatenate([unfinished(history, settings) for history in histories])
        return int(flags.sum()), len(flags)

    def _warn_unfinished(self) -> None:
        count, of = self._unfinished()
        if count:
            warnings.warn(
                f"`{type(self).__name__}.fit`: {count} of {of} networks reached max_epochs={self.max_epochs} while the "
                "rows held out were still improving; raise `max_epochs`.",
                ConvergenceWarning,
                stacklevel=4,  # at the call of `fit`
            )

    def _count(self) -> int:
        """`n_models`, checked."""
        argument = f"{type(self).__name__}(n_models=...)"
        if checked_size(self.n_models, argument) < 2:
            raise ValueError(
                f"`{argument}` must be at least 2, so that each is judged by rows that others see, got 1."
            )
        return self.n_models

    def _seed(self, directory) -> int:
        if directory is not None and not isinstance(self.random_state, int | np.integer):
            raise ValueError(
                f"`{type(self).__name__}.fit(checkpoint=...)` can go on with the same run only if `random_state` is a whole "
                f"number, got {self.random_state!r}; set it."
            )
        return int(check_random_state(self.random_state).randint(2**31 - 1))


def load(path: str | os.PathLike) -> NetworkEstimator:
    """The fitted estimator that `save` wrote, of whichever kind; nothing in the file is run."""
    path = Path(path)
    arrays, metadata = files.read(path)
    if metadata.get("kind") != "estimator":
        what = (
            "a network, which `mmlp.load` reads"
            if metadata.get("kind") == "model"
            else "the state of a training run"
        )
        raise ValueError(
            f"`estimators.load`: {path} holds {what}, not an estimator as its `save` or `mmlp fit` writes it."
        )
    files.check_version(path, metadata)
    kind = metadata.get("estimator")
    if not isinstance(kind, str) or kind not in KINDS:
        raise ValueError(f"`estimators.load`: {path} holds a {kind!r:.80}, which is unknown here.")
    models = checkpoint.unpacked(path, arrays, metadata)
    try:
        return _restored(KINDS[kind], metadata["params"], metadata["fitted"], models)
    except (
        Exception
    ) as error:  # a network that another network's fields were put into may fail in any way
        reason = (
            str(error)
            if type(error) is ValueError
            else f"its header makes no sense, {error!r:.200}"
        )
        raise ValueError(
            f"`estimators.load`: {path} is damaged: {reason}. Use an older copy."
        ) from None


def _restored(kind: type[NetworkEstimator], params, fitted, models) -> NetworkEstimator:
    """The estimator of these arguments, numbers and networks, checked against each other."""
    arguments: Any = checkpoint.build(params, {})
    saved.check_params(arguments)
    estimator = kind(**arguments)
    if estimator.dtype not in ("float32", "float64"):
        raise ValueError(f"its dtype is {estimator.dtype!r:.80}")
    for name in (*kind._numbers, "n_features_in_"):
        setattr(estimator, name, saved.from_plain(fitted[name]))
    estimator.models_ = models
    p = checked_size(estimator.n_features_in_, "n_features_in_")
    saved.check_scaling(estimator.input_, "input_", p)
    saved.check_weights(models)
    estimator._check_fitted()
    for name, size in zip(NAMES, (p, estimator._n_targets), strict=True):
        if name in fitted:
            saved.check_names(fitted[name], name, size)
            setattr(estimator, name, np.array(fitted[name], object))
    return estimator
