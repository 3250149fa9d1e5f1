"""The output for covariances of any size: a few loadings and a diagonal."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from mmlp.argument_checks import check_size
from mmlp.networks.layers import (
    MATRIX_SPREAD,
    MatrixLayer,
    draw_weights,
    gain,
    variances,
)
from mmlp.networks.outputs import Output
from mmlp.registry import register
from mmlp.spd import SPD, LowRankGram

# Share of the variance along the principal directions that loadings start with.
PRINCIPAL_SHARE = 0.5

# Size of the loadings for which no principal direction is left, as a share of each
# column's standard deviation.
SPARE_SHARE = 0.1


@register
class LowRank(Output):
    """A diagonal plus a matrix of low rank, (diag(exp(2v)) + L H L') over its trace.

        Z = W H_1 W' + B,    T = I + Z,    H = T'T,    v = V h_1 + b

    L (d, rank) are constant loadings. H is one more hidden matrix, which starts near
    the identity and rotates and weights them. v comes from the vector path, and is
    constant without one. No array has d^2 entries. A standard MLP (`CholeskyMLP`)
    returns v and all of U = T L' itself.

    ``calibrate(..., targets=Y)`` starts the loadings at the principal directions of Y,
    and the diagonal at the remaining variance.

    Parameters
    ----------
    rank : int
        Number of loadings.

    Raises
    ------
    ValueError
        If the rank is not a positive whole number.

    Examples
    --------
    >>> import jax
    >>> import jax.numpy as jnp
    >>> from mmlp import JointMatrixMLP, LowRank
    >>> model = JointMatrixMLP(3, 1000, (4,), output=LowRank(2), key=jax.random.key(0))
    >>> A = model(jnp.ones(3))
    >>> A.dim, A.U.shape
    (1000, (2, 1000))
    """

    rank: int = eqx.field(static=True)

    def __init__(self, rank: int) -> None:
        self.rank = check_size(rank, "LowRank(rank=...)")

    def layer(
        self, before: int, dim: int, *, r: int = 0, joint: bool = False, key: Array
    ) -> Any:
        return Loadings(before, dim, self.rank, r=r, key=key)

    def size(self, dim: int) -> int:
        return dim * (1 + self.rank)

    def read(self, z: Array, dim: int) -> LowRankGram:
        U = z[dim:].reshape(self.rank, dim)
        return LowRankGram.trace_one(jnp.exp(z[:dim]), U / self.rank**0.5)

    def start(self, targets: Array, *, key: Array) -> Array:
        L = draw_weights(key, targets.shape[1], self.rank).astype(targets.dtype)
        log_scale, L = principal_loadings(targets, L)
        return jnp.concatenate([log_scale, self.rank**0.5 * L.T.ravel()])


@register
class Turn(Output):
    """T = I + Z, a part of `LowRank`: a square array, not yet an SPD value."""

    def centre(self, key: Array, dim: int, dtype: Any = None) -> Array:
        return jnp.eye(dim, dtype=dtype)

    def spread(self, dim: int) -> float:
        # T then moves each loading by a set share of its size.
        return MATRIX_SPREAD / dim**0.5

    def __call__(self, entries: Array) -> Array:
        """Return T."""
        return entries

    def size(self, dim: int) -> int:
        return dim * dim

    def read(self, z: Array, dim: int) -> SPD:
        raise ValueError("`Turn` is a part of `LowRank(rank)` and no output by itself.")


@register
class Loadings(eqx.Module):
    """The last layer of a network with the output `LowRank`, (H_1, h_1) -> LowRankGram.

    Parameters
    ----------
    before : int
        Size of H_1, or of the input.
    d : int
        Size of the SPD value.
    m : int
        The rank.
    r : int
        Size of h_1; 0 if there is none.
    key : PRNG key
        For the initial weights.
    """

    turn: MatrixLayer  # H_1 -> T (m, m)
    L: Array  # (d, m)
    V: Array | None  # (d, r)
    b: Array  # (d,)

    def __init__(self, before: int, d: int, m: int, *, r: int, key: Array) -> None:
        keys = jax.random.split(key, 3)
        self.turn = MatrixLayer(before, m, Turn(), key=keys[0])
        self.L = draw_weights(keys[1], d, m)
        self.b = jnp.zeros(d)
        self.V = draw_weights(keys[2], d, r) if r else None

    @property
    def in_features(self) -> int:
        return self.turn.in_features

    @property
    def dim(self) -> int:
        return len(self.L)

    def __call__(self, source: Array | SPD, h: Any = None) -> LowRankGram:
        """Map one sample."""
        T: Any = self.turn(source)
        v = self.b if self.V is None else self.V @ h + self.b
        return LowRankGram.trace_one(jnp.exp(v), T @ self.L.T)

    def calibrated(
        self, source: Any, h: Any = None, *, key: Array, targets: Array | None = None
    ) -> "Loadings":
        """Return a layer whose T varies about the identity, and v about a constant.

        The constant is zero, or with targets what the principal directions leave.
        """
        turn = self.turn.calibrated(source, key=key)
        b = jnp.zeros_like(self.b)
        L = self.L
        if targets is not None:
            b, L = principal_loadings(targets.astype(L.dtype), L)
        if self.V is None:
            return eqx.tree_at(lambda m: (m.turn, m.L, m.b), self, (turn, L, b))

        V = gain(h @ self.V.T, MATRIX_SPREAD) * self.V
        b = b - V @ jnp.mean(h, axis=0)
        return eqx.tree_at(lambda m: (m.turn, m.L, m.b, m.V), self, (turn, L, b, V))


def principal_loadings(Y: Array, L: Array) -> tuple[Array, Array]:
    """Start s and loadings so that s^2 + diag(LL') are the variances of Y, up to scale.

    The variances are scaled to a mean of one. LL' has `PRINCIPAL_SHARE` of the variance
    along the first m principal directions of Y. Further loadings than Y has directions
    are small random ones, because zeros would never move.

    Parameters
    ----------
    Y : array of shape (n, d)
    L : array of shape (d, m)
        Random loadings.

    Returns
    -------
    log_s : Array of shape (d,)
    L : Array of shape (d, m)
    """
    n, d = Y.shape
    variance = variances(Y)
    size = jnp.sqrt(jnp.mean(variance))
    Y = (Y - jnp.mean(Y, axis=0)) / size
    variance = variance / size**2

    # Principal directions as long as the singular values of Y, from the smaller of
    # YY' and Y'Y.
    m = min(L.shape[1], n - 1, d)
    if n < d:
        directions = Y.T @ _leading_eigenvectors(Y @ Y.T, m)
    else:
        vectors = _leading_eigenvectors(Y.T @ Y, m)
        directions = jnp.linalg.norm(Y @ vectors, axis=0) * vectors
    principal = (PRINCIPAL_SHARE / n) ** 0.5 * directions

    # There are no spare loadings if m is the rank.
    spare = L[:, m:] / jnp.linalg.norm(L[:, m:], axis=1, keepdims=True)
    spare = SPARE_SHARE * jnp.sqrt(variance)[:, None] * spare

    # At least 0.49 of each variance remains.
    remaining = variance - jnp.sum(principal**2, axis=1) - jnp.sum(spare**2, axis=1)
    return jnp.log(remaining) / 2, jnp.concatenate([principal, spare], axis=1)


def _leading_eigenvectors(A: Array, m: int) -> Array:
    """Return the eigenvectors (n, m) of A (n, n) with the largest eigenvalues."""
    return jnp.linalg.eigh(A)[1][:, ::-1][:, :m]
