"""A VAE with the full 560 x 560 covariance of the raw pixels of the Frey faces, which the paper could not afford.

python -m mmlp.experiments.frey_pixels [--quick] [--data DIR] [--network cholesky] [--steps N] [--out report]

All models are densities of the same vector of 560 pixels, in the raw units 0 to 256, on the same split: the dense VAE, the
VAE with a diagonal covariance, and the pipeline of the paper, which is a VAE of the first ten principal components with an
independent Gaussian for each of the other directions. Pixels are whole numbers, on which a continuous density has no upper
limit: uniform noise in [0, 1) is added to each, once, in all parts of the data (dequantisation; Theis et al., 2016). The
same command runs on a GPU, and slowly on a CPU.

A dense covariance is dense in any coordinates, so that those of the dense VAE are free: all 560 principal directions, each
divided by a power of its standard deviation. The diagonal VAEs have diagonal covariances in encoder and decoder; one of
them, in the coordinates of the dense VAE, tells what these alone do.
"""

import dataclasses
import math
import resource
import sys
import time
from pathlib import Path
from typing import Any, ClassVar

import jax
import numpy as np

from mmlp.datasets import Components, random_split
from mmlp.experiments import frey
from mmlp.experiments.harness import jobs
from mmlp.experiments.harness.claims import judged
from mmlp.experiments.harness.run import device, main
from mmlp.experiments.vaes import mosaics
from mmlp.experiments.vaes.core import Recipe, Split, scores_of_rows, take, train

SHRINKAGES = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)  # of variances to their mean; 1 is isotropic
CALIBRATION_ROWS = 100  # each has a matrix of the size of the covariance
DENSE, DIAGONAL, ROTATED, PIPELINE, GAUSSIAN = (
    "dense",
    "diagonal",
    "rotated diagonal",
    "components",
    "one Gaussian",
)
PIPELINE_LATENT = 5
SHOWN = 100  # samples in a figure


@dataclasses.dataclass(frozen=True)
class Settings:
    """Dense against diagonal covariances of all pixels, and against the paper's ten components."""

    model: str = "NfNf"  # or another with a full decoder, such as EfNf
    diagonal: str = "NdNd"
    network: str = "matrix"  # or "cholesky"
    hidden: tuple[int, ...] = (30, 30)
    features: tuple[int, ...] | None = (100, 100)  # widths of the vector path of a matrix MLP
    latent: int = 20
    steps: int = 6000
    batch: int = 50
    rate: float = 0.006
    warm_up: float = 0.3
    noise: float = 0.3  # standard deviation, in the coordinates of the VAE
    left: float = 0.0  # the part of the noise that remains at the end of training
    whitening: float = (
        0.6  # the power of a direction's standard deviation by which it is divided; 1 is white
    )
    seeds: int = 1  # splits
    train: int = 1000
    validation: int = 150
    test: int | None = None  # test images, by default all
    samples: int = 100  # importance samples
    components: int = 10
    pipeline_epochs: int | None = None  # by default as in the table of ten components
    images: str = "frey"
    data: Path | None = None
    keep: Path | None = None  # folder of finished models: the same command goes on from there

    QUICK: ClassVar = {
        "hidden": (8,),
        "features": (8,),
        "latent": 3,
        "steps": 6,
        "batch": 5,
        "train": 35,
        "validation": 20,
        "test": 5,
        "samples": 2,
        "pipeline_epochs": 1,
    }


def recipes(settings: Settings) -> dict[str, tuple[Recipe, int]]:
    """Recipe and number of latent variables of each VAE; the pipeline's is the best group's of `frey`."""
    rows = settings.train - settings.validation
    pixels = Recipe(
        settings.model,
        network=settings.network,
        hidden=settings.hidden,
        features=settings.features if settings.network == "matrix" else None,
        output="linear",
        direct=settings.network == "matrix",
        calibrated=True,
        unit=True,
        optimizer="muon",
        rate=settings.rate,
        cosine=True,
        batch=settings.batch,
        epochs=max(1, round(settings.steps / -(-rows // settings.batch))),
        warm_up=settings.warm_up,
        noise=settings.noise,
        noise_end=settings.left * settings.noise,
        stopping=True,
    )
    pipeline = frey.recipe(
        "joint" if settings.network == "matrix" else "cholesky wide", settings.model
    )
    if settings.pipeline_epochs is not None:
        pipeline = dataclasses.replace(pipeline, epochs=settings.pipeline_epochs)
    return {
        DENSE: (pixels, settings.latent),
        DIAGONAL: (dataclasses.replace(pixels, model=settings.diagonal), settings.latent),
        ROTATED: (dataclasses.replace(pixels, model=settings.diagonal), settings.latent),
        PIPELINE: (pipeline, PIPELINE_LATENT),
    }


def parts_of(
    images: np.ndarray, settings: Settings, seed: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Training, validation and test images with uniform noise in [0, 1) added."""
    X = images + np.random.default_rng([seed, 1]).random(images.shape)
    rows, rest = random_split(len(X), settings.train, seed)
    return X[rows[settings.validation :]], X[rows[: settings.validation]], X[rest[: settings.test]]


def encoded(parts: tuple[np.ndarray, ...], components: Components) -> Split:
    train, validation, test = map(components.encode, parts)
    return Split(train, validation, test, components)


def pixel_components(X: np.ndarray) -> Components:
    """Each pixel by itself, standardised: the way to and from standardised pixels is that of `Components`."""
    return Components(X.mean(axis=0), np.eye(X.shape[1]), X.std(axis=0))


def principal_directions(parts: tuple[np.ndarray, ...], first: int = 0) -> tuple[Components, float]:
    """All from `first` on, divided by their standard deviations, and how much these were shrunk.

    Variances of the training images are shrunk to their mean as validation has it best: the last of many directions have
    far less variance in the training images than in others.
    """
    mean = parts[0].mean(axis=0)
    axes = np.linalg.svd(parts[0] - mean)[2][first:]
    variances = np.mean(((parts[0] - mean) @ axes.T) ** 2, axis=0)

    def shrunk(part: float) -> Components:
        return Components(mean, axes, np.sqrt((1 - part) * variances + part * variances.mean()))

    best = max(SHRINKAGES, key=lambda part: gaussian(shrunk(part), parts[1]).mean())
    return shrunk(best), best


def gaussian(components: Components, X: np.ndarray) -> np.ndarray:
    """Log-densities (n,) in raw units of independent Gaussians along the components."""
    S = components.encode(X)
    return -0.5 * np.sum(S**2 + math.log(2 * math.pi), axis=1) + components.log_jacobian


def tempered(components: Components, power: float) -> Components:
    """Divided by the `power` of each standard deviation only; the mean of the (shrunk) variances is one."""
    scale = components.scale**power
    return dataclasses.replace(
        components, scale=scale * np.sqrt(np.mean((components.scale / scale) ** 2))
    )


def run(settings: Settings) -> dict:
    images, shape = frey.load_images(settings)
    everything = [parts_of(images, settings, seed) for seed in range(settings.seeds)]
    whole, shrinkages = zip(*map(principal_directions, everything), strict=True)
    tails = [principal_directions(parts, settings.components) for parts in everything]
    rotated = [
        encoded(parts, tempered(one, settings.whitening))
        for parts, one in zip(everything, whole, strict=True)
    ]
    coordinates = {
        DENSE: rotated,
        DIAGONAL: [encoded(parts, pixel_components(parts[0])) for parts in everything],
        ROTATED: rotated,
        PIPELINE: [
            encoded(parts, Components.fit(parts[0], settings.components)) for parts in everything
        ],
    }
    most = int(images.max())
    scores: dict[str, dict[str, Any]] = {}
    costs, pictures = {}, {}
    about = {
        name: value
        for name, value in dataclasses.asdict(settings).items()
        if name not in ("data", "keep")
    }
    for name, (recipe, latent) in jobs.progress(recipes(settings).items(), "frey-pixels"):
        splits = coordinates[name]

        def make(splits=splits, recipe=recipe, latent=latent):
            return trained_and_scored(recipe, splits, latent, settings.samples, most)

        found = jobs.kept(
            settings.keep,
            {"frey-pixels": about, "of": name, "recipe": dataclasses.asdict(recipe)},
            make,
        )
        added = np.array([[split.components.log_jacobian] for split in splits])
        if name == PIPELINE:
            added = added + np.stack(
                [
                    gaussian(tail, parts[2])
                    for (tail, _), parts in zip(tails, everything, strict=True)
                ]
            )
        LL, KLD, IW = np.array(found["scores"])
        scores[name] = {"ELBO": LL - KLD + added, "IW": IW + added, "KLD": KLD}
        costs[name], pictures[name] = found["costs"], found["images"]
    scores[GAUSSIAN] = {
        "IW": np.stack(
            [gaussian(one, parts[2]) for one, parts in zip(whole, everything, strict=True)]
        )
    }
    pictures["test images"] = mosaics.pack(255 / most * everything[0][2][:SHOWN])
    return {
        "title": f"A dense covariance of all {images.shape[1]} pixels",
        "about": "Test scores in nats per image, uniform noise in [0, 1) added to each pixel: mean and standard error over "
        "test images (mean of the splits). IW bounds log p(x) from below.",
        "tables": [table(settings, scores), cost_table(costs)],
        "claims": claims(scores, costs),
        "figures": [
            {
                "file": "frey-pixels.png",
                "caption": f"{SHOWN} samples of each model, noise included (of the ten components only: the other "
                "directions are at their mean), and test images.",
            }
        ],
        "notes": [
            f"The pipeline is a VAE of {settings.components} components with an independent Gaussian for each other "
            "direction; their variances are shrunk to the mean by "
            f"{', '.join(f'{shrinkage:g}' for _, shrinkage in tails)}, chosen by validation.",
            f"All directions together, which are the Gaussian and the coordinates of the dense VAE, are shrunk by "
            f"{', '.join(f'{shrinkage:g}' for shrinkage in shrinkages)}, by the same validation images.",
            "Rate, noise and coordinates of the dense VAE were the best of eight, by the validation images of the first "
            "split after 850 steps; those of the diagonal ones are the same, not tuned.",
            "Errors are over test images: one training run on one split says nothing of other runs.",
            f"IW has {settings.samples} importance samples, and where it is far above the ELBO more would raise it.",
            "The images are frames of one video, random ones in each part: they are not independent.",
        ],
        "scores": {
            name: {key: np.round(v, 2).tolist() for key, v in by.items()}
            for name, by in scores.items()
        },
        "costs": costs,
        "pictures": {"shape": shape, "images": pictures},
    }


def trained_and_scored(
    recipe: Recipe, splits: list[Split], latent: int, samples: int, most: int
) -> dict[str, Any]:
    """LL, KLD and IW (3, splits, images) in standardised units, what training cost, and a packed sample."""
    models, costs = timed(recipe, splits, latent)
    values = scores_of_rows(
        models, np.stack([split.test for split in splits]).astype(np.float32), samples
    )
    draws = np.asarray(take(models, 0).sample(jax.random.key(3), SHOWN), np.float64)
    images = mosaics.pack(255 / most * splits[0].components.decode(draws))
    return {
        "scores": np.round(np.moveaxis(values[..., :3], -1, 0), 3).tolist(),
        "costs": costs,
        "images": images,
    }


def timed(recipe: Recipe, splits: list[Split], latent: int) -> tuple[Any, dict[str, Any]]:
    """Trained models, and what that cost; the time of a step is that of the fastest epoch, validation included."""
    times = [time.perf_counter()]
    result = train(
        recipe,
        splits,
        latent,
        calibration_rows=CALIBRATION_ROWS,
        on_epoch=[lambda info: times.append(time.perf_counter())],
    )
    steps = recipe.steps(len(splits[0].train)) // recipe.epochs
    costs = {
        "device": f"{device()}, jax {jax.__version__}",
        "seconds per step": float(np.diff(times).min()) / steps,
        "seconds": times[-1] - times[0],
        "peak memory (GiB)": peak_memory() / 2**30,
        "steps": len(result.history["loss"]) * steps,
        "skipped steps": int(result.history["skipped"].sum()),
    }
    return result.model, costs


def peak_memory() -> int:
    """The most bytes so far: of the device, or on a CPU of the process."""
    known = jax.devices()[0].memory_stats()
    unit = 1 if sys.platform == "darwin" else 1024
    return (
        known["peak_bytes_in_use"]
        if known
        else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    )


def mean_and_error(values: np.ndarray) -> dict[str, float]:
    """A cell from (splits, images): the standard error over images is the mean of the splits'."""
    errors = values.std(axis=1, ddof=1) / values.shape[1] ** 0.5
    return {"mean": float(values.mean()), "error": float(errors.mean())}


def table(settings: Settings, scores: dict[str, dict[str, np.ndarray]]) -> dict:
    names = {
        DENSE: f"{settings.model}, dense",
        DIAGONAL: f"{settings.diagonal}, diagonal",
        ROTATED: f"{settings.diagonal}, diagonal in the coordinates of the dense one",
        PIPELINE: f"{settings.components} components and Gaussians",
        GAUSSIAN: "one Gaussian, shrunk",
    }
    rows = []
    for key, name in names.items():
        cells = [
            mean_and_error(scores[key][score]) if score in scores[key] else None
            for score in ("KLD", "ELBO", "IW")
        ]
        rows.append({"name": name, "cells": cells})
    return {
        "title": "Log-density of test images",
        "columns": ["model", "KLD", "ELBO", "IW"],
        "rows": rows,
    }


def cost_table(costs: dict[str, dict[str, Any]]) -> dict:
    columns = list(next(iter(costs.values())))
    rows = [{"name": name, "cells": list(by.values())} for name, by in costs.items()]
    note = "The peak of memory is that of the process so far, other rows included: a bound."
    return {"title": "Cost", "note": note, "columns": ["model", *columns], "rows": rows}


def claims(
    scores: dict[str, dict[str, np.ndarray]], costs: dict[str, dict[str, Any]]
) -> list[dict]:
    outcomes, lines = [], []
    for other in (DIAGONAL, ROTATED, PIPELINE, GAUSSIAN):
        difference = scores[DENSE]["IW"] - scores[other]["IW"]
        mean, error = mean_and_error(difference).values()
        outcomes.append(({"the rival": other}, mean > 2 * error))
        share, median = np.mean(difference > 0), np.median(difference)
        lines.append(
            f"over {other}: {mean:+.1f} ± {error:.1f}, median {median:+.1f}, ahead on {share:.0%} of images"
        )
    skipped = costs[DENSE]["skipped steps"]
    found = [
        judged(
            "Ours: the dense covariance of all pixels has a higher IW than the others, paired over test images.",
            outcomes,
            f"IW, nats per image: {'; '.join(lines)}.",
        ),
        judged(
            "Ours: the dense model trains without a non-finite step.",
            [({"the run": "dense"}, skipped == 0)],
            f"{skipped} of {costs[DENSE]['steps']} steps were not finite and left out.",
        ),
    ]
    return [claim for claim in found if claim is not None]


def draw(record: dict, out: Path) -> None:
    pictures = record["result"]["pictures"]
    shape = tuple(pictures["shape"])
    panels = {
        name: mosaics.unpack(text, shape[0] * shape[1]) for name, text in pictures["images"].items()
    }
    mosaics.save(panels, shape, 255, out / "frey-pixels.png")


if __name__ == "__main__":
    main("frey-pixels")
