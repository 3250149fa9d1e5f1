"""Batch dimensions of values and distributions, indexed like those of an array."""

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
    """An object of size `dim` whose batch dimensions can be indexed and iterated over.

    Indexing takes the same part of every array, all of which must begin with the batch
    dimensions. A class whose arrays do not overrides `__getitem__`.
    """

    dim: eqx.AbstractVar[int]
    batch_shape: eqx.AbstractVar[tuple[int, ...]]

    def __getitem__(self, index: Any) -> Self:
        """Index the batch dimensions as NumPy does.

        Parameters
        ----------
        index : int, slice, array, None, Ellipsis or a tuple of these
            It applies to the batch dimensions only.

        Returns
        -------
        object of the same class

        Raises
        ------
        IndexError
            If the index does not fit the batch dimensions.
        """
        complete = self._complete_index(index)
        return jax.tree.map(lambda x: jnp.asarray(x)[complete], self)

    def __len__(self) -> int:
        """Return the length of the first batch dimension."""
        if not self.batch_shape:
            raise TypeError(
                f"this {type(self).__name__} is a single one, without batch "
                "dimensions, and so without a length."
            )
        return self.batch_shape[0]

    def __bool__(self) -> bool:
        """Return True, whatever the length, so that `A or B` works as for objects."""
        return True

    def __iter__(self) -> Iterator[Self]:
        """Iterate over the first batch dimension."""
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        """Return the class and the sizes, without the numbers."""
        name = type(self).__name__
        leaves = jax.tree.leaves(self)
        # A tree that JAX has mapped may hold something other than arrays.
        has_dtypes = all(hasattr(x, "dtype") for x in leaves)
        dtype = f", {jnp.result_type(*leaves)}" if leaves and has_dtypes else ""
        try:
            return f"{name}(batch_shape={self.batch_shape}, dim={self.dim}{dtype})"
        except (AttributeError, TypeError):
            return f"{name}(...)"

    def _complete_index(self, index: Any) -> tuple:
        """Return an index of exactly the batch dimensions.

        It is checked where it is concrete.
        """
        batch = self.batch_shape
        parts = index if isinstance(index, tuple) else (index,)
        complete = [_convert_part(part) for part in parts]

        n_indexed = sum(map(_count_axes, complete))
        ellipses = [i for i, part in enumerate(complete) if part is Ellipsis]
        valid = n_indexed <= len(batch) and len(ellipses) <= 1
        if valid:
            first = ellipses[0] if ellipses else len(complete)
            complete[first : first + 1] = [slice(None)] * (len(batch) - n_indexed)

        try:
            if not valid:
                raise IndexError("too many indices")
            # JAX clamps indices that are out of bounds; NumPy raises.
            if not any(isinstance(part, Tracer) for part in complete):
                np.broadcast_to(np.zeros(()), batch)[tuple(complete)]
        except IndexError as error:
            raise IndexError(
                f"`{type(self).__name__}[{_describe_index(parts)}]`: {error}; "
                f"its batch dimensions are {batch}, and {self._indexing_advice}."
            ) from None
        return tuple(complete)

    @property
    def _indexing_advice(self) -> str:
        """What to do instead of indexing entries, for an error."""
        return "nothing else can be indexed"


class Matrices(Batched):
    """A batch of symmetric matrices (..., d, d) that behaves like an array."""

    # NumPy leaves `x @ A` and `x + A` to A.
    __array_ufunc__ = None

    @abc.abstractmethod
    def dense(self) -> Array:
        """Return the entries.

        Returns
        -------
        Array of shape (..., d, d)
        """

    @abc.abstractmethod
    def __matmul__(self, x: ArrayLike) -> Array:
        """Return A x for x (..., d)."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape (..., d, d)."""
        return (*self.batch_shape, self.dim, self.dim)

    @property
    def ndim(self) -> int:
        """The number of dimensions, batch dimensions and two."""
        return len(self.batch_shape) + 2

    def __rmatmul__(self, x: ArrayLike) -> Array:
        """Return x'A = (A x)' for x (..., d)."""
        return self @ x

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """Return `dense()` as a new NumPy array, for `np.asarray(A)`.

        Parameters
        ----------
        dtype : dtype, optional
        copy : bool, optional
            False raises a ValueError, because no dense matrix is stored.

        Returns
        -------
        numpy.ndarray of shape (..., d, d)
        """
        if copy is False:
            raise ValueError(
                f"`np.array({type(self).__name__}, copy=False)`: "
                "no dense matrix is stored that could be shared."
            )
        return np.array(self.dense(), dtype)

    @property
    def _indexing_advice(self) -> str:
        return (
            "the dimensions of the matrices cannot be indexed: "
            "use `dense()` or `marginal(columns)` for them"
        )


def _convert_part(part: Any) -> Any:
    """Return a part of an index as JAX takes it: lists and arrays as NumPy's."""
    if isinstance(part, list | np.ndarray | jax.Array) and not isinstance(part, Tracer):
        array = np.asarray(part)
        # An empty list is an array of floats.
        if array.size == 0 and array.dtype.kind == "f":
            return array.astype(int)
        return array
    return part


def _count_axes(part: Any) -> int:
    """Return how many dimensions a part of an index applies to."""
    if part is None or part is Ellipsis:
        return 0
    kind = getattr(getattr(part, "dtype", None), "kind", "")
    return np.ndim(part) if kind == "b" else 1


def _describe_index(parts: tuple) -> str:
    """Return a short text of an index, for an error."""
    return ", ".join(map(_describe_part, parts))


def _describe_part(part: Any) -> str:
    if part is Ellipsis:
        return "..."
    if part is None:
        return "None"
    if np.ndim(part) or isinstance(part, Tracer):
        return "array"
    if isinstance(part, slice):
        ends = [part.start, part.stop]
        if part.step is not None:
            ends.append(part.step)
        return ":".join("" if end is None else str(end) for end in ends)
    return f"{part!r:.40}"
