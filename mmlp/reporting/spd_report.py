"""The report about an `SPDRegressor`."""

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.metrics import r2_score

from mmlp import divergences
from mmlp.reporting.baselines import (
    LOG_EUCLIDEAN_MEAN,
    MEAN_MATRIX,
    N_NEIGHBOURS,
    NEAREST_NEIGHBOURS,
    predict_matrices,
)
from mmlp.reporting.baselines import (
    MIN_ROWS as MIN_ROWS_OF_BASELINES,
)
from mmlp.reporting.common_sections import (
    build_importance_section,
    build_score_rows,
    build_training_section,
    compare_with_baseline,
    mean_over_rows,
    r2_cell,
)
from mmlp.reporting.content import Figure, Image, Section
from mmlp.reporting.figures import (
    MAX_POINTS,
    draw_eigenvalues,
    draw_image,
    draw_matrix,
)
from mmlp.reporting.importance import ScoreRows, measure_importance
from mmlp.reporting.rows import Rows
from mmlp.reporting.tables import Cell, Row, Table
from mmlp.reporting.worst_rows import find_distant_matrices
from mmlp.spd import Gram

MAX_NUMBERS_OF_MATRICES = 2**23
MAX_ROWS = 5000
MIN_ROWS = 100

MAX_EIGENVALUES_DRAWN = 6
MAX_MATRICES_DRAWN = 3

BASELINE_WORDS = {
    NEAREST_NEIGHBOURS: f"the mean matrix of the {N_NEIGHBOURS} nearest rows",
    MEAN_MATRIX: "the mean matrix",
    LOG_EUCLIDEAN_MEAN: "the log-Euclidean mean matrix",
}


def max_rows(model: Any, rows: Rows) -> int:
    """Return how many rows a report takes, so that their matrices fit in memory."""
    return int(np.clip(MAX_NUMBERS_OF_MATRICES // rows.y[0].size, MIN_ROWS, MAX_ROWS))


def build_sections(
    model: Any,
    rows: Rows,
    train: Rows | None,
    about_rows: str,
    progress: Callable[[str], None],
) -> list[Section]:
    """Return all sections of the report.

    Parameters
    ----------
    model : fitted SPDRegressor
    rows : Rows
        With matrices y (n_rows, d, d).
    train : Rows, optional
        Rows that the baselines are fitted to.
    about_rows : str
        Says which rows these are.
    progress : callable
        Called with each step.
    """
    progress("predictions")
    predicted = model.predict(rows.X)
    divergence = measure_divergence(predicted, rows.y)
    scores = build_scores_section(
        divergence, predict_all(model, predicted, rows, train), rows.y, about_rows
    )
    observed = build_observed_section(predicted, rows)

    def make_score(sample: Rows) -> ScoreRows:
        return lambda X: -measure_divergence(model.predict(X), sample.y)[None]

    importance = build_importance_section(
        measure_importance(make_score, rows, progress),
        rows,
        score="von Neumann divergence",
    )
    return [
        scores,
        observed,
        importance,
        build_worst_section(divergence, predicted, rows),
        build_training_section(model),
    ]


def measure_divergence(predicted: np.ndarray, observed: np.ndarray) -> np.ndarray:
    """Return the von Neumann divergence of each row, shape (n_rows,)."""
    return np.asarray(
        divergences.von_neumann(Gram.from_dense(predicted), Gram.from_dense(observed)),
        float,
    )


def predict_all(
    model: Any, predicted: np.ndarray, rows: Rows, train: Rows | None
) -> dict[str, np.ndarray]:
    """Return the predictions of the model and, with enough rows, of the baselines."""
    predictions = {"this model": predicted}
    if len(rows if train is None else train) < MIN_ROWS_OF_BASELINES:
        return predictions
    x = np.asarray(model._standardize(rows.X), float)
    training_rows = None
    if train is not None:
        training_rows = (np.asarray(model._standardize(train.X), float), train.y)
    return predictions | predict_matrices(x, rows.y, training_rows)


def build_scores_section(
    divergence: np.ndarray,
    predictions: dict[str, np.ndarray],
    observed: np.ndarray,
    about_rows: str,
) -> Section:
    """Build the table of distances from the observed matrices.

    Parameters
    ----------
    divergence : array of shape (n_rows,)
        Of the model.
    predictions : dict of arrays of shape (n_rows, d, d)
        Of the model, first, and of the baselines.
    observed : array of shape (n_rows, d, d)
    about_rows : str
    """
    section = Section("scores", "Scores", about_rows)
    observed_values = Gram.from_dense(observed)
    cells = {}
    for name, predicted in predictions.items():
        von_neumann = divergence
        if name in BASELINE_WORDS:
            von_neumann = measure_divergence(predicted, observed)
            section.claims.append(
                compare_with_baseline(
                    von_neumann - divergence,
                    baseline=BASELINE_WORDS[name],
                    score="von Neumann divergence",
                )
            )
        log_euclidean = divergences.log_euclidean(
            Gram.from_dense(predicted), observed_values
        )
        cells[name] = [
            mean_over_rows(von_neumann),
            mean_over_rows(np.asarray(log_euclidean, float)),
            r2_cell(_matrix_r2(observed, predicted)),
        ]
    section.parts.append(
        Table(
            title="Distance from the observed matrices",
            columns=["", "von Neumann", "log-Euclidean", "R²"],
            rows=build_score_rows(cells, compared_columns=(0, 1)),
            note=(
                "Mean over rows ± its standard error: von Neumann divergence and "
                "squared log-Euclidean distance from the observed matrix, smaller is "
                "better; R² over all entries."
            ),
        )
    )
    if len(predictions) == 1:
        section.notes.append(f"Baselines need {MIN_ROWS_OF_BASELINES} training rows.")
    return section


def build_observed_section(predicted: np.ndarray, rows: Rows) -> Section:
    """Build the figures of eigenvalues, and of some matrices."""
    section = Section("observed", "Predicted and observed")
    section.parts.append(_eigenvalue_figure(predicted, rows.y))

    order = np.argsort(np.trace(rows.y, axis1=1, axis2=2), kind="stable")
    positions = np.linspace(0, len(order) - 1, MAX_MATRICES_DRAWN + 2).astype(int)
    for i in order[np.unique(positions)[1:-1]]:
        limit = max(np.abs(rows.y[i]).max(), np.abs(predicted[i]).max())
        images = [
            _matrix_image(rows.y[i], limit, "observed"),
            _matrix_image(predicted[i], limit, "predicted"),
        ]
        section.parts.append(Figure(images, f"Matrices of {rows.row_name(i)}."))
    return section


def build_worst_section(
    divergence: np.ndarray, predicted: np.ndarray, rows: Rows
) -> Section:
    """Build the table of the rows that are farthest from their predictions."""
    section = Section("worst", "The worst rows")
    section.about = "The rows whose matrix is farthest from the predicted one."
    table_rows = []
    for worst in find_distant_matrices(divergence, rows.y, predicted):
        texts = [
            f"{observed:.3g} ({predicted:.3g})"
            for observed, predicted in (
                (worst.observed.trace, worst.predicted.trace),
                (worst.observed.largest_eigenvalue, worst.predicted.largest_eigenvalue),
                (
                    worst.observed.smallest_eigenvalue,
                    worst.predicted.smallest_eigenvalue,
                ),
            )
        ]
        cells = [Cell(f"{worst.divergence:.3g}"), *(Cell(text) for text in texts)]
        table_rows.append(Row(rows.row_name(worst.row), cells))
    section.parts.append(
        Table(
            title="Farthest first",
            columns=[
                "row",
                "von Neumann",
                "trace",
                "largest eigenvalue",
                "smallest eigenvalue",
            ],
            rows=table_rows,
            note="Observed (predicted).",
        )
    )
    return section


def _matrix_r2(observed: np.ndarray, predicted: np.ndarray) -> float | None:
    if len(observed) < 2:
        return None
    return r2_score(
        observed.reshape(len(observed), -1),
        predicted.reshape(len(predicted), -1),
        multioutput="variance_weighted",
    )


def _eigenvalue_figure(predicted: np.ndarray, observed: np.ndarray) -> Figure:
    """Return observed against predicted eigenvalues, the largest first."""
    n, d = observed.shape[:2]
    predicted_values = np.linalg.eigvalsh(predicted)[:, ::-1]
    observed_values = np.linalg.eigvalsh(observed)[:, ::-1]
    positions = np.linspace(0, d - 1, min(d, MAX_EIGENVALUES_DRAWN))
    shown = np.unique(positions.round().astype(int))

    images = []
    for k in shown:
        x = predicted_values[:, k]
        y = observed_values[:, k]
        correlation = 1
        if n > 2:
            correlation = np.corrcoef(np.log([x, y]))[0, 1]
        images.append(
            draw_image(
                lambda ax, x=x, y=y, k=k: draw_eigenvalues(
                    ax, x, y, f"eigenvalue {k + 1}"
                ),
                f"Eigenvalue {k + 1} of {d}, observed against predicted; correlation "
                f"{correlation:.2f} of logs",
            )
        )
    caption = (
        "Eigenvalues, the largest first: observed against predicted, ideally on the "
        "line."
    )
    if d > len(shown):
        caption += f" {len(shown)} of {d}, chosen evenly."
    if n > MAX_POINTS:
        caption += f" {MAX_POINTS:,} of {n:,} rows."
    return Figure(images, caption)


def _matrix_image(A: np.ndarray, limit: float, title: str) -> Image:
    entries = f"trace {np.trace(A):.3g}, entries {A.min():.3g} to {A.max():.3g}"
    return draw_image(
        lambda ax: draw_matrix(ax, A, limit, title),
        f"Heat map of the {title} matrix: {entries}",
    )
