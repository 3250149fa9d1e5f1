"""Columns in standard units."""

from typing import NamedTuple

import numpy as np
from sklearn.preprocessing import StandardScaler


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
