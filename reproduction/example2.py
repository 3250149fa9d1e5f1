"""The paper's Example 2: SPD matrices in every layer, or at the output only.

    python -m reproduction example2 [--quick] [--seeds 5] [--out report]

The deep design is the matrix MLP. Both designs are trained with the paper's kernels and
recipe, and with calibration and the output kernels and optimisers that
reproduction/searches/spd.py chose. Networks have j + 1 hidden layers of 20 units and
the von Neumann loss; seeds are not those of Example 1.
"""

import dataclasses
import itertools
from typing import ClassVar

import numpy as np

from mmlp.reporting.number_format import round_digits
from mmlp.reporting.tables import mark_best_cells, mean_cell
from reproduction.harness.claims import format_shares, is_smaller, judge_claim
from reproduction.harness.parallel import show_progress
from reproduction.spd.models import Model, paper_model, score_baselines, tuned_model
from reproduction.spd.tables import ABOUT_ERRORS, NOTES
from reproduction.spd.tasks import FIRST_SEEDS, QRE, QUICK, Budget, Task

# Designs and recipes.
DEEP = "deep (matrix MLP)"
SHALLOW = "shallow design"
PAPERS = "the paper's recipe"
TUNED = "tuned"
UNTRAINED = "not trained"
RECIPES = (PAPERS, TUNED)

# By (design, d0) and j: E_QRE.
PAPER = {
    (DEEP, 10): {2: 2e-4, 4: 1e-5, 6: 4e-5},
    (DEEP, 20): {2: 5e-3, 4: 3e-4, 6: 6e-4},
    (SHALLOW, 10): {2: 4e-3, 4: 5e-3, 6: 4e-2},
    (SHALLOW, 20): {2: 8e-2, 4: 6e-2, 6: 7e-1},
}

# The setting of the generator in which recipes were chosen.
FIRST_SETTING = Budget.settings[0]

# By setting, d0, recipe, design and j: E_QRE of shape (seeds,).
Errors = dict[tuple[str, int, str, str, int], np.ndarray]


@dataclasses.dataclass(frozen=True)
class Settings(Budget):
    """Deep against shallow by the number of layers."""

    dims: tuple[int, ...] = (10, 20)
    train: int = 20
    # Values of j: networks have j + 1 hidden layers.
    depths: tuple[int, ...] = (2, 4, 6)

    QUICK: ClassVar = QUICK | {"depths": (2,)}


def make_models(dim: int, j: int) -> dict[tuple[str, str], Model]:
    """Return the models by recipe and design."""
    widths = (20,) * (j + 1)
    return {
        (PAPERS, DEEP): paper_model("matrix", widths),
        (PAPERS, SHALLOW): paper_model("shallow", widths),
        (TUNED, DEEP): tuned_model("matrix 3 x 20", dim, FIRST_SETTING, widths=widths),
        (TUNED, SHALLOW): tuned_model("shallow", dim, FIRST_SETTING, widths=widths),
    }


def run(settings: Settings) -> dict:
    """Train both designs at each depth and compare them."""
    errors: Errors = {}
    untrained_errors: Errors = {}
    cases = itertools.product(settings.dims, settings.depths)
    for dim, j in show_progress(cases, "example2"):
        task = Task(dim, settings.train, settings.budget(), FIRST_SEEDS["example2"])
        for (recipe, design), model in make_models(dim, j).items():
            values = model.train(task).errors
            for i, setting in enumerate(settings.settings):
                errors[setting, dim, recipe, design, j] = values[i, :, QRE]
        for row, values in score_baselines(task).items():
            for i, setting in enumerate(settings.settings):
                untrained_errors[setting, dim, UNTRAINED, row, j] = values[i, :, QRE]

    all_errors = errors | untrained_errors
    return {
        "title": "deep against shallow",
        "about": "The matrix MLP keeps matrices positive definite in all layers, the "
        "shallow design only at its output. Error E_QRE by the number of layers, "
        f"n = {settings.train}.",
        "claims": judge_claims(errors),
        "tables": [
            make_table(setting, all_errors, settings) for setting in settings.settings
        ],
        "notes": [
            *NOTES,
            "Optimisers and rates were chosen for three layers and are used for all "
            "depths.",
        ],
        "errors": [
            {
                "setting": setting,
                "d0": d,
                "recipe": recipe,
                "design": design,
                "j": j,
                "E_QRE": round_digits(values),
            }
            for (setting, d, recipe, design, j), values in errors.items()
        ],
    }


def make_table(setting: str, errors: Errors, settings: Settings) -> dict:
    """Make a table: rows by recipe and design, columns by d0 and j."""
    columns = list(itertools.product(settings.dims, settings.depths))
    rows = []
    for recipe in (*RECIPES, UNTRAINED):
        names = dict.fromkeys(name for _, _, r, name, _ in errors if r == recipe)
        cells = {}
        for name in names:
            cells[name] = []
            for d, j in columns:
                paper = None
                if recipe == PAPERS:
                    paper = PAPER.get((name, d), {}).get(j)
                values = errors[setting, d, recipe, name, j].tolist()
                cells[name].append(mean_cell(values, paper=paper))
        rows.append({"group": recipe})
        if recipe == UNTRAINED:
            rows += [{"name": name, "cells": row} for name, row in cells.items()]
        else:
            rows += mark_best_cells(cells)
    return {
        "title": f"Setting: {setting}",
        "note": f"E_QRE, {ABOUT_ERRORS.format(settings)}",
        "columns": ["", *(f"d0 = {d}, j = {j}" for d, j in columns)],
        "rows": rows,
    }


def judge_claims(errors: Errors) -> list[dict | None]:
    """Judge the paper's claims about depth."""
    depths = sorted({j for *_, j in errors})
    deep_is_better = []
    shallow_is_more_sensitive = []
    growth: dict[str, list[str]] = {}
    for setting, d, recipe in dict.fromkeys(key[:3] for key in errors):
        factors = {"recipe": recipe, "d0": d, "setting": setting}
        deep = [errors[setting, d, recipe, DEEP, j] for j in depths]
        shallow = [errors[setting, d, recipe, SHALLOW, j] for j in depths]
        for j, deep_errors, shallow_errors in zip(depths, deep, shallow, strict=True):
            deep_is_better.append(
                (
                    {"recipe": recipe, "j": j, "d0": d, "setting": setting},
                    is_smaller(deep_errors, shallow_errors),
                )
            )
        deep_growth = float(np.mean(deep[-1]) / np.mean(deep[0]))
        shallow_growth = float(np.mean(shallow[-1]) / np.mean(shallow[0]))
        shallow_is_more_sensitive.append((factors, shallow_growth > deep_growth))
        growth.setdefault(f"{recipe}, {DEEP}", []).append(f"{deep_growth:.2g}")
        growth.setdefault(f"{recipe}, {SHALLOW}", []).append(f"{shallow_growth:.2g}")

    growth_text = "; ".join(
        f"{name}: {', '.join(values)}" for name, values in growth.items()
    )
    return [
        judge_claim(
            "The deep design is better than the shallow one, at every depth.",
            deep_is_better,
            "Ahead by more than two standard errors, by recipe: "
            f"{format_shares(deep_is_better, 'recipe')}; by depth j: "
            f"{format_shares(deep_is_better, 'j')}; by setting: "
            f"{format_shares(deep_is_better, 'setting')}.",
        ),
        judge_claim(
            "The shallow design is more sensitive to the number of layers.",
            shallow_is_more_sensitive,
            f"E_QRE at j = {depths[-1]} over that at j = {depths[0]}, by setting and "
            f"d0: {growth_text}.",
        ),
    ]
