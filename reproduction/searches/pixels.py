"""Search the settings of the VAEs of all 560 Frey pixels.

    python -m reproduction.searches.pixels [--models "low rank,diagonal"] [--data DIR]

Each model has eight trials of learning rate, noise, rank and latent variables, judged
by the validation bound (IW) on one split that the table does not use. All trials are
written to results/search/pixels.json, which also holds earlier trials of 353 epochs.
The best of each model is printed as changes to its line of
reproduction/vaes/frey_settings.json. Run it on a GPU; a CPU takes hours. The dense
model was chosen before, by eight trials after 850 steps on the first split.
"""

import dataclasses
import itertools
import json
from pathlib import Path

import numpy as np

from mmlp import atomic_files
from mmlp.cli.dataclass_parser import parse_or_exit
from mmlp.reporting.records import describe_device
from reproduction.frey_pixels import ROTATED, encode_pixels
from reproduction.vaes.fit_and_score import fit_recipes, score_models
from reproduction.vaes.images import ImageSettings
from reproduction.vaes.recipes import tuned_pixel_recipe

OUT = Path(__file__).parents[2] / "results" / "search" / "pixels.json"
SEED = 100
IMPORTANCE_SAMPLES = 100
EPOCHS = 176

# Pairs of learning rate and noise, by model and (latent variables, rank).
LARGE_RATES = ((0.006, 0.3), (0.012, 0.3), (0.012, 0.45), (0.012, 0.2), (0.012, 0.1))
SMALL_RATES = ((0.0015, 0.3), (0.003, 0.3), (0.006, 0.3), (0.003, 0.45), (0.003, 0.2))
LARGE_NOISES = ((0.006, 0.3), (0.012, 0.3), (0.012, 0.45), (0.012, 0.6), (0.012, 0.9))
TRIALS = {
    "low rank": {(30, 80): LARGE_RATES, (50, 120): LARGE_RATES[1:4]},
    "fixed loadings": {(30, 80): LARGE_RATES, (50, 120): LARGE_RATES[1:4]},
    "plain MLP": {(30, 80): SMALL_RATES, (20, 40): SMALL_RATES[1:4]},
    "diagonal": {(30, 0): LARGE_NOISES, (50, 0): LARGE_NOISES[2:]},
}


@dataclasses.dataclass(frozen=True)
class Settings(ImageSettings):
    """Try learning rates, noise, ranks and numbers of latent variables."""

    models: tuple[str, ...] = tuple(TRIALS)
    epochs: int = EPOCHS
    out: Path = OUT


def search(settings: Settings) -> None:
    """Write all trials to the file, and print the best of each model."""
    unknown = set(settings.models) - set(TRIALS)
    if unknown:
        raise ValueError(
            f"`--models` must be of {', '.join(TRIALS)}, got {', '.join(unknown)}."
        )
    trials = list(
        itertools.chain(*(run_trials(settings, name) for name in settings.models))
    )

    earlier = []
    if settings.out.exists():
        earlier = json.loads(settings.out.read_text())["tried"]
    repeated = [(name, settings.epochs) for name in settings.models]
    kept = [
        entry for entry in earlier if (entry["model"], entry["epochs"]) not in repeated
    ]
    lines = ",\n".join(f"  {json.dumps(entry)}" for entry in kept + trials)
    head = json.dumps(
        {"seed": SEED, "samples": IMPORTANCE_SAMPLES, "device": describe_device()}
    )
    content = f'{head[:-1]}, "tried": [\n{lines}\n]}}\n'
    atomic_files.replace_file(settings.out, content.encode())

    for name in settings.models:
        entries = [entry for entry in trials if entry["model"] == name]
        print(name, max(entries, key=lambda entry: entry["validation"]))


def run_trials(settings: Settings, name: str) -> list[dict]:
    """Return an entry for each trial; those of equal sizes are trained at once."""
    images, _ = settings.read_images()
    parts = settings.split_dequantised(images, SEED)
    split = encode_pixels(parts, name in ROTATED)
    tuned_recipe, _ = tuned_pixel_recipe(name)

    entries = []
    for (latent, rank), rates_and_noises in TRIALS[name].items():
        recipes = [
            dataclasses.replace(
                tuned_recipe,
                rank=rank,
                epochs=settings.epochs,
                rate=rate,
                noise=noise,
            )
            for rate, noise in rates_and_noises
        ]
        models = fit_recipes(recipes, [split], latent).model
        scores = score_models(models, [split], IMPORTANCE_SAMPLES, part="validation")
        bounds = np.round(scores["IW"], 2).tolist()
        for recipe, bound in zip(recipes, bounds, strict=True):
            entry = {
                "model": name,
                "latent": latent,
                "rank": rank,
                "rate": recipe.rate,
                "noise": recipe.noise,
                "epochs": settings.epochs,
                "validation": bound,
            }
            entries.append(entry)
            print(json.dumps(entry), flush=True)
    return entries


if __name__ == "__main__":
    search(parse_or_exit(Settings, "python -m reproduction.searches.pixels"))
