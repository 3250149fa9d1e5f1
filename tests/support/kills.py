"""Training runs that are ended at random moments and begun again, until they finish.

    python tests/support/kills.py --kills 200 --seed 0

Each run is a process of its own that is killed, asked to stop, or finds its disk full: no file may
grow any more. After some of these it is left to finish, and compared with an undisturbed run, bit
for bit. The processes are forks of this one, which has imported all but not started JAX.
"""

import argparse
import collections
import fcntl
import json
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import NamedTuple

import numpy as np

MODEL = "model.safetensors"
KINDS = ("SIGKILL", "SIGTERM", "full disk")
MODES = ("fit", "regressor", "fit", "cli", "fit", "vae", "fit")  # in turn
EACH = {"fit": 10, "regressor": 5, "cli": 5, "vae": 5}  # kills of one run, at most
PATIENCE = 300  # seconds until a process counts as hung
FULL = ("could not write", "File too large", "requested and")  # the last is NumPy's
GOOD = (*KINDS, "finished", "identical")


def work(mode: str, folder: Path) -> None:
    """Train, or go on with it, and write its model."""
    import jax
    import jax.numpy as jnp
    import optax

    import mmlp
    from mmlp import cli, estimators
    from mmlp.checkpoint import files
    from mmlp.training import runs

    jax.config.update("jax_enable_x64", True)
    runs.SHARE = 0  # a checkpoint after every epoch
    X = np.random.default_rng(0).normal(size=(30, 3))
    sizes = {"max_epochs": 25, "batch_size": 8, "patience": None, "random_state": 0}
    if mode == "fit":

        def loss(model, batch, key, t):
            outputs = jnp.tanh(batch @ model["W"]) @ model["V"]
            return jnp.mean((outputs - 1) ** 2) + 0.01 * jax.random.normal(key)

        key, optimizer = jax.random.key(0), optax.adam(0.01)
        options = {"batch_size": 8, "optimizer": optimizer, "validation": X[:10], "progress": False}
        model = {"W": X[:3], "V": X[3:6, :2]}
        result = mmlp.fit(model, loss, X, key=key, epochs=150, checkpoint=folder / "run", **options)
        leaves = jax.tree.leaves(result)
        arrays = {str(i): np.asarray(leaf) for i, leaf in enumerate(leaves)}
        files.write(folder / MODEL, arrays, {})
    elif mode == "regressor":
        sizes |= {"n_models": 2, "hidden_features": (4,), "family": "gaussian"}
        regressor = estimators.MultivariateRegressor(**sizes)
        regressor.fit(X[:, 1:], X[:, :2], checkpoint=folder / "run").save(folder / MODEL)
    elif mode == "vae":
        vae = estimators.MatrixVAE(1, model="NdNd", hidden_dims=(3,), **sizes)
        vae.fit(X, checkpoint=folder / "run").save(folder / MODEL)
    else:
        np.savez(folder / "data.npz", X=X, Y=np.eye(2) + X[:, :2, None] * X[:, None, :2])
        names = [str(folder / name) for name in ("data.npz", MODEL)]
        sys.exit(cli.main(["fit", "spd", names[0], "--out", names[1], "--epochs", "25", "--quiet"]))


class Child(NamedTuple):
    pid: int
    output: int  # the end of a pipe; what it says is less than a pipe holds


def start(mode: str, folder: Path) -> Child:
    """A process that does the work."""
    folder.mkdir(parents=True, exist_ok=True)
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 2**20)
    pid = os.fork()
    if pid:
        os.close(writing)
        return Child(pid, reading)
    os.dup2(writing, 1)
    os.dup2(writing, 2)
    status = 1
    try:
        work(mode, folder)
        status = 0
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def ended(child: Child, seconds: float) -> tuple[int, str] | None:
    """Its exit status, minus a signal's number, and what it said; None if it runs on."""
    deadline = time.monotonic() + seconds
    while True:
        done, status = os.waitpid(child.pid, os.WNOHANG)
        if done:
            with open(child.output, "rb") as file:
                return os.waitstatus_to_exitcode(status), file.read().decode(errors="replace")
        if time.monotonic() >= deadline:
            return None
        time.sleep(0.002)


def outcome(end: tuple[int, str] | None, kind: str | None = None) -> str:
    """Its `kind`, if the process ended as that makes it; "finished"; or what went wrong."""
    if end is None:
        return "hung"
    status, said = end
    killed = kind == "SIGKILL" and status == -signal.SIGKILL
    stopped = kind == "SIGTERM" and status in (-signal.SIGTERM, 128 + signal.SIGTERM)
    full = kind == "full disk" and status in (1, 2) and any(text in said for text in FULL)
    if killed or stopped or full:
        return str(kind)
    return "finished" if status == 0 else f"failed with {status} after {kind}: {said[-2000:]}"


def strike(child: int, kind: str, rng) -> None:
    if kind == "full disk":
        soft = int(rng.integers(0, 6000))
        resource.prlimit(child, resource.RLIMIT_FSIZE, (soft, resource.RLIM_INFINITY))
    else:
        os.kill(child, getattr(signal, kind))


def state(folder: Path) -> list:
    return sorted(str(file) for file in folder.rglob("checkpoint-*.safetensors"))


def content(folder: Path) -> tuple | None:
    """All bits of a model; not those of its file, whose entries have no order."""
    from mmlp.checkpoint import files

    if not (folder / MODEL).exists():
        return None
    arrays, metadata = files.read(folder / MODEL)
    return metadata, {name: (x.dtype, x.shape, x.tobytes()) for name, x in arrays.items()}


def struck(mode: str, folder: Path, kind: str, longest: float, rng) -> str:
    """Begin or go on, and strike: soon after something was written, or at any time."""
    before, child = state(folder), start(mode, folder)
    after_writing = rng.random() < 0.6
    deadline = time.monotonic() + (PATIENCE if after_writing else rng.uniform(0, longest))
    while time.monotonic() < deadline and not (after_writing and state(folder) != before):
        if end := ended(child, 0):
            return outcome(end)
    if end := ended(child, rng.uniform(0, 0.3)):
        return outcome(end)
    strike(child.pid, kind, rng)
    end = ended(child, PATIENCE)
    if end is None:
        os.kill(child.pid, signal.SIGKILL)
        os.waitpid(child.pid, 0)
    return outcome(end, kind)


def whole_run(mode: str, folder: Path, kills: int, longest: float, calm: tuple, rng) -> list[str]:
    """Struck some times, then left to finish; what came of each, at last the comparison."""
    found = []
    while len(found) < kills:
        found.append(struck(mode, folder, KINDS[rng.integers(len(KINDS))], longest, rng))
        if found[-1] not in KINDS:
            break
    if not found or found[-1] in KINDS:
        found.append(outcome(ended(start(mode, folder), PATIENCE)))
    same = content(folder) == calm
    strays = list(folder.rglob(".*.tmp"))
    return [*found, "identical" if same and not strays else f"different {strays}"]


def main(kills: int, seed: int, modes: list[str], folder: Path) -> dict[str, int]:
    cache = folder / "cache"
    os.environ |= {"JAX_COMPILATION_CACHE_DIR": str(cache), "JAX_PLATFORMS": "cpu"}
    os.environ |= {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0", "TF_CPP_MIN_LOG_LEVEL": "3"}
    import mmlp.cli
    import mmlp.estimators  # noqa: F401

    rng, counts, calm = np.random.default_rng(seed), collections.Counter(), {}
    done = 0
    for i in range(10 * kills):
        mode = modes[i % len(modes)]
        if mode not in calm:
            for place in (folder / mode, folder / f"{mode} again"):  # the first fills the cache
                began = time.monotonic()
                end = outcome(ended(start(mode, place), PATIENCE))
                assert end == "finished", end
            calm[mode] = content(folder / mode), time.monotonic() - began
        model, longest = calm[mode]
        number = min(EACH[mode], kills - done)
        found = whole_run(mode, folder / str(i), number, longest, model, rng)
        counts.update(found)
        counts.update(f"{mode}: {what}" for what in found)
        done = sum(counts[kind] for kind in KINDS)
        print(json.dumps(counts), file=sys.stderr, flush=True)
        if done >= kills:
            break
    return dict(counts)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--modes", nargs="+", choices=sorted(set(MODES)), default=MODES)
    arguments = parser.parse_args()
    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None  # a process dies, not the machine
    with tempfile.TemporaryDirectory(dir=memory) as name:
        counts = main(arguments.kills, arguments.seed, arguments.modes, Path(name))
        print(json.dumps(counts, indent=1))
