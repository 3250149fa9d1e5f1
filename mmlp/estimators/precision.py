"""Check that a dtype holds means and covariances precisely enough for densities."""

import numpy as np
from jax.typing import DTypeLike

from mmlp.errors import CallError

# How far rounding may move a mean, in standard deviations given the other targets: half
# a unit in the last place, h. Together with the rounding of the target it costs a
# Gaussian h^2 / 3 of its mean log density for each target on average: at 0.05 this is
# 0.0008, and at the very worst 0.005.
MAX_ROUNDING_IN_DEVIATIONS = 0.05


def check_range(
    call: str,
    dtype: DTypeLike,
    eta: np.ndarray,
    diagonal: np.ndarray,
    mean: np.ndarray,
) -> None:
    """Raise a CallError if the dtype cannot hold means and covariances.

    Parameters
    ----------
    call : str
        What the error names.
    dtype : dtype
    eta : array of shape (n,)
        Traces of the covariances.
    diagonal : array of shape (n, d)
        Roots of the diagonals of the covariances over their traces.
    mean : array of shape (n, d)
    """
    limits = np.finfo(dtype)
    smallest = min(eta.min(), diagonal.min())
    largest = max(eta.max(), diagonal.max(), np.abs(mean).max())
    if not (limits.tiny <= smallest and largest <= limits.max):
        raise CallError(
            f"means and scales range from {smallest:.3g} to {largest:.3g}, which "
            f"{limits.dtype} cannot hold",
            call=call,
            remedy="fit targets in other units",
            python_remedy='fit targets in other units, or use dtype="float64"',
        )


def check_rounding(
    call: str, dtype: DTypeLike, mean: np.ndarray, precision: np.ndarray
) -> None:
    """Raise a CallError if the dtype rounds means too much.

    Parameters
    ----------
    call : str
        What the error names.
    dtype : dtype
    mean : array of shape (n, d)
    precision : array of shape (n, d)
        1 / deviation of each target given the others.
    """
    limits = np.finfo(dtype)
    half_unit = np.spacing(np.abs(mean).astype(dtype)).astype(np.float64) / 2
    rounding = half_unit * precision
    row, target = np.unravel_index(np.argmax(rounding), rounding.shape)
    if rounding[row, target] > MAX_ROUNDING_IN_DEVIATIONS:
        better = ', fit with dtype="float64"' if limits.dtype == np.float32 else ""
        raise CallError(
            f"{limits.dtype} rounds the mean of target {target} in row {row} (from 0), "
            f"{mean[row, target]:.6g}, by up to {rounding[row, target]:.2g} of its "
            "standard deviations given the other targets",
            call=call,
            remedy="subtract an offset from the targets before fitting",
            python_remedy="subtract an offset from the targets before "
            f"`fit`{better}, or use `predict`, `predict_covariance` and `log_density`, "
            "which lose no digits",
        )
