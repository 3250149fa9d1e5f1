"""Programs on disk: another process finds them again, whatever happens to the folder."""

import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import pytest
from jax.experimental.compilation_cache import compilation_cache

import mmlp
from mmlp import program_cache
from mmlp.compilation import Compiled
from mmlp.program_cache import ProgramStore

SCRIPT = """
import sys, jax, numpy as np
compiled = []
def listen(event, seconds, **_):
    if event == "/jax/core/compile/backend_compile_duration":
        compiled.append(seconds)
jax.monitoring.register_event_duration_secs_listener(listen)
import mmlp
folder = mmlp.cache_programs(*sys.argv[1:])
from mmlp.estimators import MultivariateRegressor
X = np.random.default_rng(0).standard_normal((40, 3))
sizes = {"hidden_dims": (3,), "hidden_features": (4,), "n_models": 2, "max_epochs": 2}
y = MultivariateRegressor(**sizes, random_state=0, patience=None).fit(X, X[:, :2]).predict(X)
print(len(compiled), y.sum(), folder)
"""
SHORT = """
import jax, mmlp
from mmlp.compilation import Compiled
folder = mmlp.cache_programs()
print(Compiled(lambda factor, x: factor * x)(2, 1.0), folder)
"""


def run_script(*arguments, code=SCRIPT, **variables):
    """Run a program in a process of its own, and return the words that it prints."""
    unset = ("MMLP_CACHE", "TF_CPP_MIN_LOG_LEVEL")
    environment = {
        name: value for name, value in os.environ.items() if name not in unset
    }
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        env=environment | variables,
        capture_output=True,
        text=True,
        timeout=600,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.slow
def test_the_second_process_compiles_almost_nothing_and_damage_is_no_harm(tmp_path):
    compiled, *results = run_script(tmp_path)
    assert int(compiled) > 5
    again, *same = run_script(tmp_path)
    assert int(again) <= 2
    assert same == results
    files = sorted(file for file in tmp_path.rglob("*") if file.is_file())
    assert {file.parent.parent for file in files} == {tmp_path}
    for i, file in enumerate(
        files
    ):  # as a killed process or a full disk may leave them
        content = file.read_bytes()
        file.write_bytes(content[: len(content) // 2] if i % 2 else content[:-1] + b"?")
    compiled, *same = run_script(tmp_path)
    assert int(compiled) > 5
    assert same == results
    assert int(run_script(tmp_path)[0]) <= 2


TWO = """
import sys, mmlp
from mmlp.compilation import Compiled
for folder in sys.argv[1:]:
    print(mmlp.cache_programs(folder), Compiled(lambda factor, x: factor * x)(len(folder), 2.0))
print(mmlp.cache_programs())
"""


def test_another_folder_is_used_from_the_second_call_on(tmp_path):
    first, second = tmp_path / "first", tmp_path / "other"
    one, _, two, _, now = run_script(first, second, code=TWO)
    assert (one, two, now) == (str(first), str(second), str(second))
    assert all(
        list(folder.rglob(f"*{program_cache.SUFFIX}")) for folder in (first, second)
    )


def test_a_relative_folder_stays_where_it_was_when_the_process_changes_its_own(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(program_cache, "_store", None)
    monkeypatch.setattr(program_cache, "jax_has_a_cache", lambda: False)
    monkeypatch.delenv("MMLP_CACHE")
    monkeypatch.chdir(tmp_path)
    assert mmlp.cache_programs("programs") == tmp_path / "programs"
    monkeypatch.chdir("/")
    assert program_cache.active_store().path.parent == tmp_path / "programs"


def test_a_folder_that_cannot_be_used_is_no_harm(tmp_path):
    (tmp_path / "file").touch()
    *_, result, folder = run_script(code=SHORT, MMLP_CACHE=str(tmp_path / "file"))
    assert (result, folder) == ("2.0", str(tmp_path / "file"))


def test_two_processes_may_write_and_bound_one_folder_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(program_cache, "MAX_BYTES", 3000)
    folder = tmp_path / f"{program_cache.FOLDER_PREFIX}0"
    theirs = tmp_path / "theirs" / "measurements.npy"
    theirs.parent.mkdir()
    theirs.write_bytes(bytes(5000))
    os.utime(theirs, (0, 0))
    stores = [ProgramStore(folder) for _ in range(2)]
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
    monkeypatch.setattr(program_cache, "MAX_BYTES", 2500)
    store = ProgramStore(tmp_path / f"{program_cache.FOLDER_PREFIX}0")
    for i, name in enumerate("abc"):
        store.put(name, bytes(700))
        os.utime(store.path / f"{name}{program_cache.SUFFIX}", (i, i))
    assert store.get("a") is not None  # now the newest
    store.put("d", bytes(700))
    assert [name for name in "abcd" if store.get(name) is not None] == ["a", "c", "d"]


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="files have no owners there")
def test_a_file_that_others_can_write_is_not_read(tmp_path):
    store = ProgramStore(tmp_path / "here")
    store.put("key", b"program")
    assert store.get("key") == b"program"
    file = tmp_path / "here" / f"key{program_cache.SUFFIX}"
    file.chmod(0o666)
    assert store.get("key") is None
    if os.getuid() == 0:
        file.chmod(0o600)
        os.chown(file, 12345, 12345)
        assert store.get("key") is None


def test_it_is_off_where_the_user_says_so_or_has_a_cache_already(monkeypatch, tmp_path):
    assert jax.config.values["jax_compilation_cache_dir"]  # that of the tests
    assert mmlp.cache_programs(tmp_path) is None
    assert program_cache.active_store() is None
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
            assert program_cache._user_cache() / "matrix-mlp" == pooch.os_cache(
                "matrix-mlp"
            )


@pytest.fixture
def store(tmp_path, monkeypatch):
    """A store in use; the cache of JAX, which the tests use, is off meanwhile."""
    store = ProgramStore(tmp_path / "programs")
    monkeypatch.setattr(program_cache, "_store", store)
    jax.config.update("jax_enable_compilation_cache", False)
    compilation_cache.reset_cache()
    yield store
    jax.config.update("jax_enable_compilation_cache", True)
    compilation_cache.reset_cache()


def test_nothing_is_stored_beside_the_cache_of_jax(tmp_path, monkeypatch):
    store = ProgramStore(tmp_path / "programs")
    monkeypatch.setattr(program_cache, "_store", store)
    Compiled(scale)(2.0, jnp.arange(3.0))
    assert not store.path.exists()


def scale(factor, x):
    return factor * jnp.sin(x)


def test_a_stored_program_is_used_by_an_equal_function_only(store):
    x = jnp.arange(3.0)
    first = Compiled(scale)(2.0, x)
    (file,) = store.path.iterdir()
    modified = file.stat().st_mtime_ns
    assert jnp.array_equal(Compiled(scale)(2.0, x), first)  # from the disk
    assert file.stat().st_mtime_ns > modified
    assert jnp.array_equal(Compiled(scale)(3.0, x), 1.5 * first)
    assert jnp.array_equal(Compiled(scale)(2.0, x[:2]), first[:2])
    assert len(list(store.path.iterdir())) == 3


def test_functions_of_different_arguments_are_different_programs(store):
    first = jnp.arange(3.0)
    second = first + 10

    def choose(index, *arguments):
        return 2 * arguments[index]

    for index, expected in enumerate((first, second, first)):
        chosen = Compiled(choose)(index % 2, first, second)
        assert jnp.array_equal(chosen, 2 * expected)


def test_a_stored_program_keeps_the_weak_type_of_its_result(store):
    def double(_, x):
        return x * 2

    for x, weak in ((jnp.ones(()), False), (1.0, True), (jnp.ones(()), False)):
        assert Compiled(double)((), x).weak_type == weak


def test_jax_transforms_a_function_whose_programs_are_stored(store):
    compiled = Compiled(scale)
    x = jnp.arange(3.0)
    for _ in range(2):
        y = compiled(2.0, x)
        assert jnp.allclose(jax.vmap(lambda x: compiled(2.0, x))(x), y)
        assert jnp.allclose(jax.jit(lambda x: compiled(2.0, x))(x), y)
        assert jnp.allclose(
            jax.grad(lambda x: compiled(2.0, x).sum())(x), 2 * jnp.cos(x)
        )
    assert len(list(store.path.iterdir())) == 1


def test_a_program_of_another_compiler_is_not_loaded(store, monkeypatch):
    Compiled(scale)(2.0, 1.0)
    monkeypatch.setattr("jaxlib.version.__version__", "0.0.0")
    Compiled(scale)(2.0, 1.0)
    assert len(list(store.path.iterdir())) == 2


def test_a_program_under_another_key_is_not_loaded(store):
    x = jnp.arange(3.0)
    two = Compiled(scale)(2.0, x)
    (file,) = store.path.iterdir()
    content = file.read_bytes()
    Compiled(scale)(3.0, x)
    for other in store.path.iterdir():
        other.write_bytes(content)
    assert jnp.array_equal(Compiled(scale)(3.0, x), 1.5 * two)


def test_settings_of_jax_make_another_program(store):
    compiled = Compiled(lambda factor, x: factor * (x @ x))
    x = jnp.ones((2, 2))
    for precision in (None, "highest", "highest"):
        with jax.default_matmul_precision(precision):
            compiled(2.0, x)
    assert len(list(store.path.iterdir())) == 2


@pytest.mark.skipif(
    not hasattr(os, "mkfifo"), reason="there are no pipes and owners there"
)
def test_links_and_pipes_are_not_read(store, tmp_path):
    store.put("key", b"program")
    file = store.path / f"key{program_cache.SUFFIX}"
    file.rename(tmp_path / "elsewhere")
    file.symlink_to(tmp_path / "elsewhere")
    assert store.get("key") is None
    file.unlink()
    os.mkfifo(file)
    assert store.get("key") is None  # at once: nobody writes to it


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="files have no owners there")
def test_a_folder_that_others_can_write_to_is_not_used_and_one_warning_says_so(
    tmp_path,
):
    store = ProgramStore(tmp_path / "shared")
    store.put("key", b"program")
    store.path.chmod(0o777)
    with pytest.warns(UserWarning, match="chmod 700"):
        assert store.get("key") is None
    store.put(
        "other", b"program"
    )  # without another warning, which would be an error here
    assert len(list(store.path.iterdir())) == 1
    linked = ProgramStore(tmp_path / "link")
    linked.path.symlink_to(store.path)
    with pytest.warns(UserWarning, match="link is not a folder"):
        assert linked.get("key") is None


def test_other_messages_on_stderr_are_passed_on(capfd):
    with program_cache.hide_loader_messages():
        os.write(
            2,
            b"E0101 cpu_aot_loader.cc:210] Machine type does not match\nanother thread\n",
        )
    assert capfd.readouterr().err == "another thread\n"
