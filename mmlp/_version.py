"""The version of the package, and the versions of jaxlib that can hang.

In jaxlib 0.9.1 up to 0.11.1, batched LAPACK calls that run on XLA's own thread pool
wait for each other; on one core they always hang. `pyproject.toml` admits none of these
versions, but an environment may hold one all the same.
"""

import re
import warnings

__version__ = "0.2.0"
FIRST_BAD_JAXLIB = (0, 9, 1)
FIRST_GOOD_JAXLIB = (0, 11, 2)


def can_hang(jaxlib: str) -> bool:
    """Whether this version of jaxlib can hang.

    >>> can_hang("0.9.0.1"), can_hang("0.9.2"), can_hang("0.12.0.1")
    (False, True, False)
    """
    numbers = re.match(r"\d+(\.\d+)*", jaxlib)
    parts = tuple(int(part) for part in numbers[0].split(".")) if numbers else ()
    return FIRST_BAD_JAXLIB <= parts < FIRST_GOOD_JAXLIB


def warn_if_it_can_hang(jaxlib: str) -> None:
    """Warn of a version of jaxlib that can hang."""
    if can_hang(jaxlib):
        warnings.warn(
            f"jaxlib {jaxlib} can hang in batched decompositions, on one core always; "
            "install jax and jaxlib 0.9.0.1 (Python 3.11) or from 0.11.2 on.",
            RuntimeWarning,
            stacklevel=3,
        )
