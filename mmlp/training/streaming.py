"""An epoch on data that stays in files: a thread reads the next batches while these are in use.

The steps, their keys and the order of rows are those of `epoch.run_epoch`, and results are equal up
to rounding; a run on files that is interrupted and goes on on files is equal bit for bit. Each
process reads the rows of its own devices only.
"""

import contextlib
import functools
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from mmlp.compilation import Compiled
from mmlp.training.arguments import Fixed, Program, Task
from mmlp.training.data import Piece, gathered, length, planned
from mmlp.training.devices import sharding, to_host
from mmlp.training.epoch import (
    batch_step,
    epoch_keys,
    score_keys,
    score_of,
    score_size,
    spread,
)
from mmlp.training.state import Metrics, Part, State, finished


class Static(NamedTuple):
    """What is compiled in."""

    program: Program
    numbers: tuple[int, ...]

    @property
    def effort(self) -> str:
        return self.program.effort  # that of `run_epoch`: another may round otherwise


class Batches(NamedTuple):
    rows: Any  # arrays (room, size, ...)
    keys: np.ndarray  # as numbers (room, ...)
    count: Any  # so many are there


class Stream(contextlib.AbstractContextManager):
    """Epoch after epoch, called like `run_epoch`; what comes next is read meanwhile."""

    def __init__(self, task: Task, first: int):
        self.task, data, validation = task, task.fixed.data, task.fixed.validation
        self.steps, self.scores = planned(data, task.program.batch_size), []
        if task.validated:
            self.scores = planned(
                validation, score_size(task.program, length(validation))
            )
        self.reader = ThreadPoolExecutor(1, initializer=_settings_of_this_thread())
        self.batches = self._all_batches(first)
        self.ahead: Any = self.reader.submit(next, self.batches, None)

    def __exit__(self, *_):
        self.reader.shutdown(cancel_futures=True)

    def __call__(self, state: State, fixed: Fixed, epoch) -> tuple[State, Metrics]:
        program, losses, scores = self.task.program, [], []
        static = Static(program, (_number(self.steps),))
        for piece in self.steps:
            place = (epoch, np.int64(piece.first))
            state, found = run_batches(static, state, fixed, self._next(), place)
            losses.append(
                _on_host(piece, found)
            )  # waits: no more than two pieces are held
        for piece in self.scores:
            found = score_batches(program, state.params, fixed, self._next())
            scores.append(_on_host(piece, found))
        lengths = (length(self.task.fixed.data), length(self.task.fixed.validation))
        static = Static(program, lengths)
        return finish(static, state, fixed, _joined(losses), _joined(scores))

    def _next(self) -> Batches:
        batches = self.ahead.result()
        self.ahead = self.reader.submit(next, self.batches, None)
        return batches

    def _all_batches(self, first: int) -> Iterator[Batches]:
        """Of each epoch from the first: those of its steps, then those of its scores."""
        fixed, program = self.task.fixed, self.task.program
        for epoch in range(first, int(fixed.epochs)):
            keys = epoch_keys(program, fixed, epoch, _number(self.steps))
            order = shuffled(keys[-1], length(fixed.data))
            for piece in self.steps:
                yield read(program.mesh, fixed.data, keys, piece, order)
            keys = score_keys(program, fixed, _number(self.scores))
            for piece in self.scores:
                yield read(program.mesh, fixed.validation, keys, piece)


def shuffled(key, n: int) -> np.ndarray:
    """`jax.random.permutation(key, n)`, in less memory and time for large n.

    That sorts by random bits, so often that equal ones do not matter. Here bits and places are one
    number each, which NumPy sorts fast.
    """
    order = np.arange(n, dtype=np.uint32)
    for _ in range(int(np.ceil(3 * np.log(max(n, 1)) / np.log(2**32 - 1)))):
        key, bits = jax.random.split(key)
        numbers = np.asarray(jax.random.bits(bits, (n,), "uint32")).astype(np.uint64)
        numbers <<= np.uint64(32)
        numbers |= np.arange(n, dtype=np.uint32)
        numbers.sort()
        numbers &= np.uint64(2**32 - 1)
        order = order[numbers.view(np.int64)]
    return order


def read(
    mesh: Mesh | None, tree, keys, piece: Piece, order: np.ndarray | None = None
) -> Batches:
    """The batches of a piece on their devices: in this order of rows, or as they lie."""
    first, number = piece.row, piece.count * piece.size
    rows = np.zeros(
        piece.room * piece.size, np.uint32
    )  # beyond the last batch any row will do
    rows[:number] = np.arange(first, first + number)
    if order is not None:
        rows[:number] = order[first : first + number]
    rows = rows.reshape(piece.room, piece.size)

    def placed(array) -> jax.Array:
        def own(index: Any) -> np.ndarray:  # of one device, on which it lies
            return gathered(array, rows[index[:2]])

        if mesh is None:
            return jnp.asarray(gathered(array, rows))
        shape = (*rows.shape, *array.shape[1:])
        return jax.make_array_from_callback(
            shape, sharding(mesh, piece.size, axis=1), own
        )

    numbers = np.asarray(jax.random.key_data(keys))
    numbers = numbers[np.minimum(piece.first + np.arange(piece.room), len(numbers) - 1)]
    return Batches(jax.tree.map(placed, tree), numbers, np.int32(piece.count))


@functools.partial(Compiled, donate=0)
def run_batches(static: Static, state: State, fixed: Fixed, batches: Batches, place):
    """The state after a step for each of these batches; losses and what was applied (room,)."""
    program, (total,) = static
    epoch, first = place

    def step(state: State, i):
        batch, key = _one(program, batches, i)
        return batch_step(program, state, fixed, batch, key, (epoch, first + i, total))

    return _replicated(program, _each(step, state, batches))


@Compiled
def score_batches(program: Program, params, fixed: Fixed, batches: Batches):
    """The loss of each of these batches (room,), alone in a tuple."""

    def score(_, i):
        return None, (score_of(program, params, fixed, *_one(program, batches, i)),)

    return _replicated(program, _each(score, None, batches)[1])


@functools.partial(Compiled, donate=0)
def finish(static: Static, state: State, fixed: Fixed, losses, scores):
    """The state at the end of the epoch and what it reports."""
    program, (n, score_n) = static
    steps = _parts(n, program.batch_size, losses)
    parts = _parts(score_n, score_size(program, score_n), scores) if score_n else None
    return _replicated(program, finished(program, state, state, fixed, steps, parts))


def _parts(n: int, size: int, found: tuple) -> list[Part]:
    """What all batches gave, the full ones and the tail apart."""
    steps, tail = divmod(n, size)
    full = [Part(size, *(x[:steps] for x in found))] if steps else []
    return [*full, Part(tail, *(x[steps] for x in found))] if tail else full


def _each(step: Callable, carry, batches: Batches):
    """`jax.lax.scan` over the batches that are there: the last carry, and what each step gave."""
    kinds = jax.eval_shape(step, carry, 0)[1]
    found = jax.tree.map(
        lambda x: jnp.zeros((len(batches.keys), *x.shape), x.dtype), kinds
    )

    def next_step(i, both):
        carry, one = step(both[0], i)
        return carry, jax.tree.map(lambda all_, x: all_.at[i].set(x), both[1], one)

    return jax.lax.fori_loop(0, batches.count, next_step, (carry, found))


def _one(program: Program, batches: Batches, i):
    """A batch and its key."""
    key = jax.random.wrap_key_data(jnp.asarray(batches.keys)[i], impl=program.key_type)
    return spread(program, jax.tree.map(lambda x: x[i], batches.rows)), key


def _replicated(program: Program, tree):
    if program.mesh is None:
        return tree
    return jax.lax.with_sharding_constraint(tree, sharding(program.mesh))


def _settings_of_this_thread() -> Callable[[], None]:
    """What gives another thread the settings that JAX keeps for each."""
    names = ("enable_x64", "default_device", "threefry_partitionable")
    values = {name: getattr(jax.config, f"jax_{name}") for name in names}

    def enter() -> None:
        for name, value in values.items():
            getattr(jax, name)(value).__enter__()

    return enter


def _number(pieces: list[Piece]) -> int:
    """Of all batches."""
    return sum(piece.count for piece in pieces)


def _on_host(piece: Piece, found: tuple) -> tuple:
    return tuple(to_host(x)[: piece.count] for x in found)


def _joined(found: list[tuple]) -> tuple:
    return tuple(np.concatenate(x) for x in zip(*found, strict=True))
