"""Parametrisations of which the fast tests take a few cases and `make test-all` the rest.

>>> @sweep("dim", [3, 1, 40, 200])  # dim = 3 is quick, the others are slow
... def test_a_law(dim): ...
"""

from collections.abc import Iterable
from typing import Any

import pytest


def sweep(
    names: str | tuple[str, ...],
    cases: Iterable[Any],
    *,
    quick: int = 1,
    **options: Any,
) -> pytest.MarkDecorator:
    """Parametrise a test, marking all but the first `quick` cases as slow.

    Parameters
    ----------
    names : the argument names of `pytest.mark.parametrize`
    cases : the cases, the representative ones first
    quick : the number of cases among the fast tests
    options : options of `pytest.mark.parametrize`, such as `ids`
    """
    parameters = []
    for index, case in enumerate(cases):
        if isinstance(case, type(pytest.param())):
            values, marks, name = case
        else:
            several = not isinstance(names, str) or "," in names
            values = tuple(case) if several else (case,)
            marks, name = (), None
        if index >= quick:
            marks = (*marks, pytest.mark.slow)
        parameters.append(pytest.param(*values, marks=marks, id=name))
    return pytest.mark.parametrize(names, parameters, **options)
