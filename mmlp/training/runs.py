"""The directory of a training run: checkpoints, each a whole file, the newest few kept, and `history.jsonl` beside them.

A run is known by its fingerprint: what it was asked to do. Only the run that wrote a directory may go on from it.
"""

import contextlib
import json
import os
import time
import warnings
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from mmlp.checkpoint import files
from mmlp.training import epoch as _epoch
from mmlp.training.digest import digest, digest_function

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None

KEEP = 3
SHARE = 20  # writing takes at most about one part in this many of the time


class AnotherRunError(ValueError):
    """The directory holds the checkpoints of another run."""


class RunDirectory(contextlib.AbstractContextManager):
    """The checkpoints of one run, under `path`, which no other run may use meanwhile."""

    def __init__(self, path, fingerprint: dict, *, writes: bool):
        self.path, self.fingerprint, self.writes = Path(path), fingerprint, writes
        self.duration, self.written_at, self.damaged = 0.0, -np.inf, []
        self.lock = contextlib.ExitStack()

    def __enter__(self):
        if self.writes:
            try:
                self.path.mkdir(parents=True, exist_ok=True)
                self._lock()
                for stray in (
                    *self.path.glob(".checkpoint-*.tmp"),
                    *self.path.glob(".history.jsonl.tmp"),
                ):
                    stray.unlink(missing_ok=True)
            except OSError as error:
                self.lock.close()
                raise OSError(
                    error.errno,
                    f"`fit(checkpoint=...)` cannot use the directory {self.path}: {error}",
                ) from error
        return self

    def __exit__(self, *_):
        self.lock.close()

    def _lock(self) -> None:
        """Keep other runs out, where the system can."""
        if fcntl is None:
            return
        file = os.open(self.path / ".lock", os.O_RDWR | os.O_CREAT, 0o666)
        self.lock.callback(os.close, file)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.lock.close()
            raise ValueError(
                f"`fit(checkpoint=...)`: {self.path} is in use by another run. Wait for it, or use another directory."
            ) from None
        except OSError:  # a file system without locks
            pass

    def files(self) -> list[Path]:
        """Checkpoints, newest first."""
        return sorted(self.path.glob(f"checkpoint-{'[0-9]' * 8}.safetensors"), reverse=True)

    def clear(self) -> None:
        for file in (
            (*self.files(), *self.path.glob("checkpoint-*.damaged"), self.path / "history.jsonl")
            if self.writes
            else ()
        ):
            file.unlink(missing_ok=True)

    def newest(self) -> tuple[dict[str, np.ndarray], dict] | None:
        """The newest checkpoint that is not damaged; each damaged one is reported, and set aside by the next `write`."""
        self.damaged, errors, found = [], [], None
        for file in self.files():
            try:
                found = files.read(file)
            except ValueError as error:
                self.damaged.append(file)
                errors.append(error)
                continue
            files.check_version(file, found[1])
            _check_header(file, found[1])
            break
        for error in errors:
            how = "goes on from the checkpoint before" if found else "begins anew"
            warnings.warn(f"`fit(checkpoint=...)` {how}: {error}", stacklevel=6)
        if found:
            theirs = found[1]["fingerprint"]
            other = [name for name, value in self.fingerprint.items() if theirs.get(name) != value]
            if other:
                raise AnotherRunError(
                    f"`fit(checkpoint=...)`: {self.path} holds another run (it differs in {', '.join(other)}). Give this "
                    "run a directory of its own, or `resume=False` to discard the other one."
                )
        return found

    def due(self) -> bool:
        return time.monotonic() - self.written_at > SHARE * self.duration

    def write(
        self,
        epoch: int,
        arrays: dict[str, np.ndarray],
        history: dict[str, np.ndarray],
        *,
        finished: bool,
    ) -> None:
        """One more checkpoint, after `epoch` epochs; the oldest ones go."""
        if not self.writes:
            return
        start = time.monotonic()
        for file in self.damaged:
            file.replace(file.with_suffix(".damaged"))
        self.damaged = []
        metadata = {
            "kind": "run",
            "version": files.VERSION,
            "fingerprint": self.fingerprint,
            "epoch": epoch,
            "finished": finished,
        }
        files.write(self.path / f"checkpoint-{epoch:08d}.safetensors", arrays, metadata)
        for old in self.files()[KEEP:]:
            old.unlink(missing_ok=True)
        self._write_history(history)
        self.written_at = time.monotonic()
        self.duration = self.written_at - start

    def _write_history(self, history: dict[str, np.ndarray]) -> None:
        lines = [
            json.dumps(
                {"epoch": i + 1, **{name: _jsonable(values[i]) for name, values in history.items()}}
            )
            + "\n"
            for i in range(len(history["loss"]))
        ]
        files.replace(self.path / "history.jsonl", "".join(lines).encode())


def fingerprint(
    program: _epoch.Program, model, data, validation, key: np.ndarray, **numbers
) -> dict:
    """What makes a run this run, by name. The weights that it begins with count as part of the model."""
    one_model, one_key = (model, key)
    if program.many:
        one_model, one_key = jax.tree.map(lambda x: x[0] if eqx.is_array(x) else x, model), key[0]
    params, frozen, _ = _epoch.split(one_model)
    state = program.optimizer.init(params)
    batch = jax.tree.map(lambda x: (x[0] if program.own_data else x)[: program.batch_size], data)
    random = jax.random.wrap_key_data(jnp.asarray(one_key), impl=program.key_type)
    gradient = jax.value_and_grad(
        lambda params, *rest: _epoch.loss_of(program, params, frozen, *rest)
    )
    return {
        "data": digest(data),
        "validation": digest(validation),
        "key": digest(key),
        "optimizer": digest(state)
        + digest_function(program.optimizer.update, params, state, params),
        "loss": digest_function(gradient, params, batch, random, 1.0),
        "model": digest(model),
        **numbers,
    }


def _check_header(file: Path, metadata: dict) -> None:
    """Refuse a whole file that is no checkpoint of a run."""
    kinds = {"kind": str, "fingerprint": dict, "epoch": int, "finished": bool}
    entries = {name: metadata.get(name) for name in kinds}
    if (
        not all(type(entries[name]) is kind for name, kind in kinds.items())
        or entries["kind"] != "run"
    ):
        raise ValueError(
            f"`fit(checkpoint=...)`: {file} is no checkpoint of a run: its header makes no sense. Remove it, or use another "
            "directory."
        )


def _jsonable(value):
    """Numbers that JSON has; null for those it has not."""
    value = np.asarray(value).tolist()
    if isinstance(value, list):
        return [_jsonable(v) for v in value]
    return value if np.isfinite(value) else None
