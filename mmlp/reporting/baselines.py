"""Simple models on the same rows, to compare a model with.

A baseline is evaluated on rows that it was not fitted to. It is fitted to the training
rows if these are given, and otherwise to the rows of the report, in five-fold
cross-validation. Covariances are shrunk as in Ledoit and Wolf (2004); with many targets
they are a diagonal plus the principal loadings.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from sklearn.covariance import ledoit_wolf
from sklearn.linear_model import Ridge, RidgeCV
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.neighbors import KNeighborsRegressor
from sklearn.utils.extmath import randomized_svd

from mmlp.distributions import Elliptical, TraceOneGaussian
from mmlp.spd import SPD, Gram, LowRankGram

N_FOLDS = 5
MIN_ROWS = 20
MAX_TARGETS_OF_DENSE_COVARIANCE = 200
MAX_LOADINGS = 20
RIDGE_PENALTIES = np.logspace(-3, 5, 9)

N_NEIGHBOURS = 5
NEAREST_NEIGHBOURS = f"{N_NEIGHBOURS} nearest neighbours"
MEAN_MATRIX = "mean"
LOG_EUCLIDEAN_MEAN = "log-Euclidean mean"


@dataclasses.dataclass(frozen=True)
class PredictionErrors:
    """Errors of predicted means, and their predictive distribution.

    Attributes
    ----------
    values : array of shape (n_rows, n_targets)
    distribution : Elliptical
        Of batch shape (n_rows,), with location zero.
    """

    values: np.ndarray
    distribution: Elliptical


@dataclasses.dataclass(frozen=True)
class DenseCovariance:
    """One covariance for all rows, a matrix of shape (n_targets, n_targets)."""

    matrix: np.ndarray


@dataclasses.dataclass(frozen=True)
class LowRankCovariance:
    """One covariance for all rows, diag(scale^2) + U'U.

    Attributes
    ----------
    scale : array of shape (n_targets,)
    U : array of shape (n_loadings, n_targets)
    """

    scale: np.ndarray
    U: np.ndarray


ErrorCovariance = DenseCovariance | LowRankCovariance


@dataclasses.dataclass(frozen=True)
class FittedBaseline:
    """A function from inputs to predicted means, and the covariance of its errors."""

    predict: Callable[[np.ndarray], np.ndarray]
    covariance: ErrorCovariance


class ConstantTargetError(ValueError):
    """A target does not vary, or is predicted exactly, so that it has no density."""


FitBaseline = Callable[[np.ndarray, np.ndarray], FittedBaseline]
TrainingRows = tuple[np.ndarray, np.ndarray]


def fit_constant(x: np.ndarray, y: np.ndarray) -> FittedBaseline:
    """Predict the mean and the covariance of y, whatever the inputs are."""
    mean = y.mean(axis=0)
    return FittedBaseline(_predict_constant(mean), estimate_covariance(y - mean))


def fit_diagonal(x: np.ndarray, y: np.ndarray) -> FittedBaseline:
    """Predict the mean and the variances of y, whatever the inputs are."""
    no_loadings = np.zeros((0, y.shape[1]))
    covariance = LowRankCovariance(y.std(axis=0), U=no_loadings)
    return FittedBaseline(_predict_constant(y.mean(axis=0)), covariance)


def fit_linear(x: np.ndarray, y: np.ndarray) -> FittedBaseline:
    """Fit a ridge regression and one covariance of its out-of-fold residuals.

    The penalty is chosen by cross-validation.
    """
    scale = y.std(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    search: Any = RidgeCV(RIDGE_PENALTIES).fit(x, y / scale)
    ridge = Ridge(search.alpha_)

    out_of_fold = cross_val_predict(ridge, x, y / scale, cv=KFold(N_FOLDS))
    residuals = y - scale * np.asarray(out_of_fold).reshape(y.shape)
    covariance = estimate_covariance(residuals - residuals.mean(axis=0))

    ridge.fit(x, y / scale)

    def predict(x: np.ndarray) -> np.ndarray:
        return ridge.predict(x).reshape(len(x), -1) * scale

    return FittedBaseline(predict, covariance)


def estimate_covariance(errors: np.ndarray) -> ErrorCovariance:
    """Estimate the covariance of centred errors (n_rows, n_targets).

    Raises
    ------
    ConstantTargetError
        If the errors of a target are all zero.
    """
    n, d = errors.shape
    scale = errors.std(axis=0)
    if not np.all(scale > 0):
        raise ConstantTargetError

    z = errors / scale
    if d <= MAX_TARGETS_OF_DENSE_COVARIANCE:
        correlation = ledoit_wolf(z, assume_centered=True)[0]
        return DenseCovariance(scale * correlation * scale[:, None])

    _, singular_values, V = randomized_svd(z, min(MAX_LOADINGS, n // 4), random_state=0)
    U = singular_values[:, None] * V / np.sqrt(n)
    return LowRankCovariance(scale * np.sqrt(1 - np.sum(U**2, axis=0)), scale * U)


def evaluate_baseline(
    fit: FitBaseline,
    x: np.ndarray,
    y: np.ndarray,
    train: TrainingRows | None = None,
) -> PredictionErrors:
    """Return the errors of a baseline on rows that it was not fitted to.

    Parameters
    ----------
    fit : callable
        Such as `fit_linear`.
    x : array of shape (n_rows, n_features)
        Inputs as numbers.
    y : array of shape (n_rows, n_targets)
    train : pair of arrays, optional
        Training rows (x, y). By default the rows are split into five folds.

    Returns
    -------
    PredictionErrors
    """
    errors = np.empty(y.shape)
    fold_of_row = np.empty(len(y), int)
    covariances = []
    for fold, (training_rows, rows) in enumerate(_split(x, y, train)):
        fitted = fit(*training_rows)
        errors[rows] = y[rows] - fitted.predict(x[rows])
        fold_of_row[rows] = fold
        covariances.append(fitted.covariance)

    distribution = TraceOneGaussian.from_moments(
        jnp.zeros(errors.shape), _covariance_of_rows(covariances, fold_of_row)
    )
    return PredictionErrors(errors, distribution)


def predict_matrices(
    x: np.ndarray, Y: np.ndarray, train: TrainingRows | None = None
) -> dict[str, np.ndarray]:
    """Predict matrices of rows by simple means of the matrices of other rows.

    Parameters
    ----------
    x : array of shape (n_rows, n_features)
    Y : array of shape (n_rows, d, d)
    train : pair of arrays, optional
        Training rows (x, Y). By default the rows are split into five folds.

    Returns
    -------
    dict of arrays of shape (n_rows, d, d)
        By `NEAREST_NEIGHBOURS`, `MEAN_MATRIX` and `LOG_EUCLIDEAN_MEAN`.
    """
    names = (NEAREST_NEIGHBOURS, MEAN_MATRIX, LOG_EUCLIDEAN_MEAN)
    predictions = {name: np.empty(Y.shape) for name in names}
    for (x_train, Y_train), rows in _split(x, Y, train):
        flat = Y_train.reshape(len(Y_train), -1)
        neighbours = KNeighborsRegressor(N_NEIGHBOURS).fit(x_train, flat)
        nearest = neighbours.predict(x[rows]).reshape(-1, *Y.shape[1:])
        mean_of_logs = _apply_to_eigenvalues(np.log, Y_train).mean(axis=0)

        predictions[NEAREST_NEIGHBOURS][rows] = nearest
        predictions[MEAN_MATRIX][rows] = Y_train.mean(axis=0)
        predictions[LOG_EUCLIDEAN_MEAN][rows] = _apply_to_eigenvalues(
            np.exp, mean_of_logs
        )
    return predictions


def predict_from_neighbours(
    X: np.ndarray, T: np.ndarray, X_new: np.ndarray, k: int
) -> np.ndarray:
    """Return the log-Euclidean mean of the matrices of the k nearest samples.

    Parameters
    ----------
    X : array of shape (n, p)
        Inputs of the samples.
    T : array of shape (n, m, d)
        Factors of their matrices A = T'T.
    X_new : array of shape (n_new, p)
    k : int

    Returns
    -------
    array of shape (n_new, d, d)
        Factors of matrices of trace one.
    """
    distances = np.sum((X_new[:, None] - X) ** 2, axis=-1)
    nearest = np.argsort(distances, axis=1)[:, :k]
    return log_euclidean_mean(T[nearest])


def log_euclidean_mean(T: np.ndarray) -> np.ndarray:
    """Return a factor of exp(mean of log A), scaled to trace one.

    See Arsigny et al. (2006).

    Parameters
    ----------
    T : array of shape (..., k, m, d)
        Factors of k matrices A = T'T.

    Returns
    -------
    array of shape (..., d, d)
    """
    _, singular_values, Vt = np.linalg.svd(T, full_matrices=False)
    logs = np.swapaxes(Vt, -1, -2) @ (2 * np.log(singular_values)[..., None] * Vt)
    w, V = np.linalg.eigh(np.mean(logs, axis=-3))

    # The largest eigenvalue is made one, so that nothing overflows.
    root = np.exp((w - w[..., -1:]) / 2)[..., None] * np.swapaxes(V, -1, -2)
    return root / np.linalg.norm(root, axis=(-2, -1), keepdims=True)


def _split(
    x: np.ndarray, y: np.ndarray, train: TrainingRows | None
) -> list[tuple[TrainingRows, np.ndarray]]:
    """Return pairs of training rows and the indices of rows to evaluate."""
    if train is not None:
        return [(train, np.arange(len(y)))]
    folds = KFold(N_FOLDS, shuffle=True, random_state=0).split(x)
    return [((x[others], y[others]), rows) for others, rows in folds]


def _predict_constant(mean: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Return a function that predicts the same mean for all rows."""
    return lambda x: np.broadcast_to(mean, (len(x), len(mean)))


def _covariance_of_rows(
    covariances: Sequence[ErrorCovariance], fold_of_row: np.ndarray
) -> SPD:
    """Return the covariance of each row: that of the baseline of its fold."""
    dense = [c.matrix for c in covariances if isinstance(c, DenseCovariance)]
    if dense:
        factors = Gram.from_dense(np.stack(dense)).factor
        return Gram(jnp.asarray(factors)[fold_of_row], upper=True)
    low_rank = [c for c in covariances if isinstance(c, LowRankCovariance)]
    scale = np.stack([covariance.scale for covariance in low_rank])
    U = np.stack([covariance.U for covariance in low_rank])
    return LowRankGram(jnp.asarray(scale[fold_of_row]), jnp.asarray(U[fold_of_row]))


def _apply_to_eigenvalues(
    function: Callable[[np.ndarray], np.ndarray], Y: np.ndarray
) -> np.ndarray:
    """Return V f(Lambda) V' of symmetric matrices V Lambda V'."""
    values, V = np.linalg.eigh(Y)
    return (V * function(values)[..., None, :]) @ np.swapaxes(V, -1, -2)
