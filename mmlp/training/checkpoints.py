"""The directory of a run: its newest checkpoints and `history.jsonl`.

A checkpoint is one complete file with the state of training and the metrics of all
epochs so far. It also has the fingerprint of its run, which covers everything that
decides the result: only the same run may resume from it.
"""

import contextlib
import json
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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
from mmlp.training.devices import is_key, max_over_processes, to_host
from mmlp.training.epoch import Metrics, State
from mmlp.training.results import warn_caller

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None

MAX_CHECKPOINTS = 3
MAX_SHARE_OF_TIME = 0.05  # of a run that is spent on writing checkpoints, roughly
LOCK_FILE = ".lock"
HISTORY_FILE = "history.jsonl"
METRIC_DTYPE_KINDS = Metrics(
    loss="f", validation="f", skipped="i", step_scale="f", stopped="b"
)
METADATA_TYPES = {"kind": str, "fingerprint": dict, "epoch": int, "finished": bool}
CALL = "fit(checkpoint=...)"


@contextlib.contextmanager
def lock_directory(path: Path) -> Iterator[None]:
    """Lock a directory of several runs, if the system has locks.

    Each `RunDirectory` has a lock as well, but only while its own run is trained. The
    directory is created if it is missing, and removed at the end of the block if
    nothing is left in it.

    Parameters
    ----------
    path : Path
        The directory.

    Raises
    ------
    DirectoryInUseError
        If another process has locked it.
    OSError
        If it cannot be created or written to.
    """
    try:
        lock = _create_and_lock(path)
    except OSError as error:
        raise _cannot_write_error(path, error) from error
    try:
        yield
    finally:
        if lock is not None:
            # Removed while it is locked, so that no other process relies on it.
            with contextlib.suppress(OSError):
                (path / LOCK_FILE).unlink()
            os.close(lock)
        with contextlib.suppress(OSError):  # not empty: it holds checkpoints
            path.rmdir()


class RunDirectory(contextlib.AbstractContextManager):
    """The directory of one run, which no other run may use at the same time.

    Parameters
    ----------
    path : path
        It is created if it is missing.
    fingerprint : dict
        What decides the result of the run, by name; see `fingerprint_run`.
    resume : bool, default=True
        Whether to resume from the newest checkpoint. With False, all are discarded.
    writes : bool, default=None
        Whether this process writes; by default the first of several processes does.
    """

    def __init__(
        self,
        path: str | os.PathLike,
        fingerprint: dict[str, Any],
        *,
        resume: bool = True,
        writes: bool | None = None,
    ):
        self.path = Path(path)
        self.fingerprint = fingerprint
        self.resume = resume
        self.writes = jax.process_index() == 0 if writes is None else writes
        self.damaged: list[Path] = []
        self.seconds_to_write = 0.0
        self.written_at = -np.inf
        self.lock: int | None = None

    def __enter__(self) -> "RunDirectory":
        if self.writes:
            try:
                self.path.mkdir(parents=True, exist_ok=True)
                self.lock = _open_lock(self.path)
                self._remove_temporary_files()
            except OSError as error:
                self._unlock()
                raise _cannot_write_error(self.path, error) from error
        return self

    def __exit__(self, *_: object) -> None:
        self._unlock()

    def _unlock(self) -> None:
        if self.lock is not None:
            os.close(self.lock)
            self.lock = None

    def _remove_temporary_files(self) -> None:
        """Remove what killed runs left; the lock keeps other writers out."""
        for pattern in (".checkpoint-*.tmp", f".{HISTORY_FILE}*.tmp"):
            for file in self.path.glob(pattern):
                file.unlink(missing_ok=True)

    def list_checkpoints(self) -> list[Path]:
        """Return the files of checkpoints, newest first."""
        pattern = f"checkpoint-{'[0-9]' * 8}.safetensors"
        return sorted(self.path.glob(pattern), reverse=True)

    def restore(self, call: str, state: State) -> tuple[State, list[Metrics], bool]:
        """Return the run as the newest checkpoint has it, or as it starts.

        Parameters
        ----------
        call : str
            "fit" or "fit_many", for messages.
        state : State
            The initial state.

        Returns
        -------
        state : State
        epoch_metrics : list of Metrics
            One for each epoch that is done.
        finished : bool

        Raises
        ------
        UnusableCheckpointError
            If the run cannot resume from what is there.
        """
        state_arrays = _arrays_by_path("state", state)
        files.check_dtypes(state_arrays, f"{call}(checkpoint=...)")
        if not self.resume and self.writes:
            self._discard_all()

        epoch = 0
        checkpoint = self.read_newest()
        if checkpoint is not None:
            _, metadata = checkpoint
            epoch = metadata["epoch"]
        if max_over_processes(epoch) != epoch:
            raise ValueError(
                f"`{call}(checkpoint=...)`: {self.path} must be a directory that all "
                "processes see."
            )
        if checkpoint is None:
            return state, [], False

        arrays, metadata = checkpoint
        metric_shape = (epoch, *state.step_scale.shape)
        self._check_arrays(call, arrays, state_arrays, metric_shape)
        leaves, structure = jax.tree.flatten(state)
        restored = [
            _restore_leaf(leaf, arrays[name])
            for leaf, name in zip(leaves, state_arrays, strict=True)
        ]
        columns = [arrays[f"metrics.{name}"] for name in Metrics._fields]
        epoch_metrics = [Metrics(*values) for values in zip(*columns, strict=True)]
        restored_state = jax.tree.unflatten(structure, restored)
        return restored_state, epoch_metrics, metadata["finished"]

    def read_newest(self) -> tuple[dict[str, np.ndarray], dict] | None:
        """Return arrays and metadata of the newest checkpoint that is not damaged.

        Damaged ones are renamed when the next one is written.
        """
        self.damaged = []
        errors = []
        checkpoint = None
        candidates = self.list_checkpoints() if self.resume else []
        for file in candidates:
            try:
                checkpoint = files.read(file)
            except ValueError as error:
                self.damaged.append(file)
                errors.append(error)
                continue
            _check_content(file, *checkpoint)
            break

        consequence = "starts again"
        if checkpoint is not None:
            consequence = "resumes from the previous checkpoint"
        for error in errors:
            text = f"training {consequence}: {error}".removesuffix(".")
            warn_caller(CallWarning(text, call=CALL))
        if checkpoint is not None:
            _, metadata = checkpoint
            self._check_same_run(metadata["fingerprint"])
        return checkpoint

    def _check_same_run(self, fingerprint: dict[str, Any]) -> None:
        """Raise unless the run with this fingerprint is the present one."""
        different = [
            name
            for name, value in self.fingerprint.items()
            if fingerprint.get(name) != value
        ]
        if different:
            raise AnotherRunError(
                self.path,
                f"holds another run (it differs in {', '.join(different)})",
                call=CALL,
                python_remedy="give this run a directory of its own, or `resume=False` "
                "to discard the other one",
            )

    def _check_arrays(
        self,
        call: str,
        arrays: dict[str, np.ndarray],
        state_arrays: dict[str, np.ndarray],
        metric_shape: tuple[int, ...],
    ) -> None:
        """Raise unless a checkpoint has all arrays, with shapes and dtypes of this run.

        Metrics need only the kind of their dtype, such as "f".
        """
        expected = {
            f"metrics.{name}": (metric_shape, kind)
            for name, kind in METRIC_DTYPE_KINDS._asdict().items()
        }
        for name, array in state_arrays.items():
            expected[name] = (array.shape, array.dtype.str)
        for name, (shape, dtype_or_kind) in expected.items():
            array = arrays.get(name)
            is_usable = (
                array is not None
                and array.shape == shape
                and dtype_or_kind in (array.dtype.kind, array.dtype.str)
            )
            if not is_usable:
                raise UnusableCheckpointError(
                    self.path,
                    f"holds a checkpoint without {name} of this run's shape; another "
                    "version of matrix-mlp or Optax may have written it",
                    call=f"{call}(checkpoint=...)",
                    python_remedy="give this run a directory of its own",
                )

    def _discard_all(self) -> None:
        """Remove all checkpoints, damaged ones too, and the history."""
        damaged = self.path.glob("checkpoint-*.damaged")
        for file in (*self.list_checkpoints(), *damaged, self.path / HISTORY_FILE):
            file.unlink(missing_ok=True)

    def is_write_due(self) -> bool:
        """Whether another checkpoint stays within its share of the time."""
        seconds_between = self.seconds_to_write / MAX_SHARE_OF_TIME
        return time.monotonic() - self.written_at > seconds_between

    def write(
        self,
        state: State,
        metrics: Metrics,
        history: dict[str, np.ndarray],
        *,
        finished: bool,
    ) -> None:
        """Write a checkpoint and the history, and remove the oldest checkpoints.

        Parameters
        ----------
        state : State
        metrics : Metrics
            Of all epochs, with a leading axis.
        history : dict of arrays
            The metrics under the names that users see; see `make_history`.
        finished : bool
        """
        # All processes take part: arrays may be spread over them.
        arrays = _arrays_by_path("state", state) | _arrays_by_path("metrics", metrics)
        if not self.writes:
            return

        start = time.monotonic()
        for file in self.damaged:
            file.replace(file.with_suffix(".damaged"))
        self.damaged = []

        epoch = len(metrics.loss)
        metadata = {
            "kind": "run",
            "version": files.VERSION,
            "fingerprint": self.fingerprint,
            "epoch": epoch,
            "finished": finished,
        }
        files.write(self.path / f"checkpoint-{epoch:08d}.safetensors", arrays, metadata)
        for file in self.list_checkpoints()[MAX_CHECKPOINTS:]:
            file.unlink(missing_ok=True)
        self._write_history({"epoch": 1 + np.arange(epoch), **history})

        self.written_at = time.monotonic()
        self.seconds_to_write = self.written_at - start

    def _write_history(self, history: dict[str, np.ndarray]) -> None:
        """Write one JSON object for each epoch, with null for what is not finite."""
        columns = []
        for values in history.values():
            finite = np.isfinite(values)
            columns.append(
                np.where(finite, values.astype(object), np.array(None)).tolist()
            )
        lines = [
            json.dumps(dict(zip(history, values, strict=True))) + "\n"
            for values in zip(*columns, strict=True)
        ]
        atomic_files.replace_file(self.path / HISTORY_FILE, "".join(lines).encode())


def _create_and_lock(folder: Path) -> int | None:
    """Lock a directory that other processes may remove; see `_open_lock`."""
    while True:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except FileExistsError:
            # `mkdir` raises this if there is a file instead of a directory, and also
            # if another process removes the directory while `mkdir` looks at it.
            if _is_directory_or_missing(folder):
                continue
            raise
        with contextlib.suppress(FileNotFoundError):  # removed since: create it again
            lock = _open_lock(folder)
            if lock is None or _is_file_at(folder / LOCK_FILE, lock):
                return lock
            os.close(lock)


def _is_directory_or_missing(path: Path) -> bool:
    """Whether a directory could be created at `path`, or is there already."""
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except FileNotFoundError:
        return True


def _is_file_at(path: Path, descriptor: int) -> bool:
    """Whether an open file is still the one at `path`."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def _open_lock(folder: Path) -> int | None:
    """Open and lock the lock file of a directory; None where the system has no locks.

    Raises
    ------
    DirectoryInUseError
        If another process has locked it.
    """
    if fcntl is None:
        return None
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
    descriptor = os.open(folder / LOCK_FILE, flags, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise DirectoryInUseError(
            folder,
            "is in use by another run",
            call=CALL,
            python_remedy="wait for it, or use another directory",
        ) from None
    except OSError:  # a file system without locks
        pass
    return descriptor


def _cannot_write_error(path: Path, error: OSError) -> OSError:
    """Return an error that says why checkpoints cannot be kept in a directory."""
    reason = (error.strerror or str(error)).lower()
    return OSError(
        error.errno,
        f"cannot write checkpoints to {path} ({reason}); allow it, or use another "
        "folder.",
    )


def _arrays_by_path(prefix: str, tree: Any) -> dict[str, np.ndarray]:
    """Return the arrays of a tree by their paths, random keys as numbers."""
    arrays = {}
    for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]:
        numbers = jax.random.key_data(leaf) if is_key(leaf) else leaf
        arrays[f"{prefix}{jax.tree_util.keystr(path)}"] = to_host(numbers)
    return arrays


def _restore_leaf(leaf: Any, array: np.ndarray) -> jax.Array:
    """Return a saved array on the device, as random keys if `leaf` holds keys."""
    restored = jnp.array(array)
    if is_key(leaf):
        return jax.random.wrap_key_data(restored, impl=jax.random.key_impl(leaf))
    return restored


def _check_content(file: Path, arrays: dict[str, np.ndarray], metadata: dict) -> None:
    """Raise unless a file is the checkpoint of a run, in this version of the format."""
    try:
        files.check_version(file, metadata)
    except FileError as error:
        raise UnusableCheckpointError(
            file, error.problem, call=CALL, python_remedy=error.remedy
        ) from None
    if "metrics" in arrays:
        raise UnusableCheckpointError(
            file,
            "was written by matrix-mlp 0.1",
            call=CALL,
            python_remedy="finish the run with that version, or start it again in "
            "another directory",
        )
    is_valid = all(
        type(metadata.get(name)) is type_ for name, type_ in METADATA_TYPES.items()
    )
    if not is_valid or metadata["kind"] != "run":
        raise UnusableCheckpointError(
            file,
            "is no checkpoint of a run: its header makes no sense",
            call=CALL,
            python_remedy="remove it, or use another directory",
        )
