"""Full covariances, of `MultivariateRegressor`: for few targets."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from mmlp.estimators import covariance_calibration, model_files
from mmlp.estimators.chunks import predictions
from mmlp.estimators.covariance import (
    FAMILIES,
    Covariance,
    Form,
    check_range,
    check_rounding,
)
from mmlp.estimators.cross_fitting import held
from mmlp.estimators.target_columns import TargetColumns
from mmlp.spd import Gram


class Triangles(NamedTuple):
    """V = R'R for upper triangular R (n, d, d) in float64; (n, k, d) where d - k are constant."""

    R: np.ndarray

    def in_units(self, scale: np.ndarray) -> "Triangles":
        return Triangles(self.R * scale)

    def among(self, columns: TargetColumns) -> "Triangles":
        """Return those of all targets: zero in the rows and columns of constant ones."""
        return Triangles(columns.with_zeros(self.R))

    def dense(self, columns=slice(None)) -> np.ndarray:
        R = self.R[..., columns]
        return R.mT @ R

    def std(self) -> np.ndarray:
        return np.linalg.norm(self.R, axis=-2)

    def value(self, call: str, dtype, mean: np.ndarray) -> Gram:
        """In the dtype, if it holds the covariances, and the means (n, d) finely enough."""
        eta = np.sum(self.R**2, axis=(-2, -1))
        diagonal = np.abs(self.R.diagonal(axis1=-2, axis2=-1)) / np.sqrt(eta)[:, None]
        check_range(call, dtype, eta, diagonal, mean)
        # 1 / deviation^2 is the diagonal of the inverse of R'R
        check_rounding(
            call, dtype, mean, np.linalg.norm(np.linalg.inv(self.R), axis=-1)
        )
        return Gram(jnp.asarray(self.R, dtype), upper=True)


class Full(Form):
    """Averaged by their logarithms: arithmetic means cover too much.

    `shape_` (d, d) is L, with LL' / d the covariance of all residuals; `contrast_` c moves log V
    towards its centre.
    """

    together = False

    def shape(self, residuals: np.ndarray, weight: np.ndarray) -> np.ndarray:
        return covariance_calibration.shape(residuals, weight)

    def standard(self, shape: np.ndarray, residuals: np.ndarray) -> np.ndarray:
        return np.linalg.solve(shape, residuals.T).T

    def builder(
        self, regressor, p: int, e: np.ndarray, weight
    ) -> tuple[Callable, None]:
        head, sizes = (
            FAMILIES[regressor.family],
            (regressor.hidden_dims, regressor.hidden_features),
        )
        return Covariance(
            head, regressor.network, p, e.shape[1], *map(tuple, sizes)
        ), None

    def corrections(
        self, family, models, inputs, e, apart, weight, parts
    ) -> tuple[float, float]:
        log_V, *tail = (
            held(x, parts) for x in predictions(self.learnt, models, inputs)
        )
        contrast = covariance_calibration.contrast(family, log_V, tail, e, weight)
        log_V = drawn_in(log_V, contrast)
        return contrast, covariance_calibration.gain(
            log_V, e, apart, weight, 2 * len(parts)
        )

    @staticmethod
    def learnt(model, x):
        """log V and the tail, for one x."""
        p = model(x)
        return p.covariance.logm(), *p.tail

    def assembled(
        self, learnt, shape, contrast, gain, family
    ) -> tuple[Triangles, list[np.ndarray]]:
        log_V, *tails = learnt
        log_V = drawn_in(log_V.mean(axis=1).astype(np.float64), contrast)
        values, vectors = np.linalg.eigh(log_V)  # of the log-Euclidean mean over models
        root = np.exp((values + np.log(gain)) / 2)[..., None] * vectors.mT
        R: Any = np.linalg.qr(root @ shape.T, mode="r")
        return Triangles(R), list(family.average_tails(*tails, axis=1))

    def results(self, *, text: bool) -> dict[str, Callable]:
        return {"covariance": Triangles.dense}

    def check(self, shape, contrast, d: int) -> tuple[tuple, ...]:
        if not model_files.is_finite(shape, (d, d)):
            raise ValueError(f"its shape_ is not a matrix ({d}, {d}) of finite numbers")
        model_files.check_number(contrast, "contrast_", 0, 1)
        return ((d, d),)


def drawn_in(log_V: np.ndarray, contrast: float) -> np.ndarray:
    """log V, moved towards log(I / d), that of the covariance of all rows."""
    d = log_V.shape[-1]
    centre = -np.log(d) * np.eye(d)
    return centre + contrast * (log_V - centre)
