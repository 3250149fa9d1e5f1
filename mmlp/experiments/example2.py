"""The paper's Example 2: the matrix MLP, SPD in every layer, against the shallow design, SPD at the output only.

    python -m mmlp.experiments.example2 [--quick] [--seeds N] [--out report]     writes example2.json

Both with the paper's kernels and recipe, and both with calibration and the output kernels and optimisers that `tune_spd`
chose; j + 1 hidden layers of 20 units, von Neumann loss, seeds other than those of Example 1.
"""

import dataclasses
import itertools
from pathlib import Path
from typing import ClassVar

import numpy as np

from mmlp.experiments.example1 import NOTES
from mmlp.experiments.harness.claims import ahead, shares, verdict
from mmlp.experiments.harness.jobs import progress
from mmlp.experiments.harness.run import main
from mmlp.experiments.spd import core as _spd
from mmlp.experiments.spd.core import HEADINGS, PAPER_RATE, Budget, Model, Task, paper, tuned
from mmlp.pages.page import cell

QRE = list(HEADINGS).index("von_neumann")
DEEP, SHALLOW = "deep (matrix MLP)", "shallow design"
RECIPES = ("the paper's recipe", "tuned")
PAPER = {  # (row, d0, j) -> E_QRE
    (DEEP, 10): {2: 2e-4, 4: 1e-5, 6: 4e-5},
    (DEEP, 20): {2: 5e-3, 4: 3e-4, 6: 6e-4},
    (SHALLOW, 10): {2: 4e-3, 4: 5e-3, 6: 4e-2},
    (SHALLOW, 20): {2: 8e-2, 4: 6e-2, 6: 7e-1},
}

Depths = dict[
    tuple[str, int, str, str, int], np.ndarray
]  # (setting, d0, recipe, design, j) -> E_QRE (seeds,)


@dataclasses.dataclass(frozen=True)
class Settings(Budget):
    """Deep against shallow by the number of layers."""

    dims: tuple[int, ...] = (10, 20)
    train: int = 20
    depths: tuple[int, ...] = (2, 4, 6)

    QUICK: ClassVar = _spd.QUICK | {"depths": (2,)}


def models(dim: int, j: int) -> dict[tuple[str, str], Model]:
    widths, made = (20,) * (j + 1), {}
    for design, network, family in (
        (DEEP, "matrix", "matrix 3 x 20"),
        (SHALLOW, "shallow", "shallow"),
    ):
        recipe, rate = tuned(family, dim)
        made[RECIPES[0], design] = Model(paper(network, widths), PAPER_RATE, "von_neumann")
        made[RECIPES[1], design] = Model(
            dataclasses.replace(recipe, widths=widths), rate, "von_neumann"
        )
    return made


def run(settings: Settings) -> dict:
    budget, errors = settings.budget(), {}
    untrained: dict[tuple[str, int, str], np.ndarray] = {}
    for dim, j in progress(itertools.product(settings.dims, settings.depths), "example2"):
        task = Task(dim, settings.train, budget, _spd.FIRST_SEEDS["example2"])
        for (recipe, design), model in models(dim, j).items():
            for setting, values in zip(budget.settings, model.errors(task), strict=True):
                errors[setting, dim, recipe, design, j] = values[:, QRE]
        for row, values in _spd.baselines(task).items():
            untrained |= {
                (setting, dim, row): values[i, :, QRE] for i, setting in enumerate(budget.settings)
            }
    return {
        "title": "deep against shallow",
        "about": "The matrix MLP keeps matrices positive definite in all layers, the shallow design only at its output. "
        f"Error E_QRE by the number of layers, n = {settings.train}.",
        "claims": claims(errors),
        "tables": [table(setting, errors, untrained, settings) for setting in budget.settings],
        "notes": [
            *NOTES,
            "Optimisers and rates were chosen for three layers and are used for all depths.",
        ],
        "errors": [
            {
                "setting": s,
                "d0": d,
                "recipe": r,
                "design": m,
                "j": j,
                "E_QRE": [float(f"{v:.4g}") for v in values],
            }
            for (s, d, r, m, j), values in errors.items()
        ],
    }


def table(
    setting: str,
    errors: Depths,
    untrained: dict[tuple[str, int, str], np.ndarray],
    settings: Settings,
) -> dict:
    """Rows: recipe and design; columns: d0 and j."""
    columns = list(itertools.product(settings.dims, settings.depths))
    rows: list[dict] = []
    for recipe in RECIPES:
        rows.append({"group": recipe})
        for design in (DEEP, SHALLOW):
            cells = []
            for d, j in columns:
                both = {
                    which: float(errors[setting, d, recipe, which, j].mean())
                    for which in (DEEP, SHALLOW)
                }
                published = PAPER.get((design, d), {}).get(j) if recipe == RECIPES[0] else None
                values = errors[setting, d, recipe, design, j].tolist()
                cells.append(cell(values, paper=published, best=both[design] == min(both.values())))
            rows.append({"name": design, "cells": cells})
    rows.append({"group": "not trained"})
    for row in dict.fromkeys(row for _, _, row in untrained):
        rows.append(
            {"name": row, "cells": [cell(untrained[setting, d, row].tolist()) for d, _ in columns]}
        )
    return {
        "title": f"Setting: {setting}",
        "note": f"E_QRE, mean and standard error over {settings.seeds} seeds, {settings.test} test samples.",
        "columns": ["", *(f"d0 = {d}, j = {j}" for d, j in columns)],
        "rows": rows,
    }


def claims(errors: Depths) -> list[dict]:
    better = [
        ({"recipe": r, "j": j, "d0": d, "setting": s}, ahead(values, errors[s, d, r, SHALLOW, j]))
        for (s, d, r, design, j), values in errors.items()
        if design == DEEP
    ]
    first, last = min(key[-1] for key in errors), max(key[-1] for key in errors)
    growth = {
        key[:-1]: float(np.mean(errors[*key[:-1], last]) / np.mean(values))
        for key, values in errors.items()
        if key[-1] == first
    }
    sensitive = [
        ({"recipe": r, "d0": d, "setting": s}, growth[s, d, r, SHALLOW] > growth[s, d, r, DEEP])
        for (s, d, r, design) in growth
        if design == DEEP
    ]
    texts = (
        f"{r}, {design}: "
        + ", ".join(f"{v:.2g}" for k, v in growth.items() if k[2:] == (r, design))
        for r in RECIPES
        for design in (DEEP, SHALLOW)
    )
    return [
        {
            "claim": "The deep design is better than the shallow one, at every depth.",
            "verdict": verdict(better),
            "evidence": f"Ahead by more than two standard errors, by recipe: {shares(better, 'recipe')}; by depth j: "
            f"{shares(better, 'j')}; by setting: {shares(better, 'setting')}.",
        },
        {
            "claim": "The shallow design is more sensitive to the number of layers.",
            "verdict": verdict(sensitive),
            "evidence": f"E_QRE at j = {last} over that at j = {first}, by setting and d0: {'; '.join(texts)}.",
        },
    ]


def draw(record: dict, out: Path) -> None:
    """No figure: the paper has none."""


if __name__ == "__main__":
    main("example2")
