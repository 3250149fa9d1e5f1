"""Import the names of a package on their first use (PEP 562)."""

import importlib
import sys
from collections.abc import Callable, Mapping

TYPE_CHECKING = False  # as in `typing`, which takes longer to import than all the rest
if TYPE_CHECKING:
    from typing import Any


def attach(
    package: str, names: Mapping[str, str], modules: str = ""
) -> "tuple[Callable[[str], Any], Callable[[], list[str]]]":
    """Return `__getattr__` and `__dir__` of a package that imports on first use.

    Parameters
    ----------
    package : str
    names : mapping of str to str
        The names that each module provides, separated by spaces.
    modules : str, default=""
        Modules that are attributes themselves, separated by spaces.

    Examples
    --------
    >>> get, _ = attach("mmlp", {"vae": "paper_vae"}, "spd")
    >>> get("paper_vae").__module__, get("spd").__name__
    ('mmlp.vae', 'mmlp.spd')
    """
    homes = {name: module for module, words in names.items() for name in words.split()}
    homes |= dict.fromkeys(modules.split())

    def get(name: str) -> "Any":
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = homes[name]
        module = importlib.import_module(f"{package}.{home or name}")
        value = getattr(module, name) if home else module
        setattr(sys.modules[package], name, value)  # found there from now on
        return value

    def directory() -> list[str]:
        return sorted({*vars(sys.modules[package]), *homes})

    return get, directory


def redirect(
    old: str, new: str
) -> "tuple[Callable[[str], Any], Callable[[], list[str]]]":
    """Return `__getattr__` and `__dir__` of a module that has moved, which warn of it.

    Parameters
    ----------
    old : str
        The name under which the module was imported.
    new : str
        The name under which it is found now.
    """

    def get(name: str) -> "Any":
        import warnings

        if name.startswith("__"):  # what the import system and other tools look for
            raise AttributeError(f"module {old!r} has no attribute {name!r}")
        try:
            value = getattr(importlib.import_module(new), name)
        except AttributeError:
            raise AttributeError(f"module {old!r} has no attribute {name!r}") from None
        warnings.warn(
            f"`{old}` is now `{new}`; the old name will be removed in the next "
            "release.",
            DeprecationWarning,
            stacklevel=2,
        )
        return value

    def directory() -> list[str]:
        return dir(importlib.import_module(new))

    return get, directory
