"""Which optimiser and rate for Examples 1 and 2: the same grid for every network, on seeds that the tables do not use.

    python -m mmlp.experiments.tune_spd [--out FILE]

tries both optimisers with all rates for the networks of each family, von Neumann loss, n = 100, at both sizes, and
chooses by validation loss: the mean of its logarithm over settings and seeds. It writes spd_settings.json into the package.
"""

import argparse
import dataclasses
import json
from pathlib import Path

import numpy as np

from mmlp import _files
from mmlp.experiments import _run
from mmlp.experiments._spd import FAMILIES, FIRST_SEEDS, TUNED, Budget, Task, train

RATES = (0.0025, 0.005, 0.01, 0.02, 0.04)
BUDGET = Budget(seeds=2, test=100)
LOSS = "von_neumann"


def tune(dims=(10, 20), size: int = 100, rates=RATES, budget: Budget = BUDGET, families=FAMILIES) -> dict:
    """{"chosen": family -> size -> recipe and rate, "tried": the score of every candidate, ...}"""
    chosen: dict[str, dict] = {family: {} for family in families}
    tried = []
    for dim, family in _run.progress([(dim, family) for dim in dims for family in families], "tune"):
        candidates = []
        for recipe in families[family]:
            task = Task(dim, size, budget, FIRST_SEEDS["tune"])
            validation = train(task, recipe, LOSS, tuple(rates)).validation  # (settings, seeds, rates)
            scores = np.exp(np.mean(np.log(validation), axis=(0, 1)))
            for rate, score in zip(rates, scores, strict=True):
                entry = {"recipe": dataclasses.asdict(recipe), "rate": rate, "validation": float(f"{score:.4g}")}
                candidates.append(entry)
                print(dim, family, recipe.widths, recipe.kernel, recipe.optimizer, rate, f"{score:.3e}", flush=True)
        finite = [entry for entry in candidates if np.isfinite(entry["validation"])]
        chosen[family][str(dim)] = min(finite, key=lambda entry: entry["validation"])
        tried += [{"family": family, "d0": dim, **entry} for entry in candidates]
    return {
        "task": {"n": size, "rates": list(rates), "loss": LOSS, "budget": dataclasses.asdict(budget)},
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
