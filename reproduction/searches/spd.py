"""Search optimiser, learning rate and width for Examples 1 and 2, on one grid for all.

    python -m reproduction.searches.spd [--jobs N] [--out results/search/spd.json]

All learning rates are tried for the networks of each family (von Neumann loss, n = 100,
both settings of the generator), at d0 = 10 and at d0 = 20, on seeds that the tables do
not use. The joint matrix MLP has as many trials as the Cholesky MLP, 36. The best has
the smallest validation loss, by the mean of its logarithm over seeds. `--jobs` shares
the networks among processes. An H200 took a quarter of an hour for the joint and the
Cholesky MLPs; one core takes hours.

All trials are written to --out. The choice is printed; to use it, paste it into
reproduction/spd/spd_settings.json. results/search/spd.json also has earlier rounds:
Adam, wide matrix MLPs and the shallow design in the first setting, by 0.1.0, which the
table still uses for the narrow matrix MLP and the shallow design; larger matrices in
the joint network, no better; and smaller steps for its factors W, C and A, which make
larger rates possible, and are no better.
"""

import argparse
import dataclasses
import itertools
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from mmlp import atomic_files
from mmlp.reporting.records import list_versions
from mmlp.training import NonFiniteError
from reproduction.harness.parallel import map_in_processes
from reproduction.spd.models import Recipe, train_networks
from reproduction.spd.tasks import FIRST_SEEDS, Budget, Task

RATES = (0.00125, 0.0025, 0.005, 0.01, 0.02, 0.04)
BUDGET = Budget(seeds=3, test=100)
TASKS = [Task(dim, 100, BUDGET, FIRST_SEEDS["search"]) for dim in (10, 20)]
LOSS = "von_neumann"

# Widths of the matrix path and of the vector path of a joint network.
JOINT_WIDTHS = (
    ((20, 20), (100, 100)),
    ((20, 20), (200, 200)),
    ((20, 20, 20), (100, 100, 100)),
)
CHOLESKY_WIDTHS = (
    (20, 20, 20),
    (60, 60, 60),
    (100, 100, 100),
    (60, 60),
    (100, 100),
    (200, 200),
)

Families = dict[str, list[Recipe]]
FAMILIES: Families = {
    "matrix 3 x 20": [Recipe("matrix", (20, 20, 20), "muon", "linear")],
    "joint": [
        Recipe("joint", widths, "muon", output, features)
        for output in ("linear", "triangular")
        for widths, features in JOINT_WIDTHS
    ],
    "Cholesky": [
        Recipe("cholesky", widths, "muon", "triangular") for widths in CHOLESKY_WIDTHS
    ],
    "shallow": [
        Recipe("shallow", (20, 20, 20), "muon", kernel)
        for kernel in ("linear", "mercer")
    ],
}


def search(
    tasks: Sequence[Task] = TASKS,
    rates: tuple[float, ...] = RATES,
    families: Families = FAMILIES,
    jobs: int = 1,
) -> dict:
    """Return the score of every candidate, and what they were tried on."""
    work = [
        (task, family, recipe, rates)
        for task in tasks
        for family, recipes in families.items()
        for recipe in recipes
    ]
    trials = map_in_processes(run_trials, work, "search", jobs)
    return {
        "tasks": [dataclasses.asdict(task) for task in tasks],
        "rates": list(rates),
        "loss": LOSS,
        "versions": list_versions(),
        "tried": list(itertools.chain(*trials)),
    }


def run_trials(
    task: Task, family: str, recipe: Recipe, rates: tuple[float, ...]
) -> list[dict]:
    """Return an entry for each learning rate, with its scores by setting."""
    try:
        outcome = train_networks(task, recipe, LOSS, rates)
        scores = mean_validation(task, outcome.validation)
    except NonFiniteError:
        # The rates are trained together: one that fails for good ends all.
        scores = [None] * len(rates)
    return [
        {
            "d0": task.dim,
            "family": family,
            "recipe": dataclasses.asdict(recipe),
            "rate": rate,
            "validation": score,
        }
        for rate, score in zip(rates, scores, strict=True)
    ]


def mean_validation(task: Task, validation: np.ndarray) -> list[dict[str, float]]:
    """Return geometric means over seeds to four digits, by setting, for each rate.

    Parameters
    ----------
    task : Task
    validation : array of shape (settings, seeds, rates)

    Returns
    -------
    list of dict
    """
    means = np.exp(np.mean(np.log(validation), axis=1))  # (settings, rates)
    return [
        {
            setting: float(f"{value:.4g}")
            for setting, value in zip(task.budget.settings, values, strict=True)
        }
        for values in means.T
    ]


def choose_best(trials: list[dict]) -> dict[str, dict]:
    """Return the best recipe and learning rate.

    Returns
    -------
    dict
        {d0: {setting: {family: {"recipe", "rate", "validation"}}}}
    """
    scored = [
        (value, setting, entry)
        for entry in trials
        for setting, value in (entry["validation"] or {}).items()
    ]
    scored.sort(key=lambda item: item[0])

    choices: dict[str, dict] = {}
    for value, setting, entry in scored:
        choice = {"recipe": entry["recipe"], "rate": entry["rate"], "validation": value}
        by_setting = choices.setdefault(str(entry["d0"]), {})
        by_family = by_setting.setdefault(setting, {})
        # The first entry of a family is its best.
        by_family.setdefault(entry["family"], choice)
    return choices


def main() -> None:
    """Run the search, write all trials and print the choice."""
    parser = argparse.ArgumentParser(
        description="Search the recipes of Examples 1 and 2."
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes at once")
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("results/search/spd.json"),
        help="file of what was tried",
    )
    arguments = parser.parse_args()

    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    record = search(jobs=arguments.jobs)
    trials = record["tried"]
    head = ",\n ".join(
        f'"{key}": {json.dumps(value)}'
        for key, value in record.items()
        if key != "tried"
    )
    lines = ",\n  ".join(json.dumps(entry) for entry in trials)
    content = f'{{\n {head},\n "tried": [\n  {lines}\n ]\n}}\n'
    atomic_files.replace_file(arguments.out, content.encode())
    print(json.dumps(choose_best(trials)))


if __name__ == "__main__":
    main()
