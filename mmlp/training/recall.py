"""Programs as they were compiled, known by what they are made of: they need not be traced again.

JAX knows a compiled program only after Python has traced it, which takes as long as training on a
small table. Here the key is the function, what is compiled in, shapes and dtypes, the sources of
this package, the versions and settings of JAX. Where anything comes from elsewhere, such as a loss
of the user's own, there is no key, and the program is traced.
"""

import contextlib
import dataclasses
import functools
import hashlib
import io
import json
import os
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
from jax.experimental import serialize_executable
from jax.tree_util import PyTreeDef

from mmlp.training import cache
from mmlp.training.cache import Programs, silent

# versions of JAX whose programs were kept, found again and run, in tests
TRIED = ("0.9.0", "0.12.0")
# packages whose functions and classes are known by their names and versions
KNOWN = ("mmlp", "jax", "jaxlib", "equinox", "optax", "numpy", "builtins", "functools", "copyreg")


def recalled(
    store: Programs, jitted: Any, function: Callable, made_of: Any, arguments: tuple
) -> Callable:
    """The program of arguments of this form, as it was kept; else compiled now, and kept."""
    try:
        key = _key((place(function), made_of, arguments))
    except Exception:  # whatever cannot be described is not kept
        return jitted
    found = store.get(key)
    if found is not None:
        with contextlib.suppress(Exception), silent():
            _with_lapack()
            program, template = pickle.loads(found)
            trees = (jax.tree.structure((arguments, {})), jax.tree.structure(template))
            return serialize_executable.deserialize_and_load(program, *trees)
    with store.unused():  # what JAX has from there cannot be written again
        compiled = jitted.lower(*arguments).compile()
    with contextlib.suppress(Exception):
        program, _, tree = serialize_executable.serialize(compiled)
        store.put(key, _described((program, _template(tree))))
    return compiled


def remembered(made_of: Any, find: Callable[[], Any]) -> Any:
    """`find()`, plain values as JSON has them, which follow from `made_of` and so are kept."""
    if (store := cache.active) is None:
        return find()
    try:
        key = _key(made_of)
    except Exception:  # as above
        return find()
    found = store.get(key)
    if found is not None:
        return json.loads(found)
    value = find()
    store.put(key, json.dumps(value).encode())
    return value


def place(function: Any) -> str:
    """Where a function or class of a known package stands."""
    name, module = function.__qualname__, str(function.__module__)
    if module.partition(".")[0] not in KNOWN or "<" in name:
        raise ValueError(f"{module}.{name} is not known")
    return f"{module}.{name}"


def _key(made_of: Any) -> str:
    tried = jax.__version__.startswith(TRIED)
    if not tried or jax.default_backend() != "cpu" or jax.device_count() > 1:
        raise ValueError("the programs of this version, device or of several are not kept")
    described = _described((made_of, _surroundings()), canonical=True)
    return f"program-{hashlib.sha256(described).hexdigest()}"


@functools.cache
def _with_lapack() -> None:
    """JAX finds LAPACK when it lowers a call of it, and a program without it ends the process."""
    jax.jit(jax.lax.linalg.cholesky).lower(jax.ShapeDtypeStruct((1, 1), "float32"))


def _surroundings() -> tuple:
    """Whatever else decides what a program is."""
    from jax._src import config

    device = jax.devices()[0]
    values = sorted((name, str(value)) for name, value in jax.config.values.items())
    values = [pair for pair in values if "cache" not in pair[0]]  # where programs are kept
    context = (config.trace_context(), config.default_prng_impl.value, values)
    settings = re.sub(r" at 0x[0-9a-f]+", "", str(context))
    flags = (os.environ.get("XLA_FLAGS", ""), settings)
    return _sources(), jax.__version__, device.device_kind, device.client.platform_version, *flags


@functools.cache
def _sources() -> str:
    """A digest of this package, as it is on the disk."""
    digest, root = hashlib.sha256(), Path(__file__).parents[1]
    for file in sorted(root.rglob("*.py")):
        digest.update(f"{file.relative_to(root)} {file.stat().st_size}".encode())
        digest.update(file.read_bytes())
    versions = [__import__(name).__version__ for name in ("equinox", "optax", "numpy")]
    return f"{digest.hexdigest()} {versions}"


def _template(tree: Any) -> Any:
    """An object of this structure."""
    return jax.tree.unflatten(tree, range(tree.num_leaves))


def _described(value: Any, *, canonical: bool = False) -> bytes:
    """As bytes, equal for equal values; a ValueError where code is not from a known package."""
    with io.BytesIO() as file:
        pickler = _Pickler(file, protocol=5)
        pickler.fast = canonical  # without references to what was written before
        pickler.dump(value)
        return file.getvalue()


class _Pickler(pickle.Pickler):
    def reducer_override(self, obj: Any) -> Any:
        if hasattr(obj, "__qualname__") and callable(obj):
            place(obj)
            return obj.__qualname__  # also where, as `jnp.tanh`, it cannot be pickled
        if isinstance(obj, PyTreeDef):
            return jax.tree.structure, (_template(obj),)
        if dataclasses.is_dataclass(obj):  # without what it has worked out and kept
            fields = {field.name: getattr(obj, field.name) for field in dataclasses.fields(obj)}
            return _made, (type(obj), fields)
        return NotImplemented


def _made(kind: type, fields: dict) -> Any:
    new = object.__new__(kind)
    for name, value in fields.items():
        object.__setattr__(new, name, value)
    return new
