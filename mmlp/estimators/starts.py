"""What `MultivariateRegressor.fit` starts from: units, fitted networks, rows of validation."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from mmlp.errors import CallError
from mmlp.estimators.covariance import Form
from mmlp.estimators.cross_fitting import Scaling, check_alike
from mmlp.estimators.mean import Mean
from mmlp.estimators.target_columns import (
    TargetColumns,
    checked_targets,
    find_columns,
    name_columns,
)


def select_targets(
    regressor: Any, y: np.ndarray, names: Sequence[str] | None, stacklevel: int
) -> np.ndarray:
    """Return the targets of y (n, d) that vary, (n, k), and keep what the others are.

    With `warm_start` they must be those of the first `fit`.
    """
    call = f"{type(regressor).__name__}.fit"
    if regressor._warm:
        check_same_targets(regressor, y, names)
        return y[:, regressor.varying_targets_]
    columns = find_columns(call, y, names, stacklevel + 1)
    regressor.constant_targets_ = columns.constant
    regressor.constant_values_ = columns.values
    return y[:, columns.varying]


def check_same_targets(
    regressor: Any, y: np.ndarray, names: Sequence[str] | None
) -> None:
    """Refuse to resume with another number of targets, or with others that are constant."""
    call = f"{type(regressor).__name__}(warm_start=True)"
    if y.shape[1] != regressor.n_targets:
        raise ValueError(
            f"`{call}` goes on with {regressor.n_targets} targets, got y with {y.shape[1]} "
            "columns; set `warm_start=False`."
        )
    before = regressor._target_columns
    fixed = np.setdiff1d(TargetColumns.of(y).constant, before.constant)
    if len(fixed):
        raise ValueError(
            f"`{call}`: y is constant now in {name_columns(fixed, names)}, and varied in the first "
            "fit; set `warm_start=False`."
        )
    if before.differing(y).any():
        raise ValueError(
            f"`{call}`: y differs now from the constant of the first fit in "
            f"{name_columns(before.constant, names)}; set `warm_start=False`."
        )


def scaled(
    regressor: Any, X, y, weight
) -> tuple[np.ndarray, np.ndarray, dict[str, Any]]:
    """The rows in standard units, and the networks to go on from by name, if there are any."""
    if not regressor._warm:
        regressor.input_ = regressor._scaling(X, weight)
        regressor.target_ = Scaling.of_varying(y, weight)
        tiny = np.flatnonzero(regressor.target_.scale**2 < np.finfo(np.float64).tiny)
        if len(tiny):
            names = getattr(regressor, "target_names_", None)
            target = name_columns(regressor.varying_targets_[tiny[:1]], names)
            raise CallError(
                f"the variance of {target} underflows",
                call=f"{type(regressor).__name__}.fit",
                remedy="use other units",
            )
    before = regressor.models_ if regressor._warm else {}
    return regressor.input_.forward(X), regressor.target_.forward(y), before


def check_networks(
    regressor, before, form: Form, sizes, count: int, x, z, weight
) -> None:
    """Refuse networks to go on from that are not those which the arguments ask for."""
    if before:
        name, rows = type(regressor).__name__, x.astype(regressor.dtype)
        mean = Mean((x.shape[1], *sizes, z.shape[1]))
        check_alike(name, before["mean"], mean, 2 * count, rows)
        build, start = form.builder(regressor, x.shape[1], z, weight)
        check_alike(name, before["covariance"], build, count, rows, start)


def rows_of_validation(
    regressor: Any, X_val, y_val
) -> tuple[np.ndarray, np.ndarray] | None:
    """In standard units, if there are any."""
    if not regressor._both(X_val, y_val):
        return None
    x = regressor._standard(X_val)
    y = checked_targets(regressor, y_val, len(x), "fit", "y_val")
    return x, regressor._standard_targets(y, "y_val")
