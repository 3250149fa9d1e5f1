"""VAEs with a covariance of all 560 raw pixels, which the paper could not afford.

    python -m reproduction frey-pixels [--quick] [--data DIR] [--keep DIR]

All models are densities of the same 560 pixels, in units of pixels, on the same splits.
Ours has a low-rank decoder, A = L H L' + diag. Its rivals are the same with fixed
loadings and no H, a plain MLP that outputs all loadings, a diagonal along principal
directions, a dense covariance, a mixture of factor analysers, and one Gaussian.

A density of whole numbers has no upper bound, so uniform noise in [0, 1) is added to
each pixel, once (dequantisation; Theis et al., 2016). Low rank means low rank in the
coordinates of standardised pixels; the diagonal and the dense covariance are those of
all principal directions, each divided by a power of its standard deviation. The same
command runs on a GPU, and slowly on a CPU.
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
from reproduction.harness.claims import (
    compare_larger,
    judge_claim,
    judge_claim_by_cases,
)
from reproduction.harness.parallel import show_progress
from reproduction.vaes import factor_analysers
from reproduction.vaes.fit_and_score import fit_recipes, score_rows
from reproduction.vaes.images import (
    ImageParts,
    ImageSettings,
    Split,
    encode_parts,
    fit_shrunk_components,
    gaussian_log_density,
    make_pixel_components,
    pack_images,
    save_image_panels,
    temper_scales,
    unpack_images,
)
from reproduction.vaes.recipes import Recipe, tuned_pixel_recipe

# The models.
LOW_RANK = "low rank"
FIXED = "fixed loadings"
PLAIN = "plain MLP"
DIAGONAL = "diagonal"
DENSE = "dense"
MIXTURE = "mixture of factor analysers"
GAUSSIAN = "one Gaussian"
VAES = (LOW_RANK, FIXED, PLAIN, DIAGONAL, DENSE)

# Models in the coordinates of principal directions, which are divided by this power of
# their standard deviations.
ROTATED = (DIAGONAL, DENSE)
WHITENING_POWER = 0.6

# Numbers of components and of factors of each. Those with fewer factors in all than
# training images are fitted.
MIXTURE_FACTORS = (40, 80, 120, 160, 200, 280, 400)
MIXTURES = tuple((K, q) for K in (1, 2, 3, 4, 6, 8) for q in MIXTURE_FACTORS)

N_SHOWN_IMAGES = 60
CAPTION = f"{N_SHOWN_IMAGES} samples of each model, noise included, and test images."
TITLES = {
    LOW_RANK: "low rank: L H L' + diagonal (ours)",
    FIXED: "low rank with fixed loadings, no H",
    PLAIN: "plain MLP with a low-rank head",
    DIAGONAL: "diagonal along principal directions",
    DENSE: "dense",
    MIXTURE: MIXTURE,
    GAUSSIAN: "one Gaussian, shrunk",
}

# Scores of shape (splits, images), by model and by the name of the score.
ImageScores = dict[str, dict[str, np.ndarray]]


@dataclasses.dataclass(frozen=True)
class Settings(ImageSettings):
    """Low-rank, dense and diagonal covariances of all pixels."""

    # The number of splits.
    seeds: int = 4
    # Test images, by default all.
    test: int | None = None
    # Importance samples.
    samples: int = 100
    # Epochs, widths, and latent variables and loadings of all networks, instead of
    # those of their recipes.
    epochs: int | None = None
    hidden: tuple[int, ...] | None = None
    size: int | None = None

    QUICK: ClassVar = {
        "train": 80,
        "validation": 20,
        "test": 5,
        "samples": 2,
        "seeds": 2,
        "epochs": 2,
        "hidden": (8,),
        "size": 3,
    }

    def recipe(self, name: str) -> tuple[Recipe, int]:
        """Return the recipe of a model and its number of latent variables."""
        recipe, latent = tuned_pixel_recipe(name)
        recipe = recipe.with_sizes(self.epochs, self.hidden)
        if self.size is None:
            return recipe, latent
        rank = self.size if recipe.rank else 0
        return dataclasses.replace(recipe, rank=rank), self.size

    def make_parts(self) -> list[ImageParts]:
        """Return the dequantised images of all splits."""
        images, _ = self.read_images()
        return [
            self.split_dequantised(images, seed, self.test)
            for seed in range(self.seeds)
        ]


def run(settings: Settings) -> dict:
    """Train all models and compare them."""
    images, shape = settings.read_images()
    parts = settings.make_parts()

    gaussian_scores = []
    for split in parts:
        components, _ = fit_shrunk_components(split)
        gaussian_scores.append(gaussian_log_density(components, split.test))
    results = {
        name: train_model(settings, name)
        for name in show_progress((*VAES, MIXTURE), "frey-pixels")
    }

    scores: ImageScores = {}
    for name in TITLES:
        if name == GAUSSIAN:
            scores[name] = {"IW": np.stack(gaussian_scores)}
        else:
            scores[name] = {
                score: np.array(values)
                for score, values in results[name]["scores"].items()
            }
    costs = {name: results[name]["costs"] for name in VAES}
    pictures = {name: result["images"] for name, result in results.items()}
    test_images = parts[0].test[:N_SHOWN_IMAGES]
    pictures["test images"] = pack_images(255 / int(images.max()) * test_images)
    return {
        "title": f"Covariances of all {images.shape[1]} pixels",
        "about": "Test scores in nats per image, uniform noise in [0, 1) added to each "
        f"pixel: mean over {len(parts)} splits and its standard error. IW bounds "
        "log p(x) from below.",
        "tables": [
            make_score_table(scores),
            make_paired_table(scores),
            make_cost_table(costs),
        ],
        "claims": judge_claims(scores, costs),
        "figures": [{"file": "frey-pixels.png", "caption": CAPTION}],
        "notes": make_notes(settings, results),
        "scores": jax.tree.map(lambda values: np.round(values, 2).tolist(), scores),
        "costs": costs,
        "pictures": {"shape": shape, "images": pictures},
    }


def train_model(settings: Settings, name: str) -> dict:
    """Train a model on all splits, or return what was kept of it.

    Returns
    -------
    dict
        "scores" (splits, images) in units of pixels, "images", packed samples, and
        "costs" of a VAE or the "chosen" sizes of a mixture.
    """
    images, _ = settings.read_images()
    max_value = int(images.max())
    if name == MIXTURE:
        description = {"pixels": name, "mixtures": MIXTURES}
        compute = partial(
            factor_analysers.fit_best_mixtures,
            settings.make_parts(),
            MIXTURES,
            max_value,
            N_SHOWN_IMAGES,
        )
    else:
        recipe, latent = settings.recipe(name)
        description = {
            "pixels": name,
            "recipe": dataclasses.asdict(recipe),
            "latent": latent,
        }
        rotated = name in ROTATED
        compute = partial(train_vae, recipe, latent, rotated, settings, max_value)
    return settings.load_or_compute(description, compute)


def encode_pixels(parts: ImageParts, rotated: bool) -> Split:
    """Return the coordinates of a VAE: standardised pixels or principal directions."""
    if not rotated:
        return encode_parts(parts, make_pixel_components(parts.train))
    components, _ = fit_shrunk_components(parts)
    return encode_parts(parts, temper_scales(components, WHITENING_POWER))


def train_vae(
    recipe: Recipe, latent: int, rotated: bool, settings: Settings, max_value: int
) -> dict:
    """Train a VAE on all splits at once, score it, and measure its cost.

    The time of a step is that of the fastest epoch, validation included, over all
    splits.
    """
    splits = [encode_pixels(parts, rotated) for parts in settings.make_parts()]
    times = [time.perf_counter()]

    def record_time(info: Any) -> None:
        times.append(time.perf_counter())

    result = fit_recipes([recipe], splits, latent, on_epoch=[record_time])
    steps_per_epoch = recipe.count_steps(len(splits[0].train)) // recipe.epochs
    fastest_epoch = float(np.diff(times).min())
    costs = {
        "device": f"{describe_device()}, jax {jax.__version__}",
        "ms per step and split": 1e3 * fastest_epoch / steps_per_epoch / len(splits),
        "seconds": times[-1] - times[0],
        "peak memory (GiB)": measure_peak_memory() / 2**30,
        "steps": len(result.history["loss"]) * steps_per_epoch,
        "skipped steps": int(result.history["skipped"].sum()),
    }

    X = np.stack([split.test for split in splits]).astype(np.float32)
    values = score_rows(result.model, X, settings.samples)[..., :3]
    LL, KLD, IW = np.moveaxis(values, -1, 0)
    log_jacobian = np.array([[split.components.log_jacobian] for split in splits])
    scores = {
        "KLD": KLD,
        "ELBO": LL - KLD + log_jacobian,
        "IW": IW + log_jacobian,
    }

    first_model = jax.tree.map(lambda x: x[0], result.model)
    draws = np.asarray(
        first_model.sample(jax.random.key(3), N_SHOWN_IMAGES), np.float64
    )
    samples = splits[0].components.decode(draws)
    return {
        "scores": {
            name: np.round(values, 3).tolist() for name, values in scores.items()
        },
        "costs": costs,
        "images": pack_images(255 / max_value * samples),
    }


def measure_peak_memory() -> int:
    """Return the most bytes used so far, by the device, or on a CPU by the process."""
    statistics = jax.devices()[0].memory_stats()
    if statistics:
        return statistics["peak_bytes_in_use"]
    bytes_per_unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * bytes_per_unit


def make_notes(settings: Settings, results: dict[str, dict]) -> list[str]:
    """Return what a reader of the tables must know."""
    chosen_sizes = ", ".join(f"{K} of {q}" for K, q in results[MIXTURE]["chosen"])
    incomplete = []
    for name, result in results.items():
        n_splits = len(result["scores"]["IW"])
        if n_splits < settings.seeds:
            incomplete.append(f"The {name} model has {n_splits} of the splits.")
    return [
        "Each VAE had eight trials of rate, noise, rank and latent variables, judged "
        "by the validation images of a split that this table does not have "
        "(results/search/pixels.json); the plain MLP was given the sizes of ours "
        "afterwards. The dense one had eight of rate, noise and coordinates, on the "
        "first split. The best noise of the diagonal one is the largest that was "
        "tried.",
        f"The mixture is the best of {len(MIXTURES)} numbers of components and factors "
        "(fewer in all than images), by the validation images of each split: "
        f"{chosen_sizes}.",
        *incomplete,
        f"IW has {settings.samples} importance samples, and where it is far above the "
        "ELBO more would raise it. Of the mixture and the Gaussian it is the exact "
        "log-density.",
        "The images are frames of one video, random ones in each part: they are not "
        "independent.",
    ]


def make_score_table(scores: ImageScores) -> dict:
    """Make the table of mean scores."""
    columns = ("KLD", "ELBO", "IW")
    rows = []
    for name, values in scores.items():
        cells = [
            mean_cell(values[column].mean(axis=1)) if column in values else None
            for column in columns
        ]
        first_split = float(values["IW"][0].mean())
        rows.append({"name": TITLES[name], "cells": [*cells, first_split]})
    return {
        "title": "Log-density of test images",
        "columns": ["model", *columns, "IW of the first split"],
        "rows": rows,
    }


def make_paired_table(scores: ImageScores) -> dict:
    """Make the table of differences between ours and each rival, paired by image."""
    ours = scores[LOW_RANK]["IW"]
    rows = []
    for name, values in scores.items():
        if name == LOW_RANK:
            continue
        difference = ours[: len(values["IW"])] - values["IW"]
        cells = [
            mean_cell(difference.mean(axis=1)),
            f"{np.mean(difference > 0):.0%}",
        ]
        rows.append({"name": TITLES[name], "cells": cells})
    return {
        "title": "Low rank against each rival, paired",
        "columns": [
            "rival",
            "IW of ours minus its own",
            "images on which ours is ahead",
        ],
        "rows": rows,
    }


def make_cost_table(costs: dict[str, dict[str, Any]]) -> dict:
    """Make the table of time and memory."""
    return {
        "title": "Cost",
        "note": "All splits are trained at once. The peak of memory is that of the "
        "process so far.",
        "columns": ["model", *costs[DENSE]],
        "rows": [
            {"name": TITLES[name], "cells": list(values.values())}
            for name, values in costs.items()
        ],
    }


def judge_claims(scores: ImageScores, costs: dict[str, dict]) -> list[dict]:
    """Judge our claims, beyond two standard errors of paired differences.

    Differences are those of mean IW over splits; with a single split, those of its
    images.
    """
    rivals = [name for name in scores if name not in (LOW_RANK, FIXED)]
    cases = []
    for rival in rivals:
        holds, difference = compare_with_low_rank(scores, rival)
        cases.append(({"the rival": rival}, holds, f"over {rival} {difference}"))

    H_helps, difference = compare_with_low_rank(scores, FIXED)
    skipped = costs[LOW_RANK]["skipped steps"]
    claims = [
        judge_claim_by_cases(
            "Ours: the low-rank decoder has a higher IW than every rival with another "
            "covariance.",
            "IW, nats per image: ",
            cases,
        ),
        judge_claim(
            "Ours: the matrix H that turns the loadings raises the IW above that of "
            "fixed ones.",
            H_helps,
            f"IW, nats per image: over {FIXED} {difference}.",
        ),
        judge_claim(
            "Ours: the low-rank model trains without a non-finite step.",
            skipped == 0,
            f"{skipped} of {costs[LOW_RANK]['steps']} steps were left out.",
        ),
    ]
    return [claim for claim in claims if claim is not None]


def compare_with_low_rank(scores: ImageScores, rival: str) -> tuple[bool, str]:
    """Tell whether ours has a larger IW than a rival, and by how much."""
    ours = scores[LOW_RANK]["IW"]
    other = scores[rival]["IW"]
    n_splits = len(other)
    if n_splits > 1:
        return compare_larger(ours.mean(axis=1)[:n_splits], other.mean(axis=1))
    holds, difference = compare_larger(ours[0], other[0])
    return holds, f"{difference} (over images of one split)"


def draw(record: dict, out: Path) -> None:
    """Draw samples of each model."""
    pictures = record["result"]["pictures"]
    shape = pictures["shape"]
    panels = {
        str(TITLES.get(name, name)): unpack_images(text, shape[0] * shape[1])
        for name, text in pictures["images"].items()
    }
    save_image_panels(
        panels, shape, 255, out / "frey-pixels.png", panel_size=(4.2, 3.8)
    )
