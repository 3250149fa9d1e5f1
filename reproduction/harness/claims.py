"""Verdicts from numbers: whether one model is ahead of another, and what a claim depends on."""

from collections.abc import Sequence
from typing import Any

import numpy as np

# each case by its factors, such as {"d0": 10, "measure": "E_QRE"}, and whether the claim holds
Outcomes = Sequence[tuple[dict[str, Any], bool]]


def advantage(ours: np.ndarray, other: np.ndarray) -> tuple[float, float]:
    """By how much `ours` (seeds,) is smaller: mean of the paired differences, standard error.

    >>> advantage(np.array([1.0, 2.0]), np.array([2.0, 4.0]))
    (1.5, 0.5)
    """
    difference = np.asarray(other) - np.asarray(ours)
    error = (
        np.std(difference, ddof=1) / len(difference) ** 0.5
        if len(difference) > 1
        else np.nan
    )
    return float(np.mean(difference)), float(error)


def ahead(ours: np.ndarray, other: np.ndarray) -> bool:
    """Smaller by more than two standard errors; never so with one seed."""
    mean, error = advantage(ours, other)
    return mean > 2 * error


def more(a: Sequence[float], b: Sequence[float] | float) -> tuple[bool, str]:
    """Whether `a` (seeds,) is larger than `b`, as `ahead` has it, and by how much.

    >>> more([2.0, 4.0], [1.0, 2.0]), more([2.0], 1.0)
    ((True, '+1.50 ± 0.50'), (False, '+1.00 (one seed)'))
    """
    large, small = np.asarray(a), np.broadcast_to(b, len(a))
    mean, error = advantage(small, large)
    spread = f"± {error:.2f}" if np.isfinite(error) else "(one seed)"
    return ahead(small, large), f"{mean:+.2f} {spread}"


def judged(
    claim: str, outcomes: Outcomes | bool, evidence: str
) -> dict[str, str] | None:
    """An entry of `claims` of a record, or None where there is nothing to judge by."""
    cases = [({}, outcomes)] if isinstance(outcomes, bool) else outcomes
    return (
        {"claim": claim, "verdict": verdict(cases), "evidence": evidence}
        if cases
        else None
    )


def judged_cases(
    claim: str, evidence: str, cases: Sequence[tuple[dict, bool, str]]
) -> dict | None:
    """`judged` by cases that each bring a line of evidence: (factors, whether it holds, line)."""
    lines = "; ".join(line for _, _, line in cases)
    return judged(
        claim, [(factors, holds) for factors, holds, _ in cases], f"{evidence}{lines}."
    )


def verdict(outcomes: Outcomes) -> str:
    """ "holds" if in all cases, "does not hold" if in none, otherwise what it depends on.

    A factor whose every value decides the outcome is named; if there is none, the share of cases.

    >>> verdict([({"d0": 10}, True), ({"d0": 20}, True)])
    'holds'
    >>> cases = ({"d0": 10, "n": 2}, {"d0": 10, "n": 9}, {"d0": 20, "n": 9})
    >>> verdict([(case, case["d0"] == 10) for case in cases])
    'depends on d0: holds for 10, not for 20'
    """
    results = [result for _, result in outcomes]
    if all(results):
        return "holds"
    if not any(results):
        return "does not hold"
    for factor in outcomes[0][0]:
        values = _by_value(outcomes, factor)
        if all(len(set(found)) == 1 for found in values.values()):
            yes = ", ".join(str(value) for value, found in values.items() if found[0])
            no = ", ".join(
                str(value) for value, found in values.items() if not found[0]
            )
            return f"depends on {factor}: holds for {yes}, not for {no}"
    return f"depends on the case: holds in {sum(results)} of {len(results)}"


def shares(outcomes: Outcomes, factor: str) -> str:
    """In how many cases it holds, by one factor.

    >>> shares([({"d0": 10}, True), ({"d0": 10}, False), ({"d0": 20}, True)], "d0")
    '10: 1 of 2; 20: 1 of 1'
    """
    by_value = _by_value(outcomes, factor).items()
    return "; ".join(
        f"{value}: {sum(found)} of {len(found)}" for value, found in by_value
    )


def _by_value(outcomes: Outcomes, factor: str) -> dict[Any, list[bool]]:
    found: dict[Any, list[bool]] = {}
    for case, result in outcomes:
        found.setdefault(case[factor], []).append(bool(result))
    return found
