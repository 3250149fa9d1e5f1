"""Models as files that hold no code."""

from mmlp.checkpoint.core import load, save

__all__ = ["load", "save"]
