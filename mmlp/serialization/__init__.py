"""Models as files that hold no code."""

from typing import TYPE_CHECKING

from mmlp import _lazy

if TYPE_CHECKING:  # at run time, on first use: the files themselves need no JAX
    from mmlp.serialization.architecture import build, describe
    from mmlp.serialization.models import load, packed, register, save, unpacked

__all__ = ["build", "describe", "load", "packed", "register", "save", "unpacked"]

_NAMES = {
    "architecture": "build describe",
    "models": "load packed register save unpacked",
}
__getattr__, __dir__ = _lazy.attach(__name__, _NAMES, "architecture files models")
