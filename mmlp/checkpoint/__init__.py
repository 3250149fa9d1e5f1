"""Models as files that hold no code."""

from mmlp.checkpoint.architecture import build, describe
from mmlp.checkpoint.models import load, packed, save, unpacked

__all__ = ["build", "describe", "load", "packed", "save", "unpacked"]
