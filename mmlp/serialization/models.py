"""`save` and `load`: a model as one safetensors file, its architecture in the header.

A module that is not registered is saved by its arrays alone, and they are loaded into a
module `like` it.
"""

import os
import reprlib
import warnings
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

# These register what files may name, before users register more.
import mmlp.networks
import mmlp.networks.heads
import mmlp.vae  # noqa: F401
from mmlp.errors import CallError, FileError, PrecisionError
from mmlp.registry import register as register
from mmlp.serialization import files
from mmlp.serialization.architecture import (
    build,
    describe,
    find_misfit,
    is_array,
    name_of,
)


def save(model: Any, path: str | os.PathLike) -> None:
    """Write a model to one safetensors file that holds no code.

    The file is complete, or what was there before stays.

    Parameters
    ----------
    model : network, head, VAE, distribution, SPD value, or tree of them
        Classes and functions in it must be known to this library or registered
        (`register`); otherwise only arrays are saved, with a warning, and `load` needs
        `like`.
    path : path
        The file to write.

    Raises
    ------
    ValueError
        If there is nothing to save, or an array of a dtype that files cannot hold.
    OSError
        If the file cannot be written.

    Warns
    -----
    UserWarning
        If only the arrays are saved; it names the part that is not registered.

    Examples
    --------
    >>> import equinox, tempfile
    >>> from mmlp import MatrixMLP
    >>> model = MatrixMLP(3, 2, (4, 4), key=jax.random.key(0))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(model, f"{folder}/model.safetensors")
    ...     loaded = load(f"{folder}/model.safetensors")
    >>> bool(equinox.tree_equal(model, loaded))
    True
    """
    arrays, content = pack_model(model, "save(model=...)")
    if not arrays and not _has_class(content["architecture"]):
        raise ValueError(
            f"`save(model=...)` holds no array, got {reprlib.repr(model)}; give a "
            "model, such as a `MatrixMLP`, or a dictionary of arrays."
        )
    metadata = {"kind": "model", "version": files.VERSION, **content}
    files.write(Path(path), arrays, metadata)
    if content["reason"] is not None:
        warnings.warn(
            f"`save`: {path} holds arrays only and needs `load(like=...)`: "
            f"{content['reason']}",
            stacklevel=2,
        )


def load(path: str | os.PathLike, like: Any = None) -> Any:
    """Read the model that `save` wrote, bit for bit.

    Nothing in the file is run: files of strangers are safe to load.

    Parameters
    ----------
    path : path
        The file to read.
    like : tree of arrays, such as an `equinox.Module`, default=None
        A model of the same structure, for modules of your own that are not registered.
        Arrays are taken from the file, by their paths, and everything else from `like`.

    Returns
    -------
    same type as the model that was saved
        The model; with `like`, one of its type.

    Raises
    ------
    ValueError
        If the file is damaged, holds something else than a model, or has numbers that
        JAX would round (float64 without `jax_enable_x64`).
    OSError
        If the file cannot be read.

    Examples
    --------
    >>> import tempfile
    >>> import jax.numpy as jnp
    >>> from mmlp.spd import Gram
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(Gram(jnp.eye(2)), Path(folder, "identity.safetensors"))
    ...     A = load(Path(folder, "identity.safetensors"))
    >>> print(A.dense())
    [[1. 0.]
     [0. 1.]]
    """
    path = Path(path)
    arrays, metadata = files.read(path)
    kind = metadata.get("kind")
    if kind == "estimator":
        raise ValueError(
            f"`load`: {path} holds an estimator, not a model; use "
            "`mmlp.estimators.load`."
        )
    if kind != "model":
        raise ValueError(
            f"`load`: {path} holds the state of a training run, not a model; use "
            "`fit(checkpoint=...)`."
        )
    files.check_version(path, metadata)
    return unpack_model(path, arrays, metadata, like)


def pack_model(model: Any, argument: str) -> tuple[dict[str, np.ndarray], dict]:
    """Return the arrays of a model and its architecture.

    Parameters
    ----------
    model : tree of arrays
    argument : str
        The argument that it comes from, for messages.

    Returns
    -------
    arrays : dict of np.ndarray
        By their paths in the model.
    content : dict
        `architecture`, or None and the `reason` why it cannot be described.
    """
    arrays = _arrays_by_name(model, argument)
    content: dict[str, Any] = {"architecture": None, "reason": None}
    try:
        content["architecture"] = describe(model, "", arrays)
    except ValueError as error:
        content["reason"] = str(error)
    return {name: np.asarray(array) for name, array in arrays.items()}, content


def unpack_model(
    path: Path | str, arrays: dict[str, np.ndarray], content: dict, like: Any = None
) -> Any:
    """Return the model that `pack_model` packed.

    Parameters
    ----------
    path : Path or str
        The file that it was read from, for messages. A str stands for a pickle, whose
        content is not checked: a pickle could do anything.
    arrays : dict of arrays
    content : dict
    like : tree of arrays, optional
        See `load`.
    """
    _check_precision(path, arrays)
    if like is not None:
        return _fill(path, arrays, like)
    if content.get("architecture") is None:
        raise FileError(
            path,
            f"needs `like=`, a module of the same shape: {content.get('reason')}",
            call="load",
        )

    model = _build_model(path, arrays, content["architecture"])
    if isinstance(path, Path):
        misfit = find_misfit(model)
        if misfit is not None:
            problem = f"holds a {misfit} whose parts do not fit each other"
            raise FileError(path, problem, call="load", remedy="use an older copy")
    return model


def _build_model(
    path: Path | str, arrays: dict[str, np.ndarray], architecture: Any
) -> Any:
    """Build a model of all arrays; errors name the file."""
    unused = dict(arrays)
    try:
        model = build(architecture, unused)
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
    if unused:
        problem = f"holds arrays that its architecture does not have: {sorted(unused)}"
        raise FileError(path, problem, call="load")
    return model


def _fill(path: Path | str, arrays: dict[str, np.ndarray], like: Any) -> Any:
    """Return `like` with the arrays of a file, which must have its names and shapes."""
    expected = _arrays_by_name(like, "load(like=...)")
    if expected.keys() != arrays.keys():
        missing = sorted(expected.keys() - arrays.keys())
        extra = sorted(arrays.keys() - expected.keys())
        raise ValueError(
            f"`load(like=...)`: {path} lacks the arrays {missing} and has {extra} "
            "beyond those of `like`."
        )
    for name, array in expected.items():
        saved = arrays[name]
        if (saved.shape, saved.dtype) != (array.shape, array.dtype):
            raise ValueError(
                f"`load(like=...)`: {path} holds {name!r} as {saved.dtype} "
                f"{saved.shape}, `like` has it as {array.dtype} {array.shape}; build "
                "`like` with the same sizes and dtype."
            )

    def replace(path: tuple, leaf: Any) -> Any:
        return jnp.asarray(arrays[_name_leaf(path)]) if is_array(leaf) else leaf

    return jax.tree_util.tree_map_with_path(replace, like)


def _arrays_by_name(tree: Any, argument: str) -> dict[str, Any]:
    leaves = jax.tree_util.tree_flatten_with_path(tree)[0]
    arrays = {
        _name_leaf(path): _to_native_order(leaf)
        for path, leaf in leaves
        if is_array(leaf)
    }
    files.check_dtypes(arrays, argument)
    return arrays


def _check_precision(path: Path | str, arrays: dict[str, np.ndarray]) -> None:
    """Raise if JAX would cut numbers to 32 bits."""
    for name, array in arrays.items():
        if jax.dtypes.canonicalize_dtype(array.dtype) != array.dtype:
            raise PrecisionError(
                path,
                f"holds {name!r} as {array.dtype}, which JAX would cut to 32 bits here",
                call="load",
                python_remedy="call `jax.config.update('jax_enable_x64', True)` first",
            )


def _has_class(architecture: object) -> bool:
    """Whether a description has a module, which is worth a file even without arrays."""
    if isinstance(architecture, dict):
        if isinstance(architecture.get("class"), str):
            return True
        return any(map(_has_class, architecture.values()))
    if isinstance(architecture, list):
        return any(map(_has_class, architecture))
    return False


def _to_native_order(array: Any) -> Any:
    """Return an array in the byte order of this machine, as the file format has it."""
    if isinstance(array, np.ndarray):
        return array.astype(array.dtype.newbyteorder("="), copy=False)
    return array


def _name_leaf(path: tuple) -> str:
    return name_of(jax.tree_util.keystr(path))
