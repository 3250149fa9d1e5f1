"""Why a literal implementation collapses: the way from the paper's recipe to ours and back, one factor at a time.

python -m mmlp.experiments.collapse [--quick] [--data DIR] [--out report]

A VAE has collapsed when its encoder says nothing (KLD near zero): then it is one Gaussian with a network around it. The
first table adds one factor after the other to the paper's recipe, the second takes each one, but for those `LEFT_IN`, out
of the full recipe, and the third changes nothing but the scale of the initial weights.
"""

import dataclasses
import itertools
from pathlib import Path
from typing import Any, ClassVar

from mmlp.experiments import frey
from mmlp.experiments.harness import jobs
from mmlp.experiments.harness.claims import judged, more
from mmlp.experiments.harness.run import main
from mmlp.experiments.vaes.core import COLLAPSED, Recipe, score, train
from mmlp.pages import page as report

LITERAL = "the paper's recipe"
# Not taken away: calibration makes the first void, the size of batches is a matter of time, and `joint` implies the third.
LEFT_IN = ("weights for d H", "batches of 50", "direct vector path")


@dataclasses.dataclass(frozen=True)
class Settings:
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
    images: str = "frey"
    data: Path | None = None
    keep: Path | None = None  # folder of finished rows: the same command goes on from there
    jobs: int = 2  # processes that share the rows, on a CPU

    QUICK: ClassVar = {
        "hidden": (8,),
        "scales": (0.1,),
        "added": 4,
        "back": False,
        "seeds": 2,
        "epochs": 1,
        "samples": 20,
    }


def factors(full: Recipe) -> list[tuple[str, dict[str, Any]]]:
    """The parts of the recipe, in the order in which they are added."""
    return [
        ("weights for d H", {"literal": False}),
        ("calibrated initialisation", {"calibrated": True}),
        ("batches of 50", {"batch": full.batch}),
        ("warm-up of the KL term", {"warm_up": full.warm_up}),
        (
            "Muon, with decay of the step",
            {"optimizer": full.optimizer, "rate": full.rate, "cosine": True},
        ),
        ("best epoch kept", {"stopping": True}),
        ("noise on the training data", {"noise": full.noise}),
        ("a vector path twice as wide", {"features": tuple(2 * width for width in full.hidden)}),
        ("linear output kernel", {"output": "linear"}),
        ("direct vector path", {"direct": True}),
        ("a standard MLP joined to it", {"joint": True}),
    ]


def run(settings: Settings) -> dict:
    frey.load_images(
        settings
    )  # before any work: a file that is missing is told, or downloaded, once
    literal = Recipe(settings.model, hidden=settings.hidden, epochs=settings.epochs, literal=True)
    full = dataclasses.replace(
        frey.recipe("matrix", settings.model), hidden=settings.hidden, noise=settings.noise
    )
    parts = factors(full)[: settings.added]
    steps, recipe = [(LITERAL, literal)], literal
    for name, change in parts:
        recipe = dataclasses.replace(recipe, **change)
        steps.append((f"+ {name}", recipe))
    without = [
        (f"- {name}", dataclasses.replace(recipe, **{key: getattr(literal, key) for key in change}))
        for name, change in parts
        if settings.back and name not in LEFT_IN
    ]
    scaled = [
        (f"weights times {scale:g}", dataclasses.replace(literal, scale=scale))
        for scale in settings.scales
    ]
    rows = steps + without + scaled
    unique = list(dict.fromkeys(one for _, one in rows))
    found = dict(
        zip(
            unique,
            jobs.each(scored, [(settings, one) for one in unique], "collapse", settings.jobs),
            strict=True,
        )
    )
    scores = {name: found[one] for name, one in rows}

    def table(title: str, rows: list[tuple[str, Recipe]]) -> dict:
        lines = [
            {"name": name, "cells": [report.cell(scores[name][key]) for key in frey.SCORES]}
            for name, _ in rows
        ]
        return {"title": title, "columns": ["recipe", *frey.SCORES], "rows": lines}

    tables = [table("One factor added after the other", steps)]
    if without:
        tables.append(table("One factor taken away", steps[-1:] + without))
    if scaled:
        tables.append(
            table("The scale of the initial weights, in the paper's recipe", steps[:1] + scaled)
        )
    return {
        "title": "Why it collapses",
        "about": f"{settings.model}, {settings.latent} latent variables, widths {literal.hidden}, {settings.epochs} epochs: "
        "test scores in nats per image, mean and standard error over splits.",
        "tables": tables,
        "claims": claims(scores, [name for name, _ in steps], [name for name, _ in without]),
        "scores": scores,
    }


def scored(settings: Settings, recipe: Recipe) -> dict[str, list[float]]:
    """Scores of a recipe over splits."""

    def make() -> dict[str, list[float]]:
        data = frey.Settings(images=settings.images, data=settings.data, seeds=settings.seeds)
        splits = frey.splits_of(data, frey.load_images(data)[0])
        values = score(train(recipe, splits, settings.latent).model, splits, settings.samples)
        return {key: values[key].tolist() for key in frey.SCORES}

    about = {"recipe": dataclasses.asdict(recipe)}
    about |= {key: getattr(settings, key) for key in ("latent", "seeds", "samples", "images")}
    return jobs.kept(settings.keep, {"collapse": about}, make)


def claims(
    scores: dict[str, dict[str, list[float]]], steps: list[str], without: list[str]
) -> list[dict]:
    """By more than two standard errors of differences paired over splits; a single split shows nothing."""
    full, literal = steps[-1], scores[LITERAL]["KLD"]
    collapsed, distance = more([COLLAPSED - kld for kld in literal], 0.0)
    ladder = [
        (name, *more(scores[name]["IW"], scores[before]["IW"]))
        for before, name in itertools.pairwise(steps)
    ]
    removed = [(name, *more(scores[full]["IW"], scores[name]["IW"])) for name in without]
    found = [
        judged(
            f"Ours: the paper's recipe, taken literally, collapses (KLD below {COLLAPSED} nats).",
            [({"the recipe": "literal"}, collapsed)],
            f"KLD: {', '.join(f'{kld:.2g}' for kld in literal)}; below the limit by {distance}.",
        )
    ]
    for claim, rows in (
        ("Ours: each factor, added to those before it, raises IW.", ladder),
        ("Ours: taking one factor out of the full recipe lowers IW.", removed),
    ):
        evidence = "; ".join(f"{name}: {difference}" for name, _, difference in rows)
        found.append(
            judged(
                claim, [({"the factor": name}, holds) for name, holds, _ in rows], f"{evidence}."
            )
        )
    return [claim for claim in found if claim is not None]


def draw(record: dict, out: Path) -> None:
    """The tables say it."""


if __name__ == "__main__":
    main("collapse")
