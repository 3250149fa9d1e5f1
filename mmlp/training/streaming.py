"""An epoch on data that stay in files.

A thread reads the next chunk of batches while the present one is in use. Steps, keys
and the order of rows are those of `epoch.run_epoch`, and results are equal up to
rounding. A run on files that is interrupted and resumed gives the same result, bit for
bit, as one that is not interrupted. With several processes, each reads only the rows of
its own devices.
"""

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from mmlp.compilation import Compiled
from mmlp.training.arguments import Run
from mmlp.training.data import Chunk, count_rows, plan_chunks, read_rows
from mmlp.training.devices import make_sharding, to_host
from mmlp.training.epoch import (
    BatchLosses,
    Constants,
    Metrics,
    Program,
    State,
    choose_validation_batch_size,
    compute_progress,
    finish_epoch,
    make_epoch_keys,
    make_validation_keys,
    score_batch,
    spread_batch,
    take_step,
)

# Settings that JAX keeps for each thread and that the reading thread needs, too.
THREAD_SETTINGS = ("enable_x64", "default_device", "threefry_partitionable")


@dataclasses.dataclass(frozen=True)
class StreamedProgram:
    """What is compiled for data in files.

    Parameters
    ----------
    program : Program
    n_rows, n_validation_rows : int
        Rows of the data and of the validation data, 0 if there are none.
    """

    program: Program
    n_rows: int
    n_validation_rows: int

    @property
    def effort(self) -> str:
        """How hard to compile: as hard as `run_epoch`, to round alike."""
        return self.program.effort

    @property
    def n_steps(self) -> int:
        """Number of steps of an epoch."""
        return -(-self.n_rows // self.program.batch_size)


class Batches(NamedTuple):
    """The batches of a chunk on their devices."""

    rows: Any  # arrays of shape (capacity, batch_size, ...)
    key_data: np.ndarray  # (capacity, ...)
    n_batches: Any  # later batches are padding, and not used


class StreamedEpochs(contextlib.AbstractContextManager):
    """Runs epochs on data in files; called like `run_epoch` without the program.

    Parameters
    ----------
    run : Run
    first_epoch : int
        The epoch of the first call; later calls are those of the next epochs.
    """

    def __init__(self, run: Run, first_epoch: int):
        self.run = run
        data = run.constants.data
        validation = run.constants.validation
        self.streamed = StreamedProgram(
            run.program, count_rows(data), count_rows(validation)
        )
        self.chunks = plan_chunks(data, run.program.batch_size)
        self.validation_chunks: list[Chunk] = []
        if run.has_validation:
            n_rows = self.streamed.n_validation_rows
            size = choose_validation_batch_size(run.program, n_rows)
            self.validation_chunks = plan_chunks(validation, size)

        self.thread = ThreadPoolExecutor(1, initializer=_make_thread_initializer())
        self.batch_reader = self._read_all_batches(first_epoch)
        self.pending_batches = self._start_reading()

    def __exit__(self, *_: object) -> None:
        self.thread.shutdown(cancel_futures=True)

    def __call__(
        self, state: State, constants: Constants, epoch: Any
    ) -> tuple[State, Metrics]:
        losses = []
        for chunk in self.chunks:
            first = np.int64(chunk.first_batch)
            batches = self._take_batches()
            state, report = run_batches(
                self.streamed, state, constants, batches, epoch, first
            )
            # Waits for the steps, so that no more than two chunks are in memory.
            losses.append(_fetch_report(chunk, report))

        scores = []
        for chunk in self.validation_chunks:
            batches = self._take_batches()
            report = score_batches(self.streamed, state.params, constants, batches)
            scores.append(_fetch_report(chunk, report))

        return finish_streamed_epoch(
            self.streamed, state, constants, _concatenate(losses), _concatenate(scores)
        )

    def _take_batches(self) -> Batches:
        """Return the next batches, and start to read those after them."""
        batches = self.pending_batches.result()
        self.pending_batches = self._start_reading()
        return batches

    def _start_reading(self) -> "Future[Any]":
        """Read the next batches in the thread; None after those of the last epoch."""
        return self.thread.submit(next, self.batch_reader, None)

    def _read_all_batches(self, first_epoch: int) -> Iterator[Batches]:
        """Yield the batches of all epochs: those to train on, then those to score."""
        program = self.run.program
        constants = self.run.constants
        n_validation_batches = sum(chunk.n_batches for chunk in self.validation_chunks)
        for epoch in range(first_epoch, self.run.epochs):
            keys = make_epoch_keys(program, constants, epoch, self.streamed.n_steps)
            order = permute_rows(keys[-1], self.streamed.n_rows)
            for chunk in self.chunks:
                yield read_batches(program.mesh, constants.data, keys, chunk, order)

            keys = make_validation_keys(program, constants, n_validation_batches)
            in_order = np.arange(self.streamed.n_validation_rows)
            for chunk in self.validation_chunks:
                yield read_batches(
                    program.mesh, constants.validation, keys, chunk, in_order
                )


def permute_rows(key: jax.Array, n_rows: int) -> np.ndarray:
    """Return `jax.random.permutation(key, n_rows)`, faster and in less memory.

    JAX sorts by random 32-bit numbers, often enough that ties do not matter. Here each
    random number and its row are one 64-bit integer, which NumPy sorts fast.
    """
    # The number of sorts is that of JAX, and has to be: it decides the order.
    n_sorts = int(np.ceil(3 * np.log(max(n_rows, 1)) / np.log(2**32 - 1)))
    order = np.arange(n_rows, dtype=np.uint32)
    for _ in range(n_sorts):
        key, bits_key = jax.random.split(key)
        bits = jax.random.bits(bits_key, (n_rows,), "uint32")
        numbers = np.asarray(bits).astype(np.uint64)
        numbers <<= np.uint64(32)
        numbers |= np.arange(n_rows, dtype=np.uint32)
        numbers.sort()
        numbers &= np.uint64(2**32 - 1)
        order = order[numbers.view(np.int64)]
    return order


def read_batches(
    mesh: Mesh | None, tree: Any, keys: jax.Array, chunk: Chunk, order: np.ndarray
) -> Batches:
    """Read the batches of a chunk onto their devices.

    Parameters
    ----------
    mesh : Mesh, optional
        The devices, if there are several.
    tree : tree of arrays and MappedArrays
    keys : array of keys
        At least one for each batch of the epoch.
    chunk : Chunk
    order : array of shape (n_rows,)
        Indices of all rows in the order of the epoch.
    """
    # Batches beyond the last one are padding: they hold row 0.
    rows = np.zeros(chunk.capacity * chunk.batch_size, np.uint32)
    n_rows = chunk.n_batches * chunk.batch_size
    rows[:n_rows] = order[chunk.first_row : chunk.first_row + n_rows]
    rows = rows.reshape(chunk.capacity, chunk.batch_size)

    def read_and_place(array: Any) -> jax.Array:
        if mesh is None:
            return jnp.asarray(read_rows(array, rows))

        def read_shard(index: Any) -> np.ndarray:
            return read_rows(array, rows[index[:2]])

        shape = (*rows.shape, *array.shape[1:])
        sharding = make_sharding(mesh, chunk.batch_size, axis=1)
        return jax.make_array_from_callback(shape, sharding, read_shard)

    key_data = np.asarray(jax.random.key_data(keys))
    indices = chunk.first_batch + np.arange(chunk.capacity)
    return Batches(
        rows=jax.tree.map(read_and_place, tree),
        key_data=key_data[np.minimum(indices, len(key_data) - 1)],
        n_batches=np.int32(chunk.n_batches),
    )


@functools.partial(Compiled, donate=0)
def run_batches(
    streamed: StreamedProgram,
    state: State,
    constants: Constants,
    batches: Batches,
    epoch: Any,
    first_step: Any,
) -> tuple[State, tuple]:
    """Take a step for each batch; return the state and (losses, applied)."""
    program = streamed.program

    def step(state: State, i: Any) -> tuple[State, tuple]:
        batch, key = _pick_batch(program, batches, i)
        t = compute_progress(constants, state, epoch, first_step + i, streamed.n_steps)
        return take_step(program, state, constants, batch, key, t)

    return _replicate(program, _loop_over_batches(step, state, batches))


@Compiled
def score_batches(
    streamed: StreamedProgram, params: Any, constants: Constants, batches: Batches
) -> tuple:
    """Return a tuple of one array, the loss of each batch, of shape (capacity,)."""
    program = streamed.program

    def score(_: None, i: Any) -> tuple[None, tuple]:
        batch, key = _pick_batch(program, batches, i)
        return None, (score_batch(program, params, constants, batch, key),)

    _, scores = _loop_over_batches(score, None, batches)
    return _replicate(program, scores)


@functools.partial(Compiled, donate=0)
def finish_streamed_epoch(
    streamed: StreamedProgram,
    state: State,
    constants: Constants,
    losses: tuple,
    scores: tuple,
) -> tuple[State, Metrics]:
    """Return the state and the metrics at the end of an epoch."""
    program = streamed.program
    parts = _group_by_size(streamed.n_rows, program.batch_size, losses)
    score_parts = None
    if streamed.n_validation_rows:
        size = choose_validation_batch_size(program, streamed.n_validation_rows)
        score_parts = _group_by_size(streamed.n_validation_rows, size, scores)
    # The state before the epoch matters only for many models, which are not streamed.
    finished = finish_epoch(program, state, state, constants, parts, score_parts)
    return _replicate(program, finished)


def _group_by_size(n_rows: int, batch_size: int, reports: tuple) -> list[BatchLosses]:
    """Separate the losses of full batches from that of the last, smaller one."""
    n_full, n_left = divmod(n_rows, batch_size)
    groups = []
    if n_full:
        groups.append(BatchLosses(batch_size, *(x[:n_full] for x in reports)))
    if n_left:
        groups.append(BatchLosses(n_left, *(x[n_full] for x in reports)))
    return groups


def _loop_over_batches(step: Callable, carry: Any, batches: Batches) -> tuple:
    """Apply `step` to each batch in turn, as `jax.lax.scan` does.

    The number of batches is not static, so that chunks share a compiled program.
    """
    report_types = jax.eval_shape(step, carry, 0)[1]
    capacity = len(batches.key_data)
    reports = jax.tree.map(
        lambda x: jnp.zeros((capacity, *x.shape), x.dtype), report_types
    )

    def take_next(i: Any, carry_and_reports: tuple) -> tuple:
        carry, reports = carry_and_reports
        carry, report = step(carry, i)
        reports = jax.tree.map(lambda stored, x: stored.at[i].set(x), reports, report)
        return carry, reports

    return jax.lax.fori_loop(0, batches.n_batches, take_next, (carry, reports))


def _pick_batch(program: Program, batches: Batches, i: Any) -> tuple[Any, jax.Array]:
    """Return a batch and its key."""
    key_data = jnp.asarray(batches.key_data)[i]
    key = jax.random.wrap_key_data(key_data, impl=program.key_impl)
    batch = jax.tree.map(lambda x: x[i], batches.rows)
    return spread_batch(program, batch), key


def _replicate(program: Program, tree: Any) -> Any:
    """Let each device have a copy of all arrays of a tree."""
    if program.mesh is None:
        return tree
    return jax.lax.with_sharding_constraint(tree, make_sharding(program.mesh))


def _make_thread_initializer() -> Callable[[], None]:
    """Return a function that gives another thread the JAX settings of this one."""
    values = {name: getattr(jax.config, f"jax_{name}") for name in THREAD_SETTINGS}

    def apply_settings() -> None:
        for name, value in values.items():
            # It is never left: the setting holds as long as the thread lives.
            getattr(jax, name)(value).__enter__()

    return apply_settings


def _fetch_report(chunk: Chunk, report: tuple) -> tuple:
    """Copy the report of a chunk to NumPy arrays, without its padding."""
    return tuple(to_host(x)[: chunk.n_batches] for x in report)


def _concatenate(reports: list[tuple]) -> tuple:
    """Join the reports of chunks, each a tuple of arrays."""
    return tuple(np.concatenate(arrays) for arrays in zip(*reports, strict=True))
