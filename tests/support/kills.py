"""Training runs that are ended at random moments and begun again, until they finish.

    python tests/support/kills.py --kills 200 --seed 0

Each run is a process of its own that is killed, asked to stop, or finds its disk full: no file may
grow any more. After some of these it is left to finish, and compared with an undisturbed run, bit
for bit. The processes are forks of this one, which has imported all but not started JAX.

The counts go to stdout as JSON. The exit status is 1 if a run ended in any other way, or if a kind
of work was never killed: a script that kills nothing must not pass for one that found nothing.
"""

import argparse
import collections
import fcntl
import json
import math
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

MODEL = "model.safetensors"
KINDS = ("SIGKILL", "SIGTERM", "full disk")
MODES = ("fit", "regressor", "cli", "vae")  # the kinds of work, in turn
MAX_KILLS_PER_RUN = {"fit": 10, "regressor": 5, "cli": 5, "vae": 5}
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
    from mmlp.serialization import files
    from mmlp.training import checkpoints

    jax.config.update("jax_enable_x64", True)
    checkpoints.MAX_SHARE_OF_TIME = float("inf")  # a checkpoint after every epoch
    X = np.random.default_rng(0).normal(size=(30, 3))
    sizes = {"max_epochs": 25, "batch_size": 8, "patience": None, "random_state": 0}
    if mode == "fit":

        def loss(model, batch, key, t):
            outputs = jnp.tanh(batch @ model["W"]) @ model["V"]
            return jnp.mean((outputs - 1) ** 2) + 0.01 * jax.random.normal(key)

        key, optimizer = jax.random.key(0), optax.adam(0.01)
        options = {
            "batch_size": 8,
            "optimizer": optimizer,
            "validation": X[:10],
            "progress": False,
        }
        model = {"W": X[:3], "V": X[3:6, :2]}
        result = mmlp.fit(
            model, loss, X, key=key, epochs=150, checkpoint=folder / "run", **options
        )
        leaves = jax.tree.leaves(result)
        arrays = {str(i): np.asarray(leaf) for i, leaf in enumerate(leaves)}
        files.write(folder / MODEL, arrays, {})
    elif mode == "regressor":
        regressor = estimators.MultivariateRegressor(
            n_models=2,
            hidden_dims=(3,),
            hidden_features=(4,),
            family="gaussian",
            **sizes,
        )
        regressor.fit(X[:, 1:], X[:, :2], checkpoint=folder / "run").save(
            folder / MODEL
        )
    elif mode == "vae":
        vae = estimators.MatrixVAE(1, model="NdNd", hidden_dims=(3,), **sizes)
        vae.fit(X, checkpoint=folder / "run").save(folder / MODEL)
    else:
        np.savez(
            folder / "data.npz", X=X, Y=np.eye(2) + X[:, :2, None] * X[:, None, :2]
        )
        data = str(folder / "data.npz")
        out = str(folder / MODEL)
        # In place of this process's own arguments: with `main(argv)` signals would be the caller's.
        sys.argv = [
            "mmlp",
            "fit",
            "spd",
            data,
            "--out",
            out,
            "--epochs",
            "25",
            "--quiet",
        ]
        sys.exit(cli.main())


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
                return os.waitstatus_to_exitcode(status), file.read().decode(
                    errors="replace"
                )
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
    full = (
        kind == "full disk" and status in (1, 2) and any(text in said for text in FULL)
    )
    if killed or stopped or full:
        return str(kind)
    return (
        "finished"
        if status == 0
        else f"failed with {status} after {kind}: {said[-2000:]}"
    )


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
    from mmlp.serialization import files

    if not (folder / MODEL).exists():
        return None
    arrays, metadata = files.read(folder / MODEL)
    return metadata, {
        name: (x.dtype, x.shape, x.tobytes()) for name, x in arrays.items()
    }


def struck(mode: str, folder: Path, kind: str, longest: float, rng) -> str:
    """Begin or go on, and strike: soon after something was written, or at any time."""
    before, child = state(folder), start(mode, folder)
    after_writing = rng.random() < 0.6
    deadline = time.monotonic() + (
        PATIENCE if after_writing else rng.uniform(0, longest)
    )
    while time.monotonic() < deadline and not (
        after_writing and state(folder) != before
    ):
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


def kill_until_finished(
    mode: str, folder: Path, kills: int, longest: float, undisturbed: tuple, rng
) -> list[str]:
    """Strike a run up to `kills` times, let it finish, and compare it with an undisturbed one.

    Returns the outcome of each process, and at last that of the comparison.
    """
    outcomes = []
    while len(outcomes) < kills:
        kind = KINDS[rng.integers(len(KINDS))]
        outcomes.append(struck(mode, folder, kind, longest, rng))
        if outcomes[-1] not in KINDS:
            break
    if not outcomes or outcomes[-1] in KINDS:
        outcomes.append(outcome(ended(start(mode, folder), PATIENCE)))
    same = content(folder) == undisturbed
    strays = [*folder.rglob(".*.tmp")]
    if (
        "SIGKILL" in outcomes
    ):  # one that came while the model was written may leave a part of it
        strays = [file for file in strays if not file.name.startswith(f".{MODEL}.")]
    comparison = "identical" if same and not strays else f"different {strays}"
    return [*outcomes, comparison]


def run_undisturbed(mode: str, folder: Path) -> tuple[tuple, float]:
    """The model of a run that nothing disturbs, and how many seconds it takes."""
    seconds = 0.0
    for place in (folder / mode, folder / f"{mode} again"):  # the first fills the cache
        began = time.monotonic()
        end = outcome(ended(start(mode, place), PATIENCE))
        if end != "finished":
            raise SystemExit(f"{mode}: the undisturbed run {end}")
        seconds = time.monotonic() - began
    model = content(folder / mode)
    if model is None:
        raise SystemExit(f"{mode}: the undisturbed run wrote no {MODEL}")
    return model, seconds


def main(kills: int, seed: int, modes: list[str], folder: Path) -> dict[str, int]:
    """Strike runs of all modes in turn until there were `kills` kills; returns the counts."""
    cache = folder / "cache"
    os.environ |= {"JAX_COMPILATION_CACHE_DIR": str(cache), "JAX_PLATFORMS": "cpu"}
    os.environ |= {
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }
    import mmlp.cli
    import mmlp.estimators  # noqa: F401

    rng = np.random.default_rng(seed)
    undisturbed = {mode: run_undisturbed(mode, folder) for mode in dict.fromkeys(modes)}
    counts = collections.Counter()
    share = math.ceil(
        kills / len(modes)
    )  # of one run, so that a few kills reach every mode
    done = 0
    for i in range(10 * kills):
        mode = modes[i % len(modes)]
        model, longest = undisturbed[mode]
        number = min(MAX_KILLS_PER_RUN[mode], share, kills - done)
        outcomes = kill_until_finished(
            mode, folder / str(i), number, longest, model, rng
        )
        counts.update(outcomes)
        counts.update(f"{mode}: {name}" for name in outcomes)
        done = sum(counts[kind] for kind in KINDS)
        print(json.dumps(counts), file=sys.stderr, flush=True)
        if done >= kills:
            break
    return dict(counts)


def violations(counts: dict[str, int], modes: Sequence[str]) -> list[str]:
    """What must not be among the counts, and what is missing from them."""
    found = []
    for mode in dict.fromkeys(modes):
        prefix = f"{mode}: "
        ends = {name.removeprefix(prefix) for name in counts if name.startswith(prefix)}
        found += [prefix + end for end in sorted(ends - {*GOOD})]
        if ends.isdisjoint(KINDS):
            found.append(f"{mode}: never killed")
        if "identical" not in ends:
            found.append(f"{mode}: never compared with an undisturbed run")
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--modes", nargs="+", choices=MODES, default=MODES)
    arguments = parser.parse_args()
    memory = (
        "/dev/shm" if os.path.isdir("/dev/shm") else None
    )  # a process dies, not the machine
    with tempfile.TemporaryDirectory(dir=memory) as name:
        counts = main(arguments.kills, arguments.seed, arguments.modes, Path(name))
    print(json.dumps(counts, indent=1))
    if problems := violations(counts, arguments.modes):
        sys.exit("\n".join(problems))
