"""The output for covariances of any size: a few loadings, turned by a matrix, and a diagonal."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from mmlp.argument_checks import check_size
from mmlp.networks.layers import MATRIX_SPREAD, MatrixLayer, gain, normal, variances
from mmlp.networks.outputs import Output
from mmlp.registry import register
from mmlp.spd import SPD, LowRankGram

SHARE = (
    0.5  # of the variance along principal directions that loadings have at the start
)
SPARE = 0.1  # of each deviation, that loadings have which no direction was left for


@register
class LowRank(Output):
    """(diag(exp(2v)) + L H L') over its trace: `rank` loadings L (d, rank), turned and weighed.

        Z = W H_1 W' + B,    T = I + Z,    H = T'T,    v = V h_1 + b

    H is one more hidden matrix, which starts near the identity; v comes from the vector path, and
    is constant without one. Nothing has d^2 numbers. A standard MLP (`CholeskyMLP`) gives v and
    all of U = T L' itself. `calibrate(..., targets=Y)` starts the loadings at principal directions
    of Y, and the diagonal at what they leave.

    >>> from mmlp.networks import JointMatrixMLP
    >>> model = JointMatrixMLP(3, 1000, (4,), output=LowRank(2), key=jax.random.key(0))
    >>> A = model(jnp.ones(3))
    >>> A.dim, A.U.shape
    (1000, (2, 1000))
    """

    rank: int = eqx.field(static=True)

    def __init__(self, rank: int):
        self.rank = check_size(rank, "LowRank(rank=...)")

    def layer(
        self, before: int, dim: int, *, r: int = 0, joint: bool = False, key
    ) -> Any:
        return Loadings(before, dim, self.rank, r=r, key=key)

    def size(self, dim: int) -> int:
        return dim * (1 + self.rank)

    def read(self, z: Array, dim: int) -> LowRankGram:
        U = z[dim:].reshape(self.rank, dim)
        return LowRankGram.trace_one(jnp.exp(z[:dim]), U / self.rank**0.5)

    def start(self, targets: Array, *, key) -> Array:
        L = normal(key, targets.shape[1], self.rank).astype(targets.dtype)
        log_scale, L = principal(targets, L)
        return jnp.concatenate([log_scale, self.rank**0.5 * L.T.ravel()])


@register
class Turn(Output):
    """T = I + Z, of `LowRank`: a square array, not yet a value."""

    def centre(self, key, dim: int, dtype=None) -> Array:
        return jnp.eye(dim, dtype=dtype)

    def spread(self, dim: int) -> float:
        return (
            MATRIX_SPREAD / dim**0.5
        )  # so that T moves each loading by a set share of it

    def __call__(self, entries: Array) -> Array:
        return entries

    def size(self, dim: int) -> int:
        return dim * dim

    def read(self, z: Array, dim: int) -> SPD:
        raise ValueError("`Turn` is a part of `LowRank(rank)` and no output by itself.")


@register
class Loadings(eqx.Module):
    """The last layer of a network with the output `LowRank`: (H_1, h_1) -> a `LowRankGram`."""

    turn: MatrixLayer  # H_1 -> T (m, m)
    L: Array  # (d, m)
    V: Array | None  # (d, r)
    b: Array  # (d,)

    def __init__(self, before: int, d: int, m: int, *, r: int, key):
        keys = jax.random.split(key, 3)
        self.turn = MatrixLayer(before, m, Turn(), key=keys[0])
        self.L, self.b = normal(keys[1], d, m), jnp.zeros(d)
        self.V = normal(keys[2], d, r) if r else None

    @property
    def in_features(self) -> int:
        return self.turn.in_features

    @property
    def dim(self) -> int:
        return len(self.L)

    def __call__(self, source: Array | SPD, h: Any = None) -> LowRankGram:
        T: Any = self.turn(source)
        v = self.b if self.V is None else self.V @ h + self.b
        return LowRankGram.trace_one(jnp.exp(v), T @ self.L.T)

    def calibrated(
        self, source, h: Any = None, *, key, targets: Array | None = None
    ) -> "Loadings":
        """T varies about the identity, v about zero or what the principal directions leave."""
        turn = self.turn.calibrated(source, key=key)
        b, L, V = jnp.zeros_like(self.b), self.L, self.V
        if targets is not None:
            b, L = principal(targets.astype(L.dtype), L)
        if V is not None:
            V = gain(h @ V.T, MATRIX_SPREAD) * V
            b = b - V @ jnp.mean(h, axis=0)
        layer = eqx.tree_at(lambda m: (m.turn, m.L, m.b), self, (turn, L, b))
        return layer if V is None else eqx.tree_at(lambda m: m.V, layer, V)


def principal(Y: Array, L: Array) -> tuple[Array, Array]:
    """log s (d,) and loadings (d, m): s^2 + diag(LL') are the variances of Y (n, d), to scale.

    Their mean is one. LL' has `SHARE` of the variance along the first m principal directions of Y.
    Loadings beyond those that Y has are a tenth of random ones: at zero they would never move.
    """
    n, d = Y.shape
    variance = variances(Y)
    size = jnp.sqrt(jnp.mean(variance))
    Y, variance = (Y - jnp.mean(Y, axis=0)) / size, variance / size**2
    m = min(L.shape[1], n - 1, d)
    if (
        n < d
    ):  # directions, as long as the singular values of Y, from the smaller of two matrices
        known = Y.T @ _leading(Y @ Y.T, m)
    else:
        vectors = _leading(Y.T @ Y, m)
        known = jnp.linalg.norm(Y @ vectors, axis=0) * vectors
    known = (SHARE / n) ** 0.5 * known
    spare = L[:, m:] / jnp.linalg.norm(
        L[:, m:], axis=1, keepdims=True
    )  # none if m is the rank
    spare = SPARE * jnp.sqrt(variance)[:, None] * spare
    left = (
        variance - jnp.sum(known**2, axis=1) - jnp.sum(spare**2, axis=1)
    )  # 0.49 of it at least
    return jnp.log(left) / 2, jnp.concatenate([known, spare], axis=1)


def _leading(A: Array, m: int) -> Array:
    """The eigenvectors (n, m) of A (n, n) with the largest eigenvalues."""
    return jnp.linalg.eigh(A)[1][:, ::-1][:, :m]
