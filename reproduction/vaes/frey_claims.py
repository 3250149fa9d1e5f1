"""Verdicts on claims about the table of `frey`: the paper's, and ours."""

import numpy as np

from mmlp.vae import MODELS
from reproduction.harness.claims import (
    compare_larger,
    judge_claim,
    judge_claim_by_cases,
)

# Groups of rows, in the order of the table. JOINT is compared with its rivals, the
# Cholesky MLPs and the simple densities.
PAPER_RECIPE = "the paper's recipe"
MATRIX = "matrix MLP"
VON_NEUMANN = "matrix MLP, von Neumann objective"
JOINT = "matrix MLP, joint"
CHOLESKY = "Cholesky MLP"
WIDE_CHOLESKY = "Cholesky MLP, 2 x 100"
GROUPS = (PAPER_RECIPE, MATRIX, VON_NEUMANN, JOINT, CHOLESKY, WIDE_CHOLESKY)

# The paper's LL and KLD by k, the number of latent variables, and the model.
_PAPER_LL = {
    5: (-66.3, -66.4, -65.3, -64.4, -63.5, -64.0),
    8: (-64.5, -64.2, -63.9, -63.1, -62.3, -62.8),
}
_PAPER_KLD = {
    5: (9e-6, 1e-6, 3e-3, 0.65, 1.04, 56.2),
    8: (2e-5, 1e-4, 5e-3, 0.46, 0.71, 40.6),
}
PAPER_SCORES: dict[int, dict[str, tuple[float, float]]] = {
    k: {
        model: (LL, KLD)
        for model, LL, KLD in zip(MODELS, _PAPER_LL[k], _PAPER_KLD[k], strict=True)
    }
    for k in _PAPER_LL
}

# The IW that the best model with this many latent variables should reach.
GOAL_LATENT = 5
GOAL_IW = -57.5

# A test ELBO that is less than this below the training ELBO, in nats, is no
# overfitting.
MAX_GAP = 0.5

# An encoder with a KLD of more than this, in nats, is informative.
MIN_INFORMATIVE_KLD = 1.0

# Pairs of models: the first should have the larger score.
FULL_OVER_DIAGONAL = [("NfNf", "NdNd"), ("NfNf", "NdNf"), ("NfNf", "NfNd")]
POWER_OVER_GAUSSIAN = [("EfNf", "NfNf"), ("EfEf", "NfNf")]
BY_FLEXIBILITY = [
    ("NdNf", "NdNd"),
    ("NfNf", "NdNf"),
    ("EfNf", "NfNf"),
    ("EfEf", "EfNf"),
]

# A claim, the score that it is about, and the pairs.
COMPARISONS = [
    ("Full covariances beat diagonal ones in LL.", "LL", FULL_OVER_DIAGONAL),
    (
        "Full covariances beat diagonal ones in IW (ours: the score to compare).",
        "IW",
        FULL_OVER_DIAGONAL,
    ),
    ("The power exponential beats the Gaussian in LL.", "LL", POWER_OVER_GAUSSIAN),
    (
        "The power exponential beats the Gaussian in IW (ours).",
        "IW",
        POWER_OVER_GAUSSIAN,
    ),
    ("EfNf beats EfEf in LL.", "LL", [("EfNf", "EfEf")]),
    ("The KLD grows with flexibility.", "KLD", BY_FLEXIBILITY),
]

# Rows of the matrix MLP, by the number of latent variables and the model.
RowsByModel = dict[tuple[int, str], dict]


def judge_claims(trained: list[dict], simple: dict[str, dict]) -> list[dict]:
    """Judge all claims that these rows can decide.

    A difference counts beyond two standard errors, paired over splits.

    Parameters
    ----------
    trained : list of dict
        Rows of trained models: "k", "group", "model", and scores over splits.
    simple : dict of dict
        Scores of simple densities over splits, by name.

    Returns
    -------
    list of dict
    """
    matrix_rows = {
        (row["k"], row["model"]): row for row in trained if row["group"] == MATRIX
    }
    claims = [
        claim_larger_score(matrix_rows, *comparison) for comparison in COMPARISONS
    ]
    claims.append(claim_no_overfitting(matrix_rows))
    claims.append(claim_above_paper(matrix_rows))
    for row in trained:
        if row["group"] == VON_NEUMANN:
            matrix_row = matrix_rows[row["k"], row["model"]]
            claims.append(claim_von_neumann_helps(matrix_row, row))
    for k in dict.fromkeys(row["k"] for row in trained):
        claims.append(claim_best_of_all(k, trained, simple))
    return [claim for claim in claims if claim is not None]


def claim_larger_score(
    rows: RowsByModel, claim: str, score: str, pairs: list[tuple[str, str]]
) -> dict | None:
    """Judge whether the first model of each pair has the larger score."""
    cases = []
    for k in dict.fromkeys(k for k, _ in rows):
        for a, b in pairs:
            if (k, a) in rows and (k, b) in rows:
                holds, difference = compare_larger(rows[k, a][score], rows[k, b][score])
                factors = {"the pair": f"{a} over {b}", "k": k}
                cases.append((factors, holds, f"k={k}: {a} - {b} = {difference}"))
    return judge_claim_by_cases(claim, f"{score}: ", cases)


def claim_no_overfitting(rows: RowsByModel) -> dict | None:
    """Judge whether test bounds are close to training bounds."""
    cases = []
    for (k, model), row in rows.items():
        if model in ("NfNf", "EfNf", "EfEf"):
            gap = np.subtract(row["ELBO"], row["train ELBO"])
            holds, _ = compare_larger(gap, -MAX_GAP)
            _, difference = compare_larger(gap, 0.0)
            factors = {"the model": model, "k": k}
            cases.append((factors, holds, f"k={k} {model}: {difference}"))
    return judge_claim_by_cases(
        f"A flexible decoder does not overfit (ours: its test ELBO is less than "
        f"{MAX_GAP} nats below that of training).",
        "Test minus training ELBO, best epoch kept: ",
        cases,
    )


def claim_above_paper(rows: RowsByModel) -> dict | None:
    """Judge whether LL is above the paper's, with an informative encoder."""
    cases = []
    for (k, model), row in rows.items():
        if k in PAPER_SCORES:
            paper_LL, _ = PAPER_SCORES[k][model]
            is_better, difference = compare_larger(row["LL"], paper_LL)
            is_informative, _ = compare_larger(row["KLD"], MIN_INFORMATIVE_KLD)
            evidence = f"k={k} {model}: {difference}, KLD {np.mean(row['KLD']):.1f}"
            factors = {"the model": model, "k": k}
            cases.append((factors, is_better and is_informative, evidence))
    return judge_claim_by_cases(
        "Ours: every model has a higher test LL than the paper's, and a KLD above "
        f"{MIN_INFORMATIVE_KLD:g} nat.",
        "LL minus the paper's: ",
        cases,
    )


def claim_von_neumann_helps(row: dict, von_neumann_row: dict) -> dict | None:
    """Judge training with the von Neumann term in place of the KL term's log-det."""
    is_better, IW = compare_larger(von_neumann_row["IW"], row["IW"])
    _, KLD = compare_larger(von_neumann_row["KLD"], row["KLD"])
    return judge_claim(
        "Ours: training with the von Neumann term raises IW "
        f"({row['model']}, k={row['k']}).",
        is_better,
        f"IW {IW}, KLD {KLD}.",
    )


def claim_best_of_all(
    k: int, trained: list[dict], simple: dict[str, dict]
) -> dict | None:
    """Compare the joint matrix MLP with every rival, on splits that no search used."""
    rows = [row for row in trained if row["k"] == k]
    joint_scores = [row["IW"] for row in rows if row["group"] == JOINT]
    rivals = {
        f"{row['group']} {row['model']}": row
        for row in rows
        if row["group"] in (CHOLESKY, WIDE_CHOLESKY)
    }
    if not (joint_scores and rivals):
        return None

    (IW,) = joint_scores
    cases = []
    for name, row in (rivals | simple).items():
        is_better, difference = compare_larger(IW, row["IW"][: len(IW)])
        cases.append(({"the rival": name}, is_better, f"{name} {difference}"))
    claim = f"Ours, k={k}: the joint matrix MLP beats every rival in IW"
    if k == GOAL_LATENT:
        is_above, distance = compare_larger(IW, GOAL_IW)
        goal = f"the goal {GOAL_IW}"
        cases.append(({"the rival": goal}, is_above, f"{goal} {distance}"))
        claim += f", and is above {GOAL_IW}"
    return judge_claim_by_cases(
        f"{claim}.", f"{len(IW)} splits, IW {np.mean(IW):.2f}; ahead of: ", cases
    )
