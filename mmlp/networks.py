"""Networks from a vector x (p,) to an SPD matrix of trace one, or to a vector and such a matrix.

Each maps one sample; a batch is `jax.vmap(network)(X)`. The symbols are the paper's. Between layers the matrices H_l
are carried by their factors and never formed; where the paper has H_l the code has d_l H_l, whose mean eigenvalue is one,
so that weights of scale 1/sqrt(fan-in) suit every width. That moves constants only: the paper's W_l is sqrt(d_{l+1}) W_l
here, its C_l is d_l C_l.
"""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from mmlp._checks import checked_floats, checked_size, checked_sizes
from mmlp._linalg import full_precision
from mmlp.gram import DiagonalGram, Gram
from mmlp.kernels import Kernel, Linear, MercerSigmoid, activate

BIAS_SCALE = 0.5  # of the random B_l: with B near zero H is an even function of x, and signs are lost


class MatrixLayer(eqx.Module):
    """One layer of Eq. (mmlpb): Z = W H W' + B, then H = K(Z) / tr K(Z), and beside it z = C H A h + b."""

    W: Array  # (d, d_before), or (d, p) at the input
    B: Array  # (d, d)
    A: Array | None  # (d, r_before)
    C: Array | None  # (r, d)
    b: Array | None  # (r,)
    kernel: Kernel
    diagonal: bool = eqx.field(static=True)

    def __init__(self, before: int, d: int, r_before: int | None, r: int | None, kernel: Kernel, diagonal: bool, *, key):
        keys = jax.random.split(key, 4)
        self.W = _normal(keys[0], d, before)
        self.B = BIAS_SCALE * jax.random.normal(keys[1], (d, d))
        self.A = None if r_before is None else _normal(keys[2], d, r_before)
        self.C = None if r is None else _normal(keys[3], r, d)
        self.b = None if r is None else jnp.zeros(r)
        self.kernel = kernel
        self.diagonal = diagonal

    def product(self, source: Array | Gram) -> Array:
        """W x (W 1)' for the input x, W H W' (times the size of H) for the layers after it."""
        if isinstance(source, Gram):
            M = source.factor @ self.W.T
            return source.dim * M.T @ M
        return jnp.outer(self.W @ source, jnp.sum(self.W, axis=1))

    def matrix(self, source: Array | Gram) -> Gram | DiagonalGram:
        return activate(self.kernel, self.product(source) + self.B, diagonal=self.diagonal)

    def vector(self, H: Gram | DiagonalGram, h: Array) -> Array:
        """C H A h, without its bias."""
        return self.C @ (H.dim * (H @ (self.A @ h)))


class MatrixMLP(eqx.Module):
    """The matrix multilayer perceptron, Eq. (mlpa) and, with `out_features`, its general form Eq. (mmlpb).

        Z_l = W_l H_{l+1} W_l' + B_l,   H_l = K(Z_l) / tr K(Z_l),   z_l = C_l H_l A_l h_{l+1} + b_l,   h_l = activation(z_l)

    `hidden_dims` = (d_{j+1}, ..., d_1) and `hidden_features` = (r_{j+1}, ..., r_1) run from the input to the output;
    x (in_features,) gives a trace-one `Gram` of size `dim`, or (vector (out_features,), Gram). The last vector layer is
    linear. `diagonal=True` makes the output, and only it, a `DiagonalGram`. The paper's output kernel is
    `MercerSigmoid()`; `Linear()` can learn smaller eigenvalues.

    >>> model = MatrixMLP(3, 2, (4, 4), key=jax.random.key(0))
    >>> print(f"{model(jnp.ones(3)).trace():.4f}")
    1.0000
    """

    layers: tuple[MatrixLayer, ...]
    activation: Callable = eqx.field(static=True)

    def __init__(
        self,
        in_features: int,
        dim: int,
        hidden_dims: tuple[int, ...] = (20, 20, 20),
        out_features: int | None = None,
        hidden_features: tuple[int, ...] | None = None,
        *,
        kernel: Kernel = MercerSigmoid(),
        output_kernel: Kernel = Linear(),
        activation: Callable = jnp.tanh,
        diagonal: bool = False,
        key,
    ):
        p = checked_size(in_features, "MatrixMLP(in_features=...)")
        d = (*checked_sizes(hidden_dims, "MatrixMLP(hidden_dims=...)"), checked_size(dim, "MatrixMLP(dim=...)"))
        if out_features is None:
            if hidden_features is not None:
                raise ValueError(
                    f"`MatrixMLP(hidden_features=...)` are the widths of the vector path and need `out_features`, got "
                    f"hidden_features={hidden_features!r} without it."
                )
            r = (None,) * len(d)
        else:
            widths = checked_sizes(d[:-1] if hidden_features is None else hidden_features, "MatrixMLP(hidden_features=...)")
            if len(widths) != len(d) - 1:
                raise ValueError(
                    f"`MatrixMLP(hidden_features=...)` must have one width for each of the {len(d) - 1} hidden_dims, "
                    f"got {widths}."
                )
            r = (*widths, checked_size(out_features, "MatrixMLP(out_features=...)"))
        kernels = (kernel,) * (len(d) - 1) + (output_kernel,)
        keys = jax.random.split(key, len(d))
        self.layers = tuple(
            MatrixLayer(
                p if i == 0 else d[i - 1],
                d[i],
                r[max(i - 1, 0)],  # the input layer's A is fed ones (r_{j+1},)
                r[i],
                kernels[i],
                diagonal and i == len(d) - 1,
                key=keys[i],
            )
            for i in range(len(d))
        )
        self.activation = activation

    @full_precision
    def __call__(self, x: Array):
        H, general = _input(self, x, self.layers[0].W.shape[1]), self.layers[0].C is not None
        h = jnp.ones(self.layers[0].A.shape[1], H.dtype) if general else None
        for i, layer in enumerate(self.layers):
            H = layer.matrix(H)
            if general:
                z = layer.vector(H, h) + layer.b
                h = self.activation(z) if i < len(self.layers) - 1 else z
        return (h, H) if general else H


class Perceptron(eqx.Module):
    """The standard MLP: z_l = W_l h_{l+1} + b_l and h_l = activation(z_l), with a linear last layer."""

    W: tuple[Array, ...]
    b: tuple[Array, ...]
    activation: Callable = eqx.field(static=True)

    def __init__(self, sizes: tuple[int, ...], activation: Callable = jnp.tanh, *, key):
        pairs = list(zip(sizes[1:], sizes[:-1], strict=True))
        self.W = tuple(_normal(k, *pair) for k, pair in zip(jax.random.split(key, len(pairs)), pairs, strict=True))
        self.b = tuple(jnp.zeros(size) for size in sizes[1:])
        self.activation = activation

    def __call__(self, x: Array) -> Array:
        for i, (W, b) in enumerate(zip(self.W, self.b, strict=True)):
            x = W @ (x if i == 0 else self.activation(x)) + b
        return x


class ShallowMatrixMLP(eqx.Module):
    """The paper's shallow design, Eq. (mlps): a standard MLP h_1(x), then Z_0 = W_0 h_1 (W_0 1)' + B_0 and one kernel.

    >>> model = ShallowMatrixMLP(3, 2, (4, 4), key=jax.random.key(0))
    >>> model(jnp.ones(3)).dense().shape
    (2, 2)
    """

    perceptron: Perceptron  # x -> z_1
    output: MatrixLayer

    def __init__(
        self,
        in_features: int,
        dim: int,
        hidden_features: tuple[int, ...] = (20, 20, 20),
        *,
        kernel: Kernel = MercerSigmoid(),
        key,
    ):
        p = checked_size(in_features, "ShallowMatrixMLP(in_features=...)")
        d = checked_size(dim, "ShallowMatrixMLP(dim=...)")
        r = checked_sizes(hidden_features, "ShallowMatrixMLP(hidden_features=...)")
        if not r:
            raise ValueError("`ShallowMatrixMLP(hidden_features=...)` must name at least one hidden layer, got ().")
        key_hidden, key_output = jax.random.split(key)
        self.perceptron = Perceptron((p, *r), key=key_hidden)
        self.output = MatrixLayer(r[-1], d, None, None, kernel, False, key=key_output)

    @full_precision
    def __call__(self, x: Array) -> Gram:
        z = self.perceptron(_input(self, x, self.perceptron.W[0].shape[1]))
        return self.output.matrix(self.perceptron.activation(z))


class CholeskyMLP(eqx.Module):
    """The baseline: a standard MLP whose outputs are the vector and the entries of an upper triangular factor T.

    The diagonal of T is the exponential of its outputs; A = T'T / tr(T'T). With `diagonal`, T has only a diagonal.

    >>> model = CholeskyMLP(3, 2, (4,), out_features=1, key=jax.random.key(0))
    >>> vector, A = model(jnp.ones(3))
    >>> vector.shape, A.dense().shape
    ((1,), (2, 2))
    """

    perceptron: Perceptron
    dim: int = eqx.field(static=True)
    out_features: int | None = eqx.field(static=True)
    diagonal: bool = eqx.field(static=True)

    def __init__(
        self,
        in_features: int,
        dim: int,
        hidden_features: tuple[int, ...] = (20, 20, 20),
        out_features: int | None = None,
        *,
        diagonal: bool = False,
        key,
    ):
        p = checked_size(in_features, "CholeskyMLP(in_features=...)")
        d = checked_size(dim, "CholeskyMLP(dim=...)")
        r = checked_sizes(hidden_features, "CholeskyMLP(hidden_features=...)")
        vector = 0 if out_features is None else checked_size(out_features, "CholeskyMLP(out_features=...)")
        self.perceptron = Perceptron((p, *r, vector + (d if diagonal else d * (d + 1) // 2)), key=key)
        self.dim, self.out_features, self.diagonal = d, out_features, diagonal

    @full_precision
    def __call__(self, x: Array):
        z = self.perceptron(_input(self, x, self.perceptron.W[0].shape[1]))
        d, r = self.dim, self.out_features or 0
        vector, diagonal, above = z[:r], jnp.exp(z[r : r + d]), z[r + d :]
        if self.diagonal:
            A = DiagonalGram.trace_one(diagonal)
        else:
            T = jnp.diag(diagonal).at[jnp.triu_indices(d, 1)].set(above)
            A = Gram.trace_one(T, upper=True)
        return A if self.out_features is None else (vector, A)


def _normal(key, rows: int, columns: int) -> Array:
    return jax.random.normal(key, (rows, columns)) / columns**0.5


def _input(network, x: Array, features: int) -> Array:
    name = type(network).__name__
    x = jnp.asarray(checked_floats(x, f"{name}.__call__(x=...)", f"({features},)", ndim=1))
    if x.shape != (features,):
        raise ValueError(
            f"`{name}.__call__(x=...)` must have shape ({features},), got shape {x.shape}; use `jax.vmap` for a batch."
        )
    return x
