"""Which optimiser, rate and width for Examples 1 and 2? One grid for every network.

    python -m reproduction.searches.spd [--jobs N] [--out results/search/spd.json]

All rates are tried for the networks of each family (von Neumann loss, n = 100, both settings of the
generator), at d0 = 10 and at d0 = 20, on seeds that the tables do not use: as many trials for the
joint matrix MLP as for the Cholesky MLP, 36. The best has the smallest validation loss, by the mean
of its logarithm over seeds. `--jobs` share the networks among processes. An H200 took a quarter of
an hour for the joint and the Cholesky MLPs; one core takes hours.

All that was tried is written to --out; the choice is printed, and taken over by pasting it into
reproduction/spd/spd_settings.json. results/search/spd.json also has earlier rounds: Adam, wide
matrix MLPs and the shallow design in the first setting, by 0.1.0, which the table still uses for
the narrow matrix MLP and the shallow design; larger matrices in the joint network, no better; and
smaller steps for its factors W, C and A, which make larger rates possible, and are no better.
"""

import argparse
import dataclasses
import itertools
import json
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from mmlp import atomic_files
from mmlp.reporting.records import list_versions
from mmlp.training import NonFiniteError
from reproduction.harness.jobs import each
from reproduction.spd.models import Recipe, outcome
from reproduction.spd.tasks import FIRST_SEEDS, Budget, Task

RATES = (0.00125, 0.0025, 0.005, 0.01, 0.02, 0.04)
BUDGET = Budget(seeds=3, test=100)
TASKS = [Task(dim, 100, BUDGET, FIRST_SEEDS["search"]) for dim in (10, 20)]
LOSS = "von_neumann"
JOINT = (
    ((20, 20), (100, 100)),
    ((20, 20), (200, 200)),
    ((20,) * 3, (100,) * 3),
)  # both paths
NETWORKS = {  # family: (network, widths of its matrices or its layers, output, widths of a path)
    "matrix 3 x 20": [("matrix", (20, 20, 20), "linear")],
    "joint": [
        ("joint", *pair)
        for output in ("linear", "triangular")
        for pair in ((widths, output, features) for widths, features in JOINT)
    ],
    "Cholesky": [
        ("cholesky", widths, "triangular")
        for widths in (
            (20, 20, 20),
            (60,) * 3,
            (100,) * 3,
            (60, 60),
            (100, 100),
            (200, 200),
        )
    ],
    "shallow": [("shallow", (20, 20, 20), kernel) for kernel in ("linear", "mercer")],
}
FAMILIES = {
    family: [
        Recipe(network, widths, "muon", output, *features)
        for network, widths, output, *features in networks
    ]
    for family, networks in NETWORKS.items()
}

Families = dict[str, list[Recipe]]


def entries(
    task: Task, family: str, recipe: Recipe, rates: tuple[float, ...]
) -> list[dict]:
    """One for each rate, with its score."""
    try:
        validation = outcome(
            task, recipe, LOSS, rates
        ).validation  # (settings, seeds, rates)
        means = np.exp(np.mean(np.log(validation), axis=1)).T  # (rates, settings)
        scores = [by_setting(task, map(float, values)) for values in means]
    except NonFiniteError:
        # the rates are trained together: one that fails for good ends all
        scores = [None] * len(rates)
    about = {"d0": task.dim, "family": family, "recipe": dataclasses.asdict(recipe)}
    pairs = zip(rates, scores, strict=True)
    return [about | {"rate": rate, "validation": score} for rate, score in pairs]


def search(
    tasks: Sequence[Task] = TASKS,
    rates: tuple[float, ...] = RATES,
    families: Families = FAMILIES,
    jobs: int = 1,
) -> dict:
    """The score of every candidate, and what they were tried on."""
    work = [
        (task, family, recipe, rates)
        for task in tasks
        for family, recipes in families.items()
        for recipe in recipes
    ]
    return {
        "tasks": [dataclasses.asdict(task) for task in tasks],
        "rates": list(rates),
        "loss": LOSS,
        "versions": list_versions(),
        "tried": list(itertools.chain(*each(entries, work, "search", jobs))),
    }


def by_setting(task: Task, values: Iterable[float]) -> dict[str, float]:
    """To four digits."""
    pairs = zip(task.budget.settings, values, strict=True)
    return {setting: float(f"{value:.4g}") for setting, value in pairs}


def choice(tried: list[dict]) -> dict[str, dict]:
    """The best recipe and rate: {d0: {setting: {family: {"recipe", "rate", "validation"}}}}."""
    chosen: dict[str, dict] = {}
    scored = [
        (value, setting, entry)
        for entry in tried
        for setting, value in (entry["validation"] or {}).items()
    ]
    for value, setting, entry in sorted(scored, key=lambda one: one[0]):
        best = {"recipe": entry["recipe"], "rate": entry["rate"], "validation": value}
        there = chosen.setdefault(str(entry["d0"]), {}).setdefault(setting, {})
        there.setdefault(entry["family"], best)
    return chosen


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Search the recipes of Examples 1 and 2."
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes at once")
    default = Path("results/search/spd.json")
    parser.add_argument(
        "--out", type=Path, default=default, help="file of what was tried"
    )
    arguments = parser.parse_args()
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    record = search(jobs=arguments.jobs)
    head = ",\n ".join(
        f'"{k}": {json.dumps(v)}' for k, v in record.items() if k != "tried"
    )
    tried = ",\n  ".join(map(json.dumps, record["tried"]))  # a line for each
    atomic_files.replace_file(
        arguments.out, f'{{\n {head},\n "tried": [\n  {tried}\n ]\n}}\n'.encode()
    )
    print(json.dumps(choice(record["tried"])))


if __name__ == "__main__":
    main()
