"""SPD values, held by what they are made of instead of their entries."""

from mmlp.spd.base import SPD, Gram
from mmlp.spd.diagonal import DiagonalGram
from mmlp.spd.low_rank import LowRankGram

__all__ = ["SPD", "DiagonalGram", "Gram", "LowRankGram"]
