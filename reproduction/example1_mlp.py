"""The paper's comparison with a plain MLP, and the same MLP trained with the same losses.

The plain MLP has 3 x 400 units, the quadratic loss and a Cholesky output; `CholeskyMLP` with each
of our losses is tuned like the matrix MLP. Data, budget and seeds are those of Example 1.
"""

import functools
from collections.abc import Sequence

from reproduction.example1 import CHOLESKY, OURS, PAPERS_MLP, claim_to_be_ahead
from reproduction.harness.claims import judged
from reproduction.spd.models import Model, paper, tuned
from reproduction.spd.tables import NOTES, Errors, as_json, by_setting, collect
from reproduction.spd.tasks import HEADINGS, LOSS_NAMES, Grid

MLP = "the paper's MLP 3 x 400, quad"
PAPERS_MATRIX = "the paper's recipe, QRE"
FAR = 10  # "far behind": this many times the error
Settings = Grid
PAPER = {  # (d0, n, row) -> E_quad, E_QRE, E_Stein
    (10, 20, MLP): (0.63, 4.3, 36.7),
    (20, 20, MLP): (0.72, 6.25, 97.4),
    (10, 100, MLP): (0.65, 4.55, 37.4),
    (20, 100, MLP): (0.73, 6.4, 98.7),
}


def models(
    dim: int, setting: str, losses: Sequence[str] = tuple(LOSS_NAMES)
) -> dict[str, Model]:
    """The rows of the table."""
    cholesky = tuned("Cholesky", dim, setting).under(losses, "Cholesky MLP")
    ours = {PAPERS_MATRIX: paper("matrix"), OURS: tuned("joint", dim, setting)}
    return {MLP: PAPERS_MLP, **cholesky, **ours}


def run(settings: Grid) -> dict:
    errors = collect(
        settings.tasks(),
        functools.partial(models, losses=settings.losses),
        "example1-mlp",
    )
    return {
        "title": "the plain MLP",
        "about": "A plain MLP whose outputs are a Cholesky factor: as the paper trained it, and "
        "with our losses and tuning.",
        "claims": claims(errors),
        "tables": by_setting(errors, settings.budget(), PAPER),
        "notes": NOTES,
        "errors": as_json(errors),
    }


def claims(errors: Errors) -> list:
    """Whether the MLP is far behind, as the paper trained both and as well as we can."""
    made = []
    for mlp, matrix, how in (
        (MLP, PAPERS_MATRIX, "as the paper trained both"),
        (MLP, OURS, "the matrix MLP joint and tuned"),
        (CHOLESKY, OURS, "both tuned and trained with QRE"),
    ):
        outcomes, ratios = [], []
        for (s, d, n), rows in errors.items():
            for i, heading in enumerate(HEADINGS.values()):
                ratios.append(rows[mlp][:, i].mean() / rows[matrix][:, i].mean())
                factors = {"measure": heading, "d0": d, "n": n, "setting": s}
                outcomes.append((factors, ratios[-1] >= FAR))
        text = f"The MLP is far behind the matrix MLP (at least {FAR} times its error), {how}."
        evidence = f"Its error is {min(ratios):.2g} to {max(ratios):.2g} times that of the matrix "
        evidence += f"MLP over settings, sizes and measures; {sum(ratio > 1 for ratio in ratios)} "
        made.append(judged(text, outcomes, f"{evidence}of {len(ratios)} are above 1."))
    return [*made, claim_to_be_ahead(errors, (MLP,), "the paper's MLP", logarithm=True)]
