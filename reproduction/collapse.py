"""Why a literal implementation collapses: from the paper's recipe to ours, a factor at a time.

python -m reproduction collapse [--quick] [--data DIR] [--out report]

A VAE has collapsed when its encoder says nothing (KLD near zero): it is one Gaussian with a network
around it. The first table adds one factor after the other to the paper's recipe, the second takes
each, but for `LEFT_IN`, out of the full recipe, the third only scales the initial weights.
"""

import dataclasses
import itertools
from typing import Any, ClassVar

from mmlp.reporting.tables import mean_cell
from reproduction.harness.claims import judged, judged_cases, more
from reproduction.harness.jobs import each
from reproduction.vaes.data import Data
from reproduction.vaes.fits import COLLAPSED, SCORES, fit_recipes, score
from reproduction.vaes.recipes import Recipe, tuned

LITERAL = "the paper's recipe"
# Calibration makes the first void, batches are a matter of time, the joined MLP needs the third.
LEFT_IN = ("weights for d H", "batches of 50", "direct vector path")


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
        "a vector path twice as wide": {
            "features": tuple(2 * width for width in settings.hidden)
        },
        "linear output kernel": {"output": "linear"},
        "direct vector path": {"network": "direct"},
        "a standard MLP joined to it": {"network": "joint"},
    }
    return dict(list(found.items())[: settings.added])


def ladders(settings: Settings) -> tuple[dict[str, Recipe], ...]:
    """Recipes by name: factors added, the full recipe without each, other scales of weights."""
    parts = factors(settings)
    literal = Recipe(
        settings.model, hidden=settings.hidden, epochs=settings.epochs, literal=True
    )

    def changed(names) -> Recipe:
        changes = (item for name in names for item in parts[name].items())
        return dataclasses.replace(literal, **dict(changes))

    names = list(parts)
    added = {f"+ {name}": changed(names[: i + 1]) for i, name in enumerate(names)}
    removable = [name for name in names if settings.back and name not in LEFT_IN]
    without = {
        f"- {name}": changed(n for n in names if n != name) for name in removable
    }
    times, replace = "weights times", dataclasses.replace
    scaled = {
        f"{times} {scale:g}": replace(literal, scale=scale) for scale in settings.scales
    }
    return {LITERAL: literal} | added, without, scaled


def run(settings: Settings) -> dict:
    settings.read()  # before any work: a file that is missing is told, or downloaded, once
    steps, without, scaled = ladders(settings)
    rows = steps | without | scaled
    work = [(settings, recipe) for recipe in dict.fromkeys(rows.values())]
    found = dict(zip(work, each(scored, work, "collapse", settings.jobs), strict=True))
    scores = {name: found[settings, recipe] for name, recipe in rows.items()}

    def table(title: str, names: list[str]) -> dict:
        cells = {
            name: [mean_cell(scores[name][key]) for key in SCORES] for name in names
        }
        lines = [{"name": name, "cells": values} for name, values in cells.items()]
        return {"title": title, "columns": ["recipe", *SCORES], "rows": lines}

    shown = {"One factor added after the other": list(steps)}
    shown |= {"One factor taken away": [list(steps)[-1], *without]} if without else {}
    title = "The scale of the initial weights, in the paper's recipe"
    shown |= {title: [LITERAL, *scaled]} if scaled else {}
    return {
        "title": "Why it collapses",
        "about": f"{settings.model}, {settings.latent} latent variables, widths {settings.hidden}, "
        f"{settings.epochs} epochs: test scores in nats per image, mean and error over splits.",
        "tables": [table(title, names) for title, names in shown.items()],
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


def claims(scores: dict[str, dict], steps: list[str], without: list[str]) -> list[dict]:
    """By more than two standard errors of differences paired over splits; one shows nothing."""
    full, literal = steps[-1], scores[LITERAL]["KLD"]
    collapsed, distance = more([COLLAPSED - kld for kld in literal], 0.0)
    text = f"Ours: the paper's recipe, taken literally, collapses (KLD below {COLLAPSED} nats)."
    evidence = f"KLD: {', '.join(f'{kld:.2g}' for kld in literal)}; below the limit by {distance}."
    found = [judged(text, [({"the recipe": "literal"}, collapsed)], evidence)]
    added = [(name, name, before) for before, name in itertools.pairwise(steps)]
    claimed = {"Ours: each factor, added to those before it, raises IW.": added}
    away = [(name, full, name) for name in without]
    claimed |= {"Ours: taking one factor out of the full recipe lowers IW.": away}
    for claim, pairs in claimed.items():
        rows = [(name, *more(scores[a]["IW"], scores[b]["IW"])) for name, a, b in pairs]
        cases = [
            ({"the factor": name}, holds, f"{name}: {by}") for name, holds, by in rows
        ]
        found.append(judged_cases(claim, "", cases))
    return list(filter(None, found))
