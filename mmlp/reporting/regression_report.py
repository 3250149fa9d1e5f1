"""The report about a `MultivariateRegressor`."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.metrics import r2_score

from mmlp.metrics import calibration_error
from mmlp.reporting import calibration
from mmlp.reporting.baselines import PredictionErrors
from mmlp.reporting.calibration import (
    coverage_error,
    interval_coverage,
    is_miscalibrated,
    target_pit,
)
from mmlp.reporting.common_sections import (
    build_importance_section,
    build_score_rows,
    build_training_section,
    compare_with_baseline,
    mean_over_rows,
    r2_cell,
)
from mmlp.reporting.content import GOOD, NEUTRAL, Claim, Figure, Image, Section
from mmlp.reporting.figures import (
    MAX_INTERVALS,
    MAX_POINTS,
    N_HISTOGRAM_BARS,
    draw_along_column,
    draw_ellipses,
    draw_ellipsoid_calibration,
    draw_image,
    draw_intervals,
    draw_pit_histogram,
)
from mmlp.reporting.importance import (
    ImportanceResult,
    log_score_function,
    measure_importance,
)
from mmlp.reporting.number_format import format_observed, format_percent
from mmlp.reporting.rows import Column, Rows, join_names
from mmlp.reporting.scores import (
    BaselineScores,
    Scores,
    score_baselines,
    score_errors,
    select_rows,
)
from mmlp.reporting.spread import (
    MAX_LEVELS,
    average_by_bin,
    bin_column,
    predicted_correlations,
    predicted_deviations,
    strongest_pairs,
)
from mmlp.reporting.tables import Cell, Row, Table
from mmlp.reporting.worst_rows import find_low_density_rows

MAX_NUMBERS_OF_COVARIANCES = 2**25  # that are in memory at once
MAX_ROWS = 10_000
MIN_ROWS = 200

MAX_TARGETS_IN_TABLE = 30
MAX_TARGETS_DRAWN = 6
MAX_TARGET_COLUMNS = 3  # of the table of the worst rows
MAX_PAIRS_OF_ELLIPSES = 3
MAX_ELLIPSES = 12
MAX_PAIRS_ALONG_INPUT = 4
MAX_INPUTS_OF_SPREAD = 3
LEVELS = (0.5, 0.9)

BASELINE_WORDS = {
    "linear": "a linear model with one covariance",
    "constant": "one mean and one covariance for all rows",
}
NOTE_SPREAD_ALONE = (
    "By spread and correlation alone: only the predicted covariance sees the shuffled "
    "column; the mean is that of the intact row."
)


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """A regression on the rows of a report, without constant targets.

    Attributes
    ----------
    rows : Rows
    predicted : array of shape (n_rows, n_targets)
        Predicted means.
    scores : Scores
    baselines : BaselineScores
    constant_targets : list of str
        Names of the targets that are left out.
    """

    rows: Rows
    predicted: np.ndarray
    scores: Scores
    baselines: BaselineScores
    constant_targets: list[str]

    @property
    def errors(self) -> PredictionErrors:
        """Errors of the predicted means."""
        return self.scores.errors

    @property
    def n_targets(self) -> int:
        """Number of targets that vary."""
        return len(self.rows.targets)


def max_rows(model: Any, rows: Rows) -> int:
    """Return how many rows a report takes, so that their covariances fit in memory."""
    numbers_per_row = model.n_targets * (model.rank_ or model.n_targets)
    return int(
        np.clip(MAX_NUMBERS_OF_COVARIANCES // numbers_per_row, MIN_ROWS, MAX_ROWS)
    )


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
    model : fitted MultivariateRegressor
    rows : Rows
        With targets y (n_rows, n_targets).
    train : Rows, optional
        Rows that the baselines are fitted to.
    about_rows : str
        Says which rows these are.
    progress : callable
        Called with each step.
    """
    progress("predictions")
    evaluation = evaluate(model, rows, train, progress)
    sections = [build_scores_section(evaluation, about_rows)]

    progress("calibration")
    sections.append(build_calibration_section(evaluation))

    progress("predictions against observations")
    sections.append(build_observed_section(evaluation))

    result = measure_importance(
        functools.partial(log_score_function, model), evaluation.rows, progress
    )
    importance = build_importance_section(
        result,
        evaluation.rows,
        score="log score (nats per row)",
        score_names=("in total", "by spread and correlation alone"),
    )
    sections.append(importance)
    if result is not None:
        importance.notes.insert(0, NOTE_SPREAD_ALONE)
        sections.append(build_spread_section(evaluation, result, progress))

    sections.append(build_worst_section(evaluation))
    sections.append(build_training_section(model))
    return sections


def evaluate(
    model: Any, rows: Rows, train: Rows | None, progress: Callable[[str], None]
) -> Evaluation:
    """Predict the rows, and score the predictions and the baselines."""
    negative_log_density = -np.asarray(model.log_density(rows.X, rows.y), float)
    predicted = np.asarray(model.predict(rows.X), float).reshape(rows.y.shape)

    varying = model.varying_targets_
    constant = np.setdiff1d(np.arange(model.n_targets), varying)
    constant_targets = [rows.targets[column] for column in constant]
    predicted = predicted[:, varying]
    rows = rows.with_targets(varying)
    if train is not None:
        train = train.with_targets(varying)

    errors = PredictionErrors(rows.y - predicted, model._error_distribution(rows.X))
    return Evaluation(
        rows=rows,
        predicted=predicted,
        scores=score_errors(errors, negative_log_density),
        baselines=score_baselines(model, rows, train, progress),
        constant_targets=constant_targets,
    )


def build_scores_section(evaluation: Evaluation, about_rows: str) -> Section:
    """Build the tables of scores, and a verdict on each baseline."""
    section = Section("scores", "Scores", about_rows)
    scores = evaluation.scores
    baselines = evaluation.baselines
    for name, other in baselines.by_name.items():
        gains = other.negative_log_density - scores.negative_log_density
        section.claims.append(
            compare_with_baseline(
                gains, baseline=BASELINE_WORDS[name], score="log score", unit=" nats"
            )
        )

    models = {"this model": scores, **baselines.by_name}
    cells = {
        name: _score_cells(scores, evaluation.rows.y) for name, scores in models.items()
    }
    section.parts.append(
        Table(
            title="The whole distribution",
            columns=[
                "",
                "neg. log-likelihood",
                "energy score",
                "in 90 % ellipsoid",
                "R²",
            ],
            rows=build_score_rows(cells, compared_columns=(0, 1)),
            note=(
                "Mean over rows ± its standard error. Negative log-likelihood (nats "
                "per row) and energy score (in the targets' units): smaller is better. "
                "0.9 of the rows should lie in their 90 % ellipsoid. R² is that of the "
                "mean, averaged over targets. Linear: ridge regression and one "
                "covariance; constant: one mean and one covariance."
            ),
        )
    )
    section.parts.append(_rmse_table(models, evaluation.rows))

    if evaluation.constant_targets:
        names = join_names(evaluation.constant_targets)
        section.notes.append(
            f"Constant when the model was fitted, and left out of this page: {names}."
        )
    if baselines.reason:
        section.notes.append(baselines.reason)
    return section


def build_calibration_section(evaluation: Evaluation) -> Section:
    """Build the section on ellipsoids and intervals, with verdicts at 90 %."""
    section = Section("calibration", "Calibration")
    rows = evaluation.rows
    if len(rows) < calibration.MIN_ROWS:
        section.about = (
            f"This section needs at least {calibration.MIN_ROWS} rows; the table has "
            f"{len(rows)}."
        )
        return section

    section.about = (
        "If the predictive distributions are right, 90 % of the rows lie in their 90 % "
        "ellipsoid, and the probability integral transform (PIT) of each target is "
        "uniform."
    )
    ellipsoid_pit = evaluation.scores.pit
    pit = target_pit(evaluation.errors, min(evaluation.n_targets, MAX_TARGETS_IN_TABLE))
    section.claims.append(_judge_ellipsoids(ellipsoid_pit))
    section.claims.append(_judge_intervals(pit, rows))

    pits = {"this model": ellipsoid_pit}
    for name, scores in evaluation.baselines.by_name.items():
        pits[name] = scores.pit
    images = [
        draw_image(
            lambda ax: draw_ellipsoid_calibration(ax, pits),
            _describe_ellipsoids(ellipsoid_pit),
        )
    ]
    for j, name in enumerate(rows.targets[:MAX_TARGETS_DRAWN]):
        images.append(
            draw_image(
                lambda ax, j=j, name=name: draw_pit_histogram(ax, pit[j], name),
                f"Histogram of the PIT of {name}: {_describe_histogram(pit[j])}",
            )
        )
    caption = (
        "First: the share of rows in each ellipsoid against its probability, ideally "
        "on the diagonal; the grey band is chance. Then the PIT of targets, ideally "
        "flat: a U shape means intervals that are too narrow, a hump intervals that "
        "are too wide, a slope a biased mean."
    )
    caption += _first_targets(MAX_TARGETS_DRAWN, evaluation.n_targets)
    section.parts.append(Figure(images, caption))
    section.parts.append(_interval_table(pit, rows))
    return section


def build_observed_section(evaluation: Evaluation) -> Section:
    """Build the figures of predictions against observations, and of ellipses."""
    section = Section("observed", "Predicted and observed")
    rows = evaluation.rows
    distribution = evaluation.errors.distribution
    quantiles = np.broadcast_to(distribution.marginal_quantile(0.95), len(rows))
    half_widths = quantiles[:, None] * predicted_deviations(distribution)

    images = []
    for j, name in enumerate(rows.targets[:MAX_TARGETS_DRAWN]):
        inside = np.abs(evaluation.errors.values[:, j]) <= half_widths[:, j]
        share = format_percent(np.mean(inside))
        images.append(
            draw_image(
                lambda ax, j=j, name=name: draw_intervals(
                    ax,
                    evaluation.predicted[:, j],
                    rows.y[:, j],
                    half_widths[:, j],
                    name,
                ),
                f"{name}: observed against predicted, {share} in 90 % intervals",
            )
        )
    caption = (
        "Observed against predicted, with 90 % prediction intervals. Ideally the "
        "points scatter about the diagonal and one in ten lies outside its interval."
    )
    caption += _first_targets(MAX_TARGETS_DRAWN, evaluation.n_targets)
    if len(rows) > MAX_POINTS:
        caption += f" {MAX_POINTS:,} of {len(rows):,} rows, drawn at random."
    if len(rows) > MAX_INTERVALS:
        caption += f" {MAX_INTERVALS} rows have their interval drawn."
    section.parts.append(Figure(images, caption))
    if evaluation.n_targets > 1:
        section.parts.append(_ellipses_figure(evaluation))
    return section


def build_spread_section(
    evaluation: Evaluation, result: ImportanceResult, progress: Callable[[str], None]
) -> Section:
    """Build the figures of spread and correlation along the inputs that change them."""
    section = Section("spread", "How spread and correlation change")
    rows = evaluation.rows
    changing = [
        importance for importance in result.importances if importance.is_significant(1)
    ]
    changing.sort(key=lambda importance: -importance.means[1])
    if changing:
        names = [rows.inputs[importance.column] for importance in changing]
        text = f"Most with: {join_names(names)}."
        section.claims.append(Claim("change", text, tone=GOOD))
    else:
        text = "Spread and correlation are about the same everywhere."
        section.claims.append(Claim("no change seen", text, tone=NEUTRAL))
    section.about = (
        "Predicted standard deviations, as a multiple of their mean over all rows, and "
        "predicted correlations, along the inputs that change them most. Each point "
        "averages rows with similar values of that input; other inputs vary as they do "
        "in the table."
    )

    distribution = evaluation.errors.distribution
    deviations = predicted_deviations(distribution)[:, :MAX_TARGETS_DRAWN]
    relative_deviations = {
        name: deviations[:, j] / deviations[:, j].mean()
        for j, name in enumerate(rows.targets[:MAX_TARGETS_DRAWN])
    }
    correlations = {}
    if evaluation.n_targets > 1:
        for i, j in strongest_pairs(
            distribution, evaluation.n_targets, MAX_PAIRS_ALONG_INPUT
        ):
            pair = predicted_correlations(distribution, [i, j])
            correlations[f"{rows.targets[i]}, {rows.targets[j]}"] = pair[:, 0, 1]

    inputs = (changing or result.importances)[:MAX_INPUTS_OF_SPREAD]
    columns = [rows.column(importance.column) for importance in inputs]
    # All figures share one scale.
    highest = max(
        means.max()
        for column in columns
        for means in average_by_bin(bin_column(column), relative_deviations).values()
    )
    for column in columns:
        progress(f"spread along {column.name}")
        images = [
            _along_column_image(
                column,
                relative_deviations,
                label="spread / its mean",
                limits=(0, 1.05 * highest),
            )
        ]
        if correlations:
            images.append(
                _along_column_image(
                    column, correlations, label="correlation", limits=(-1.05, 1.05)
                )
            )
        caption = _caption_along_column(column, evaluation.n_targets)
        section.parts.append(Figure(images, caption))
    return section


def build_worst_section(evaluation: Evaluation) -> Section:
    """Build the table of the rows of the lowest density."""
    section = Section("worst", "The worst rows")
    section.about = (
        "The rows with the lowest predictive density: errors in the data, unusual "
        "cases, or regions where the model is wrong. The distance from the predicted "
        "mean is in standard deviations; the probability is that of a row at least as "
        "far away."
    )
    rows = evaluation.rows
    deviations = predicted_deviations(evaluation.errors.distribution)
    all_targets = evaluation.n_targets <= MAX_TARGET_COLUMNS

    def describe_target(i: int, j: int) -> str:
        return format_observed(
            rows.y[i, j], evaluation.predicted[i, j], deviations[i, j]
        )

    table_rows = []
    for worst in find_low_density_rows(evaluation.scores):
        if all_targets:
            texts = [describe_target(worst.row, j) for j in range(evaluation.n_targets)]
        else:
            farthest = worst.farthest_target
            text = describe_target(worst.row, farthest)
            texts = [f"{rows.targets[farthest]}: {text}"]
        cells = [
            Cell(round(worst.log_density, 2)),
            Cell(round(worst.distance, 2)),
            Cell(f"{worst.probability:.1g}"),
            *(Cell(text) for text in texts),
        ]
        table_rows.append(Row(rows.row_name(worst.row), cells))

    target_columns = rows.targets if all_targets else ["farthest target"]
    section.parts.append(
        Table(
            title="Lowest density first",
            columns=["row", "log density", "distance", "probability", *target_columns],
            rows=table_rows,
            note="Targets: observed (predicted ± standard deviation).",
        )
    )
    return section


def _score_cells(scores: Scores, y: np.ndarray) -> list[Cell]:
    inside = float(np.mean(scores.pit <= 0.9))
    r2 = None
    if len(y) > 1:
        r2 = float(r2_score(y, y - scores.errors.values))
    return [
        mean_over_rows(scores.negative_log_density),
        Cell(scores.energy_score),
        Cell(inside, coverage_error(0.9, len(y))),
        r2_cell(r2),
    ]


def _rmse_table(models: dict[str, Scores], rows: Rows) -> Table:
    """Return the errors of each target, by model."""
    errors = np.stack([scores.rmse for scores in models.values()])
    smallest = errors.min(axis=0)
    table_rows = []
    for j, name in enumerate(rows.targets[:MAX_TARGETS_IN_TABLE]):
        cells = []
        for error in errors[:, j]:
            is_best = len(models) > 1 and error == smallest[j]
            cells.append(Cell(float(error), best=bool(is_best)))
        table_rows.append(Row(name, cells))
    return Table(
        title="Each target",
        columns=["target", *models],
        rows=table_rows,
        note="Root mean squared error of the mean, in the units of the target."
        + _first_targets(MAX_TARGETS_IN_TABLE, len(rows.targets)),
    )


def _judge_ellipsoids(pit: np.ndarray) -> Claim:
    share = float(np.mean(pit <= 0.9))
    text = f"{format_percent(share)} of the rows lie in their 90 % ellipsoid"
    if not is_miscalibrated(np.array(share), 0.9, len(pit)):
        return Claim("calibrated", f"{text}, within chance of 90 %.", tone=GOOD)
    verdict = "too wide" if share > 0.9 else "too narrow"
    return Claim(verdict, f"{text}: the ellipsoids are {verdict}.", tone=NEUTRAL)


def _judge_intervals(pit: np.ndarray, rows: Rows) -> Claim:
    shares = interval_coverage(pit, 0.9)
    off = np.flatnonzero(is_miscalibrated(shares, 0.9, len(rows)))
    if len(off):
        names = join_names(
            [f"{rows.targets[j]} ({format_percent(shares[j])})" for j in off]
        )
        text = f"The coverage of 90 % intervals is off by more than chance: {names}."
        return Claim("off", text, tone=NEUTRAL)
    span = format_percent(shares.min())
    if format_percent(shares.max()) != span:
        span += f" to {format_percent(shares.max())}"
    text = f"90 % intervals of single targets contain {span} of the rows."
    return Claim("calibrated", text, tone=GOOD)


def _describe_ellipsoids(pit: np.ndarray) -> str:
    shares = [
        f"{format_percent(np.mean(pit <= level))} in the {100 * level:.0f} % ellipsoid"
        for level in LEVELS
    ]
    return f"Calibration of the ellipsoids: {', '.join(shares)}"


def _describe_histogram(pit: np.ndarray) -> str:
    shares = np.histogram(pit, N_HISTOGRAM_BARS, (0, 1))[0] / len(pit)
    span = f"{format_percent(shares.min())} to {format_percent(shares.max())}"
    return f"each tenth contains {span} of the rows"


def _interval_table(pit: np.ndarray, rows: Rows) -> Table:
    """Return the calibration of single targets."""
    coverages = [interval_coverage(pit, level) for level in LEVELS]
    table_rows = []
    for j in range(len(pit)):
        numbers = [
            *(round(float(coverage[j]), 3) for coverage in coverages),
            round(float(pit[j].mean()), 3),
            round(calibration_error(pit[j]), 4),
        ]
        table_rows.append(Row(rows.targets[j], [Cell(number) for number in numbers]))

    chance = [f"{1.96 * coverage_error(level, len(rows)):.3f}" for level in LEVELS]
    return Table(
        title="Intervals of each target",
        columns=[
            "target",
            "in 50 % interval",
            "in 90 % interval",
            "mean PIT",
            "calibration error",
        ],
        rows=table_rows,
        note=(
            f"Up to chance (95 %) the shares are 0.5 ± {chance[0]} and 0.9 ± "
            f"{chance[1]}. Calibration error: the area between the curve of the PIT "
            "and the diagonal, ideally 0."
        )
        + _first_targets(MAX_TARGETS_IN_TABLE, len(rows.targets)),
    )


def _ellipses_figure(evaluation: Evaluation) -> Figure:
    """Return the ellipses of the most strongly correlated pairs of targets."""
    rows = evaluation.rows
    distribution = evaluation.errors.distribution
    pairs = strongest_pairs(distribution, evaluation.n_targets, MAX_PAIRS_OF_ELLIPSES)
    images = []
    for i, j in pairs:
        chosen = _choose_evenly(evaluation.predicted[:, i])
        correlations = predicted_correlations(distribution, [i, j])[:, 0, 1]
        images.append(
            draw_image(
                lambda ax, pair=(i, j), chosen=chosen: draw_ellipses(
                    ax,
                    select_rows(distribution, chosen),
                    evaluation.predicted[chosen],
                    rows.y[chosen],
                    columns=pair,
                    names=rows.targets,
                ),
                f"90 % ellipses of {rows.targets[i]} and {rows.targets[j]}, mean "
                f"correlation {float(np.mean(correlations)):.2f}",
            )
        )
    caption = (
        f"Predicted 90 % ellipses of pairs of targets at up to {MAX_ELLIPSES} rows, "
        "chosen evenly along the predicted mean of the first target, and the "
        "observations of these rows."
    )
    n_pairs = evaluation.n_targets * (evaluation.n_targets - 1) // 2
    if n_pairs > len(pairs):
        caption += " The pairs with the strongest correlations."
    return Figure(images, caption)


def _choose_evenly(values: np.ndarray) -> np.ndarray:
    """Return indices of a few values, evenly from the smallest to the largest."""
    order = np.argsort(values, kind="stable")
    positions = np.linspace(0, len(order) - 1, MAX_ELLIPSES + 2).astype(int)
    chosen = order[np.unique(positions)[1:-1]]
    return chosen if len(chosen) else order


def _along_column_image(
    column: Column,
    quantities: dict[str, np.ndarray],
    *,
    label: str,
    limits: tuple[float, float],
) -> Image:
    bins = bin_column(column)
    means = average_by_bin(bins, quantities)
    spans = [
        f"{name} {values.min():.2f} to {values.max():.2f}"
        for name, values in means.items()
    ]
    return draw_image(
        lambda ax: draw_along_column(
            ax, column, bins, means, label=label, limits=limits
        ),
        f"{label} along {column.name}: {'; '.join(spans)}",
    )


def _caption_along_column(column: Column, n_targets: int) -> str:
    quantities = "Spread and correlation" if n_targets > 1 else "Spread"
    preposition = {"number": "along", "date": "over", "text": "by"}[column.kind]
    caption = f"{quantities} {preposition} {column.name}."
    if column.kind == "text":
        caption += f" The {MAX_LEVELS} most frequent levels at most."
    return caption


def _first_targets(n_shown: int, n_targets: int) -> str:
    """Say that not all targets are shown."""
    return (
        f" The first {n_shown} of {n_targets} targets." if n_targets > n_shown else ""
    )
