"""Layers of the networks, and how each is calibrated on a first batch of inputs.

The symbols are the paper's. Between layers the matrices H_l are carried by their
factors and never formed. Where the paper has H_l the code has d_l H_l, whose mean
eigenvalue is one, so that weights of scale 1/sqrt(fan-in) suit every width. Only
constants differ: the paper's W_l is sqrt(d_{l+1}) W_l here (at the input layer just W),
its C_l is d_l C_l.
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

# Scale of B at the start. With B near zero H would be an even function of x, and the
# signs of the inputs would be lost.
BIAS_SCALE = 0.5

# Standard deviations over the samples that calibration gives each entry of Z and of z.
MATRIX_SPREAD = 0.2
VECTOR_SPREAD = 0.5

# The activations that a model file may name.
JNP_ACTIVATIONS = ("tanh", "sin", "cos", "arctan", "square")
NN_ACTIVATIONS = (
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
    "identity",
)
for _module, _names in ((jnp, JNP_ACTIVATIONS), (jax.nn, NN_ACTIVATIONS)):
    for _name in _names:
        register(getattr(_module, _name), f"{_module.__name__}.{_name}")


class Network(eqx.Module):
    """The abstract base of networks that map one sample x (in_features,).

    A batch is ``jax.vmap(network)(X)``. A subclass provides `in_features`, `__call__`
    and `calibrated`.
    """

    in_features: eqx.AbstractVar[int]

    @abstractmethod
    def __call__(self, x: Array) -> Any:
        """Map one sample.

        Parameters
        ----------
        x : array of shape (in_features,)

        Returns
        -------
        SPD or tuple of Array and SPD
            Usually an SPD value of trace one, or a vector and such a value.
        """

    @abstractmethod
    def calibrated(self, X: Array, *, key: Array) -> Any:
        """Return this network with layers that all respond to the inputs.

        Parameters
        ----------
        X : array of shape (n, in_features)
        key : PRNG key

        Returns
        -------
        Network

        Notes
        -----
        A network that can start at values that suit the targets takes another keyword
        argument, `targets` (n', dim).
        """

    def probe(self, x: Array) -> Any:
        """Map one sample, as `load` tries without computing.

        It fails where the parts of a network do not fit each other.

        Parameters
        ----------
        x : array of shape (in_features,)

        Returns
        -------
        object
            Whatever the network returns.
        """
        return self(x)

    def check_input(self, x: Array) -> Array:
        """Return `x` as an array of shape (in_features,).

        Parameters
        ----------
        x : array of shape (in_features,)

        Returns
        -------
        Array of shape (in_features,)

        Raises
        ------
        ValueError
            If the shape, the dtype or a concrete entry is not valid.
        """
        p = self.in_features
        argument = f"{type(self).__name__}.__call__(x=...)"
        x = jnp.asarray(check_floats(x, argument, f"({p},)", ndim=1))
        if x.shape != (p,):
            raise ValueError(
                f"`{argument}` must have shape ({p},), got shape {x.shape}; "
                "use `jax.vmap` for a batch."
            )
        return x


@register
class MatrixLayer(eqx.Module):
    """One layer of the matrix path.

        Z = W H W' + B,   or   Z = W H W' + B + V h

    followed by the SPD value that `output` makes of Z. The output of a hidden layer is
    `Hidden(kernel)`: H = K(Z) / tr K(Z).

    Parameters
    ----------
    before : int
        Size of the matrix H, or of the vector x at the input.
    d : int
        Size of Z.
    output : Output
        Makes an SPD value of Z.
    r : int, default=0
        Size of the vector h; 0 leaves out V.
    key : PRNG key
        For the initial weights.
    """

    W: Array  # (d, d_before), or (d, p) at the input
    B: Array  # (d, d), or what the output reads of it
    V: Array | None  # (size of B, r)
    output: Callable

    def __init__(
        self, before: int, d: int, output: Any, *, r: int = 0, key: Array
    ) -> None:
        key_W, key_B = jax.random.split(key)
        self.W = draw_weights(key_W, d, before)
        self.B = output.centre(key_B, d)
        self.V = None
        if r:
            self.V = draw_weights(jax.random.fold_in(key, 2), self.B.size, r)
        self.output = output

    @property
    def in_features(self) -> int:
        """The size of the matrix or vector that comes in."""
        return self.W.shape[1]

    @property
    def dim(self) -> int:
        """The size d of Z."""
        return self.W.shape[0]

    def product(self, source: Array | SPD) -> Array:
        """Return what the output reads of W x (W 1)' or of W H W'.

        Parameters
        ----------
        source : SPD or array of shape (p,)
            The matrix H, which counts times its size, or the vector x.

        Returns
        -------
        Array
        """
        if isinstance(source, SPD):
            Z = source.dim * source.sandwich(self.W)
        else:
            Z = jnp.outer(self.W @ source, jnp.sum(self.W, axis=1))
        return self.output.entries(Z)

    def bias(self, h: Any = None) -> Array:
        """Return B, or B + V h.

        Parameters
        ----------
        h : array of shape (r,), optional
            Needed if the layer has V.

        Returns
        -------
        Array
            In the shape of B.
        """
        if self.V is None:
            return self.B
        return self.B + (self.V @ h).reshape(self.B.shape)

    def __call__(self, source: Array | SPD, h: Any = None) -> SPD:
        """Map one sample."""
        return self.output(self.product(source) + self.bias(h))

    def calibrated(
        self, source: Any, h: Any = None, *, key: Array, targets: Any = None
    ) -> "MatrixLayer":
        """Return a layer whose Z varies by a set amount about a random matrix.

        Parameters
        ----------
        source : SPD or array
            A batch of what comes in, of n samples.
        h : array of shape (n, r), optional
        key : PRNG key
        targets : optional
            Not used; other last layers start at them.

        Returns
        -------
        MatrixLayer
        """
        Z = jax.vmap(self.product)(source)  # (n, d, d)
        spread = self.output.spread(self.dim)
        rate = gain(Z, spread)
        B = self.output.centre(key, self.dim, self.B.dtype) - rate * jnp.mean(Z, axis=0)
        W = jnp.sqrt(rate) * self.W  # Z is quadratic in W
        if self.V is None:
            return eqx.tree_at(lambda m: (m.W, m.B), self, (W, B))

        V = gain(h @ self.V.T, spread) * self.V
        B = B - (V @ jnp.mean(h, axis=0)).reshape(B.shape)
        return eqx.tree_at(lambda m: (m.W, m.B, m.V), self, (W, B, V))


@register
class VectorLayer(eqx.Module):
    """One layer of the vector path.

        z = C H A h + b,   or   z = (C H A + D) h + b

    Parameters
    ----------
    r_before : int
        Size of h.
    d : int
        Size of H.
    r : int
        Size of z.
    joint : bool, default=False
        Whether there is a matrix D, which joins a standard MLP.
    key : PRNG key
        For the initial weights.
    """

    A: Array  # (d, r_before)
    C: Array  # (r, d)
    b: Array  # (r,)
    D: Array | None  # (r, r_before)

    def __init__(
        self, r_before: int, d: int, r: int, *, joint: bool = False, key: Array
    ) -> None:
        key_A, key_C = jax.random.split(key)
        self.A = draw_weights(key_A, d, r_before)
        self.C = draw_weights(key_C, r, d)
        self.b = jnp.zeros(r)
        self.D = None
        if joint:
            self.D = draw_weights(jax.random.fold_in(key, 2), r, r_before)

    def product(self, H: SPD, h: Array) -> Array:
        """Return C H A h, or (C H A + D) h, where H counts times its size.

        Parameters
        ----------
        H : SPD
        h : array of shape (r_before,)

        Returns
        -------
        Array of shape (r,)
        """
        z = self.C @ (H.dim * (H @ (self.A @ h)))
        return z if self.D is None else z + self.D @ h

    def __call__(self, H: SPD, h: Array) -> Array:
        """Map one sample."""
        return self.product(H, h) + self.b

    def calibrated(
        self, H: SPD, h: Array, *, key: Array | None = None
    ) -> "VectorLayer":
        """Return a layer whose z varies by a set amount about zero.

        Parameters
        ----------
        H : SPD
            A batch of n matrices.
        h : array of shape (n, r_before)
        key : PRNG key, optional
            Not used.

        Returns
        -------
        VectorLayer
        """
        z = jax.vmap(self.product)(H, h)
        rate = gain(z, VECTOR_SPREAD)
        b = -jnp.mean(rate * z, axis=0)
        layer = eqx.tree_at(lambda m: (m.C, m.b), self, (rate * self.C, b))
        if self.D is None:
            return layer
        return eqx.tree_at(lambda m: m.D, layer, rate * self.D)


@register
class Perceptron(Network):
    """The standard MLP, whose last layer is linear.

        z_l = W_l h_{l+1} + b_l,   h_l = activation(z_l)

    Parameters
    ----------
    sizes : tuple of int
        Sizes of the input, of the hidden layers and of the output.
    activation : callable, default=jax.numpy.tanh
    key : PRNG key
        For the initial weights.
    """

    W: tuple[Array, ...]
    b: tuple[Array, ...]
    activation: Callable = eqx.field(static=True)

    def __init__(
        self, sizes: tuple[int, ...], activation: Callable = jnp.tanh, *, key: Array
    ) -> None:
        keys = jax.random.split(key, len(sizes) - 1)
        self.W = tuple(map(draw_weights, keys, sizes[1:], sizes[:-1]))
        self.b = tuple(jnp.zeros(size) for size in sizes[1:])
        self.activation = activation

    @property
    def in_features(self) -> int:
        """The size of the input."""
        return self.W[0].shape[1]

    def __call__(self, x: Array) -> Array:
        """Map one sample."""
        for i, (W, b) in enumerate(zip(self.W, self.b, strict=True)):
            x = W @ (x if i == 0 else self.activation(x)) + b
        return x

    @full_precision
    def calibrated(self, X: Array, *, key: Array | None = None) -> "Perceptron":
        h = X
        weights = []
        biases = []
        for W in self.W:
            z = h @ W.T
            rate = gain(z, VECTOR_SPREAD)
            b = -jnp.mean(rate * z, axis=0)
            h = self.activation(rate * z + b)
            weights.append(rate * W)
            biases.append(b)
        return eqx.tree_at(lambda m: (m.W, m.b), self, (tuple(weights), tuple(biases)))


def calibrate_model(
    model: Any, X: Array, *, key: Array, targets: Array | None = None
) -> Any:
    """Call `model.calibrated`, or raise a ValueError that says why it cannot be."""
    name = type(model).__name__
    if not hasattr(model, "calibrated"):
        raise ValueError(
            "`calibrate(model=...)` must be one of the library's networks, heads or a "
            "VAE of them, or have a method `calibrated(X, *, key)`, "
            f"got {name}."
        )

    in_features = getattr(model, "in_features", None)
    if in_features not in (None, X.shape[1]):
        raise ValueError(
            f"`calibrate(X=...)` must have {in_features} columns, as the model does, "
            f"got {X.shape[1]}."
        )
    if targets is None:
        return model.calibrated(X, key=key)

    if "targets" not in inspect.signature(model.calibrated).parameters:
        raise ValueError(
            "`calibrate(targets=...)` needs a model with a method "
            f"`calibrated(X, *, key, targets)`, got {name}."
        )
    dim = getattr(model, "dim", None)
    if dim not in (None, targets.shape[1]):
        raise ValueError(
            f"`calibrate(targets=...)` must have {dim} columns, the size of the "
            f"model's matrix, got {targets.shape[1]}."
        )
    return model.calibrated(X, key=key, targets=targets)


def gain(z: Array, spread: float) -> Array:
    """Return the factor that gives z (n, ...) this root mean square deviation.

    It is one where z varies by rounding only.
    """
    deviation = jnp.sqrt(jnp.mean(jnp.var(z, axis=0)))
    varies = deviation > z.shape[0] * jnp.finfo(z.dtype).eps * jnp.max(jnp.abs(z))
    return jnp.where(varies, spread / jnp.where(varies, deviation, 1), 1)


def variances(Y: Array) -> Array:
    """Return the variance of each column of Y (n, d).

    It is one where a column varies by rounding only, as in the estimators.
    """
    variance = jnp.var(Y, axis=0)
    rounding = Y.shape[0] * jnp.finfo(Y.dtype).eps * jnp.max(jnp.abs(Y), axis=0)
    return jnp.where(variance > rounding**2, variance, 1)


def draw_weights(key: Array, rows: int, columns: int) -> Array:
    """Draw normal weights of scale 1/sqrt(fan-in)."""
    return jax.random.normal(key, (rows, columns)) / columns**0.5


def draw_bias(key: Array, d: int, dtype: Any = None) -> Array:
    """Draw an orthogonal matrix B (d, d), times a scale: none starts near singular."""
    return BIAS_SCALE * d**0.5 * jax.random.orthogonal(key, d, dtype=dtype)
