"""The arguments of estimators, checked before any work starts."""

import contextlib
import numbers
from typing import Any, ClassVar

import jax
import numpy as np
from sklearn.utils import check_random_state

from mmlp.argument_checks import check_size, check_sizes

MAX_SIZE = 2**31 - 1  # of epochs, models, loadings, draws


class Arguments:
    """The checks of an estimator with the arguments of `Training`."""

    learning_rate: Any
    dtype: Any
    random_state: Any
    warm_start: Any
    _may_be_none: ClassVar[tuple[str, ...]] = ("patience",)  # whole numbers of training

    @property
    def _warm(self) -> bool:
        """Whether `fit` goes on from what was fitted."""
        return bool(self.warm_start) and "models_" in vars(self)

    @property
    def _asked_rank(self: Any) -> int | None:
        """That of the argument, or of the networks to go on from; None: by the rows."""
        return self.rank_ if self._warm and self.rank is None else self.rank

    def _both(self, X_val, y_val) -> bool:
        """Whether rows of validation are given: both of them, or none."""
        if (X_val is None) != (y_val is None):
            given, lacks = ("X_val", "y_val") if y_val is None else ("y_val", "X_val")
            name = type(self).__name__
            raise ValueError(
                f"`{name}.fit({given}=...)` needs {lacks} too; give both, or none."
            )
        return X_val is not None

    def _checked_seed(self, directory) -> int:
        """A seed by `random_state`, after the arguments of training are checked."""
        name, given, dtype = type(self).__name__, self.dtype, None
        rate: Any = self.learning_rate
        with contextlib.suppress(TypeError):
            dtype = np.dtype(given)
        if dtype not in (np.float32, np.float64):
            raise ValueError(
                f'`{name}(dtype=...)` must be "float32" or "float64", got {given!r}.'
            )
        if jax.dtypes.canonicalize_dtype(dtype) != dtype:
            remedy = 'call `jax.config.update("jax_enable_x64", True)` first'
            raise ValueError(
                f'`{name}(dtype="float64")` needs 64-bit numbers in JAX: {remedy}.'
            )
        known = rate is None and "learning_rate" in self._may_be_none
        number = isinstance(rate, numbers.Real) and not isinstance(
            rate, bool | np.bool_
        )
        if not known and not (number and 0 < float(rate or 0) < float("inf")):
            wanted = "a positive number, such as 0.01"
            raise ValueError(
                f"`{name}(learning_rate=...)` must be {wanted}, got {rate!r}."
            )
        for argument in ("max_epochs", "batch_size", "patience"):
            if argument not in self._may_be_none or getattr(self, argument) is not None:
                self._size(argument)
        if not isinstance(self.warm_start, bool | np.bool_):
            raise ValueError(
                f"`{name}(warm_start=...)` must be True or False, got {self.warm_start!r}."
            )
        known = isinstance(self.random_state, int | np.integer)
        if directory is not None and not known:
            raise ValueError(
                f"`{name}.fit(checkpoint=...)` can go on with the same run only if `random_state` "
                f"is a whole number, got {self.random_state!r}; set it."
            )
        if self._warm and not known:
            raise ValueError(
                f"`{name}(warm_start=True)` can go on only if `random_state` is a whole number, "
                f"got {self.random_state!r}: else networks would be judged by rows that they have "
                "seen. Set it before the first `fit`."
            )
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _size(self, argument: str) -> int:
        """Return the argument, a whole number of at least 1."""
        name = f"{type(self).__name__}({argument}=...)"
        size = check_size(getattr(self, argument), name)
        # More patience than epochs is patience without end, and a batch larger than the table is
        # the table; everything else is counted in 32 bits.
        if size > MAX_SIZE and argument not in ("patience", "batch_size"):
            raise ValueError(f"`{name}` must be at most {MAX_SIZE}, got {size}.")
        return size

    def _sizes(self, argument: str) -> tuple[int, ...]:
        return check_sizes(
            getattr(self, argument), f"{type(self).__name__}({argument}=...)"
        )

    def _paths(
        self, network: str, features: Any
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """`hidden_dims` and the widths `features` of the vector path, which go together."""
        matrices, name = (
            self._sizes("hidden_dims"),
            f"{type(self).__name__}(hidden_features=...)",
        )
        vectors = check_sizes(features, name)
        if network == "joint" and matrices and len(matrices) != len(vectors):
            raise ValueError(
                f"`{name}` must have one width for each of the {len(matrices)} hidden_dims, got "
                f'{vectors}; or use network="cholesky", which has no matrices.'
            )
        return matrices, vectors

    def _one_of(self, argument: str, known) -> None:
        value, name = getattr(self, argument), f"{type(self).__name__}({argument}=...)"
        if value not in known:
            raise ValueError(
                f"`{name}` must be one of {', '.join(known)}, got {value!r}."
            )

    def _folds(self, n: int) -> int:
        """`n_models`, checked; no more than rows."""
        count = self._size("n_models")
        if count < 2:
            why = "so that each is judged by rows that others see"
            name = type(self).__name__
            raise ValueError(
                f"`{name}(n_models=...)` must be at least 2, {why}, got 1."
            )
        return min(count, n)
