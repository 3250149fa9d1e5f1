"""VAEs with a covariance of all 560 raw pixels, which the paper could not afford.

python -m reproduction frey-pixels [--quick] [--data DIR] [--keep DIR] [--out report]

All models are densities of the same 560 pixels, in raw units, on the same splits. Ours has a
low-rank decoder, A = L H L' + diag; its rivals are the same with fixed loadings and no H, a plain
MLP that makes all loadings, a diagonal along principal directions, a dense covariance, a mixture of
factor analysers, and one Gaussian. A density of whole numbers has no upper limit: uniform noise in
[0, 1) is added to each pixel, once (dequantisation; Theis et al., 2016). Low rank is low rank in
the coordinates of pixels, each over its standard deviation; a diagonal and a dense covariance are
of all principal directions, each over a power of its standard deviation. The same command runs on a
GPU, and slowly on a CPU.
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

from mmlp.reporting.records import describe_device
from mmlp.reporting.tables import mean_cell
from reproduction.harness.claims import judged, judged_cases, more
from reproduction.harness.jobs import progress
from reproduction.vaes import analysers, data
from reproduction.vaes.fits import fit_recipes, scores_of_rows
from reproduction.vaes.recipes import Recipe, of_pixels

LOW_RANK, FIXED, PLAIN = "low rank", "fixed loadings", "plain MLP"
DIAGONAL, DENSE = "diagonal", "dense"
MIXTURE, GAUSSIAN = "mixture of factor analysers", "one Gaussian"
VAES = (LOW_RANK, FIXED, PLAIN, DIAGONAL, DENSE)
ROTATED = (DIAGONAL, DENSE)  # in the coordinates of principal directions
WHITENING = 0.6  # directions are divided by this power of their standard deviations
FACTORS = (
    40,
    80,
    120,
    160,
    200,
    280,
    400,
)  # of each component, fewer in all than images
MIXTURES = tuple((K, q) for K in (1, 2, 3, 4, 6, 8) for q in FACTORS)
SHOWN = 60  # samples in a figure
CAPTION = f"{SHOWN} samples of each model, noise included, and test images."
TITLES = {
    LOW_RANK: "low rank: L H L' + diagonal (ours)",
    FIXED: "low rank with fixed loadings, no H",
    PLAIN: "plain MLP with a low-rank head",
    DIAGONAL: "diagonal along principal directions",
    DENSE: "dense",
    MIXTURE: MIXTURE,
    GAUSSIAN: "one Gaussian, shrunk",
}


@dataclasses.dataclass(frozen=True)
class Settings(data.Data):
    """Low-rank, dense and diagonal covariances of all pixels."""

    seeds: int = 4  # splits
    test: int | None = None  # test images, by default all
    samples: int = 100  # importance samples
    epochs: int | None = None  # of every recipe, in place of its own
    hidden: tuple[int, ...] | None = (
        None  # widths of all networks, in place of their own
    )
    size: int | None = (
        None  # latent variables and loadings of all, in place of their own
    )

    QUICK: ClassVar = {
        "train": 35,
        "validation": 20,
        "test": 5,
        "samples": 2,
        "seeds": 2,
    }
    QUICK |= {"epochs": 2, "hidden": (8,), "size": 3}

    def recipe(self, name: str) -> tuple[Recipe, int]:
        recipe, latent = of_pixels(name)
        recipe = recipe.changed(self.epochs, self.hidden)
        if self.size is None:
            return recipe, latent
        return dataclasses.replace(recipe, rank=recipe.rank and self.size), self.size

    def parts(self) -> list[data.Parts]:
        images = self.read()[0]
        return [self.dequantised(images, seed, self.test) for seed in range(self.seeds)]


def run(settings: Settings) -> dict:
    (images, shape), parts = settings.read(), settings.parts()
    tests = [test for _, _, test in parts]
    whole = [data.principal_directions(split)[0] for split in parts]
    scores = {GAUSSIAN: {"IW": np.stack(list(map(data.gaussian, whole, tests)))}}
    found = {
        name: part(settings, name) for name in progress((*VAES, MIXTURE), "frey-pixels")
    }
    for name, by in found.items():
        scores[name] = {
            score: np.array(values) for score, values in by["scores"].items()
        }
    scores = {name: scores[name] for name in TITLES}
    costs = {name: found[name]["costs"] for name in VAES}
    pictures = {name: by["images"] for name, by in found.items()}
    pictures["test images"] = data.pack(255 / int(images.max()) * tests[0][:SHOWN])
    return {
        "title": f"Covariances of all {images.shape[1]} pixels",
        "about": "Test scores in nats per image, uniform noise in [0, 1) added to each pixel: mean "
        f"over {len(parts)} splits and its standard error. IW bounds log p(x) from below.",
        "tables": [table(scores), paired_table(scores), cost_table(costs)],
        "claims": claims(scores, costs),
        "figures": [{"file": "frey-pixels.png", "caption": CAPTION}],
        "notes": notes(settings, found),
        "scores": jax.tree.map(lambda values: np.round(values, 2).tolist(), scores),
        "costs": costs,
        "pictures": {"shape": shape, "images": pictures},
    }


def part(settings: Settings, name: str) -> dict:
    """One model on all splits: `scores` (splits, images) in raw units, costs, packed samples."""
    most = int(settings.read()[0].max())
    if name == MIXTURE:
        about = {"pixels": name, "mixtures": MIXTURES}
        make = partial(analysers.best, settings.parts(), MIXTURES, most, SHOWN)
        return settings.kept(about, make)
    recipe, latent = settings.recipe(name)
    make = partial(trained, recipe, latent, name in ROTATED, settings, most)
    about = {"pixels": name, "recipe": dataclasses.asdict(recipe), "latent": latent}
    return settings.kept(about, make)


def coordinates(parts: data.Parts, rotated: bool) -> data.Split:
    if not rotated:
        return data.encoded(parts, data.single_pixels(parts[0]))
    return data.encoded(
        parts, data.tempered(data.principal_directions(parts)[0], WHITENING)
    )


def trained(
    recipe: Recipe, latent: int, rotated: bool, settings: Settings, most: int
) -> dict:
    """The time of a step is that of the fastest epoch, validation included, over all splits."""
    splits = [coordinates(parts, rotated) for parts in settings.parts()]
    times = [time.perf_counter()]
    clock = [lambda info: times.append(time.perf_counter())]
    result = fit_recipes([recipe], splits, latent, on_epoch=clock)
    steps = recipe.steps(len(splits[0].train)) // recipe.epochs
    costs = {
        "device": f"{describe_device()}, jax {jax.__version__}",
        "ms per step and split": 1e3
        * float(np.diff(times).min())
        / steps
        / len(splits),
        "seconds": times[-1] - times[0],
        "peak memory (GiB)": peak_memory() / 2**30,
        "steps": len(result.history["loss"]) * steps,
        "skipped steps": int(result.history["skipped"].sum()),
    }
    X = np.stack([split.test for split in splits]).astype(np.float32)
    values = scores_of_rows(result.model, X, settings.samples)[..., :3]
    LL, KLD, IW = np.moveaxis(values, -1, 0)
    added = np.array([[split.components.log_jacobian] for split in splits])
    scores = {"KLD": KLD, "ELBO": LL - KLD + added, "IW": IW + added}
    first = jax.tree.map(lambda x: x[0], result.model)
    draws = np.asarray(first.sample(jax.random.key(3), SHOWN), np.float64)
    return {
        "scores": {name: np.round(by, 3).tolist() for name, by in scores.items()},
        "costs": costs,
        "images": data.pack(255 / most * splits[0].components.decode(draws)),
    }


def notes(settings: Settings, found: dict[str, dict]) -> list[str]:
    """What a reader must know."""
    chosen = ", ".join(f"{K} of {q}" for K, q in found[MIXTURE]["chosen"])
    splits = {name: len(by["scores"]["IW"]) for name, by in found.items()}
    few = [
        f"The {k} model has {n} of the splits."
        for k, n in splits.items()
        if n < settings.seeds
    ]
    return [
        "Each VAE had eight trials of rate, noise, rank and latent variables, judged by the "
        "validation images of a split that this table does not have (results/search/pixels.json); "
        "the plain MLP was given the sizes of ours afterwards. The dense one had eight of rate, "
        "noise and coordinates, on the first split. The best noise of the diagonal one is the "
        "largest that was tried.",
        f"The mixture is the best of {len(MIXTURES)} numbers of components and factors (fewer in "
        f"all than images), by the validation images of each split: {chosen}.",
        *few,
        f"IW has {settings.samples} importance samples, and where it is far above the ELBO more "
        "would raise it. Of the mixture and the Gaussian it is the exact log-density.",
        "The images are frames of one video, random ones in each part: they are not independent.",
    ]


def peak_memory() -> int:
    """The most bytes so far: of the device, or on a CPU of the process."""
    if known := jax.devices()[0].memory_stats():
        return known["peak_bytes_in_use"]
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def table(scores: dict[str, dict[str, np.ndarray]]) -> dict:
    columns, rows = ("KLD", "ELBO", "IW"), []
    for name, by in scores.items():
        cells = [
            mean_cell(by[score].mean(axis=1)) if score in by else None
            for score in columns
        ]
        first = float(by["IW"][0].mean())
        rows.append({"name": TITLES[name], "cells": [*cells, first]})
    names = ["model", *columns, "IW of the first split"]
    return {"title": "Log-density of test images", "columns": names, "rows": rows}


def paired_table(scores: dict[str, dict[str, np.ndarray]]) -> dict:
    ours, rows = scores[LOW_RANK]["IW"], []
    for name, by in scores.items():
        if name != LOW_RANK:
            difference = ours[: len(by["IW"])] - by["IW"]
            ahead = f"{np.mean(difference > 0):.0%}"
            rows.append(
                {
                    "name": TITLES[name],
                    "cells": [mean_cell(difference.mean(axis=1)), ahead],
                }
            )
    columns = ["rival", "IW of ours minus its own", "images on which ours is ahead"]
    return {
        "title": "Low rank against each rival, paired",
        "columns": columns,
        "rows": rows,
    }


def cost_table(costs: dict[str, dict[str, Any]]) -> dict:
    rows = [
        {"name": TITLES[name], "cells": list(by.values())} for name, by in costs.items()
    ]
    note = "All splits are trained at once. The peak of memory is that of the process so far."
    return {
        "title": "Cost",
        "note": note,
        "columns": ["model", *costs[DENSE]],
        "rows": rows,
    }


def claims(
    scores: dict[str, dict[str, np.ndarray]], costs: dict[str, dict]
) -> list[dict]:
    """Of mean IW of each split, paired, by two standard errors; of one split, of its images."""
    means = {name: by["IW"].mean(axis=1) for name, by in scores.items()}

    def against(name: str) -> tuple[dict, bool, str]:
        count = len(means[name])
        if count > 1:
            holds, by = more(means[LOW_RANK][:count], means[name])
        else:
            holds, by = more(scores[LOW_RANK]["IW"][0], scores[name]["IW"][0])
            by += " (over images of one split)"
        return {"the rival": name}, holds, f"over {name} {by}"

    rivals = [against(name) for name in scores if name not in (LOW_RANK, FIXED)]
    _, earned, by = against(FIXED)
    skipped = {name: by["skipped steps"] for name, by in costs.items()}
    ahead = "Ours: the low-rank decoder has a higher IW than every rival with another covariance."
    earns = "Ours: the matrix H that turns the loadings raises the IW above that of fixed ones."
    finite = "Ours: the low-rank model trains without a non-finite step."
    left_out = f"{skipped[LOW_RANK]} of {costs[LOW_RANK]['steps']} steps were left out"
    unit = "IW, nats per image: "
    found = [
        judged_cases(ahead, unit, rivals),
        judged(earns, earned, f"{unit}{by}."),
        judged(finite, skipped[LOW_RANK] == 0, f"{left_out}."),
    ]
    return list(filter(None, found))


def draw(record: dict, out: Path) -> None:
    pictures = record["result"]["pictures"]
    shape, packed = pictures["shape"], pictures["images"]
    images = {
        TITLES.get(name, name): data.unpack(text, shape[0] * shape[1])
        for name, text in packed.items()
    }
    data.mosaic(images, shape, 255, out / "frey-pixels.png", size=(4.2, 3.8))
