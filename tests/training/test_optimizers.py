"""Optimisers that are equal when their arguments are, and what that is for."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import mmlp
from mmlp.training import muon
from mmlp.training.optimizers import (
    MAX_GRADIENT_NORM,
    comparable_optimizer,
    default_optimizer,
    optimizer_by_progress,
)

KEY = jax.random.key(0)
X = np.ones((8, 2))


def test_equal_arguments_give_equal_optimisers_of_one_hash():
    one, two = default_optimizer(100, 0.01), default_optimizer(100, 0.01)
    assert one is not two
    assert one == two
    assert hash(one) == hash(two)
    for other in (
        default_optimizer(100),
        default_optimizer(101, 0.01),
        optax.adam(0.01),
    ):
        assert other != one
    assert comparable_optimizer(optax.sgd, 0.1) == comparable_optimizer(optax.sgd, 0.1)
    assert comparable_optimizer(optax.sgd, 0.1) != comparable_optimizer(optax.adam, 0.1)


@pytest.mark.parametrize(
    "make", [default_optimizer, lambda _: comparable_optimizer(optax.sgd, 0.1)]
)
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


SHAPES = {
    "W": (2, 3),
    "tall": (5, 2),
    "row": (1, 4),
    "same": (2, 3),
    "b": (3,),
    "c": (),
    "cube": (2, 2, 2),
}


@pytest.mark.parametrize(
    "waste", [0, muon.MAX_WASTED_MULTIPLICATIONS]
)  # a stack for each shape, and one for all
def test_the_steps_are_those_of_optax_with_joined_arrays(waste, monkeypatch):
    monkeypatch.setattr(muon, "MAX_WASTED_MULTIPLICATIONS", waste)
    params = {name: jax.random.normal(KEY, shape) for name, shape in SHAPES.items()}
    assert len(muon.Layout(jax.tree.leaves(params)).stacks) == (1 if waste else 3)
    peer = optax.contrib.muon(optax.cosine_decay_schedule(0.02, 7))
    peer = optax.chain(optax.clip_by_global_norm(MAX_GRADIENT_NORM), peer)
    results = []
    for optimizer in (peer, default_optimizer(7)):
        weights, state, update = (
            params,
            optimizer.init(params),
            jax.jit(optimizer.update),
        )
        for size in (1, 1000, 1e-3):  # the second is clipped
            gradient = jax.tree.map(lambda w, size=size: size * jnp.sin(w), weights)
            updates, state = update(gradient, state, weights)
            weights = optax.apply_updates(weights, updates)
        results.append(weights)
    # optax adds 1e-8 to the size of a matrix
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), *results)


def test_by_progress_the_steps_are_those_of_a_known_number_of_steps():
    params, gradient = ({"W": size * jnp.ones((2, 3))} for size in (1, 2))

    def last(optimizer):
        state = optimizer.init(params)
        for t in (0.0, 0.5):
            updates, state = optimizer.update(gradient, state, params, t=t)
        return updates

    results = jax.jit(
        lambda: [last(default_optimizer(2, 0.1)), last(optimizer_by_progress(0.1))]
    )()
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), *results)
    assert (
        optimizer_by_progress(0.1)
        == optimizer_by_progress(0.1)
        != optimizer_by_progress()
    )


@pytest.mark.slow
def test_a_gradient_of_zero_moves_nothing_and_dtypes_stay():
    params = {
        "W": jnp.ones((2, 3), jnp.float32),
        "V": jnp.ones((2, 2)),
        "b": jnp.ones(2),
    }
    params |= {"none": jnp.ones((0, 3)), "of none": jnp.ones((3, 0), jnp.float16)}
    optimizer = default_optimizer(7)
    gradient = jax.tree.map(jnp.zeros_like, params)
    updates, _ = optimizer.update(gradient, optimizer.init(params), params)
    jax.tree.map(np.testing.assert_array_equal, updates, gradient)
    assert {k: u.dtype for k, u in updates.items()} == {
        k: p.dtype for k, p in params.items()
    }


def test_what_is_joined_is_parted_again():
    leaves = [jax.random.normal(KEY, shape) for shape in SHAPES.values()]
    layout = muon.Layout(leaves)
    jax.tree.map(
        np.testing.assert_array_equal, layout.unpack(layout.pack(leaves)), leaves
    )
