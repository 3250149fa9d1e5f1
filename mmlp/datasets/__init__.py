"""Data: images with their principal components, covariance matrices that depend on an input, and splits."""

from mmlp.datasets.components import Components
from mmlp.datasets.covariances import Covariances, Setting, synthetic_covariances
from mmlp.datasets.images import FREY_SHAPE, digits, frey_faces
from mmlp.datasets.split import random_split

__all__ = [
    "FREY_SHAPE",
    "Components",
    "Covariances",
    "Setting",
    "digits",
    "frey_faces",
    "random_split",
    "synthetic_covariances",
]
