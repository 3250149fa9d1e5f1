"""Search the settings of the neural spline flow of the Frey table.

    python -m reproduction.searches.flows [--data DIR] [--out FILE] [--jobs 4]

This needs flowjax (extra `bench`). Settings are judged by the validation rows only, on
splits that the table does not use (seeds from 100 on); their test parts are never
looked at. Every trial has three splits, the best four have all six splits of the other
searches. All trials are written to results/search/flows.json. The best, by the mean
over six splits, is printed: reproduction/vaes/flow_settings.json holds it.
"""

import dataclasses
import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np

from mmlp.cli.dataclass_parser import parse_or_exit
from reproduction.harness.parallel import map_in_processes
from reproduction.harness.result_cache import load_or_compute
from reproduction.searches.vaes import FIRST_SEED, write_trials
from reproduction.vaes.flows import FlowRecipe, fit_flows, score_flows
from reproduction.vaes.images import ImageSettings

OUT = Path(__file__).parents[2] / "results" / "search" / "flows.json"
FIRST_SEEDS = range(FIRST_SEED, FIRST_SEED + 3)
ALL_SEEDS = range(FIRST_SEED, FIRST_SEED + 6)
N_FINALISTS = 4

# (changes, learning rates, noises) of flows that are trained at once, those that take
# longest first.
TRIALS: tuple[tuple[dict[str, Any], tuple[float, ...], tuple[float, ...]], ...] = (
    ({"transforms": 5, "width": 256}, (0.001,), (0.1,)),
    ({"width": 256}, (0.001,), (0.1,)),
    ({"transforms": 5, "width": 128}, (0.001, 0.002), (0.1, 0.15)),
    ({"transforms": 8}, (0.001, 0.002), (0.1, 0.15)),
    ({"optimizer": "muon", "transforms": 5}, (0.003, 0.006), (0.1, 0.15)),
    ({"transforms": 5}, (0.001, 0.002), (0.1, 0.15)),
    ({"width": 128}, (0.001, 0.002), (0.1, 0.15)),
    ({"optimizer": "muon"}, (0.003, 0.006), (0.1, 0.15)),
    ({}, (0.001, 0.002), (0.1, 0.15)),
    ({"epochs": 200}, (0.002,), (0.1, 0.15)),
    ({}, (0.002,), (0.05, 0.2)),
    ({}, (0.004,), (0.1, 0.15)),
    ({"decay": 1.0}, (0.002,), (0.1, 0.15)),
)


@dataclasses.dataclass(frozen=True)
class Settings(ImageSettings):
    """Try shapes, optimisers, learning rates, weight decay and noise."""

    # Epochs of the trials that do not set their own.
    epochs: int = 100
    # Processes that share the work, on a CPU.
    jobs: int = 2
    out: Path = OUT


def search(settings: Settings) -> FlowRecipe:
    """Write all trials to the file, and return the best settings."""
    # Read the images before any work, so that a missing file is reported only once.
    settings.read_images()

    work = [(settings, list_recipes(settings, *trial), FIRST_SEEDS) for trial in TRIALS]
    results = map_in_processes(validate_flows, work, "search", settings.jobs)
    trials = list(itertools.chain(*results))

    finalists = sorted(trials, key=mean_validation, reverse=True)[:N_FINALISTS]
    work = [(settings, [recipe_from_entry(entry)], ALL_SEEDS) for entry in finalists]
    results = map_in_processes(validate_flows, work, "finals", settings.jobs)
    finals = list(itertools.chain(*results))

    note = (
        f"{len(trials)} trials on three splits, the best {N_FINALISTS} on six (which "
        "have a start of their own); log-densities in nats per image. Made by "
        "reproduction/searches/flows.py."
    )
    write_trials({"note": note, "tried": trials + finals}, settings.out)
    return recipe_from_entry(max(finals, key=mean_validation))


def list_recipes(
    settings: Settings,
    changes: dict[str, Any],
    rates: tuple[float, ...],
    noises: tuple[float, ...],
) -> list[FlowRecipe]:
    """Return the recipes of a trial, whose flows are trained at once."""
    recipe = dataclasses.replace(FlowRecipe(epochs=settings.epochs), **changes)
    return [
        dataclasses.replace(recipe, rate=rate, noise=noise)
        for rate, noise in itertools.product(rates, noises)
    ]


def validate_flows(
    settings: Settings, recipes: list[FlowRecipe], seeds: range
) -> list[dict]:
    """Return an entry of the file for each recipe."""
    descriptions = [dataclasses.asdict(recipe) for recipe in recipes]

    def compute() -> dict[str, list]:
        splits = settings.make_splits(seeds)
        models = fit_flows(recipes, splits).model
        scores = score_flows(models, splits, part="validation")
        return {"validation": np.round(scores.reshape(-1, len(recipes)).T, 3).tolist()}

    key = {"search": descriptions, "images": settings.images, "seeds": list(seeds)}
    scores = load_or_compute(settings.keep, key, compute)["validation"]
    return [
        description | {"seeds": len(seeds), "validation": score}
        for description, score in zip(descriptions, scores, strict=True)
    ]


def mean_validation(entry: dict) -> float:
    """Return the mean log density over splits, -inf if it is not finite."""
    value = float(np.mean(entry["validation"]))
    return value if np.isfinite(value) else -np.inf


def recipe_from_entry(entry: dict) -> FlowRecipe:
    """Return the recipe of an entry of the file."""
    return FlowRecipe(
        **{field.name: entry[field.name] for field in dataclasses.fields(FlowRecipe)}
    )


if __name__ == "__main__":
    settings = parse_or_exit(Settings, "python -m reproduction.searches.flows")
    print(json.dumps(dataclasses.asdict(search(settings))))
