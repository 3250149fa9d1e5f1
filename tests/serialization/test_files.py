"""Files that are foreign, damaged or too large are refused; a disk that fails loses nothing."""

import contextlib
import errno
import os
import pickle
import shutil
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
import safetensors.numpy
from checkpoints import MODELS, StopError, damaged, fit, model, same, stop_after

import mmlp
from mmlp.serialization import files as _files
from mmlp.training import checkpoints


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
            b'\x58\0\0\0\0\0\0\0{"__metadata__":{"mmlp":"{}"},'
            b'"a":{"dtype":"F32","shape":[2684354560],"data_offsets":[0,10737418240]}}',
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
    """Sparse files of 64 GB: another library's, and ours with more bytes than its header claims."""
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
    path.write_bytes(
        safetensors.numpy.save({}, {"mmlp": text, "sha256": _files._digest({}, text)})
    )
    with pytest.raises(
        ValueError, match=r"deep.safetensors is damaged: the entry 'mmlp'"
    ):
        mmlp.load(path)


def test_a_damaged_model_file_is_refused_never_misread(tmp_path):
    path, random = tmp_path / "model.safetensors", np.random.default_rng(0)
    mmlp.save(MODELS["general"](), path)
    content = path.read_bytes()
    for _ in range(200):
        path.write_bytes(damaged(content, random))
        with pytest.raises(ValueError, match=r"model.safetensors"):
            mmlp.load(path)


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
    files = checkpoints.RunDirectory(tmp_path, {}, writes=False).list_checkpoints()
    assert 0 < len(files) <= checkpoints.MAX_CHECKPOINTS
    assert all(_files.read(file) for file in files)
    assert same(fit(tmp_path, epochs=40), fit(epochs=40))


def test_a_refused_open_is_a_clear_error(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match=r"cannot write checkpoints to .*file"):
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
    with pytest.raises(
        OSError, match=r"could not write .*No space left on device"
    ) as info:
        fit(small_disk)
    assert info.value.errno == errno.ENOSPC
    assert not list(small_disk.glob(".*.tmp"))
    assert {name: (small_disk / name).read_bytes() for name in before} == before
    filler.unlink()
    assert same(fit(small_disk), fit())
