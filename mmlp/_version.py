"""This package's version, and the versions of jaxlib that can wait for ever.

From 0.9.1 up to 0.11.1 jaxlib's batched LAPACK calls (SVD, LU, QR, eigh) hand their batch to XLA's
thread pool and wait for it. When they run on that pool themselves, as many at once as it has
threads, they wait for each other: with one core that is always so. `pyproject.toml` admits none of
these versions, but an environment may hold one all the same.
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
