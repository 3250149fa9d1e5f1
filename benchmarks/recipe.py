"""Question: which optimiser should be `fit`'s default?

Task: SPD regression with eigenvectors that turn, A(x) = R(x)' diag(s) R(x), d = 6, s spread over
100, x in 4 dimensions driven by two angles; 200 training and 200 test samples. A calibrated
MatrixMLP(4, 6, (16, 16)), symmetric von Neumann loss, batch 20, 120 epochs, float32, mean test loss
over 6 seeds at the end of training (no early stopping).

Machine: 2 CPU cores, jax 0.9.2; 9 minutes.
Answer: Muon with cosine decay. The numbers are in the table of `mmlp.default_optimizer`; rate 0.04
is a little better than 0.02 and 0.08 much worse, so that 0.02 is the one with room to err.
Averaging weights does not add to decay.

    python benchmarks/recipe.py
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from optax.contrib import muon

import mmlp
from mmlp.datasets import turning_factors

DIM, SEEDS, EPOCHS, BATCH, SAMPLES = 6, 6, 120, 20, 200
STEPS = EPOCHS * SAMPLES // BATCH


def task(key, n):
    """Inputs (n, 4) and trace-one covariances whose eigenvectors turn with two angles."""
    c = jax.random.uniform(key, (n, 2), minval=-1, maxval=1)
    X = jnp.tanh(c @ jax.random.normal(jax.random.key(10), (2, 4)))
    generators = jax.random.normal(jax.random.key(11), (2, DIM, DIM))
    return X, mmlp.Gram.trace_one(
        turning_factors(c / 2, generators, jnp.geomspace(1, 0.1, DIM))
    )


def loss(model, batch, key, t):
    return jnp.mean(mmlp.von_neumann(jax.vmap(model)(batch[0]), batch[1]))


def test_loss(models, test) -> np.ndarray:
    return np.asarray(
        eqx.filter_vmap(lambda model: loss(model, test, None, 1.0))(models)
    )


def recipes():
    """(name with rate, schedule and clipping, optimiser)."""
    rates = {optax.adam: (1e-3, 3e-3, 1e-2, 3e-2), muon: (3e-3, 1e-2, 2e-2, 4e-2, 8e-2)}
    for method, name in ((optax.adam, "Adam"), (muon, "Muon")):
        for rate in rates[method]:
            cosine = optax.cosine_decay_schedule(rate, STEPS)
            schedules = [("cosine, clip 100", 100.0, cosine)]
            if rate in (1e-2, 2e-2):
                schedules += [
                    ("cosine, clip 1", 1.0, cosine),
                    ("constant, clip 100", 100.0, rate),
                ]
            for label, clip, schedule in schedules:
                optimizer = optax.chain(
                    optax.clip_by_global_norm(clip), method(schedule)
                )
                yield f"{name} {rate:g}", label, optimizer


def main():
    train, test = task(jax.random.key(0), SAMPLES), task(jax.random.key(1), SAMPLES)
    keys = jax.random.split(jax.random.key(2), SEEDS)
    make = eqx.filter_vmap(
        lambda key: mmlp.calibrate(
            mmlp.MatrixMLP(4, DIM, (16, 16), key=key), train[0], key=key
        )
    )
    models = make(keys)
    options = {"epochs": EPOCHS, "batch_size": BATCH, "progress": False}
    for name, label, optimizer in recipes():
        last = []  # weights of the last fifth of training, for their average

        def note(info, last=last):
            if info.epoch > 0.8 * EPOCHS:
                last.append(eqx.filter(info.model(), eqx.is_array))

        options |= {"optimizer": optimizer, "on_epoch": (note,)}
        result = mmlp.fit_many(models, loss, train, keys=keys, **options)
        score = test_loss(result.model, test)
        mean = jax.tree.map(lambda *x: sum(x) / len(x), *last)
        averaged = test_loss(eqx.combine(mean, result.model), test)
        scores = f"test {score.mean():.5f} +- {score.std() / SEEDS**0.5:.5f}"
        print(
            f"{name:10} {label:18} {scores}, weights averaged {averaged.mean():.5f}, "
            f"train {result.history['loss'][-1].mean():.5f}, "
            f"skipped {result.history['skipped'].sum()}",
            flush=True,
        )


if __name__ == "__main__":
    main()
