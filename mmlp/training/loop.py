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
    list_model_axes,
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
        ) as display,
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
            epoch_metrics.append(_fetch_metrics(metrics))
            all_stopped = bool(np.all(epoch_metrics[-1].stopped))
            finished = all_stopped or len(epoch_metrics) == run.epochs

            report_bad_steps(run, state, epoch_metrics, make_result)
            info = _make_epoch_info(run, state, epoch_metrics)
            for callback in (display.update, *callbacks):
                callback(info)

            stop_signal = max_over_processes(interrupts.received)
            if directory is None:
                continue
            if finished or stop_signal or directory.is_write_due():
                metrics = Metrics.stack(epoch_metrics)
                history = make_history(run, metrics)
                directory.write(state, metrics, history, finished=finished)

        if finished:
            display.end(epoch_metrics)

    if directory is not None:
        # A signal may also have come in the last epoch, or while it was being saved.
        stop_signal = stop_signal or max_over_processes(interrupts.received)
        if stop_signal:
            _raise_for_signal(
                stop_signal,
                _describe_stop(run, directory, epoch_metrics, finished=finished),
            )
    result = make_result()
    warn_if_nothing_was_learnt(run, state, result)
    return result


def compile_epoch(run: Run) -> None:
    """Compile the program that `train` would run, without running it."""
    state = make_initial_state(run.program, run.params)
    state, constants = _place_on_devices(run, state)
    arguments = (state, constants, np.int32(0))
    epoch_function: Any = run_epoch.program(run.program, *arguments)
    if _compiles_on_first_call(epoch_function):
        epoch_function.lower(*arguments).compile()


def _open_epochs(
    run: Run, state: State, constants: Constants, first_epoch: int
) -> contextlib.AbstractContextManager:
    """Return a context manager for the function that runs an epoch.

    Entering it gives a function (state, constants, epoch) -> (state, metrics).
    """
    if run.is_streamed:
        return StreamedEpochs(run, first_epoch)
    epoch_function = run_epoch.program(run.program, state, constants, np.int32(0))
    return contextlib.nullcontext(epoch_function)


def _compiles_on_first_call(epoch_function: Any) -> bool:
    """Whether this was made by `jax.jit`, which compiles when it is first called."""
    return hasattr(epoch_function, "lower")


def _place_on_devices(run: Run, state: State) -> tuple[State, Constants]:
    """Put the arrays of a run on the devices; data in files stay there.

    If there are many models, the devices share them out.
    """
    mesh = run.program.mesh
    n_models = run.n_models
    constants = run.constants
    if run.is_streamed:
        constants = constants._replace(data=None, validation=None)

    model_axes = list_model_axes(run.program, constants)
    placed = Constants(
        *(
            place(mesh, tree, n_models if axis == 0 else None)
            for tree, axis in zip(constants, model_axes, strict=True)
        )
    )
    return place(mesh, state, n_models), placed


def _fetch_metrics(metrics: Metrics) -> Metrics:
    """Copy metrics from the devices to NumPy numbers or arrays."""
    # All copies start before the first is awaited: one by one takes twice as long.
    for array in metrics:
        array.copy_to_host_async()
    return Metrics(*(np.array(array)[()] for array in metrics))


def _build_model(run: Run, params: Any) -> Any:
    """Return the model with weights that may lie on several devices."""
    return run.build_model(collect(run.program.mesh, params))


def _make_epoch_info(run: Run, state: State, epoch_metrics: list[Metrics]) -> EpochInfo:
    """Report the last epoch; its `model()` keeps the weights, not the whole state."""
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
    """Describe where a signal stopped the run, and what the same call does next."""
    next_call = "The same call or command resumes"
    if finished:
        next_call = (
            "The run is finished and saved; the same call or command returns its result"
        )
    return (
        f"Training stopped after epoch {len(epoch_metrics)} of {run.epochs}. "
        f"{next_call} from {directory.path}."
    )


def _raise_for_signal(number: int, text: str) -> NoReturn:
    """Raise KeyboardInterrupt for SIGINT, and exit for any other signal."""
    if number == signal.SIGINT:
        raise KeyboardInterrupt(text)
    # The exit status does not depend on whether anybody reads stderr.
    with contextlib.suppress(OSError):
        print(text, file=sys.stderr)
    raise SystemExit(128 + number)
