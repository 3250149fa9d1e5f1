"""Check the arguments of estimators before any work starts.

`call` is the name of the estimator, such as "MatrixVAE", which errors name.
"""

import contextlib
import numbers
from collections.abc import Iterable
from typing import Any

import jax
import numpy as np

from mmlp.argument_checks import check_size, check_sizes
from mmlp.errors import ArgumentError

# Epochs, networks, loadings and draws are counted in 32 bits.
MAX_COUNT = 2**31 - 1


def check_choice(call: str, argument: str, value: Any, choices: Iterable[str]) -> None:
    """Raise an ArgumentError if a value is not among the choices."""
    if value not in choices:
        raise ArgumentError(
            f"must be one of {', '.join(choices)}, got {value!r}",
            call=call,
            argument=argument,
        )


def check_flag(call: str, argument: str, value: Any) -> None:
    """Raise an ArgumentError if a value is not True or False."""
    if not isinstance(value, bool | np.bool_):
        raise ArgumentError(
            f"must be True or False, got {value!r}", call=call, argument=argument
        )


def check_count(
    call: str, argument: str, value: Any, *, is_limited: bool = True
) -> int:
    """Return a whole number of at least 1, or raise a ValueError.

    Parameters
    ----------
    call, argument : str
        What an error names.
    value : Any
        The value of the argument.
    is_limited : bool
        Whether it must be at most `MAX_COUNT`.
    """
    count = check_size(value, f"{call}({argument}=...)")
    if is_limited and count > MAX_COUNT:
        raise ArgumentError(
            f"must be at most {MAX_COUNT}, got {count}", call=call, argument=argument
        )
    return count


def check_dtype(call: str, value: Any) -> None:
    """Raise a ValueError if a dtype is unknown, or not enabled in JAX."""
    dtype = None
    with contextlib.suppress(TypeError):
        dtype = np.dtype(value)
    if dtype not in (np.float32, np.float64):
        raise ArgumentError(
            f'must be "float32" or "float64", got {value!r}',
            call=call,
            argument="dtype",
        )
    if jax.dtypes.canonicalize_dtype(dtype) != dtype:
        remedy = 'call `jax.config.update("jax_enable_x64", True)` first'
        raise ValueError(
            f'`{call}(dtype="float64")` needs 64-bit numbers in JAX: {remedy}.'
        )


def check_learning_rate(call: str, value: Any) -> None:
    """Raise an ArgumentError if a learning rate is not a positive number."""
    is_number = isinstance(value, numbers.Real) and not isinstance(
        value, bool | np.bool_
    )
    if not is_number or not 0 < float(value) < float("inf"):
        raise ArgumentError(
            f"must be a positive number, such as 0.01, got {value!r}",
            call=call,
            argument="learning_rate",
        )


def check_random_state(
    call: str, random_state: Any, *, has_checkpoint: bool, resumes: bool
) -> None:
    """Raise a ValueError if a fit can be resumed only with a fixed seed."""
    if isinstance(random_state, int | np.integer):
        return
    if has_checkpoint:
        raise ValueError(
            f"`{call}.fit(checkpoint=...)` can resume the same run only if "
            f"`random_state` is a whole number, got {random_state!r}; set it."
        )
    if resumes:
        raise ValueError(
            f"`{call}(warm_start=True)` can resume only if `random_state` is a whole "
            f"number, got {random_state!r}: else networks would be validated on rows "
            "that they were trained on. Set it before the first `fit`."
        )


def check_hidden_sizes(
    call: str, architecture: str, hidden_dims: Any, hidden_features: Any
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the sizes of hidden matrices and vectors, which go together.

    Raises
    ------
    ValueError
        If a size is not a whole number, or if a joint network has another number of
        hidden matrices than of hidden vectors.
    """
    name = f"{call}(hidden_features=...)"
    dims = check_sizes(hidden_dims, f"{call}(hidden_dims=...)")
    features = check_sizes(hidden_features, name)
    if architecture == "joint" and dims and len(dims) != len(features):
        raise ValueError(
            f"`{name}` must have one width for each of the {len(dims)} hidden_dims, "
            "got "
            f'{features}; or use network="cholesky", which has no matrices.'
        )
    return dims, features


def check_n_models(call: str, n_models: Any, n_rows: int) -> int:
    """Return the number of folds: `n_models`, but no more than rows."""
    count = check_count(call, "n_models", n_models)
    if count < 2:
        raise ArgumentError(
            "must be at least 2, so that each network is validated on rows that others "
            "are trained on, got 1",
            call=call,
            argument="n_models",
        )
    return min(count, n_rows)


def check_validation_pair(call: str, X_val: Any, y_val: Any) -> bool:
    """Return whether validation rows are given: both X_val and y_val, or neither."""
    if (X_val is None) != (y_val is None):
        present, missing = ("X_val", "y_val") if y_val is None else ("y_val", "X_val")
        raise ArgumentError(
            f"needs {missing} too",
            call=f"{call}.fit",
            argument=present,
            remedy="give both, or neither",
        )
    return X_val is not None


def check_covariance_form(
    call: str, covariance: Any, rank: Any, n_columns: int
) -> None:
    """Raise an ArgumentError if `covariance` and `rank` do not suit each other.

    `n_columns` is the number of columns that vary.
    """
    check_choice(call, "covariance", covariance, ("auto", "full", "low_rank"))
    if rank is None:
        return
    check_count(call, "rank", rank)
    if covariance == "full":
        raise ArgumentError(
            "is the number of loadings of a low-rank covariance, but "
            f'covariance="full", got {rank!r}',
            call=call,
            argument="rank",
            remedy='use covariance="low_rank", or leave out rank',
        )
    if rank > n_columns:
        raise ArgumentError(
            f"must be at most {n_columns}, the number of columns that vary, got "
            f"{rank!r}: so many loadings hold every covariance",
            call=call,
            argument="rank",
            remedy="use a smaller rank, or leave it out",
        )
