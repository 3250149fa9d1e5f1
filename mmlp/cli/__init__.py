"""The command `mmlp`."""

from mmlp.cli.main import main

__all__ = ["main"]
