"""Divergences and squared distances between two SPD values.

They map (SPD, SPD) to a number, over leading batch dimensions. Each is a sum of terms
of one sign, so that it keeps its relative precision where A is close to B, and no
determinant is formed. Derivatives come from the textbook formula of each, which is
smooth where eigenvalues meet.
"""

from mmlp.divergences.distances import bures_wasserstein, log_euclidean, quadratic
from mmlp.divergences.ratio import affine_invariant, stein
from mmlp.divergences.von_neumann import von_neumann

__all__ = [
    "affine_invariant",
    "bures_wasserstein",
    "log_euclidean",
    "quadratic",
    "stein",
    "von_neumann",
]
