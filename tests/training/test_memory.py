"""A long process keeps the last programs that it compiled, not all of them."""

import gc
import os
import subprocess
import sys
import weakref

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from processes import environment
from sweeps import sweep

import mmlp
from mmlp import compilation as _compiled
from mmlp.compilation import Compiled
from mmlp.training.epoch import run_epoch

KEY = jax.random.key(0)
X = np.ones((8, 2))
SGD = optax.sgd(0.1)


def fit(number, folder=None):
    """With a loss of its own; gives a weak reference to it."""

    def loss(model, batch, key, t):
        return number * jnp.mean(jax.vmap(model)(batch) ** 2)

    options = {"epochs": 1, "batch_size": 4, "optimizer": SGD, "progress": False}
    model = eqx.nn.Linear(2, 1, key=KEY)
    mmlp.fit(
        model, loss, X, key=KEY, checkpoint=folder and folder / str(number), **options
    )
    return weakref.ref(loss)


def fit_many(number, folder=None):
    def loss(model, batch, key, t):
        return number * jnp.mean(jax.vmap(model)(batch) ** 2)

    options = {"epochs": 1, "batch_size": 4, "optimizer": SGD, "progress": False}
    keys = jax.random.split(KEY, 2)
    models = eqx.filter_vmap(lambda key: eqx.nn.Linear(2, 1, key=key))(keys)
    mmlp.fit_many(
        models,
        loss,
        X,
        keys=keys,
        checkpoint=folder and folder / str(number),
        **options,
    )
    return weakref.ref(loss)


@sweep("train", [fit, fit_many])
@sweep("saved", [False, True])
def test_a_loss_is_let_go_with_its_program(train, saved, tmp_path):
    """Nothing in JAX or here holds on to it: neither its compilation nor its fingerprint."""
    loss = train(1.0, tmp_path if saved else None)
    assert loss() is not None
    run_epoch.find_program.cache_clear()
    gc.collect()
    assert loss() is None


def test_the_last_programs_are_kept_and_older_ones_compiled_again(monkeypatch):
    monkeypatch.setattr(_compiled, "MAX_PROGRAMS", 2)
    traces = []

    def scaled(factor, x):
        traces.append((factor, x.shape))
        return factor * x

    compiled = Compiled(scaled)
    one, two = np.ones(1), np.ones(2)
    for factor, x in (
        (2, one),
        (2, two),
        (2, one),
        (2, two),
        (3, one),
        (2, two),
        (2, one),
    ):
        assert np.array_equal(compiled(factor, x), factor * x)
    assert traces == [(2, (1,)), (2, (2,)), (3, (1,)), (2, (1,))]


def test_less_effort_gives_the_same_values_by_a_lower_level_of_llvm(monkeypatch):
    options, jit = [], jax.jit
    monkeypatch.delenv("XLA_FLAGS")

    def recorded(*arguments, compiler_options, **others):
        options.append(compiler_options)
        return jit(*arguments, compiler_options=compiler_options, **others)

    monkeypatch.setattr(jax, "jit", recorded)
    for effort in (None, "least", "less"):
        scaled = Compiled(lambda factor, x: factor * x, effort=effort)
        assert np.array_equal(scaled(2, X), 2 * X)
    on_cpu = jax.default_backend() == "cpu"
    least = _compiled.COMPILER_OPTIONS["least"]
    less = _compiled.COMPILER_OPTIONS["less"]
    assert options == ([None, least, less] if on_cpu else [None] * 3)


def test_a_program_says_how_hard_to_compile_by_the_work_of_its_steps():
    efforts = [
        _compiled.choose_effort(*sizes)
        for sizes in ((400, 8, 3), (401, 8, 3), (2000, 64, 5e4))
    ]
    assert efforts == ["least", "less", "less"]
    assert _compiled.choose_effort(10**6, 64, 50_000) == "full"


def test_a_process_compiles_all_quickly_unless_its_user_says_otherwise(monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "--xla_backend_optimization_level=3")
    _compiled.compile_all_quickly()
    first, last = os.environ["XLA_FLAGS"].split()
    assert (first, last) == (
        "--xla_backend_optimization_level=1",
        "--xla_backend_optimization_level=3",
    )


PROGRAM = """
import sys
import test_memory

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 / 2**20

train = getattr(test_memory, sys.argv[1])
for number in range(1, 73):
    train(float(number))
    if number % 36 == 0:
        print(resident())
"""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize("train", ["fit", "fit_many"])
def test_fresh_losses_do_not_pile_up(train):
    """Of 72 fits, the last 36 add little; when all programs were kept they added 170 MB or more."""
    command = [sys.executable, "-c", PROGRAM, train]
    done = subprocess.run(
        command, env=environment(__file__), capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    half, whole = map(float, done.stdout.split())
    assert whole - half < 40
