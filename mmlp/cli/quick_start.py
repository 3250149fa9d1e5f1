"""A quick start: modules that scikit-learn imports and the command seldom uses can wait.

SciPy's statistics and, where it is installed, pandas take as long to import as all that
predictions need of scikit-learn. Here they are imported on first use.
"""

import importlib
import importlib.util
import sys
import threading
import types
from typing import Any

LOCK = threading.RLock()


class PostponedModule(types.ModuleType):
    """Stands for a module until one of its attributes is needed."""

    def __getattr__(self, name: str) -> Any:
        with LOCK:
            if sys.modules.get(self.__name__) is self:
                del sys.modules[self.__name__]
            return getattr(importlib.import_module(self.__name__), name)


def postpone_import(name: str) -> bool:
    """Put off the import of a module, if it is installed and not yet imported."""
    if name in sys.modules:
        return False
    spec = importlib.util.find_spec(name)
    if spec is None:
        return False
    module = PostponedModule(name)
    module.__spec__ = spec  # import statements look at it
    sys.modules[name] = module
    return True


def import_sklearn_without_extras() -> None:
    """Import scikit-learn alone; meant for a process that runs one command."""
    postpone_import("scipy.stats")
    has_postponed_pandas = postpone_import("pandas")
    importlib.import_module("sklearn.base")
    # Others conclude from the presence of pandas that it is in use.
    if has_postponed_pandas and isinstance(sys.modules.get("pandas"), PostponedModule):
        del sys.modules["pandas"]
