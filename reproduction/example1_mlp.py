"""The paper's comparison with a plain MLP, and that MLP trained with our losses.

    python -m reproduction example1-mlp [--quick] [--seeds 5] [--out report]

The plain MLP has 3 x 400 units, the quadratic loss and a Cholesky output. `CholeskyMLP`
with each of our losses is tuned like the matrix MLP. Data, budget and seeds are those
of Example 1.
"""

import functools
from collections.abc import Sequence

from reproduction.example1 import CHOLESKY, OURS, PAPERS_MLP, claim_ahead_of
from reproduction.harness.claims import judge_claim
from reproduction.spd.models import Model, paper_model, tuned_model
from reproduction.spd.tables import (
    NOTES,
    Errors,
    collect_errors,
    errors_to_json,
    make_tables,
)
from reproduction.spd.tasks import HEADINGS, LOSS_NAMES, Grid

# Rows of the table.
MLP = "the paper's MLP 3 x 400, quad"
PAPERS_MATRIX = "the paper's recipe, QRE"

# "Far behind" means this many times the error.
FAR_BEHIND = 10

# By (d0, n, row): E_quad, E_QRE and E_Stein.
PAPER = {
    (10, 20, MLP): (0.63, 4.3, 36.7),
    (20, 20, MLP): (0.72, 6.25, 97.4),
    (10, 100, MLP): (0.65, 4.55, 37.4),
    (20, 100, MLP): (0.73, 6.4, 98.7),
}

Settings = Grid


def make_models(
    dim: int, setting: str, losses: Sequence[str] = tuple(LOSS_NAMES)
) -> dict[str, Model]:
    """Return the models of the table, by row."""
    cholesky = tuned_model("Cholesky", dim, setting)
    return {
        MLP: PAPERS_MLP,
        **cholesky.with_losses(losses, "Cholesky MLP"),
        PAPERS_MATRIX: paper_model("matrix"),
        OURS: tuned_model("joint", dim, setting),
    }


def run(settings: Grid) -> dict:
    """Train all networks and compare them."""
    models_of = functools.partial(make_models, losses=settings.losses)
    errors = collect_errors(settings.tasks(), models_of, "example1-mlp")
    return {
        "title": "the plain MLP",
        "about": "A plain MLP whose outputs are a Cholesky factor: as the paper "
        "trained it, and with our losses and tuning.",
        "claims": judge_claims(errors),
        "tables": make_tables(errors, settings.budget(), PAPER),
        "notes": NOTES,
        "errors": errors_to_json(errors),
    }


def judge_claims(errors: Errors) -> list[dict | None]:
    """Judge whether the MLP is far behind, as the paper trained it and at its best."""
    return [
        claim_far_behind(errors, MLP, PAPERS_MATRIX, "as the paper trained both"),
        claim_far_behind(errors, MLP, OURS, "the matrix MLP joint and tuned"),
        claim_far_behind(errors, CHOLESKY, OURS, "both tuned and trained with QRE"),
        claim_ahead_of(errors, (MLP,), "the paper's MLP", compare_logs=True),
    ]


def claim_far_behind(
    errors: Errors, mlp: str, matrix_mlp: str, description: str
) -> dict | None:
    """Judge whether one row is far behind another, in all measures."""
    outcomes = []
    ratios = []
    for (setting, d, n), rows in errors.items():
        for i, heading in enumerate(HEADINGS.values()):
            ratio = rows[mlp][:, i].mean() / rows[matrix_mlp][:, i].mean()
            ratios.append(ratio)
            factors = {"measure": heading, "d0": d, "n": n, "setting": setting}
            outcomes.append((factors, ratio >= FAR_BEHIND))
    n_above_one = sum(ratio > 1 for ratio in ratios)
    return judge_claim(
        f"The MLP is far behind the matrix MLP (at least {FAR_BEHIND} times its "
        f"error), {description}.",
        outcomes,
        f"Its error is {min(ratios):.2g} to {max(ratios):.2g} times that of the matrix "
        f"MLP over settings, sizes and measures; {n_above_one} of {len(ratios)} are "
        "above 1.",
    )
