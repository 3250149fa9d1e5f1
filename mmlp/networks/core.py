"""Networks from a vector x (p,) to an SPD matrix of trace one, or to a vector and such a matrix.

Each maps one sample; a batch is `jax.vmap(network)(X)`. The symbols are the paper's. Between layers the matrices H_l
are carried by their factors and never formed; where the paper has H_l the code has d_l H_l, whose mean eigenvalue is one,
so that weights of scale 1/sqrt(fan-in) suit every width. That moves constants only: the paper's W_l is sqrt(d_{l+1}) W_l
here (at the input layer just W), its C_l is d_l C_l.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from mmlp.kernels import Kernel, Linear, MercerSigmoid, activate
from mmlp.linalg.checks import checked_floats, checked_size, checked_sizes
from mmlp.linalg.primitive import full_precision
from mmlp.spd import SPD, DiagonalGram, Gram

BIAS_SCALE = 0.5  # of the entries of B_l at the start: with B near zero H is an even function of x, and signs are lost


def random_bias(key, d: int, dtype=None) -> Array:
    """A random B (d, d): orthogonal up to scale, so that no matrix starts out near singular."""
    return BIAS_SCALE * d**0.5 * jax.random.orthogonal(key, d, dtype=dtype)


class MatrixLayer(eqx.Module):
    """Z = W H W' + B, then H = K(Z) / tr K(Z): the matrix path of one layer."""

    W: Array  # (d, d_before), or (d, p) at the input
    B: Array  # (d, d)
    V: Array | None  # (d^2, r): with it, B + V h in place of B
    kernel: Kernel
    diagonal: bool = eqx.field(static=True)

    def __init__(
        self, before: int, d: int, kernel: Kernel, *, r: int = 0, diagonal: bool = False, key
    ):
        key_W, key_B = jax.random.split(key)
        self.W = _normal(key_W, d, before)
        self.B = random_bias(key_B, d)
        self.V = _normal(jax.random.fold_in(key, 2), d * d, r) if r else None
        self.kernel = kernel
        self.diagonal = diagonal

    def product(self, source: Array | SPD) -> Array:
        """W x (W 1)' for a vector x, W H W' (times the size of H) for a matrix."""
        if isinstance(source, Gram | DiagonalGram):
            M = source.factor @ (source.dim**0.5 * self.W.T)
            return M.T @ M
        return jnp.outer(self.W @ source, jnp.sum(self.W, axis=1))

    def bias(self, h: Any = None) -> Array:
        """B, or B + V h."""
        return self.B if self.V is None else self.B + (self.V @ h).reshape(self.B.shape)

    def __call__(self, source: Array | SPD, h: Any = None) -> SPD:
        return activate(self.kernel, self.product(source) + self.bias(h), diagonal=self.diagonal)


class VectorLayer(eqx.Module):
    """z = C H A h + b: the vector path of one layer, which reads the layer's own H."""

    A: Array  # (d, r_before)
    C: Array  # (r, d)
    b: Array  # (r,)
    D: Array | None  # (r, r_before): with it, C H A + D in place of C H A

    def __init__(self, r_before: int, d: int, r: int, *, joint: bool = False, key):
        key_A, key_C = jax.random.split(key)
        self.A = _normal(key_A, d, r_before)
        self.C = _normal(key_C, r, d)
        self.b = jnp.zeros(r)
        self.D = _normal(jax.random.fold_in(key, 2), r, r_before) if joint else None

    def product(self, H: SPD, h: Array) -> Array:
        """C H A h (times the size of H), or (C H A + D) h."""
        z = self.C @ (H.dim * (H @ (self.A @ h)))
        return z if self.D is None else z + self.D @ h

    def __call__(self, H: SPD, h: Array) -> Array:
        return self.product(H, h) + self.b


class MatrixMLP(eqx.Module):
    """The matrix multilayer perceptron, Eq. (mlpa) and, with `out_features`, its general form Eq. (mmlpb).

        Z_l = W_l H_{l+1} W_l' + B_l,   H_l = K(Z_l) / tr K(Z_l),   z_l = C_l H_l A_l h_{l+1} + b_l,   h_l = activation(z_l)

    `hidden_dims` = (d_{j+1}, ..., d_1) and `hidden_features` = (r_{j+1}, ..., r_1) run from the input to the output;
    x (in_features,) gives a trace-one `Gram` of size `dim`, or (vector (out_features,), Gram). The last vector layer is
    linear. `diagonal=True` makes the output, and only it, a `DiagonalGram`. The paper's output kernel is
    `MercerSigmoid()`; `Linear()` can learn smaller eigenvalues.

    `direct=True` departs from the paper in the vector path's two ends: it is fed x where the paper has ones, and its last
    layer reads H_1 where the paper has the output H_0, so that a mean is not multiplied by its own covariance. With H_l
    near I / d_l it is then a standard MLP.

    `joint=True`, a step further, also joins a standard MLP to the two paths. With `direct`'s ends,

        z_l = (C_l H_l A_l + D_l) h_{l+1} + b_l,   Z_0 = W_0 H_1 W_0' + B_0 + V h_1

    so that the rank of the vector path is not limited by the sizes of the matrices, and the output matrix reads the last
    hidden vector, too. With the `Linear` output kernel it contains the standard MLP that gives a vector and a factor.

    >>> model = MatrixMLP(3, 2, (4, 4), key=jax.random.key(0))
    >>> print(f"{model(jnp.ones(3)).trace():.4f}")
    1.0000
    """

    matrices: tuple[MatrixLayer, ...]  # from the input to the output
    vectors: tuple[VectorLayer, ...]  # empty in the basic form
    activation: Callable = eqx.field(static=True)
    direct: bool = eqx.field(static=True)

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
        direct: bool = False,
        joint: bool = False,
        key,
    ):
        p = checked_size(in_features, "MatrixMLP(in_features=...)")
        d = (
            *checked_sizes(hidden_dims, "MatrixMLP(hidden_dims=...)"),
            checked_size(dim, "MatrixMLP(dim=...)"),
        )
        r = _vector_widths(d, hidden_features, out_features)
        if joint and len(r) < 2:
            raise ValueError(
                "`MatrixMLP(joint=True)` joins a standard MLP to the vector path and needs `out_features` and a hidden "
                f"layer, got out_features={out_features!r}, hidden_dims={hidden_dims!r}."
            )
        direct = direct or joint
        kernels = (kernel,) * (len(d) - 1) + (output_kernel,)
        keys = jax.random.split(key, (2, len(d)))
        last = len(d) - 1
        width = r[-2] if joint else 0  # of the vector that the output matrix reads
        self.matrices = tuple(
            MatrixLayer(
                before,
                size,
                kernels[i],
                r=width if i == last else 0,
                diagonal=diagonal and i == last,
                key=keys[0, i],
            )
            for i, (before, size) in enumerate(zip((p, *d), d, strict=False))
        )
        sizes = (*d[:-1], d[-2:][0]) if direct else d  # of the matrices that the vector layers read
        first = p if direct or not r else r[0]
        self.vectors = tuple(
            VectorLayer(before, size, width, joint=joint, key=keys[1, i])
            for i, (before, size, width) in enumerate(zip((first, *r), sizes, r, strict=False))
        )
        self.activation = activation
        self.direct = direct

    @property
    def in_features(self) -> int:
        return self.matrices[0].W.shape[1]

    @property
    def dim(self) -> int:
        return self.matrices[-1].B.shape[0]

    @property
    def out_features(self) -> int | None:
        return len(self.vectors[-1].b) if self.vectors else None

    @full_precision
    def __call__(self, x: Array):
        x = _input(self, x)
        H: Any = x
        h: Any = None
        for i, layer in enumerate(self.matrices):
            h = self.vector_input(i, x, h) if self.vectors else None
            before, H = H, layer(H, h)
            if self.vectors:
                h = self.vectors[i](self.vector_source(i, before, H), h)
        return (h, H) if self.vectors else H

    def vector_input(self, i: int, x: Array, h: Array) -> Array:
        """What enters vector layer i: at the first ones, or x if `direct`; after it the activated h."""
        if i > 0:
            return self.activation(h)
        A = self.vectors[0].A
        return x if self.direct else jnp.ones(A.shape[1], A.dtype)

    def vector_source(self, i: int, before: SPD, H: SPD) -> SPD:
        """The matrix that vector layer i reads: its layer's H; at the output, if `direct`, the last hidden one."""
        return before if self.direct and 0 < i == len(self.matrices) - 1 else H


class Perceptron(eqx.Module):
    """The standard MLP: z_l = W_l h_{l+1} + b_l and h_l = activation(z_l), with a linear last layer."""

    W: tuple[Array, ...]
    b: tuple[Array, ...]
    activation: Callable = eqx.field(static=True)

    def __init__(self, sizes: tuple[int, ...], activation: Callable = jnp.tanh, *, key):
        pairs = list(zip(sizes[1:], sizes[:-1], strict=True))
        self.W = tuple(
            _normal(k, *pair)
            for k, pair in zip(jax.random.split(key, len(pairs)), pairs, strict=True)
        )
        self.b = tuple(jnp.zeros(size) for size in sizes[1:])
        self.activation = activation

    @property
    def in_features(self) -> int:
        return self.W[0].shape[1]

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
            raise ValueError(
                "`ShallowMatrixMLP(hidden_features=...)` must name at least one hidden layer, got ()."
            )
        key_hidden, key_output = jax.random.split(key)
        self.perceptron = Perceptron((p, *r), key=key_hidden)
        self.output = MatrixLayer(r[-1], d, kernel, key=key_output)

    @property
    def in_features(self) -> int:
        return self.perceptron.in_features

    @property
    def dim(self) -> int:
        return self.output.B.shape[0]

    @full_precision
    def __call__(self, x: Array) -> SPD:
        z = self.perceptron(_input(self, x))
        return self.output(self.perceptron.activation(z))


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
        vector = (
            0
            if out_features is None
            else checked_size(out_features, "CholeskyMLP(out_features=...)")
        )
        self.perceptron = Perceptron(
            (p, *r, vector + (d if diagonal else d * (d + 1) // 2)), key=key
        )
        self.dim, self.out_features, self.diagonal = d, out_features, diagonal

    @property
    def in_features(self) -> int:
        return self.perceptron.in_features

    @full_precision
    def __call__(self, x: Array):
        z = self.perceptron(_input(self, x))
        d, r = self.dim, self.out_features or 0
        vector, diagonal, above = z[:r], jnp.exp(z[r : r + d]), z[r + d :]
        if self.diagonal:
            A = DiagonalGram.trace_one(diagonal)
        else:
            T = jnp.diag(diagonal).at[jnp.triu_indices(d, 1)].set(above)
            A = Gram.trace_one(T, upper=True)
        return A if self.out_features is None else (vector, A)


def _vector_widths(d: tuple[int, ...], hidden_features, out_features) -> tuple[int, ...]:
    """(r_{j+1}, ..., r_0), or () for the basic form."""
    if out_features is None:
        if hidden_features is not None:
            raise ValueError(
                "`MatrixMLP(hidden_features=...)` are widths of the vector path and need `out_features`, got "
                f"hidden_features={hidden_features!r} without it."
            )
        return ()
    widths = checked_sizes(
        d[:-1] if hidden_features is None else hidden_features, "MatrixMLP(hidden_features=...)"
    )
    if len(widths) != len(d) - 1:
        raise ValueError(
            f"`MatrixMLP(hidden_features=...)` must have one width for each of the {len(d) - 1} hidden_dims, got {widths}."
        )
    return (*widths, checked_size(out_features, "MatrixMLP(out_features=...)"))


def _normal(key, rows: int, columns: int) -> Array:
    return jax.random.normal(key, (rows, columns)) / columns**0.5


def _input(network, x: Array) -> Array:
    name, p = type(network).__name__, network.in_features
    x = jnp.asarray(checked_floats(x, f"{name}.__call__(x=...)", f"({p},)", ndim=1))
    if x.shape != (p,):
        raise ValueError(
            f"`{name}.__call__(x=...)` must have shape ({p},), got shape {x.shape}; use `jax.vmap` for a batch."
        )
    return x
