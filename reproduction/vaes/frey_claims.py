"""Verdicts on the paper's claims about the VAE table, and on ours, from scores over splits."""

import numpy as np

from mmlp.vae import MODELS
from reproduction.harness.claims import judged, judged_cases, more

PAPERS, OURS, VON_NEUMANN = (
    "the paper's recipe",
    "matrix MLP",
    "matrix MLP, von Neumann objective",
)
BEST, NARROW, WIDE = "matrix MLP, joint", "Cholesky MLP", "Cholesky MLP, 2 x 100"
GROUPS = (PAPERS, OURS, VON_NEUMANN, BEST, NARROW, WIDE)  # in the order of the table
_PAPER = {  # k: LL and KLD of the six models
    5: (
        (-66.3, -66.4, -65.3, -64.4, -63.5, -64.0),
        (9e-6, 1e-6, 3e-3, 0.65, 1.04, 56.2),
    ),
    8: (
        (-64.5, -64.2, -63.9, -63.1, -62.3, -62.8),
        (2e-5, 1e-4, 5e-3, 0.46, 0.71, 40.6),
    ),
}
PAPER = {
    k: dict(zip(MODELS, zip(*by, strict=True), strict=True)) for k, by in _PAPER.items()
}
GOAL = (5, -57.5)  # latent variables, IW
GAP = 0.5  # nats from the training to the test bound that count as no overfitting
INFORMATIVE = 1.0  # nats of KLD
FULL = [("NfNf", "NdNd"), ("NfNf", "NdNf"), ("NfNf", "NfNd")]
POWER = [("EfNf", "NfNf"), ("EfEf", "NfNf")]
CHAIN = [("NdNf", "NdNd"), ("NfNf", "NdNf"), ("EfNf", "NfNf"), ("EfEf", "EfNf")]
COMPARED = [  # the claim, a score, and pairs of models of which the first should have more of it
    ("Full covariances beat diagonal ones in LL.", "LL", FULL),
    (
        "Full covariances beat diagonal ones in IW (ours: what the claim should mean).",
        "IW",
        FULL,
    ),
    ("The power exponential beats the Gaussian in LL.", "LL", POWER),
    ("The power exponential beats the Gaussian in IW (ours).", "IW", POWER),
    ("EfNf beats EfEf in LL.", "LL", [("EfNf", "EfEf")]),
    ("The KLD grows with flexibility.", "KLD", CHAIN),
]


def claims(trained: list[dict], simple: dict[str, dict]) -> list[dict]:
    """All that these rows can judge, by two standard errors of differences paired over splits."""
    ours = {(row["k"], row["model"]): row for row in trained if row["group"] == OURS}
    others = [row for row in trained if row["group"] == VON_NEUMANN]
    found = [
        *(compared(ours, *claim) for claim in COMPARED),
        overfitting(ours),
        above_paper(ours),
    ]
    found += [objective(ours[row["k"], row["model"]], row) for row in others]
    found += [
        best_of_all(k, trained, simple)
        for k in dict.fromkeys(row["k"] for row in trained)
    ]
    return list(filter(None, found))


def compared(
    rows: dict, text: str, name: str, pairs: list[tuple[str, str]]
) -> dict | None:
    cases = []
    for k in dict.fromkeys(k for k, _ in rows):
        for a, b in pairs:
            if (k, a) in rows and (k, b) in rows:
                holds, by = more(rows[k, a][name], rows[k, b][name])
                factors = {"the pair": f"{a} over {b}", "k": k}
                cases.append((factors, holds, f"k={k}: {a} - {b} = {by}"))
    return judged_cases(text, f"{name}: ", cases)


def overfitting(rows: dict) -> dict | None:
    cases = []
    for (k, model), row in rows.items():
        if model in ("NfNf", "EfNf", "EfEf"):
            gap = np.subtract(row["ELBO"], row["train ELBO"])
            line = f"k={k} {model}: {more(gap, 0.0)[1]}"
            cases.append(({"the model": model, "k": k}, more(gap, -GAP)[0], line))
    ours = f"(ours: its test ELBO is less than {GAP} nats below that of training)"
    text = f"A flexible decoder does not overfit {ours}."
    return judged_cases(text, "Test minus training ELBO, best epoch kept: ", cases)


def above_paper(rows: dict) -> dict | None:
    cases = []
    for (k, model), row in rows.items():
        if k in PAPER:
            better, difference = more(row["LL"], PAPER[k][model][0])
            holds = better and more(row["KLD"], INFORMATIVE)[0]
            line = f"k={k} {model}: {difference}, KLD {np.mean(row['KLD']):.1f}"
            cases.append(({"the model": model, "k": k}, holds, line))
    text = "Ours: every model has a higher test LL than the paper's, and a KLD above "
    return judged_cases(f"{text}{INFORMATIVE:g} nat.", "LL minus the paper's: ", cases)


def objective(row: dict, other: dict) -> dict | None:
    """The von Neumann term in place of the KL term's log-det, in training only."""
    (better, IW), (_, KLD) = (more(other[name], row[name]) for name in ("IW", "KLD"))
    text = f"Ours: training with the von Neumann term raises IW ({row['model']}, k={row['k']})."
    return judged(
        text, [({"the objective": "von Neumann"}, better)], f"IW {IW}, KLD {KLD}."
    )


def best_of_all(k: int, trained: list[dict], simple: dict[str, dict]) -> dict | None:
    """The joint matrix MLP against every rival, on splits that no search has used."""
    rows = {f"{row['group']} {row['model']}": row for row in trained if row["k"] == k}
    ours = [row["IW"] for row in rows.values() if row["group"] == BEST]
    rivals = {name: row for name, row in rows.items() if row["group"] in (NARROW, WIDE)}
    if not (ours and rivals):
        return None
    (a,), cases = ours, []
    for name, row in (rivals | simple).items():
        better, difference = more(a, row["IW"][: len(a)])
        cases.append(({"the rival": name}, better, f"{name} {difference}"))
    text = f"Ours, k={k}: the joint matrix MLP beats every rival in IW"
    evidence = f"{len(a)} splits, IW {np.mean(a):.2f}; ahead of: "
    if k == GOAL[0]:
        above, distance = more(a, GOAL[1])
        cases.append(
            (
                {"the rival": f"the goal {GOAL[1]}"},
                above,
                f"the goal {GOAL[1]} {distance}",
            )
        )
        text += f", and is above {GOAL[1]}"
    return judged_cases(f"{text}.", evidence, cases)
