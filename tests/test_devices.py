"""Several devices, several processes: the same weights as on one device."""

import os
import subprocess
import sys
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

import mmlp

ROOT = Path(__file__).parent.parent
CACHE = os.environ.get("MMLP_TEST_CACHE", str(ROOT / ".cache" / "jax"))


def loss(model, batch, key, t):
    """Per-sample solves and noise, so that linear algebra and randomness have to agree across devices."""
    X, Y = batch
    A = jax.vmap(model)(X)
    return jnp.mean(mmlp.stein(A, Y)) + 0.01 * jnp.mean(jax.random.normal(key, (len(X),)) * A.logdet())


def train(dtype: str, batch_size: int, epochs: int = 5):
    """50 steps; batches of 4 divide over two devices, tails of 3 and batches of 5 do not."""
    key = jax.random.key(0)
    X = np.asarray(jax.random.normal(key, (39, 2)), dtype)
    Y = mmlp.Gram.trace_one(jax.random.normal(key, (39, 2, 2)).astype(dtype))
    model = jax.tree.map(lambda x: x.astype(dtype), mmlp.CholeskyMLP(2, 2, (5,), key=key))
    return mmlp.fit(
        *(model, loss, (X, Y)),
        key=key,
        epochs=epochs,
        batch_size=batch_size,
        optimizer=optax.adam(0.01),
        validation=(X[:7], Y.__class__(Y.factor[:7])),
        progress=False,
    )


def train_many():
    keys = jax.random.split(jax.random.key(0), 4)
    models = eqx.filter_vmap(lambda key: eqx.nn.Linear(2, 1, key=key))(keys)
    X = np.asarray(jax.random.normal(keys[0], (20, 2)))
    return mmlp.fit_many(models, quadratic, X, keys=keys, epochs=3, batch_size=8, optimizer=optax.adam(0.1), progress=False)


def quadratic(model, batch, key, t):
    return jnp.mean((jax.vmap(model)(batch) - 1) ** 2)


def environment(**extra):
    base = {"JAX_PLATFORMS": "cpu", "JAX_ENABLE_X64": "1", "TF_CPP_MIN_LOG_LEVEL": "3", "JAX_COMPILATION_CACHE_DIR": CACHE}
    return {**os.environ, **base, "PYTHONPATH": str(ROOT), **extra}


def flat(tree):
    return np.concatenate([np.ravel(x).astype(float) for x in jax.tree.leaves(eqx.filter(tree, eqx.is_array))])


def test_two_devices_give_the_weights_of_one(tmp_path):
    """float64 to 1e-6 (it is 1e-12 or so); float32 to the order of summation, which is printed."""
    flags = environment(XLA_FLAGS="--xla_force_host_platform_device_count=2")
    subprocess.run([sys.executable, __file__, str(tmp_path / "two.npz")], env=flags, check=True, timeout=400)
    two = np.load(tmp_path / "two.npz")
    assert two["devices"] == 2
    assert two["rows_on_a_device"] == 2
    for name, reference in results().items():
        difference = np.max(np.abs(two[name] - reference))
        print(f"{name}: two devices differ from one by {difference:.1e}")
        assert difference < (1e-3 if "float32" in name else 1e-6)


def test_two_processes_give_the_weights_of_one(tmp_path):
    program = ROOT / "examples" / "two_processes.py"
    path = tmp_path / "model.safetensors"
    subprocess.run([sys.executable, str(program)], env=environment(MODEL=str(path)), check=True, timeout=400)
    sys.path.insert(0, str(program.parent))
    try:
        import two_processes
    finally:
        sys.path.pop(0)
    difference = np.max(np.abs(flat(mmlp.load(path)) - flat(two_processes.train().model)))
    print(f"two processes differ from one by {difference:.1e}")
    assert difference < 1e-6


def results() -> dict[str, np.ndarray]:
    return {
        "float64": flat(train("float64", 4)),
        "float64, batch 5": flat(train("float64", 5, 7)),
        "float32": flat(train("float32", 4)),
        "many": flat(train_many()),
    }


if __name__ == "__main__":
    seen = []

    def watched(model, batch, key, t):
        jax.debug.inspect_array_sharding(batch, callback=lambda s: seen.append(s.shard_shape((4, 2))[0]))
        return quadratic(model, batch, key, t)

    start = eqx.nn.Linear(2, 1, key=jax.random.key(0))
    mmlp.fit(start, watched, np.ones((8, 2)), key=jax.random.key(0), epochs=1, batch_size=4, progress=False)
    np.savez(sys.argv[1], devices=len(jax.devices()), rows_on_a_device=max(seen), **results())
