"""The package's version, and the versions of jaxlib that can wait for ever: 0.9.1 up to 0.11.1.

Their batched LAPACK calls wait for each other where they run on XLA's own thread pool, with one
core always. `pyproject.toml` admits none of them, but an environment may hold one all the same.
"""

import re
import warnings

__version__ = "0.2.0"
FIRST_BAD, FIRST_GOOD = (0, 9, 1), (0, 11, 2)


def can_hang(jaxlib: str) -> bool:
    """Whether this version of jaxlib can wait for ever.

    >>> can_hang("0.9.0.1"), can_hang("0.9.2"), can_hang("0.12.0.1")
    (False, True, False)
    """
    numbers = re.match(r"\d+(\.\d+)*", jaxlib)
    parts = tuple(int(part) for part in numbers[0].split(".")) if numbers else ()
    return FIRST_BAD <= parts < FIRST_GOOD


def warn_if_it_can_hang(jaxlib: str) -> None:
    if can_hang(jaxlib):
        warnings.warn(
            f"jaxlib {jaxlib} can wait for ever in batched decompositions, on one core always; "
            "install jax and jaxlib 0.9.0.1 (Python 3.11) or from 0.11.2 on.",
            RuntimeWarning,
            stacklevel=3,
        )
