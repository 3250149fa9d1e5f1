"""The fingerprint of a run: SHA-256 of its arrays and programs.

It differs if any number differs, and it is the same in every process. An array is
hashed by dtype, shape and bytes, because the text of a large one is abbreviated. A
program is hashed by its jaxpr, including nested ones, with variables numbered in the
order in which they appear.
"""

import functools
import hashlib
import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from mmlp.training.arguments import Run
from mmlp.training.data import MappedArray, iterate_rows
from mmlp.training.epoch import evaluate_loss


def fingerprint_run(run: Run) -> dict[str, Any]:
    """Return everything that decides the result of a run, by name.

    Parameters
    ----------
    run : Run

    Returns
    -------
    dict
        Digests and numbers, which JSON can hold. The initial weights are part of the
        model.
    """
    program = run.program
    constants = run.constants
    data = constants.data
    if constants.rows is not None:
        data = (constants.data, constants.rows)
    return {
        "data": digest_tree(data),
        "validation": digest_tree(constants.validation),
        "key": digest_tree(constants.key_data),
        "optimizer": _digest_optimizer(run),
        "loss": _digest_loss(run),
        "model": digest_tree(run.build_model(run.params)),
        "epochs": run.epochs,
        "batch_size": program.batch_size,
        "patience": int(constants.patience),
        "rates": constants.rate_factor.tolist(),
    }


def _digest_loss(run: Run) -> str:
    """Return the digest of the loss and its gradient on a batch."""
    program = run.program
    data = run.constants.data
    if program.own_data:
        data = _pick_first(data)
    batch = jax.tree.map(lambda x: x[: program.batch_size], data)
    params, frozen, key_data = _pick_first_model(run)
    key = jax.random.wrap_key_data(jnp.asarray(key_data), impl=program.key_impl)

    def loss(params: Any, batch: Any, key: Any, t: Any) -> Any:
        return evaluate_loss(program, params, frozen, batch, key, t)

    return digest_function(jax.value_and_grad(loss), params, batch, key, 1.0)


def _digest_optimizer(run: Run) -> str:
    """Return the digests of the optimiser's initial state and of its update, joined."""
    optimizer = optax.with_extra_args_support(run.program.optimizer)
    params, _, _ = _pick_first_model(run)
    state = optimizer.init(params)

    def update(gradient: Any, state: Any, params: Any, t: Any) -> Any:
        return optimizer.update(gradient, state, params, t=t)

    update_digest = digest_function(update, params, state, params, 1.0)
    return digest_tree(state) + update_digest


def _pick_first_model(run: Run) -> tuple[Any, Any, Any]:
    """Return weights, other arrays and key of the model, or of the first of many."""
    arrays = (run.params, run.constants.frozen, run.constants.key_data)
    return _pick_first(arrays) if run.program.many else arrays


def _pick_first(tree: Any) -> Any:
    return jax.tree.map(lambda x: x[0], tree)


def digest_tree(tree: Any) -> str:
    """Return the digest of a tree: its structure, arrays and other values."""
    return _Digester().digest_tree(tree).hex()


def digest_function(function: Callable, *arguments: Any) -> str:
    """Return the digest of what a function computes, with its constants.

    Python code that is called at run time (`jax.pure_callback`) is hashed by its name
    alone.
    """
    return _Digester().digest_value(jax.make_jaxpr(function)(*arguments)).hex()


class _Digester:
    """Digests values, and reads each jaxpr only once."""

    def __init__(self) -> None:
        # By the id of the jaxpr. The jaxpr is kept too, so that its id is not reused.
        self.digests_of_jaxprs: dict[int, tuple[bytes, Any]] = {}

    def digest_tree(self, tree: Any) -> bytes:
        """Return the digest of the structure and the leaves of a tree."""
        leaves, structure = jax.tree.flatten(tree)
        text = _remove_addresses(str(structure))
        return _hash("tree", text, *map(self.digest_value, leaves))

    def digest_value(self, value: Any) -> bytes:
        """Return the digest of a leaf, a constant or a parameter of an equation."""
        if _is_array(value):
            return self._digest_array(value)
        if hasattr(value, "eqns"):  # a jaxpr, open or closed
            if id(value) not in self.digests_of_jaxprs:
                digest = self._digest_jaxpr(value)
                self.digests_of_jaxprs[id(value)] = (digest, value)
            return self.digests_of_jaxprs[id(value)][0]
        if isinstance(value, Mapping):
            items = [
                self.digest_value(key) + self.digest_value(entry)
                for key, entry in value.items()
            ]
            return _hash("mapping", *sorted(items))
        if isinstance(value, set | frozenset):
            return _hash("set", *sorted(map(self.digest_value, value)))
        if isinstance(value, tuple | list):
            return _hash(type(value).__name__, *map(self.digest_value, value))
        if isinstance(value, functools.partial):
            parts = (value.func, value.args, value.keywords)
            return _hash("partial", *map(self.digest_value, parts))
        if not jax.tree_util.all_leaves([value]):
            return self.digest_tree(value)
        if hasattr(value, "call_wrapped"):
            # A derivative rule that this program does not use.
            return _hash("rule")
        name = getattr(value, "__qualname__", None)
        if isinstance(name, str):  # a function or a class
            return _hash("name", name)
        arrays = [x for x in _list_attributes(value) if _is_array(x)]
        text = _remove_addresses(repr(value))
        return _hash(type(value).__name__, text, *map(self._digest_array, arrays))

    def _digest_array(self, value: Any) -> bytes:
        weak_type = getattr(value, "weak_type", False)
        type_text = f"{value.dtype} {tuple(value.shape)} {weak_type}"
        if jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
            value = jax.random.key_data(value)
        array: Any = value if isinstance(value, MappedArray) else np.asarray(value)
        if array.dtype.hasobject:
            return _hash("array", type_text, self.digest_value(array.tolist()))

        sha = _start_hash("array", type_text)
        n_bytes = array.dtype.itemsize * math.prod(array.shape)
        sha.update(n_bytes.to_bytes(8, "little"))
        for rows in iterate_rows(array) if array.shape else [array]:
            sha.update(rows.tobytes())
        return sha.digest()

    def _digest_jaxpr(self, open_or_closed: Any) -> bytes:
        """Return the digest of a jaxpr; a closed one has `jaxpr` and `consts`."""
        jaxpr = getattr(open_or_closed, "jaxpr", open_or_closed)
        numbers: dict[int, int] = {}  # of variables, by id: the jaxpr keeps them alive

        def digest_atom(atom: Any) -> bytes:
            if hasattr(atom, "val"):  # a constant in place of a variable
                value = self.digest_value(atom.val)
                return _hash("constant", value, _digest_type(atom))
            number = numbers.setdefault(id(atom), len(numbers))
            return _hash("variable", str(number), _digest_type(atom))

        def digest_atoms(atoms: Iterable) -> bytes:
            return _hash(*map(digest_atom, atoms))

        constants = map(self.digest_value, getattr(open_or_closed, "consts", ()))
        parts: list[bytes | str] = [
            _hash(*constants),
            digest_atoms(jaxpr.constvars),
            digest_atoms(jaxpr.invars),
        ]
        for equation in jaxpr.eqns:
            parts.append(equation.primitive.name)
            parts.append(digest_atoms(equation.invars))
            parts.append(digest_atoms(equation.outvars))
            parts.append(self.digest_value(equation.params))
        return _hash("program", *parts, digest_atoms(jaxpr.outvars))


def _hash(*parts: bytes | str) -> bytes:
    return _start_hash(*parts).digest()


def _start_hash(*parts: bytes | str) -> Any:
    """Return SHA-256 of the parts, each preceded by its length."""
    sha = hashlib.sha256()
    for part in parts:
        content = part.encode() if isinstance(part, str) else part
        sha.update(len(content).to_bytes(8, "little") + content)
    return sha


def _is_array(value: Any) -> bool:
    """Whether a value is an array: of NumPy or JAX, mapped, or wrapped by JAX."""
    if isinstance(value, jax.Array | np.ndarray | np.generic | MappedArray):
        return True
    if isinstance(value, type):
        return False
    return hasattr(value, "__array__") and hasattr(value, "dtype")


def _digest_type(variable: Any) -> bytes:
    """Return the digest of the abstract value of a variable."""
    aval = variable.aval
    entries = [getattr(aval, name, None) for name in ("dtype", "shape", "weak_type")]
    return _hash(type(aval).__name__, *map(str, entries))


def _list_attributes(value: Any) -> list[Any]:
    """Return what an object holds, such as an array that it makes hashable."""
    names = list(getattr(value, "__dict__", ()))
    names += getattr(type(value), "__slots__", None) or ()
    return [getattr(value, name, None) for name in names]


def _remove_addresses(text: str) -> str:
    return re.sub(r"0x[0-9a-f]+", "0x", text)
