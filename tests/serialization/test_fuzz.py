"""10,000 files that are damaged or forged: a `ValueError`, an `OSError`, or something to use."""

import collections
import contextlib
import os
import pickle
import signal
import sys
import warnings
from pathlib import Path

import equinox as eqx
import fuzz
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import mmlp
from mmlp import estimators
from mmlp.compilation import partition_model
from mmlp.estimators import cross_fitting
from mmlp.serialization import architecture
from mmlp.training import checkpoints
from mmlp.training.epoch import Program, make_initial_state

SEED, COUNT, USES = 0, 10_000, 25
KEY = jax.random.key(0)
X = np.random.default_rng(0).normal(size=(20, 3))
NETWORKS = {
    "basic": lambda: mmlp.MatrixMLP(3, 2, (4, 3), key=KEY),
    "general": lambda: mmlp.MatrixMLP(
        3, 2, (4,), 2, (5,), kernel=mmlp.RadialBasis(0.3), key=KEY
    ),
    "head": lambda: mmlp.GaussianHead(mmlp.CholeskyMLP(3, 2, (4,), 3, key=KEY)),
    "vae": lambda: mmlp.paper_vae("EfNf", 3, 2, (4,), key=KEY),
    "tree": lambda: {
        "a": [mmlp.Gram(jnp.eye(2)), None, (1, 2.5, True, "text")],
        "b": jax.nn.gelu,
    },
}


def untrained(models, *_, **__):
    return mmlp.FitResult(models, {"loss": np.zeros(1), "validation": np.zeros(1)})


def fitted():
    """Estimators as they begin: training takes long to compile."""
    sizes = {"n_models": 2, "max_epochs": 1, "random_state": 0}
    spd = np.eye(2) + X[:, :2, None] * X[:, None, :2]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cross_fitting, "fit_many", untrained)
        yield estimators.SPDRegressor(hidden_dims=(3,), **sizes).fit(X, spd)
        sizes.pop("n_models")
        yield estimators.MatrixVAE(hidden_dims=(3,), n_samples=2, **sizes).fit(X)
        sizes |= {"n_models": 2, "family": "gaussian"}
        sizes |= {"hidden_dims": (3,), "hidden_features": (3,)}
        yield estimators.MultivariateRegressor(**sizes).fit(X, X[:, :2])


def loss(model, batch, key, t):
    return jnp.mean(jax.vmap(model)(batch) ** 2)


def run(folder):
    model, options = (
        eqx.nn.Linear(3, 1, key=KEY),
        {"optimizer": optax.adam(0.1), "progress": False},
    )
    return mmlp.fit(
        model, loss, X, key=KEY, epochs=2, batch_size=8, checkpoint=folder, **options
    )


@pytest.fixture(scope="module")
def originals(tmp_path_factory):
    """{kind: files}, each as bytes."""
    folder = tmp_path_factory.mktemp("originals")
    found = collections.defaultdict(list)
    for name, make in NETWORKS.items():
        mmlp.save(make(), folder / name)
        found["network"].append((folder / name).read_bytes())
    for estimator in fitted():
        estimator.save(folder / "estimator")
        found["estimator"].append((folder / "estimator").read_bytes())
    run(folder / "run")
    found["run"].append(
        (folder / "run" / "checkpoint-00000002.safetensors").read_bytes()
    )
    return found


class Readers:
    """How each kind of file is read, and what is read used."""

    def __init__(self, folder):
        self.path, self.directory = folder / "model.safetensors", folder / "run"
        run(self.directory)
        for file in self.directory.glob("checkpoint-*"):
            _, metadata = mmlp.serialization.files.read(file)
            if metadata["epoch"] != 2:
                file.unlink()
        self.newest = self.directory / "checkpoint-00000002.safetensors"
        self.before, self.known = self.newest.read_bytes(), metadata["fingerprint"]

    def read(self, kind: str, content: bytes):
        if kind == "run":
            self.newest.write_bytes(content)
            directory = checkpoints.RunDirectory(
                self.directory, self.known, writes=False
            )
            return directory.restore("fit", self.start())
        self.path.write_bytes(content)
        return mmlp.load(self.path) if kind == "network" else estimators.load(self.path)

    @staticmethod
    def start():
        params, _, static = partition_model(eqx.nn.Linear(3, 1, key=KEY))
        key_type = jax.random.key_impl(KEY)
        program = Program(loss, optax.adam(0.1), static, 8, key_type)
        return make_initial_state(program, params)

    def use(self, kind: str, content: bytes, result) -> None:
        if kind == "run":
            self.newest.write_bytes(content)
            run(self.directory)
        elif kind == "estimator":
            result.predict(X) if hasattr(result, "predict") else result.transform(X)
        elif hasattr(result, "probe") and architecture.is_complete(result):
            architecture.evaluate(result)


class HangError(BaseException):
    pass


def attempt(function, *arguments):
    """What came out: "ok", or the error's kind."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return "ok", function(*arguments)
        except (ValueError, OSError) as error:
            return "refused", error
        except HangError:
            raise
        except (
            BaseException
        ) as error:  # a panic of the reader of safetensors is no Exception
            return f"{type(error).__name__}: {error!s:.200}", error


def resident() -> float:
    """MB of memory in use."""
    if not sys.platform.startswith("linux"):
        return 0.0
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 / 2**20


@contextlib.contextmanager
def limit(seconds: int):
    def expired(*_):
        raise HangError(f"more than {seconds} s")

    before = signal.signal(signal.SIGALRM, expired)
    signal.alarm(seconds)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.slow
def test_no_file_does_anything_but_load_or_be_refused(originals, tmp_path):
    """Half of the files have a right checksum. Of those that load, some of each kind are used."""
    rng, readers = np.random.default_rng(SEED), Readers(tmp_path)
    kinds = [(kind, file) for kind, files in originals.items() for file in files]
    share = {"network": 0.5, "estimator": 0.3, "run": 0.2}
    weights = np.array([share[kind] / len(originals[kind]) for kind, _ in kinds])
    counts, wrong, loaded, memory = (
        collections.Counter(),
        [],
        collections.defaultdict(list),
        [],
    )
    with limit(600):
        for i in range(COUNT):
            kind, original = kinds[rng.choice(len(kinds), p=weights)]
            half = fuzz.HALVES[i % 2]
            content = fuzz.mutated(original, half, rng)
            outcome, result = attempt(readers.read, kind, content)
            counts[half, kind, outcome.partition(":")[0]] += 1
            if outcome == "ok":
                loaded[kind].append(content)
            elif outcome != "refused":
                wrong.append((kind, outcome, content))
            if i in (COUNT // 5, COUNT - 1):
                memory.append(resident())
        for kind, contents in loaded.items():
            for i in rng.permutation(len(contents))[:USES]:
                _, result = attempt(readers.read, kind, contents[i])
                outcome, _ = attempt(readers.use, kind, contents[i], result)
                counts["used", kind, outcome.partition(":")[0]] += 1
                if outcome not in ("ok", "refused"):
                    wrong.append((kind, f"use: {outcome}", contents[i]))
    print(*sorted(counts.items()), f"memory {memory}", sep="\n")
    if folder := os.environ.get("MMLP_FUZZ_FOUND"):
        Path(folder).write_bytes(pickle.dumps(wrong))
    assert not wrong, "\n".join(f"{kind}: {text}" for kind, text, _ in wrong)
    assert memory[1] - memory[0] < 50
