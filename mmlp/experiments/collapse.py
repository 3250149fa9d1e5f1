"""Why a literal implementation collapses: from the paper's recipe to ours, a factor at a time.

python -m mmlp.experiments.collapse [--quick] [--data DIR] [--out report]

A VAE has collapsed when its encoder says nothing (KLD near zero): then it is one Gaussian with a
network around it. The first table adds one factor after the other to the paper's recipe, the second
takes each one, but for those `LEFT_IN`, out of the full recipe, and the third changes nothing but
the scale of the initial weights.
"""

import dataclasses
import itertools
from typing import Any, ClassVar

from mmlp.experiments.harness.claims import judged, more
from mmlp.experiments.harness.jobs import each
from mmlp.experiments.harness.run import main
from mmlp.experiments.vaes.data import Data
from mmlp.experiments.vaes.fits import COLLAPSED, SCORES, fit_recipes, score
from mmlp.experiments.vaes.recipes import Recipe, tuned
from mmlp.pages.table import cell

LITERAL = "the paper's recipe"
SCALES = "The scale of the initial weights, in the paper's recipe"
# Not taken away: calibration makes the first void, the size of batches is a matter of time, and the
# joined MLP comes with the third.
LEFT_IN = ("weights for d H", "batches of 50", "direct vector path")
Scores = dict[str, dict[str, list[float]]]


@dataclasses.dataclass(frozen=True)
class Settings(Data):
    """What each part of the recipe does for a matrix-MLP VAE of the Frey faces."""

    model: str = "NfNf"
    latent: int = 5
    hidden: tuple[int, ...] = (30, 30, 30)
    scales: tuple[float, ...] = (0.3, 3.0)  # of the initial weights, besides 1
    added: int = 11  # the factors, from the first on
    back: bool = True  # take each factor out of the full recipe, too
    seeds: int = 3
    epochs: int = 60
    noise: float = 0.06  # on the training data, where they have it
    samples: int = 100
    jobs: int = 2  # processes that share the rows, on a CPU

    QUICK: ClassVar = {"hidden": (8,), "scales": (0.1,), "added": 4, "back": False}
    QUICK |= {"seeds": 2, "epochs": 1, "samples": 20}


def factors(settings: Settings) -> dict[str, dict[str, Any]]:
    """The parts of the recipe, in the order in which they are added."""
    full = tuned("matrix", settings.model)
    step = {"optimizer": full.optimizer, "rate": full.rate, "cosine": True}
    found = {
        "weights for d H": {"literal": False},
        "calibrated initialisation": {"calibrated": full.calibrated},
        "batches of 50": {"batch": full.batch},
        "warm-up of the KL term": {"warm_up": full.warm_up},
        "Muon, with decay of the step": step,
        "best epoch kept": {"stopping": True},
        "noise on the training data": {"noise": settings.noise},
        "a vector path twice as wide": {"features": tuple(2 * width for width in settings.hidden)},
        "linear output kernel": {"output": "linear"},
        "direct vector path": {"network": "direct"},
        "a standard MLP joined to it": {"network": "joint"},
    }
    return dict(list(found.items())[: settings.added])


def ladders(settings: Settings) -> tuple[dict[str, Recipe], ...]:
    """Recipes by name: factors added, the full recipe without each, other scales of weights."""
    parts = factors(settings)
    literal = Recipe(settings.model, hidden=settings.hidden, epochs=settings.epochs, literal=True)

    def changed(names) -> Recipe:
        changes = (item for name in names for item in parts[name].items())
        return dataclasses.replace(literal, **dict(changes))

    names = list(parts)
    added = {f"+ {name}": changed(names[: i + 1]) for i, name in enumerate(names)}
    removable = [name for name in names if settings.back and name not in LEFT_IN]
    without = {f"- {name}": changed(n for n in names if n != name) for name in removable}
    scales = [(f"weights times {scale:g}", scale) for scale in settings.scales]
    scaled = {name: dataclasses.replace(literal, scale=scale) for name, scale in scales}
    return {LITERAL: literal} | added, without, scaled


def run(settings: Settings) -> dict:
    settings.read()  # before any work: a file that is missing is told, or downloaded, once
    steps, without, scaled = ladders(settings)
    rows = steps | without | scaled
    unique = list(dict.fromkeys(rows.values()))
    work = [(settings, one) for one in unique]
    found = dict(zip(unique, each(scored, work, "collapse", settings.jobs), strict=True))
    scores = {name: found[one] for name, one in rows.items()}

    def table(title: str, names: list[str]) -> dict:
        cells = {name: [cell(scores[name][key]) for key in SCORES] for name in names}
        lines = [{"name": name, "cells": values} for name, values in cells.items()]
        return {"title": title, "columns": ["recipe", *SCORES], "rows": lines}

    tables = [table("One factor added after the other", list(steps))]
    if without:
        tables.append(table("One factor taken away", [list(steps)[-1], *without]))
    if scaled:
        tables.append(table(SCALES, [LITERAL, *scaled]))
    return {
        "title": "Why it collapses",
        "about": f"{settings.model}, {settings.latent} latent variables, widths {settings.hidden}, "
        f"{settings.epochs} epochs: test scores in nats per image, mean and standard error over "
        "splits.",
        "tables": tables,
        "claims": claims(scores, list(steps), list(without)),
        "scores": scores,
    }


def scored(settings: Settings, recipe: Recipe) -> dict[str, list[float]]:
    """Scores of a recipe over splits."""

    def make() -> dict[str, list[float]]:
        splits = settings.splits(range(settings.seeds))
        models = fit_recipes([recipe], splits, settings.latent).model
        values = score(models, splits, settings.samples)
        return {key: values[key].tolist() for key in SCORES}

    return settings.kept({"collapse": dataclasses.asdict(recipe)}, make)


def claims(scores: Scores, steps: list[str], without: list[str]) -> list[dict]:
    """By more than two standard errors of differences paired over splits; one shows nothing."""
    full, literal = steps[-1], scores[LITERAL]["KLD"]
    collapsed, distance = more([COLLAPSED - kld for kld in literal], 0.0)
    found = [
        judged(
            f"Ours: the paper's recipe, taken literally, collapses (KLD below {COLLAPSED} nats).",
            [({"the recipe": "literal"}, collapsed)],
            f"KLD: {', '.join(f'{kld:.2g}' for kld in literal)}; below the limit by {distance}.",
        )
    ]
    claimed = {
        "Ours: each factor, added to those before it, raises IW.": [
            (name, name, before) for before, name in itertools.pairwise(steps)
        ],
        "Ours: taking one factor out of the full recipe lowers IW.": [
            (name, full, name) for name in without
        ],
    }
    for claim, pairs in claimed.items():
        rows = [(name, *more(scores[a]["IW"], scores[b]["IW"])) for name, a, b in pairs]
        outcomes = [({"the factor": name}, holds) for name, holds, _ in rows]
        evidence = "; ".join(f"{name}: {difference}" for name, _, difference in rows)
        found.append(judged(claim, outcomes, f"{evidence}."))
    return [claim for claim in found if claim is not None]


if __name__ == "__main__":
    main("collapse")
