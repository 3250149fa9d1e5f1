"""Which optimiser, rate and width for Examples 1 and 2: one grid for every network, on seeds that the tables do not use.

    python -m mmlp.experiments.tune_spd [--jobs N] [--out FILE]

tries both optimisers with all rates for the networks of each family (von Neumann loss, n = 100, the default setting of the
generator), at d0 = 10 and at d0 = 20, and chooses by validation loss, the mean of its logarithm over seeds. It writes
spd_settings.json into the package. A core takes about two hours; `--jobs` share the networks among processes.
"""

import argparse
import dataclasses
import itertools
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from mmlp.checkpoint import files
from mmlp.experiments.harness import jobs as _jobs
from mmlp.experiments.harness.run import versions
from mmlp.experiments.spd.core import FAMILIES, FIRST_SEEDS, TUNED, Budget, Recipe, Task, train
from mmlp.training.core import NonFiniteError

RATES = (0.005, 0.01, 0.02, 0.04, 0.08, 0.16)
BUDGET = Budget(seeds=3, settings=("turning",), test=100)
TASKS = [Task(dim, 100, BUDGET, FIRST_SEEDS["tune"]) for dim in (10, 20)]
LOSS = "von_neumann"

Families = dict[str, list[Recipe]]


def candidates(task: Task, family: str, recipe: Recipe, rates: tuple[float, ...]) -> list[dict]:
    """An entry for each rate, with its score."""
    try:
        validation = train(task, recipe, LOSS, rates).validation  # (settings, seeds, rates)
        scores = [
            float(f"{score:.4g}") for score in np.exp(np.mean(np.log(validation), axis=(0, 1)))
        ]
    except NonFiniteError:
        scores = [None] * len(
            rates
        )  # the rates are trained together: one that fails for good ends all
    about = {"d0": task.dim, "family": family, "recipe": dataclasses.asdict(recipe)}
    return [
        about | {"rate": rate, "validation": score}
        for rate, score in zip(rates, scores, strict=True)
    ]


def tune(
    tasks: Sequence[Task] = TASKS,
    rates: tuple[float, ...] = RATES,
    families: Families = FAMILIES,
    jobs: int = 1,
) -> dict:
    """{"chosen": d0 -> family -> recipe and rate, "tried": the score of every candidate, ...}"""
    work = [
        (task, name, recipe, rates)
        for task in tasks
        for name, recipes in families.items()
        for recipe in recipes
    ]
    found = _jobs.each(candidates, work, "tune", jobs)
    tried = list(itertools.chain(*found))
    chosen: dict[str, dict] = {}
    for task, family in itertools.product(tasks, families):
        mine = [one for one in tried if (one["d0"], one["family"]) == (task.dim, family)]
        best = min(
            (one for one in mine if one["validation"] is not None),
            key=lambda one: one["validation"],
        )
        chosen.setdefault(str(task.dim), {})[family] = {
            name: best[name] for name in ("recipe", "rate", "validation")
        }
    return {
        "tasks": [dataclasses.asdict(task) for task in tasks],
        "rates": list(rates),
        "loss": LOSS,
        "chosen": chosen,
        "tried": tried,
        "versions": versions(),
    }


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m mmlp.experiments.tune_spd", description="Tune Examples 1 and 2."
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes at once")
    parser.add_argument("--out", type=Path, default=TUNED, help="file of the choices")
    arguments = parser.parse_args(argv)
    record = tune(jobs=arguments.jobs)
    files.replace(arguments.out, (json.dumps(record, indent=1) + "\n").encode())
    print(arguments.out)


if __name__ == "__main__":
    main()
