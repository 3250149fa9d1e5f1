"""The architecture of a model as JSON, and a model from its architecture.

Only classes and functions of `REGISTRY` are named and built. Building runs no code of
the file, not even a constructor. So what was built is checked before it is used: a
class that has `in_features` and a method `probe(x)` is evaluated on an x of that size,
by shapes alone.
"""

import dataclasses
import typing
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from mmlp.errors import CallError
from mmlp.registry import REGISTRY

MAX_AXES_OF_MODELS = 2  # leading axes that a network may have from `jax.vmap`


def describe(node: Any, path: str, arrays: dict[str, Any]) -> dict[str, Any]:
    """Describe a model as a tree that JSON can hold.

    Parameters
    ----------
    node : any value
        The model, or a part of it.
    path : str
        Where the part is in the model, such as ".layers[0]"; empty for the model.
    arrays : dict of arrays
        The arrays of the model by name. They are described by name, shape and dtype.

    Returns
    -------
    dict
        With one key that says what the node is: "array", "value", "tuple", "list",
        "dict" or "function"; or with the keys "class" and "fields".

    Raises
    ------
    ValueError
        If a part cannot be described.
    """
    # An array in a static field is not among the arrays of the model.
    if is_array(node) and name_of(path) in arrays:
        return {"array": [name_of(path), list(node.shape), node.dtype.name]}
    if node is None or type(node) in (bool, int, float, str):
        return {"value": node}
    if type(node) in (tuple, list):
        children = [
            describe(child, f"{path}[{i}]", arrays) for i, child in enumerate(node)
        ]
        return {type(node).__name__: children}
    if type(node) is dict and all(type(key) is str for key in node):
        entries = {
            key: describe(child, f"{path}[{key!r}]", arrays)
            for key, child in node.items()
        }
        return {"dict": entries}
    for name, entry in REGISTRY.items():
        if node is entry:
            return {"function": name}
        if type(node) is entry:
            fields = {
                field.name: describe(
                    getattr(node, field.name), f"{path}.{field.name}", arrays
                )
                for field in dataclasses.fields(entry)
            }
            return {"class": name, "fields": fields}
    raise _unknown_node_error(node, name_of(path) or "the model")


def _unknown_node_error(node: Any, place: str) -> ValueError:
    """Return an error about a part of a model that a file cannot describe."""
    if is_array(node):
        return ValueError(
            f"{place} is an array in a static field, which a file cannot describe."
        )
    if type(node) is dict:
        return ValueError(
            f"{place} is a dict with keys that are not strings; use names as keys."
        )
    if isinstance(node, type):
        noun = f"the class {_public_name(node)}"
    elif callable(node) and hasattr(node, "__qualname__"):
        noun = f"the function {_public_name(node)}"
    else:
        noun = f"an object of class {_public_name(type(node))}"
    return ValueError(
        f"{place} is {noun}, which is not registered; `mmlp.register` it before "
        "saving to load the file without `like`."
    )


def _public_name(entry: Any) -> str:
    """Return where a class or function is imported from, as `equinox.nn.MLP`."""
    modules = str(entry.__module__).split(".")
    public = [name for name in modules if not name.startswith("_")]
    return ".".join([*public, entry.__qualname__])


def build(node: dict[str, Any], arrays: dict[str, np.ndarray]) -> Any:
    """Build what `describe` described.

    Parameters
    ----------
    node : dict
        The description.
    arrays : dict of arrays
        Those that are used are removed from it.

    Returns
    -------
    The model, or a part of it

    Raises
    ------
    ValueError
        If a class or function is unknown, or if arrays or fields do not fit.
    KeyError, TypeError, AttributeError, RecursionError
        If the description makes no sense.
    """
    if node.keys() == {"class", "fields"}:
        kind = "class"
        content = node["class"]
    elif len(node) == 1:
        kind, content = next(iter(node.items()))
    else:
        raise TypeError(f"a node with the keys {sorted(node)}")

    if kind == "array":
        return _build_array(content, arrays)
    if kind == "value":
        if content is None or isinstance(content, bool | int | float | str):
            return content
    elif kind == "tuple":
        return tuple(build(child, arrays) for child in content)
    elif kind == "list":
        return [build(child, arrays) for child in content]
    elif kind == "dict":
        return {key: build(child, arrays) for key, child in content.items()}

    entry = REGISTRY.get(content)
    if kind == "function" and entry is not None and not isinstance(entry, type):
        return entry
    if kind == "class" and isinstance(entry, type):
        return _build_module(entry, content, node["fields"], arrays)
    raise CallError(
        f"names {content!r}, a {kind} that this library does not know",
        remedy="use it in the program that made it",
        python_remedy="register it, or pass `like=`",
    )


def _build_array(content: Any, arrays: dict[str, np.ndarray]) -> Array:
    """Take an array out of `arrays`, if it has the shape and dtype described."""
    if not isinstance(content, list) or len(content) != 3:
        raise TypeError(f"an array described by {content!r:.80}")
    name, shape, dtype = content
    if name not in arrays:
        raise ValueError(f"lacks the array {name!r} of its architecture.")
    array = arrays.pop(name)
    if list(array.shape) != shape or str(array.dtype) != dtype:
        raise ValueError(
            f"holds {name!r} as {array.dtype} {array.shape}, its architecture as "
            f"{dtype} {tuple(shape)}."
        )
    return jnp.asarray(array)


def _build_module(
    entry: type, name: str, values: dict[str, Any], arrays: dict[str, np.ndarray]
) -> Any:
    """Make an instance of a registered class without calling its constructor."""
    fields = dataclasses.fields(entry)
    names = {field.name for field in fields}
    if names != set(values):
        raise ValueError(
            f"gives {name} the fields {sorted(values)}, but it has {sorted(names)}."
        )
    module = object.__new__(entry)
    for field in fields:
        value = build(values[field.name], arrays)
        field_type = typing.get_origin(field.type) or field.type
        if field_type is Callable and not callable(value):
            raise ValueError(
                f"gives {name} the {field.name} {value!r:.80}, which is not a function."
            )
        object.__setattr__(module, field.name, value)
    return module


def find_misfit(tree: Any) -> str | None:
    """Return the class name of a network whose parts do not fit each other, if any.

    Nothing is computed. A network without some of its weights, as `eqx.partition` makes
    it, is not meant to be used and passes.
    """
    for network in list_networks(tree):
        if is_complete(network) and not _is_usable(network):
            return type(network).__name__
    return None


def list_networks(tree: Any) -> list[Any]:
    """Return the outermost parts of a tree that have a method `probe`."""

    def has_probe(node: Any) -> bool:
        return hasattr(type(node), "probe")

    return [
        leaf for leaf in jax.tree.leaves(tree, is_leaf=has_probe) if has_probe(leaf)
    ]


def _is_usable(network: Any) -> bool:
    """Whether a network, or a stack of them, can be evaluated."""
    function = evaluate
    for _ in range(MAX_AXES_OF_MODELS + 1):
        try:
            eqx.filter_eval_shape(function, network)
            return True
        except Exception:  # of any kind: the parts may be anything
            function = eqx.filter_vmap(function)
    return False


def evaluate(network: Any) -> Any:
    """Evaluate a network on one input, or its parts if it has no input size."""
    if network.in_features is None:
        fields = dataclasses.fields(network)
        parts = [getattr(network, field.name) for field in fields]
        return [evaluate(part) for part in list_networks(parts)]
    weights = jax.tree.leaves(eqx.filter(network, eqx.is_array))
    x = jnp.ones(network.in_features, jnp.result_type(*weights))
    return network.probe(x)


def is_complete(node: Any) -> bool:
    """Whether all weights that its class declares are arrays of float32 or float64."""
    if isinstance(node, tuple):
        return all(map(is_complete, node))
    if not isinstance(node, eqx.Module):
        return True
    for field in dataclasses.fields(node):
        value = getattr(node, field.name)
        if field.type in (Array, tuple[Array, ...]):
            weights = value if isinstance(value, tuple) else (value,)
            complete = all(map(_is_weight, weights))
        else:
            complete = is_complete(value)
        if not complete:
            return False
    return True


def _is_weight(value: Any) -> bool:
    return isinstance(value, Array) and value.dtype in ("float32", "float64")


def is_array(leaf: Any) -> bool:
    """Whether a leaf is an array of JAX or NumPy."""
    return isinstance(leaf, jax.Array | np.ndarray)


def name_of(path: str) -> str:
    """Return the name of the array at a path, such as `layers[0].weight`."""
    return path.removeprefix(".")
