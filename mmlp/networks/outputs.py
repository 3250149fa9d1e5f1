"""Outputs: how the last layer of a network becomes an SPD value of trace one."""

import math
from abc import abstractmethod
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jax import Array

from mmlp.networks.kernels import Kernel, Linear
from mmlp.networks.layers import MATRIX_SPREAD, MatrixLayer, draw_bias
from mmlp.registry import register
from mmlp.spd import SPD, DiagonalGram, Gram


class Output(eqx.Module):
    """The abstract base of outputs.

    `layer` makes the last layer of a matrix path: a module (H_1, h_1) -> SPD with
    `in_features`, `dim` and `calibrated`. By default that is a `MatrixLayer`, which
    needs `entries`, `centre`, `spread` and `__call__`. Networks without matrices use
    `size`, `read` and `start`.
    """

    def layer(
        self, before: int, dim: int, *, r: int = 0, joint: bool = False, key: Array
    ) -> Any:
        """Make the last layer.

        Parameters
        ----------
        before : int
            Size of the matrix H_1 that the layer reads.
        dim : int
            Size of the SPD value.
        r : int, default=0
            Size of the vector h_1, if there is one.
        joint : bool, default=False
            Whether the network adds h_1 to Z_0.
        key : PRNG key
            For the initial weights.

        Returns
        -------
        eqx.Module
        """
        return MatrixLayer(before, dim, self, r=r if joint else 0, key=key)

    def entries(self, Z: Array) -> Array:
        """Return what the output reads of Z = W_0 H_1 W_0'.

        Parameters
        ----------
        Z : array of shape (dim, dim)

        Returns
        -------
        Array
            Z itself, unless overridden.
        """
        return Z

    def centre(self, key: Array, dim: int, dtype: Any = None) -> Array:
        """Return what the entries vary about before training.

        Parameters
        ----------
        key : PRNG key
        dim : int
        dtype : dtype, optional

        Returns
        -------
        Array
            In the shape of the entries.
        """
        return draw_bias(key, dim, dtype)

    def spread(self, dim: int) -> float:
        """Return by how much the entries vary over the samples before training.

        Parameters
        ----------
        dim : int

        Returns
        -------
        float
            A standard deviation.
        """
        return MATRIX_SPREAD

    def start(self, targets: Array, *, key: Array) -> Array:
        """Return free numbers, as `read` takes them, that suit the targets.

        Parameters
        ----------
        targets : array of shape (n, dim)
        key : PRNG key

        Returns
        -------
        Array of shape (size,)
        """
        return jnp.zeros(self.size(targets.shape[1]), targets.dtype)

    @abstractmethod
    def size(self, dim: int) -> int:
        """Return the number of free numbers that make a value.

        Parameters
        ----------
        dim : int

        Returns
        -------
        int
        """

    @abstractmethod
    def read(self, z: Array, dim: int) -> SPD:
        """Make a value of free numbers.

        Parameters
        ----------
        z : array of shape (size,)
        dim : int

        Returns
        -------
        SPD
        """


@register
class Dense(Output):
    """A dense matrix K(Z_0) / tr K(Z_0).

    Parameters
    ----------
    kernel : callable, default=Linear()
        Maps Z_0 (d, d) to a factor of K. The paper's kernel is `MercerSigmoid()`;
        `Linear()` does not saturate.

    Raises
    ------
    ValueError
        If the kernel is not a function.

    Examples
    --------
    >>> import jax
    >>> from mmlp import Dense, MatrixMLP, MercerSigmoid
    >>> output = Dense(MercerSigmoid())
    >>> model = MatrixMLP(3, 2, (4, 4), output=output, key=jax.random.key(0))
    """

    kernel: Kernel = Linear()

    def __check_init__(self) -> None:
        _check_kernel(self.kernel, "Dense")

    def __call__(self, entries: Array) -> Gram:
        """Return the value for the entries of Z_0."""
        return Gram.trace_one(self.kernel(entries))

    def size(self, dim: int) -> int:
        return dim * dim

    def read(self, z: Array, dim: int) -> Gram:
        return self(z.reshape(dim, dim))


@register
class Diagonal(Output):
    """A diagonal matrix, diag K(Z_0) over its trace (* in the paper's table).

    In a standard MLP (`CholeskyMLP`) the scales are exp of d numbers.

    Parameters
    ----------
    kernel : callable, default=Linear()
        Maps Z_0 (d, d) to a factor of K. The paper's kernel is `MercerSigmoid()`.

    Raises
    ------
    ValueError
        If the kernel is not a function.

    Examples
    --------
    >>> import jax
    >>> import jax.numpy as jnp
    >>> from mmlp import Diagonal, MatrixMLP
    >>> model = MatrixMLP(3, 2, (4, 4), output=Diagonal(), key=jax.random.key(0))
    >>> model(jnp.ones(3)).scale.shape
    (2,)
    """

    kernel: Kernel = Linear()

    def __check_init__(self) -> None:
        _check_kernel(self.kernel, "Diagonal")

    def __call__(self, entries: Array) -> DiagonalGram:
        """Return the value for the entries of Z_0."""
        return DiagonalGram.trace_one(
            jnp.sqrt(jnp.sum(self.kernel(entries) ** 2, axis=-2))
        )

    def size(self, dim: int) -> int:
        if self.kernel != Linear():
            raise ValueError(
                "`Diagonal(kernel=...)` is for networks with a matrix Z; a standard "
                "MLP gives the logarithms of the diagonal itself: "
                f"use `Diagonal()`, got {self.kernel!r}."
            )
        return dim

    def read(self, z: Array, dim: int) -> DiagonalGram:
        return DiagonalGram.trace_one(jnp.exp(z))


@register
class Triangular(Output):
    """T'T / tr(T'T) for the upper triangle T of Z_0, with exp on its diagonal.

    A density then needs no decomposition. B_0 and V have d(d+1)/2 rows.

    Examples
    --------
    >>> import jax
    >>> import jax.numpy as jnp
    >>> from mmlp import JointMatrixMLP, Triangular
    >>> model = JointMatrixMLP(3, 2, (4,), output=Triangular(), key=jax.random.key(0))
    >>> model(jnp.ones(3)).upper
    True
    """

    def entries(self, Z: Array) -> Array:
        return _fold(jnp.triu(Z))

    def centre(self, key: Array, dim: int, dtype: Any = None) -> Array:
        # T is then the identity. Random triangles are near singular.
        return jnp.zeros(self.size(dim), dtype)

    def spread(self, dim: int) -> float:
        # A constant spread would make T near singular for large d.
        return MATRIX_SPREAD / dim**0.5

    def __call__(self, entries: Array) -> Gram:
        """Return the value for the folded entries of Z_0."""
        return self.read(entries, math.isqrt(2 * len(entries)))

    def size(self, dim: int) -> int:
        return dim * (dim + 1) // 2

    def read(self, z: Array, dim: int) -> Gram:
        T = _unfold(z, dim)
        diagonal = jnp.eye(dim, dtype=bool)
        # The inner `where` keeps exp of large entries above the diagonal out of the
        # derivative, where it could be infinite.
        exponentials = jnp.exp(jnp.where(diagonal, T, 0))
        return Gram.trace_one(jnp.where(diagonal, exponentials, T), upper=True)


def _unfold(z: Array, d: int) -> Array:
    """Return an upper triangle (d, d) of d(d+1)/2 numbers.

    It needs no gather or scatter, which are slow. The numbers, followed by all but the
    first d in reverse order, are d rows of d; each number stands once on or above the
    diagonal (the order of TensorFlow Probability's `fill_triangular`).
    """
    return jnp.triu(jnp.concatenate([z, z[: d - 1 : -1]]).reshape(d, d))


def _fold(T: Array) -> Array:
    """Return the numbers of an upper triangle T (d, d), the inverse of `_unfold`."""
    d = len(T)
    rows = T.reshape(-1)
    size = d * (d + 1) // 2
    return rows[:size] + jnp.concatenate([jnp.zeros(d, T.dtype), rows[size:][::-1]])


def check_output(output: Any, name: str) -> Output:
    """Return `output`, or raise a ValueError if it is not an `Output`."""
    if not isinstance(output, Output):
        raise ValueError(
            f"`{name}(output=...)` must be an output such as `Dense()`, "
            f"with a kernel inside it, got {output!r:.80}."
        )
    return output


def _check_kernel(kernel: Any, name: str) -> None:
    if not callable(kernel) or isinstance(kernel, Output | type):
        raise ValueError(
            f"`{name}(kernel=...)` must be a function from Z to a factor, "
            f"such as `Linear()`, got {kernel!r:.80}."
        )
