"""Models as files that hold no code."""

from mmlp.checkpoint.core import load, register, save

__all__ = ["load", "register", "save"]
