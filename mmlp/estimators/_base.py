"""What the estimators share: their arguments, the scaling of columns, and one file that holds a fitted one."""

import abc
import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import jax
import numpy as np
from sklearn.base import BaseEstimator
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from mmlp import _files, checkpoint
from mmlp._checks import checked_size
from mmlp.estimators._training import Settings

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
    input_: "Scaling"
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
        params = {**{name: _builtin(value) for name, value in params.items()}, "dtype": np.dtype(self.dtype).name}
        fitted = {name: _plain(getattr(self, name)) for name in (*self._numbers, "n_features_in_")}
        fitted |= {name: list(getattr(self, name)) for name in NAMES if hasattr(self, name)}
        metadata = {
            "kind": "estimator",
            "version": _files.VERSION,
            "estimator": type(self).__name__,
            "params": checkpoint.describe(params, "", {}),
            "fitted": fitted,
        }
        _files.write(Path(path), arrays, metadata | content)

    def __getstate__(self):
        """With the networks as arrays and a description: a jitted function such as `jnp.tanh` cannot be pickled."""
        state: Any = super().__getstate__()
        if "models_" in state:
            state = {**state, "models_": checkpoint.packed(state["models_"], f"pickle of {type(self).__name__}")}
        return state

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
            raise ValueError(f'`{name}(dtype=...)` must be "float32" or "float64", got {self.dtype!r}.')
        if jax.dtypes.canonicalize_dtype(dtype) != dtype:
            raise ValueError(
                f'`{name}(dtype="float64")` needs 64-bit numbers in JAX: call `jax.config.update("jax_enable_x64", True)` '
                "first."
            )
        if not self.learning_rate > 0:
            raise ValueError(f"`{name}(learning_rate=...)` must be positive, got {self.learning_rate!r}.")
        for argument in ("max_epochs", "batch_size", *(("patience",) if self.patience is not None else ())):
            checked_size(getattr(self, argument), f"{name}({argument}=...)")
        return Settings(self.max_epochs, self.batch_size, self.learning_rate, self.patience, dtype, bool(self.verbose))

    def _rows(self, X) -> np.ndarray:
        """X (n, p) of `fit`, checked, in float64."""
        return np.asarray(validate_data(self, X, dtype=np.float64, ensure_min_samples=2))

    def _standardised(self, X) -> np.ndarray:
        """X (n, p) of a prediction, checked, as the networks read it."""
        check_is_fitted(self)
        return self._cast(self.input_.forward(np.asarray(validate_data(self, X, dtype=np.float64, reset=False))), "X")

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
        """The weights and the arrays, of the rows that count."""
        weight = _check_sample_weight(sample_weight, arrays[0], ensure_non_negative=True)
        rows = weight > 0
        if rows.sum() < 2:
            raise ValueError(
                f"`{type(self).__name__}.fit(sample_weight=...)` must leave at least two rows of positive weight, but of "
                f"n_samples={len(rows)} it makes the weight of all but {rows.sum()} zero."
            )
        return [array[rows] for array in (weight, *arrays)]

    def _count(self) -> int:
        """`n_models`, checked."""
        argument = f"{type(self).__name__}(n_models=...)"
        if checked_size(self.n_models, argument) < 2:
            raise ValueError(f"`{argument}` must be at least 2, so that each is judged by rows that others see, got 1.")
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
    arrays, metadata = _files.read(path)
    if metadata.get("kind") != "estimator":
        what = "a network, which `mmlp.load` reads" if metadata.get("kind") == "model" else "the state of a training run"
        raise ValueError(f"`estimators.load`: {path} holds {what}, not an estimator as its `save` or `mmlp fit` writes it.")
    _files.check_version(path, metadata)
    kind = KINDS.get(metadata.get("estimator", ""))
    if kind is None:
        raise ValueError(f"`estimators.load`: {path} holds a {metadata.get('estimator')!r:.80}, which is unknown here.")
    try:
        params: Any = checkpoint.build(metadata["params"], {})
        estimator = kind(**params)
        fitted = {name: metadata["fitted"][name] for name in (*kind._numbers, "n_features_in_")}
        names = {name: np.array(metadata["fitted"][name], object) for name in NAMES if name in metadata["fitted"]}
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
        raise ValueError(f"`estimators.load`: the header of {path} makes no sense ({error!r}).") from None
    for name, value in fitted.items():
        setattr(estimator, name, _from_plain(value))
    for name, value in names.items():
        setattr(estimator, name, value)
    estimator.models_ = checkpoint.unpacked(path, arrays, metadata)
    return estimator


class Scaling(NamedTuple):
    """Columns as (values - mean) / scale; constant columns have scale one."""

    mean: np.ndarray
    scale: np.ndarray

    @classmethod
    def of(cls, values: np.ndarray, weight: np.ndarray) -> "Scaling":
        scaler = StandardScaler().fit(values, sample_weight=weight)
        return cls(np.asarray(scaler.mean_), np.asarray(scaler.scale_))

    def forward(self, values: np.ndarray) -> np.ndarray:
        return (values - self.mean) / self.scale

    def back(self, values: np.ndarray) -> np.ndarray:
        return np.asarray(values, np.float64) * self.scale + self.mean


def _plain(value):
    """As JSON: numbers, and arrays as nested lists under a key that says so."""
    if isinstance(value, Scaling):
        return {"scaling": [x.tolist() for x in value]}
    if isinstance(value, dict):
        return {"history": {name: np.asarray(x).tolist() for name, x in value.items()}}
    if isinstance(value, np.ndarray):
        return {"array": value.tolist()}
    return _builtin(value)


def _builtin(value):
    """A parameter of NumPy's types as Python's, which JSON knows."""
    if isinstance(value, tuple | list):
        return type(value)(_builtin(item) for item in value)
    return value.item() if isinstance(value, np.generic) else value


def _from_plain(value):
    match value:
        case {"scaling": [mean, scale]}:
            return Scaling(np.asarray(mean, np.float64), np.asarray(scale, np.float64))
        case {"history": dict(columns)}:
            return {name: np.asarray(x) for name, x in columns.items()}
        case {"array": list(rows)}:
            return np.asarray(rows)
    return value
