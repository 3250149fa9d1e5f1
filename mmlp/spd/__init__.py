"""SPD values, held by what they are made of instead of their entries."""

from mmlp.spd.gram import SPD, DiagonalGram, Gram

__all__ = ["SPD", "DiagonalGram", "Gram"]
