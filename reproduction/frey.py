"""The paper's VAE table and its image grids: six models of the Frey faces, and rivals.

    python -m reproduction frey [--quick] [--data DIR] [--keep DIR] [--out report]

Scores are measured on ten principal components of the pixels, in units of pixels, on
random splits. LL is the paper's score, the mean of log p(x | s) over q(s | x). IW, the
importance-weighted bound on log p(x), is the score to compare. The settings of the
networks (vaes/frey_settings.json) were chosen on other splits (results/search/).
"""

import dataclasses
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import jax
import numpy as np

from mmlp.reporting.tables import mean_cell
from mmlp.vae import MODELS
from reproduction.harness.parallel import map_in_processes
from reproduction.vaes import flows, frey_claims
from reproduction.vaes.fit_and_score import (
    MAX_COLLAPSED_KLD,
    SCORES,
    fit_recipes,
    score_models,
    score_simple_densities,
)
from reproduction.vaes.frey_claims import (
    CHOLESKY,
    GROUPS,
    JOINT,
    MATRIX,
    PAPER_RECIPE,
    VON_NEUMANN,
    WIDE_CHOLESKY,
)
from reproduction.vaes.images import (
    ImageSettings,
    components_to_json,
    decode_components,
    save_image_panels,
)
from reproduction.vaes.recipes import Recipe, tuned_recipe

N_SHOWN_IMAGES = 100
MAX_TRAINING_SAMPLES = 20
TRAIN_CAPTION = "100 training images rebuilt from their principal components."
SAMPLES_CAPTION = (
    "100 random samples of each model with {} latent variables: draws of x, noise "
    "included."
)


@dataclasses.dataclass(frozen=True)
class Settings(ImageSettings):
    """Six VAEs with dense or diagonal, Gaussian or power exponential halves."""

    # Numbers of latent variables.
    latents: tuple[int, ...] = (5, 8)
    # Models of the matrix MLP.
    models: tuple[str, ...] = MODELS
    # Models of the Cholesky MLPs. The joint matrix MLP has only the first of these. So
    # do the Cholesky MLPs for all but the first of `latents`.
    compared: tuple[str, ...] = ("EfNf", "NfNf")
    # Splits of the matrix MLP.
    seeds: int = 3
    # Numbers of splits, for each of `latents`, of the duel: the comparison of the joint
    # matrix MLP with its rivals. The first must be the largest: the simple densities
    # have its splits.
    duels: tuple[int, ...] = (16, 10)
    # The seed of the first of these splits. No search for settings has used them.
    first: int = 300
    # Importance samples.
    samples: int = 1000
    # Epochs and widths of all networks, instead of those of their recipes.
    epochs: int | None = None
    hidden: tuple[int, ...] | None = None
    # Processes that share the rows, on a CPU.
    jobs: int = 2

    QUICK: ClassVar = {
        "latents": (5,),
        "models": ("NdNd",),
        "compared": ("NfNf",),
        "seeds": 2,
        "duels": (2,),
        "samples": 20,
        "epochs": 1,
        "hidden": (8,),
    }

    def duel_seeds(self, k: int) -> range:
        """Return the seeds of the comparison with rivals, for k latent variables.

        A k without an entry in `duels` has `seeds` of them. If `seeds` is below its
        default, there are at most that many.
        """
        duels_by_latent = dict(zip(self.latents, self.duels, strict=False))
        count = duels_by_latent.get(k, self.seeds)
        if self.seeds < type(self).seeds:
            count = min(count, self.seeds)
        return range(self.first, self.first + count)


class TrainedRow(NamedTuple):
    """A row of the table whose model is trained.

    Parameters
    ----------
    k : int
        The number of latent variables.
    group : str
        One of `frey_claims.GROUPS`.
    recipe : Recipe
    seeds : range
        The splits.
    """

    k: int
    group: str
    recipe: Recipe
    seeds: range


def list_rows(settings: Settings) -> list[TrainedRow]:
    """Return all rows whose models are trained, in the order in which they start.

    Rows of the joint matrix MLP take longest, so they come first for each k. The
    paper's recipe and the von Neumann objective have the first of `latents` only, to
    save time.
    """
    rows: list[TrainedRow] = []
    seeds = range(settings.seeds)
    for k in settings.latents:
        is_first = k == settings.latents[0]
        duel_seeds = settings.duel_seeds(k)

        joint_recipe = tuned_recipe("joint", settings.compared[0])
        rows.append(TrainedRow(k, JOINT, joint_recipe, duel_seeds))
        compared = settings.compared if is_first else settings.compared[:1]
        for model in compared:
            recipe = tuned_recipe("cholesky", model)
            rows.append(TrainedRow(k, CHOLESKY, recipe, duel_seeds))
        for model in compared:
            recipe = tuned_recipe("cholesky wide", model)
            rows.append(TrainedRow(k, WIDE_CHOLESKY, recipe, duel_seeds))

        for model in settings.models:
            recipe = tuned_recipe("matrix", model)
            rows.append(TrainedRow(k, MATRIX, recipe, seeds))
            if is_first:
                # The paper samples the KL term of EfEf, where ours is exact.
                kl = "sampled" if model == "EfEf" else "exact"
                paper_recipe = Recipe(model, literal=True, kl=kl)
                rows.append(TrainedRow(k, PAPER_RECIPE, paper_recipe, seeds))
            if is_first and model == "NfNf":
                recipe = dataclasses.replace(recipe, kl="von_neumann")
                rows.append(TrainedRow(k, VON_NEUMANN, recipe, seeds))
    return [
        row._replace(recipe=row.recipe.with_sizes(settings.epochs, settings.hidden))
        for row in rows
    ]


def run(settings: Settings) -> dict:
    """Train all rows of the table and compare them."""
    images, shape = settings.read_images()
    duel_splits = settings.make_splits(settings.duel_seeds(settings.latents[0]))
    (shown_split,) = settings.make_splits([0])

    work: list[tuple] = [(train_row, settings, row) for row in list_rows(settings)]
    work.append((train_flow, settings))
    *trained, flow = map_in_processes(_call, work, "frey", settings.jobs)
    simple = score_simple_densities(duel_splits) | flow

    draws_by_row = [row.pop("draws") for row in trained]
    samples = [
        {"k": row["k"], "model": row["model"], "draws": draws}
        for row, draws in zip(trained, draws_by_row, strict=True)
        if row["group"] == MATRIX
    ]
    figures = [{"file": "frey-train.png", "caption": TRAIN_CAPTION}]
    for k in settings.latents:
        figures.append({"file": f"frey-{k}.png", "caption": SAMPLES_CAPTION.format(k)})
    return {
        "title": "VAEs with dense covariances on the Frey faces",
        "about": "Test scores in nats per image, mean and standard error over random "
        "splits and seeds. LL is the expected log-likelihood that the paper reports; "
        "ELBO and IW bound log p(x) from below, and IW is the one to compare.",
        "tables": [make_table(k, trained, simple) for k in settings.latents],
        "claims": frey_claims.judge_claims(trained, simple),
        "figures": figures,
        "notes": make_notes(settings, trained),
        "trained": trained,
        "simple": simple,
        "pictures": {
            "shape": shape,
            "most": int(images.max()),
            **components_to_json(shown_split.components),
            "train": np.round(shown_split.train[:N_SHOWN_IMAGES], 2).tolist(),
            "samples": samples,
        },
    }


def _call(function: Callable[..., dict], *arguments: Any) -> dict:
    """Call a function, so that processes can share calls of several functions."""
    return function(*arguments)


def train_row(settings: Settings, row: TrainedRow) -> dict:
    """Train a row of the table, or return what was kept of it.

    Returns
    -------
    dict
        What the row is ("k", "group", "model", "recipe", "seeds"), its scores over
        splits, "draws" of the first model, and "seconds".
    """
    description = {
        "k": row.k,
        "group": row.group,
        "model": row.recipe.model,
        "recipe": dataclasses.asdict(row.recipe),
        "seeds": list(row.seeds),
    }
    result = settings.load_or_compute(description, lambda: _train(settings, row))
    return description | result


def _train(settings: Settings, row: TrainedRow) -> dict[str, Any]:
    start = time.perf_counter()
    splits = settings.make_splits(row.seeds)
    models = fit_recipes([row.recipe], splits, row.k).model
    scores = score_models(models, splits, settings.samples)
    training_samples = min(MAX_TRAINING_SAMPLES, settings.samples)
    training_scores = score_models(models, splits, training_samples, part="train")

    first_model = jax.tree.map(lambda x: x[0], models)
    draws = first_model.sample(jax.random.key(3), N_SHOWN_IMAGES)
    return {
        **{name: values.tolist() for name, values in scores.items()},
        "train ELBO": training_scores["ELBO"].tolist(),
        "draws": np.asarray(draws, np.float64).round(2).tolist(),
        "seconds": round(time.perf_counter() - start, 1),
    }


def train_flow(settings: Settings) -> dict[str, dict]:
    """Train a neural spline flow; without flowjax, return an empty dictionary.

    Returns
    -------
    dict of dict
        As `score_simple_densities`.
    """
    if not flows.is_available():
        return {}
    recipe = flows.tuned_recipe().with_sizes(settings.epochs, settings.hidden)
    seeds = settings.duel_seeds(settings.latents[0])
    description = {"flow": dataclasses.asdict(recipe), "seeds": list(seeds)}

    def compute() -> dict:
        return flows.fit_and_score_flow(recipe, settings.make_splits(seeds))

    return {flows.NAME: settings.load_or_compute(description, compute)}


def make_notes(settings: Settings, trained: list[dict]) -> list[str]:
    """Return what a reader of the table must know."""
    our_rows = [
        row for row in trained if row["group"] not in (PAPER_RECIPE, VON_NEUMANN)
    ]
    n_models = sum(len(row["KLD"]) for row in our_rows)
    collapsed = []
    for row in our_rows:
        n_collapsed = int(np.sum(np.array(row["KLD"]) < MAX_COLLAPSED_KLD))
        if n_collapsed:
            collapsed.append(
                f"{row['group']} {row['model']}, k = {row['k']}: "
                f"{n_collapsed} of {len(row['KLD'])}"
            )
    splits = ", ".join(
        f"{len(settings.duel_seeds(k))} at k = {k}" for k in settings.latents
    )
    epochs_by_group = {row["group"]: row["recipe"]["epochs"] for row in trained}
    epochs = "; ".join(f"{n} ({group})" for group, n in epochs_by_group.items())
    return [
        f"Collapsed, with a KLD below {MAX_COLLAPSED_KLD} nats, of {n_models} models "
        f"trained by our recipes: {'; '.join(collapsed) or 'none'}. No "
        "collapsed model was trained again.",
        "A claim holds if the difference is more than two standard errors, paired over "
        "splits. All are splits of one video: more of them tell more about the method, "
        "not about other images.",
        "The paper reports neither its number of epochs nor its split.",
        f"Numbers of splits of joint and Cholesky MLPs: {splits}. Their seeds begin at "
        f"{settings.first}, and no search has used them. The simple densities have the "
        f"same splits. All other rows have {settings.seeds} splits, with seeds from 0 "
        "on, whose test scores were known.",
        "Optimiser, step, weight decay, noise and warm-up of each group were chosen by "
        "validation on splits not used here, mostly with EfNf "
        "(results/search/vaes.json has what was tried).",
        f"Epochs: {epochs}.",
        f"IW has {settings.samples} importance samples.",
        "Joint and Cholesky MLPs and the paper's recipe are trained on all training "
        "images, for a fixed number of epochs. The other matrix MLPs and the flow hold "
        f"out {settings.validation} of {settings.train} to choose the best epoch, and "
        "the mixture to choose its size.",
        flows.make_note(),
    ]


def make_table(k: int, trained: list[dict], simple: dict[str, dict]) -> dict:
    """Make the table of the models with k latent variables."""
    trained = [row for row in trained if row["k"] == k]
    best = max(trained, key=lambda row: np.mean(row["IW"]))
    max_splits = max(len(row["IW"]) for row in trained)

    rows: list[dict[str, Any]] = []
    for group in GROUPS:
        rows_of_group = [row for row in trained if row["group"] == group]
        if not rows_of_group:
            continue
        rows.append({"group": group})
        for row in rows_of_group:
            # The paper reports LL and KLD only.
            paper = ()
            if group in (PAPER_RECIPE, MATRIX):
                paper = frey_claims.PAPER_SCORES.get(k, {}).get(row["model"], ())
            published = dict(zip(SCORES, paper, strict=False))
            cells = [
                mean_cell(row[score], paper=published.get(score)) for score in SCORES
            ]
            cells[-1]["best"] = row is best
            rows.append({"name": row["model"], "cells": cells})

    rows.append({"group": "simple densities"})
    for name, scores in simple.items():
        IW = mean_cell(scores["IW"][:max_splits])
        rows.append({"name": name, "cells": [None, None, None, IW]})
    return {
        "title": f"{k} latent variables",
        "columns": ["model", *SCORES],
        "rows": rows,
    }


def draw(record: dict, out: Path) -> None:
    """Draw training images and samples."""
    pictures = record["result"]["pictures"]
    components_by_figure = {"train": {"": pictures["train"]}}
    for k in record["settings"]["latents"]:
        components_by_figure[k] = {
            row["model"]: row["draws"] for row in pictures["samples"] if row["k"] == k
        }
    for name, components_by_title in components_by_figure.items():
        panels = {
            title: decode_components(pictures, S)
            for title, S in components_by_title.items()
        }
        save_image_panels(
            panels, pictures["shape"], pictures["most"], out / f"frey-{name}.png"
        )
