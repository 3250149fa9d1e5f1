"""The directory of a run: checkpoints, each a whole file, the newest few kept; `history.jsonl`.

A run is known by its fingerprint: what it was asked to do. Only the run that wrote a directory may
go on from it, or one that is the same but longer.
"""

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from mmlp import atomic_files
from mmlp.errors import (
    AnotherRunError,
    CallWarning,
    DirectoryInUseError,
    FileError,
    UnusableCheckpointError,
)
from mmlp.serialization import files
from mmlp.training.devices import is_key, largest_of_processes, to_host
from mmlp.training.results import warn
from mmlp.training.state import Metrics, State

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None

KEEP = 3
LOCK_FILE = ".lock"
KINDS = Metrics(
    loss="f", validation="f", skipped="i", scale="f", stopped="b"
)  # of dtypes
MORE = {"epochs", "patience"}  # of which a longer run has more
SHARE = 20  # writing takes at most about one part in this many of the time


@contextlib.contextmanager
def lock_directory(path: Path) -> Iterator[None]:
    """Keep other processes out of a directory of several runs, where the system can.

    Each `RunDirectory` has a lock as well, but only while its own run is trained. The directory is
    created if it is missing, and removed at the end of the block if nothing is left in it.

    Parameters
    ----------
    path : Path
        The directory.

    Raises
    ------
    ValueError
        If another process has locked it.
    OSError
        If it cannot be created or written to.
    """
    try:
        lock = _create_and_lock(path)
    except OSError as error:
        raise _unusable_directory(path, error) from error
    try:
        yield
    finally:
        if lock is not None:
            # The file is removed while it is locked, so that no other process relies on it.
            with contextlib.suppress(OSError):
                (path / LOCK_FILE).unlink()
            os.close(lock)
        with contextlib.suppress(OSError):  # it holds checkpoints
            path.rmdir()


class RunDirectory(contextlib.AbstractContextManager):
    """The checkpoints of one run, under `path`, which no other run may use meanwhile."""

    def __init__(
        self,
        path,
        fingerprint: dict,
        by_progress: Callable[[], list[str]] = list,
        *,
        resume: bool = True,
        writes: bool | None = None,
    ):
        self.path, self.fingerprint, self.resume = Path(path), fingerprint, resume
        self.by_progress = by_progress  # what of the run goes by how far it is
        self.writes = jax.process_index() == 0 if writes is None else writes
        self.duration, self.written_at, self.damaged = 0.0, -np.inf, []
        self.lock = contextlib.ExitStack()

    def __enter__(self):
        if self.writes:
            try:
                self.path.mkdir(parents=True, exist_ok=True)
                self._lock()
                # Left by killed runs: nobody else writes here while the lock is held.
                for name in (".checkpoint-*.tmp", ".history.jsonl*.tmp"):
                    for stray in self.path.glob(name):
                        stray.unlink(missing_ok=True)
            except OSError as error:
                self.lock.close()
                raise _unusable_directory(self.path, error) from error
        return self

    def __exit__(self, *_):
        self.lock.close()

    def _lock(self) -> None:
        """Keep other runs out, where the system can."""
        lock = _open_lock(self.path)
        if lock is not None:
            self.lock.callback(os.close, lock)

    def files(self) -> list[Path]:
        """Checkpoints, newest first."""
        return sorted(
            self.path.glob(f"checkpoint-{'[0-9]' * 8}.safetensors"), reverse=True
        )

    def newest(self) -> tuple[dict[str, np.ndarray], dict] | None:
        """The newest checkpoint that is not damaged; the next `write` sets damaged ones aside."""
        self.damaged, errors, found = [], [], None
        for file in self.files() if self.resume else ():
            try:
                found = files.read(file)
            except ValueError as error:
                self.damaged.append(file)
                errors.append(error)
                continue
            _check_content(file, *found)
            break
        for error in errors:
            how = "goes on from the checkpoint before" if found else "begins anew"
            text = f"training {how}: {error}".removesuffix(".")
            warn(CallWarning(text, call="fit(checkpoint=...)"))
        if found:
            self._check_same(found[1]["fingerprint"])
        return found

    def _check_same(self, theirs: dict) -> None:
        """Refuse to go on from the run with this fingerprint, unless as a longer one."""
        ours = self.fingerprint
        call = "fit(checkpoint=...)"
        other = {name for name, value in ours.items() if theirs.get(name) != value}
        more = {name for name in MORE & other if _less(theirs.get(name), ours[name])}
        if other == more and (
            "epochs" not in more or not (parts := self.by_progress())
        ):
            return
        if other - {"optimizer"} != more or "epochs" not in more:
            names = ", ".join(name for name in ours if name in other)
            raise AnotherRunError(
                self.path,
                f"holds another run (it differs in {names})",
                call=call,
                python_remedy="give this run a directory of its own, or `resume=False` to "
                "discard the other one",
            )
        why = "the optimizer is made for all its steps, as the default one is"
        if other == more:
            why = f"its {' and '.join(parts)} went by t, how far training was"
        raise AnotherRunError(
            self.path,
            f"holds a run of {theirs['epochs']} epochs, which cannot go on to "
            f"{ours['epochs']}: {why}, so that it is no first part of the longer run",
            call=call,
            python_remedy="give that a directory of its own, and begin it with the model of "
            "this run, `fit(result.model, ...)`, or anew",
        )

    def resumed(self, name: str, state: State) -> tuple[State, list[Metrics], bool]:
        """State, metrics of epochs, and whether the run is finished: as left, or as it begins."""
        wanted = _named("state", state)
        files.check_dtypes(wanted, f"{name}(checkpoint=...)")
        if not self.resume and self.writes:
            damaged = self.path.glob("checkpoint-*.damaged")
            for file in (*self.files(), *damaged, self.path / "history.jsonl"):
                file.unlink(missing_ok=True)
        arrays, metadata = self.newest() or ({}, {"epoch": 0, "finished": False})
        epoch = metadata["epoch"]
        if largest_of_processes(epoch) != epoch:
            raise ValueError(
                f"`{name}(checkpoint=...)`: {self.path} must be a directory that all processes see."
            )
        if not arrays:
            return state, [], False
        columns = {f"metrics.{field}": kind for field, kind in KINDS._asdict().items()}
        forms = {
            column: ((epoch, *state.scale.shape), kind)
            for column, kind in columns.items()
        }
        forms |= {
            column: (array.shape, array.dtype.str) for column, array in wanted.items()
        }
        for column, (shape, dtype) in forms.items():
            found = arrays.get(column, np.empty(()))
            if found.shape != shape or dtype not in (found.dtype.kind, found.dtype.str):
                raise UnusableCheckpointError(
                    self.path,
                    f"holds a checkpoint without {column} of this run's shape; another "
                    "version of Optax may have written it",
                    call=f"{name}(checkpoint=...)",
                    python_remedy="give this run a directory of its own",
                )
        leaves, structure = jax.tree.flatten(state)
        leaves = [
            _like(leaf, arrays[column])
            for leaf, column in zip(leaves, wanted, strict=True)
        ]
        rows = zip(*(arrays[column] for column in columns), strict=True)
        state = jax.tree.unflatten(structure, leaves)
        return state, [Metrics(*row) for row in rows], metadata["finished"]

    def due(self) -> bool:
        return time.monotonic() - self.written_at > SHARE * self.duration

    def write(
        self,
        state: State,
        metrics: Metrics,
        history: dict[str, np.ndarray],
        *,
        finished: bool,
    ) -> None:
        """One more checkpoint, after the epochs that the metrics are of; the oldest ones go."""
        arrays = _named("state", state) | _named("metrics", metrics)  # by all processes
        if not self.writes:
            return
        start, epoch = time.monotonic(), len(metrics.loss)
        for file in self.damaged:
            file.replace(file.with_suffix(".damaged"))
        self.damaged = []
        metadata = {
            "kind": "run",
            "version": files.VERSION,
            "fingerprint": self.fingerprint,
        }
        metadata |= {"epoch": epoch, "finished": finished}
        files.write(self.path / f"checkpoint-{epoch:08d}.safetensors", arrays, metadata)
        for old in self.files()[KEEP:]:
            old.unlink(missing_ok=True)
        columns = {  # null for numbers that JSON has not
            name: np.where(
                np.isfinite(values), values.astype(object), np.array(None)
            ).tolist()
            for name, values in ({"epoch": 1 + np.arange(epoch)} | history).items()
        }
        rows = (
            dict(zip(columns, row, strict=True))
            for row in zip(*columns.values(), strict=True)
        )
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        atomic_files.replace_file(self.path / "history.jsonl", lines.encode())
        self.written_at = time.monotonic()
        self.duration = self.written_at - start


def _create_and_lock(folder: Path) -> int | None:
    """Lock a directory that another process may remove at any time; see `_open_lock`."""
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):  # removed since: create it again
            lock = _open_lock(folder)
            if lock is None or _is_file_at(folder / LOCK_FILE, lock):
                return lock
            os.close(lock)


def _is_file_at(path: Path, descriptor: int) -> bool:
    """Whether an open file is still the one at `path`."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def _open_lock(folder: Path) -> int | None:
    """Open and lock the file that stands for a directory; None where the system has no locks.

    Raises
    ------
    ValueError
        If another process has locked it.
    """
    if fcntl is None:
        return None
    descriptor = os.open(
        folder / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666
    )
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise DirectoryInUseError(
            folder,
            "is in use by another run",
            call="fit(checkpoint=...)",
            python_remedy="wait for it, or use another directory",
        ) from None
    except OSError:  # a file system without locks
        pass
    return descriptor


def _unusable_directory(path: Path, error: OSError) -> OSError:
    """Return the error that says why checkpoints cannot be kept in a directory."""
    reason = (error.strerror or str(error)).lower()
    text = f"cannot write checkpoints to {path} ({reason}); allow it, or use another folder."
    return OSError(error.errno, text)


def _less(theirs, ours: int) -> bool:
    return type(theirs) is int and theirs < ours


def _named(name: str, tree) -> dict[str, np.ndarray]:
    """What a checkpoint holds of a tree: each array by its path, random keys as numbers."""
    return {
        f"{name}{jax.tree_util.keystr(path)}": to_host(
            jax.random.key_data(x) if is_key(x) else x
        )
        for path, x in jax.tree_util.tree_flatten_with_path(tree)[0]
    }


def _like(leaf, array: np.ndarray) -> jax.Array:
    """What was saved of a leaf like this one."""
    saved = jnp.array(array)
    key_type = jax.random.key_impl(leaf) if is_key(leaf) else None
    return saved if key_type is None else jax.random.wrap_key_data(saved, impl=key_type)


def _check_content(file: Path, arrays: dict, metadata: dict) -> None:
    """Refuse a whole file that is no checkpoint of a run, or that of another version."""
    call = "fit(checkpoint=...)"
    try:
        files.check_version(file, metadata)
    except FileError as error:
        raise UnusableCheckpointError(
            file, error.problem, call=call, python_remedy=error.remedy
        ) from None
    if "metrics" in arrays:
        raise UnusableCheckpointError(
            file,
            "was written by matrix-mlp 0.1",
            call=call,
            python_remedy="finish the run with that version, or begin it anew in another "
            "directory",
        )
    kinds = {"kind": str, "fingerprint": dict, "epoch": int, "finished": bool}
    known = all(type(metadata.get(name)) is kind for name, kind in kinds.items())
    if not known or metadata["kind"] != "run":
        raise UnusableCheckpointError(
            file,
            "is no checkpoint of a run: its header makes no sense",
            call=call,
            python_remedy="remove it, or use another directory",
        )
