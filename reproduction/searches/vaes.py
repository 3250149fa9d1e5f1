"""Search the settings of the networks of the Frey table, on one grid for each group.

    python -m reproduction.searches.vaes [--groups joint,cholesky] [--optimizers muon]

Settings are judged by the validation bound (IW) only, on splits that the table does not
use (seeds from 100 on); their test parts are never looked at. All learning rates,
noises and warm-ups of a group are trained at once; a group, optimiser or decay can be
run on its own. All trials are added to results/search/vaes.json (or `--out`). The best
of each group, among all entries with the same model, number of latent variables, splits
and importance samples, is printed as a line of reproduction/vaes/frey_settings.json: to
use a choice, put that line there.
"""

import dataclasses
import functools
import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np

from mmlp import atomic_files
from mmlp.cli.dataclass_parser import parse_or_exit
from reproduction.harness.parallel import map_in_processes
from reproduction.harness.result_cache import load_or_compute
from reproduction.vaes.fit_and_score import fit_recipes, score_models
from reproduction.vaes.images import ImageSettings
from reproduction.vaes.recipes import TUNED, Recipe, tuned_recipe

OUT = Path(__file__).parents[2] / "results" / "search" / "vaes.json"
GROUPS = ("matrix", "joint", "cholesky", "cholesky wide")
FIRST_SEED = 100

# Bounds are comparable if these settings are equal.
TASK_FIELDS = ("model", "latent", "seeds", "samples")

# Fields of a recipe that are recorded.
RECIPE_FIELDS = (
    "hidden",
    "features",
    "output",
    "batch",
    "epochs",
    "optimizer",
    "decay",
    "rise",
    "draws",
    "unit",
    "rate",
    "noise",
    "noise_end",
    "warm_up",
)

# Fields of an entry that are its outcome.
OUTCOME_FIELDS = ("run", "KLD", "validation")


@dataclasses.dataclass(frozen=True)
class Settings(ImageSettings):
    """Try learning rates, noise, KL warm-up, weight decay and optimisers."""

    groups: tuple[str, ...] = GROUPS
    model: str = "EfNf"
    latent: int = 5
    # Widths of all networks, instead of those of their groups.
    hidden: tuple[int, ...] | None = None
    optimizers: tuple[str, ...] = ("muon", "adam")
    decays: tuple[float, ...] = (0.0, 0.1)
    rates: tuple[float, ...] = (0.003, 0.006, 0.012, 0.024)
    noises: tuple[float, ...] = (0.06, 0.1, 0.2)
    # The part of the noise that remains at the end.
    left: tuple[float, ...] = (1.0, 0.0)
    warm_ups: tuple[float, ...] = (0.05, 0.3)
    seeds: int = 6
    epochs: int = 300
    # Importance samples.
    samples: int = 200
    # Processes that share the work, on a CPU.
    jobs: int = 2
    out: Path = OUT


def search(settings: Settings) -> dict[str, dict]:
    """Add all trials to the file, and return the best settings of each group."""
    unknown = [group for group in settings.groups if group not in GROUPS]
    if unknown:
        raise ValueError(
            f"`--groups` must be of {', '.join(GROUPS)}, got {', '.join(unknown)}."
        )
    # Read the images before any work, so that a missing file is reported only once.
    settings.read_images()

    work = itertools.product(
        [settings], settings.groups, settings.optimizers, settings.decays
    )
    results = map_in_processes(run_grid, list(work), "search", settings.jobs)
    trials = list(itertools.chain(*results))

    record: dict[str, Any] = {"tried": []}
    if settings.out.exists():
        record = json.loads(settings.out.read_text())
    entries = merge_trials(record["tried"], trials)
    write_trials({**record, "tried": entries}, settings.out)
    return {group: choose_best(group, entries, trials) for group in settings.groups}


def run_grid(
    settings: Settings, group: str, optimizer: str, decay: float
) -> list[dict]:
    """Train all cells of the grid at once, and return an entry of the file for each."""
    recipe = tuned_recipe(group, settings.model)
    recipe = dataclasses.replace(
        recipe,
        optimizer=optimizer,
        decay=decay,
        epochs=settings.epochs,
        # Validation images are not trained on.
        stopping=True,
        hidden=settings.hidden or recipe.hidden,
    )
    grid = itertools.product(
        settings.rates, settings.noises, settings.left, settings.warm_ups
    )
    recipes = [
        dataclasses.replace(
            recipe, rate=rate, noise=noise, noise_end=left * noise, warm_up=warm_up
        )
        for rate, noise, left, warm_up in grid
    ]

    descriptions = [dataclasses.asdict(recipe) for recipe in recipes]
    task = {name: getattr(settings, name) for name in TASK_FIELDS}
    key = {
        "search": {
            "recipes": descriptions,
            "images": settings.images,
            "first": FIRST_SEED,
            **task,
        }
    }
    compute = functools.partial(validate_recipes, settings, recipes)
    bounds = load_or_compute(settings.keep, key, compute)["validation"]
    entries = []
    for description, bound in zip(descriptions, bounds, strict=True):
        fields = {name: description[name] for name in RECIPE_FIELDS}
        entries.append({"group": group, **task, **fields, "validation": bound})
    # As they are read from the file, with lists in place of tuples.
    return json.loads(json.dumps(entries))


def validate_recipes(settings: Settings, recipes: list[Recipe]) -> dict[str, list]:
    """Return the validation bounds of each recipe over splits."""
    splits = settings.make_splits(range(FIRST_SEED, FIRST_SEED + settings.seeds))
    models = fit_recipes(recipes, splits, settings.latent).model
    scores = score_models(models, splits, settings.samples, part="validation")
    bounds = scores["IW"].reshape(-1, len(recipes)).T
    return {"validation": np.round(bounds, 3).tolist()}


def merge_trials(entries: list[dict], trials: list[dict]) -> list[dict]:
    """Return all entries with the new trials.

    A trial that was made before and gives another bound is a repetition, a "run".
    """
    merged = list(entries)
    for trial in trials:
        cell = cell_of(trial)
        runs = [entry for entry in merged if cell_of(entry) == cell]
        # As text, NaN equals NaN.
        known_bounds = [json.dumps(entry["validation"]) for entry in runs]
        if json.dumps(trial["validation"]) not in known_bounds:
            number = {"run": len(runs) + 1} if runs else {}
            merged.append(cell | number | {"validation": trial["validation"]})
    return merged


def choose_best(group: str, entries: list[dict], trials: list[dict]) -> dict[str, Any]:
    """Return the settings of a group with its best cell, by the mean of its runs.

    Parameters
    ----------
    group : str
    entries : list of dict
        All entries of the file.
    trials : list of dict
        The new ones. Entries of the same task compete.

    Returns
    -------
    dict
    """

    def task_of(entry: dict) -> list:
        return [entry[name] for name in ("group", *TASK_FIELDS)]

    task = next(task_of(trial) for trial in trials if trial["group"] == group)
    competing = [entry for entry in entries if task_of(entry) == task]

    def mean_bound(entry: dict) -> float:
        cell = cell_of(entry)
        runs = [other["validation"] for other in competing if cell_of(other) == cell]
        return float(np.mean(runs))

    finite = [entry for entry in competing if np.isfinite(mean_bound(entry))]
    best = max(finite, key=mean_bound, default={})
    return TUNED[group] | {name: best[name] for name in RECIPE_FIELDS if name in best}


def cell_of(entry: dict) -> dict:
    """Return what was tried, without its outcome."""
    return {name: x for name, x in entry.items() if name not in OUTCOME_FIELDS}


def write_trials(record: dict, path: Path) -> None:
    """Write the file, with a line for each entry."""
    head = "".join(
        f" {json.dumps(key)}: {json.dumps(value)},\n"
        for key, value in record.items()
        if key != "tried"
    )
    lines = ",\n".join(f"  {json.dumps(entry)}" for entry in record["tried"])
    path.parent.mkdir(parents=True, exist_ok=True)
    content = f'{{\n{head} "tried": [\n{lines}\n ]\n}}\n'
    atomic_files.replace_file(path, content.encode())


if __name__ == "__main__":
    settings = parse_or_exit(Settings, "python -m reproduction.searches.vaes")
    for name, values in search(settings).items():
        print(f'"{name}": {json.dumps(values)}')
