"""Deprecated: this module is `mmlp.serialization` now."""

from mmlp import _lazy

__getattr__, __dir__ = _lazy.redirect("mmlp.checkpoint", "mmlp.serialization")
