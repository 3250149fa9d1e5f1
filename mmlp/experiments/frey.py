"""The paper's VAE table and its image grids: six models of the Frey faces, beside simpler densities and the plain MLP.

python -m mmlp.experiments.frey [--quick] [--data DIR] [--out report]

Everything is measured on the first ten principal components of the pixels, in their raw units, on random splits. LL is
the paper's: the mean of log p(x | s) over q(s | x). IW is the importance-weighted bound on log p(x), which is what counts.
The settings of each group, `frey_settings.json`, were chosen on other splits; `python -m mmlp.experiments.frey_tune` does
such a search, and the note in the file says what was tried.
"""

import dataclasses
import json
import time
from pathlib import Path
from typing import Any, ClassVar

import jax
import numpy as np
from sklearn.mixture import GaussianMixture

from mmlp.datasets import FREY_SHAPE, digits, frey_faces
from mmlp.experiments.harness import jobs
from mmlp.experiments.harness.run import main
from mmlp.experiments.vaes.core import COLLAPSED, Recipe, Split, make_split, put, score, take, train
from mmlp.experiments.vaes.frey_claims import (
    BEST,
    NARROW,
    OURS,
    PAPER,
    PAPERS,
    VON_NEUMANN,
    WIDE,
    claims,
)
from mmlp.experiments.vaes.mosaics import components_record, decode, save
from mmlp.pages import page as report
from mmlp.vae import MODELS

SCORES = ("LL", "KLD", "ELBO", "IW")
FILE = Path(__file__).with_name("frey_settings.json")
TUNED: dict[str, dict[str, Any]] = json.loads(FILE.read_text())["chosen"]  # by group
CHOOSING = 200  # importance samples on validation images
MIXTURES = (2, 3, 5, 8, 12, 16, 20, 25, 30, 40)


@dataclasses.dataclass(frozen=True)
class Settings:
    """Six VAEs with dense or diagonal, Gaussian or power exponential halves, on principal components of images."""

    latents: tuple[int, ...] = (5, 8)
    models: tuple[str, ...] = MODELS
    # of the other networks; ours at its best is the first of these, as are all at the other `latents`
    compared: tuple[str, ...] = ("EfNf", "NfNf")
    seeds: int = 3
    duel: int = 10  # seeds of the networks that are compared with ours, and of ours at its best, at the first of `latents`
    components: int = 10
    train: int = 1000
    validation: int = 150
    samples: int = 1000  # importance samples
    epochs: int | None = None  # of every recipe, in place of its own
    hidden: tuple[int, ...] | None = None  # widths of all networks, in place of their own
    images: str = "frey"  # or "digits", which need no file
    data: Path | None = None  # folder of frey_rawface.mat
    keep: Path | None = None  # folder of finished rows: the same command goes on from there
    jobs: int = 2  # processes that share the rows, on a CPU

    QUICK: ClassVar = {
        "latents": (5,),
        "models": ("NdNd",),
        "compared": ("NfNf",),
        "seeds": 2,
        "duel": 2,
        "samples": 20,
        "epochs": 1,
        "hidden": (8,),
    }


def recipes(settings: Settings) -> list[tuple[int, str, Recipe, int]]:
    """(latent variables, group, recipe, seeds) of every row that is trained.

    The paper's recipe and the von Neumann objective have the first number of latent variables only, as the duel does:
    the whole is to take less than an hour on two cores.
    """
    rows = []
    for k in settings.latents:
        first = k == settings.latents[0]
        if first:
            literal = [
                Recipe(model, literal=True, kl="sampled" if model == "EfEf" else "exact")
                for model in settings.models
            ]
            rows += [(k, PAPERS, recipe, settings.seeds) for recipe in literal]
        rows += [(k, OURS, recipe("matrix", model), settings.seeds) for model in settings.models]
        if first and "NfNf" in settings.models:
            von_neumann = dataclasses.replace(recipe("matrix", "NfNf"), kl="von_neumann")
            rows.append((k, VON_NEUMANN, von_neumann, settings.seeds))
        for group, name in ((BEST, "joint"), (NARROW, "cholesky"), (WIDE, "cholesky wide")):
            models = settings.compared if first and group != BEST else settings.compared[:1]
            rows += [
                (k, group, recipe(name, model), duels(settings) if first else settings.seeds)
                for model in models
            ]
    changes: dict[str, Any] = {} if settings.epochs is None else {"epochs": settings.epochs}
    if settings.hidden is not None:
        changes |= {"hidden": settings.hidden, "features": None}
    return [
        (k, group, dataclasses.replace(recipe, **changes), seeds)
        for k, group, recipe, seeds in rows
    ]


def duels(settings: Settings) -> int:
    """Splits of the duel: one seed asked for is one seed everywhere."""
    return settings.seeds if settings.seeds < 3 else max(settings.seeds, settings.duel)


def recipe(name: str, model: str) -> Recipe:
    """The tuned settings of a group, for one of the six models."""
    values: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in TUNED[name].items()
    }
    return Recipe(model, **values)


def load_images(settings) -> tuple[np.ndarray, tuple[int, int]]:
    """Images (n, p) and the shape of one, by `images` and `data` of the settings."""
    if settings.images == "digits":
        return digits()
    if settings.images != "frey":
        raise ValueError(f'`--images` must be "frey" or "digits", got {settings.images!r}.')
    return frey_faces(settings.data), FREY_SHAPE


def splits_of(settings: Settings, images: np.ndarray, seeds: range | None = None) -> list[Split]:
    """By default of the first `settings.seeds` seeds."""
    sizes = {
        "train": settings.train,
        "validation": settings.validation,
        "count": settings.components,
    }
    return [
        make_split(images, seed, **sizes)
        for seed in (range(settings.seeds) if seeds is None else seeds)
    ]


def run(settings: Settings) -> dict:
    images, shape = load_images(settings)
    splits = splits_of(settings, images, range(duels(settings)))
    trained, samples = [], []
    work = [(settings, *row) for row in recipes(settings)]
    longest = max(range(len(work)), key=lambda i: (work[i][2] == BEST, work[i][-1]))
    work.insert(0, work.pop(longest))  # first, so that no process waits for it at the end
    done = jobs.each(trained_row, work, "frey", settings.jobs)
    done.insert(longest, done.pop(0))
    for found in done:
        draws = found.pop("draws")
        trained.append(found)
        if found["group"] == OURS:
            samples.append({"k": found["k"], "model": found["model"], "draws": draws})
    simple = simple_densities(splits)
    return {
        "title": "VAEs with dense covariances on the Frey faces",
        "about": "Test scores in nats per image, mean and standard error over random splits and seeds. LL is the expected "
        "log-likelihood that the paper reports; ELBO and IW bound log p(x) from below, and IW is the one to compare.",
        "tables": [
            table(k, [row for row in trained if row["k"] == k], simple) for k in settings.latents
        ],
        "claims": claims(trained, simple),
        "figures": figures(settings),
        "notes": notes(settings, trained),
        "trained": trained,
        "simple": simple,
        "pictures": {
            "shape": shape,
            "most": int(images.max()),
            **components_record(splits[0].components),
            "train": np.round(splits[0].train[:100], 2).tolist(),
            "samples": samples,
        },
    }


def notes(settings: Settings, trained: list[dict]) -> list[str]:
    """What a reader of the table must know."""
    again = [
        f"{row['group']} {row['model']}, k = {row['k']}: {len(row['trained again'])} of {len(row['IW'])}"
        for row in trained
        if row["trained again"]
    ]
    return [
        f"Models that collapsed, with a KLD of validation images below {COLLAPSED} nats, were trained once again from "
        f"another start, but for the paper's recipe: {'; '.join(again) or 'none'}.",
        "A claim holds where it does by more than two standard errors of differences that are paired over splits. All "
        "splits are of the same frames of one video: more of them tell more about the method, not about other images.",
        "The paper's number of epochs is unsaid; its recipe has 100 here. Its split is unsaid; ours are random.",
        f"At k = {settings.latents[0]} joint and Cholesky MLPs and simple densities have {duels(settings)} splits, "
        f"all other rows the first {settings.seeds} of these.",
        "Optimiser, step, weight decay, noise and warm-up of each group were chosen by the validation images of splits that "
        "are not used here, mostly with EfNf (frey_settings.json lists what was tried). Test scores of the first six "
        "splits were known from earlier settings when these, and the number of splits, were chosen.",
        "The matrix MLPs without a joined MLP have 150 epochs, joint and Cholesky MLPs 300.",
        f"IW has {settings.samples} importance samples; on validation images, which choose the best, "
        f"{min(settings.samples, CHOOSING)}.",
        f"All but the paper's recipe hold {settings.validation} of {settings.train} training images out, to keep the "
        "best epoch.",
    ]


def trained_row(
    settings: Settings, k: int, group: str, recipe: Recipe, seeds: int
) -> dict[str, Any]:
    """One row of the table: scores over splits, 100 draws of the first model, and the time.

    What has collapsed, which validation images tell, is trained once again; the paper's recipe is left as it is.
    """

    def make() -> dict[str, Any]:
        start = time.perf_counter()
        splits = splits_of(settings, load_images(settings)[0], range(seeds))
        models = train(recipe, splits, k).model
        validation = score(models, splits, min(settings.samples, CHOOSING), part="validation")
        collapsed = [] if recipe.literal else np.flatnonzero(validation["KLD"] < COLLAPSED).tolist()
        if collapsed:
            models = put(
                models, collapsed, train(recipe, [splits[i] for i in collapsed], k, start=1).model
            )
            validation = score(models, splits, min(settings.samples, CHOOSING), part="validation")
        scores = score(models, splits, settings.samples)
        values: dict[str, Any] = {name: scores[name].tolist() for name in (*SCORES, "IW error")}
        values |= {"validation IW": validation["IW"].tolist(), "trained again": collapsed}
        values["train ELBO"] = score(models, splits, min(20, settings.samples), part="train")[
            "ELBO"
        ].tolist()
        draws = np.asarray(take(models, 0).sample(jax.random.key(3), 100), np.float64)
        return values | {
            "draws": np.round(draws, 2).tolist(),
            "seconds": round(time.perf_counter() - start, 1),
        }

    about = {"k": k, "recipe": dataclasses.asdict(recipe), "seeds": seeds}
    data = {
        name: getattr(settings, name)
        for name in ("components", "train", "validation", "samples", "images")
    }
    found = jobs.kept(settings.keep, {"frey": about | data}, make)
    return {"k": k, "group": group, "model": recipe.model, "recipe": about["recipe"], **found}


def simple_densities(splits: list[Split]) -> dict[str, dict[str, list[float]]]:
    """Log-densities of one Gaussian, and of the Gaussian mixture with the best validation score, by name and part.

    The Gaussian has nothing to choose: for the test it is fitted to the validation images, too.
    """
    found = {name: {"IW": [], "validation IW": []} for name in ("one Gaussian", "Gaussian mixture")}
    for split in splits:
        fitted = [
            GaussianMixture(n, reg_covar=1e-3, n_init=2, random_state=0).fit(split.train)
            for n in MIXTURES
        ]
        mixture = max(fitted, key=lambda m: m.score(split.validation))
        one = GaussianMixture(1).fit(split.train)
        whole = GaussianMixture(1).fit(np.concatenate([split.train, split.validation]))
        for name, validated, tested in (
            ("one Gaussian", one, whole),
            ("Gaussian mixture", mixture, mixture),
        ):
            found[name]["validation IW"].append(
                float(validated.score(split.validation)) + split.components.log_jacobian
            )
            found[name]["IW"].append(
                float(tested.score(split.test)) + split.components.log_jacobian
            )
    return found


def table(k: int, trained: list[dict], simple: dict[str, dict[str, list[float]]]) -> dict:
    rows: list[dict[str, Any]] = []
    common = min(len(row["IW"]) for row in trained)
    best = max(trained, key=lambda row: np.mean(row["IW"][:common]))
    group = None
    for row in sorted(trained, key=lambda row: [r["group"] for r in trained].index(row["group"])):
        if row["group"] != group:
            group = row["group"]
            rows.append({"group": group})
        paper = dict(
            zip(("LL", "KLD"), PAPER.get(k, {}).get(row["model"], (None, None)), strict=True)
        )
        cells = []
        for name in SCORES:
            more = (
                {"paper": paper[name]}
                if name in paper and group in (PAPERS, OURS) and paper[name] is not None
                else {}
            )
            cells.append(
                report.cell(row[name], **more)
                | ({"best": True} if name == "IW" and row is best else {})
            )
        rows.append({"name": row["model"], "cells": cells})
    rows.append({"group": "simple densities"})
    splits = max(len(row["IW"]) for row in trained)
    rows += [
        {"name": name, "cells": [None, None, None, report.cell(values["IW"][:splits])]}
        for name, values in simple.items()
    ]
    return {"title": f"{k} latent variables", "columns": ["model", *SCORES], "rows": rows}


def figures(settings: Settings) -> list[dict]:
    grids = [
        {
            "file": "frey-train.png",
            "caption": "100 training images rebuilt from their principal components.",
        }
    ]
    for k in settings.latents:
        caption = f"100 random samples of each model with {k} latent variables: draws of x itself, noise included."
        grids.append({"file": f"frey-{k}.png", "caption": caption})
    return grids


def draw(record: dict, out: Path) -> None:
    pictures = record["result"]["pictures"]
    shape, most = tuple(pictures["shape"]), pictures["most"]
    save({"": decode(pictures, pictures["train"])}, shape, most, out / "frey-train.png")
    for k in record["settings"]["latents"]:
        panels = {
            row["model"]: decode(pictures, row["draws"])
            for row in pictures["samples"]
            if row["k"] == k
        }
        save(panels, shape, most, out / f"frey-{k}.png")


if __name__ == "__main__":
    main("frey")
