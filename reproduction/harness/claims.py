"""Verdicts on claims: whether a model is ahead of another, and in which cases."""

from collections.abc import Sequence
from typing import Any

import numpy as np

# A case is described by its factors, such as {"d0": 10, "measure": "E_QRE"}, and the
# claim holds in it or not.
Outcomes = Sequence[tuple[dict[str, Any], bool]]


def paired_advantage(ours: np.ndarray, other: np.ndarray) -> tuple[float, float]:
    """Return by how much `ours` is smaller: the mean paired difference and its error.

    Parameters
    ----------
    ours, other : array of shape (seeds,)
        Errors with the same seeds.

    Returns
    -------
    mean : float
        Positive if `ours` is smaller.
    standard_error : float
        NaN for a single seed.

    Examples
    --------
    >>> paired_advantage(np.array([1.0, 2.0]), np.array([2.0, 4.0]))
    (1.5, 0.5)
    """
    difference = np.asarray(other) - np.asarray(ours)
    n_seeds = len(difference)
    standard_error = np.nan
    if n_seeds > 1:
        standard_error = np.std(difference, ddof=1) / n_seeds**0.5
    return float(np.mean(difference)), float(standard_error)


def is_smaller(ours: np.ndarray, other: np.ndarray) -> bool:
    """Tell whether `ours` is smaller by more than two standard errors.

    This is never so with a single seed.

    Parameters
    ----------
    ours, other : array of shape (seeds,)
        Errors with the same seeds.

    Returns
    -------
    bool
    """
    mean, standard_error = paired_advantage(ours, other)
    return mean > 2 * standard_error


def compare_larger(
    ours: Sequence[float], other: Sequence[float] | float
) -> tuple[bool, str]:
    """Tell whether `ours` is larger by more than two standard errors, and by how much.

    Parameters
    ----------
    ours : sequence of float, one for each seed
    other : sequence of the same length, or one number

    Returns
    -------
    is_larger : bool
    difference : str
        The mean paired difference with its standard error.

    Examples
    --------
    >>> compare_larger([2.0, 4.0], [1.0, 2.0])
    (True, '+1.50 ± 0.50')
    >>> compare_larger([2.0], 1.0)
    (False, '+1.00 (one seed)')
    """
    our_values = np.asarray(ours)
    other_values = np.broadcast_to(other, len(ours))
    # `ours` is larger if `other` is smaller.
    mean, standard_error = paired_advantage(other_values, our_values)
    spread = f"± {standard_error:.2f}" if np.isfinite(standard_error) else "(one seed)"
    return is_smaller(other_values, our_values), f"{mean:+.2f} {spread}"


def judge_claim(
    claim: str, outcomes: Outcomes | bool, evidence: str
) -> dict[str, str] | None:
    """Return an entry for the list "claims" of an experiment's result.

    Parameters
    ----------
    claim : str
        The claim, as a sentence.
    outcomes : bool, or sequence of (factors, bool)
        Whether it holds, in each case.
    evidence : str
        The numbers, as a sentence.

    Returns
    -------
    dict or None
        None if there are no cases to judge by.
    """
    cases = [({}, outcomes)] if isinstance(outcomes, bool) else outcomes
    if not cases:
        return None
    return {"claim": claim, "verdict": decide_verdict(cases), "evidence": evidence}


def judge_claim_by_cases(
    claim: str, evidence: str, cases: Sequence[tuple[dict, bool, str]]
) -> dict[str, str] | None:
    """Judge a claim by cases, each with its own line of evidence.

    Parameters
    ----------
    claim : str
        The claim, as a sentence.
    evidence : str
        The text before these lines.
    cases : sequence of (factors, bool, str)
        The factors of a case, whether the claim holds, and the line of evidence.

    Returns
    -------
    dict or None
        None if there are no cases.
    """
    outcomes = [(factors, holds) for factors, holds, _ in cases]
    lines = "; ".join(line for _, _, line in cases)
    return judge_claim(claim, outcomes, f"{evidence}{lines}.")


def decide_verdict(outcomes: Outcomes) -> str:
    """Return a verdict: holds, does not hold, or what it depends on.

    If a factor decides the outcome by its value, that factor is named. Otherwise the
    share of cases is given.

    Examples
    --------
    >>> decide_verdict([({"d0": 10}, True), ({"d0": 20}, True)])
    'holds'
    >>> cases = ({"d0": 10, "n": 2}, {"d0": 10, "n": 9}, {"d0": 20, "n": 9})
    >>> decide_verdict([(case, case["d0"] == 10) for case in cases])
    'depends on d0: holds for 10, not for 20'
    """
    results = [result for _, result in outcomes]
    if all(results):
        return "holds"
    if not any(results):
        return "does not hold"

    first_case, _ = outcomes[0]
    for factor in first_case:
        results_by_value = _group_by_value(outcomes, factor)
        if all(len(set(group)) == 1 for group in results_by_value.values()):
            yes = [str(value) for value, group in results_by_value.items() if group[0]]
            no = [
                str(value) for value, group in results_by_value.items() if not group[0]
            ]
            return (
                f"depends on {factor}: holds for {', '.join(yes)}, "
                f"not for {', '.join(no)}"
            )
    return f"depends on the case: holds in {sum(results)} of {len(results)}"


def format_shares(outcomes: Outcomes, factor: str) -> str:
    """Write in how many cases a claim holds, for each value of a factor.

    Examples
    --------
    >>> cases = [({"d0": 10}, True), ({"d0": 10}, False), ({"d0": 20}, True)]
    >>> format_shares(cases, "d0")
    '10: 1 of 2; 20: 1 of 1'
    """
    results_by_value = _group_by_value(outcomes, factor)
    return "; ".join(
        f"{value}: {sum(group)} of {len(group)}"
        for value, group in results_by_value.items()
    )


def _group_by_value(outcomes: Outcomes, factor: str) -> dict[Any, list[bool]]:
    """Return the results for each value of a factor."""
    results_by_value: dict[Any, list[bool]] = {}
    for case, result in outcomes:
        results_by_value.setdefault(case[factor], []).append(bool(result))
    return results_by_value
