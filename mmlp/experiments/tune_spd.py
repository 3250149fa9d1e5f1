"""Which optimiser and rate for Examples 1 and 2: the same grid for every network, on seeds that the tables do not use.

    python -m mmlp.experiments.tune_spd [--out FILE]

tries both optimisers with all rates for the networks of each family (von Neumann loss, d0 = 10, n = 100, the default setting
of the generator) and chooses by validation loss, the mean of its logarithm over seeds. It writes spd_settings.json into the
package.
"""

import argparse
import dataclasses
import json
from pathlib import Path

import numpy as np

from mmlp import _files
from mmlp.experiments import _run
from mmlp.experiments._spd import FAMILIES, FIRST_SEEDS, TUNED, Budget, Task, train

RATES = (0.01, 0.02, 0.04)
TASK = Task(10, 100, Budget(seeds=2, settings=("turning",), test=100), FIRST_SEEDS["tune"])
LOSS = "von_neumann"


def tune(task: Task = TASK, rates: tuple[float, ...] = RATES, families=FAMILIES) -> dict:
    """{"chosen": family -> recipe and rate, "tried": the score of every candidate, ...}"""
    chosen, tried = {}, []
    for family in _run.progress(families, "tune"):
        candidates = []
        for recipe in families[family]:
            validation = train(task, recipe, LOSS, rates).validation  # (settings, seeds, rates)
            scores = np.exp(np.mean(np.log(validation), axis=(0, 1)))
            for rate, score in zip(rates, scores, strict=True):
                entry = {"recipe": dataclasses.asdict(recipe), "rate": rate, "validation": float(f"{score:.4g}")}
                candidates.append(entry)
                print(family, recipe.widths, recipe.kernel, recipe.optimizer, rate, f"{score:.3e}", flush=True)
        finite = [entry for entry in candidates if np.isfinite(entry["validation"])]
        chosen[family] = min(finite, key=lambda entry: entry["validation"])
        tried += [{"family": family, **entry} for entry in candidates]
    return {
        "task": dataclasses.asdict(task) | {"rates": list(rates), "loss": LOSS},
        "chosen": chosen,
        "tried": tried,
        "versions": _run.versions(),
    }


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m mmlp.experiments.tune_spd", description="Tune Examples 1 and 2.")
    parser.add_argument("--out", type=Path, default=TUNED, help="file of the choices")
    out = parser.parse_args(argv).out
    _files.replace(out, (json.dumps(tune(), indent=1) + "\n").encode())
    print(out)


if __name__ == "__main__":
    main()
