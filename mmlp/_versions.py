"""The jaxlib versions that can wait for ever.

From 0.9.1 up to 0.11.1 batched LAPACK calls (SVD, LU, QR, eigh) hand their batch to XLA's thread pool and wait for it. When
they run on that pool themselves, and as many at once as it has threads, they wait for each other. With one core that is
always so. `pyproject.toml` admits none of them, but an environment may hold one all the same.
"""

import re
import warnings

FIRST_BAD, FIRST_GOOD = (0, 9, 1), (0, 11, 2)


def can_hang(version: str) -> bool:
    """Whether the jaxlib of this version can wait for ever.

    >>> can_hang("0.9.0.1"), can_hang("0.9.2"), can_hang("0.12.0.1")
    (False, True, False)
    """
    numbers = re.match(r"\d+(\.\d+)*", version)
    parts = tuple(int(part) for part in numbers[0].split(".")) if numbers else ()
    return FIRST_BAD <= parts < FIRST_GOOD


def warn_if_it_can_hang(version: str) -> None:
    if can_hang(version):
        warnings.warn(
            f"jaxlib {version} can wait for ever in batched decompositions, on one core always; install jax and jaxlib "
            "0.9.0.1 (Python 3.11) or from 0.11.2 on.",
            RuntimeWarning,
            stacklevel=3,
        )
