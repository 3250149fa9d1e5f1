"""Muon (Jordan, 2024) for matrices and Adam for all else, on joined arrays.

Networks here have dozens of small arrays, and an update of each by itself takes some thirty small
kernels, which cost more than their arithmetic. So matrices are stacked, padded with zeros to a few
shapes, and all else is one vector. Padding stays zero: results are those of `optax.contrib.muon`.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array

MOMENTUM = 0.95
ADAM = (0.9, 0.999, 1e-8)
COEFFICIENTS = (3.4445, -4.7750, 2.0315)  # of the quintic iteration
ITERATIONS = 5
# multiplications that a stack may waste on the padding of one shape: those of a few kernels' time
WASTE = 2_000_000


class Stack(NamedTuple):
    """Matrices of one dtype that are padded to one shape (rows, columns), rows <= columns."""

    dtype: Any
    shape: tuple[int, int]
    members: list[int]  # their places among the leaves


class Joined(NamedTuple):
    """The leaves of a tree: matrices in stacks (k, rows, columns), the others as vectors."""

    stacks: tuple[Array, ...]
    vectors: tuple[Array, ...]  # one of each dtype


class MuonState(NamedTuple):
    count: Array
    momentum: tuple[Array, ...]  # of the stacks
    mean: tuple[Array, ...]  # of the vectors, and of their squares
    square: tuple[Array, ...]


class Layout:
    """Where each leaf of a tree of arrays stands when they are joined."""

    def __init__(self, leaves: Sequence[Array]):
        self.leaves = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in leaves]
        flat = [i for i, x in enumerate(self.leaves) if x.ndim != 2]
        dtypes = dict.fromkeys(self.leaves[i].dtype for i in flat)
        self.vectors = [[i for i in flat if self.leaves[i].dtype == t] for t in dtypes]
        self.stacks = self._stacked()

    def _stacked(self) -> list[Stack]:
        """Each shape, from the largest, joins a stack where its padding is cheap, or begins one."""
        shapes: dict[tuple, list[int]] = {}
        for i, x in enumerate(self.leaves):
            if x.ndim == 2:
                shapes.setdefault((x.dtype, tuple(sorted(x.shape))), []).append(i)
        stacks: list[Stack] = []
        for (dtype, shape), members in sorted(
            shapes.items(), key=lambda item: -_cost(item[0][1])
        ):
            for stack in stacks:
                fits = stack.dtype == dtype and all(map(int.__le__, shape, stack.shape))
                if fits and len(members) * (_cost(stack.shape) - _cost(shape)) <= WASTE:
                    stack.members.extend(members)
                    break
            else:
                stacks.append(Stack(dtype, shape, list(members)))
        return stacks

    def join(self, leaves: Sequence[Array]) -> Joined:
        def padded(x: Array, shape: tuple[int, int]) -> Array:
            x = x if x.shape[0] <= x.shape[1] else x.T
            return jnp.pad(x, [(0, m - n) for m, n in zip(shape, x.shape, strict=True)])

        stacks = (
            jnp.stack([padded(leaves[i], s.shape) for i in s.members])
            for s in self.stacks
        )
        vectors = (
            jnp.concatenate([leaves[i].ravel() for i in group])
            for group in self.vectors
        )
        return Joined(tuple(stacks), tuple(vectors))

    def part(self, joined: Joined) -> list[Array]:
        """The leaves again."""
        leaves: list[Any] = [None] * len(self.leaves)
        for stack, array in zip(self.stacks, joined.stacks, strict=True):
            for k, i in enumerate(stack.members):
                rows, columns = self.leaves[i].shape
                upright = rows <= columns
                x = array[k, : min(rows, columns), : max(rows, columns)]
                leaves[i] = x if upright else x.T
        for group, vector in zip(self.vectors, joined.vectors, strict=True):
            ends = [0]
            for i in group:
                shape = self.leaves[i].shape
                ends.append(ends[-1] + math.prod(shape))
                leaves[i] = vector[ends[-2] : ends[-1]].reshape(shape)
        return leaves

    def gains(self) -> list[Array]:
        """sqrt(max(1, columns / rows)) of the members of each stack, (k, 1, 1)."""
        shapes = [[self.leaves[i].shape for i in s.members] for s in self.stacks]
        gains = [
            [max(1, columns / max(rows, 1)) ** 0.5 for rows, columns in group]
            for group in shapes
        ]
        pairs = zip(gains, self.stacks, strict=True)
        return [jnp.array(group, stack.dtype)[:, None, None] for group, stack in pairs]


def muon(
    rate: Callable[..., Any], clip: float
) -> optax.GradientTransformationExtraArgs:
    """Steps of size rate(count, t=t), of gradients that are at most `clip` long altogether."""

    def init(params) -> MuonState:
        joined = jax.tree.map(jnp.zeros_like, _joined(params)[1])
        return MuonState(
            jnp.zeros((), jnp.int32), joined.stacks, joined.vectors, joined.vectors
        )

    def update(updates, state: Any, params=None, *, t=None, **_):
        layout, gradient = _joined(updates)
        length = optax.tree.norm(gradient)
        factor = jnp.where(length < clip, 1, clip / length)
        gradient = jax.tree.map(lambda g: factor.astype(g.dtype) * g, gradient)
        momentum = _moment(MOMENTUM, gradient.stacks, state.momentum)
        mean = _moment(ADAM[0], gradient.vectors, state.mean)
        square = _moment(ADAM[1], [g * g for g in gradient.vectors], state.square)
        count, step = state.count + 1, -rate(state.count, t=t)
        ahead = _ahead(MOMENTUM, momentum, gradient.stacks, count)
        stacks = (
            gain * orthogonal(x) for gain, x in zip(layout.gains(), ahead, strict=True)
        )
        vectors = (
            m / (jnp.sqrt(_unbiased(ADAM[1], v, count)) + ADAM[2])
            for m, v in zip(
                _ahead(ADAM[0], mean, gradient.vectors, count), square, strict=True
            )
        )
        steps = jax.tree.map(
            lambda x: step.astype(x.dtype) * x, Joined((*stacks,), (*vectors,))
        )
        tree = jax.tree.unflatten(jax.tree.structure(updates), layout.part(steps))
        return tree, MuonState(count, momentum, mean, square)

    return optax.GradientTransformationExtraArgs(init, update)


def orthogonal(X: Array) -> Array:
    """The orthogonal factor of X (..., m, n), m <= n, to some tenths; zero of zero."""
    length = jnp.sqrt(jnp.sum(X * X, axis=(-2, -1), keepdims=True))
    X = jnp.where(length > 0, X / jnp.where(length > 0, length, 1), 0)
    a, b, c = COEFFICIENTS
    for _ in range(ITERATIONS):
        A = X @ X.mT
        X = a * X + (b * A + c * (A @ A)) @ X
    return X


def _joined(tree) -> tuple[Layout, Joined]:
    leaves = jax.tree.leaves(tree)
    layout = Layout(leaves)
    return layout, layout.join(leaves)


def _moment(decay: float, new, old) -> tuple[Array, ...]:
    return tuple((1 - decay) * x + decay * y for x, y in zip(new, old, strict=True))


def _ahead(decay: float, moments, gradients, count: Array) -> list[Array]:
    """What the next moments would be of the same gradients, as Nesterov has it."""
    return [
        decay * _unbiased(decay, m, count + 1)
        + (1 - decay) * _unbiased(decay, g, count)
        for m, g in zip(moments, gradients, strict=True)
    ]


def _unbiased(decay: float, moment: Array, count: Array) -> Array:
    return moment / (1 - decay**count).astype(moment.dtype)


def _cost(shape: tuple[int, ...]) -> int:
    """Multiplications of the iteration."""
    m, n = shape
    return ITERATIONS * m * m * (2 * n + m)
