"""Full covariances of `MultivariateRegressor`, for few targets."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from mmlp.distributions import Elliptical
from mmlp.estimators import covariance_calibration, model_files
from mmlp.estimators.chunks import apply_networks
from mmlp.estimators.covariance import (
    Calibration,
    CovarianceForm,
    CovarianceSettings,
    ResidualTable,
)
from mmlp.estimators.covariance_networks import FullCovarianceBuilder
from mmlp.estimators.cross_fitting import out_of_fold
from mmlp.estimators.precision import check_range, check_rounding
from mmlp.estimators.target_columns import TargetColumns
from mmlp.spd import Gram


class TriangularFactors(NamedTuple):
    """Covariances V = R'R in float64, a `CovarianceBatch`.

    Attributes
    ----------
    R : array of shape (n, k, d)
        Upper triangular, with k = d, if no target is constant.
    """

    R: np.ndarray

    def in_units(self, scale: np.ndarray) -> "TriangularFactors":
        """Return the covariances after each target is multiplied by its scale (d,)."""
        return TriangularFactors(self.R * scale)

    def with_constant_targets(self, columns: TargetColumns) -> "TriangularFactors":
        """Return those of all targets: zero in rows and columns of constant ones."""
        return TriangularFactors(columns.with_zeros(self.R))

    def dense(self, columns: Any = slice(None)) -> np.ndarray:
        """Return the matrices (n, k, k) of some targets."""
        R = self.R[..., columns]
        return R.mT @ R

    def std(self) -> np.ndarray:
        """Return the standard deviations (n, d)."""
        return np.linalg.norm(self.R, axis=-2)

    def as_spd(self, call: str, dtype: DTypeLike, mean: np.ndarray) -> Gram:
        """Return them in a dtype, if it holds them and the means (n, d) precisely."""
        eta = np.sum(self.R**2, axis=(-2, -1))
        diagonal = np.abs(self.R.diagonal(axis1=-2, axis2=-1)) / np.sqrt(eta)[:, None]
        check_range(call, dtype, eta, diagonal, mean)

        # The diagonal of the inverse of R'R is 1 / deviation^2, given the other
        # targets.
        precision = np.linalg.norm(np.linalg.inv(self.R), axis=-1)
        check_rounding(call, dtype, mean, precision)
        return Gram(jnp.asarray(self.R, dtype), upper=True)


class FullCovariance(CovarianceForm):
    """Full covariances, averaged over networks in log space.

    Arithmetic means would be too large. `shape_` (d, d) is L, with LL' / d the
    covariance of all residuals; `contrast_` multiplies the deviations of log V from its
    centre.
    """

    sizes_depend_on_residuals = False
    combines_networks = False

    def fit_shape(self, residuals: np.ndarray, row_weights: np.ndarray) -> np.ndarray:
        """Return L (d, d); see `covariance_calibration.fit_shape`."""
        return covariance_calibration.fit_shape(residuals, row_weights)

    def standardize(self, shape: np.ndarray, residuals: np.ndarray) -> np.ndarray:
        """Return L^-1 e for each residual e."""
        return np.linalg.solve(shape, residuals.T).T

    def choose_network(
        self,
        settings: CovarianceSettings,
        n_inputs: int,
        residuals: np.ndarray,
        row_weights: np.ndarray,
    ) -> tuple[Callable, None]:
        """Return a builder of networks; they start from no residuals."""
        sizes = settings.network_sizes(n_inputs, residuals.shape[1])
        return FullCovarianceBuilder(settings.head, sizes), None

    def calibrate(
        self, family: type[Elliptical], networks: Any, table: ResidualTable
    ) -> tuple[float, float]:
        """Return contrast and gain that suit the held-out residuals."""
        parts = apply_networks(self.predict_parts, networks, table.inputs)
        log_V, *tail = (out_of_fold(part, table.folds) for part in parts)
        contrast = covariance_calibration.fit_contrast(
            family, log_V, tail, table.residuals, table.row_weights
        )
        # The mean has a network for each fold of two partitions.
        gain = covariance_calibration.fit_gain(
            move_towards_centre(log_V, contrast),
            table.residuals,
            table.disagreement,
            table.row_weights,
            n_mean_networks=2 * len(table.folds),
        )
        return contrast, gain

    @staticmethod
    def predict_parts(network: Any, x: Any) -> tuple:
        """Return log V and the tail of one row."""
        distribution = network(x)
        return distribution.covariance.logm(), *distribution.tail

    def assemble(
        self,
        parts: Sequence[np.ndarray],
        calibration: Calibration,
        family: type[Elliptical],
    ) -> tuple[TriangularFactors, list[np.ndarray]]:
        """Average over networks, calibrate, and undo the standardization."""
        log_V, *tails = parts
        average = log_V.mean(axis=1).astype(np.float64)
        log_V = move_towards_centre(average, calibration.contrast)

        eigenvalues, eigenvectors = np.linalg.eigh(log_V)
        root_eigenvalues = np.exp((eigenvalues + np.log(calibration.gain)) / 2)
        root = root_eigenvalues[..., None] * eigenvectors.mT
        R: Any = np.linalg.qr(root @ calibration.shape.T, mode="r")
        return TriangularFactors(R), list(family.average_tails(*tails, axis=1))

    def named_results(self, *, text: bool) -> dict[str, Callable]:
        """Return the dense covariance."""
        return {"covariance": TriangularFactors.dense}

    def check_fitted(
        self, shape: Any, contrast: Any, n_targets: int
    ) -> tuple[tuple, ...]:
        """Return the shapes of the parts; raise a ValueError for impossible numbers."""
        d = n_targets
        if not model_files.is_finite(shape, (d, d)):
            raise ValueError(f"its shape_ is not a matrix ({d}, {d}) of finite numbers")
        model_files.check_number(contrast, "contrast_", 0, 1)
        return ((d, d),)


def move_towards_centre(log_V: np.ndarray, contrast: float) -> np.ndarray:
    """Move log V (n, d, d) towards log(I / d), that of the covariance of all rows."""
    d = log_V.shape[-1]
    centre = -np.log(d) * np.eye(d)
    return centre + contrast * (log_V - centre)
