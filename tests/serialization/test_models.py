"""Models as files: round trips, and what an architecture must not be."""

import dataclasses
import inspect
import os

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from checkpoints import MODELS, X, fit, model, same

import mmlp
from mmlp import networks
from mmlp.networks import heads, kernels
from mmlp.registry import REGISTRY
from mmlp.serialization import files as _files


class Own(eqx.Module):
    network: mmlp.MatrixMLP
    scale: jax.Array
    function: object = eqx.field(static=True)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", MODELS)
def test_a_model_comes_back_bit_for_bit(name, dtype, tmp_path):
    before = jax.tree.map(
        lambda x: x.astype(dtype) if eqx.is_array(x) else x, MODELS[name]()
    )
    mmlp.save(before, tmp_path / "model.safetensors")
    after = mmlp.load(tmp_path / "model.safetensors")
    assert jax.tree.structure(before) == jax.tree.structure(after)
    assert same(before, after)
    assert os.listdir(tmp_path) == ["model.safetensors"]


def test_every_module_class_of_the_library_can_be_saved():
    entries = []
    for package in (mmlp.distributions, mmlp.spd):
        entries += [getattr(package, name) for name in package.__all__]
    for module in (heads, kernels, networks):
        entries += [entry for _, entry in inspect.getmembers(module, inspect.isclass)]
    for entry in entries:
        ours = isinstance(entry, type) and entry.__module__.startswith("mmlp")
        if ours and issubclass(entry, eqx.Module) and not inspect.isabstract(entry):
            assert REGISTRY[entry.__name__] is entry


def test_a_users_own_module_is_loaded_into_one_like_it(tmp_path):
    path = tmp_path / "own.safetensors"
    own = Own(MODELS["basic"](), jnp.arange(3.0), lambda x: x)
    with pytest.warns(
        UserWarning,
        match=r"own.safetensors holds arrays only and needs `load\(like=...\)`: .*Own",
    ):
        mmlp.save(own, path)
    blank = jax.tree.map(jnp.zeros_like, own)
    assert same(mmlp.load(path, like=blank), own)
    with pytest.raises(ValueError, match=r"needs `like=`.*Own"):
        mmlp.load(path)
    with pytest.raises(
        ValueError,
        match=r"holds 'scale' as float64 \(3,\), `like` has it as float64 \(4,\)",
    ):
        mmlp.load(path, like=dataclasses.replace(own, scale=jnp.ones(4)))
    with pytest.raises(
        ValueError, match=r"lacks the arrays \[\] and has \['network.*'scale'\]"
    ):
        mmlp.load(path, like=())


@pytest.mark.parametrize(
    "nothing",
    [
        None,
        {},
        [],
        "text",
        3.0,
        (1, "a"),
        jax.nn.gelu,
        {"class": 1},
        Own(None, None, 1),
    ],
)
def test_what_holds_no_array_is_not_saved(nothing, tmp_path):
    with pytest.raises(
        ValueError, match=r"`save\(model=...\)` holds no array, got .*; give a model"
    ):
        mmlp.save(nothing, tmp_path / "model.safetensors")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("tree", "words"),
    [
        (
            lambda: {"net": eqx.nn.MLP(2, 2, 3, 1, key=jax.random.key(0))},
            r"\['net'\] is an object of class equinox.nn.MLP, which is not registered; "
            "`mmlp.register` it before",
        ),
        (
            lambda: [jnp.ones(2), len],
            r"\[1\] is the function builtins.len, which is not registered;",
        ),
        (
            lambda: {1: jnp.ones(2)},
            "the model is a dict with keys that are not strings;",
        ),
    ],
)
def test_what_cannot_be_described_is_named_in_one_line(tree, words, tmp_path):
    with pytest.warns(
        UserWarning, match=rf"needs `load\(like=...\)`: {words}"
    ) as caught:
        mmlp.save(tree(), tmp_path / "model.safetensors")
    (warning,) = caught
    assert "\n" not in str(warning.message)


def test_float64_is_not_cut_to_float32_in_silence(tmp_path):
    path = tmp_path / "model.safetensors"
    mmlp.save(MODELS["basic"](), path)
    with (
        jax.enable_x64(False),
        pytest.raises(ValueError, match=r"float64.*jax_enable_x64"),
    ):
        mmlp.load(path)


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "int4", "complex64"])
def test_dtypes_that_the_file_format_would_not_give_back_are_refused_before_anything_is_written(
    dtype, tmp_path
):
    with pytest.raises(
        ValueError,
        match=rf"`save\(model=...\)` has \"\['a'\]\" of dtype {dtype}.*; cast it first",
    ):
        mmlp.save({"a": jnp.ones(2, dtype)}, tmp_path / "model.safetensors")
    assert not list(tmp_path.iterdir())
    if dtype == "bfloat16":
        start = jax.tree.map(lambda x: x.astype(dtype), model())
        with pytest.raises(
            ValueError,
            match=rf"`fit\(checkpoint=...\)` has 'state.params.weight' of dtype {dtype}",
        ):
            fit(tmp_path, start=start, data=X.astype("float32"))


def test_the_order_of_bytes_does_not_matter(tmp_path):
    path, before = tmp_path / "model.safetensors", {"a": np.arange(3, dtype=">f8")}
    mmlp.save(before, path)
    assert np.array_equal(mmlp.load(path)["a"], [0, 1, 2])
    assert np.array_equal(mmlp.load(path, like=before)["a"], [0, 1, 2])


def forged(path, **changes):
    """A file with a good checksum whose architecture, arrays or metadata were changed."""
    mmlp.save(MODELS["basic"](), path)
    arrays, metadata = _files.read(path)
    change = changes.pop("architecture", lambda node: node)
    metadata["architecture"] = change(metadata["architecture"])
    _files.write(
        path,
        changes.pop("arrays", lambda a: a)(dict(arrays)),
        changes.pop("metadata", lambda m: m)(metadata),
    )


def with_field(name, value):
    return lambda node: {**node, "fields": {**node["fields"], name: value}}


FORGERIES = {
    "unknown class": (
        {"architecture": lambda n: {**n, "class": "os.system"}},
        "names 'os.system', a class that",
    ),
    "a function as class": (
        {"architecture": lambda n: {**n, "class": "jax.numpy.tanh"}},
        "does not know",
    ),
    "a class as function": (
        {"architecture": lambda n: {"function": "MatrixMLP"}},
        "does not know",
    ),
    "other fields": (
        {"architecture": lambda n: {**n, "fields": {"x": {"value": 1}}}},
        r"fields \['x'\], but it has",
    ),
    "another kind": ({"architecture": lambda n: {"eval": "1"}}, "does not know"),
    "a class of more keys": (
        {"architecture": lambda n: {**n, "more": 1}},
        "makes no sense",
    ),
    "a value of more keys": (
        {"architecture": lambda n: {"value": 1, "more": 1}},
        "makes no sense",
    ),
    "a node without keys": ({"architecture": lambda n: {}}, "makes no sense"),
    "an array of two entries": (
        {"architecture": lambda n: {"array": ["a", []]}},
        "makes no sense",
    ),
    "a text for a function": (
        {"architecture": with_field("activation", {"value": "tanh"})},
        "the activation 'tanh', which is",
    ),
    "no architecture": (
        {"metadata": lambda m: {"kind": "model", "version": 2}},
        "needs `like=`",
    ),
    "no version": (
        {"metadata": lambda m: {"kind": "model"}},
        "no format version; fit again",
    ),
    "a newer version": (
        {"metadata": lambda m: {**m, "version": 3}},
        "format version 3, .*update matrix-mlp",
    ),
    "the version of 0.1.0": (
        {"metadata": lambda m: {**m, "version": 1}},
        "format version 1, .*fit again",
    ),
    "metadata that is a list": ({"metadata": lambda m: [m]}, "not a JSON object"),
    "no sense": ({"architecture": lambda n: [1, 2]}, "makes no sense"),
    "no array": (
        {"arrays": lambda a: {k: v for k, v in a.items() if k != "matrices[0].W"}},
        r"lacks the array 'matrices\[0\].W'",
    ),
    "extra array": (
        {"arrays": lambda a: {**a, "extra": np.ones(1)}},
        r"does not have: \['extra'\]",
    ),
    "another shape": (
        {"arrays": lambda a: {**a, "matrices[0].W": np.ones((4, 2))}},
        r"float64 \(4, 2\).*float64 \(4, 3\)",
    ),
    "another dtype": (
        {"arrays": lambda a: {**a, "matrices[0].W": np.ones((4, 3), "f4")}},
        "as float32",
    ),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_an_architecture_that_does_not_fit_is_refused(name, tmp_path):
    changes, message = FORGERIES[name]
    forged(tmp_path / "forged.safetensors", **changes)
    with pytest.raises(ValueError, match=f"forged.safetensors.*{message}"):
        mmlp.load(tmp_path / "forged.safetensors")


@pytest.mark.parametrize("name", ["basic", "joint", "cholesky", "gaussian head", "vae"])
def test_a_network_whose_parts_do_not_fit_each_other_is_refused(name, tmp_path):
    """Also one of many; what is no network any more, without weights, comes back as it was."""
    path, good = tmp_path / "model.safetensors", MODELS[name]()
    leaves, structure = jax.tree.flatten(good)
    arrays = [
        i for i, leaf in enumerate(leaves) if eqx.is_array(leaf) and leaf.ndim == 2
    ]
    for change in (
        lambda x: jnp.repeat(x, 2, axis=0),
        lambda x: x[None],
        lambda x: x[0],
    ):
        bad = [
            change(leaf) if i == arrays[0] else leaf for i, leaf in enumerate(leaves)
        ]
        mmlp.save(jax.tree.unflatten(structure, bad), path)
        with pytest.raises(
            ValueError, match=rf"{path.name} holds a {type(good).__name__} whose parts"
        ):
            mmlp.load(path)
    many = jax.tree.map(lambda x: jnp.stack([x, x]) if eqx.is_array(x) else x, good)
    for tree in (many, eqx.filter(good, eqx.is_array, inverse=True)):
        mmlp.save(tree, path)
        assert same(mmlp.load(path), tree)
