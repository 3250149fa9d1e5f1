"""A quick start: what scikit-learn imports and the command has no use for waits for its first use.

SciPy's statistics and, where it is installed, pandas take as long to import as all that predictions
need of scikit-learn.
"""

import importlib
import importlib.util
import sys
import threading
import types
from typing import Any

LOCK = threading.RLock()


class Postponed(types.ModuleType):
    """Stands for a module until something of it is asked for."""

    def __getattr__(self, name: str) -> Any:
        with LOCK:
            if sys.modules.get(self.__name__) is self:
                del sys.modules[self.__name__]
            return getattr(importlib.import_module(self.__name__), name)


def postpone(name: str) -> bool:
    """Put off the import of a module that is installed and not yet imported."""
    if name in sys.modules or (spec := importlib.util.find_spec(name)) is None:
        return False
    sys.modules[name] = module = Postponed(name)
    module.__spec__ = spec  # which an import statement looks at
    return True


def start() -> None:
    """Import scikit-learn without them; for a process of its own."""
    postpone("scipy.stats")
    pandas = postpone("pandas")
    importlib.import_module("sklearn.base")
    if pandas and isinstance(sys.modules.get("pandas"), Postponed):
        del sys.modules["pandas"]  # by whose presence others see whether it is in use
