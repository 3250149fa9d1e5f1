"""Which settings suit the networks of the Frey table? One grid for each group of networks.

    python -m reproduction.searches.vaes [--groups joint,cholesky] [--optimizers muon] [--data DIR]

Judged by the validation bound (IW) alone, on splits that the table does not use (seeds from 100
on); their test parts are never looked at. All rates, noises and warm-ups of a group are trained at
once; a group, optimiser or decay can be run on its own. What was tried is added to
results/search/vaes.json (or `--out`). The best of each group, among all entries with the same
model, number of latent variables, splits and importance samples, is printed as a line of
reproduction/vaes/frey_settings.json: to take over a choice, put that line there.
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
from reproduction.harness.jobs import each, kept
from reproduction.vaes.data import Data
from reproduction.vaes.fits import fit_recipes, score
from reproduction.vaes.recipes import TUNED, Recipe, tuned

OUT = Path(__file__).parents[2] / "results" / "search" / "vaes.json"
GROUPS = ("matrix", "joint", "cholesky", "cholesky wide")
FIRST_SEED = 100
TASK = (
    "model",
    "latent",
    "seeds",
    "samples",
)  # bounds are comparable where these are equal
TRIED = (  # fields of a recipe
    *(
        "hidden",
        "features",
        "output",
        "batch",
        "epochs",
        "optimizer",
        "decay",
        "rise",
        "draws",
    ),
    *("unit", "rate", "noise", "noise_end", "warm_up"),
)


@dataclasses.dataclass(frozen=True)
class Settings(Data):
    """Try step sizes, noise, KL warm-up, weight decay and optimisers for the Frey table."""

    groups: tuple[str, ...] = GROUPS
    model: str = "EfNf"
    latent: int = 5
    hidden: tuple[int, ...] | None = None  # widths in place of the groups' own
    optimizers: tuple[str, ...] = ("muon", "adam")
    decays: tuple[float, ...] = (0.0, 0.1)
    rates: tuple[float, ...] = (0.003, 0.006, 0.012, 0.024)
    noises: tuple[float, ...] = (0.06, 0.1, 0.2)
    left: tuple[float, ...] = (
        1.0,
        0.0,
    )  # the part of the noise that remains at the end
    warm_ups: tuple[float, ...] = (0.05, 0.3)
    seeds: int = 6
    epochs: int = 300
    samples: int = 200
    jobs: int = 2  # processes that share the work, on a CPU
    out: Path = OUT


def search(settings: Settings) -> dict[str, dict]:
    """Add what is tried to the file; gives the settings of each group at their best."""
    unknown = [group for group in settings.groups if group not in GROUPS]
    if unknown:
        raise ValueError(
            f"`--groups` must be of {', '.join(GROUPS)}, got {', '.join(unknown)}."
        )
    settings.read()  # before any work: a file that is missing is told, or downloaded, once
    work = itertools.product(
        [settings], settings.groups, settings.optimizers, settings.decays
    )
    tried = list(
        itertools.chain(*each(grid_entries, list(work), "search", settings.jobs))
    )
    known = (
        json.loads(settings.out.read_text()) if settings.out.exists() else {"tried": []}
    )
    entries = merged(known["tried"], tried)
    write({**known, "tried": entries}, settings.out)
    return {group: chosen(group, entries, tried) for group in settings.groups}


def grid_entries(
    settings: Settings, group: str, optimizer: str, decay: float
) -> list[dict]:
    """One for each cell of the grid, all trained at once, as it stands in the file."""
    recipe = tuned(group, settings.model)
    changes: dict[str, Any] = {
        "optimizer": optimizer,
        "decay": decay,
        "epochs": settings.epochs,
    }
    changes["stopping"] = True  # validation images are not trained on
    recipe = dataclasses.replace(
        recipe, **changes, hidden=settings.hidden or recipe.hidden
    )
    grid = itertools.product(
        settings.rates, settings.noises, settings.left, settings.warm_ups
    )
    recipes = [
        dataclasses.replace(
            recipe, rate=rate, noise=noise, noise_end=part * noise, warm_up=warm_up
        )
        for rate, noise, part, warm_up in grid
    ]
    rows = [dataclasses.asdict(one) for one in recipes]
    task = {name: getattr(settings, name) for name in TASK}
    about = {"recipes": rows, "images": settings.images, "first": FIRST_SEED, **task}
    make = functools.partial(validated, settings, recipes)
    bounds = kept(settings.keep, {"search": about}, make)["validation"]
    entries = [
        {
            "group": group,
            **task,
            **{name: row[name] for name in TRIED},
            "validation": bound,
        }
        for row, bound in zip(rows, bounds, strict=True)
    ]
    return json.loads(json.dumps(entries))


def validated(settings: Settings, recipes: list[Recipe]) -> dict[str, list]:
    """The validation bounds of each recipe over splits."""
    splits = settings.splits(range(FIRST_SEED, FIRST_SEED + settings.seeds))
    models = fit_recipes(recipes, splits, settings.latent).model
    values = score(models, splits, settings.samples, part="validation")["IW"]
    return {"validation": np.round(values.reshape(-1, len(recipes)).T, 3).tolist()}


def merged(known: list[dict], tried: list[dict]) -> list[dict]:
    """All entries; what was tried before and gives another bound is a repetition, a "run"."""
    entries = list(known)
    for entry in tried:
        runs = [other for other in entries if cell_of(other) == cell_of(entry)]
        bounds = [
            json.dumps(other["validation"]) for other in runs
        ]  # as text NaN equals NaN
        if json.dumps(entry["validation"]) not in bounds:
            number = {"run": len(runs) + 1} if runs else {}
            entries.append(
                cell_of(entry) | number | {"validation": entry["validation"]}
            )
    return entries


def chosen(group: str, entries: list[dict], tried: list[dict]) -> dict[str, Any]:
    """The settings of a group with its best cell, by the mean of its runs."""

    def task(entry: dict) -> list:
        return [entry[name] for name in ("group", *TASK)]

    now = next(task(entry) for entry in tried if entry["group"] == group)
    alike = [entry for entry in entries if task(entry) == now]

    def mean(entry: dict) -> float:
        runs = [
            other["validation"] for other in alike if cell_of(other) == cell_of(entry)
        ]
        return float(np.mean(runs))

    usable = [entry for entry in alike if np.isfinite(mean(entry))]
    best = max(usable, key=mean, default={})
    return TUNED[group] | {name: best[name] for name in TRIED if name in best}


def cell_of(entry: dict) -> dict:
    """What was tried, without its outcome."""
    outcome = ("run", "KLD", "validation")
    return {name: value for name, value in entry.items() if name not in outcome}


def write(found: dict, path: Path) -> None:
    """A line for each entry."""
    head = "".join(
        f" {json.dumps(k)}: {json.dumps(v)},\n"
        for k, v in found.items()
        if k != "tried"
    )
    tried = ",\n".join(f"  {json.dumps(entry)}" for entry in found["tried"])
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic_files.replace_file(
        path, f'{{\n{head} "tried": [\n{tried}\n ]\n}}\n'.encode()
    )


if __name__ == "__main__":
    settings = parse_or_exit(Settings, "python -m reproduction.searches.vaes")
    for name, values in search(settings).items():
        print(f'"{name}": {json.dumps(values)}')
