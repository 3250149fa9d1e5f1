"""Which settings suit the VAEs of all 560 Frey pixels? As many trials for each.

    python -m reproduction.searches.pixels [--models "low rank,diagonal"] [--data DIR] [--out FILE]

Eight trials of rate, noise, rank and latent variables for each model, judged by the validation
bound (IW) on one split that the table does not use. What was tried is written to
results/search/pixels.json, which also holds earlier trials of 353 epochs. The best of each model is
printed as changes to its line of reproduction/vaes/frey_settings.json. On a GPU; a CPU takes
hours. The dense model was chosen before, by eight trials after 850 steps on the first split.
"""

import dataclasses
import itertools
import json
from pathlib import Path

import numpy as np

from mmlp import atomic_files
from mmlp.cli.dataclass_parser import parse_or_exit
from mmlp.reporting.records import describe_device
from reproduction.frey_pixels import ROTATED, coordinates
from reproduction.vaes.data import Data
from reproduction.vaes.fits import fit_recipes, score
from reproduction.vaes.recipes import of_pixels

OUT = Path(__file__).parents[2] / "results" / "search" / "pixels.json"
SEED = 100
SAMPLES = 100
EPOCHS = 176
# (latent variables, rank): (rate, noise) of each trial
LARGE = ((0.006, 0.3), (0.012, 0.3), (0.012, 0.45), (0.012, 0.2), (0.012, 0.1))
SMALL = ((0.0015, 0.3), (0.003, 0.3), (0.006, 0.3), (0.003, 0.45), (0.003, 0.2))
NOISY = ((0.006, 0.3), (0.012, 0.3), (0.012, 0.45), (0.012, 0.6), (0.012, 0.9))
THREE = slice(1, 4)
TRIALS = {
    "low rank": {(30, 80): LARGE, (50, 120): LARGE[THREE]},
    "fixed loadings": {(30, 80): LARGE, (50, 120): LARGE[THREE]},
    "plain MLP": {(30, 80): SMALL, (20, 40): SMALL[THREE]},
    "diagonal": {(30, 0): NOISY, (50, 0): NOISY[2:]},
}


@dataclasses.dataclass(frozen=True)
class Settings(Data):
    """Try step sizes, noise, ranks and numbers of latent variables for the table of pixels."""

    models: tuple[str, ...] = tuple(TRIALS)
    epochs: int = EPOCHS
    out: Path = OUT


def entries(settings: Settings, name: str) -> list[dict]:
    """One for each trial; those of one shape are trained at once."""
    images, found = settings.read()[0], []
    split = coordinates(settings.dequantised(images, SEED), name in ROTATED)
    for (latent, rank), cells in TRIALS[name].items():
        recipe = dataclasses.replace(
            of_pixels(name)[0], rank=rank, epochs=settings.epochs
        )
        recipes = [
            dataclasses.replace(recipe, rate=rate, noise=noise) for rate, noise in cells
        ]
        result = fit_recipes(recipes, [split], latent)
        bounds = score(result.model, [split], SAMPLES, part="validation")["IW"]
        for (rate, noise), bound in zip(
            cells, np.round(bounds, 2).tolist(), strict=True
        ):
            entry = {"latent": latent, "rank": rank, "rate": rate, "noise": noise}
            found.append(
                {"model": name, **entry, "epochs": settings.epochs, "validation": bound}
            )
            print(json.dumps(found[-1]), flush=True)
    return found


def search(settings: Settings) -> None:
    if unknown := set(settings.models) - set(TRIALS):
        raise ValueError(
            f"`--models` must be of {', '.join(TRIALS)}, got {', '.join(unknown)}."
        )
    tried = list(
        itertools.chain(*(entries(settings, name) for name in settings.models))
    )
    known = (
        json.loads(settings.out.read_text())["tried"] if settings.out.exists() else []
    )
    again = [(name, settings.epochs) for name in settings.models]
    known = [entry for entry in known if (entry["model"], entry["epochs"]) not in again]
    lines = ",\n".join(f"  {json.dumps(entry)}" for entry in known + tried)
    head = json.dumps({"seed": SEED, "samples": SAMPLES, "device": describe_device()})
    atomic_files.replace_file(
        settings.out, f'{head[:-1]}, "tried": [\n{lines}\n]}}\n'.encode()
    )
    for name in settings.models:
        print(
            name,
            max(
                (e for e in tried if e["model"] == name), key=lambda e: e["validation"]
            ),
        )


if __name__ == "__main__":
    search(parse_or_exit(Settings, "python -m reproduction.searches.pixels"))
