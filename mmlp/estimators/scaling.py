"""Columns in standard units."""

from typing import NamedTuple

import numpy as np
from sklearn.preprocessing import StandardScaler


class Scaling(NamedTuple):
    """The map from columns to standard units, (values - mean) / scale.

    Attributes
    ----------
    mean : array of shape (n_columns,)
    scale : array of shape (n_columns,)
        Positive; one for constant columns.
    """

    mean: np.ndarray
    scale: np.ndarray

    @classmethod
    def of(
        cls,
        values: np.ndarray,
        row_weights: np.ndarray,
        indicators: np.ndarray | bool = False,
    ) -> "Scaling":
        """Return the scaling of values (n, p), with standard deviations as scales.

        `indicators` (p,) marks the columns of zeros and ones. Their scale is 1/2,
        however rare the ones are.
        """
        scaler = StandardScaler().fit(values, sample_weight=row_weights)
        scale = np.where(indicators, 0.5, np.asarray(scaler.scale_))
        return cls(np.asarray(scaler.mean_), scale)

    @classmethod
    def of_varying(cls, values: np.ndarray, row_weights: np.ndarray) -> "Scaling":
        """Return the scaling of columns that are known to vary.

        `StandardScaler` takes a column for constant, and its scale for one, if its
        variance is tiny beside its mean.
        """
        scaler = StandardScaler().fit(values, sample_weight=row_weights)
        return cls(np.asarray(scaler.mean_), np.sqrt(np.asarray(scaler.var_)))

    def forward(self, values: np.ndarray) -> np.ndarray:
        """Return values (n, p) in standard units."""
        return (values - self.mean) / self.scale

    def back(self, values: np.ndarray) -> np.ndarray:
        """Return values (n, p) in standard units in the units of the columns."""
        return np.asarray(values, np.float64) * self.scale + self.mean


class StandardizedTable(NamedTuple):
    """Rows in standard units, as the networks see them.

    Attributes
    ----------
    inputs : array of shape (n_rows, n_inputs)
    targets : array of shape (n_rows, n_targets)
    row_weights : array of shape (n_rows,)
    """

    inputs: np.ndarray
    targets: np.ndarray
    row_weights: np.ndarray

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return len(self.inputs)

    @property
    def n_inputs(self) -> int:
        """The number of columns of the inputs."""
        return self.inputs.shape[1]

    @property
    def n_targets(self) -> int:
        """The number of targets."""
        return self.targets.shape[1]
