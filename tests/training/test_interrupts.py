"""Runs that are killed or asked to stop: the work is kept, the result the same, bit for bit."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import mmlp
from mmlp.serialization import files
from mmlp.training import checkpoints, interrupts, loop
from mmlp.training.epoch import Metrics

PROGRAM = """
import sys
import equinox as eqx, jax, jax.numpy as jnp, numpy as np, optax
import mmlp
from mmlp.training import checkpoints

jax.config.update("jax_enable_x64", True)
# A checkpoint after every epoch, so that many kills hit one that is being written.
checkpoints.MAX_SHARE_OF_TIME = float("inf")
key = jax.random.key(0)
X = np.asarray(jax.random.normal(key, (30, 3)))

def loss(model, batch, key, t):
    return jnp.mean((jax.vmap(model)(batch) - 1) ** 2) + 0.01 * jax.random.normal(key)

result = mmlp.fit(
    eqx.nn.MLP(3, 2, 8, 1, key=key), loss, X, key=key, epochs=int(sys.argv[2]), batch_size=8,
    optimizer=optax.adam(0.01), validation=X[:10], checkpoint=sys.argv[1], progress=False,
)
mmlp.save(result.model, sys.argv[1] + "/model.safetensors")
"""


def start(folder: Path, epochs: int, cache: Path) -> subprocess.Popen:
    environment = {
        **os.environ,
        "JAX_COMPILATION_CACHE_DIR": str(cache),
        "JAX_PLATFORMS": "cpu",
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }
    environment |= {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(folder), str(epochs)], env=environment
    )


def newest(folder: Path) -> str:
    return max(
        (file.name for file in folder.glob("checkpoint-*.safetensors")), default=""
    )


def outcome(folder: Path):
    arrays, metadata = files.read(folder / newest(folder))
    model, _ = files.read(folder / "model.safetensors")
    assert metadata["finished"]
    bits = {
        name: (array.dtype, array.shape, array.tobytes())
        for name, array in {**arrays, **model}.items()
    }
    return bits, (folder / "history.jsonl").read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("kills", [2, 20])
def test_a_run_killed_at_random_moments_ends_as_an_undisturbed_one(kills, tmp_path):
    """Half of the kills come once the process has written something, half at any time in its life.

    An epoch takes a few ms: there are several times as many as the processes can finish before
    they are killed.
    """
    epochs, random = 150 * kills, np.random.default_rng(kills)
    started = time.monotonic()
    assert start(tmp_path / "calm", epochs, tmp_path / "cache").wait(timeout=300) == 0
    longest = time.monotonic() - started
    struck = 0
    while struck < kills:
        process, before = (
            start(tmp_path / "killed", epochs, tmp_path / "cache"),
            newest(tmp_path / "killed"),
        )
        deadline = time.monotonic() + (
            random.uniform(0, longest) if struck % 2 else longest + 60
        )
        while (
            time.monotonic() < deadline
            and newest(tmp_path / "killed") == before
            and process.poll() is None
        ):
            time.sleep(0.005)
        time.sleep(random.uniform(0, 0.05))
        alive = process.poll() is None
        process.kill()
        process.wait()
        if not alive:
            break
        struck += 1
    assert struck == kills
    assert start(tmp_path / "killed", epochs, tmp_path / "cache").wait(timeout=300) == 0
    assert outcome(tmp_path / "killed") == outcome(tmp_path / "calm")
    assert not list((tmp_path / "killed").glob(".*.tmp"))
    print(f"{struck} kills")


def loss(model, batch, key, t):
    return jnp.mean((jax.vmap(model)(batch) - 1) ** 2)


OPTIONS = {
    "key": jax.random.key(0),
    "epochs": 5,
    "batch_size": 8,
    "optimizer": optax.adam(0.05),
    "progress": False,
}
X = np.ones((20, 3))


def model():
    return eqx.nn.Linear(3, 1, key=jax.random.key(0))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_finishes_the_epoch_saves_and_says_how_to_go_on(
    number, tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr(
        checkpoints, "MAX_SHARE_OF_TIME", 1e-9
    )  # no checkpoint but for the signal, after the first
    seen = []

    def send(info):
        seen.append(info.epoch)
        if info.epoch == 3:
            os.kill(os.getpid(), number)

    before = signal.getsignal(number)
    message = f"Training stopped after epoch 3 of 5. The same call or command resumes from {tmp_path}."
    if number == signal.SIGINT:
        with pytest.raises(KeyboardInterrupt, match="stopped after epoch 3"):
            mmlp.fit(model(), loss, X, checkpoint=tmp_path, on_epoch=(send,), **OPTIONS)
    else:
        with pytest.raises(SystemExit) as info:
            mmlp.fit(model(), loss, X, checkpoint=tmp_path, on_epoch=(send,), **OPTIONS)
        assert info.value.code == 128 + signal.SIGTERM
        assert message in capsys.readouterr().err
    assert signal.getsignal(number) is before
    assert seen == [1, 2, 3]
    assert [
        json.loads(line)["epoch"]
        for line in (tmp_path / "history.jsonl").read_text().splitlines()
    ] == [1, 2, 3]
    resumed = mmlp.fit(
        model(),
        loss,
        X,
        checkpoint=tmp_path,
        on_epoch=(lambda info: seen.append(info.epoch),),
        **OPTIONS,
    )
    assert seen == [1, 2, 3, 4, 5]
    undisturbed = mmlp.fit(model(), loss, X, **OPTIONS)
    assert all(
        np.array_equal(a, b)
        for a, b in zip(
            jax.tree.leaves(resumed), jax.tree.leaves(undisturbed), strict=True
        )
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_in_the_last_epoch_stops_a_finished_run(number, tmp_path, capsys):
    def send(info):
        if info.epoch == 5:
            os.kill(os.getpid(), number)

    with pytest.raises((KeyboardInterrupt, SystemExit)) as info:
        mmlp.fit(model(), loss, X, checkpoint=tmp_path, on_epoch=(send,), **OPTIONS)
    text = str(info.value) if number == signal.SIGINT else capsys.readouterr().err
    assert "stopped after epoch 5 of 5. The run is finished and saved" in text
    again = mmlp.fit(
        model(),
        loss,
        X,
        checkpoint=tmp_path,
        on_epoch=(lambda info: pytest.fail("not finished"),),
        **OPTIONS,
    )
    assert len(again.history["loss"]) == 5


@pytest.fixture
def interruptible():
    """Started in the background by a shell a process ignores SIGINT; not here."""
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, handler)


def test_a_second_signal_acts_at_once_and_handlers_are_restored(
    tmp_path, interruptible
):
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)

    def twice(info):
        for _ in range(
            2
        ):  # to this thread, and with time to be handled: two signals at once may become one
            signal.raise_signal(signal.SIGINT)
            time.sleep(0.01)

    with pytest.raises(KeyboardInterrupt) as info:
        mmlp.fit(model(), loss, X, checkpoint=tmp_path, on_epoch=(twice,), **OPTIONS)
    assert "resumes" not in str(info.value)
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_without_a_checkpoint_signals_are_left_alone():
    handlers = []
    mmlp.fit(
        model(),
        loss,
        X,
        on_epoch=(lambda info: handlers.append(signal.getsignal(signal.SIGINT)),),
        **OPTIONS,
    )
    assert set(handlers) == {signal.getsignal(signal.SIGINT)}


@pytest.mark.parametrize("number", interrupts.SIGNALS)
def test_a_signal_that_is_ignored_stays_ignored_during_training(number):
    """As by `nohup`, or in a job that a script has started in the background."""
    previous = signal.signal(number, signal.SIG_IGN)
    try:
        with interrupts.Interrupts(active=True) as training:
            assert signal.getsignal(number) is signal.SIG_IGN
            signal.raise_signal(number)
        assert training.received == 0
        assert signal.getsignal(number) is signal.SIG_IGN
    finally:
        signal.signal(number, previous)


def test_sigterm_gives_its_status_where_nobody_reads_stderr(monkeypatch):
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "w", buffering=1) as stderr:
        monkeypatch.setattr(sys, "stderr", stderr)
        with pytest.raises(SystemExit) as info:
            loop._raise_for_signal(signal.SIGTERM, "Training stopped.\n")
        os.dup2(
            os.open(os.devnull, os.O_WRONLY), writing
        )  # to be closed without a complaint
    assert info.value.code == 128 + signal.SIGTERM


def test_another_thread_can_stop_training_after_the_running_epoch(tmp_path):
    """As the command does, whose thread hears of a signal while the main thread computes."""
    answers = []

    def ask(info):
        if info.epoch == 2:
            thread = threading.Thread(
                target=lambda: answers.append(
                    interrupts.stop_after_epoch(signal.SIGINT)
                )
            )
            thread.start()
            thread.join()

    with pytest.raises(
        KeyboardInterrupt, match=r"after epoch 2 of 5\. The same call .* resumes"
    ):
        mmlp.fit(model(), loss, X, checkpoint=tmp_path, on_epoch=(ask,), **OPTIONS)
    assert answers == [True]
    assert not interrupts.stop_after_epoch(signal.SIGINT)


def test_training_that_compiles_or_keeps_no_checkpoint_is_not_waited_for(tmp_path):
    answers = []

    def loss_that_asks(
        model, batch, key, t
    ):  # Python runs it while the epoch is compiled
        answers.append(interrupts.stop_after_epoch(signal.SIGINT))
        return loss(model, batch, key, t)

    mmlp.fit(model(), loss_that_asks, X, checkpoint=tmp_path, **OPTIONS)
    assert answers
    assert not any(answers)
    answers.clear()

    def ask(info):
        answers.append(interrupts.stop_after_epoch(signal.SIGINT))

    mmlp.fit(model(), loss, X, on_epoch=(ask,), **OPTIONS)
    assert answers == [False] * 5


def test_the_checkpoint_of_an_older_version_is_refused_with_what_to_do(tmp_path):
    """0.1.0 kept the metrics of all epochs in one array."""
    mmlp.fit(model(), loss, X, checkpoint=tmp_path, **OPTIONS)
    arrays, metadata = files.read(tmp_path / newest(tmp_path))
    assert {name for name in arrays if not name.startswith("state.")} == {
        f"metrics.{name}" for name in Metrics._fields
    }
    files.write(
        tmp_path / newest(tmp_path), arrays | {"metrics": np.zeros((5, 8))}, metadata
    )
    with pytest.raises(
        ValueError, match=r"written by matrix-mlp 0\.1; finish the run with that"
    ):
        mmlp.fit(model(), loss, X, checkpoint=tmp_path, **OPTIONS)
