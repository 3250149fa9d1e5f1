"""Outputs: how a network's last layer becomes an SPD value of trace one."""

import math
from abc import abstractmethod
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jax import Array

from mmlp.networks.kernels import Kernel, Linear
from mmlp.networks.layers import MATRIX_SPREAD, MatrixLayer, random_bias
from mmlp.registry import register
from mmlp.spd import SPD, DiagonalGram, Gram


class Output(eqx.Module):
    """What a network asks of its output.

    `layer` makes the last layer of a matrix path, a module (H_1, h_1) -> SPD with `in_features`,
    `dim` and `calibrated`: by default a `MatrixLayer`, which asks for `entries`, `centre` and a
    call. `size` and `read` serve networks without matrices.
    """

    def layer(
        self, before: int, dim: int, *, r: int = 0, joint: bool = False, key
    ) -> Any:
        """The last layer, after a matrix of size `before`.

        With r > 0 there is a vector h_1 (r,), which `joint` networks add to Z_0.
        """
        return MatrixLayer(before, dim, self, r=r if joint else 0, key=key)

    def entries(self, Z: Array) -> Array:
        """What of Z = W_0 H_1 W_0' is read."""
        return Z

    def centre(self, key, dim: int, dtype=None) -> Array:
        """What the entries vary about at the start."""
        return random_bias(key, dim, dtype)

    def spread(self, dim: int) -> float:
        """How much, as a deviation over the samples."""
        return MATRIX_SPREAD

    def start(self, targets: Array, *, key) -> Array:
        """Free numbers, as `read` takes them, with which to start for targets (n, dim)."""
        return jnp.zeros(self.size(targets.shape[1]), targets.dtype)

    @abstractmethod
    def size(self, dim: int) -> int:
        """How many free numbers make a value."""

    @abstractmethod
    def read(self, z: Array, dim: int) -> SPD:
        """The value that they make."""


@register
class Dense(Output):
    """K(Z_0) / tr K(Z_0). The paper's kernel is `MercerSigmoid()`; `Linear()` saturates nowhere."""

    kernel: Kernel = Linear()

    def __check_init__(self):
        _check_kernel(self.kernel, "Dense")

    def __call__(self, entries: Array) -> Gram:
        return Gram.trace_one(self.kernel(entries))

    def size(self, dim: int) -> int:
        return dim * dim

    def read(self, z: Array, dim: int) -> Gram:
        return self(z.reshape(dim, dim))


@register
class Diagonal(Output):
    """diag K(Z_0) over its trace (* in the paper's table); of a standard MLP, exp of d numbers."""

    kernel: Kernel = Linear()

    def __check_init__(self):
        _check_kernel(self.kernel, "Diagonal")

    def __call__(self, entries: Array) -> DiagonalGram:
        return DiagonalGram.trace_one(
            jnp.sqrt(jnp.sum(self.kernel(entries) ** 2, axis=-2))
        )

    def size(self, dim: int) -> int:
        if self.kernel != Linear():
            raise ValueError(
                "`Diagonal(kernel=...)` is for networks with a matrix Z; a standard MLP gives the "
                f"logarithms of the diagonal itself: use `Diagonal()`, got {self.kernel!r}."
            )
        return dim

    def read(self, z: Array, dim: int) -> DiagonalGram:
        return DiagonalGram.trace_one(jnp.exp(z))


@register
class Triangular(Output):
    """T'T / tr(T'T) for the upper triangle T of Z_0, with exp on its diagonal.

    A density then needs no factorisation. B_0 and V have d(d+1)/2 rows, in the order of `_fold`.
    """

    def entries(self, Z: Array) -> Array:
        return _fold(jnp.triu(Z))

    def centre(self, key, dim: int, dtype=None) -> Array:
        return jnp.zeros(
            self.size(dim), dtype
        )  # the identity; random triangles are near singular

    def spread(self, dim: int) -> float:
        return MATRIX_SPREAD / dim**0.5  # or T would be near singular for large d

    def __call__(self, entries: Array) -> Gram:
        return self.read(entries, math.isqrt(2 * len(entries)))

    def size(self, dim: int) -> int:
        return dim * (dim + 1) // 2

    def read(self, z: Array, dim: int) -> Gram:
        T = _unfold(z, dim)
        diagonal = jnp.eye(dim, dtype=bool)
        return Gram.trace_one(
            jnp.where(diagonal, jnp.exp(jnp.where(diagonal, T, 0)), T), upper=True
        )


def _unfold(z: Array, d: int) -> Array:
    """An upper triangle (d, d) of d(d+1)/2 numbers without gather or scatter, which are slow.

    The numbers, and behind them all but the first d backwards, are d rows of d: each number stands
    once above the diagonal or on it (the order of TensorFlow Probability's `fill_triangular`).
    """
    return jnp.triu(jnp.concatenate([z, z[: d - 1 : -1]]).reshape(d, d))


def _fold(T: Array) -> Array:
    """The numbers of an upper triangle T (d, d), for `_unfold`."""
    d, rows = len(T), T.reshape(-1)
    size = d * (d + 1) // 2
    return rows[:size] + jnp.concatenate([jnp.zeros(d, T.dtype), rows[size:][::-1]])


def checked_output(output, name: str) -> Output:
    if not isinstance(output, Output):
        wanted = "an output such as `Dense()`, with a kernel inside it"
        raise ValueError(f"`{name}(output=...)` must be {wanted}, got {output!r:.80}.")
    return output


def _check_kernel(kernel, name: str) -> None:
    if not callable(kernel) or isinstance(kernel, Output | type):
        wanted = "a function from Z to a factor, such as `Linear()`"
        raise ValueError(f"`{name}(kernel=...)` must be {wanted}, got {kernel!r:.80}.")
