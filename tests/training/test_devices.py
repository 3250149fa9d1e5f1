"""Several devices, several processes: the same weights as on one device."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import mmlp

ROOT = Path(__file__).parents[2]
CACHE = os.environ.get("MMLP_TEST_CACHE", str(ROOT / ".cache" / "jax"))


SHARDS = (
    None  # in the process with two devices: the rows of a batch that each device sees
)


def loss(model, batch, key, t):
    """Solves and noise of each sample: linear algebra and randomness must agree across devices."""
    if SHARDS is not None and len(batch) == 4:
        jax.debug.inspect_array_sharding(
            batch, callback=lambda s: SHARDS.append(s.shard_shape((4, 2))[0])
        )
    logdet, white = jax.vmap(model)(batch).logdet_and_whiten(batch)
    noise = jax.random.normal(key, logdet.shape)
    return jnp.mean((1 + 0.1 * noise) * logdet + jnp.sum(white**2, axis=-1))


def train(dtype: str):
    """50 steps; batches of 4 divide over two devices, tails of 3 do not."""
    X = np.random.default_rng(0).normal(size=(39, 2)).astype(dtype)
    model = jax.tree.map(
        lambda x: x.astype(dtype), mmlp.CholeskyMLP(2, 2, (5,), key=jax.random.key(0))
    )
    return mmlp.fit(
        model,
        loss,
        X,
        key=jax.random.key(0),
        epochs=5,
        batch_size=4,
        optimizer=optax.adam(0.01),
        progress=False,
    )


def train_many():
    keys = jax.random.split(jax.random.key(0), 4)
    models = eqx.filter_vmap(lambda key: eqx.nn.Linear(2, 1, key=key))(keys)
    X = np.random.default_rng(0).normal(size=(20, 2))
    return mmlp.fit_many(
        models,
        quadratic,
        X,
        keys=keys,
        epochs=3,
        batch_size=8,
        optimizer=optax.adam(0.1),
        progress=False,
    )


def quadratic(model, batch, key, t):
    return jnp.mean((jax.vmap(model)(batch) - 1) ** 2)


def environment(**extra):
    base = {
        "JAX_PLATFORMS": "cpu",
        "JAX_ENABLE_X64": "1",
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "JAX_COMPILATION_CACHE_DIR": CACHE,
    }
    path = f"{ROOT}{os.pathsep}{ROOT / 'tests' / 'support'}"
    return {**os.environ, **base, "PYTHONPATH": path, **extra}


def flat(tree):
    return np.concatenate(
        [
            np.ravel(x).astype(float)
            for x in jax.tree.leaves(eqx.filter(tree, eqx.is_array))
        ]
    )


@pytest.mark.slow
@pytest.mark.parametrize("names", [("float64",), ("float32", "many")])
def test_two_devices_give_the_weights_of_one(names, tmp_path):
    """float64 to 1e-6 (it is 1e-15 or so); float32 to the order of summation, which is printed."""
    flags = environment(
        XLA_FLAGS=os.environ["XLA_FLAGS"] + " --xla_force_host_platform_device_count=2"
    )
    subprocess.run(
        [sys.executable, __file__, str(tmp_path / "two.npz"), *names],
        env=flags,
        check=True,
        timeout=400,
    )
    two = np.load(tmp_path / "two.npz")
    assert two["devices"] == 2
    assert set(two["shards"]) == {2}  # half of each batch of four
    for name in names:
        difference = np.max(np.abs(two[name] - flat(RUNS[name]())))
        print(f"{name}: two devices differ from one by {difference:.1e}")
        assert difference < (1e-3 if name == "float32" else 1e-6)


def example():
    folder = str(ROOT / "examples")
    sys.path.insert(0, folder)
    try:
        import two_processes
    finally:
        sys.path.remove(folder)
    return two_processes


@pytest.mark.slow
def test_two_processes_give_the_weights_of_one(tmp_path):
    """In memory, and from a file of which each process reads its own rows only."""
    path, table = tmp_path / "model.safetensors", tmp_path / "table.npy"
    np.save(table, np.random.default_rng(0).normal(size=(39, 2)))
    with socket.socket() as free:
        free.bind(("localhost", 0))
        address = f"localhost:{free.getsockname()[1]}"
    command, variables = (
        [sys.executable, __file__, address],
        environment(MODEL=str(path)),
    )
    children = [
        subprocess.Popen([*command, str(table), n], env=variables) for n in "01"
    ]
    assert [child.wait(timeout=400) for child in children] == [0, 0]
    first, second = (np.load(tmp_path / f"{number}.npz") for number in "01")
    halves = [set(found["rows"].tolist()) for found in (first, second)]
    assert halves[0] | halves[1] == set(range(39))
    tail = halves[0] & halves[1]  # three rows, which two processes cannot share out
    assert sorted(map(len, halves)) == [21, 21]
    assert len(tail) == 3
    assert np.array_equal(first["weights"], second["weights"])
    for here, there in (
        (flat(mmlp.load(path)), example().fit_network().model),
        (first["weights"], from_file(np.load(table)).model),
    ):
        difference = np.max(np.abs(here - flat(there)))
        print(f"two processes differ from one by {difference:.1e}")
        assert difference < 1e-6


def from_file(X):
    start, adam = mmlp.CholeskyMLP(2, 2, (5,), key=jax.random.key(0)), optax.adam(0.01)
    options = {"epochs": 1, "batch_size": 4, "optimizer": adam, "progress": False}
    return mmlp.fit(start, loss, X, key=jax.random.key(0), **options)


def one_of_two_processes(address: str, table: Path, number: str) -> None:
    """The example, and a fit from a file; which rows were read is noted."""
    from mmlp.training import data as training_data

    module, fitted, read, one = (
        example(),
        example().fit_network,
        set(),
        training_data.MappedArray.__getitem__,
    )

    def noted(self, wanted):
        read.update(wanted.tolist() if isinstance(wanted, np.ndarray) else ())
        return one(self, wanted)

    def both():
        result = from_file(np.load(table, mmap_mode="r"))
        np.savez(table.parent / number, rows=sorted(read), weights=flat(result.model))
        return fitted()

    (
        training_data.MAX_BYTES_PER_CHUNK,
        training_data.MappedArray.__getitem__,
        module.fit_network,
    ) = (
        100,
        noted,
        both,
    )
    module.main(address, 2, int(number))


RUNS = {
    "float64": lambda: train("float64"),
    "float32": lambda: train("float32"),
    "many": train_many,
}

if __name__ == "__main__" and ":" in sys.argv[1]:
    one_of_two_processes(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
elif __name__ == "__main__":
    SHARDS = []
    weights = {name: flat(RUNS[name]()) for name in sys.argv[2:]}
    np.savez(sys.argv[1], devices=len(jax.devices()), shards=SHARDS, **weights)
