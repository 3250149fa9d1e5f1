"""Predicted standard deviations and correlations, and their averages along an input."""

import dataclasses
import itertools
from collections.abc import Mapping

import numpy as np

from mmlp.distributions import Elliptical
from mmlp.reporting.rows import Column

MAX_TARGETS_OF_PAIRS = 6
MAX_LEVELS = 12  # of text, or distinct numbers that are not binned
N_BINS = 12  # of numbers and dates


@dataclasses.dataclass(frozen=True)
class Bins:
    """Rows grouped by the value of a column.

    Attributes
    ----------
    positions : array of shape (n_bins,)
        Where the bins stand on an axis: mean values, or 0, 1, ... for text.
    bin_of_row : array of int, shape (n_rows,)
        -1 for rows in no bin: missing values and rare levels.
    names : list of str, optional
        Levels of a column of text.
    """

    positions: np.ndarray
    bin_of_row: np.ndarray
    names: list[str] | None = None


def predicted_deviations(distribution: Elliptical) -> np.ndarray:
    """Return standard deviations, shape (n_rows, n_targets)."""
    return np.sqrt(np.asarray(distribution.covariance.diagonal(), float))


def predicted_correlations(distribution: Elliptical, columns: list[int]) -> np.ndarray:
    """Return the correlations of k targets, shape (n_rows, k, k)."""
    V = np.asarray(distribution.covariance.marginal(columns).dense(), float)
    scale = np.sqrt(np.diagonal(V, axis1=1, axis2=2))
    return V / scale[:, None] / scale[..., None]


def strongest_pairs(
    distribution: Elliptical, n_targets: int, max_pairs: int
) -> list[tuple[int, int]]:
    """Return the pairs of the first targets with the strongest mean correlations."""
    columns = list(range(min(n_targets, MAX_TARGETS_OF_PAIRS)))
    correlations = predicted_correlations(distribution, columns)
    strengths = np.mean(np.abs(correlations), axis=0)
    pairs = itertools.combinations(columns, 2)
    return sorted(pairs, key=lambda pair: -strengths[pair])[:max_pairs]


def average_by_bin(
    bins: Bins, quantities: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Return means of quantities (n_rows,) over the rows of each bin."""
    n_bins = len(bins.positions)
    inside = bins.bin_of_row >= 0
    bin_of_row = bins.bin_of_row[inside]
    counts = np.bincount(bin_of_row, minlength=n_bins)
    return {
        name: np.bincount(bin_of_row, values[inside], n_bins) / counts
        for name, values in quantities.items()
    }


def bin_column(column: Column) -> Bins:
    """Group rows by the value of a column.

    Text is grouped by its most frequent levels, numbers and dates by quantiles, or by
    value where there are few distinct ones.
    """
    if column.kind == "text":
        return _bin_text(column.values)

    if column.kind == "date":
        known = ~np.isnat(column.values)
    else:
        known = np.isfinite(column.values)
    numbers = column.values.astype(float)

    distinct = np.unique(numbers[known])
    if len(distinct) > MAX_LEVELS:
        quantiles = np.quantile(numbers[known], np.linspace(0, 1, N_BINS + 1))
        edges = np.unique(quantiles)
        bin_of_row = np.searchsorted(edges, numbers, "right") - 1
        bin_of_row = np.clip(bin_of_row, 0, len(edges) - 2)
    else:
        bin_of_row = np.searchsorted(distinct, numbers)

    # Number the bins without gaps.
    bin_of_row = np.where(known, bin_of_row, -1)
    filled, bin_of_row[known] = np.unique(bin_of_row[known], return_inverse=True)
    positions = np.array(
        [np.mean(numbers[bin_of_row == k]) for k in range(len(filled))]
    )
    if column.kind == "date":
        positions = positions.astype("datetime64[s]")
    return Bins(positions, bin_of_row)


def _bin_text(values: np.ndarray) -> Bins:
    levels, level_of_row, counts = np.unique(
        values, return_inverse=True, return_counts=True
    )
    frequent = np.sort(np.argsort(-counts, kind="stable")[:MAX_LEVELS])
    bin_of_level = np.full(len(levels), -1)
    bin_of_level[frequent] = np.arange(len(frequent))
    return Bins(
        positions=np.arange(len(frequent)),
        bin_of_row=bin_of_level[level_of_row],
        names=[str(levels[k]) for k in frequent],
    )
