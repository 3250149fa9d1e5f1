"""Muon (Jordan, 2024) for matrices and Adam for all other arrays, on packed arrays.

Networks here have dozens of small arrays. Updating each by itself takes some thirty
small kernels, whose start costs more than their arithmetic. So matrices are padded with
zeros to a few shapes and stacked, and all other arrays are joined in one vector. Zeros
stay zeros, so that results are those of `optax.contrib.muon`.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array

MUON_DECAY = 0.95
ADAM_MEAN_DECAY = 0.9
ADAM_SQUARE_DECAY = 0.999
ADAM_EPSILON = 1e-8
NEWTON_SCHULZ_COEFFICIENTS = (3.4445, -4.7750, 2.0315)
NEWTON_SCHULZ_ITERATIONS = 5

# Multiplications that a stack may waste on the padding of one shape. They take about as
# long as starting a few kernels.
MAX_WASTED_MULTIPLICATIONS = 2_000_000


class Stack(NamedTuple):
    """Matrices of one dtype, padded to one shape (rows, columns), rows <= columns."""

    dtype: Any
    shape: tuple[int, int]
    members: list[int]  # indices of the leaves


class Packed(NamedTuple):
    """The leaves of a tree: stacks of matrices (k, rows, columns), and vectors."""

    stacks: tuple[Array, ...]
    vectors: tuple[Array, ...]  # one for each dtype


class MuonState(NamedTuple):
    """The state of the optimiser."""

    count: Array  # steps so far
    momentum: tuple[Array, ...]  # of the stacks
    mean: tuple[Array, ...]  # of the vectors
    square: tuple[Array, ...]  # of the squared vectors


class Layout:
    """Where each leaf of a tree is when the leaves are packed.

    Parameters
    ----------
    leaves : sequence of arrays
        Only their shapes and dtypes are used.
    """

    def __init__(self, leaves: Sequence[Array]):
        self.leaves = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in leaves]
        self.stacks = self._plan_stacks()
        self.vectors = self._plan_vectors()

    def _plan_vectors(self) -> list[list[int]]:
        """Group the indices of leaves that are not matrices by dtype."""
        groups: dict[Any, list[int]] = {}
        for i, leaf in enumerate(self.leaves):
            if leaf.ndim != 2:
                groups.setdefault(leaf.dtype, []).append(i)
        return list(groups.values())

    def _plan_stacks(self) -> list[Stack]:
        """Add each shape, from the largest, to a stack where it wastes little."""
        groups: dict[tuple, list[int]] = {}
        for i, leaf in enumerate(self.leaves):
            if leaf.ndim == 2:
                group = (leaf.dtype, tuple(sorted(leaf.shape)))
                groups.setdefault(group, []).append(i)
        largest_first = sorted(
            groups.items(), key=lambda item: -_count_multiplications(item[0][1])
        )

        stacks: list[Stack] = []
        for (dtype, shape), members in largest_first:
            for stack in stacks:
                if stack.dtype == dtype and _wastes_little(shape, stack, len(members)):
                    stack.members.extend(members)
                    break
            else:
                stacks.append(Stack(dtype, shape, list(members)))
        return stacks

    def pack(self, leaves: Sequence[Array]) -> Packed:
        """Pack leaves with the shapes of this layout."""

        def pad(x: Array, shape: tuple[int, int]) -> Array:
            if x.shape[0] > x.shape[1]:
                x = x.T
            widths = [(0, m - n) for m, n in zip(shape, x.shape, strict=True)]
            return jnp.pad(x, widths)

        stacks = tuple(
            jnp.stack([pad(leaves[i], stack.shape) for i in stack.members])
            for stack in self.stacks
        )
        vectors = tuple(
            jnp.concatenate([leaves[i].ravel() for i in group])
            for group in self.vectors
        )
        return Packed(stacks, vectors)

    def unpack(self, packed: Packed) -> list[Array]:
        """Return the leaves that `pack` packed."""
        leaves: list[Any] = [None] * len(self.leaves)
        for stack, array in zip(self.stacks, packed.stacks, strict=True):
            for k, i in enumerate(stack.members):
                rows, columns = self.leaves[i].shape
                x = array[k, : min(rows, columns), : max(rows, columns)]
                leaves[i] = x if rows <= columns else x.T
        for group, vector in zip(self.vectors, packed.vectors, strict=True):
            start = 0
            for i in group:
                shape = self.leaves[i].shape
                stop = start + math.prod(shape)
                leaves[i] = vector[start:stop].reshape(shape)
                start = stop
        return leaves

    def compute_gains(self) -> list[Array]:
        """Return sqrt(max(1, columns / rows)) of the k matrices of each stack (k, 1, 1)."""
        all_gains = []
        for stack in self.stacks:
            shapes = [self.leaves[i].shape for i in stack.members]
            gains = [max(1, columns / max(rows, 1)) ** 0.5 for rows, columns in shapes]
            all_gains.append(jnp.array(gains, stack.dtype)[:, None, None])
        return all_gains


def muon(
    schedule: Callable[..., Any], max_gradient_norm: float
) -> optax.GradientTransformationExtraArgs:
    """Return an optimiser: Muon for matrices, Adam for all other arrays.

    Parameters
    ----------
    schedule : callable
        `schedule(count, t=t)` is the learning rate after `count` steps, at the progress
        t of training.
    max_gradient_norm : float
        Longer gradients, over all weights, are scaled down to this norm.
    """

    def init(params: Any) -> MuonState:
        zeros = jax.tree.map(jnp.zeros_like, _pack_tree(params)[1])
        return MuonState(
            count=jnp.zeros((), jnp.int32),
            momentum=zeros.stacks,
            mean=zeros.vectors,
            square=zeros.vectors,
        )

    def update(
        updates: Any, state: Any, params: Any = None, *, t: Any = None, **_: Any
    ) -> tuple[Any, MuonState]:
        layout, gradient = _pack_tree(updates)
        norm = optax.tree.norm(gradient)
        factor = jnp.where(norm < max_gradient_norm, 1, max_gradient_norm / norm)
        gradient = jax.tree.map(lambda g: factor.astype(g.dtype) * g, gradient)

        squares = [g * g for g in gradient.vectors]
        momentum = _update_moments(MUON_DECAY, gradient.stacks, state.momentum)
        mean = _update_moments(ADAM_MEAN_DECAY, gradient.vectors, state.mean)
        square = _update_moments(ADAM_SQUARE_DECAY, squares, state.square)
        count = state.count + 1
        step = -schedule(state.count, t=t)

        directions = _look_ahead(MUON_DECAY, momentum, gradient.stacks, count)
        stacks = tuple(
            gain * orthogonalize(x)
            for gain, x in zip(layout.compute_gains(), directions, strict=True)
        )
        directions = _look_ahead(ADAM_MEAN_DECAY, mean, gradient.vectors, count)
        vectors = tuple(
            m / (jnp.sqrt(_correct_bias(ADAM_SQUARE_DECAY, v, count)) + ADAM_EPSILON)
            for m, v in zip(directions, square, strict=True)
        )
        steps = jax.tree.map(
            lambda x: step.astype(x.dtype) * x, Packed(stacks, vectors)
        )
        structure = jax.tree.structure(updates)
        new_updates = jax.tree.unflatten(structure, layout.unpack(steps))
        return new_updates, MuonState(count, momentum, mean, square)

    return optax.GradientTransformationExtraArgs(init, update)


def orthogonalize(X: Array) -> Array:
    """Return the orthogonal polar factor of X, to some tenths, or zero for X = 0.

    A quintic Newton-Schulz iteration on X / |X|:

        X <- a X + (b A + c A^2) X   with A = X X'

    Parameters
    ----------
    X : array of shape (..., m, n) with m <= n
    """
    norm = jnp.sqrt(jnp.sum(X * X, axis=(-2, -1), keepdims=True))
    X = jnp.where(norm > 0, X / jnp.where(norm > 0, norm, 1), 0)
    a, b, c = NEWTON_SCHULZ_COEFFICIENTS
    for _ in range(NEWTON_SCHULZ_ITERATIONS):
        A = X @ X.mT
        X = a * X + (b * A + c * (A @ A)) @ X
    return X


def _pack_tree(tree: Any) -> tuple[Layout, Packed]:
    leaves = jax.tree.leaves(tree)
    layout = Layout(leaves)
    return layout, layout.pack(leaves)


def _update_moments(
    decay: float, new: Sequence[Array], old: Sequence[Array]
) -> tuple[Array, ...]:
    """Return exponential moving averages."""
    return tuple((1 - decay) * x + decay * y for x, y in zip(new, old, strict=True))


def _look_ahead(
    decay: float, moments: Sequence[Array], gradients: Sequence[Array], count: Array
) -> list[Array]:
    """Return the next moments if gradients stay the same (Nesterov momentum)."""
    return [
        decay * _correct_bias(decay, m, count + 1)
        + (1 - decay) * _correct_bias(decay, g, count)
        for m, g in zip(moments, gradients, strict=True)
    ]


def _correct_bias(decay: float, moment: Array, count: Array) -> Array:
    """Undo the bias of an average that started at zero."""
    return moment / (1 - decay**count).astype(moment.dtype)


def _wastes_little(shape: tuple[int, ...], stack: Stack, n_matrices: int) -> bool:
    """Whether matrices of a shape fit into a stack without much padding."""
    if shape[0] > stack.shape[0] or shape[1] > stack.shape[1]:
        return False
    waste = _count_multiplications(stack.shape) - _count_multiplications(shape)
    return n_matrices * waste <= MAX_WASTED_MULTIPLICATIONS


def _count_multiplications(shape: tuple[int, ...]) -> int:
    """Return the number of multiplications of `orthogonalize`."""
    m, n = shape
    return NEWTON_SCHULZ_ITERATIONS * m * m * (2 * n + m)
