"""The fitted functions of `MultivariateRegressor`: means and covariances of rows."""

import dataclasses
from typing import Any

import numpy as np

from mmlp.distributions import Elliptical
from mmlp.estimators.chunks import map_in_chunks
from mmlp.estimators.covariance import (
    Calibration,
    CovarianceBatch,
    CovarianceForm,
    predict_covariance,
)
from mmlp.estimators.mean import predict_mean
from mmlp.estimators.scaling import Scaling
from mmlp.estimators.target_columns import TargetColumns


@dataclasses.dataclass(frozen=True)
class RegressionPredictor:
    """Means and covariances, as functions of standardized inputs x (n, p).

    Parameters
    ----------
    networks : dict of stacks
        "mean", "covariance" and perhaps "smooth", the Gaussian process of the mean.
    gaussian_process_weights : array of shape (n_varying,)
    form : CovarianceForm
    calibration : Calibration
    family : subclass of Elliptical
    target_scaling : Scaling
        Of the targets that vary.
    target_columns : TargetColumns
        Which of all targets vary.
    """

    networks: dict[str, Any]
    gaussian_process_weights: np.ndarray
    form: CovarianceForm
    calibration: Calibration
    family: type[Elliptical]
    target_scaling: Scaling
    target_columns: TargetColumns

    def standardized_mean(self, x: np.ndarray) -> np.ndarray:
        """Return the means (n, n_varying) of the standardized targets that vary."""
        return predict_mean(
            self.networks["mean"],
            self.networks.get("smooth"),
            self.gaussian_process_weights,
            x,
        )

    def mean(self, x: np.ndarray) -> np.ndarray:
        """Return the means (n, d) of all targets."""
        mean = self.target_scaling.back(self.standardized_mean(x))
        return self.target_columns.with_constants(mean)

    def standardized_covariance(
        self, x: np.ndarray
    ) -> tuple[CovarianceBatch, list[np.ndarray]]:
        """Return covariances and tails (n,) of the standardized targets that vary."""
        return predict_covariance(
            self.networks["covariance"], self.form, self.calibration, self.family, x
        )

    def covariance(self, x: np.ndarray) -> CovarianceBatch:
        """Return the covariances of all targets."""
        covariance, _ = self.standardized_covariance(x)
        covariance = covariance.in_units(self.target_scaling.scale)
        return covariance.with_constant_targets(self.target_columns)

    def moments(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
        """Return means and deviations (n, d) of all targets, and tails (n,)."""

        def moments_of_chunk(x):
            covariance, tail = self.standardized_covariance(x)
            std = covariance.std() * self.target_scaling.scale
            return self.mean(x), self.target_columns.with_zeros(std), tail

        return map_in_chunks(moments_of_chunk, x)
