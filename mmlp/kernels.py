"""Deprecated: this module is `mmlp.networks.kernels` now."""

from mmlp import _lazy

__getattr__, __dir__ = _lazy.redirect("mmlp.kernels", "mmlp.networks.kernels")
