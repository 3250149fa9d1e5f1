"""`save` and `load`: a model as one safetensors file, with its architecture as JSON in the header.

The architecture names classes and functions from `REGISTRY`, and nothing else can be built: loading runs no code of the
file, not even a constructor. A module that is not registered is saved by its arrays, and loaded into one `like` it.
"""

import dataclasses
import os
import warnings
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from mmlp import heads, kernels, networks, vae
from mmlp.checkpoint import files
from mmlp.checkpoint.usable import misfit
from mmlp.registry import REGISTRY, register

for _entry in (
    *(heads.GaussianHead, heads.PowerExponentialHead, vae.VAE),
    *(kernels.MercerSigmoid, kernels.Linear, kernels.RadialBasis),
    *(
        networks.MatrixMLP,
        networks.MatrixLayer,
        networks.VectorLayer,
        networks.ShallowMatrixMLP,
        networks.CholeskyMLP,
        networks.Perceptron,
    ),
):
    register(_entry)
for _function in ("tanh", "sin", "cos", "arctan", "square"):
    register(getattr(jnp, _function), f"jax.numpy.{_function}")
for _function in (
    "relu",
    "gelu",
    "silu",
    "elu",
    "selu",
    "celu",
    "softplus",
    "sigmoid",
    "leaky_relu",
    "mish",
    "identity",
):
    register(getattr(jax.nn, _function), f"jax.nn.{_function}")


def save(model, path: str | os.PathLike) -> None:
    """Write a model to one safetensors file, in one step: the file is complete, or what was there before.

    >>> import equinox, tempfile
    >>> model = networks.MatrixMLP(3, 2, (4, 4), key=jax.random.key(0))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(model, f"{folder}/model.safetensors")
    ...     again = load(f"{folder}/model.safetensors")
    >>> bool(equinox.tree_equal(model, again))
    True
    """
    arrays, content = packed(model, "save(model=...)")
    files.write(Path(path), arrays, {"kind": "model", "version": files.VERSION, **content})
    if content["reason"] is not None:
        warnings.warn(
            f"`save`: {path} holds arrays only and needs `load(like=...)`: {content['reason']}",
            stacklevel=2,
        )


def load(path: str | os.PathLike, like=None):
    """The model that `save` wrote, bit for bit; with `like`, its arrays in a module like that one.

    `like` serves users' own modules: arrays are matched by their path in the module, and all else is taken from `like`.
    """
    path = Path(path)
    arrays, metadata = files.read(path)
    kind = metadata.get("kind")
    if kind == "estimator":
        raise ValueError(
            f"`load`: {path} holds an estimator, not a model; use `mmlp.estimators.load`."
        )
    if kind != "model":
        raise ValueError(
            f"`load`: {path} holds the state of a training run, not a model; use `fit(checkpoint=...)`."
        )
    files.check_version(path, metadata)
    return unpacked(path, arrays, metadata, like)


def packed(model, argument: str) -> tuple[dict[str, np.ndarray], dict]:
    """The arrays of a model by name, and what a file says of it: its `architecture`, or the `reason` why it has none."""
    arrays = _named_arrays(model, argument)
    try:
        architecture, reason = describe(model, "", arrays), None
    except ValueError as error:
        architecture, reason = None, str(error)
    return {name: np.asarray(array) for name, array in arrays.items()}, {
        "architecture": architecture,
        "reason": reason,
    }


def unpacked(path: Path | str, arrays: dict[str, np.ndarray], content: dict, like=None):
    """The inverse of `packed`, for what was read from `path`, which errors name."""
    _check_precision(path, arrays)
    if like is not None:
        return _fill(path, arrays, like)
    if content.get("architecture") is None:
        raise ValueError(
            f"`load`: {path} needs `like=`, a module of the same shape: {content.get('reason')}"
        )
    rest = dict(arrays)
    try:
        model = build(content["architecture"], rest)
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(
            f"`load`: the architecture in {path} makes no sense ({error!r})."
        ) from None
    except ValueError as error:
        raise ValueError(f"`load`: {path} {error}") from None
    if rest:
        raise ValueError(
            f"`load`: {path} holds arrays that its architecture does not have: {sorted(rest)}."
        )
    if isinstance(path, Path) and (
        name := misfit(model)
    ):  # a pickle is not checked: it could do anything
        raise ValueError(
            f"`load`: {path} holds a {name} whose parts do not fit each other. Use an older copy."
        )
    return model


# -- the architecture as JSON -----------------------------------------------------------------------------------------


def describe(node, path: str, arrays: dict):
    """A tree of dictionaries with one key that says what they are; arrays are named by their path in the module."""
    if (
        _is_array(node) and _name(path) in arrays
    ):  # an array in a static field is none of the model's
        return {"array": [_name(path), list(node.shape), node.dtype.name]}
    if node is None or type(node) in (bool, int, float, str):
        return {"value": node}
    if type(node) in (tuple, list):
        return {
            type(node).__name__: [
                describe(child, f"{path}[{i}]", arrays) for i, child in enumerate(node)
            ]
        }
    if type(node) is dict and all(type(key) is str for key in node):
        return {"dict": {key: describe(node[key], f"{path}[{key!r}]", arrays) for key in node}}
    for name, entry in REGISTRY.items():
        if node is entry:
            return {"function": name}
        if type(node) is entry:
            fields = {
                field: describe(getattr(node, field), f"{path}.{field}", arrays)
                for field in _fields(entry)
            }
            return {"class": name, "fields": fields}
    raise ValueError(
        f"{_name(path) or 'the model'} is {node!r:.80}, which this library does not know; `mmlp.register` it."
    )


def build(node: dict, arrays: dict[str, np.ndarray]):
    """The inverse of `describe`; takes the arrays it uses out of `arrays`. Runs no constructor."""
    if node.keys() != {"class", "fields"} and len(node) != 1:
        raise TypeError(f"a node with the keys {sorted(node)}")
    kind, content = next(iter(node.items())) if len(node) == 1 else ("class", node["class"])
    if kind == "array":
        if not isinstance(content, list) or len(content) != 3:
            raise TypeError(f"an array described by {content!r:.80}")
        name, shape, dtype = content
        if name not in arrays:
            raise ValueError(f"lacks the array {name!r} of its architecture.")
        array = arrays.pop(name)
        if list(array.shape) != shape or str(array.dtype) != dtype:
            raise ValueError(
                f"holds {name!r} as {array.dtype} {array.shape}, its architecture as {dtype} {tuple(shape)}."
            )
        return jnp.asarray(array)
    if kind == "value" and (content is None or isinstance(content, bool | int | float | str)):
        return content
    if kind in ("tuple", "list"):
        return (tuple if kind == "tuple" else list)(build(child, arrays) for child in content)
    if kind == "dict":
        return {key: build(child, arrays) for key, child in content.items()}
    entry = REGISTRY.get(content)
    if kind == "function" and entry is not None and not isinstance(entry, type):
        return entry
    if kind != "class" or not isinstance(entry, type):
        raise ValueError(
            f"names {content!r}, a {kind} that this library does not know; register it, or pass `like=`."
        )
    names = _fields(entry)
    if set(names) != set(node["fields"]):
        raise ValueError(
            f"gives {content} the fields {sorted(node['fields'])}, but it has {sorted(names)}."
        )
    module = object.__new__(entry)
    for name in names:
        value = build(node["fields"][name], arrays)
        if name in ("activation", "kernel") and not callable(value):
            raise ValueError(f"gives {content} the {name} {value!r:.80}, which is not a function.")
        object.__setattr__(module, name, value)
    return module


def _fields(module) -> list[str]:
    return [field.name for field in dataclasses.fields(module)]


def _fill(path: Path | str, arrays: dict[str, np.ndarray], like):
    wanted = _named_arrays(like, "load(like=...)")
    if wanted.keys() != arrays.keys():
        missing, extra = (
            sorted(wanted.keys() - arrays.keys()),
            sorted(arrays.keys() - wanted.keys()),
        )
        raise ValueError(
            f"`load(like=...)`: {path} lacks the arrays {missing} and has {extra} beyond those of `like`."
        )
    for name, array in wanted.items():
        if (arrays[name].shape, arrays[name].dtype) != (array.shape, array.dtype):
            raise ValueError(
                f"`load(like=...)`: {path} holds {name!r} as {arrays[name].dtype} {arrays[name].shape}, `like` has it as "
                f"{array.dtype} {array.shape}; build `like` with the same sizes and dtype."
            )
    return jax.tree_util.tree_map_with_path(
        lambda p, leaf: (
            jnp.asarray(arrays[_name(jax.tree_util.keystr(p))]) if _is_array(leaf) else leaf
        ),
        like,
    )


def _named_arrays(tree, argument: str) -> dict:
    leaves = jax.tree_util.tree_flatten_with_path(tree)[0]
    arrays = {
        _name(jax.tree_util.keystr(path)): _native(leaf) for path, leaf in leaves if _is_array(leaf)
    }
    files.check_dtypes(arrays, argument)
    return arrays


def _check_precision(path: Path | str, arrays: dict[str, np.ndarray]) -> None:
    for name, array in arrays.items():
        if jax.dtypes.canonicalize_dtype(array.dtype) != array.dtype:
            raise ValueError(
                f"`load`: {path} holds {name!r} as {array.dtype}, which JAX would cut to 32 bits here; call "
                "`jax.config.update('jax_enable_x64', True)` first."
            )


def _is_array(leaf) -> bool:
    return isinstance(leaf, jax.Array | np.ndarray)


def _native(array):
    """In this machine's order of bytes, as the file format has it."""
    return (
        array.astype(array.dtype.newbyteorder("="), copy=False)
        if isinstance(array, np.ndarray)
        else array
    )


def _name(path: str) -> str:
    return path.removeprefix(".")
