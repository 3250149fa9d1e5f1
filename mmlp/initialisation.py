"""Deprecated: this module is `mmlp.networks.calibration` now."""

from mmlp import _lazy

__getattr__, __dir__ = _lazy.redirect(
    "mmlp.initialisation", "mmlp.networks.calibration"
)
