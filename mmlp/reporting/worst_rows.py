"""The rows that a model predicts worst, or finds most unusual."""

import dataclasses

import numpy as np

from mmlp.reporting.scores import Scores
from mmlp.reporting.spread import predicted_deviations

MAX_WORST_ROWS = 10


@dataclasses.dataclass(frozen=True)
class LowDensityRow:
    """A row to which a regression gives a low density.

    Attributes
    ----------
    row : int
    log_density : float
    distance : float
        Of the observation from the predicted mean, in standard deviations.
    probability : float
        Of a row at least as far away.
    farthest_target : int
        The target with the largest error in standard deviations.
    """

    row: int
    log_density: float
    distance: float
    probability: float
    farthest_target: int


@dataclasses.dataclass(frozen=True)
class MatrixSummary:
    """Trace and extreme eigenvalues of a matrix."""

    trace: float
    largest_eigenvalue: float
    smallest_eigenvalue: float


@dataclasses.dataclass(frozen=True)
class DistantMatrix:
    """A row whose matrix is far from its prediction."""

    row: int
    divergence: float
    observed: MatrixSummary
    predicted: MatrixSummary


@dataclasses.dataclass(frozen=True)
class UnusualRow:
    """A row of low density, and its column that is farthest from the mean of all rows.

    Attributes
    ----------
    row : int
    log_density : float
    column : int
    value : float
    mean, deviation : float
        Of the column.
    """

    row: int
    log_density: float
    column: int
    value: float
    mean: float
    deviation: float


def find_low_density_rows(scores: Scores) -> list[LowDensityRow]:
    """Return the rows of the lowest density, lowest first."""
    distribution = scores.errors.distribution
    values = scores.errors.values
    typed_values = np.asarray(values, distribution.loc.dtype)
    factor = np.sqrt(np.asarray(distribution.variance_factor(), float))
    distances = np.asarray(distribution.mahalanobis(typed_values), float) / factor
    errors_in_deviations = np.abs(values / predicted_deviations(distribution))

    order = np.argsort(-scores.negative_log_density, kind="stable")
    distances = np.broadcast_to(distances, len(values))
    return [
        LowDensityRow(
            row=int(i),
            log_density=float(-scores.negative_log_density[i]),
            distance=float(distances[i]),
            probability=float(1 - scores.pit[i]),
            farthest_target=int(np.argmax(errors_in_deviations[i])),
        )
        for i in order[:MAX_WORST_ROWS]
    ]


def find_distant_matrices(
    divergences: np.ndarray, observed: np.ndarray, predicted: np.ndarray
) -> list[DistantMatrix]:
    """Return the rows with the largest divergence, largest first.

    Parameters
    ----------
    divergences : array of shape (n_rows,)
    observed, predicted : arrays of shape (n_rows, d, d)
    """
    order = np.argsort(-divergences, kind="stable")
    return [
        DistantMatrix(
            row=int(i),
            divergence=float(divergences[i]),
            observed=_summarize_matrix(observed[i]),
            predicted=_summarize_matrix(predicted[i]),
        )
        for i in order[:MAX_WORST_ROWS]
    ]


def find_unusual_rows(log_density: np.ndarray, X: np.ndarray) -> list[UnusualRow]:
    """Return the rows of the lowest density, lowest first.

    Parameters
    ----------
    log_density : array of shape (n_rows,)
    X : array of shape (n_rows, n_columns)
    """
    mean = X.mean(axis=0)
    deviation = X.std(axis=0)
    scale = np.where(deviation > 0, deviation, np.inf)

    unusual = []
    for i in np.argsort(log_density, kind="stable")[:MAX_WORST_ROWS]:
        column = int(np.argmax(np.abs(X[i] - mean) / scale))
        unusual.append(
            UnusualRow(
                row=int(i),
                log_density=float(log_density[i]),
                column=column,
                value=float(X[i, column]),
                mean=float(mean[column]),
                deviation=float(deviation[column]),
            )
        )
    return unusual


def _summarize_matrix(A: np.ndarray) -> MatrixSummary:
    eigenvalues = np.linalg.eigvalsh(A)
    return MatrixSummary(
        trace=float(eigenvalues.sum()),
        largest_eigenvalue=float(eigenvalues[-1]),
        smallest_eigenvalue=float(eigenvalues[0]),
    )
