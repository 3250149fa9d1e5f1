"""Data sets: images, their principal components, and input-dependent covariances."""

from mmlp.datasets.components import Components, random_split
from mmlp.datasets.covariances import (
    Covariances,
    Setting,
    synthetic_covariances,
    turning_factors,
)
from mmlp.datasets.images import FREY_SHAPE, digits, frey_faces

__all__ = [
    "FREY_SHAPE",
    "Components",
    "Covariances",
    "Setting",
    "digits",
    "frey_faces",
    "random_split",
    "synthetic_covariances",
    "turning_factors",
]
