"""Programs in a folder: found again by another process, whatever happens to the folder."""

import os
import subprocess
import sys

import jax
import pytest

import mmlp
from mmlp.estimators import MultivariateRegressor, pieces
from mmlp.training import cache, recall
from mmlp.training.cache import Programs

SCRIPT = """
import sys, jax, numpy as np
compiled, traced = [], []
def listen(event, seconds, **_):
    if event == "/jax/core/compile/backend_compile_duration":
        compiled.append(seconds)
    if event == "/jax/core/compile/jaxpr_trace_duration":
        traced.append(seconds)
jax.monitoring.register_event_duration_secs_listener(listen)
import mmlp
folder = mmlp.cache_programs(*sys.argv[1:])
from mmlp.estimators import MultivariateRegressor
X = np.random.default_rng(0).standard_normal((40, 3))
sizes = {"hidden_dims": (3,), "hidden_features": (4,), "n_models": 2, "max_epochs": 2}
y = MultivariateRegressor(**sizes, random_state=0, patience=None).fit(X, X[:, :2]).predict(X)
print(len(compiled), len(traced), y.sum(), folder)
"""


SHORT = """
import jax, mmlp
folder = mmlp.cache_programs()
print(1, 0, jax.jit(lambda x: x + 1)(1.0), folder)
"""


def script(*arguments, code=SCRIPT, **variables):
    """The numbers of compilations and of tracings, the result, and the folder."""
    ours = ("MMLP_CACHE", "TF_CPP_MIN_LOG_LEVEL")
    environment = {name: value for name, value in os.environ.items() if name not in ours}
    command = [sys.executable, "-c", code, *map(str, arguments)]
    settings = {"env": environment | variables, "capture_output": True, "text": True}
    done = subprocess.run(command, timeout=600, check=True, **settings)
    assert done.stderr == ""
    compiled, traced, *rest = done.stdout.split()
    return int(compiled), int(traced), *rest


def test_the_second_process_neither_compiles_nor_traces_and_damage_is_no_harm(tmp_path):
    first = script(tmp_path)
    assert first[0] > 5
    assert first[1] > 100
    second = script(tmp_path)
    assert second[0] <= 1
    assert second[1] < 20
    assert second[2:] == first[2:]
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert {file.parent.parent for file in files} == {tmp_path}
    for i, file in enumerate(sorted(files)):  # as a killed process, or a full disk, may leave them
        content = file.read_bytes()
        file.write_bytes(content[: len(content) // 2] if i % 2 else content[:-1] + b"?")
    third = script(tmp_path)
    assert third[0] > 5
    assert third[2:] == first[2:]
    assert script(tmp_path)[0] <= 1


TWO = """
import sys, jax, mmlp
for folder in sys.argv[1:]:
    print(1, 0) if folder == sys.argv[1] else None
    print(mmlp.cache_programs(folder), jax.jit(lambda x: x + 1)(len(folder)))
print(mmlp.cache_programs())
"""


def test_another_folder_is_used_from_the_second_call_on(tmp_path):
    first, second = tmp_path / "first", tmp_path / "other"
    _, _, one, _, two, _, now = script(first, second, code=TWO)
    assert (one, two, now) == (str(first), str(second), str(second))
    assert all(list(folder.rglob(f"*{cache.SUFFIX}")) for folder in (first, second))


def test_what_follows_from_known_parts_is_found_once(tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "active", Programs(tmp_path))
    found = []

    def find():
        found.append(1)
        return [[2, 3], "float32"]

    for made_of, times in ((("f", 1), 1), (("f", 1), 1), (("f", 2), 2), (one, 3), (one, 4)):
        assert recall.remembered(made_of, find) == [[2, 3], "float32"]
        assert len(found) == times
    (tmp_path / f"{recall._key(('f', 1))}{cache.SUFFIX}").write_bytes(b"damaged")
    assert recall.remembered(("f", 1), find) == [[2, 3], "float32"]
    assert len(found) == 5


def test_a_folder_that_cannot_be_used_is_no_harm(tmp_path):
    (tmp_path / "file").touch()
    *_, result, folder = script(code=SHORT, MMLP_CACHE=str(tmp_path / "file"))
    assert (result, folder) == ("2.0", str(tmp_path / "file"))


def test_two_processes_may_write_and_bound_one_folder_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "LIMIT", 3000)
    folder = tmp_path / f"{cache.MACHINE}0"
    theirs = tmp_path / "theirs" / "measurements.npy"
    theirs.parent.mkdir()
    theirs.write_bytes(bytes(5000))
    os.utime(theirs, (0, 0))
    stores = [Programs(folder) for _ in range(2)]
    for i in range(40):
        for store in stores:
            store.put(f"program-{i % 20}", bytes([i % 20]) * 500)
    held = [file for file in folder.iterdir() if file.is_file()]
    assert 0 < sum(file.stat().st_size for file in held) <= 3000
    values = [stores[0].get(f"program-{i}") for i in range(20)]
    assert all(value in (None, bytes([i]) * 500) for i, value in enumerate(values))
    assert values[19] is not None
    assert values[0] is None
    assert theirs.exists()


def test_what_was_used_least_recently_goes_first(tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "LIMIT", 2500)
    store = Programs(tmp_path / f"{cache.MACHINE}0")
    for i, name in enumerate("abc"):
        store.put(name, bytes(700))
        os.utime(store.path / f"{name}{cache.SUFFIX}", (i, i))
    assert store.get("a") is not None  # now the newest
    store.put("d", bytes(700))
    assert [name for name in "abcd" if store.get(name) is not None] == ["a", "c", "d"]


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="files have no owners there")
def test_a_file_that_others_can_write_is_not_read(tmp_path):
    store = Programs(tmp_path / "here")
    store.put("key", b"program")
    assert store.get("key") == b"program"
    file = tmp_path / "here" / f"key{cache.SUFFIX}"
    file.chmod(0o666)
    assert store.get("key") is None
    if os.getuid() == 0:
        file.chmod(0o600)
        os.chown(file, 12345, 12345)
        assert store.get("key") is None


def test_it_is_off_where_the_user_says_so_or_has_a_cache_already(monkeypatch, tmp_path):
    assert jax.config.values["jax_compilation_cache_dir"]  # that of the tests
    assert mmlp.cache_programs(tmp_path) is None
    assert cache.active is None
    monkeypatch.setattr(jax.config, "update", lambda *_: pytest.fail("it was changed"))
    assert mmlp.cache_programs() is None
    with pytest.raises(ValueError, match=r"cache_programs\(folder=.*got int"):
        mmlp.cache_programs(3)  # pyright: ignore[reportArgumentType]


def test_the_default_folder_is_the_system_s(monkeypatch):
    pooch = pytest.importorskip("pooch")
    for variables in ({}, {"XDG_CACHE_HOME": "/somewhere"}):
        with monkeypatch.context() as patch:
            patch.delenv("XDG_CACHE_HOME", raising=False)
            for name, value in variables.items():
                patch.setenv(name, value)
            assert cache._user_cache() / "matrix-mlp" == pooch.os_cache("matrix-mlp")


def one(model, x):
    return model(x)


def test_a_key_is_of_known_code_and_changes_with_all_that_is_compiled_in():
    arguments = (jax.ShapeDtypeStruct((2,), "float32"),)
    static = mmlp.training.optimizers.default_optimizer(3)
    keys = [
        recall._key(("name", (made,), arguments))
        for made in (static, mmlp.training.optimizers.default_optimizer(3), jax.numpy.tanh, "other")
    ]
    assert keys[0] == keys[1]
    assert len(set(keys)) == 3
    for unknown in (one, lambda x: x, MultivariateRegressor().fit):
        with pytest.raises(Exception, match=r"not known|pickle"):
            recall._key(("name", unknown, arguments))
    assert recall.place(pieces.predictions) == "mmlp.estimators.pieces.predictions"
