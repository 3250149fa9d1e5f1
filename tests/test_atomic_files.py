"""A file is written whole or not at all, and only there where the user said."""

import contextlib
import errno
import os
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from checkpoints import MODELS
from processes import environment

import mmlp
from mmlp import atomic_files, tables
from mmlp.training import checkpoints

posix_only = pytest.mark.skipif(os.name != "posix", reason="modes and links of POSIX")

# Writes one table again and again, piece by piece, each with its number alone.
SLOW_WRITER = """
import sys, time
from pathlib import Path
import numpy as np
from mmlp import tables

path, number, repeats = Path(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])

def pieces():
    for _ in range(20):
        time.sleep(0.0005)
        yield {"X": np.full((50, 3), number)}

print("ready", flush=True)
sys.stdin.readline()
for _ in range(repeats):
    tables.write(path, pieces(), ["a", "b", "c"])
"""


def write_numbers(path):
    """Write a small table by the function that all commands use."""
    tables.write(path, {"X": np.eye(2)}, ["a", "b"])


def read_mode(path) -> int:
    return stat.S_IMODE(os.stat(path).st_mode)


@contextlib.contextmanager
def umask(mask: int):
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def test_of_two_processes_that_write_one_file_the_last_wins_whole(tmp_path):
    path, repeats = tmp_path / "results.csv", 15
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", SLOW_WRITER, path, str(number), str(repeats)],
            env=environment(__file__),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in (1, 2)
    ]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    whole = {
        "a,b,c\n" + f"{number},{number},{number}\n" * 1000 for number in ("1.0", "2.0")
    }
    seen = set()
    while any(process.poll() is None for process in processes):
        if path.exists():
            content = path.read_text()
            assert content in whole, "a file that is part of one and part of the other"
            seen.add(content)
    for process in processes:
        assert (process.wait(), process.communicate()[1]) == (0, "")
    assert path.read_text() in whole
    assert seen == whole
    assert os.listdir(tmp_path) == ["results.csv"]


@posix_only
def test_the_mode_of_a_replaced_file_is_kept_and_a_new_one_follows_the_umask(tmp_path):
    private, shared, new = (
        tmp_path / name for name in ("private.csv", "shared.csv", "new.csv")
    )
    for path, mode in ((private, 0o600), (shared, 0o664)):
        path.write_text("")
        path.chmod(mode)
    with umask(0o022):
        for path in (private, shared, new):
            write_numbers(path)
        assert os.umask(0o022) == 0o022, "the umask of the process is as it was"
    assert read_mode(private) == 0o600
    assert read_mode(shared) == 0o664
    assert read_mode(new) == 0o644
    with umask(0o077):
        mmlp.save(MODELS["gram"](), tmp_path / "new.safetensors")
    assert read_mode(tmp_path / "new.safetensors") == 0o600


@posix_only
def test_while_it_is_written_only_the_user_can_read_it(tmp_path):
    with umask(0o000), atomic_files.open_replacement(tmp_path / "results.csv"):
        (temporary,) = tmp_path.iterdir()
        assert temporary.name.startswith(".results.csv.")
        assert read_mode(temporary) == 0o600
    assert read_mode(tmp_path / "results.csv") == 0o666


@posix_only
def test_a_link_that_the_user_made_is_written_through(tmp_path):
    folder = tmp_path / "disk"
    folder.mkdir()
    real, link, indirect = (
        folder / "real.csv",
        tmp_path / "link.csv",
        tmp_path / "indirect.csv",
    )
    real.write_text("before")
    real.chmod(0o640)
    link.symlink_to(os.path.join("disk", "real.csv"))
    indirect.symlink_to(link)
    for path in (link, indirect):
        write_numbers(path)
        assert path.is_symlink()
        assert real.read_text() == "a,b\n1.0,0.0\n0.0,1.0\n"
        assert read_mode(real) == 0o640
        real.write_text("before")
    assert sorted(os.listdir(folder)) == ["real.csv"]
    assert sorted(os.listdir(tmp_path)) == ["disk", "indirect.csv", "link.csv"]


@posix_only
def test_a_link_to_a_file_that_is_not_there_yet_makes_it(tmp_path):
    (tmp_path / "disk").mkdir()
    link = tmp_path / "link.csv"
    link.symlink_to(tmp_path / "disk" / "new.csv")
    write_numbers(link)
    assert link.is_symlink()
    assert (tmp_path / "disk" / "new.csv").read_text() == link.read_text()


@posix_only
def test_a_link_that_leads_nowhere_is_a_clear_error(tmp_path):
    loop, lost = tmp_path / "loop.csv", tmp_path / "lost.csv"
    loop.symlink_to(loop)
    lost.symlink_to(tmp_path / "missing" / "results.csv")
    with pytest.raises(
        OSError, match=r"could not write .*loop.csv \(Too many levels of symbolic"
    ):
        write_numbers(loop)
    with pytest.raises(
        OSError, match=r"could not write .*lost.csv \(No such file or directory\)"
    ):
        write_numbers(lost)
    assert loop.is_symlink()
    assert lost.is_symlink()


@posix_only
def test_a_planted_link_is_not_followed(tmp_path):
    """The name that temporary files once had; now nobody can know it."""
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / ".results.csv.tmp").symlink_to(victim)
    write_numbers(tmp_path / "results.csv")
    assert victim.read_text() == "precious"


def test_a_link_of_another_user_where_everyone_may_write_is_planted():
    me, other, root = 1000, 1001, 0
    shared, private = (
        SimpleNamespace(st_mode=mode, st_uid=root) for mode in (0o41777, 0o40755)
    )
    mine, theirs, roots = (SimpleNamespace(st_uid=user) for user in (me, other, root))
    assert atomic_files._is_planted(theirs, shared, me)
    assert not atomic_files._is_planted(mine, shared, me)
    assert not atomic_files._is_planted(roots, shared, me), "the owner of the folder"
    assert not atomic_files._is_planted(theirs, private, me)


@posix_only
@pytest.mark.parametrize("name", ["pipe.csv", "pipe.npz", "pipe.npy"])
def test_a_pipe_is_written_to_and_stays_a_pipe(name, tmp_path):
    pipe, copy = tmp_path / name, tmp_path / f"copy.{name}"
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: copy.write_bytes(pipe.read_bytes()))
    reader.start()
    write_numbers(pipe)
    reader.join(timeout=60)
    assert stat.S_ISFIFO(os.stat(pipe).st_mode)
    assert np.array_equal(
        tables.read(copy).select_columns(tables.read(copy).names), np.eye(2)
    )


@pytest.mark.skipif(
    not os.path.exists("/dev/full"), reason="needs a device that is full"
)
def test_a_device_is_written_to_and_what_it_holds_is_not_called_intact():
    write_numbers(Path("/dev/null"))
    with pytest.raises(
        OSError, match=r"/dev/full \(No space left on device\); a part may"
    ) as info:
        write_numbers(Path("/dev/full"))
    assert info.value.errno == errno.ENOSPC


def test_what_was_there_is_called_intact_only_if_it_is(tmp_path, monkeypatch):
    path = tmp_path / "results.csv"
    path.write_text("before")

    def fail(*_):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", fail)
        with pytest.raises(OSError, match="what was there before is intact"):
            write_numbers(path)
    assert path.read_text() == "before"
    with monkeypatch.context() as patch:
        patch.setattr(atomic_files, "_sync_folder", fail)
        with pytest.raises(OSError, match="the new file is there, but may be lost"):
            write_numbers(path)
    assert path.read_text().startswith("a,b\n")
    assert os.listdir(tmp_path) == ["results.csv"]


def test_a_name_as_long_as_the_system_allows_can_be_written(tmp_path):
    for name in ("x" * 251 + ".csv", "é" * 125 + ".csv"):
        write_numbers(tmp_path / name)
        assert (tmp_path / name).exists()


@posix_only
def test_only_old_files_of_dead_writers_are_removed(tmp_path):
    """A writer of the same target that is alive keeps its file, however old it is."""
    path, other = tmp_path / "results.csv", tmp_path / "results.csv.csv"
    names = [
        ".results.csv.abcd_123",
        ".results.csv.csv.abcd_123",
        ".results.csv.efgh_456",
    ]
    dead, another_target, young = (tmp_path / f"{name}.mmlp.tmp" for name in names)
    long_ago = time.time() - 2 * atomic_files.STALE_AFTER_SECONDS
    for leftover in (dead, another_target, young):
        leftover.write_text("half")
    for leftover in (dead, another_target):
        os.utime(leftover, (long_ago, long_ago))
    with atomic_files.open_replacement(path) as file:
        assert not dead.exists()
        alive = next(x for x in tmp_path.glob(".results.csv.*.tmp") if x != young)
        os.utime(alive, (long_ago, long_ago))
        write_numbers(path)
        assert alive.exists()
        file.write(b"last")
    assert path.read_bytes() == b"last"
    assert another_target.exists()
    assert young.exists()
    write_numbers(other)
    assert not another_target.exists()


def test_a_run_removes_what_a_killed_run_has_left_in_its_folder(tmp_path):
    names = [
        ".checkpoint-00000003.safetensors.abcd_123.mmlp.tmp",
        ".history.jsonl.x_1.mmlp.tmp",
    ]
    names += [".checkpoint-00000002.safetensors.tmp", ".history.jsonl.tmp"]  # of 0.2.0
    for name in names:
        (tmp_path / name).write_text("half")
    (tmp_path / "notes.txt").write_text("the user's")
    with checkpoints.RunDirectory(tmp_path, {}, writes=True):
        assert sorted(os.listdir(tmp_path)) == [".lock", "notes.txt"]


def test_threads_that_write_one_file_do_not_disturb_each_other(tmp_path):
    path, failures = tmp_path / "model.bin", []
    contents = [bytes([letter]) * 10_000 for letter in b"abcd"]

    def write(content):
        try:
            for _ in range(20):
                atomic_files.replace_file(path, content)
        except OSError as error:
            failures.append(error)

    threads = [threading.Thread(target=write, args=(content,)) for content in contents]
    before = os.umask(0o022)
    os.umask(before)
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert path.read_bytes() in contents
    assert os.umask(before) == before
    assert os.listdir(tmp_path) == ["model.bin"]


@posix_only
def test_a_name_is_written_where_the_system_has_no_encoding_for_it(tmp_path):
    """Python reads its bytes as surrogates there, and they must become the same bytes again."""
    program = (
        "import sys; from pathlib import Path; from mmlp import atomic_files as a; "
    )
    program += "a.replace_file(Path(sys.argv[1]), b'content')"
    variables = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    subprocess.run(
        [sys.executable, "-c", program, tmp_path / "été.csv"],
        env=environment(__file__, **variables),
        check=True,
        timeout=60,
    )
    assert [path.name for path in tmp_path.iterdir()] == ["été.csv"]
