"""The paper's Example 2: SPD in every layer (the matrix MLP) against SPD at the output only.

Both with the paper's kernels and recipe, and both with calibration and the output kernels and
optimisers that reproduction/searches/spd.py chose; j + 1 hidden layers of 20 units, von Neumann
loss, seeds other than those of Example 1.
"""

import dataclasses
import itertools
from typing import ClassVar

import numpy as np

from mmlp.reporting.number_format import round_digits
from mmlp.reporting.tables import mark_best_cells, mean_cell
from reproduction.harness.claims import ahead, judged, shares
from reproduction.harness.jobs import progress
from reproduction.spd.models import Model, errors_of_baselines, paper, tuned
from reproduction.spd.tables import ABOUT, NOTES
from reproduction.spd.tasks import FIRST_SEEDS, QRE, QUICK, Budget, Task

DEEP, SHALLOW = "deep (matrix MLP)", "shallow design"
PAPERS, TUNED, UNTRAINED = "the paper's recipe", "tuned", "not trained"
RECIPES = (PAPERS, TUNED)
PAPER = {  # (design, d0) -> j -> E_QRE
    (DEEP, 10): {2: 2e-4, 4: 1e-5, 6: 4e-5},
    (DEEP, 20): {2: 5e-3, 4: 3e-4, 6: 6e-4},
    (SHALLOW, 10): {2: 4e-3, 4: 5e-3, 6: 4e-2},
    (SHALLOW, 20): {2: 8e-2, 4: 6e-2, 6: 7e-1},
}
FIRST = Budget.settings[0]  # in which recipes were chosen
NAMES = ("setting", "d0", "recipe", "design", "j")
Depths = dict[tuple[str, int, str, str, int], np.ndarray]  # NAMES -> E_QRE (seeds,)


@dataclasses.dataclass(frozen=True)
class Settings(Budget):
    """Deep against shallow by the number of layers."""

    dims: tuple[int, ...] = (10, 20)
    train: int = 20
    depths: tuple[int, ...] = (2, 4, 6)

    QUICK: ClassVar = QUICK | {"depths": (2,)}


def models(dim: int, j: int) -> dict[tuple[str, str], Model]:
    """By recipe and design."""
    widths = (20,) * (j + 1)
    return {
        (PAPERS, DEEP): paper("matrix", widths),
        (PAPERS, SHALLOW): paper("shallow", widths),
        (TUNED, DEEP): tuned("matrix 3 x 20", dim, FIRST, widths=widths),
        (TUNED, SHALLOW): tuned("shallow", dim, FIRST, widths=widths),
    }


def run(settings: Settings) -> dict:
    errors, untrained = {}, {}
    for dim, j in progress(
        itertools.product(settings.dims, settings.depths), "example2"
    ):
        task = Task(dim, settings.train, settings.budget(), FIRST_SEEDS["example2"])
        rows = {
            key: model.outcome(task).errors for key, model in models(dim, j).items()
        }
        rows |= {
            (UNTRAINED, row): values
            for row, values in errors_of_baselines(task).items()
        }
        for (recipe, row), values in rows.items():
            kept = untrained if recipe == UNTRAINED else errors
            for setting, of_seeds in zip(
                settings.settings, values[..., QRE], strict=True
            ):
                kept[setting, dim, recipe, row, j] = of_seeds
    note = (
        "Optimisers and rates were chosen for three layers and are used for all depths."
    )
    return {
        "title": "deep against shallow",
        "about": "The matrix MLP keeps matrices positive definite in all layers, the shallow "
        f"design only at its output. Error E_QRE by the number of layers, n = {settings.train}.",
        "claims": claims(errors),
        "tables": [table(s, errors | untrained, settings) for s in settings.settings],
        "notes": [*NOTES, note],
        "errors": [
            dict(zip(NAMES, k, strict=True), E_QRE=round_digits(v))
            for k, v in errors.items()
        ],
    }


def table(setting: str, errors: Depths, settings: Settings) -> dict:
    """Rows: recipe and design; columns: d0 and j."""
    columns, rows = list(itertools.product(settings.dims, settings.depths)), []
    for recipe in (*RECIPES, UNTRAINED):
        cells = {name: [] for _, _, r, name, _ in errors if r == recipe}
        for name, (d, j) in itertools.product(cells, columns):
            published = PAPER.get((name, d), {}).get(j) if recipe == PAPERS else None
            values = errors[setting, d, recipe, name, j].tolist()
            cells[name].append(mean_cell(values, paper=published))
        named = [{"name": name, "cells": row} for name, row in cells.items()]
        rows += [
            {"group": recipe},
            *(named if recipe == UNTRAINED else mark_best_cells(cells)),
        ]
    title, note = f"Setting: {setting}", f"E_QRE, {ABOUT.format(settings)}"
    headings = ["", *(f"d0 = {d}, j = {j}" for d, j in columns)]
    return {"title": title, "note": note, "columns": headings, "rows": rows}


def claims(errors: Depths) -> list:
    depths, growth = sorted({j for *_, j in errors}), {}
    better, sensitive = [], []
    for s, d, r in dict.fromkeys(key[:3] for key in errors):
        deep, shallow = (
            [errors[s, d, r, one, j] for j in depths] for one in (DEEP, SHALLOW)
        )
        for j, ours, other in zip(depths, deep, shallow, strict=True):
            better.append(
                ({"recipe": r, "j": j, "d0": d, "setting": s}, ahead(ours, other))
            )
        ours, other = (float(np.mean(x[-1]) / np.mean(x[0])) for x in (deep, shallow))
        sensitive.append(({"recipe": r, "d0": d, "setting": s}, other > ours))
        growth.setdefault(f"{r}, {DEEP}", []).append(f"{ours:.2g}")
        growth.setdefault(f"{r}, {SHALLOW}", []).append(f"{other:.2g}")
    texts = "; ".join(f"{name}: {', '.join(values)}" for name, values in growth.items())
    wins = f"Ahead by more than two standard errors, by recipe: {shares(better, 'recipe')}; by "
    wins += f"depth j: {shares(better, 'j')}; by setting: {shares(better, 'setting')}."
    grown = f"E_QRE at j = {depths[-1]} over that at j = {depths[0]}, by setting and d0: {texts}."
    return [
        judged(
            "The deep design is better than the shallow one, at every depth.",
            better,
            wins,
        ),
        judged(
            "The shallow design is more sensitive to the number of layers.",
            sensitive,
            grown,
        ),
    ]
