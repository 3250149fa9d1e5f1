"""The search behind `frey_settings.json`: a grid for each group of networks, judged by the validation bound (IW).

python -m mmlp.experiments.frey_tune [--groups direct,cholesky] [--rates 0.006,0.012] [--noises 0.1] ...

It uses splits that the table does not (seeds from 100 on). Rates, noises and warm-ups of a group are trained at once; a
GPU takes about a minute for a group of 27 runs. The result holds every cell; nothing is written into the settings by itself.
"""

import dataclasses
import itertools
from pathlib import Path
from typing import ClassVar

import numpy as np

from mmlp.experiments import _run, frey, report
from mmlp.experiments._vaes import make_split, score, train


@dataclasses.dataclass(frozen=True)
class Settings:
    """Try step sizes, noise, KL warm-up, weight decay and optimisers for the networks of the Frey table."""

    groups: tuple[str, ...] = tuple(frey.TUNED)
    model: str = "NfNf"
    latent: int = 5
    optimizers: tuple[str, ...] = ("muon", "adam")
    decays: tuple[float, ...] = (0.0, 0.1)
    rates: tuple[float, ...] = (0.003, 0.006, 0.012, 0.024)
    noises: tuple[float, ...] = (0.0, 0.06, 0.1, 0.14)
    warm_ups: tuple[float, ...] = (0.0, 0.15, 0.3)
    seeds: int = 3
    epochs: int = 300
    samples: int = 200
    images: str = "frey"
    data: Path | None = None

    QUICK: ClassVar = {
        "groups": ("direct",),
        "optimizers": ("muon",),
        "decays": (0.0,),
        "rates": (0.012,),
        "noises": (0.1,),
        "seeds": 2,
        "epochs": 5,
        "samples": 20,
    }


def run(settings: Settings) -> dict:
    images = frey.load_images(frey.Settings(images=settings.images, data=settings.data))
    splits = [make_split(images, 100 + seed, train=1000, validation=150, count=10) for seed in range(settings.seeds)]
    grid = itertools.product(settings.rates, settings.noises, settings.warm_ups)
    cells = [{"rate": rate, "noise": noise, "warm_up": warm_up} for rate, noise, warm_up in grid]
    tried = []
    work = list(itertools.product(settings.groups, settings.optimizers, settings.decays))
    for group, optimizer, decay in _run.progress(work, "tune"):
        changes = {"optimizer": optimizer, "decay": decay, "epochs": settings.epochs}
        recipe = dataclasses.replace(frey.recipe(group, settings.model), **changes)
        models = train(recipe, splits, settings.latent, cells=cells).model
        for part in ("validation", "test"):
            values = score(models, splits, settings.samples, part=part, cells=len(cells))["IW"].reshape(-1, len(cells))
            for cell, value in zip(cells, values.T, strict=True):
                key = {"group": group, "optimizer": optimizer, "decay": decay, **cell}
                tried.append(key | {"part": part, "IW": value.tolist()})
    return {"title": "The search behind the Frey table", "tables": tables(tried), "tried": tried}


def tables(tried: list[dict]) -> list[dict]:
    """The ten best cells of each group by their validation bound, with what they have on the test part."""
    names = ("optimizer", "decay", "rate", "noise", "warm_up")
    found = []
    for group in dict.fromkeys(row["group"] for row in tried):
        rows = [row for row in tried if row["group"] == group]
        test = {tuple(row[name] for name in names): row["IW"] for row in rows if row["part"] == "test"}
        validated = sorted((row for row in rows if row["part"] == "validation"), key=lambda row: -np.mean(row["IW"]))
        lines = []
        for row in validated[:10]:
            key = tuple(row[name] for name in names)
            lines.append(
                {"name": str(key[0]), "cells": [*map(str, key[1:]), report.cell(row["IW"]), report.cell(test[key])]}
            )
        found.append({"title": group, "columns": [*names, "validation IW", "test IW"], "rows": lines})
    return found


def draw(record: dict, out: Path) -> None:
    """There is nothing to draw."""


if __name__ == "__main__":
    _run.main("frey-tune", Settings, run, draw)
