"""The paper's comparison with a plain MLP, and what becomes of it when that MLP is trained with the same losses.

    python -m mmlp.experiments.example1_mlp [--quick] [--seeds N] [--out report]     writes example1-mlp.json

The plain MLP has 3 x 400 units, the quadratic loss and a Cholesky output; `CholeskyMLP` with each of our losses is tuned
like the matrix MLP (`tune_spd`). Data, budget and seeds are those of Example 1.
"""

import dataclasses
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from mmlp.experiments.example1 import MLP, NOTES, OURS, PAPERS_MLP, claim_to_be_ahead
from mmlp.experiments.harness.claims import verdict
from mmlp.experiments.harness.jobs import progress
from mmlp.experiments.harness.run import main
from mmlp.experiments.spd import core as _spd
from mmlp.experiments.spd.core import (
    HEADINGS,
    LOSS_NAMES,
    PAPER_RATE,
    Budget,
    Errors,
    Model,
    Task,
    paper,
    tuned,
)

PAPERS_MATRIX = "the paper's recipe, QRE"
FAR = 10  # "far behind": this many times the error

PAPER = {  # (d0, n) -> E_quad, E_QRE, E_Stein of the MLP
    (10, 20): (0.63, 4.3, 36.7),
    (20, 20): (0.72, 6.25, 97.4),
    (10, 100): (0.65, 4.55, 37.4),
    (20, 100): (0.73, 6.4, 98.7),
}


@dataclasses.dataclass(frozen=True)
class Settings(Budget):
    """The plain MLP of the paper, and Cholesky MLPs trained with each loss, beside the matrix MLP."""

    dims: tuple[int, ...] = (10, 20)
    sizes: tuple[int, ...] = (20, 100)
    losses: tuple[str, ...] = tuple(LOSS_NAMES)

    QUICK: ClassVar = _spd.QUICK | {"sizes": (20,), "losses": ("von_neumann", "quadratic")}


def models(dim: int, losses: Sequence[str] = tuple(LOSS_NAMES)) -> dict[str, Model]:
    """The rows of the table; the Cholesky MLP under each of the losses."""
    rows = {MLP: PAPERS_MLP}
    rows |= {_cholesky(LOSS_NAMES[loss]): Model(*tuned("Cholesky", dim), loss) for loss in losses}
    rows[PAPERS_MATRIX] = Model(paper("matrix"), PAPER_RATE, "von_neumann")
    rows[OURS] = Model(*tuned("matrix, wide", dim), "von_neumann")
    return rows


def _cholesky(loss: str) -> str:
    return f"Cholesky MLP, {loss}"


def run(settings: Settings) -> dict:
    budget = settings.budget()
    tasks = [
        Task(d, n, budget, _spd.FIRST_SEEDS["example1"])
        for d, n in itertools.product(settings.dims, settings.sizes)
    ]
    errors: Errors = {}
    for task in progress(tasks, "example1-mlp"):
        errors |= _spd.collect(task, models(task.dim, settings.losses))
    published = {(*group, MLP): values for group, values in PAPER.items()}
    return {
        "title": "the plain MLP",
        "about": "A plain MLP whose outputs are a Cholesky factor: as the paper trained it, and with our losses and tuning.",
        "claims": claims(errors),
        "tables": _spd.tables(errors, budget, published),
        "notes": NOTES,
        "errors": _spd.as_json(errors),
    }


def claims(errors: Errors) -> list[dict]:
    """Whether the MLP is far behind, as the paper trained both and with both trained as well as we can."""
    cases = list(dict.fromkeys(key[:3] for key in errors))
    made = []
    for mlp, matrix, how in (
        (MLP, PAPERS_MATRIX, "as the paper trained both"),
        (MLP, OURS, "the matrix MLP wide and tuned"),
        (_cholesky("QRE"), OURS, "both tuned and trained with QRE"),
    ):
        outcomes, ratios = [], []
        for (setting, d, n), (m, heading) in itertools.product(cases, enumerate(HEADINGS.values())):
            ratio = (
                errors[setting, d, n, mlp][:, m].mean() / errors[setting, d, n, matrix][:, m].mean()
            )
            outcomes.append(
                ({"measure": heading, "d0": d, "n": n, "setting": setting}, bool(ratio >= FAR))
            )
            ratios.append(ratio)
        made.append(
            {
                "claim": f"The MLP is far behind the matrix MLP (at least {FAR} times its error), {how}.",
                "verdict": verdict(outcomes),
                "evidence": f"Its error is {min(ratios):.2g} to {max(ratios):.2g} times that of the matrix MLP over "
                f"settings, sizes and measures; {sum(ratio > 1 for ratio in ratios)} of {len(ratios)} are above 1.",
            }
        )
    return [*made, claim_to_be_ahead(errors, (MLP,), "the paper's MLP", logarithm=True)]


def draw(record: dict, out: Path) -> None:
    """No figure of its own: the paper's MLP is in that of Example 1."""


if __name__ == "__main__":
    main("example1-mlp")
