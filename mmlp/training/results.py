"""What `fit` returns and reports: results, epochs, and warnings about bad numbers."""

import dataclasses
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from mmlp.errors import CallWarning, NonFiniteError, NonFiniteWarning
from mmlp.training.arguments import Run, name_leaf
from mmlp.training.devices import to_host
from mmlp.training.epoch import (
    MAX_BAD_STEPS_IN_A_ROW,
    MAX_HALVINGS,
    Metrics,
    State,
)


class FitResult(NamedTuple):
    """The result of `fit` and `fit_many`.

    Parameters
    ----------
    model : same type as the model that was given
        The trained model. With validation data it has the weights of the epoch with the
        lowest validation loss, otherwise those of the last epoch.
    history : dict of np.ndarray
        Arrays of shape (n_epochs,), or (n_epochs, n_models) from `fit_many`:

        - `"loss"`, the mean loss of the applied steps of an epoch;
        - `"validation"`, the loss of the validation data, if there are any;
        - `"skipped"`, the number of steps that were not finite and not applied;
        - `"step_scale"`, 1, or less after a return to earlier weights.

    Examples
    --------
    >>> result = FitResult(model=None, history={"loss": np.array([2.0, 0.5])})
    >>> model, history = result
    >>> print(f"{history['loss'][-1]:.1f}")
    0.5
    """

    model: Any
    history: dict[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class EpochInfo:
    """The report of one epoch, which callbacks (`on_epoch`) receive.

    With `fit_many`, losses, steps and scales are arrays of shape (n_models,).

    Parameters
    ----------
    epoch : int
        The number of epochs done, from 1.
    epochs : int
        The number of epochs of the whole run.
    loss : float
        The mean loss of the applied steps; NaN if there were none.
    validation : float or None
        The loss of the validation data; None if there are none.
    skipped : int
        The number of steps that were not finite and not applied.
    step_scale : float
        1, or less after a return to earlier weights.
    model : callable
        `model()` returns a copy of the model as it is now. Call it inside the callback:
        the next epoch reuses the memory of the weights.

    Examples
    --------
    >>> def print_progress(info: EpochInfo) -> None:
    ...     print(f"epoch {info.epoch} of {info.epochs}: loss {info.loss:.3f}")
    >>> print_progress(EpochInfo(1, 10, 0.5, None, 0, 1.0, lambda: None))
    epoch 1 of 10: loss 0.500
    """

    epoch: int
    epochs: int
    loss: Any
    validation: Any
    skipped: Any
    step_scale: Any
    model: Callable[[], Any]


def make_history(run: Run, metrics: Metrics) -> dict[str, Any]:
    """Return the metrics of an epoch, or of many, under the names that users see."""
    history = {
        "loss": metrics.loss,
        "skipped": metrics.skipped.astype(int),
        "step_scale": metrics.step_scale,
    }
    if run.has_validation:
        history["validation"] = metrics.validation
    return history


def report_bad_steps(
    run: Run,
    state: State,
    epoch_metrics: list[Metrics],
    make_result: Callable[[], FitResult],
) -> None:
    """Warn of models that have returned to earlier weights in the last epoch.

    Raises
    ------
    NonFiniteError
        If all models have failed.
    """
    scale_before = epoch_metrics[-2].step_scale if len(epoch_metrics) > 1 else 1
    fell_back = np.atleast_1d(epoch_metrics[-1].step_scale < scale_before)
    if not np.any(fell_back):
        return

    failed = np.atleast_1d(to_host(state.failed))
    all_failed = bool(np.all(failed))
    texts = _describe_bad_steps(
        run, state, epoch_metrics, fell_back, all_failed=all_failed
    )
    problem = ". ".join(texts)
    if not all_failed:
        warn_caller(NonFiniteWarning(problem, call=run.call))
        return

    error = NonFiniteError(
        f"{problem}, also after {MAX_HALVINGS} returns to the last good weights with "
        "ever smaller steps",
        call=run.call,
        python_remedy="try a smaller learning rate in `optimizer`, `calibrate` the "
        "model on its inputs, scale the data to about one, or use float64 "
        "(`jax.config.update('jax_enable_x64', True)`). The last good model is in "
        "`.result` of this error",
    )
    error.result = make_result()
    raise error


def _describe_bad_steps(
    run: Run,
    state: State,
    epoch_metrics: list[Metrics],
    fell_back: np.ndarray,
    *,
    all_failed: bool,
) -> list[str]:
    """Describe what was not finite, once for all models to which the same happened."""
    culprit = np.atleast_1d(to_host(state.culprit))
    failed = np.atleast_1d(to_host(state.failed))
    step_scale = np.atleast_1d(epoch_metrics[-1].step_scale)
    models_by_case: dict[tuple, list[int]] = {}
    for model in np.flatnonzero(fell_back).tolist():
        case = (
            culprit[model].item(),
            failed[model].item(),
            step_scale[model].item(),
        )
        models_by_case.setdefault(case, []).append(model)

    leaves = jax.tree_util.tree_flatten_with_path(run.params)[0]
    names = [f"the gradient or step of {name_leaf(path)}" for path, _ in leaves]
    quantities = ["the loss", *names]

    texts = []
    for (index, has_failed, scale), models in models_by_case.items():
        owner = f" of {_list_models(models)}" if run.program.many else ""
        consequence = ""
        if not has_failed:
            consequence = (
                "; training returns to the last good weights and multiplies its steps "
                f"by {scale:.3g}"
            )
        elif not all_failed:
            subject = "they keep their" if len(models) > 1 else "it keeps its"
            consequence = f"; {subject} last good weights"
        texts.append(
            f"{quantities[index]}{owner} was not finite in {MAX_BAD_STEPS_IN_A_ROW} "
            f"steps in a row in epoch {len(epoch_metrics)}{consequence}"
        )
    return texts


def warn_if_nothing_was_learnt(run: Run, state: State, result: FitResult) -> None:
    """Warn of models with their initial weights, unless reported before as failed."""
    failed = to_host(state.failed)
    no_step = np.all(np.isnan(result.history["loss"]), axis=0) & ~failed
    if np.any(no_step):
        _warn_of_initial_weights(
            run, no_step, "no step was finite, and none was applied"
        )
    never_scored = run.has_validation & ~np.isfinite(to_host(state.best_validation))
    if np.any(never_scored):
        _warn_of_initial_weights(
            run,
            never_scored,
            "the loss on the validation data was not finite in any epoch",
        )


def _warn_of_initial_weights(run: Run, unchanged: np.ndarray, reason: str) -> None:
    owner = ""
    if run.program.many:
        owner = f" for {_list_models(np.flatnonzero(unchanged))}"
    subject = "the model has its" if np.sum(unchanged) == 1 else "the models have their"
    text = f"{reason}{owner}; {subject} initial weights"
    warn_caller(CallWarning(text, call=run.call))


def warn_caller(warning: Warning) -> None:
    """Issue a warning at the line that called `mmlp.training`."""
    level = 1
    frame = sys._getframe()
    while frame.f_back is not None:
        if not frame.f_globals["__name__"].startswith("mmlp.training."):
            break
        level += 1
        frame = frame.f_back
    warnings.warn(warning, stacklevel=level)


def _list_models(models: Sequence[int] | np.ndarray) -> str:
    noun = "models" if len(models) > 1 else "model"
    return f"{noun} {', '.join(str(model) for model in models)}"
