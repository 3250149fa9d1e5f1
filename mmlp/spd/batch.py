"""What values and distributions share: their batch dimensions, as those of an array."""

import abc
from collections.abc import Iterator
from typing import Any, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer
from jax.typing import ArrayLike


class Batched(eqx.Module):
    """Something of size `dim`, with batch dimensions that can be indexed, counted and walked.

    Of arrays that all begin with the batch dimensions an index takes the same part; a kind whose
    arrays do not says so by a `__getitem__` of its own.
    """

    dim: eqx.AbstractVar[int]
    batch_shape: eqx.AbstractVar[tuple[int, ...]]

    def __getitem__(self, index) -> Self:
        """Those at this index of the batch dimensions, as NumPy has it; never entries of them."""
        place = self._place(index)
        return jax.tree.map(lambda x: jnp.asarray(x)[place], self)

    def __len__(self) -> int:
        """The first batch dimension."""
        if not self.batch_shape:
            one = "is a single one, without batch dimensions, and so without a length"
            raise TypeError(f"this {type(self).__name__} {one}.")
        return self.batch_shape[0]

    def __bool__(self) -> bool:
        """True, as of other objects: `A or B` does not ask how many there are."""
        return True

    def __iter__(self) -> Iterator[Self]:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        """The kind and the sizes; not the numbers."""
        leaves = jax.tree.leaves(self)
        typed = all(
            hasattr(x, "dtype") for x in leaves
        )  # not where a tree holds something else
        dtype = f", {jnp.result_type(*leaves)}" if leaves and typed else ""
        try:
            return f"{type(self).__name__}(batch_shape={self.batch_shape}, dim={self.dim}{dtype})"
        except (AttributeError, TypeError):
            return f"{type(self).__name__}(...)"

    def _place(self, index) -> tuple:
        """The index of all batch dimensions and of no others, checked where it is concrete."""
        batch, given = self.batch_shape, index if isinstance(index, tuple) else (index,)
        parts = [_array(part) for part in given]
        used = sum(map(_axes, parts))
        at = [i for i, part in enumerate(parts) if part is Ellipsis]
        if used <= len(batch) and len(at) <= 1:
            first = at[0] if at else len(parts)
            parts[first : first + 1] = [slice(None)] * (len(batch) - used)
        try:
            if used > len(batch) or len(at) > 1:
                raise IndexError("too many indices")
            if not any(
                isinstance(part, Tracer) for part in parts
            ):  # JAX goes on from the end
                np.broadcast_to(np.zeros(()), batch)[tuple(parts)]
        except IndexError as error:
            raise IndexError(
                f"`{type(self).__name__}[{_told(given)}]`: {error}; its batch dimensions are "
                f"{batch}, and {self._within}."
            ) from None
        return tuple(parts)

    @property
    def _within(self) -> str:
        """What to do about entries, for an error."""
        return "nothing else can be indexed"


class Matrices(Batched):
    """Of values: they are symmetric matrices (..., d, d) to whoever takes arrays."""

    __array_ufunc__ = None  # `x @ A` and `x + A` of NumPy's x are left to A

    @abc.abstractmethod
    def dense(self) -> Array: ...

    @abc.abstractmethod
    def __matmul__(self, x: ArrayLike) -> Array: ...

    @property
    def shape(self) -> tuple[int, ...]:
        """(..., d, d)."""
        return (*self.batch_shape, self.dim, self.dim)

    @property
    def ndim(self) -> int:
        return len(self.batch_shape) + 2

    def __rmatmul__(self, x: ArrayLike) -> Array:
        """x'A for x (..., d), which is (A x)'."""
        return self @ x

    def __array__(self, dtype=None, copy: bool | None = None) -> np.ndarray:
        """`dense()` as NumPy's array, for `np.asarray(A)`: always a new one."""
        if copy is False:
            name = type(self).__name__
            raise ValueError(
                f"`np.array({name}, copy=False)`: no dense matrix is held to share."
            )
        return np.array(self.dense(), dtype)

    @property
    def _within(self) -> str:
        return "the matrices' own cannot be indexed: use `dense()` or `marginal(columns)` for them"


def _array(part) -> Any:
    """A part of an index as JAX takes it: lists and concrete arrays as NumPy's."""
    if isinstance(part, list | np.ndarray | jax.Array) and not isinstance(part, Tracer):
        array = np.asarray(part)
        return (
            array.astype(int) if array.size == 0 and array.dtype.kind == "f" else array
        )
    return part


def _axes(part) -> int:
    """How many dimensions a part of an index takes."""
    if part is None or part is Ellipsis:
        return 0
    kind = getattr(getattr(part, "dtype", None), "kind", "")
    return np.ndim(part) if kind == "b" else 1


def _told(parts: tuple) -> str:
    """The index in short."""

    def one(part) -> str:
        if (
            part is Ellipsis
            or part is None
            or np.ndim(part)
            or isinstance(part, Tracer)
        ):
            return "..." if part is Ellipsis else "None" if part is None else "array"
        if isinstance(part, slice):
            ends = [
                part.start,
                part.stop,
                *([part.step] if part.step is not None else []),
            ]
            return ":".join("" if x is None else str(x) for x in ends)
        return f"{part!r:.40}"

    return ", ".join(map(one, parts))
