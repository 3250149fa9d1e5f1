"""Checks of `MultivariateRegressor(warm_start=True)`."""

from collections.abc import Sequence

import numpy as np

from mmlp.estimators.target_columns import TargetColumns, describe_columns


def check_same_targets(
    y: np.ndarray,
    fitted: TargetColumns,
    names: Sequence[str] | None,
    *,
    estimator: str,
) -> None:
    """Raise a ValueError if y has another number of targets, or other constant ones.

    Parameters
    ----------
    y : array of shape (n, d)
    fitted : TargetColumns
        Those of the first fit.
    names : names of the targets, optional
    estimator : str
        Name of the estimator, for the error.
    """
    call = f"{estimator}(warm_start=True)"
    if y.shape[1] != fitted.count:
        raise ValueError(
            f"`{call}` resumes with {fitted.count} targets, got y with {y.shape[1]} "
            "columns; set `warm_start=False`."
        )
    newly_constant = np.setdiff1d(TargetColumns.of(y).constant, fitted.constant)
    if len(newly_constant):
        raise ValueError(
            f"`{call}`: y is constant now in "
            f"{describe_columns(newly_constant, names)}, and varied in the first fit; "
            "set `warm_start=False`."
        )
    if fitted.differing(y).any():
        raise ValueError(
            f"`{call}`: y differs now from the constant of the first fit in "
            f"{describe_columns(fitted.constant, names)}; set `warm_start=False`."
        )
