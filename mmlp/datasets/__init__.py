"""Data: images with their principal components, and splits."""

from mmlp.datasets.components import Components
from mmlp.datasets.images import FREY_SHAPE, digits, frey_faces
from mmlp.datasets.split import random_split

__all__ = ["FREY_SHAPE", "Components", "digits", "frey_faces", "random_split"]
