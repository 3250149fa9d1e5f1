"""Why a literal implementation collapses: from the paper's recipe to ours.

    python -m reproduction collapse [--quick] [--data DIR] [--keep DIR] [--out report]

A VAE has collapsed when its encoder carries no information (KLD near zero): it is one
Gaussian with a network around it. The first table adds one factor after the other to
the paper's recipe. The second takes each factor, except `NOT_REMOVED`, out of the full
recipe. The third only scales the initial weights.
"""

import dataclasses
import itertools
from collections.abc import Iterable
from typing import Any, ClassVar

from mmlp.reporting.tables import mean_cell
from reproduction.harness.claims import (
    compare_larger,
    judge_claim,
    judge_claim_by_cases,
)
from reproduction.harness.parallel import map_in_processes
from reproduction.vaes.fit_and_score import (
    MAX_COLLAPSED_KLD,
    SCORES,
    fit_recipes,
    score_models,
)
from reproduction.vaes.images import ImageSettings
from reproduction.vaes.recipes import Recipe, tuned_recipe

LITERAL = "the paper's recipe"

# Calibration makes the first void, batches are a matter of time, and the joined MLP
# needs the third.
NOT_REMOVED = ("weights for d H", "batches of 50", "direct vector path")


@dataclasses.dataclass(frozen=True)
class Settings(ImageSettings):
    """What each part of the recipe does for a matrix-MLP VAE of the Frey faces."""

    model: str = "NfNf"
    latent: int = 5
    hidden: tuple[int, ...] = (30, 30, 30)
    # Scales of the initial weights, besides 1.
    scales: tuple[float, ...] = (0.3, 3.0)
    # How many of the factors are added.
    added: int = 11
    # Whether each factor is also taken out of the full recipe.
    back: bool = True
    seeds: int = 3
    epochs: int = 60
    # Noise on the training data, for recipes that have it.
    noise: float = 0.06
    # Importance samples.
    samples: int = 100
    # Processes that share the rows, on a CPU.
    jobs: int = 2

    QUICK: ClassVar = {
        "hidden": (8,),
        "scales": (0.1,),
        "added": 4,
        "back": False,
        "seeds": 2,
        "epochs": 1,
        "samples": 20,
    }


@dataclasses.dataclass(frozen=True)
class Ladders:
    """The recipes of the three tables, by the name of the row."""

    added: dict[str, Recipe]
    removed: dict[str, Recipe]
    scaled: dict[str, Recipe]


def list_factors(settings: Settings) -> dict[str, dict[str, Any]]:
    """Return the parts of the recipe as changes, in the order of adding them."""
    full = tuned_recipe("matrix", settings.model)
    wide_path = tuple(2 * width for width in settings.hidden)
    factors = {
        "weights for d H": {"literal": False},
        "calibrated initialisation": {"calibrated": full.calibrated},
        "batches of 50": {"batch": full.batch},
        "warm-up of the KL term": {"warm_up": full.warm_up},
        "Muon, with decay of the step": {
            "optimizer": full.optimizer,
            "rate": full.rate,
            "cosine": True,
        },
        "best epoch kept": {"stopping": True},
        "noise on the training data": {"noise": settings.noise},
        "a vector path twice as wide": {"features": wide_path},
        "linear output kernel": {"output": "linear"},
        "direct vector path": {"network": "direct"},
        "a standard MLP joined to it": {"network": "joint"},
    }
    return dict(list(factors.items())[: settings.added])


def make_ladders(settings: Settings) -> Ladders:
    """Return the recipes of the three tables."""
    factors = list_factors(settings)
    names = list(factors)
    literal = Recipe(
        settings.model, hidden=settings.hidden, epochs=settings.epochs, literal=True
    )

    def with_factors(names: Iterable[str]) -> Recipe:
        changes = {}
        for name in names:
            changes |= factors[name]
        return dataclasses.replace(literal, **changes)

    added = {LITERAL: literal}
    for i, name in enumerate(names):
        added[f"+ {name}"] = with_factors(names[: i + 1])

    removed = {}
    if settings.back:
        for name in names:
            if name not in NOT_REMOVED:
                others = [other for other in names if other != name]
                removed[f"- {name}"] = with_factors(others)

    scaled = {
        f"weights times {scale:g}": dataclasses.replace(literal, scale=scale)
        for scale in settings.scales
    }
    return Ladders(added, removed, scaled)


def run(settings: Settings) -> dict:
    """Train all recipes and compare them."""
    # Read the images before any work, so that a missing file is reported only once.
    settings.read_images()

    ladders = make_ladders(settings)
    recipes = ladders.added | ladders.removed | ladders.scaled
    distinct_recipes = list(dict.fromkeys(recipes.values()))
    work = [(settings, recipe) for recipe in distinct_recipes]
    results = map_in_processes(score_recipe, work, "collapse", settings.jobs)
    scores_by_recipe = dict(zip(distinct_recipes, results, strict=True))
    scores = {name: scores_by_recipe[recipe] for name, recipe in recipes.items()}

    full = list(ladders.added)[-1]
    tables = [
        make_table("One factor added after the other", list(ladders.added), scores)
    ]
    if ladders.removed:
        rows = [full, *ladders.removed]
        tables.append(make_table("One factor taken away", rows, scores))
    if ladders.scaled:
        title = "The scale of the initial weights, in the paper's recipe"
        tables.append(make_table(title, [LITERAL, *ladders.scaled], scores))
    return {
        "title": "Why it collapses",
        "about": f"{settings.model}, {settings.latent} latent variables, widths "
        f"{settings.hidden}, {settings.epochs} epochs: test scores in nats per image, "
        "mean and error over splits.",
        "tables": tables,
        "claims": judge_claims(scores, list(ladders.added), list(ladders.removed)),
        "scores": scores,
    }


def score_recipe(settings: Settings, recipe: Recipe) -> dict[str, list[float]]:
    """Return the scores of a recipe over splits."""

    def compute() -> dict[str, list[float]]:
        splits = settings.make_splits(range(settings.seeds))
        models = fit_recipes([recipe], splits, settings.latent).model
        scores = score_models(models, splits, settings.samples)
        return {name: scores[name].tolist() for name in SCORES}

    return settings.load_or_compute({"collapse": dataclasses.asdict(recipe)}, compute)


def make_table(title: str, names: list[str], scores: dict[str, dict]) -> dict:
    """Make a table of some recipes."""
    rows = [
        {"name": name, "cells": [mean_cell(scores[name][score]) for score in SCORES]}
        for name in names
    ]
    return {"title": title, "columns": ["recipe", *SCORES], "rows": rows}


def judge_claims(
    scores: dict[str, dict], added: list[str], removed: list[str]
) -> list[dict]:
    """Judge our claims, beyond two standard errors of paired differences.

    Parameters
    ----------
    scores : dict of dict
        By the name of a recipe.
    added : list of str
        Recipes, each with a factor more than the one before.
    removed : list of str
        The full recipe without a factor.

    Returns
    -------
    list of dict
    """
    full = added[-1]
    steps = [(name, name, previous) for previous, name in itertools.pairwise(added)]
    removals = [(name, full, name) for name in removed]
    claims = [
        claim_literal_collapses(scores[LITERAL]["KLD"]),
        claim_factors_help(
            "Ours: each factor, added to those before it, raises IW.", scores, steps
        ),
        claim_factors_help(
            "Ours: taking one factor out of the full recipe lowers IW.",
            scores,
            removals,
        ),
    ]
    return [claim for claim in claims if claim is not None]


def claim_literal_collapses(KLD: list[float]) -> dict | None:
    """Judge whether the paper's recipe collapses."""
    collapses, distance = compare_larger(
        [MAX_COLLAPSED_KLD - value for value in KLD], 0.0
    )
    values = ", ".join(f"{value:.2g}" for value in KLD)
    return judge_claim(
        "Ours: the paper's recipe, taken literally, collapses (KLD below "
        f"{MAX_COLLAPSED_KLD} nats).",
        [({"the recipe": "literal"}, collapses)],
        f"KLD: {values}; below the limit by {distance}.",
    )


def claim_factors_help(
    claim: str, scores: dict[str, dict], pairs: list[tuple[str, str, str]]
) -> dict | None:
    """Judge pairs of recipes: (name of the factor, with it, without it)."""
    cases = []
    for name, with_factor, without_factor in pairs:
        holds, difference = compare_larger(
            scores[with_factor]["IW"], scores[without_factor]["IW"]
        )
        cases.append(({"the factor": name}, holds, f"{name}: {difference}"))
    return judge_claim_by_cases(claim, "", cases)
