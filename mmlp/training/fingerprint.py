"""The fingerprint of a run: SHA-256 of its arrays and programs, another if any number is.

It is the same in every process.
Arrays count by dtype, shape and bytes, wherever they stand: as text, large ones lack their middle.
A program is its jaxpr, with the jaxprs in it; variables count by the place where they first appear.
"""

import functools
import hashlib
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from mmlp.training.arguments import Program, Task
from mmlp.training.data import Mapped, pieces
from mmlp.training.epoch import loss_of


def fingerprint(task: Task) -> dict:
    """What makes a run this run, by name. The weights that it begins with are part of the model."""
    program, fixed = task.program, task.fixed
    digests = {name: digest_function(*each) for name, each in programs(task).items()}
    state = program.optimizer.init(_one(task)[0])
    return {
        "data": digest(fixed.data if fixed.rows is None else (fixed.data, fixed.rows)),
        "validation": digest(fixed.validation),
        "key": digest(fixed.key),
        "optimizer": digest(state) + digests["optimizer"],
        "loss": digests["loss"],
        "model": digest(task.model(task.params)),
        "epochs": int(fixed.epochs),
        "batch_size": program.batch_size,
        "patience": int(fixed.patience),
        "rates": fixed.rate.tolist(),
    }


def programs(task: Task) -> dict[str, tuple]:
    """What is computed in a step, as functions with arguments like theirs; t is the last."""
    program, fixed, (params, frozen, key) = task.program, task.fixed, _one(task)
    own = program.own_data and fixed.rows is None
    data = jax.tree.map(lambda x: x[0], fixed.data) if own else fixed.data
    batch = jax.tree.map(lambda x: x[: program.batch_size], data)
    random = jax.random.wrap_key_data(jnp.asarray(key), impl=program.key_type)
    gradient = jax.value_and_grad(
        lambda params, *rest: loss_of(program, params, frozen, *rest)
    )
    update, state = functools.partial(_update, program), program.optimizer.init(params)
    return {
        "loss": (gradient, params, batch, random, 1.0),
        "optimizer": (update, params, state, params, 1.0),
    }


def _one(task: Task) -> tuple:
    """Weights, other arrays and key of the model, or of the first of many."""
    one = (task.params, task.fixed.frozen, task.fixed.key)
    return jax.tree.map(lambda x: x[0], one) if task.program.many else one


def _update(program: Program, gradient, state, params, t):
    update = optax.with_extra_args_support(program.optimizer).update
    return update(gradient, state, params, t=t)


def digest(tree) -> str:
    """Of a tree of arrays and other values: structure, dtypes, shapes and numbers."""
    return _Digests().tree(tree).hex()


def digest_function(function, *arguments) -> str:
    """Of what a function computes, with its constants; Python code that it calls is only a name."""
    return _Digests().value(jax.make_jaxpr(function)(*arguments)).hex()


class _Digests:
    """Digests of values; a jaxpr that is met again is not read again."""

    def __init__(self):
        self.known: dict[
            int, tuple[bytes, object]
        ] = {}  # by id, with the object that has it

    def tree(self, tree) -> bytes:
        leaves, structure = jax.tree.flatten(tree)
        return _hash(
            "tree", _without_addresses(str(structure)), *map(self.value, leaves)
        )

    def value(self, value) -> bytes:
        """Of a leaf, a constant or a parameter of an equation."""
        if _is_array(value):
            return self.array(value)
        if hasattr(value, "eqns"):
            if id(value) not in self.known:
                self.known[id(value)] = self.program(value), value
            return self.known[id(value)][0]
        if isinstance(value, Mapping):
            pairs = [
                self.value(key) + self.value(entry) for key, entry in value.items()
            ]
            return _hash("mapping", *sorted(pairs))
        if isinstance(value, set | frozenset):
            return _hash("set", *sorted(map(self.value, value)))
        if isinstance(value, tuple | list):
            return _hash(type(value).__name__, *map(self.value, value))
        if isinstance(value, functools.partial):
            return _hash(
                "partial", *map(self.value, (value.func, value.args, value.keywords))
            )
        if not jax.tree_util.all_leaves([value]):
            return self.tree(value)
        if hasattr(
            value, "call_wrapped"
        ):  # a derivative rule that this program does not use
            return _hash("rule")
        name = getattr(value, "__qualname__", None)
        if isinstance(name, str):  # a function or a class
            return _hash("name", name)
        inner = [self.array(entry) for entry in _attributes(value) if _is_array(entry)]
        return _hash(type(value).__name__, _without_addresses(repr(value)), *inner)

    def array(self, value) -> bytes:
        kind = (
            f"{value.dtype} {tuple(value.shape)} {getattr(value, 'weak_type', False)}"
        )
        if jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
            value = jax.random.key_data(value)
        array: Any = value if isinstance(value, Mapped) else np.asarray(value)
        if array.dtype.hasobject:
            return _hash("array", kind, self.value(array.tolist()))
        sha = _sha("array", kind)
        sha.update(
            (array.dtype.itemsize * math.prod(array.shape)).to_bytes(8, "little")
        )
        for piece in pieces(array) if array.shape else [array]:
            sha.update(piece.tobytes())
        return sha.digest()

    def program(self, program) -> bytes:
        """Of a jaxpr, open or closed."""
        jaxpr = getattr(program, "jaxpr", program)
        places: dict[int, int] = {}  # of variables, by id: the jaxpr keeps them

        def atom(x) -> bytes:
            if hasattr(x, "val"):  # a constant in place of a variable
                return _hash("constant", self.value(x.val), _type(x))
            return _hash(
                "variable", str(places.setdefault(id(x), len(places))), _type(x)
            )

        consts = [self.value(const) for const in getattr(program, "consts", ())]
        parts = [
            _hash(*consts),
            *(_hash(*map(atom, x)) for x in (jaxpr.constvars, jaxpr.invars)),
        ]
        for equation in jaxpr.eqns:
            parts += [equation.primitive.name, _hash(*map(atom, equation.invars))]
            parts += [_hash(*map(atom, equation.outvars)), self.value(equation.params)]
        return _hash("program", *parts, _hash(*map(atom, jaxpr.outvars)))


def _hash(*parts: bytes | str) -> bytes:
    return _sha(*parts).digest()


def _sha(*parts: bytes | str):
    sha = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        sha.update(len(data).to_bytes(8, "little") + data)
    return sha


def _is_array(value) -> bool:
    """Those of NumPy and JAX, of mapped files, random keys, and what JAX wraps constants in."""
    wraps = (
        hasattr(value, "__array__")
        and hasattr(value, "dtype")
        and not isinstance(value, type)
    )
    return isinstance(value, jax.Array | np.ndarray | np.generic | Mapped) or wraps


def _type(variable) -> bytes:
    aval = variable.aval
    entries = (getattr(aval, name, None) for name in ("dtype", "shape", "weak_type"))
    return _hash(type(aval).__name__, *map(str, entries))


def _attributes(value) -> Iterable:
    """What any other object holds, such as an array that it makes hashable."""
    names = [
        *getattr(value, "__dict__", ()),
        *(getattr(type(value), "__slots__", None) or ()),
    ]
    return [getattr(value, name, None) for name in names]


def _without_addresses(text: str) -> str:
    return re.sub(r"0x[0-9a-f]+", "0x", text)
