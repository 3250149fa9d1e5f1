"""How far apart two SPD values are: (SPD, SPD) -> number, over leading batch dimensions."""

from mmlp.divergences.core import (
    affine_invariant,
    bures_wasserstein,
    log_euclidean,
    quadratic,
    stein,
    von_neumann,
)

__all__ = [
    "affine_invariant",
    "bures_wasserstein",
    "log_euclidean",
    "quadratic",
    "stein",
    "von_neumann",
]
