"""Data-dependent initialisation: a batch is passed through, layer by layer, and each layer is put to work.

A freshly drawn matrix MLP hardly depends on its input, and training then finds the constant solution first (docs/maths).
Here each layer's weights are rescaled so that what they produce varies over the samples by a set amount, and biases are
moved so that it varies about a random matrix (Z) or about zero (z). In the spirit of layer-sequential unit-variance
initialisation (Mishkin and Matas, 2016).
"""

import functools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from mmlp.heads import GaussianHead, PowerExponentialHead
from mmlp.linalg.checks import checked_floats
from mmlp.linalg.primitive import full_precision
from mmlp.networks.core import (
    CholeskyMLP,
    MatrixLayer,
    MatrixMLP,
    Perceptron,
    ShallowMatrixMLP,
    VectorLayer,
    random_bias,
)
from mmlp.vae import VAE

MATRIX_SPREAD = 0.2  # standard deviation over samples of the entries of Z, of each of its parts
VECTOR_SPREAD = 0.5  # and of z


def calibrate(model, X: Array, *, key):
    """A new network, head or VAE of the same shapes whose layers all respond to the inputs X (n, p), a hundred or so.

    >>> model = MatrixMLP(3, 2, (4, 4), key=jax.random.key(0))
    >>> X = jax.random.normal(jax.random.key(1), (50, 3))
    >>> model = calibrate(model, X, key=jax.random.key(2))
    """
    X = jnp.asarray(checked_floats(X, "calibrate(X=...)", "(n, p)", ndim=2))
    if X.ndim != 2 or len(X) < 2:
        raise ValueError(
            f"`calibrate(X=...)` must have shape (n, p) with at least two rows, got shape {X.shape}."
        )
    if getattr(model, "in_features", X.shape[1]) != X.shape[1]:
        raise ValueError(
            f"`calibrate(X=...)` must have {model.in_features} columns, as the model does, got {X.shape[1]}."
        )
    weights = jax.tree.leaves(model) if isinstance(model, eqx.Module) else [X]
    return _calibrate(model, X.astype(weights[0].dtype), key)


@functools.singledispatch
def _calibrate(model, X, key) -> Any:
    raise ValueError(
        f"`calibrate(model=...)` must be one of the library's networks, heads or a VAE of them, got {type(model).__name__}."
    )


@_calibrate.register
@full_precision
def _(model: MatrixMLP, X, key):
    H, h, matrices, vectors = X, X, [], []
    for i, layer_key in enumerate(jax.random.split(key, len(model.matrices))):
        if model.vectors:
            h = jax.vmap(lambda x, h, i=i: model.vector_input(i, x, h))(X, h)
        matrices.append(_calibrate_matrix(model.matrices[i], H, layer_key, h))
        before, H = H, jax.vmap(matrices[-1])(H, h)
        if model.vectors:
            vectors.append(
                _calibrate_vector(model.vectors[i], model.vector_source(i, before, H), h)
            )
            h = jax.vmap(vectors[-1])(model.vector_source(i, before, H), h)
    return eqx.tree_at(lambda m: (m.matrices, m.vectors), model, (tuple(matrices), tuple(vectors)))


@_calibrate.register
@full_precision
def _(model: ShallowMatrixMLP, X, key):
    perceptron = _calibrate_perceptron(model.perceptron, X)
    h = perceptron.activation(jax.vmap(perceptron)(X))
    output = _calibrate_matrix(model.output, h, key)
    return eqx.tree_at(lambda m: (m.perceptron, m.output), model, (perceptron, output))


@_calibrate.register
@full_precision
def _(model: CholeskyMLP, X, key):
    return eqx.tree_at(lambda m: m.perceptron, model, _calibrate_perceptron(model.perceptron, X))


@_calibrate.register
def _(model: Perceptron, X, key):
    return _calibrate_perceptron(model, X)


@_calibrate.register(GaussianHead)
@_calibrate.register(PowerExponentialHead)
def _(model, X, key):
    return eqx.tree_at(lambda m: m.network, model, calibrate(model.network, X, key=key))


@_calibrate.register
def _(model: VAE, X, key):
    """The encoder on X, the decoder on as many draws of the prior."""
    keys = jax.random.split(key, 3)
    s = model.prior.sample(keys[2], (len(X),)).astype(X.dtype)
    parts = calibrate(model.encoder, X, key=keys[0]), calibrate(model.decoder, s, key=keys[1])
    return eqx.tree_at(lambda m: (m.encoder, m.decoder), model, parts)


def _calibrate_matrix(layer: MatrixLayer, source, key, h: Any = None) -> MatrixLayer:
    Z = jax.vmap(layer.product)(source)  # (n, d, d)
    gain = _gain(Z, MATRIX_SPREAD)
    B = random_bias(key, len(layer.B), layer.B.dtype) - gain * jnp.mean(Z, axis=0)
    layer = eqx.tree_at(
        lambda m: (m.W, m.B), layer, (jnp.sqrt(gain) * layer.W, B)
    )  # Z is quadratic in W
    if layer.V is None:
        return layer
    V = _gain(h @ layer.V.T, MATRIX_SPREAD) * layer.V
    return eqx.tree_at(
        lambda m: (m.V, m.B), layer, (V, B - (V @ jnp.mean(h, axis=0)).reshape(B.shape))
    )


def _calibrate_vector(layer: VectorLayer, source, h) -> VectorLayer:
    z = jax.vmap(layer.product)(source, h)
    gain = _gain(z, VECTOR_SPREAD)
    layer = eqx.tree_at(lambda m: (m.C, m.b), layer, (gain * layer.C, -jnp.mean(gain * z, axis=0)))
    return layer if layer.D is None else eqx.tree_at(lambda m: m.D, layer, gain * layer.D)


def _calibrate_perceptron(perceptron: Perceptron, X) -> Perceptron:
    h, weights, biases = X, [], []
    for W in perceptron.W:
        z = h @ W.T
        gain = _gain(z, VECTOR_SPREAD)
        weights.append(gain * W)
        biases.append(-jnp.mean(gain * z, axis=0))
        h = perceptron.activation(gain * z + biases[-1])
    return eqx.tree_at(lambda m: (m.W, m.b), perceptron, (tuple(weights), tuple(biases)))


def _gain(z: Array, spread: float) -> Array:
    """The factor that gives z (n, ...) this root-mean-square deviation over samples; one where z does not vary."""
    deviation = jnp.sqrt(jnp.mean(jnp.var(z, axis=0)))
    varies = deviation > z.shape[0] * jnp.finfo(z.dtype).eps * jnp.max(
        jnp.abs(z)
    )  # more than rounding of the sums
    return jnp.where(varies, spread / jnp.where(varies, deviation, 1), 1)
