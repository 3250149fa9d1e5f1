"""Parts that the reports about all kinds of models share.

Comparisons with baselines, and the sections on the importance of inputs and on
training.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mmlp.reporting.content import BAD, GOOD, NEUTRAL, Claim, Figure, Section
from mmlp.reporting.figures import draw_image, draw_importances, draw_training
from mmlp.reporting.importance import (
    MAX_COLUMNS,
    MIN_ROWS,
    Importance,
    ImportanceResult,
)
from mmlp.reporting.number_format import MINUS, format_count, format_number
from mmlp.reporting.rows import Rows, join_names
from mmlp.reporting.scores import measure_gain
from mmlp.reporting.tables import Cell, Row, Table

MAX_BARS = 20  # inputs in the figure and the table


def compare_with_baseline(
    gains: np.ndarray, *, baseline: str, score: str, unit: str = ""
) -> Claim:
    """Say whether a model is better than a baseline.

    Parameters
    ----------
    gains : array of shape (n_rows,)
        By how much the model scores better on each row.
    baseline : str
        The baseline in words.
    score : str
        Name of the score.
    unit : str, default=""
        Unit of the score.
    """
    gain = measure_gain(gains)
    size = f"{format_number(abs(gain.mean), gain.error)}{unit} per row"
    if not gain.is_significant:
        text = f"No significant difference in {score} from {baseline}: {size}."
        return Claim("level", text, tone=NEUTRAL)
    if gain.mean > 0:
        return Claim("better", f"{size} better in {score} than {baseline}.", tone=GOOD)
    return Claim("worse", f"{size} worse in {score} than {baseline}.", tone=BAD)


def mean_over_rows(values: np.ndarray) -> Cell:
    """Return a cell with the mean of rows and its standard error."""
    error = None
    if len(values) > 1:
        error = values.std(ddof=1) / np.sqrt(len(values))
    return Cell(float(values.mean()), error)


def r2_cell(r2: float | None) -> Cell:
    """Return a cell with a coefficient of determination."""
    return Cell(None if r2 is None else f"{r2:.3f}".replace("-", MINUS))


def build_score_rows(
    cells_by_name: Mapping[str, Sequence[Cell]],
    compared_columns: Sequence[int],
    *,
    largest: bool = False,
) -> list[Row]:
    """Return rows of a table in which the best of some columns are marked.

    Parameters
    ----------
    cells_by_name : mapping from the name of a model to its cells
    compared_columns : sequence of int
        Columns of numbers in which the best is marked, if there are several rows.
    largest : bool, default=False
        Whether the largest is the best, or the smallest.
    """
    rows = {name: list(cells) for name, cells in cells_by_name.items()}
    if len(rows) > 1:
        choose = max if largest else min
        for k in compared_columns:
            values: list[Any] = [cells[k].value for cells in rows.values()]
            best = choose(values)
            for cells in rows.values():
                is_best = cells[k].value == best
                cells[k] = dataclasses.replace(cells[k], best=is_best)
    return [Row(name, cells) for name, cells in rows.items()]


def build_importance_section(
    result: ImportanceResult | None,
    rows: Rows,
    *,
    score: str,
    score_names: Sequence[str] = ("loss",),
) -> Section:
    """Build the section on which inputs matter.

    Parameters
    ----------
    result : ImportanceResult, optional
        None if there were too few rows.
    rows : Rows
    score : str
        What becomes worse by shuffling, in words.
    score_names : sequence of str
        Column headings, one for each score.
    """
    section = Section("importance", "Which inputs matter")
    if result is None:
        section.about = (
            f"This section needs at least {MIN_ROWS} rows; the table has {len(rows)}."
        )
        return section

    section.about = (
        f"Permutation importance: the mean loss in {score} when a column of the table "
        f"is shuffled ({result.n_repeats} times, {result.n_rows:,} rows)."
    )
    important = []
    unimportant = []
    for importance in result.importances:
        names = important if importance.is_significant() else unimportant
        names.append(rows.inputs[importance.column])
    if important:
        text = f"Most important first: {join_names(important)}."
        section.claims.append(Claim("matter", text, tone=GOOD))
    if unimportant:
        text = f"No significant loss when shuffled: {join_names(unimportant)}."
        section.claims.append(Claim("no effect seen", text, tone=NEUTRAL))

    shown = result.importances[:MAX_BARS]
    names = [rows.inputs[importance.column] for importance in shown]
    section.parts.append(_importance_figure(shown, names, score_names))
    table_rows = []
    for name, importance in zip(names, shown, strict=True):
        pairs = zip(importance.means, importance.errors, strict=True)
        cells = [Cell(float(mean), float(error)) for mean, error in pairs]
        table_rows.append(Row(name, cells))
    section.parts.append(
        Table(
            title="Importance",
            columns=["input", *score_names],
            rows=table_rows,
            note="Mean loss per row ± its standard error.",
        )
    )

    section.notes.append(
        "Of two inputs that carry the same information, each may seem unimportant: the "
        "other one still informs the model when it is shuffled."
    )
    n_measured = len(result.importances)
    n_used = len(rows.used_columns)
    if n_measured > MAX_BARS:
        section.notes.append(
            f"The {MAX_BARS} most important of {n_measured} are drawn."
        )
    if n_used > n_measured:
        section.notes.append(
            f"Only the first {MAX_COLUMNS} of {n_used} columns were shuffled."
        )
    return section


def build_training_section(model: Any) -> Section:
    """Build the section with the training curves of a fitted estimator."""
    stages = {"training": model.history_}
    covariance_history = getattr(model, "covariance_history_", None)
    if covariance_history:
        stages = {"mean": model.history_, "covariance": covariance_history}

    section = Section("training", "Training")
    section.about = (
        "The loss over epochs, on training rows and on held-out rows, which decide "
        "when training stops."
    )
    if any(np.ndim(history["loss"]) > 1 for history in stages.values()):
        section.about += (
            " Thin lines are single networks, thick lines their mean until one stops."
        )

    n_unfinished, n_networks = model.count_unfinished()
    if n_unfinished:
        text = (
            f"{n_unfinished} of {n_networks} networks were still improving at the "
            f"limit of {model.epochs} epochs: train longer."
        )
        section.claims.append(Claim("cut short", text, tone=NEUTRAL))
    else:
        text = "No network was still improving when its training ended."
        section.claims.append(Claim("complete", text, tone=GOOD))

    images = []
    for number, (name, history) in enumerate(stages.items(), 1):
        title = f"{number}/{len(stages)} {name}" if len(stages) > 1 else name
        end = describe_end(history, model.epochs)
        images.append(
            draw_image(
                lambda ax, history=history, title=title: draw_training(
                    ax, history, title
                ),
                f"Loss over epochs, {title}: {end}",
            )
        )
        section.notes.append(f"{title.capitalize()}: {end}.")
    section.parts.append(Figure(images))
    return section


def describe_end(history: Mapping[str, np.ndarray], max_epochs: int) -> str:
    """Say when the networks of a stage stopped.

    >>> describe_end({"loss": np.array([3.0, 2.0])}, 2)
    '1 network stopped at the limit of 2 epochs'
    >>> describe_end({"loss": np.array([[3.0, 3.0], [2.0, np.nan]])}, 3)
    '2 networks stopped after 1 to 2 epochs, for lack of improvement'
    """
    loss = np.asarray(history["loss"], float)
    loss = loss.reshape(len(loss), -1)
    epoch_numbers = np.arange(1, len(loss) + 1)[:, None]
    last_epochs = np.max(np.where(np.isnan(loss), 0, epoch_numbers), axis=0)

    texts = []
    n_complete = int(np.sum(last_epochs >= max_epochs))
    if n_complete:
        networks = format_count(n_complete, "network")
        epochs = format_count(max_epochs, "epoch")
        texts.append(f"{networks} stopped at the limit of {epochs}")

    early = last_epochs[last_epochs < max_epochs]
    if len(early):
        networks = format_count(len(early), "network")
        span = f"{early.min()} to {early.max()} epochs"
        if early.min() == early.max():
            span = format_count(early.min(), "epoch")
        texts.append(f"{networks} stopped after {span}, for lack of improvement")
    return "; ".join(texts)


def _importance_figure(
    importances: Sequence[Importance], names: Sequence[str], score_names: Sequence[str]
) -> Figure:
    values = "; ".join(
        f"{name} {importance.means[0]:.2g}"
        for name, importance in zip(names, importances, strict=True)
    )
    height = 0.9 + (0.16 + 0.12 * len(score_names)) * len(importances)
    image = draw_image(
        lambda ax: draw_importances(ax, importances, names, score_names),
        f"Importance of inputs: {values}",
        size=(4.2, height),
    )
    return Figure([image], "Lines show two standard errors to either side.")
