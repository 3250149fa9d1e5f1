"""The paper's Example 1: with which loss to train, with baselines and a noise floor.

    python -m reproduction example1 [--quick] [--seeds 5] [--out report]

Covariances are predicted from 20 inputs. Each network is trained under one loss and
scored under all three measures.
"""

import dataclasses
import functools
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np
from matplotlib.figure import Figure

from mmlp.reporting.number_format import round_digits
from mmlp.reporting.tables import mean_cell
from reproduction.harness.claims import (
    format_shares,
    is_smaller,
    judge_claim,
    judge_claim_by_cases,
    paired_advantage,
)
from reproduction.spd import tables
from reproduction.spd.models import (
    FLOOR_ROW,
    MEAN_ROW,
    NEIGHBOURS_ROW,
    Model,
    paper_model,
    tuned_model,
)
from reproduction.spd.tables import Errors
from reproduction.spd.tasks import (
    HEADINGS,
    LOSS_NAMES,
    QRE,
    Grid,
    Task,
    generate_data,
)

# Rows of the table.
OURS = "joint matrix MLP, QRE"
CHOLESKY = "Cholesky MLP, QRE"
SHALLOW = "shallow design, QRE"
# These are trained with all losses.
NARROW = "matrix MLP 3 x 20"
PAPERS = "the paper's recipe"

PAPERS_MLP = paper_model("cholesky", (400, 400, 400))._replace(loss="quadratic")

# By (d0, n): for each loss, in the order of LOSS_NAMES, E_quad, E_QRE and E_Stein.
PAPER = {
    (10, 20): ((9.7e-5, 7e-4, 5.64), (0.033, 0.28, 17.75), (0.043, 0.72, 33.43)),
    (20, 20): ((1.1e-4, 1.3e-3, 28.86), (1.07, 8.18, 96.34), (0.061, 1.14, 83.66)),
    (10, 100): ((3.3e-8, 5.8e-6, 0.31), (8.9e-4, 0.016, 11.18), (0.037, 0.669, 38.7)),
    (20, 100): ((6.3e-6, 1.1e-4, 19.24), (1.2, 8.12, 85.73), (0.060, 1.15, 87.62)),
}


@dataclasses.dataclass(frozen=True)
class Settings(Grid):
    """Networks trained under each of three losses, scored under three measures."""

    # Seeds of the comparison of close networks, with the largest training set.
    duel_seeds: int = 20

    QUICK: ClassVar = Grid.QUICK | {"duel_seeds": 2}


def make_models(
    dim: int, setting: str, losses: Sequence[str] = tuple(LOSS_NAMES)
) -> dict[str, Model]:
    """Return the models of the table, by row."""
    return {
        **tuned_model("matrix 3 x 20", dim, setting).with_losses(losses, NARROW),
        OURS: tuned_model("joint", dim, setting),
        **paper_model("matrix").with_losses(losses, PAPERS),
        CHOLESKY: tuned_model("Cholesky", dim, setting),
        SHALLOW: tuned_model("shallow", dim, setting),
    }


def run(settings: Settings) -> dict:
    """Train all networks and compare them."""
    budget = settings.budget()
    tasks = settings.tasks()
    models_of = functools.partial(make_models, losses=settings.losses)
    errors = tables.collect_errors(tasks, models_of, "example1")

    # Five seeds are too few where errors are close: our network and its rival get more.
    duel_tasks = dataclasses.replace(
        settings, seeds=settings.duel_seeds, sizes=(max(settings.sizes),)
    ).tasks()
    duel_errors = tables.collect_errors(
        duel_tasks, make_models, "duel", only=(OURS, CHOLESKY)
    )

    shown_task = max(tasks, key=lambda task: (task.dim, -task.train))
    tasks_of_first_size = [task for task in tasks if task.train == settings.sizes[0]]
    caption = (
        f"Two test samples (d0 = {shown_task.dim}, n = {shown_task.train}, setting "
        f"{budget.settings[0]}, first seed): target, 3 x 20 under each loss, the "
        "paper's MLP. One colour scale a row."
    )
    return {
        "title": "the choice of the loss",
        "about": "Covariances are predicted from 20 inputs; each network is trained "
        "under one loss and scored under all three measures. The noise floor is the "
        "error of the true covariance against the sampled one: nothing can beat it.",
        "claims": judge_claims(errors, duel_errors, settings.losses),
        "tables": [
            *tables.make_tables(errors, budget, published_errors()),
            make_duel_table(duel_errors),
        ],
        "figures": [{"file": "example1.png", "caption": caption}],
        "notes": tables.NOTES + tables.describe_spectra(tasks_of_first_size),
        "errors": tables.errors_to_json(errors),
        "duel": tables.errors_to_json(duel_errors),
        "matrices": predict_matrices(shown_task, settings.losses),
    }


def published_errors() -> dict[tuple[int, int, str], tuple[float, float, float]]:
    """Return the paper's errors by (d0, n, row)."""
    published = {}
    for (d, n), errors_by_loss in PAPER.items():
        for loss, errors in zip(LOSS_NAMES.values(), errors_by_loss, strict=True):
            published[d, n, f"{PAPERS}, {loss}"] = errors
    return published


def make_duel_table(errors: Errors) -> dict:
    """Make a table of our network and the Cholesky MLP, over more seeds."""
    n, errors = tables.select_largest(errors)
    rows = []
    n_seeds = 0
    for (setting, d, _), rows_of_case in errors.items():
        ours = rows_of_case[OURS][:, QRE]
        rival = rows_of_case[CHOLESKY][:, QRE]
        n_seeds = len(ours)
        mean, error = paired_advantage(ours, rival)
        log_mean, log_error = paired_advantage(np.log(ours), np.log(rival))
        cells = [
            mean_cell(ours.tolist()),
            mean_cell(rival.tolist()),
            {"mean": mean, "error": error},
            {"mean": log_mean, "error": log_error},
        ]
        rows.append({"name": f"{setting}, d0 = {d}", "cells": cells})
    return {
        "title": f"Head to head: E_QRE over {n_seeds} seeds, n = {n}",
        "note": "Mean paired differences; positive: ours is better.",
        "columns": ["setting", OURS, CHOLESKY, "difference", "of logarithms"],
        "rows": rows,
    }


def judge_claims(
    errors: Errors, duel_errors: Errors, losses: Sequence[str] = tuple(LOSS_NAMES)
) -> list[dict | None]:
    """Judge the paper's claim and ours; `duel_errors` have more seeds."""
    return [
        claim_best_loss(errors, [LOSS_NAMES[loss] for loss in losses]),
        claim_near_floor(errors),
        claim_ahead_of(
            errors,
            (MEAN_ROW, NEIGHBOURS_ROW, SHALLOW),
            "the constant mean, nearest neighbours and the shallow design",
        ),
        claim_ahead_of(
            duel_errors, (CHOLESKY,), "the Cholesky MLP trained with the same loss"
        ),
    ]


def claim_best_loss(errors: Errors, losses: Sequence[str]) -> dict | None:
    """Judge whether the QRE loss gives the smallest errors in all measures."""
    recipes = {"ours": NARROW, "the paper's": PAPERS}
    outcomes = []
    for ((setting, d, n), rows), (owner, recipe) in itertools.product(
        errors.items(), recipes.items()
    ):
        means = np.array([rows[f"{recipe}, {loss}"].mean(0) for loss in losses])
        best_losses = np.argmin(means, axis=0)
        for heading, best in zip(HEADINGS.values(), best_losses, strict=True):
            factors = {
                "measure": heading,
                "recipe": owner,
                "d0": d,
                "n": n,
                "setting": setting,
            }
            outcomes.append((factors, losses[int(best)] == "QRE"))
    return judge_claim(
        "Training with the QRE (von Neumann) loss gives the smallest errors in all "
        "measures.",
        outcomes,
        f"Smallest of the losses by measure: {format_shares(outcomes, 'measure')}. By "
        f"setting: {format_shares(outcomes, 'setting')}. By recipe: "
        f"{format_shares(outcomes, 'recipe')}.",
    )


def claim_near_floor(errors: Errors) -> dict | None:
    """Judge whether our network comes within twice the noise floor."""
    n, errors = tables.select_largest(errors)
    cases = []
    for (setting, d, _), rows in errors.items():
        ours = rows[OURS][:, QRE].mean()
        floor = rows[FLOOR_ROW][:, QRE].mean()
        evidence = f"{setting}, d0 = {d}: {ours / floor:.2f}"
        cases.append(({"d0": d, "setting": setting}, ours <= 2 * floor, evidence))
    return judge_claim_by_cases(
        f"Ours: with QRE and n = {n} samples the joint matrix MLP comes within twice "
        "the floor.",
        "E_QRE over the floor: ",
        cases,
    )


def claim_ahead_of(
    errors: Errors, rivals: Sequence[str], description: str, *, compare_logs=False
) -> dict | None:
    """Judge whether our network is ahead of other rows.

    Parameters
    ----------
    errors : Errors
    rivals : sequence of str
        Rows of the table.
    description : str
        The rivals, in words.
    compare_logs : bool, default=False
        Compare logarithms of errors, because a rival that fails on some seeds has a
        difference of large variance.

    Returns
    -------
    dict or None
    """
    n, errors = tables.select_largest(errors)
    cases = []
    for ((setting, d, _), rows), rival in itertools.product(errors.items(), rivals):
        ours = rows[OURS][:, QRE]
        other = rows[rival][:, QRE]
        mean, error = paired_advantage(ours, other)
        log_mean, log_error = paired_advantage(np.log(ours), np.log(other))
        if compare_logs:
            holds = is_smaller(np.log(ours), np.log(other))
        else:
            holds = is_smaller(ours, other)

        evidence = f"{setting}, d0 = {d}, {rival}: {mean:.2e} ± {error:.1e}"
        if len(rivals) == 1:
            evidence += f", of logarithms {log_mean:.2f} ± {log_error:.2f}"
        factors = {"setting": setting, "d0": d, "rival": rival}
        cases.append((factors, holds, f"{evidence} ({len(ours)} seeds)"))
    measure = "log E_QRE" if compare_logs else "E_QRE"
    return judge_claim_by_cases(
        f"Ours: with n = {n} samples the joint matrix MLP is ahead of {description}, "
        f"in {measure} by more than two standard errors.",
        "Paired differences (positive: ours is better): ",
        cases,
    )


def predict_matrices(task: Task, losses: Sequence[str]) -> dict[str, list]:
    """Return target and predictions of two test samples, of the first seed."""
    (setting,) = task.budget.settings
    narrow = tuned_model("matrix 3 x 20", task.dim, setting)
    models = {f"{LOSS_NAMES[loss]} loss": narrow._replace(loss=loss) for loss in losses}
    models["the paper's MLP"] = PAPERS_MLP

    T = generate_data(task)[0].sampled[:2]
    matrices = {"target": np.swapaxes(T, 1, 2) @ T}
    for name, model in models.items():
        matrices[name] = model.train(task).samples[0, 0]
    return {name: round_digits(pair, 3) for name, pair in matrices.items()}


def draw(record: dict, out: Path) -> None:
    """Draw the matrices: a row for each sample, a column for each predictor."""
    matrices = {
        name: np.array(pair) for name, pair in record["result"]["matrices"].items()
    }
    figure = Figure(figsize=(2 * len(matrices), 4.4), layout="constrained")
    axes = figure.subplots(2, len(matrices), squeeze=False)
    for sample, row_of_axes in enumerate(axes):
        max_value = np.abs(matrices["target"][sample]).max()
        for ax, (name, pair) in zip(row_of_axes, matrices.items(), strict=True):
            ax.imshow(pair[sample], cmap="RdBu_r", vmin=-max_value, vmax=max_value)
            ax.set(xticks=[], yticks=[])
            ax.set_title(name if sample == 0 else "", fontsize=10)
    figure.savefig(out / "example1.png", dpi=110)
