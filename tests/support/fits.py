"""Small fits that the tests of training share: a line through 22 points, with Adam."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

import mmlp

KEY = jax.random.key(0)
X = np.asarray(jax.random.normal(KEY, (22, 3)))
Y = X @ np.array([[1.0], [-2.0], [0.5]]) + 0.1
ADAM = optax.adam(0.05)

fit = functools.partial(
    mmlp.fit, key=KEY, epochs=3, batch_size=8, optimizer=ADAM, progress=False
)


def model(key=jax.random.key(1)):
    return eqx.nn.Linear(3, 1, key=key)


def stacked(keys):
    """A model for each key."""
    return eqx.filter_vmap(lambda key: eqx.nn.Linear(3, 1, key=key))(keys)


def loss(model, batch, key, t):
    return jnp.mean((jax.vmap(model)(batch[0]) - batch[1]) ** 2)


def weights(tree):
    return [np.asarray(x) for x in jax.tree.leaves(eqx.filter(tree, eqx.is_array))]


def equal(a, b):
    pairs = zip(weights(a), weights(b), strict=True)
    return all(np.array_equal(x, y, equal_nan=True) for x, y in pairs)
