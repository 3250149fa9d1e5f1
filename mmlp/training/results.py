"""What a run tells its caller: results, epochs, and numbers that were not finite."""

import dataclasses
import sys
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from mmlp.errors import CallWarning, NonFiniteError, NonFiniteWarning
from mmlp.training.arguments import Task, named
from mmlp.training.devices import to_host
from mmlp.training.epoch import HALVINGS, IN_A_ROW
from mmlp.training.state import Metrics, State


class FitResult(NamedTuple):
    """A trained model and arrays over epochs: loss, validation, skipped (steps), step_scale."""

    model: Any
    history: dict[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class EpochInfo:
    """What `on_epoch` is told: `epoch` of `epochs` is done, with these values.

    `model()` is a copy of the model now; call it inside the callback, because the next epoch reuses
    the memory.
    """

    epoch: int
    epochs: int
    loss: Any
    validation: Any  # None without a validation set
    skipped: Any  # steps that were not finite
    step_scale: Any  # one, less after a return to earlier weights
    model: Callable[[], Any]


def values(task: Task, metrics: Metrics) -> dict[str, Any]:
    """What the user sees of the metrics of an epoch, or of many."""
    shown = {"loss": metrics.loss, "skipped": metrics.skipped.astype(int)}
    shown["step_scale"] = metrics.scale
    return shown | ({"validation": metrics.validation} if task.validated else {})


def trouble(task: Task, state: State, epochs: list[Metrics], result: Callable) -> None:
    """A warning that names the models whose step is smaller now, an error if all have failed."""
    now, before = epochs[-1].scale, epochs[-2].scale if epochs[1:] else 1
    if not np.any(now < before):
        return
    smaller, culprit, failed, scale = (
        np.atleast_1d(x)
        for x in (now < before, to_host(state.culprit), to_host(state.failed), now)
    )
    alike: dict[tuple, list[int]] = {}
    for model in np.flatnonzero(smaller).tolist():
        case = tuple(x[model].item() for x in (culprit, failed, scale))
        alike.setdefault(case, []).append(model)
    paths = jax.tree_util.tree_flatten_with_path(task.params)[0]
    quantities = [
        "the loss",
        *(f"the gradient or step of {named(path)}" for path, _ in paths),
    ]
    steps = f"was not finite in {IN_A_ROW} steps in a row in epoch {len(epochs)}"
    texts = []
    for (index, has_failed, size), models in alike.items():
        who = f" of {_listed(models)}" if task.program.many else ""
        then = "they rest at their" if len(models) > 1 else "it rests at its"
        then = f"; {then} last good weights"
        if not has_failed:
            then = f"; went back to the last good weights, with the step now {size:.3g} of its size"
        texts.append(
            f"{quantities[index]}{who} {steps}{'' if np.all(failed) else then}"
        )
    problem = ". ".join(texts)
    if not np.all(failed):
        warn(NonFiniteWarning(problem, call=task.name))
        return
    error = NonFiniteError(
        f"{problem}, also after going back to the last good weights with a smaller step, "
        f"{HALVINGS} times",
        call=task.name,
        python_remedy="try a smaller learning rate in `optimizer`, `calibrate` the model on "
        "its inputs, scale the data to about one, or use float64 "
        "(`jax.config.update('jax_enable_x64', True)`). The last good model is in `.result` "
        "of this error",
    )
    error.result = result()
    raise error


def nothing_learnt(task: Task, state: State, result: FitResult) -> None:
    """Warnings at the end of a run; a model that has failed has had its own."""
    idle = np.all(np.isnan(result.history["loss"]), axis=0) & ~to_host(state.failed)
    never = task.validated & ~np.isfinite(to_host(state.best_value))
    for where, what in (
        (idle, "no step at all was finite, and none was applied"),
        (never, "the loss on the validation data was not finite in any epoch"),
    ):
        if np.any(where):
            who = f" for {_listed(np.flatnonzero(where))}" if task.program.many else ""
            plural = (
                "the models are as they" if np.sum(where) > 1 else "the model is as it"
            )
            warn(CallWarning(f"{what}{who}; {plural} began", call=task.name))


def warn(warning: Warning) -> None:
    """Issue a warning at the line that called this package."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals["__name__"].startswith(
        "mmlp.training."
    ):
        level, frame = level + 1, frame.f_back
    warnings.warn(warning, stacklevel=level)


def _listed(models) -> str:
    return f"model{'s' if len(models) > 1 else ''} {', '.join(str(model) for model in models)}"
