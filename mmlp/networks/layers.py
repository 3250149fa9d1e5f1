"""What networks are made of, and how each layer is fitted to a first batch of inputs.

The symbols are the paper's. Between layers the matrices H_l are carried by their factors and never
formed. Where the paper has H_l the code has d_l H_l, whose mean eigenvalue is one, so that weights
of scale 1/sqrt(fan-in) suit every width. That moves constants only: the paper's W_l is
sqrt(d_{l+1}) W_l here (at the input layer just W), its C_l is d_l C_l.
"""

import inspect
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from mmlp.argument_checks import check_floats
from mmlp.linalg.primitive import full_precision
from mmlp.registry import register
from mmlp.spd import SPD

BIAS_SCALE = 0.5  # of B at the start: with B near zero H is an even function of x: signs are lost
MATRIX_SPREAD = (
    0.2  # what `calibrated` aims at: the deviation of each part of Z over the samples
)
VECTOR_SPREAD = 0.5  # and of z

JNP = ("tanh", "sin", "cos", "arctan", "square")
NN = (
    "relu",
    "gelu",
    "silu",
    "elu",
    "selu",
    "celu",
    "softplus",
    "sigmoid",
    "leaky_relu",
    "mish",
)
for _module, _names in ((jnp, JNP), (jax.nn, (*NN, "identity"))):
    for _name in _names:
        register(getattr(_module, _name), f"{_module.__name__}.{_name}")


class Network(eqx.Module):
    """A map of one x (in_features,); a batch is `jax.vmap(network)(X)`."""

    in_features: eqx.AbstractVar[int]

    @abstractmethod
    def __call__(self, x: Array) -> Any:
        """As a rule an SPD value of trace one, or (vector, value)."""

    @abstractmethod
    def calibrated(self, X: Array, *, key) -> Any:
        """This network with layers that all respond to the inputs X (n, in_features).

        One that also takes `targets` (n', dim) starts about the value that suits them.
        """

    def probe(self, x: Array):
        """What `load` tries, without computing: it fails where parts do not fit each other."""
        return self(x)

    def checked(self, x: Array) -> Array:
        name, p = type(self).__name__, self.in_features
        x = jnp.asarray(check_floats(x, f"{name}.__call__(x=...)", f"({p},)", ndim=1))
        if x.shape != (p,):
            got = f"got shape {x.shape}; use `jax.vmap` for a batch"
            raise ValueError(f"`{name}.__call__(x=...)` must have shape ({p},), {got}.")
        return x


@register
class MatrixLayer(eqx.Module):
    """Z = W H W' + B, or with V also + V h; then the SPD value that `output` makes of Z.

    A hidden layer's output is `Hidden(kernel)`: H = K(Z) / tr K(Z).
    """

    W: Array  # (d, d_before), or (d, p) at the input
    B: Array  # (d, d), or what the output reads of it
    V: Array | None  # (size of B, r)
    output: Callable

    def __init__(self, before: int, d: int, output, *, r: int = 0, key):
        key_W, key_B = jax.random.split(key)
        self.W = normal(key_W, d, before)
        self.B = output.centre(key_B, d)
        self.V = normal(jax.random.fold_in(key, 2), self.B.size, r) if r else None
        self.output = output

    @property
    def in_features(self) -> int:
        return self.W.shape[1]

    @property
    def dim(self) -> int:
        return self.W.shape[0]

    def product(self, source: Array | SPD) -> Array:
        """W x (W 1)' for a vector x, W H W' (times the size of H) for a matrix: what is read."""
        if isinstance(source, SPD):
            Z = source.dim * source.sandwich(self.W)
        else:
            Z = jnp.outer(self.W @ source, jnp.sum(self.W, axis=1))
        return self.output.entries(Z)

    def bias(self, h: Any = None) -> Array:
        """B, or B + V h."""
        return self.B if self.V is None else self.B + (self.V @ h).reshape(self.B.shape)

    def __call__(self, source: Array | SPD, h: Any = None) -> SPD:
        return self.output(self.product(source) + self.bias(h))

    def calibrated(self, source, h: Any = None, *, key, targets=None) -> "MatrixLayer":
        """Z varies over the samples by a set amount, about a random matrix."""
        Z, spread = (
            jax.vmap(self.product)(source),
            self.output.spread(self.dim),
        )  # Z (n, d, d)
        rate = gain(Z, spread)
        B = self.output.centre(key, self.dim, self.B.dtype) - rate * jnp.mean(Z, axis=0)
        W, V = jnp.sqrt(rate) * self.W, self.V  # Z is quadratic in W
        if V is None:
            return eqx.tree_at(lambda m: (m.W, m.B), self, (W, B))
        V = gain(h @ V.T, spread) * V
        B = B - (V @ jnp.mean(h, axis=0)).reshape(B.shape)
        return eqx.tree_at(lambda m: (m.W, m.B, m.V), self, (W, B, V))


@register
class VectorLayer(eqx.Module):
    """z = C H A h + b, or with D (C H A + D) h + b: the vector path of one layer."""

    A: Array  # (d, r_before)
    C: Array  # (r, d)
    b: Array  # (r,)
    D: Array | None  # (r, r_before)

    def __init__(self, r_before: int, d: int, r: int, *, joint: bool = False, key):
        key_A, key_C = jax.random.split(key)
        self.A = normal(key_A, d, r_before)
        self.C = normal(key_C, r, d)
        self.b = jnp.zeros(r)
        self.D = normal(jax.random.fold_in(key, 2), r, r_before) if joint else None

    def product(self, H: SPD, h: Array) -> Array:
        """C H A h (times the size of H), or (C H A + D) h."""
        z = self.C @ (H.dim * (H @ (self.A @ h)))
        return z if self.D is None else z + self.D @ h

    def __call__(self, H: SPD, h: Array) -> Array:
        return self.product(H, h) + self.b

    def calibrated(self, H: SPD, h: Array, *, key=None) -> "VectorLayer":
        """z varies over the samples by a set amount, about zero."""
        z = jax.vmap(self.product)(H, h)
        rate = gain(z, VECTOR_SPREAD)
        b = -jnp.mean(rate * z, axis=0)
        layer = eqx.tree_at(lambda m: (m.C, m.b), self, (rate * self.C, b))
        return (
            layer
            if self.D is None
            else eqx.tree_at(lambda m: m.D, layer, rate * self.D)
        )


@register
class Perceptron(Network):
    """The standard MLP: z_l = W_l h_{l+1} + b_l, h_l = activation(z_l), the last one linear."""

    W: tuple[Array, ...]
    b: tuple[Array, ...]
    activation: Callable = eqx.field(static=True)

    def __init__(self, sizes: tuple[int, ...], activation: Callable = jnp.tanh, *, key):
        keys = jax.random.split(key, len(sizes) - 1)
        self.W = tuple(map(normal, keys, sizes[1:], sizes[:-1]))
        self.b = tuple(jnp.zeros(size) for size in sizes[1:])
        self.activation = activation

    @property
    def in_features(self) -> int:
        return self.W[0].shape[1]

    def __call__(self, x: Array) -> Array:
        for i, (W, b) in enumerate(zip(self.W, self.b, strict=True)):
            x = W @ (x if i == 0 else self.activation(x)) + b
        return x

    @full_precision
    def calibrated(self, X: Array, *, key=None) -> "Perceptron":
        h, weights, biases = X, [], []
        for W in self.W:
            z = h @ W.T
            rate = gain(z, VECTOR_SPREAD)
            weights.append(rate * W)
            biases.append(-jnp.mean(rate * z, axis=0))
            h = self.activation(rate * z + biases[-1])
        return eqx.tree_at(lambda m: (m.W, m.b), self, (tuple(weights), tuple(biases)))


def calibrated(model, X: Array, *, key, targets: Array | None = None) -> Any:
    """`model.calibrated(X, ...)`, or a `ValueError` that says why that cannot be."""
    if not hasattr(model, "calibrated"):
        raise ValueError(
            "`calibrate(model=...)` must be one of the library's networks, heads or a VAE of them, "
            f"or have a method `calibrated(X, *, key)`, got {type(model).__name__}."
        )
    if (p := getattr(model, "in_features", None)) not in (None, X.shape[1]):
        wanted = f"{p} columns, as the model does, got {X.shape[1]}"
        raise ValueError(f"`calibrate(X=...)` must have {wanted}.")
    if targets is None:
        return model.calibrated(X, key=key)
    if "targets" not in inspect.signature(model.calibrated).parameters:
        wanted = "needs a model with a method `calibrated(X, *, key, targets)`"
        raise ValueError(
            f"`calibrate(targets=...)` {wanted}, got {type(model).__name__}."
        )
    if (d := getattr(model, "dim", None)) not in (None, targets.shape[1]):
        wanted = f"{d} columns, the size of the model's matrix, got {targets.shape[1]}"
        raise ValueError(f"`calibrate(targets=...)` must have {wanted}.")
    return model.calibrated(X, key=key, targets=targets)


def gain(z: Array, spread: float) -> Array:
    """The factor that gives z (n, ...) this rms deviation; one where z varies by rounding only."""
    deviation = jnp.sqrt(jnp.mean(jnp.var(z, axis=0)))
    varies = deviation > z.shape[0] * jnp.finfo(z.dtype).eps * jnp.max(jnp.abs(z))
    return jnp.where(varies, spread / jnp.where(varies, deviation, 1), 1)


def variances(Y: Array) -> Array:
    """Of each column of Y (n, d); one, as in the estimators, where it varies by rounding only."""
    square = jnp.var(Y, axis=0)
    rounding = Y.shape[0] * jnp.finfo(Y.dtype).eps * jnp.max(jnp.abs(Y), axis=0)
    return jnp.where(square > rounding**2, square, 1)


def normal(key, rows: int, columns: int) -> Array:
    return jax.random.normal(key, (rows, columns)) / columns**0.5


def random_bias(key, d: int, dtype=None) -> Array:
    """A random B (d, d): orthogonal up to scale, so that no matrix starts out near singular."""
    return BIAS_SCALE * d**0.5 * jax.random.orthogonal(key, d, dtype=dtype)
