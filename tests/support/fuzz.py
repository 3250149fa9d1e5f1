"""Mutations of model files: of their bytes, or of what they say, with a right checksum."""

import copy
import json

import numpy as np
import safetensors.numpy

from mmlp.serialization import files as _files

DEEP = "deep nesting goes here"
ODD = [
    *(
        None,
        True,
        False,
        0,
        1,
        -1,
        3,
        2**31,
        2**63,
        -(2**70),
        10**400,
        0.5,
        -0.0,
        1e308,
        1e-320,
    ),
    *(float("nan"), float("inf"), -float("inf"), "", "a", "\x00", "\u0394", "0", "nan"),
    *(
        "x" * 10_000,
        [],
        {},
        [[]],
        [{}],
        {"": None},
        [1, 2, 3],
        ["a"],
        [None] * 50,
        [float("nan")],
    ),
    *([[1.0, 2.0], [3.0]], {"mean": {}}),
    *(
        {"value": 1},
        {"value": None},
        {"value": []},
        {"array": ["a", [], "float64"]},
        {"tuple": []},
    ),
    *(
        {"function": "jax.numpy.tanh"},
        {"function": []},
        {"class": {}, "fields": {}},
        {"dict": []},
    ),
    *(
        {"class": "MatrixMLP", "fields": {}},
        {"scaling": [[0.0], [1.0]]},
        {"array": {}},
        DEEP,
    ),
]
DTYPES = ["float32", "float64", "float16", "int8", "int64", "uint64", "bool"]
HALVES = ("forged", "damaged")


def mutated(content: bytes, half: str, rng: np.random.Generator) -> bytes:
    """Another file: `forged`, with a right checksum, or `damaged`."""
    return forged(content, rng) if half == "forged" else damaged(content, rng)


def forged(content: bytes, rng: np.random.Generator) -> bytes:
    arrays, metadata = _parts(content)
    arrays, metadata = dict(arrays), copy.deepcopy(metadata)
    for _ in range(int(rng.integers(1, 4))):
        _change_arrays(arrays, metadata, rng) if rng.random() < 0.3 else _change_node(
            metadata, rng
        )
    text = json.dumps(metadata)
    depth = int(rng.choice([10, 900, 1_100, 100_000]))
    nested = rng.choice(["[", '{"a":', '{"tuple":[', '{"list":['])
    text = text.replace(json.dumps(DEEP), str(nested) * depth)
    if DEEP not in text and rng.random() < 0.1:
        text = _with_a_key_twice(text, rng)
    return packed(arrays, text)


def packed(arrays: dict, text: str) -> bytes:
    arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    entries = {_files.FORMAT: text, "sha256": _files._digest(arrays, text)}
    return safetensors.numpy.save(arrays, entries)


def _parts(content: bytes) -> tuple[dict, dict]:
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    return safetensors.numpy.load(content), json.loads(
        header["__metadata__"][_files.FORMAT]
    )


def _change_node(tree, rng) -> None:
    """One place in a tree of dictionaries and lists: replaced, deleted, renamed or doubled."""
    places = list(_places(tree))
    if not places:
        return
    holder, key = places[rng.integers(len(places))]
    kind = rng.integers(6)
    if kind <= 1:
        holder[key] = copy.deepcopy(ODD[rng.integers(len(ODD))])
    elif kind == 2:
        del holder[key]
    elif kind == 3:  # a number becomes another, a text another text
        holder[key] = _varied(holder[key], rng)
    elif kind == 4:
        other, where = places[rng.integers(len(places))]
        holder[key] = copy.deepcopy(other[where])
    elif isinstance(holder, dict):
        holder[f"{key}x" if rng.random() < 0.5 else "other"] = holder.pop(key)
    else:
        holder.insert(key, copy.deepcopy(holder[key]))


def _places(node):
    if isinstance(node, dict | list):
        for key in list(node) if isinstance(node, dict) else range(len(node)):
            yield node, key
            yield from _places(node[key])


def _varied(value, rng):
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + rng.choice([-1, 1, 100, 10**12]).item()
    if isinstance(value, str):
        return value[::-1] if rng.random() < 0.5 else value + "x"
    return [value]


def _change_arrays(arrays: dict, metadata: dict, rng) -> None:
    """Another dtype, shape, name or number; half of the time the architecture says the same."""
    if not arrays:
        arrays["a"] = np.ones(2)
        return
    name = str(rng.choice(sorted(arrays)))
    array, kind = arrays.pop(name), rng.integers(7)
    new = name
    if kind == 1:
        new = name[:-1] or "b"
    elif kind == 2:
        with np.errstate(all="ignore"):
            array = array.astype(str(rng.choice(DTYPES)))
    elif kind == 3:
        array = array.reshape(-1)[: rng.integers(array.size + 1)]
    elif kind == 4:
        wide = np.repeat(np.atleast_1d(array), 2, axis=-1)
        array = array[..., None] if rng.random() < 0.5 else wide
    elif kind == 5:
        array = np.full_like(array, np.nan if array.dtype.kind == "f" else 1)
    elif kind == 6:
        array = np.zeros((0, *array.shape))
    if kind:
        arrays[new] = array
    if rng.random() < 0.5:
        for holder, key in _places(metadata):
            if (
                key == "array"
                and isinstance(holder[key], list)
                and holder[key][:1] == [name]
            ):
                holder[key] = [new, list(array.shape), str(array.dtype)]


def _with_a_key_twice(text: str, rng) -> str:
    keys = [i for i, letter in enumerate(text) if letter == "{"]
    where = keys[rng.integers(len(keys))] + 1
    entries = [
        '"class": "VAE", ',
        '"kind": 1, ',
        '"a": NaN, ',
        '"value": 1, ',
        '"fields": {}, ',
    ]
    return text[:where] + str(rng.choice(entries)) + text[where:]


def damaged(content: bytes, rng) -> bytes:
    """Bits turned over, bytes cut, put in or swapped; or the outer header says something else."""
    kind, n = rng.integers(7), len(content)
    header = 8 + int.from_bytes(content[:8], "little")
    a, b = sorted(rng.integers(n + 1, size=2).tolist())
    if kind == 0:
        return content[:a]
    if kind == 1:
        return content[:a] + content[b:]
    if kind == 2:
        return content[:a] + rng.bytes(int(rng.integers(1, 200))) + content[a:]
    if kind == 3:
        size = int(rng.integers(1, 100))
        x, y, z = content[:a], content[a : a + size], content[a + size :]
        return x + z[:size] + y + z[size:]
    if kind == 4:
        return _outer(content[8:header], content[header:], rng)
    flipped = bytearray(content)
    for _ in range(int(rng.integers(1, 10))):
        flipped[rng.integers(header if kind == 5 else n)] ^= 1 << rng.integers(8)
    return bytes(flipped)


def _outer(header: bytes, rest: bytes, rng) -> bytes:
    """Names, dtypes, shapes and offsets of the safetensors header, which no checksum covers."""
    tree = json.loads(header)
    _change_node(tree, rng)
    text = json.dumps(tree).replace(json.dumps(DEEP), "[" * 100_000).encode()
    return len(text).to_bytes(8, "little") + text + rest
