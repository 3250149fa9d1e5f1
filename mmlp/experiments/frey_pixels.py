"""A VAE with the full 560 x 560 covariance of the raw pixels, which the paper could not afford.

python -m mmlp.experiments.frey_pixels [--quick] [--data DIR] [--network cholesky] [--out report]

All models are densities of the same 560 pixels, in raw units, on the same split: the dense VAE, a
VAE with diagonal covariances, and the paper's pipeline, a VAE of the first ten principal components
with an independent Gaussian for each other direction. Pixels are whole numbers, on which a density
has no upper limit: uniform noise in [0, 1) is added to each, once (dequantisation; Theis et al.,
2016). A dense covariance is dense in any coordinates, so that those of the dense VAE are free: all
560 principal directions, each divided by a power of its standard deviation. A second diagonal VAE,
in the same coordinates, tells what these alone do. The same command runs on a GPU, and slowly on a
CPU.
"""

import dataclasses
import resource
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import jax
import numpy as np

from mmlp.datasets import Components
from mmlp.experiments.harness.claims import judged
from mmlp.experiments.harness.jobs import progress
from mmlp.experiments.harness.run import device, main
from mmlp.experiments.vaes import data, mosaics
from mmlp.experiments.vaes.fits import fit_recipes, scores_of_rows
from mmlp.experiments.vaes.recipes import Recipe, tuned

DENSE, DIAGONAL, ROTATED, PIPELINE = "dense", "diagonal", "rotated diagonal", "components"
GAUSSIAN = "one Gaussian"
DIAGONAL_MODEL = "NdNd"
PIPELINE_LATENT = 5
SHOWN = 100  # samples in a figure
CAPTION = f"{SHOWN} samples of each model, noise included (of the ten components only: the other "
CAPTION += "directions are at their mean), and test images."
Scores = dict[str, dict[str, np.ndarray]]  # by model and name: (splits, test images)


@dataclasses.dataclass(frozen=True)
class Settings(data.Data):
    """Dense against diagonal covariances of all pixels, and against the paper's ten components."""

    model: str = "NfNf"  # or another with a full decoder, such as EfNf
    network: str = "matrix"  # or "cholesky"
    latent: int = 20
    whitening: float = 0.6  # directions are divided by this power of their standard deviations
    seeds: int = 1  # splits
    test: int | None = None  # test images, by default all
    samples: int = 100  # importance samples
    epochs: int | None = None  # of every recipe, in place of its own
    hidden: tuple[int, ...] | None = None  # widths of all networks, in place of their own

    QUICK: ClassVar = {"latent": 3, "train": 35, "validation": 20, "test": 5, "samples": 2}
    QUICK |= {"epochs": 2, "hidden": (8,)}


def recipes(settings: Settings) -> dict[str, tuple[Recipe, int]]:
    """Recipe and number of latent variables of each VAE; the pipeline's is the best of `frey`."""
    groups = {"matrix": ("pixels", "joint"), "cholesky": ("pixels cholesky", "cholesky wide")}
    pixels, components = groups[settings.network]
    dense, diagonal = tuned(pixels, settings.model), tuned(pixels, DIAGONAL_MODEL)
    found = {DENSE: (dense, settings.latent), DIAGONAL: (diagonal, settings.latent)}
    pipeline = tuned(components, settings.model), PIPELINE_LATENT
    found |= {ROTATED: found[DIAGONAL], PIPELINE: pipeline}
    changes = settings.epochs, settings.hidden
    return {name: (recipe.changed(*changes), latent) for name, (recipe, latent) in found.items()}


def run(settings: Settings) -> dict:
    images, shape = settings.read()
    seeds, most = range(settings.seeds), int(images.max())
    parts = [settings.dequantised(images, seed, settings.test) for seed in seeds]
    tests = [test for _, _, test in parts]
    whole, shrinkages = zip(*map(data.principal_directions, parts), strict=True)
    others = [data.principal_directions(one, settings.components) for one in parts]
    rotated = [data.tempered(one, settings.whitening) for one in whole]
    coordinates = {
        DENSE: rotated,
        DIAGONAL: [data.single_pixels(train) for train, _, _ in parts],
        ROTATED: rotated,
        PIPELINE: [Components.fit(train, settings.components) for train, _, _ in parts],
    }
    scores, found = {GAUSSIAN: {"IW": np.stack(list(map(data.gaussian, whole, tests)))}}, {}
    for name, (recipe, latent) in progress(recipes(settings).items(), "frey-pixels"):
        splits = list(map(data.encoded, parts, coordinates[name]))
        make = partial(trained_and_scored, recipe, splits, latent, settings.samples, most)
        about = {"pixels": name, "recipe": dataclasses.asdict(recipe)}
        found[name] = settings.kept(about, make)
        LL, KLD, IW = np.array(found[name]["scores"])
        added = np.array([[split.components.log_jacobian] for split in splits])
        if name == PIPELINE:
            added = added + np.stack(list(map(data.gaussian, (tail for tail, _ in others), tests)))
        scores[name] = {"ELBO": LL - KLD + added, "IW": IW + added, "KLD": KLD}
    costs = {name: by["costs"] for name, by in found.items()}
    pictures = {name: by["images"] for name, by in found.items()}
    pictures["test images"] = mosaics.pack(255 / most * tests[0][:SHOWN])
    return {
        "title": f"A dense covariance of all {images.shape[1]} pixels",
        "about": "Test scores in nats per image, uniform noise in [0, 1) added to each pixel: mean "
        "and standard error over test images (mean of the splits). IW bounds log p(x) from below.",
        "tables": [table(settings, scores), cost_table(costs)],
        "claims": claims(scores, costs),
        "figures": [{"file": "frey-pixels.png", "caption": CAPTION}],
        "notes": notes(settings, [part for _, part in others], shrinkages),
        "scores": jax.tree.map(lambda values: np.round(values, 2).tolist(), scores),
        "costs": costs,
        "pictures": {"shape": shape, "images": pictures},
    }


def notes(settings: Settings, tails, wholes) -> list[str]:
    """What a reader must know; `tails` and `wholes` are the shrinkages of each split."""
    return [
        f"The pipeline is a VAE of {settings.components} components with an independent Gaussian "
        "for each other direction; their variances are shrunk to the mean by "
        f"{', '.join(f'{part:g}' for part in tails)}, chosen by validation.",
        "All directions together, which are the Gaussian and the coordinates of the dense VAE, are "
        f"shrunk by {', '.join(f'{part:g}' for part in wholes)}, by the same validation images.",
        "Rate, noise and coordinates of the dense VAE were the best of eight, by the validation "
        "images of the first split after 850 steps; those of the diagonal ones are the same, not "
        "tuned.",
        "Errors are over test images: one training run on one split says nothing of other runs.",
        f"IW has {settings.samples} importance samples, and where it is far above the ELBO more "
        "would raise it.",
        "The images are frames of one video, random ones in each part: they are not independent.",
    ]


def trained_and_scored(
    recipe: Recipe, splits: list[data.Split], latent: int, samples: int, most: int
) -> dict[str, Any]:
    """LL, KLD and IW (3, splits, images) in standardised units, costs, and packed samples.

    The time of a step is that of the fastest epoch, validation included.
    """
    times = [time.perf_counter()]
    clock = [lambda info: times.append(time.perf_counter())]
    result = fit_recipes([recipe], splits, latent, on_epoch=clock)
    steps = recipe.steps(len(splits[0].train)) // recipe.epochs
    costs = {
        "device": f"{device()}, jax {jax.__version__}",
        "seconds per step": float(np.diff(times).min()) / steps,
        "seconds": times[-1] - times[0],
        "peak memory (GiB)": peak_memory() / 2**30,
        "steps": len(result.history["loss"]) * steps,
        "skipped steps": int(result.history["skipped"].sum()),
    }
    X = np.stack([split.test for split in splits]).astype(np.float32)
    values = np.moveaxis(scores_of_rows(result.model, X, samples)[..., :3], -1, 0)
    first = jax.tree.map(lambda x: x[0], result.model)
    draws = np.asarray(first.sample(jax.random.key(3), SHOWN), np.float64)
    images = mosaics.pack(255 / most * splits[0].components.decode(draws))
    return {"scores": np.round(values, 3).tolist(), "costs": costs, "images": images}


def peak_memory() -> int:
    """The most bytes so far: of the device, or on a CPU of the process."""
    if known := jax.devices()[0].memory_stats():
        return known["peak_bytes_in_use"]
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def mean_and_error(values: np.ndarray) -> dict[str, float]:
    """A cell from (splits, images): the standard error over images is the mean of the splits'."""
    errors = values.std(axis=1, ddof=1) / values.shape[1] ** 0.5
    return {"mean": float(values.mean()), "error": float(errors.mean())}


def table(settings: Settings, scores: Scores) -> dict:
    names = {
        DENSE: f"{settings.model}, dense",
        DIAGONAL: f"{DIAGONAL_MODEL}, diagonal",
        ROTATED: f"{DIAGONAL_MODEL}, diagonal in the coordinates of the dense one",
        PIPELINE: f"{settings.components} components and Gaussians",
        GAUSSIAN: "one Gaussian, shrunk",
    }
    columns, rows = ("KLD", "ELBO", "IW"), []
    for key, name in names.items():
        known = [scores[key].get(score) for score in columns]
        cells = [None if values is None else mean_and_error(values) for values in known]
        rows.append({"name": name, "cells": cells})
    return {"title": "Log-density of test images", "columns": ["model", *columns], "rows": rows}


def cost_table(costs: dict[str, dict[str, Any]]) -> dict:
    columns = list(next(iter(costs.values())))
    rows = [{"name": name, "cells": list(by.values())} for name, by in costs.items()]
    note = "The peak of memory is that of the process so far, other rows included: a bound."
    return {"title": "Cost", "note": note, "columns": ["model", *columns], "rows": rows}


def claims(scores: Scores, costs: dict[str, dict[str, Any]]) -> list[dict]:
    outcomes, lines = [], []
    for other in (DIAGONAL, ROTATED, PIPELINE, GAUSSIAN):
        difference = scores[DENSE]["IW"] - scores[other]["IW"]
        mean, error = mean_and_error(difference).values()
        outcomes.append(({"the rival": other}, mean > 2 * error))
        share, median = np.mean(difference > 0), np.median(difference)
        line = f"over {other}: {mean:+.1f} ± {error:.1f}, median {median:+.1f}"
        lines.append(f"{line}, ahead on {share:.0%} of images")
    skipped, steps = costs[DENSE]["skipped steps"], costs[DENSE]["steps"]
    ahead = "Ours: the dense covariance of all pixels has a higher IW than the others, paired over "
    finite = [({"the run": "dense"}, skipped == 0)]
    evidence = f"{skipped} of {steps} steps were not finite and left out."
    found = [
        judged(f"{ahead}test images.", outcomes, f"IW, nats per image: {'; '.join(lines)}."),
        judged("Ours: the dense model trains without a non-finite step.", finite, evidence),
    ]
    return [claim for claim in found if claim is not None]


def draw(record: dict, out: Path) -> None:
    pictures = record["result"]["pictures"]
    height, width = pictures["shape"]
    images = {
        name: mosaics.unpack(text, height * width) for name, text in pictures["images"].items()
    }
    mosaics.save(images, (height, width), 255, out / "frey-pixels.png")


if __name__ == "__main__":
    main("frey-pixels")
