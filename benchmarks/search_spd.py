"""Which optimiser, rate and width for Examples 1 and 2? One grid for every network.

    python benchmarks/search_spd.py [--jobs N] [--out results/search/spd.json]

Both optimisers with all rates are tried for the networks of each family (von Neumann loss, n = 100,
the default setting of the generator), at d0 = 10 and at d0 = 20, on seeds that the tables do not
use. The best has the smallest validation loss, by the mean of its logarithm over seeds. A core
takes about two hours; `--jobs` share the networks among processes.

All that was tried is written to --out; the choice is printed, and taken over by pasting it into
mmlp/experiments/spd/spd_settings.json.
"""

import argparse
import dataclasses
import itertools
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from mmlp.checkpoint import files
from mmlp.experiments.harness.jobs import each
from mmlp.experiments.harness.run import versions
from mmlp.experiments.spd.models import Recipe, outcome
from mmlp.experiments.spd.tasks import FIRST_SEEDS, Budget, Task
from mmlp.training import NonFiniteError

RATES = (0.005, 0.01, 0.02, 0.04, 0.08, 0.16)
BUDGET = Budget(seeds=3, settings=("turning",), test=100)
TASKS = [Task(dim, 100, BUDGET, FIRST_SEEDS["search"]) for dim in (10, 20)]
LOSS = "von_neumann"
NETWORKS = {  # family: (network, widths, output kernel)
    "matrix 3 x 20": [("matrix", (20, 20, 20), "linear")],
    "matrix, wide": [("matrix", widths, "linear") for widths in ((60, 60), (100, 100))],
    "Cholesky": [("cholesky", widths, "linear") for widths in ((20, 20, 20), (60, 60), (100, 100))],
    "Cholesky 2 x 200": [("cholesky", (200, 200), "linear")],  # tried, not used: slow
    "shallow": [("shallow", (20, 20, 20), kernel) for kernel in ("linear", "mercer")],
}
FAMILIES = {
    family: [
        Recipe(network, widths, optimizer, kernel)
        for network, widths, kernel in networks
        for optimizer in ("muon", "adam")
    ]
    for family, networks in NETWORKS.items()
}

Families = dict[str, list[Recipe]]


def entries(task: Task, family: str, recipe: Recipe, rates: tuple[float, ...]) -> list[dict]:
    """One for each rate, with its score."""
    try:
        validation = outcome(task, recipe, LOSS, rates).validation  # (settings, seeds, rates)
        means = np.exp(np.mean(np.log(validation), axis=(0, 1)))
        scores = [float(f"{score:.4g}") for score in means]
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
        "versions": versions(),
        "tried": list(itertools.chain(*each(entries, work, "search", jobs))),
    }


def choice(tried: list[dict]) -> dict[str, dict]:
    """The best recipe and rate: {d0: {family: {"recipe", "rate", "validation"}}}."""
    chosen: dict[str, dict] = {}
    scored = [entry for entry in tried if entry["validation"] is not None]
    for entry in sorted(scored, key=lambda entry: entry["validation"]):
        best = {name: entry[name] for name in ("recipe", "rate", "validation")}
        chosen.setdefault(str(entry["d0"]), {}).setdefault(entry["family"], best)
    return chosen


def main() -> None:
    parser = argparse.ArgumentParser(description="Search the recipes of Examples 1 and 2.")
    parser.add_argument("--jobs", type=int, default=1, help="processes at once")
    default = Path("results/search/spd.json")
    parser.add_argument("--out", type=Path, default=default, help="file of what was tried")
    arguments = parser.parse_args()
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    record = search(jobs=arguments.jobs)
    head = ",\n ".join(f'"{k}": {json.dumps(v)}' for k, v in record.items() if k != "tried")
    tried = ",\n  ".join(map(json.dumps, record["tried"]))  # a line for each
    files.replace(arguments.out, f'{{\n {head},\n "tried": [\n  {tried}\n ]\n}}\n'.encode())
    print(json.dumps(choice(record["tried"])))


if __name__ == "__main__":
    main()
