"""The epochs of a run: start or resume, train, report, save, and stop when asked to."""

import contextlib
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
import numpy as np

from mmlp.training.arguments import Run
from mmlp.training.checkpoints import RunDirectory
from mmlp.training.devices import collect, max_over_processes, place
from mmlp.training.epoch import (
    Constants,
    Metrics,
    State,
    make_initial_state,
    run_epoch,
)
from mmlp.training.interrupts import Interrupts
from mmlp.training.progress import Progress
from mmlp.training.results import (
    EpochInfo,
    FitResult,
    make_history,
    report_bad_steps,
    warn_if_nothing_was_learnt,
)
from mmlp.training.streaming import StreamedEpochs


def train(
    run: Run,
    directory: RunDirectory | None,
    *,
    progress: bool | str,
    callbacks: Sequence[Callable[[EpochInfo], None]],
) -> FitResult:
    """Train until the last epoch, or until every model has stopped.

    Parameters
    ----------
    run : Run
    directory : RunDirectory, optional
        Where checkpoints are kept; the run resumes from the newest one.
    progress : bool or str
        Whether to show progress; a string is shown as the name of the run.
    callbacks : sequence of callables
        Called with an `EpochInfo` after each epoch.

    Returns
    -------
    FitResult

    Raises
    ------
    NonFiniteError
        If all models have failed.
    KeyboardInterrupt, SystemExit
        If a signal stopped a run that keeps checkpoints.
    """
    state = make_initial_state(run.program, run.params)
    epoch_metrics: list[Metrics] = []
    finished = False
    if directory is not None:
        state, epoch_metrics, finished = directory.restore(run.call, state)
    state, constants = _place_on_devices(run, state)

    def make_result() -> FitResult:
        params = state.best_params if run.has_validation else state.params
        history = make_history(run, Metrics.stack(epoch_metrics))
        return FitResult(_build_model(run, params), history)

    stop_signal = 0
    with (
        Progress(
            run.epochs, len(epoch_metrics), show=progress, patience=run.patience
        ) as bar,
        Interrupts(active=directory is not None) as interrupts,
        _open_epochs(run, state, constants, len(epoch_metrics)) as run_next_epoch,
    ):
        # While the first epoch compiles, a signal acts at once: nothing would be lost.
        if not _compiles_on_first_call(run_next_epoch):
            interrupts.begin_epochs()

        while not finished and not stop_signal:
            epoch = np.int32(len(epoch_metrics))
            state, metrics = run_next_epoch(state, constants, epoch)
            interrupts.begin_epochs()
            epoch_metrics.append(_copy_to_host(metrics))
            all_stopped = bool(np.all(epoch_metrics[-1].stopped))
            finished = all_stopped or len(epoch_metrics) == run.epochs

            report_bad_steps(run, state, epoch_metrics, make_result)
            info = _make_epoch_info(run, state, epoch_metrics)
            for callback in (bar.update, *callbacks):
                callback(info)

            stop_signal = max_over_processes(interrupts.received)
            if directory is None:
                continue
            if finished or stop_signal or directory.is_write_due():
                metrics = Metrics.stack(epoch_metrics)
                history = make_history(run, metrics)
                directory.write(state, metrics, history, finished=finished)

        if finished:
            bar.end(epoch_metrics)

    if directory is not None:
        # A signal may also have come in the last epoch, or while it was being saved.
        stop_signal = stop_signal or max_over_processes(interrupts.received)
        if stop_signal:
            _stop(
                stop_signal,
                _describe_stop(run, directory, epoch_metrics, finished=finished),
            )
    result = make_result()
    warn_if_nothing_was_learnt(run, state, result)
    return result


def compile_epoch(run: Run) -> None:
    """Compile what `train` would run, and run nothing."""
    state = make_initial_state(run.program, run.params)
    state, constants = _place_on_devices(run, state)
    arguments = (state, constants, np.int32(0))
    program: Any = run_epoch.program(run.program, *arguments)
    if _compiles_on_first_call(program):
        program.lower(*arguments).compile()


def _open_epochs(
    run: Run, state: State, constants: Constants, first_epoch: int
) -> contextlib.AbstractContextManager:
    """Return a context of a function (state, constants, epoch) -> (state, metrics)."""
    if run.is_streamed:
        return StreamedEpochs(run, first_epoch)
    program = run_epoch.program(run.program, state, constants, np.int32(0))
    return contextlib.nullcontext(program)


def _compiles_on_first_call(program: Any) -> bool:
    """Whether this is a function of `jax.jit`, not a compiled program."""
    return hasattr(program, "lower")


def _place_on_devices(run: Run, state: State) -> tuple[State, Constants]:
    """Put the arrays of a run on the devices; data in files stay there.

    If there are many models, the devices share them out.
    """
    mesh = run.program.mesh
    n_models = run.n_models
    constants = run.constants
    if run.is_streamed:
        constants = constants._replace(data=None, validation=None)

    has_rows = constants.rows is not None
    own_data = run.program.own_data
    own_validation = own_data or has_rows
    placed = Constants(
        frozen=place(mesh, constants.frozen, n_models),
        data=place(mesh, constants.data, n_models if own_data else None),
        validation=place(
            mesh, constants.validation, n_models if own_validation else None
        ),
        key_data=place(mesh, constants.key_data, n_models),
        rate=place(mesh, constants.rate, n_models),
        epochs=place(mesh, constants.epochs),
        patience=place(mesh, constants.patience),
        rows=place(mesh, constants.rows, n_models),
    )
    return place(mesh, state, n_models), placed


def _copy_to_host(metrics: Metrics) -> Metrics:
    """Return metrics as numbers or arrays of NumPy."""
    # All copies start before the first is awaited: one by one takes twice as long.
    for array in metrics:
        array.copy_to_host_async()
    return Metrics(*(np.array(array)[()] for array in metrics))


def _build_model(run: Run, params: Any) -> Any:
    return run.build_model(collect(run.program.mesh, params))


def _make_epoch_info(run: Run, state: State, epoch_metrics: list[Metrics]) -> EpochInfo:
    # The state itself must not be kept: the next epoch replaces it.
    params = state.params
    history = make_history(run, epoch_metrics[-1])
    return EpochInfo(
        epoch=len(epoch_metrics),
        epochs=run.epochs,
        loss=history["loss"],
        validation=history.get("validation"),
        skipped=history["skipped"],
        step_scale=history["step_scale"],
        model=lambda: _build_model(run, jax.tree.map(jnp.copy, params)),
    )


def _describe_stop(
    run: Run, directory: RunDirectory, epoch_metrics: list[Metrics], *, finished: bool
) -> str:
    remedy = "The same call or command resumes"
    if finished:
        remedy = (
            "The run is finished and saved; the same call or command returns its result"
        )
    return (
        f"Training stopped after epoch {len(epoch_metrics)} of {run.epochs}. {remedy} from "
        f"{directory.path}."
    )


def _stop(number: int, text: str) -> NoReturn:
    """End as the signal with this number asks for."""
    if number == signal.SIGINT:
        raise KeyboardInterrupt(text)
    # The exit status does not depend on whether anybody reads stderr.
    with contextlib.suppress(OSError):
        print(text, file=sys.stderr)
    raise SystemExit(128 + number)
