"""Models as files that hold no code."""

from typing import TYPE_CHECKING

from mmlp import _lazy

if TYPE_CHECKING:  # imported on first use: the files themselves need no JAX
    from mmlp.serialization.architecture import build, describe
    from mmlp.serialization.models import (
        load,
        pack_model,
        register,
        save,
        unpack_model,
    )

__all__ = [
    "build",
    "describe",
    "load",
    "pack_model",
    "register",
    "save",
    "unpack_model",
]

_NAMES = {
    "architecture": "build describe",
    "models": "load pack_model register save unpack_model",
}
__getattr__, __dir__ = _lazy.attach(__name__, _NAMES, "architecture files models")
