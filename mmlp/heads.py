"""Deprecated: this module is `mmlp.networks.heads` now."""

from mmlp import _lazy

__getattr__, __dir__ = _lazy.redirect("mmlp.heads", "mmlp.networks.heads")
