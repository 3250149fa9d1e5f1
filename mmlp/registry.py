"""The classes and functions that a file may name: each is registered where it is defined.

`save` writes an architecture as names from `REGISTRY`, and `load` builds nothing else.
"""

from collections.abc import Callable
from typing import Any, TypeVar, overload

T = TypeVar("T", bound=Callable)
REGISTRY: dict[str, Any] = {}


@overload
def register(entry: T, name: str | None = None) -> T: ...
@overload
def register(entry: None = None, name: str | None = None) -> Callable[[T], T]: ...
def register(entry=None, name: str | None = None):
    """Let `save` and `load` know a class (an `eqx.Module`) or a function; returns it.

    Use `@register`, `@register(name="mine.Kernel")` or `register(function, "mine.function")`.
    """
    if entry is None:
        return lambda entry: register(entry, name)
    name = name or str(entry.__qualname__)
    if REGISTRY.setdefault(name, entry) is not entry:
        taken = REGISTRY[name]
        raise ValueError(
            f"`register(name={name!r})` is taken by {taken}; give another name."
        )
    return entry
