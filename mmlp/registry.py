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
def register(entry: Any = None, name: str | None = None) -> Any:
    """Let `save` write a class or a function by its name, and `load` find it.

    Parameters
    ----------
    entry : class or function, optional
        An `eqx.Module`, or a function such as an activation. Without it, a decorator is
        returned.
    name : str, optional
        The name in files; by default the qualified name of the entry.

    Returns
    -------
    class or function
        The entry itself, so that `register` can decorate it.

    Raises
    ------
    ValueError
        If something else has the name.

    Examples
    --------
    >>> @register(name="mine.square")
    ... def square(x):
    ...     return x**2
    >>> REGISTRY["mine.square"] is square
    True
    """
    if entry is None:
        return lambda entry: register(entry, name)
    name = name or str(entry.__qualname__)
    registered = REGISTRY.setdefault(name, entry)
    if registered is not entry:
        raise ValueError(
            f"`register(name={name!r})` is taken by {registered}; give another name."
        )
    return entry
