"""The search behind `frey_settings.json`: one grid for each group of networks, judged by the validation bound (IW) alone.

    python -m mmlp.experiments.frey_tune [--groups joint,cholesky] [--optimizers muon] [--hidden 60,60] [--data DIR]

It uses splits that the table does not (seeds from 100 on) and never looks at their test parts. Rates, noises and warm-ups
of a group are trained at once; a group, optimiser or decay can be run on its own. What was tried is added to
`frey_settings.json`, and each group that was run is chosen anew among all that has the same model, number of latent
variables, splits and importance samples.
"""

import dataclasses
import itertools
import json
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from mmlp.checkpoint import files
from mmlp.experiments import frey
from mmlp.experiments.harness import jobs
from mmlp.experiments.harness.run import main
from mmlp.experiments.vaes.core import score, train
from mmlp.pages import page as report

FIRST_SEED = 100
TASK = ("model", "latent", "seeds", "samples")  # bounds are comparable where these are equal
TRIED = (
    "hidden",
    "batch",
    "epochs",
    "optimizer",
    "decay",
    "rate",
    "noise",
    "noise_end",
    "warm_up",
)  # fields of a recipe


@dataclasses.dataclass(frozen=True)
class Settings:
    """Try step sizes, noise, KL warm-up, weight decay and optimisers for the networks of the Frey table."""

    groups: tuple[str, ...] = tuple(frey.TUNED)
    model: str = "EfNf"
    latent: int = 5
    hidden: tuple[int, ...] | None = None  # widths in place of the groups' own
    optimizers: tuple[str, ...] = ("muon", "adam")
    decays: tuple[float, ...] = (0.0, 0.1)
    rates: tuple[float, ...] = (0.003, 0.006, 0.012, 0.024)
    noises: tuple[float, ...] = (0.06, 0.1, 0.2)
    left: tuple[float, ...] = (1.0, 0.0)  # the part of the noise that remains at the end
    warm_ups: tuple[float, ...] = (0.05, 0.3)
    seeds: int = 6
    epochs: int = 300
    samples: int = 200
    write: bool = True  # into frey_settings.json
    images: str = "frey"
    data: Path | None = None
    keep: Path | None = None  # folder of finished parts: the same command goes on from there
    jobs: int = 2  # processes that share the work, on a CPU

    QUICK: ClassVar = {
        "groups": ("joint",),
        "optimizers": ("muon",),
        "decays": (0.0,),
        "rates": (0.012,),
        "noises": (0.1,),
        "warm_ups": (0.05,),
        "seeds": 2,
        "epochs": 2,
        "samples": 20,
        "write": False,
    }


def run(settings: Settings) -> dict:
    known = json.loads(frey.FILE.read_text())
    unknown = [group for group in settings.groups if group not in known["chosen"]]
    if unknown:
        raise ValueError(
            f"`--groups` must be of {', '.join(known['chosen'])}, got {', '.join(unknown)}."
        )
    frey.load_images(
        settings
    )  # before any work: a file that is missing is told, or downloaded, once
    work = itertools.product([settings], settings.groups, settings.optimizers, settings.decays)
    tried = list(itertools.chain(*jobs.each(grid_entries, list(work), "tune", settings.jobs)))
    found = merged(known, tried, settings.groups)
    if settings.write:
        write(found, frey.FILE)
    return {
        "title": "The search behind the Frey table",
        "tables": [table(group, tried) for group in settings.groups],
        "chosen": {group: found["chosen"][group] for group in settings.groups},
        "tried": tried,
    }


def grid_entries(settings: Settings, group: str, optimizer: str, decay: float) -> list[dict]:
    """One for each cell of the grid, all trained at once, as it stands in the file."""
    grid = itertools.product(settings.rates, settings.noises, settings.left, settings.warm_ups)
    cells = [{"rate": r, "noise": n, "noise_end": part * n, "warm_up": w} for r, n, part, w in grid]
    recipe = frey.recipe(group, settings.model)
    changes = {"optimizer": optimizer, "decay": decay, "epochs": settings.epochs}
    recipe = dataclasses.replace(recipe, **changes, hidden=settings.hidden or recipe.hidden)
    task = {name: getattr(settings, name) for name in TASK}

    def make() -> dict[str, list]:
        data = frey.Settings(images=settings.images, data=settings.data)
        splits = frey.splits_of(
            data, frey.load_images(data)[0], range(FIRST_SEED, FIRST_SEED + settings.seeds)
        )
        models = train(recipe, splits, settings.latent, cells=cells).model
        values = score(models, splits, settings.samples, part="validation", cells=len(cells))["IW"]
        return {"validation": np.round(values.reshape(-1, len(cells)).T, 3).tolist()}

    fixed = dataclasses.asdict(
        dataclasses.replace(recipe, **cells[0])
    )  # what cells change does not count
    about = {
        "recipe": fixed,
        "cells": cells,
        "images": settings.images,
        "first": FIRST_SEED,
        **task,
    }
    found = jobs.kept(settings.keep, {"frey-tune": about}, make)
    rows = [dataclasses.asdict(recipe) | cell for cell in cells]
    listed = [{"group": group, **task, **{name: row[name] for name in TRIED}} for row in rows]
    tried = [
        row | {"validation": bounds}
        for row, bounds in zip(listed, found["validation"], strict=True)
    ]
    return json.loads(json.dumps(tried))


def merged(known: dict, tried: list[dict], groups: tuple[str, ...]) -> dict:
    """The contents of the file with these entries added, and the choices of the groups from all of them.

    What was tried before and gives another bound is a repetition, a "run" of its own: a cell counts by the mean of its runs.
    """
    entries, chosen = list(known["tried"]), dict(known["chosen"])
    for entry in tried:
        runs = [e for e in entries if cell_of(e) == cell_of(entry)]
        if all(
            json.dumps(e["validation"]) != json.dumps(entry["validation"]) for e in runs
        ):  # NaN is equal to NaN
            number = {"run": len(runs) + 1} if runs else {}
            entries.append(cell_of(entry) | number | {"validation": entry["validation"]})
    for group in groups:
        task = next([entry[name] for name in TASK] for entry in tried if entry["group"] == group)
        alike = [e for e in entries if e["group"] == group and [e[name] for name in TASK] == task]

        def mean(entry: dict, alike=alike) -> float:
            return float(np.mean([e["validation"] for e in alike if cell_of(e) == cell_of(entry)]))

        usable = [entry for entry in alike if np.isfinite(mean(entry))]
        if usable:
            best = max(usable, key=mean)
            chosen[group] = chosen[group] | {name: best[name] for name in TRIED}
    return {"note": known["note"], "chosen": chosen, "tried": entries}


def cell_of(entry: dict) -> dict:
    """What was tried, without its outcome."""
    return {name: value for name, value in entry.items() if name not in ("run", "validation")}


def write(found: dict, path: Path) -> None:
    """A line for each choice and for each entry."""

    def lines(brackets: str, items: list[str]) -> str:
        return (
            brackets[0]
            + "".join(f"\n  {item}," for item in items).removesuffix(",")
            + f"\n {brackets[1]}"
        )

    chosen = lines(
        "{}",
        [f"{json.dumps(group)}: {json.dumps(values)}" for group, values in found["chosen"].items()],
    )
    tried = lines("[]", [json.dumps(entry) for entry in found["tried"]])
    text = (
        f'{{\n "note": {json.dumps(found["note"])},\n "chosen": {chosen},\n "tried": {tried}\n}}\n'
    )
    files.replace(path, text.encode())


def table(group: str, tried: list[dict]) -> dict:
    """The ten best cells of a group by their validation bound."""
    rows = sorted(
        (row for row in tried if row["group"] == group), key=lambda row: -np.mean(row["validation"])
    )
    names = [name for name in TRIED if name not in ("hidden", "batch", "epochs", "optimizer")]
    lines: list[dict[str, Any]] = [
        {
            "name": row["optimizer"],
            "cells": [*(f"{row[name]:g}" for name in names), report.cell(row["validation"])],
        }
        for row in rows[:10]
    ]
    return {"title": group, "columns": ["optimizer", *names, "validation IW"], "rows": lines}


def draw(record: dict, out: Path) -> None:
    """There is nothing to draw."""


if __name__ == "__main__":
    main("frey-tune")
