"""The report about a `MatrixVAE`."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from mmlp.reporting.baselines import (
    MIN_ROWS as MIN_ROWS_OF_BASELINES,
)
from mmlp.reporting.baselines import (
    ConstantTargetError,
    evaluate_baseline,
    fit_constant,
    fit_diagonal,
)
from mmlp.reporting.common_sections import (
    build_score_rows,
    build_training_section,
    compare_with_baseline,
    mean_over_rows,
)
from mmlp.reporting.content import Figure, Section
from mmlp.reporting.figures import (
    MAX_SAMPLES,
    draw_data_and_samples,
    draw_histograms,
    draw_image,
    draw_latent_variables,
)
from mmlp.reporting.number_format import format_observed, format_to_deviation
from mmlp.reporting.rows import Rows
from mmlp.reporting.tables import Cell, Row, Table
from mmlp.reporting.worst_rows import find_unusual_rows

MAX_ROWS = 2000
MAX_PAIRS = 3
MAX_COLUMNS_OF_PAIRS = 12
MAX_COLUMNS_IN_TABLE = 30

BASELINES = {"one Gaussian": fit_constant, "diagonal Gaussian": fit_diagonal}
BASELINE_WORDS = {
    "one Gaussian": "one Gaussian with a full covariance",
    "diagonal Gaussian": "one Gaussian with a diagonal covariance",
}


def max_rows(model: Any, rows: Rows) -> int:
    """Return how many rows a report takes."""
    return MAX_ROWS


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
    model : fitted MatrixVAE
    rows : Rows
        Of numbers, without targets.
    train : Rows, optional
        Rows that the baselines are fitted to.
    about_rows : str
        Says which rows these are.
    progress : callable
        Called with each step.
    """
    X = np.asarray(rows.X, float)
    progress("densities")
    log_density = np.asarray(model.score_samples(rows.X), float)
    scores = build_scores_section(log_density, X, train, about_rows, progress)

    progress("samples")
    n_samples = max(len(X), MAX_SAMPLES)
    samples = np.asarray(model.sample(n_samples, random_state=0), float)
    samples_section = build_samples_section(X, samples, rows.inputs)

    progress("latent variables")
    latent = build_latent_section(model.transform(rows.X), log_density)
    return [
        scores,
        samples_section,
        latent,
        build_unusual_section(log_density, X, rows),
        build_training_section(model),
    ]


def build_scores_section(
    log_density: np.ndarray,
    X: np.ndarray,
    train: Rows | None,
    about_rows: str,
    progress: Callable[[str], None],
) -> Section:
    """Build the table of log densities beside those of Gaussians."""
    section = Section("scores", "Scores", about_rows)
    training_rows = None
    n_training_rows = len(X)
    if train is not None:
        X_train = np.asarray(train.X, float)
        training_rows = (X_train, X_train)
        n_training_rows = len(train)

    cells = {"this model": [mean_over_rows(log_density)]}
    if n_training_rows < MIN_ROWS_OF_BASELINES:
        section.notes.append(f"Baselines need {MIN_ROWS_OF_BASELINES} training rows.")
    else:
        try:
            for name, fit in BASELINES.items():
                progress(name)
                errors = evaluate_baseline(fit, X, X, training_rows)
                density = np.asarray(errors.distribution.log_prob(errors.values), float)
                section.claims.append(
                    compare_with_baseline(
                        log_density - density,
                        baseline=BASELINE_WORDS[name],
                        score="log density",
                        unit=" nats",
                    )
                )
                cells[name] = [mean_over_rows(density)]
        except ConstantTargetError:
            section.notes.append(
                "A column is constant, so there is no Gaussian to compare with."
            )

    section.parts.append(
        Table(
            title="Log density",
            columns=["", "log density"],
            rows=build_score_rows(cells, compared_columns=(0,), largest=True),
            note=(
                "Mean over rows ± its standard error, in nats: larger is better. That "
                "of this model is a lower bound, by importance sampling."
            ),
        )
    )
    return section


def build_samples_section(
    X: np.ndarray, samples: np.ndarray, names: tuple[str, ...]
) -> Section:
    """Build the figures and the table of samples beside the data."""
    section = Section("samples", "Samples against the data")
    section.about = (
        "Samples from the model beside the rows of the table: ideally they look alike."
    )
    n_columns = X.shape[1]
    images = []
    if n_columns == 1:
        images.append(
            draw_image(
                lambda ax: draw_histograms(ax, X[:, 0], samples[:, 0], names[0]),
                f"Histograms of {names[0]}, data and samples",
            )
        )
    else:
        for i, j in find_correlated_pairs(X):
            in_data = _correlation(X[:, i], X[:, j])
            in_samples = _correlation(samples[:, i], samples[:, j])
            images.append(
                draw_image(
                    lambda ax, pair=(i, j): draw_data_and_samples(
                        ax, X, samples, columns=pair, names=names
                    ),
                    f"{names[i]} and {names[j]}: correlation {in_data:.2f} in the "
                    f"data, {in_samples:.2f} in samples",
                )
            )
    caption = f"At most {MAX_SAMPLES} rows of each."
    if n_columns > 2:
        caption += " The pairs of columns with the strongest correlations."
    section.parts.append(Figure(images, caption))
    section.parts.append(_moments_table(X, samples, names))
    return section


def find_correlated_pairs(X: np.ndarray) -> list[tuple[int, int]]:
    """Return the pairs of columns with the strongest correlations.

    Only columns that vary are considered, and an even choice of them if they are many.
    """
    varying = np.flatnonzero(X.std(axis=0) > 0)
    if len(varying) < 2:
        return [(0, 1)]
    positions = np.linspace(0, len(varying) - 1, MAX_COLUMNS_OF_PAIRS).astype(int)
    columns = varying[np.unique(positions)]

    strengths = np.ones((len(columns), len(columns)))
    if len(X) > 2:
        strengths = np.abs(np.corrcoef(X[:, columns].T))
    pairs = itertools.combinations(range(len(columns)), 2)
    strongest = sorted(pairs, key=lambda pair: -strengths[pair])[:MAX_PAIRS]
    return [(int(columns[i]), int(columns[j])) for i, j in strongest]


def build_latent_section(latent: np.ndarray, log_density: np.ndarray) -> Section:
    """Build the figure of the latent variables (n_rows, n_latent)."""
    section = Section("latent", "Latent variables")
    n, n_latent = latent.shape
    spans = [f"{values.mean():.2f} ± {values.std():.2f}" for values in latent.T[:2]]
    image = draw_image(
        lambda ax: draw_latent_variables(ax, latent, log_density),
        f"Latent variables: {', '.join(spans)} (mean ± deviation)",
    )
    caption = (
        "The posterior mean of the latent variables for each row; their prior is "
        "standard normal."
    )
    if n_latent > 2:
        caption += f" The first two of {n_latent}."
    if n_latent > 1 and n > MAX_SAMPLES:
        caption += f" {MAX_SAMPLES} of {n:,} rows."
    section.parts.append(Figure([image], caption))
    return section


def build_unusual_section(
    log_density: np.ndarray, X: np.ndarray, rows: Rows
) -> Section:
    """Build the table of the rows of the lowest density."""
    section = Section("worst", "The most unusual rows")
    section.about = (
        "The rows with the lowest density, and in each the column that is farthest "
        "from its mean over all rows: errors in the data, or unusual cases."
    )
    table_rows = []
    for unusual in find_unusual_rows(log_density, X):
        text = f"{unusual.value:.4g}"
        if unusual.deviation > 0:
            text = format_observed(unusual.value, unusual.mean, unusual.deviation)
        cells = [
            Cell(round(unusual.log_density, 2)),
            Cell(f"{rows.inputs[unusual.column]}: {text}"),
        ]
        table_rows.append(Row(rows.row_name(unusual.row), cells))
    section.parts.append(
        Table(
            title="Lowest density first",
            columns=["row", "log density", "farthest column"],
            rows=table_rows,
            note="The value, and in brackets the column's mean ± standard deviation.",
        )
    )
    return section


def _moments_table(X: np.ndarray, samples: np.ndarray, names: tuple[str, ...]) -> Table:
    """Return means and standard deviations of data and samples."""
    table_rows = []
    for j, name in enumerate(names[:MAX_COLUMNS_IN_TABLE]):
        data_deviation = float(np.std(X[:, j]))
        moments = [
            float(np.mean(X[:, j])),
            float(np.mean(samples[:, j])),
            data_deviation,
            float(np.std(samples[:, j])),
        ]
        texts = format_to_deviation(moments, data_deviation)
        table_rows.append(Row(name, [Cell(text) for text in texts]))
    note = ""
    if len(names) > MAX_COLUMNS_IN_TABLE:
        note = f"The first {MAX_COLUMNS_IN_TABLE} of {len(names)} columns."
    return Table(
        title="Moments",
        columns=["column", "mean, data", "samples", "deviation, data", "samples"],
        rows=table_rows,
        note=note,
    )


def _correlation(x: np.ndarray, y: np.ndarray) -> float:
    """Return the correlation of two columns, zero if one of them does not vary."""
    x = x - x.mean()
    y = y - y.mean()
    size = np.sqrt(np.sum(x**2) * np.sum(y**2))
    return float(np.sum(x * y) / size) if size > 0 else 0.0
