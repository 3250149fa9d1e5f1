"""Runs go on where they stopped: interruptions and damage."""

import concurrent.futures
import contextlib
import threading
import time
import warnings

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from checkpoints import ADAM, KEY, StopError, X, damaged, fit, loss, same, stop_after

import mmlp
from mmlp.serialization import files as _files
from mmlp.training import checkpoints


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
    newest = checkpoints.RunDirectory(tmp_path, {}, writes=False).list_checkpoints()[0]
    arrays, metadata = _files.read(newest)
    _files.write(newest, arrays, metadata | change)
    with pytest.raises(ValueError, match=r"`fit\(checkpoint=...\)`"):
        fit(tmp_path, epochs=2)


@pytest.mark.parametrize(
    "name", ["state.step_scale", "state.good_params", "metrics.loss"]
)
def test_a_checkpoint_without_one_of_its_arrays_is_refused(name, tmp_path):
    fit(tmp_path, epochs=2)
    newest = checkpoints.RunDirectory(tmp_path, {}, writes=False).list_checkpoints()[0]
    arrays, metadata = _files.read(newest)
    del arrays[name]
    _files.write(newest, arrays, metadata)
    with pytest.raises(ValueError, match=f"without {name} of this run's shape"):
        fit(tmp_path, epochs=2)


@pytest.mark.parametrize(
    "options", [{}, {"validation": X[:9], "patience": 4, "optimizer": None}]
)
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


def test_a_finished_run_is_returned_at_once_and_resume_false_begins_anew(
    tmp_path, each_epoch
):
    epochs = []
    first = fit(tmp_path, on_epoch=(lambda info: epochs.append(info.epoch),))
    again = fit(tmp_path, on_epoch=(lambda info: epochs.append(info.epoch),))
    assert same(first, again)
    assert epochs == [1, 2, 3, 4, 5, 6]
    assert len(list(tmp_path.glob("checkpoint-*"))) == checkpoints.MAX_CHECKPOINTS
    anew = fit(
        tmp_path, resume=False, on_epoch=(lambda info: epochs.append(info.epoch),)
    )
    assert same(first, anew)
    assert len(epochs) == 12


@pytest.mark.parametrize(
    ("part", "change"),
    {
        "data": {"data": X + 1},
        "validation": {"validation": X[:8]},
        "key": {"key": jax.random.key(1)},
        "epochs": {"epochs": 7},
        "patience": {"patience": 3},
        "batch_size": {"batch_size": 9},
        "optimizer": {"optimizer": optax.adam(0.051)},
        "model": {"start": eqx.nn.Linear(3, 1, use_bias=False, key=KEY)},
        "loss": {"loss": lambda m, b, k, t: 2 * loss(m, b, k, t)},
    }.items(),
)
def test_the_directory_of_another_run_is_refused(part, change, tmp_path_factory):
    folder = tmp_path_factory.getbasetemp() / "one-run"
    fit(folder, validation=X[:9])
    with pytest.raises(
        ValueError, match=rf"holds another run \(it differs in .*{part}.*resume=False"
    ):
        fit(folder, **{"validation": X[:9], **change})


def test_a_rate_that_lies_in_the_optimisers_state_is_part_of_the_run(tmp_path):
    fit(tmp_path, optimizer=optax.inject_hyperparams(optax.adam)(learning_rate=0.05))
    with pytest.raises(ValueError, match=r"it differs in optimizer"):
        fit(
            tmp_path, optimizer=optax.inject_hyperparams(optax.adam)(learning_rate=0.06)
        )


def test_a_loss_that_needs_more_than_one_row_has_checkpoints(tmp_path):
    def spread(model, batch, key, t):
        assert len(batch) > 1
        return jnp.var(jax.vmap(model)(batch), ddof=1)

    assert same(fit(tmp_path, loss=spread), fit(loss=spread))


def test_an_optimiser_with_a_random_key_in_its_state_resumes(tmp_path, each_epoch):
    optimizer = optax.chain(
        optax.add_noise(0.1, 0.5, jax.random.key(3)), optax.sgd(0.05)
    )
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


def test_a_damaged_newest_checkpoint_is_reported_and_the_one_before_is_used(
    tmp_path, each_epoch
):
    """200 damages at the level of files, and a few whole runs."""
    undisturbed = fit(tmp_path)
    run = checkpoints.RunDirectory(tmp_path, {}, writes=True)
    newest, before = run.list_checkpoints()[:2]
    content, expected = newest.read_bytes(), _files.read(before)
    random = np.random.default_rng(1)
    for i in range(200):
        newest.write_bytes(damaged(content, random))
        with pytest.warns(
            UserWarning, match=f"resumes from the previous checkpoint: .*{newest.name}"
        ):
            arrays, metadata = run.read_newest()
        assert metadata == expected[1]
        assert same(arrays, expected[0])
        if i < 4:
            with pytest.warns(
                UserWarning, match="resumes from the previous checkpoint"
            ):
                assert same(fit(tmp_path), undisturbed)
    for file in run.list_checkpoints():
        file.write_bytes(b"")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert same(fit(tmp_path), undisturbed)
    assert len(caught) == checkpoints.MAX_CHECKPOINTS
    assert all("starts again" in str(warning.message) for warning in caught)


def test_damaged_checkpoints_are_set_aside_so_that_the_new_ones_stay(
    tmp_path, each_epoch
):
    undisturbed = fit(tmp_path)
    for file in tmp_path.glob("checkpoint-*"):
        file.write_bytes(b"")
    with pytest.warns(UserWarning, match="starts again"), pytest.raises(StopError):
        fit(tmp_path, on_epoch=stop_after(2))
    assert (
        len(list(tmp_path.glob("checkpoint-*.damaged"))) == checkpoints.MAX_CHECKPOINTS
    )
    epochs = []
    assert same(
        fit(tmp_path, on_epoch=(lambda info: epochs.append(info.epoch),)), undisturbed
    )
    assert epochs == [3, 4, 5, 6]


def test_other_files_in_the_directory_are_left_alone(tmp_path, each_epoch):
    others = [
        tmp_path / name
        for name in (
            "checkpoint-best.safetensors",
            "checkpoint-00000009-copy.safetensors",
        )
    ]
    for other in others:
        other.write_bytes(b"")
    assert same(fit(tmp_path), fit())
    assert all(other.exists() for other in others)


def test_a_locked_directory_is_refused_and_leaves_nothing_behind(tmp_path):
    folder = tmp_path / "model.checkpoint"
    with checkpoints.lock_directory(folder):
        with (
            pytest.raises(ValueError, match="is in use by another run"),
            checkpoints.lock_directory(folder),
        ):
            pass
        assert folder.is_dir()
    assert not folder.exists()
    with checkpoints.lock_directory(folder):
        (folder / "checkpoint").touch()
    assert [path.name for path in folder.iterdir()] == ["checkpoint"]


def test_a_directory_that_is_removed_while_it_is_created_is_created_again(
    tmp_path, monkeypatch
):
    folder = tmp_path / "model.checkpoint"
    mkdir = type(folder).mkdir
    failures = [FileExistsError(17, "File exists")]

    def mkdir_once_too_late(path, *arguments, **options):
        if failures:
            raise failures.pop()
        mkdir(path, *arguments, **options)

    monkeypatch.setattr(type(folder), "mkdir", mkdir_once_too_late)
    with checkpoints.lock_directory(folder):
        assert folder.is_dir()


@pytest.mark.parametrize("obstacle", ["file", "dangling link"])
def test_a_file_in_place_of_the_directory_raises_an_error(obstacle, tmp_path):
    folder = tmp_path / "model.checkpoint"
    if obstacle == "file":
        folder.write_text("")
    else:
        folder.symlink_to(tmp_path / "missing")
    with (
        pytest.raises(OSError, match="cannot write checkpoints"),
        checkpoints.lock_directory(folder),
    ):
        pass


def test_of_many_processes_one_at_a_time_holds_a_directory_that_comes_and_goes(
    tmp_path,
):
    """The file of the lock is removed each time: a lock of a removed file would not count."""
    folder = tmp_path / "model.checkpoint"
    held = threading.Lock()
    wrong = []

    def enter(_):
        for _ in range(50):
            with contextlib.suppress(ValueError), checkpoints.lock_directory(folder):
                if not held.acquire(blocking=False):
                    wrong.append("two at once")
                    continue
                time.sleep(0.0005)
                held.release()

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(enter, range(4)))
    assert not wrong
    assert not folder.exists()
