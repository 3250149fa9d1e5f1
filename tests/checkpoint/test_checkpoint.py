"""Files: round trips, refusals, damage, full disks; and runs that go on where they stopped."""

import contextlib
import dataclasses
import errno
import inspect
import os
import pickle
import shutil
import subprocess
import sys
import tracemalloc
import warnings

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import safetensors.numpy

import mmlp
from mmlp import heads, kernels, networks
from mmlp.checkpoint import files as _files
from mmlp.registry import REGISTRY
from mmlp.training import runs

KEY = jax.random.key(0)
X = np.asarray(jax.random.normal(KEY, (20, 3)))
ADAM = optax.adam(0.05)

MODELS = {
    "basic": lambda: mmlp.MatrixMLP(3, 2, (4, 3), key=KEY),
    "general": lambda: mmlp.MatrixMLP(
        3, 2, (4,), 2, (5,), kernel=mmlp.RadialBasis(0.3), activation=jax.nn.gelu, key=KEY
    ),
    "diagonal": lambda: mmlp.MatrixMLP(
        3, 2, (4,), output=mmlp.Diagonal(mmlp.MercerSigmoid(2.0, -0.1)), key=KEY
    ),
    "joint": lambda: mmlp.JointMatrixMLP(3, 2, (4,), 2, (5,), key=KEY),
    "shallow": lambda: mmlp.ShallowMatrixMLP(3, 2, (4, 4), key=KEY),
    "cholesky": lambda: mmlp.CholeskyMLP(3, 2, (4,), 2, key=KEY),
    "gaussian head": lambda: mmlp.GaussianHead(mmlp.MatrixMLP(3, 2, (4,), 3, key=KEY)),
    "vae": lambda: mmlp.paper_vae("EfNf", 3, 2, (4,), key=KEY),
    "power exponential head": lambda: mmlp.PowerExponentialHead(
        mmlp.CholeskyMLP(3, 2, (4,), 5, key=KEY), alpha_bounds=(0.3, 2), beta_bounds=(0.5, 1)
    ),
    "kernels of other numbers": lambda: (
        mmlp.MercerSigmoid(np.float32(2), jnp.array(1)),
        mmlp.RadialBasis(np.float64(3)),
    ),
    "gram": lambda: mmlp.Gram(jnp.eye(3)[None], upper=True),
    "a tree": lambda: {
        "a": [mmlp.DiagonalGram(jnp.ones(2)), None, (1, 2.5, True, "text", float("inf"))]
    },
}


class Own(eqx.Module):
    network: mmlp.MatrixMLP
    scale: jax.Array
    function: object = eqx.field(static=True)


def loss(model, batch, key, t):
    return jnp.mean((jax.vmap(model)(batch) - 1) ** 2) + 0.01 * jax.random.normal(key)


def model():
    return eqx.nn.Linear(3, 1, key=KEY)


def fit(folder=None, /, start=None, data=X, **options):
    defaults = {"key": KEY, "epochs": 6, "batch_size": 8, "optimizer": ADAM, "progress": False}
    return mmlp.fit(
        start or model(), options.pop("loss", loss), data, checkpoint=folder, **(defaults | options)
    )


def same(a, b):
    """Bit for bit."""
    leaves = [
        (np.asarray(x), np.asarray(y))
        for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    ]
    return all(
        x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes() for x, y in leaves
    )


@pytest.fixture
def each_epoch(monkeypatch):
    """A checkpoint after every epoch, however long writing takes."""
    monkeypatch.setattr(runs, "SHARE", 0)


# -- save and load ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", MODELS)
def test_a_model_comes_back_bit_for_bit(name, dtype, tmp_path):
    before = jax.tree.map(lambda x: x.astype(dtype) if eqx.is_array(x) else x, MODELS[name]())
    mmlp.save(before, tmp_path / "model.safetensors")
    after = mmlp.load(tmp_path / "model.safetensors")
    assert jax.tree.structure(before) == jax.tree.structure(after)
    assert same(before, after)
    assert os.listdir(tmp_path) == ["model.safetensors"]


def test_every_module_class_of_the_library_can_be_saved():
    library = [*mmlp.distributions.__all__, *mmlp.spd.__all__]
    entries = [getattr(mmlp, name) for name in library]
    for module in (heads, kernels, networks):
        entries += [entry for _, entry in inspect.getmembers(module, inspect.isclass)]
    for entry in entries:
        if (
            isinstance(entry, type)
            and issubclass(entry, eqx.Module)
            and not inspect.isabstract(entry)
        ):
            if entry.__module__.startswith("mmlp"):
                assert REGISTRY[entry.__name__] is entry


def test_a_users_own_module_is_loaded_into_one_like_it(tmp_path):
    path = tmp_path / "own.safetensors"
    own = Own(MODELS["basic"](), jnp.arange(3.0), lambda x: x)
    with pytest.warns(
        UserWarning, match=r"own.safetensors holds arrays only and needs `load\(like=...\)`: .*Own"
    ):
        mmlp.save(own, path)
    blank = jax.tree.map(jnp.zeros_like, own)
    assert same(mmlp.load(path, like=blank), own)
    with pytest.raises(ValueError, match=r"needs `like=`.*Own"):
        mmlp.load(path)
    with pytest.raises(
        ValueError, match=r"holds 'scale' as float64 \(3,\), `like` has it as float64 \(4,\)"
    ):
        mmlp.load(path, like=dataclasses.replace(own, scale=jnp.ones(4)))
    with pytest.raises(ValueError, match=r"lacks the arrays \[\] and has \['network.*'scale'\]"):
        mmlp.load(path, like=())


def test_float64_is_not_cut_to_float32_in_silence(tmp_path):
    path = tmp_path / "model.safetensors"
    mmlp.save(MODELS["basic"](), path)
    with jax.enable_x64(False), pytest.raises(ValueError, match=r"float64.*jax_enable_x64"):
        mmlp.load(path)


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "int4", "complex64"])
def test_dtypes_that_the_file_format_would_not_give_back_are_refused_before_anything_is_written(
    dtype, tmp_path
):
    with pytest.raises(
        ValueError, match=rf"`save\(model=...\)` has \"\['a'\]\" of dtype {dtype}.*; cast it first"
    ):
        mmlp.save({"a": jnp.ones(2, dtype)}, tmp_path / "model.safetensors")
    assert not list(tmp_path.iterdir())
    if dtype == "bfloat16":
        start = jax.tree.map(lambda x: x.astype(dtype), model())
        with pytest.raises(
            ValueError, match=rf"`fit\(checkpoint=...\)` has 'state.params.weight' of dtype {dtype}"
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
    "a class as function": ({"architecture": lambda n: {"function": "MatrixMLP"}}, "does not know"),
    "other fields": (
        {"architecture": lambda n: {**n, "fields": {"x": {"value": 1}}}},
        r"fields \['x'\], but it has",
    ),
    "another kind": ({"architecture": lambda n: {"eval": "1"}}, "does not know"),
    "a class of more keys": ({"architecture": lambda n: {**n, "more": 1}}, "makes no sense"),
    "a value of more keys": ({"architecture": lambda n: {"value": 1, "more": 1}}, "makes no sense"),
    "a node without keys": ({"architecture": lambda n: {}}, "makes no sense"),
    "an array of two entries": ({"architecture": lambda n: {"array": ["a", []]}}, "makes no sense"),
    "a text for a function": (
        {"architecture": with_field("activation", {"value": "tanh"})},
        "the activation 'tanh', which is",
    ),
    "no architecture": ({"metadata": lambda m: {"kind": "model", "version": 2}}, "needs `like=`"),
    "no version": ({"metadata": lambda m: {"kind": "model"}}, "version None"),
    "a newer version": (
        {"metadata": lambda m: {**m, "version": 3}},
        "written by a newer matrix-mlp",
    ),
    "the version of 0.1.0": (
        {"metadata": lambda m: {**m, "version": 1}},
        "was written by matrix-mlp 0.1.0, whose files are not read any more: fit again, or",
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
    """Also one of many; what is no network any more, with no weights in it, comes back as it was."""
    path, good = tmp_path / "model.safetensors", MODELS[name]()
    leaves, structure = jax.tree.flatten(good)
    arrays = [i for i, leaf in enumerate(leaves) if eqx.is_array(leaf) and leaf.ndim == 2]
    for change in (lambda x: jnp.repeat(x, 2, axis=0), lambda x: x[None], lambda x: x[0]):
        bad = [change(leaf) if i == arrays[0] else leaf for i, leaf in enumerate(leaves)]
        mmlp.save(jax.tree.unflatten(structure, bad), path)
        with pytest.raises(
            ValueError, match=rf"{path.name} holds a {type(good).__name__} whose parts"
        ):
            mmlp.load(path)
    many = jax.tree.map(lambda x: jnp.stack([x, x]) if eqx.is_array(x) else x, good)
    for tree in (many, eqx.filter(good, eqx.is_array, inverse=True)):
        mmlp.save(tree, path)
        assert same(mmlp.load(path), tree)


@pytest.mark.parametrize(
    "change",
    [
        {"fingerprint": []},
        {"epoch": "2"},
        {"epoch": 2**60},
        {"finished": None},
        {"kind": "model"},
        {"epoch": 5},
    ],
)
def test_a_checkpoint_that_makes_no_sense_is_refused(change, tmp_path):
    fit(tmp_path, epochs=2)
    newest = runs.RunDirectory(tmp_path, {}, writes=False).files()[0]
    arrays, metadata = _files.read(newest)
    _files.write(newest, arrays, metadata | change)
    with pytest.raises(ValueError, match=r"`fit\(checkpoint=...\)`"):
        fit(tmp_path, epochs=2)


def test_foreign_files_are_refused_and_nothing_in_them_is_run_or_allocated(tmp_path):
    class Bomb:
        def __reduce__(self):
            return (os.mkdir, (str(tmp_path / "executed"),))

    huge = (10 * 2**30).to_bytes(8, "little")
    deep = b'{"__metadata__":' + b"[" * 100_000
    files = {
        "pickle": (pickle.dumps(Bomb()), "no pickles"),
        "pickle with a plausible length": (
            (4).to_bytes(8, "little") + pickle.dumps(Bomb()),
            "not a JSON object",
        ),
        "another library's": (
            safetensors.numpy.save({"W": np.ones(3)}, {"format": "pt"}),
            "another library",
        ),
        "10 GB header": (huge + b"{}", "its header claims 10737418240"),
        "10 GB tensor": (
            b'\x58\0\0\0\0\0\0\0{"__metadata__":{"mmlp":"{}"},"a":{"dtype":"F32","shape":[2684354560],"data_offsets":[0,10737418240]}}',
            "",
        ),
        "deep nesting": (len(deep).to_bytes(8, "little") + deep, "not a JSON object"),
        "empty": (b"", "it has 0 bytes"),
        "text": (b"W = [[1, 2], [3, 4]]\n", "not a complete safetensors file"),
    }
    for name, (content, message) in files.items():
        path = tmp_path / f"{name}.safetensors"
        path.write_bytes(content)
        tracemalloc.start()
        with pytest.raises(ValueError, match=f"{name}.safetensors.*{message}"):
            mmlp.load(path)
        assert tracemalloc.get_traced_memory()[1] < 2**25
        tracemalloc.stop()
    assert not (tmp_path / "executed").exists()


def test_a_large_file_is_refused_before_it_is_read(tmp_path):
    """Sparse files of 64 GB: one of another library, and one of this library with more bytes than its header claims."""
    ours, theirs = tmp_path / "ours.safetensors", tmp_path / "theirs.safetensors"
    mmlp.save(MODELS["basic"](), ours)
    theirs.write_bytes(safetensors.numpy.save({"W": np.ones(3)}, {"format": "pt"}))
    for path, message in (
        (ours, "ours.safetensors is damaged: it has"),
        (theirs, "another library"),
    ):
        os.truncate(path, 64 * 2**30)
        with pytest.raises(ValueError, match=message):
            mmlp.load(path)


def test_metadata_too_deep_for_json_is_refused(tmp_path):
    path, text = tmp_path / "deep.safetensors", "[" * 100_000
    path.write_bytes(safetensors.numpy.save({}, {"mmlp": text, "sha256": _files._digest({}, text)}))
    with pytest.raises(ValueError, match=r"deep.safetensors is damaged: the entry 'mmlp'"):
        mmlp.load(path)


def damaged(content: bytes, random) -> bytes:
    kind = random.integers(4)
    if kind == 0:
        return b""
    if kind == 1:
        return content[: random.integers(len(content))]
    flipped = bytearray(content)
    header = int.from_bytes(content[:8], "little") + 8
    where = random.integers(header if kind == 2 else len(content))
    flipped[where] ^= 1 << random.integers(8)
    return bytes(flipped)


def test_a_damaged_model_file_is_refused_never_misread(tmp_path):
    path, random = tmp_path / "model.safetensors", np.random.default_rng(0)
    mmlp.save(MODELS["general"](), path)
    content = path.read_bytes()
    for _ in range(200):
        path.write_bytes(damaged(content, random))
        with pytest.raises(ValueError, match=r"model.safetensors"):
            mmlp.load(path)


# -- runs -------------------------------------------------------------------------------------------------------------


class StopError(Exception):
    pass


def stop_after(epoch):
    def stop(info):
        if info.epoch > epoch:
            raise StopError

    return (stop,)


@pytest.mark.parametrize("options", [{}, {"validation": X[:9], "patience": 4, "optimizer": None}])
def test_an_interrupted_run_ends_as_an_undisturbed_one(options, tmp_path, each_epoch):
    undisturbed = fit(tmp_path / "a", **options)
    for epoch in (1, 2, 4):
        with pytest.raises(StopError):
            fit(tmp_path / "b", on_epoch=stop_after(epoch), **options)
    resumed = fit(tmp_path / "b", **options)
    assert same(resumed, undisturbed)
    assert (tmp_path / "a/history.jsonl").read_bytes() == (
        tmp_path / "b/history.jsonl"
    ).read_bytes()
    assert same(fit(**options), undisturbed)


def test_many_models_resume_as_one_does(tmp_path, each_epoch):
    keys = jax.random.split(KEY, 2)
    models = eqx.filter_vmap(lambda k: eqx.nn.Linear(3, 1, key=k))(keys)
    options = {
        "keys": keys,
        "epochs": 4,
        "batch_size": 8,
        "optimizer": ADAM,
        "progress": False,
        "checkpoint": tmp_path,
    }
    undisturbed = mmlp.fit_many(models, loss, X, **{**options, "checkpoint": None})
    with pytest.raises(StopError):
        mmlp.fit_many(models, loss, X, on_epoch=stop_after(2), **options)
    assert same(mmlp.fit_many(models, loss, X, **options), undisturbed)


def test_a_finished_run_is_returned_at_once_and_resume_false_begins_anew(tmp_path, each_epoch):
    epochs = []
    first = fit(tmp_path, on_epoch=(lambda info: epochs.append(info.epoch),))
    again = fit(tmp_path, on_epoch=(lambda info: epochs.append(info.epoch),))
    assert same(first, again)
    assert epochs == [1, 2, 3, 4, 5, 6]
    assert len(list(tmp_path.glob("checkpoint-*"))) == runs.KEEP
    anew = fit(tmp_path, resume=False, on_epoch=(lambda info: epochs.append(info.epoch),))
    assert same(first, anew)
    assert len(epochs) == 12


@pytest.mark.parametrize(
    ("part", "change"),
    {
        "data": {"data": X + 1},
        "validation": {"validation": X},
        "key": {"key": jax.random.key(1)},
        "epochs": {"epochs": 7},
        "batch_size": {"batch_size": 9},
        "optimizer": {"optimizer": optax.adam(0.051)},
        "model": {"start": eqx.nn.Linear(3, 1, use_bias=False, key=KEY)},
        "loss": {"loss": lambda m, b, k, t: 2 * loss(m, b, k, t)},
    }.items(),
)
def test_the_directory_of_another_run_is_refused(part, change, tmp_path_factory):
    folder = tmp_path_factory.getbasetemp() / "one-run"
    fit(folder)
    with pytest.raises(
        ValueError, match=rf"holds another run \(it differs in .*{part}.*resume=False"
    ):
        fit(folder, **change)


def test_a_rate_that_lies_in_the_optimisers_state_is_part_of_the_run(tmp_path):
    fit(tmp_path, optimizer=optax.inject_hyperparams(optax.adam)(learning_rate=0.05))
    with pytest.raises(ValueError, match=r"it differs in optimizer"):
        fit(tmp_path, optimizer=optax.inject_hyperparams(optax.adam)(learning_rate=0.06))


def test_a_loss_that_needs_more_than_one_row_has_checkpoints(tmp_path):
    def spread(model, batch, key, t):
        assert len(batch) > 1
        return jnp.var(jax.vmap(model)(batch), ddof=1)

    assert same(fit(tmp_path, loss=spread), fit(loss=spread))


def test_an_optimiser_with_a_random_key_in_its_state_resumes(tmp_path, each_epoch):
    optimizer = optax.chain(optax.add_noise(0.1, 0.5, jax.random.key(3)), optax.sgd(0.05))
    with pytest.raises(StopError):
        fit(tmp_path, optimizer=optimizer, on_epoch=stop_after(2))
    assert same(fit(tmp_path, optimizer=optimizer), fit(optimizer=optimizer))


def test_two_runs_cannot_use_one_directory_at_once(tmp_path):
    pytest.importorskip("fcntl")
    refused = []

    def second(info):
        with pytest.raises(ValueError, match="is in use by another run"):
            fit(tmp_path)
        refused.append(info.epoch)
        if info.epoch == 2:
            raise StopError

    with pytest.raises(StopError):
        fit(tmp_path, on_epoch=(second,))
    assert refused == [1, 2]
    assert same(fit(tmp_path), fit())  # both the error and the end of a run let go
    assert same(fit(tmp_path), fit())


def test_a_damaged_newest_checkpoint_is_reported_and_the_one_before_is_used(tmp_path, each_epoch):
    """200 damages at the level of files, and a few whole runs."""
    undisturbed = fit(tmp_path)
    run = runs.RunDirectory(tmp_path, {}, writes=True)
    newest, before = run.files()[:2]
    content, expected = newest.read_bytes(), _files.read(before)
    random = np.random.default_rng(1)
    for i in range(200):
        newest.write_bytes(damaged(content, random))
        with pytest.warns(
            UserWarning, match=f"goes on from the checkpoint before: .*{newest.name}"
        ):
            arrays, metadata = run.newest()
        assert metadata == expected[1]
        assert same(arrays, expected[0])
        if i < 4:
            with pytest.warns(UserWarning, match="goes on from the checkpoint before"):
                assert same(fit(tmp_path), undisturbed)
    for file in run.files():
        file.write_bytes(b"")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert same(fit(tmp_path), undisturbed)
    assert len(caught) == runs.KEEP
    assert all("begins anew" in str(warning.message) for warning in caught)


def test_damaged_checkpoints_are_set_aside_so_that_the_new_ones_stay(tmp_path, each_epoch):
    undisturbed = fit(tmp_path)
    for file in tmp_path.glob("checkpoint-*"):
        file.write_bytes(b"")
    with pytest.warns(UserWarning, match="begins anew"), pytest.raises(StopError):
        fit(tmp_path, on_epoch=stop_after(2))
    assert len(list(tmp_path.glob("checkpoint-*.damaged"))) == runs.KEEP
    epochs = []
    assert same(fit(tmp_path, on_epoch=(lambda info: epochs.append(info.epoch),)), undisturbed)
    assert epochs == [3, 4, 5, 6]


def test_other_files_in_the_directory_are_left_alone(tmp_path, each_epoch):
    others = [
        tmp_path / name
        for name in ("checkpoint-best.safetensors", "checkpoint-00000009-copy.safetensors")
    ]
    for other in others:
        other.write_bytes(b"")
    assert same(fit(tmp_path), fit())
    assert all(other.exists() for other in others)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES, errno.EIO])
@pytest.mark.parametrize("function", ["fsync", "replace"])
def test_a_write_that_fails_is_a_clear_error_and_the_last_checkpoint_stays(
    number, function, tmp_path, each_epoch, monkeypatch
):
    calls, original = [], getattr(os, function)

    def failing(*arguments):
        calls.append(arguments)
        if len(calls) > 8:
            raise OSError(number, os.strerror(number))
        return original(*arguments)

    monkeypatch.setattr(os, function, failing)
    with pytest.raises(OSError, match=r"could not write .*checkpoint-.*intact") as info:
        fit(tmp_path, epochs=40)
    monkeypatch.setattr(os, function, original)
    assert info.value.errno == number
    assert not list(tmp_path.glob(".*.tmp"))
    files = runs.RunDirectory(tmp_path, {}, writes=False).files()
    assert 0 < len(files) <= runs.KEEP
    assert all(_files.read(file) for file in files)
    assert same(fit(tmp_path, epochs=40), fit(epochs=40))


def test_a_refused_open_is_a_clear_error(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match=r"`fit\(checkpoint=...\)` cannot use the directory"):
        fit(tmp_path / "file" / "run")
    with pytest.raises(OSError, match=r"could not write .*model.safetensors"):
        mmlp.save(model(), tmp_path / "missing" / "model.safetensors")


@pytest.fixture
def small_disk(tmp_path):
    """A real file system of 64 kB, where this machine lets us mount one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = shutil.which("mount")
    if not sys.platform.startswith("linux") or os.geteuid() != 0 or command is None:
        pytest.skip("only root on Linux can mount a small file system")
    if subprocess.run(
        [command, "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder], capture_output=True
    ).returncode:
        pytest.skip("mounting is not allowed here")
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_a_real_full_disk_keeps_the_last_checkpoint(small_disk, each_epoch):
    with pytest.raises(StopError):
        fit(small_disk, on_epoch=stop_after(2))
    before = {file.name: file.read_bytes() for file in small_disk.glob("checkpoint-*")}
    filler = small_disk / "filler"
    with open(filler, "wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(b"x" * 512)
    with pytest.raises(OSError, match=r"could not write .*No space left on device") as info:
        fit(small_disk)
    assert info.value.errno == errno.ENOSPC
    assert not list(small_disk.glob(".*.tmp"))
    assert {name: (small_disk / name).read_bytes() for name in before} == before
    filler.unlink()
    assert same(fit(small_disk), fit())
