"""The epochs of a run: begin or resume, one after the other, report, save, stop when asked to."""

import contextlib
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
import numpy as np

from mmlp.training.arguments import Fixed, Task
from mmlp.training.checkpoints import RunDirectory
from mmlp.training.devices import largest_of_processes, local, placed
from mmlp.training.epoch import run_epoch
from mmlp.training.interrupts import Interrupts
from mmlp.training.longer import as_left
from mmlp.training.progress import Progress
from mmlp.training.results import EpochInfo, FitResult, nothing_learnt, trouble, values
from mmlp.training.state import Metrics, State, first_state
from mmlp.training.streaming import Stream


def train(
    task: Task,
    run: RunDirectory | None,
    *,
    progress: bool | str,
    on_epoch: Sequence[Callable],
) -> FitResult:
    """Epoch after epoch until the last one, or until every model has stopped."""
    epochs, done, finished, stop = int(task.fixed.epochs), [], False, 0
    state = first_state(task.program, task.params)
    if run is not None:
        state, done, _ = run.resumed(task.name, state)
        state, done, finished = as_left(task, state, done)
    state, fixed = _placed(task, state)

    def result() -> FitResult:
        weights = state.best if task.validated else state.params
        return FitResult(_model(task, weights), values(task, Metrics.stacked(done)))

    with (
        Progress(epochs, len(done), show=progress, patience=task.patience) as bar,
        Interrupts(active=run is not None) as interrupts,
        _epochs(task, state, fixed, len(done)) as next_epoch,
    ):
        if not hasattr(next_epoch, "lower"):  # otherwise the first call compiles
            interrupts.begin_epochs()
        while not finished and not stop:
            state, metrics = next_epoch(state, fixed, np.int32(len(done)))
            interrupts.begin_epochs()
            done.append(_on_host(metrics))
            trouble(task, state, done, result)
            info = _info(task, state, done)
            for watch in (bar.update, *on_epoch):
                watch(info)
            finished = len(done) == epochs or bool(np.all(done[-1].stopped))
            stop = largest_of_processes(interrupts.received)
            if run is not None and (finished or stop or run.due()):
                metrics = Metrics.stacked(done)
                run.write(state, metrics, values(task, metrics), finished=finished)
        if finished:
            bar.end(done)
    # a signal may have come in the last epoch, or while it was being saved
    if run is not None and (stop := stop or largest_of_processes(interrupts.received)):
        remedy = "The same call or command resumes"
        if finished:
            remedy = "The run is finished and saved; the same call or command returns its result"
        ended = f"Training stopped after epoch {len(done)} of {epochs}."
        _stop(stop, f"{ended} {remedy} from {run.path}.")
    outcome = result()
    nothing_learnt(task, state, outcome)
    return outcome


def _epochs(task: Task, state: State, fixed: Fixed, first: int):
    """What runs one epoch after the other, as long as it is open."""
    if task.streamed:
        return Stream(task, first)
    return contextlib.nullcontext(
        run_epoch.program(task.program, state, fixed, np.int32(0))
    )


def compile_epoch(task: Task) -> None:
    """What `train` would run."""
    state, fixed = _placed(task, first_state(task.program, task.params))
    arguments = (state, fixed, np.int32(0))
    program: Any = run_epoch.program(task.program, *arguments)
    if hasattr(program, "lower"):  # or it was compiled before
        program.lower(*arguments).compile()


def _placed(task: Task, state: State) -> tuple[State, Fixed]:
    """The arrays of a run on the device or devices; what each model has of its own is spread."""
    program, fixed = task.program, task.fixed._asdict()
    if task.streamed:
        fixed |= {"data": None, "validation": None}
    models = len(task.fixed.key) if program.many else None
    own = (
        "frozen",
        "key",
        "rate",
        "rows",
        *(("validation",) if program.own_data else ()),
    )
    own += ("data",) if program.own_data and task.fixed.rows is None else ()
    for name, tree in fixed.items():
        fixed[name] = placed(program.mesh, tree, models if name in own else None)
    return placed(program.mesh, state, models), Fixed(**fixed)


def _on_host(metrics: Metrics) -> Metrics:
    """As NumPy's numbers or arrays. All set out together: one by one they take twice as long."""
    for x in metrics:
        x.copy_to_host_async()
    return Metrics(*(np.array(x)[()] for x in metrics))


def _model(task: Task, weights):
    return task.model(local(task.program.mesh, weights))


def _info(task: Task, state: State, done: list[Metrics]) -> EpochInfo:
    weights = state.params  # not `state`, of which the next epoch makes another
    return EpochInfo(
        epoch=len(done),
        epochs=int(task.fixed.epochs),
        model=lambda: _model(task, jax.tree.map(jnp.copy, weights)),
        **{"validation": None, **values(task, done[-1])},
    )


def _stop(number: int, text: str) -> NoReturn:
    if number == signal.SIGINT:
        raise KeyboardInterrupt(text)
    with contextlib.suppress(
        OSError
    ):  # whether or not someone reads it, the status is the same
        print(text, file=sys.stderr)
    raise SystemExit(128 + number)
