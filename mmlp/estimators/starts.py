"""What `MultivariateRegressor.fit` starts from: units, fitted networks, rows of validation."""

from typing import Any

import numpy as np

from mmlp.estimators.covariance import Form, checked_targets
from mmlp.estimators.ensemble import Scaling, check_alike
from mmlp.estimators.mean import Mean


def scaled(regressor: Any, X, y, weight) -> tuple[np.ndarray, np.ndarray, dict[str, Any]]:
    """The rows in standard units, and the networks to go on from by name, if there are any."""
    if not regressor._warm:
        regressor.input_ = regressor._scaling(X, weight)
        regressor.target_ = Scaling.of(y, weight)
    elif y.shape[1] != regressor.n_targets:
        raise ValueError(
            f"`{type(regressor).__name__}(warm_start=True)` goes on with {regressor.n_targets} "
            f"targets, got y with {y.shape[1]} columns; set `warm_start=False`."
        )
    before = regressor.models_ if regressor._warm else {}
    return regressor.input_.forward(X), regressor.target_.forward(y), before


def check_networks(regressor, before, form: Form, sizes, count: int, x, z, weight) -> None:
    """Refuse networks to go on from that are not those which the arguments ask for."""
    if before:
        name, rows = type(regressor).__name__, x.astype(regressor.dtype)
        mean = Mean((x.shape[1], *sizes, z.shape[1]))
        check_alike(name, before["mean"], mean, 2 * count, rows)
        build, start = form.builder(regressor, x.shape[1], z, weight)
        check_alike(name, before["covariance"], build, count, rows, start)


def rows_of_validation(regressor: Any, X_val, y_val) -> tuple[np.ndarray, np.ndarray] | None:
    """In standard units, if there are any."""
    if not regressor._both(X_val, y_val):
        return None
    x = regressor._standard(X_val)
    y = checked_targets(regressor, y_val, len(x), "fit", "y_val")
    return x, regressor._cast(regressor.target_.forward(y), "y_val")
