"""A module as JSON and back, and whether what was read can be used.

Only classes and functions of `REGISTRY` are named and built: building runs no code of the file, not
even a constructor. A class in it that has `in_features` and a method `probe(x)` is tried on an x of
that size, without computing.
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

AXES = 2  # of models, that a network made by `jax.vmap` may have in front


def describe(node, path: str, arrays: dict):
    """A tree of dictionaries with one key that says what they are; arrays are named by path."""
    if (
        is_array(node) and name_of(path) in arrays
    ):  # one in a static field is none of the model's
        return {"array": [name_of(path), list(node.shape), node.dtype.name]}
    if node is None or type(node) in (bool, int, float, str):
        return {"value": node}
    if type(node) in (tuple, list):
        children = [
            describe(child, f"{path}[{i}]", arrays) for i, child in enumerate(node)
        ]
        return {type(node).__name__: children}
    if type(node) is dict and all(type(key) is str for key in node):
        return {
            "dict": {
                key: describe(node[key], f"{path}[{key!r}]", arrays) for key in node
            }
        }
    for name, entry in REGISTRY.items():
        if node is entry:
            return {"function": name}
        if type(node) is entry:
            names = [field.name for field in dataclasses.fields(entry)]
            fields = {
                x: describe(getattr(node, x), f"{path}.{x}", arrays) for x in names
            }
            return {"class": name, "fields": fields}
    place = name_of(path) or "the model"
    if is_array(node):
        raise ValueError(
            f"{place} is an array in a static field, which a file cannot describe."
        )
    if type(node) is dict:
        raise ValueError(
            f"{place} is a dict with keys that are not text; use names as keys."
        )
    raise ValueError(
        f"{place} is {_describe_unknown(node)}, which is not registered; `mmlp.register` it before "
        "saving to load the file without `like`."
    )


def _describe_unknown(node: object) -> str:
    """Say in a few words what a class, function or object is that is not registered."""
    if isinstance(node, type):
        return f"the class {_public_name(node)}"
    if callable(node) and hasattr(node, "__qualname__"):
        return f"the function {_public_name(node)}"
    return f"an object of class {_public_name(type(node))}"


def _public_name(entry: Any) -> str:
    """Return where a class or function is imported from, as `equinox.nn.MLP`."""
    modules = str(entry.__module__).split(".")
    public = [name for name in modules if not name.startswith("_")]
    return ".".join([*public, entry.__qualname__])


def build(node: dict, arrays: dict[str, np.ndarray]):
    """The inverse of `describe`; takes the arrays it uses out of `arrays`."""
    if node.keys() != {"class", "fields"} and len(node) != 1:
        raise TypeError(f"a node with the keys {sorted(node)}")
    kind, content = (
        next(iter(node.items())) if len(node) == 1 else ("class", node["class"])
    )
    if kind == "array":
        return _array(content, arrays)
    if kind == "value" and (
        content is None or isinstance(content, bool | int | float | str)
    ):
        return content
    if kind in ("tuple", "list"):
        return (tuple if kind == "tuple" else list)(
            build(child, arrays) for child in content
        )
    if kind == "dict":
        return {key: build(child, arrays) for key, child in content.items()}
    entry = REGISTRY.get(content)
    if kind == "function" and entry is not None and not isinstance(entry, type):
        return entry
    if kind != "class" or not isinstance(entry, type):
        raise CallError(
            f"names {content!r}, a {kind} that this library does not know",
            remedy="use it in the program that made it",
            python_remedy="register it, or pass `like=`",
        )
    return _module(entry, content, node["fields"], arrays)


def _array(content, arrays: dict[str, np.ndarray]) -> Array:
    if not isinstance(content, list) or len(content) != 3:
        raise TypeError(f"an array described by {content!r:.80}")
    name, shape, dtype = content
    if name not in arrays:
        raise ValueError(f"lacks the array {name!r} of its architecture.")
    array = arrays.pop(name)
    if list(array.shape) != shape or str(array.dtype) != dtype:
        held = f"{name!r} as {array.dtype} {array.shape}"
        raise ValueError(f"holds {held}, its architecture as {dtype} {tuple(shape)}.")
    return jnp.asarray(array)


def _module(entry: type, name: str, given: dict, arrays: dict[str, np.ndarray]):
    fields = dataclasses.fields(entry)
    names = {field.name for field in fields}
    if names != set(given):
        raise ValueError(
            f"gives {name} the fields {sorted(given)}, but it has {sorted(names)}."
        )
    module = object.__new__(entry)
    for field in fields:
        value = build(given[field.name], arrays)
        function = (typing.get_origin(field.type) or field.type) is Callable
        if function and not callable(value):
            what = f"{field.name} {value!r:.80}, which is not a function"
            raise ValueError(f"gives {name} the {what}.")
        object.__setattr__(module, field.name, value)
    return module


def misfit(tree) -> str | None:
    """The name of a network in `tree` whose parts do not fit each other; nothing is computed.

    A network without some of its weights, as `eqx.partition` makes, is not for use and passes.
    """
    names = (
        type(node).__name__
        for node in networks(tree)
        if whole(node) and not _usable(node)
    )
    return next(names, None)


def networks(tree) -> list:
    """What in `tree` can be tried."""
    leaves = jax.tree.leaves(tree, is_leaf=lambda x: hasattr(type(x), "probe"))
    return [leaf for leaf in leaves if hasattr(type(leaf), "probe")]


def _usable(model) -> bool:
    function = use
    for _ in range(AXES + 1):
        try:
            eqx.filter_eval_shape(function, model)
            return True
        except Exception:  # of any kind: the parts may be anything
            function = eqx.filter_vmap(function)
    return False


def use(model):
    """What it gives for one input of its size, or if it knows no size what its parts give."""
    if model.in_features is None:
        parts = [getattr(model, field.name) for field in dataclasses.fields(model)]
        return [use(part) for part in networks(parts)]
    weights = jax.tree.leaves(eqx.filter(model, eqx.is_array))
    return model.probe(jnp.ones(model.in_features, jnp.result_type(*weights)))


def whole(node) -> bool:
    """All weights that its class declares are there, as numbers of single or double precision."""
    if isinstance(node, tuple):
        return all(map(whole, node))
    if not isinstance(node, eqx.Module):
        return True
    for field in dataclasses.fields(node):
        value = getattr(node, field.name)
        if field.type in (Array, tuple[Array, ...]):
            arrays = value if isinstance(value, tuple) else (value,)
            if not all(
                isinstance(x, Array) and x.dtype in ("float32", "float64")
                for x in arrays
            ):
                return False
        elif not whole(value):
            return False
    return True


def is_array(leaf) -> bool:
    return isinstance(leaf, jax.Array | np.ndarray)


def name_of(path: str) -> str:
    return path.removeprefix(".")
