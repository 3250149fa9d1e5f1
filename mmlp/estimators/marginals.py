"""What `MultivariateRegressor` says of each target alone: means, deviations, intervals, quantiles.

A marginal of a power exponential in several dimensions is of another law than one in one dimension:
`mmlp.distributions.marginals` knows it.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mmlp.distributions import marginals
from mmlp.estimators.chunks import by_pieces, check_memory
from mmlp.estimators.cross_fitting import Scaling
from mmlp.estimators.target_columns import TargetColumns
from mmlp.spd.arguments import check_columns


class Marginals:
    """The predictions of a regressor that knows the mean and the spread of standardised rows."""

    target_: Scaling  # of the targets that vary
    constant_targets_: np.ndarray  # (m,): columns of the others
    constant_values_: np.ndarray  # (m,)
    is_vector_: bool
    n_targets: int
    _family: Any  # of distributions
    _standard: Any  # X -> rows in standard units
    _means: Any  # these -> the means of all targets
    _target_columns: TargetColumns  # which of the targets are constant
    _spread: Any  # these -> their covariance and its tail
    _covariance: Any  # these -> the covariance of the targets

    def predict(self, X, return_std: bool = False, return_cov: bool = False) -> Any:
        """The mean, (n, d), or (n,) if y was.

        With `return_std` a pair of it and the standard deviations, of the same shape, with
        `return_cov` a pair of it and the covariances, as `predict_covariance` gives them.
        """
        if return_std and return_cov:
            raise ValueError(
                f"`{type(self).__name__}.predict(return_std=True, return_cov=True)`: choose one "
                "of them; the variances are the diagonals of the covariances."
            )
        x = self._standard(X)  # first: it refuses an estimator that is not fitted
        if return_std:
            return self._mean_and_std(x)
        mean = self._alone(by_pieces(self._means, x))
        return (mean, self._covariances(x, "predict", None)) if return_cov else mean

    def predict_covariance(self, X, columns=None) -> np.ndarray:
        """The covariance of each row, (n, d, d), or that of some columns of y alone, (n, k, k)."""
        return self._covariances(self._standard(X), "predict_covariance", columns)

    def predict_interval(self, X, level: float = 0.9) -> np.ndarray:
        """The central interval of each target, (n, d, 2), or (n, 2) if y was (n,).

        It has the probability `level` for each target alone, not for all of them at once.
        """
        if np.ndim(level) or not 0 < level < 1:
            name = f"{type(self).__name__}.predict_interval(level=...)"
            raise ValueError(
                f"`{name}` must be a number between 0 and 1, got {level!r:.80}."
            )
        return self.predict_quantiles(X, np.array([1 - level, 1 + level]) / 2)

    def predict_quantiles(self, X, levels: ArrayLike) -> np.ndarray:
        """The quantiles of each target alone, (n, d, q), or (n, q) if y was (n,); q levels."""
        given = np.asarray(levels, np.float64)
        if given.ndim != 1 or not len(given) or not np.all((given > 0) & (given < 1)):
            name = f"{type(self).__name__}.predict_quantiles(levels=...)"
            wanted = "must be numbers between 0 and 1, such as [0.1, 0.5, 0.9]"
            raise ValueError(f"`{name}` {wanted}, got {levels!r:.80}.")
        x = self._standard(X)
        mean, std, *tail = self._moments(x)
        law = self._family.radius_law(len(self.target_.scale), *tail)
        z = np.broadcast_to(
            marginals.quantile(law, given[:, None]), (len(given), len(x))
        )
        return self._alone(mean[..., None] + std[..., None] * z.T[:, None])

    def _mean_and_std(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        mean, std, *_ = self._moments(x)
        return self._alone(mean), self._alone(std)

    def _moments(self, x: np.ndarray) -> tuple:
        """Means and deviations (n, d) of the targets, and the tail (n,)."""

        def piece(x):
            V, *tail = self._spread(x)
            std = V.std() * self.target_.scale
            return self._means(x), self._target_columns.with_zeros(std), *tail

        return by_pieces(piece, x)

    def _covariances(self, x: np.ndarray, method: str, columns) -> np.ndarray:
        name, d = f"{type(self).__name__}.{method}", self.n_targets
        some = (
            slice(None)
            if columns is None
            else check_columns(columns, d, f"{name}(columns=...)")
        )
        check_memory(name, len(x), len(np.arange(d)[some]))
        return by_pieces(lambda rows: self._covariance(rows).dense(some), x)

    def _alone(self, values: np.ndarray) -> np.ndarray:
        """Without the axis of targets, if y had none."""
        return values[:, 0] if self.is_vector_ else values
