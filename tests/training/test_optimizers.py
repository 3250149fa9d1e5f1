"""Optimisers that are equal when their arguments are, and what that is for."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import mmlp
from mmlp.training.optimizers import CLIP, default_optimizer, equal_by_arguments

KEY = jax.random.key(0)
X = np.ones((8, 2))


def test_equal_arguments_give_equal_optimisers_of_one_hash():
    one, two = default_optimizer(100, 0.01), default_optimizer(100, 0.01)
    assert one is not two
    assert one == two
    assert hash(one) == hash(two)
    for other in (default_optimizer(100), default_optimizer(101, 0.01), optax.adam(0.01)):
        assert other != one
    assert equal_by_arguments(optax.sgd, 0.1) == equal_by_arguments(optax.sgd, 0.1)
    assert equal_by_arguments(optax.sgd, 0.1) != equal_by_arguments(optax.adam, 0.1)


@pytest.mark.parametrize("make", [default_optimizer, lambda _: equal_by_arguments(optax.sgd, 0.1)])
def test_a_fit_with_an_equal_optimiser_does_not_compile_again(make):
    traces = []

    def counted(model, batch, key, t):
        traces.append(t)
        return jnp.mean(jax.vmap(model)(batch) ** 2)

    model = eqx.nn.Linear(2, 1, key=KEY)
    for _ in range(2):
        options = {"key": KEY, "epochs": 1, "batch_size": 8, "progress": False}
        mmlp.fit(model, counted, X, optimizer=make(1), **options)
    assert len(traces) == 1


def test_the_steps_are_those_of_the_optimiser_that_was_made():
    params = {"W": jnp.arange(6.0).reshape(2, 3), "b": jnp.ones(3)}
    plain = optax.chain(
        optax.clip_by_global_norm(CLIP),
        optax.contrib.muon(optax.cosine_decay_schedule(0.02, 7)),
    )
    results = []
    for optimizer in (plain, default_optimizer(7)):
        weights, state = params, optimizer.init(params)
        for _ in range(3):
            updates, state = optimizer.update(weights, state, weights)
            weights = optax.apply_updates(weights, updates)
        results.append((weights, state))
    jax.tree.map(np.testing.assert_array_equal, *results)
