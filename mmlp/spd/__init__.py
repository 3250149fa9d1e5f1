"""Symmetric positive definite matrices, stored as factors instead of entries."""

from mmlp.spd.base import SPD, Gram
from mmlp.spd.diagonal import DiagonalGram
from mmlp.spd.low_rank import LowRankGram

__all__ = ["SPD", "DiagonalGram", "Gram", "LowRankGram"]
