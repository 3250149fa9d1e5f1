"""`save` and `load`: a model as one safetensors file, with its architecture as JSON in the header.

A module that is not registered is saved by its arrays, and loaded into one `like` it.
"""

import os
import reprlib
import warnings
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import mmlp.networks
import mmlp.networks.heads
import mmlp.vae  # noqa: F401 - with what files may name, before users name more
from mmlp.errors import CallError, FileError, PrecisionError
from mmlp.registry import register as register
from mmlp.serialization import files
from mmlp.serialization.architecture import build, describe, is_array, misfit, name_of


def save(model, path: str | os.PathLike) -> None:
    """Write a model to one safetensors file: it is then complete, or what was there before.

    >>> import equinox, tempfile
    >>> from mmlp import MatrixMLP
    >>> model = MatrixMLP(3, 2, (4, 4), key=jax.random.key(0))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(model, f"{folder}/model.safetensors")
    ...     again = load(f"{folder}/model.safetensors")
    >>> bool(equinox.tree_equal(model, again))
    True
    """
    arrays, content = packed(model, "save(model=...)")
    if not arrays and not _has_class(content["architecture"]):
        raise ValueError(
            f"`save(model=...)` holds no array, got {reprlib.repr(model)}; give a model, such as a "
            "`MatrixMLP`, or a dictionary of arrays."
        )
    files.write(
        Path(path), arrays, {"kind": "model", "version": files.VERSION, **content}
    )
    if content["reason"] is not None:
        warnings.warn(
            f"`save`: {path} holds arrays only and needs `load(like=...)`: {content['reason']}",
            stacklevel=2,
        )


def load(path: str | os.PathLike, like=None):
    """The model that `save` wrote, bit for bit; with `like`, its arrays in a module like that one.

    `like` serves users' own modules: arrays are matched by their path, all else is that of `like`.
    """
    path = Path(path)
    arrays, metadata = files.read(path)
    if (kind := metadata.get("kind")) != "model":
        other = "an estimator, not a model; use `mmlp.estimators.load`"
        if kind != "estimator":
            other = (
                "the state of a training run, not a model; use `fit(checkpoint=...)`"
            )
        raise ValueError(f"`load`: {path} holds {other}.")
    files.check_version(path, metadata)
    return unpacked(path, arrays, metadata, like)


def packed(model, argument: str) -> tuple[dict[str, np.ndarray], dict]:
    """The arrays of a model by name, and its `architecture`, or the `reason` why it has none."""
    arrays = _named_arrays(model, argument)
    content: dict = {"architecture": None, "reason": None}
    try:
        content["architecture"] = describe(model, "", arrays)
    except ValueError as error:
        content["reason"] = str(error)
    return {name: np.asarray(array) for name, array in arrays.items()}, content


def unpacked(path: Path | str, arrays: dict[str, np.ndarray], content: dict, like=None):
    """The inverse of `packed`, for what was read from `path`, which errors name."""
    _check_precision(path, arrays)
    if like is not None:
        return _fill(path, arrays, like)
    if content.get("architecture") is None:
        needed = f"a module of the same shape: {content.get('reason')}"
        raise FileError(path, f"needs `like=`, {needed}", call="load")
    rest = dict(arrays)
    try:
        model = build(content["architecture"], rest)
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        problem = f"has an architecture that makes no sense ({error!r})"
        raise FileError(path, problem, call="load") from None
    except CallError as error:
        raise FileError(
            path,
            error.problem,
            call="load",
            remedy=error.remedy,
            python_remedy=error.python_remedy,
        ) from None
    except ValueError as error:
        problem = str(error).removesuffix(".")
        raise FileError(path, problem, call="load") from None
    if rest:
        problem = f"holds arrays that its architecture does not have: {sorted(rest)}"
        raise FileError(path, problem, call="load")
    # a pickle is not checked: it could do anything
    if isinstance(path, Path) and (name := misfit(model)):
        problem = f"holds a {name} whose parts do not fit each other"
        raise FileError(path, problem, call="load", remedy="use an older copy")
    return model


def _fill(path: Path | str, arrays: dict[str, np.ndarray], like):
    wanted = _named_arrays(like, "load(like=...)")
    if wanted.keys() != arrays.keys():
        missing, extra = sorted(wanted.keys() - arrays), sorted(arrays.keys() - wanted)
        what = f"lacks the arrays {missing} and has {extra} beyond those of `like`"
        raise ValueError(f"`load(like=...)`: {path} {what}.")
    for name, array in wanted.items():
        if (arrays[name].shape, arrays[name].dtype) != (array.shape, array.dtype):
            raise ValueError(
                f"`load(like=...)`: {path} holds {name!r} as {arrays[name].dtype} "
                f"{arrays[name].shape}, `like` has it as {array.dtype} {array.shape}; build `like` "
                "with the same sizes and dtype."
            )

    def filled(path, leaf):
        return jnp.asarray(arrays[_key(path)]) if is_array(leaf) else leaf

    return jax.tree_util.tree_map_with_path(filled, like)


def _named_arrays(tree, argument: str) -> dict:
    leaves = jax.tree_util.tree_flatten_with_path(tree)[0]
    arrays = {_key(path): _native(leaf) for path, leaf in leaves if is_array(leaf)}
    files.check_dtypes(arrays, argument)
    return arrays


def _check_precision(path: Path | str, arrays: dict[str, np.ndarray]) -> None:
    for name, array in arrays.items():
        if jax.dtypes.canonicalize_dtype(array.dtype) != array.dtype:
            raise PrecisionError(
                path,
                f"holds {name!r} as {array.dtype}, which JAX would cut to 32 bits here",
                call="load",
                python_remedy="call `jax.config.update('jax_enable_x64', True)` first",
            )


def _has_class(architecture: object) -> bool:
    """Whether a description has a module in it, which is worth a file even without arrays."""
    if isinstance(architecture, dict):
        is_class = isinstance(architecture.get("class"), str)
        return is_class or any(map(_has_class, architecture.values()))
    if isinstance(architecture, list):
        return any(map(_has_class, architecture))
    return False


def _native(array):
    """In this machine's order of bytes, as the file format has it."""
    if isinstance(array, np.ndarray):
        return array.astype(array.dtype.newbyteorder("="), copy=False)
    return array


def _key(path) -> str:
    return name_of(jax.tree_util.keystr(path))
