"""`fit` trains anything: a model, a loss, data. `fit_many` trains many models at once, in one compiled program.

    fit(model, loss, data, key=key, epochs=100, batch_size=50) -> FitResult(model, history)

The loss is a function `loss(model, batch, key, t)`: the mean over a batch of the data, with a random key of its own and
t in [0, 1], how far training is. An epoch is one call of a compiled program (`_epoch.py`), and a second `fit` with the same
loss, optimiser and shapes does not compile again.
"""

import dataclasses
import signal
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from mmlp.checkpoint.files import check_dtypes
from mmlp.linalg.checks import checked_size
from mmlp.training import epoch as _epoch
from mmlp.training.devices import all_devices, largest_of_processes, local, placed, to_host
from mmlp.training.inputs import (
    check_alike,
    check_callables,
    check_stacked,
    checked_data,
    checked_key,
    checked_model,
    checked_rates,
)
from mmlp.training.optimizers import default_optimizer
from mmlp.training.progress import Interrupts, Progress
from mmlp.training.runs import RunDirectory, fingerprint


class FitResult(NamedTuple):
    """A trained model and its `history`: arrays over epochs `loss`, `validation`, `skipped` (steps), `step_scale`."""

    model: Any
    history: dict[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class EpochInfo:
    """What `on_epoch` is told: `epoch` of `epochs` is done, with these values.

    `model()` is a copy of the model now; call it inside the callback, because the next epoch reuses the memory.
    """

    epoch: int
    epochs: int
    loss: Any
    validation: Any  # None without a validation set
    skipped: Any  # steps that were not finite
    step_scale: Any  # one, less after a return to earlier weights
    model: Callable[[], Any]


class NonFiniteError(FloatingPointError):
    """Training failed on numbers that are not finite; `result` holds the last good model and the history."""

    result: FitResult


def fit(
    model,
    loss: Callable,
    data,
    *,
    key,
    epochs: int,
    batch_size: int,
    optimizer: optax.GradientTransformation | None = None,
    validation=None,
    patience: int | None = None,
    checkpoint=None,
    resume: bool = True,
    progress: bool = True,
    on_epoch: Sequence[Callable[[EpochInfo], None]] = (),
) -> FitResult:
    """Train `model` to make the mean of `loss(model, batch, key, t)` over `data` small.

    `data` is any tree of arrays with a common first axis (`Gram`s too). With `validation`, data of the same form, the
    weights of the best epoch are returned, and after `patience` epochs without a better one training ends. `checkpoint`
    is a directory: the same call goes on from where it was interrupted, with the same result bit for bit. Another call is
    refused: data, model, key and every number in the compiled loss and optimiser count. Not seen is what they compute
    outside of it: Python code behind `jax.pure_callback` or `io_callback`, and the files that it reads. Steps that are not
    finite are left out and counted; if they persist, training goes back with a smaller step, or raises `NonFiniteError`.
    With several devices each batch is spread over them.

    >>> import equinox as eqx
    >>> X = jax.random.normal(jax.random.key(0), (32, 2))
    >>> y = X @ jnp.array([1.0, -2.0])
    >>> def loss(model, batch, key, t):
    ...     return jnp.mean((jax.vmap(model)(batch[0])[:, 0] - batch[1]) ** 2)
    >>> model = eqx.nn.Linear(2, 1, key=jax.random.key(1))
    >>> result = fit(model, loss, (X, y), key=jax.random.key(2), epochs=30, batch_size=8, optimizer=optax.adam(0.1))
    >>> result.history["loss"].shape, bool(result.history["loss"][-1] < 0.01)
    ((30,), True)
    """
    call = _Call("fit", False, epochs, batch_size, patience, checkpoint, resume, progress, on_epoch)
    return _train(call, model, loss, data, key, optimizer, validation)


def fit_many(
    models,
    loss: Callable,
    data,
    *,
    keys,
    epochs: int,
    batch_size: int,
    optimizer: optax.GradientTransformation | None = None,
    validation=None,
    patience: int | None = None,
    checkpoint=None,
    resume: bool = True,
    progress: bool = True,
    on_epoch: Sequence[Callable[[EpochInfo], None]] = (),
    rates=None,
    own_data: bool = False,
) -> FitResult:
    """`fit` for many models at once: every array of `models` and `keys` has a leading axis of models.

    Each model is trained as `fit` would with its key, up to rounding, on the same data in an order of its own, and stops on
    its own; history arrays are (epochs, models), NaN where a model had stopped. A model that fails rests at its last good
    weights, with a warning; an error is raised when all have failed. Several devices share out the models. `rates`
    (models,) multiply the steps of each model, to try learning rates. With `own_data` the arrays of `data` and
    `validation` have a leading axis of models too: each has its own split, say, of the same size.

    >>> import equinox as eqx
    >>> keys = jax.random.split(jax.random.key(0), 3)
    >>> models = eqx.filter_vmap(lambda key: eqx.nn.Linear(2, 1, key=key))(keys)
    >>> def loss(model, batch, key, t):
    ...     return jnp.mean(jax.vmap(model)(batch) ** 2)
    >>> result = fit_many(models, loss, jnp.ones((8, 2)), keys=keys, epochs=2, batch_size=4)
    >>> result.history["loss"].shape
    (2, 3)
    """
    call = _Call(
        "fit_many",
        True,
        epochs,
        batch_size,
        patience,
        checkpoint,
        resume,
        progress,
        on_epoch,
        rates,
        own_data,
    )
    return _train(call, models, loss, data, keys, optimizer, validation)


class _Call(NamedTuple):
    name: str
    many: bool
    epochs: int
    batch_size: int
    patience: int | None
    checkpoint: Any
    resume: bool
    progress: bool
    on_epoch: Sequence[Callable]
    rates: Any = None
    own_data: bool = False


def _train(call: _Call, model, loss, data, key, optimizer, validation) -> FitResult:
    model, data, key, key_type, validation = _checked(
        call, model, loss, data, key, optimizer, validation
    )
    if optimizer is None:
        n = jax.tree.leaves(data)[0].shape[int(call.own_data)]
        optimizer = default_optimizer(call.epochs * -(-n // call.batch_size))
    static = _epoch.split(model)[2]
    program = _epoch.Program(
        loss, optimizer, static, call.batch_size, key_type, call.many, all_devices(), call.own_data
    )
    rate = checked_rates(call.rates, len(key)) if call.many else np.float32(1)
    if call.checkpoint is None:
        return _run(call, program, model, data, key, rate, validation, None)
    numbers = {
        "epochs": call.epochs,
        "batch_size": call.batch_size,
        "patience": call.patience,
        "rates": rate.tolist(),
    }
    known = fingerprint(program, model, data, validation, key, **numbers)
    with RunDirectory(call.checkpoint, known, writes=jax.process_index() == 0) as run:
        return _run(call, program, model, data, key, rate, validation, run)


def _run(
    call: _Call,
    program: _epoch.Program,
    model,
    data,
    key,
    rate,
    validation,
    run: RunDirectory | None,
) -> FitResult:
    params, frozen, static = _epoch.split(model)
    mesh, optimizer, validated = program.mesh, program.optimizer, validation is not None
    state = (jax.vmap(_epoch.first_state, in_axes=(0, None)) if call.many else _epoch.first_state)(
        params, optimizer
    )
    rows, finished = [], False
    if run is not None:
        state, rows, finished = _resumed(call, run, state)
    count = len(key) if call.many else None
    state, frozen, key, rate = placed(mesh, (state, frozen, key, rate), count)
    data, validation = placed(mesh, (data, validation), count if call.own_data else None)

    def model_of(weights):
        return _epoch.join(local(mesh, weights), local(mesh, frozen), static)

    def result():
        return FitResult(
            model_of(state.best if validated else state.params), _history(rows, validated)
        )

    fixed = (frozen, data, validation, key, rate)
    run_epoch = _epoch.compiled.program(program, state, *fixed)
    with (
        Progress(call.epochs, len(rows), show=call.progress) as bar,
        Interrupts(active=run is not None) as interrupts,
    ):
        while not finished:
            numbers = (
                np.int32(x)
                for x in (len(rows), call.epochs, call.patience or np.iinfo(np.int32).max)
            )
            state, metrics = run_epoch(state, *fixed, *numbers)
            rows.append(np.asarray(metrics))
            now = _columns(rows[-1])
            _report_trouble(
                call, now, _columns(rows[-2]) if rows[1:] else None, params, len(rows), result
            )
            info = EpochInfo(
                epoch=len(rows),
                epochs=call.epochs,
                loss=now.loss,
                validation=now.validation if validated else None,
                skipped=now.skipped.astype(int),
                step_scale=now.scale,
                model=lambda weights=state.params: model_of(jax.tree.map(jnp.copy, weights)),
            )
            bar.update(info)
            for callback in call.on_epoch:
                callback(info)
            finished = len(rows) == call.epochs or bool(np.all(now.stopped))
            stop = largest_of_processes(interrupts.received or 0)
            if run is not None and (finished or stop or run.due()):
                run.write(
                    len(rows),
                    _named(state, rows, key),
                    _history(rows, validated),
                    finished=finished,
                )
            if stop and not finished:
                _stop(call, stop, len(rows), f"The same call goes on from {call.checkpoint}.")
    if stop := largest_of_processes(
        interrupts.received or 0
    ):  # in the last epoch, or while it was being saved
        _stop(
            call,
            stop,
            len(rows),
            f"The run is finished and saved; the same call returns its result from {call.checkpoint}.",
        )
    outcome = result()
    best_value = to_host(state.best_value) if validated else None
    _report_nothing_learnt(call, outcome.history, _columns(rows[-1]).failed, best_value)
    return outcome


def _checked(call: _Call, model, loss, data, key, optimizer, validation):
    for name in ("epochs", "batch_size"):
        checked_size(getattr(call, name), f"{call.name}({name}=...)")
    check_callables(call.name, loss, optimizer, call.on_epoch)
    model = checked_model(model, call.name)
    key, key_type = checked_key(
        key, f"{call.name}({'keys' if call.many else 'key'}=...)", many=call.many
    )
    if call.many:
        check_stacked(model, len(key))
    models = len(key) if call.own_data else None
    data = checked_data(data, f"{call.name}(data=...)", models)
    if validation is not None:
        validation = checked_data(validation, f"{call.name}(validation=...)", models)
        check_alike(data, validation, f"{call.name}(validation=...)", 2 if call.own_data else 1)
    if call.patience is not None:
        checked_size(call.patience, f"{call.name}(patience=...)")
        if validation is None:
            raise ValueError(
                f"`{call.name}(patience={call.patience})` needs `validation` data to judge by."
            )
    return model, data, key, key_type, validation


def _columns(row: np.ndarray) -> _epoch.Metrics:
    return _epoch.Metrics(*np.moveaxis(row, -1, 0))


def _history(rows: list[np.ndarray], validated: bool) -> dict[str, np.ndarray]:
    columns = _columns(np.asarray(rows))
    history = {
        "loss": columns.loss,
        "skipped": columns.skipped.astype(int),
        "step_scale": columns.scale,
    }
    return history | ({"validation": columns.validation} if validated else {})


def _report_trouble(call: _Call, now, before, params, epoch: int, result) -> None:
    """A warning that names the models whose step was made smaller, an error when all models have failed."""
    scale = np.ones_like(now.scale) if before is None else before.scale
    smaller = np.atleast_1d(now.scale < scale)
    if not smaller.any():
        return
    failed, scale, culprit = (np.atleast_1d(x) for x in (now.failed > 0, now.scale, now.culprit))
    alike = {}
    for model in np.flatnonzero(smaller):
        alike.setdefault(
            (int(culprit[model]), bool(failed[model]), float(scale[model])), []
        ).append(model)
    texts = []
    for (index, has_failed, size), models in alike.items():
        who = f" of {_listed(models)}" if call.many else ""
        text = f"{_epoch.quantities(params)[index]}{who} was not finite in {_epoch.IN_A_ROW} steps in a row in epoch {epoch}"
        if np.all(failed):
            texts.append(text)
        elif has_failed:
            texts.append(
                f"{text}; {'they rest at their' if len(models) > 1 else 'it rests at its'} last good weights"
            )
        else:
            texts.append(
                f"{text}; went back to the last good weights, with the step now {size:.3g} of its size"
            )
    what = f"`{call.name}`: {'. '.join(texts)}"
    if np.all(failed):
        error = NonFiniteError(
            f"{what}, also after going back to the last good weights with a smaller step, {_epoch.HALVINGS} times. Try a "
            "smaller learning rate in `optimizer`, `calibrate` the model on its inputs, scale the data to about one, or use "
            "float64 (`jax.config.update('jax_enable_x64', True)`). The last good model is in `.result` of this error."
        )
        error.result = result()
        raise error
    warnings.warn(what, RuntimeWarning, stacklevel=5)


def _report_nothing_learnt(
    call: _Call, history: dict[str, np.ndarray], failed, best_value: np.ndarray | None
) -> None:
    """Warnings at the end of a run; a model that has failed has had its own."""
    idle = np.atleast_1d(np.all(np.isnan(history["loss"]), axis=0) & (failed == 0))
    never = np.zeros_like(idle) if best_value is None else np.atleast_1d(~np.isfinite(best_value))
    for where, what in (
        (idle, f"`{call.name}`: no step at all was finite, and none was applied"),
        (never, f"`{call.name}(validation=...)` was not finite in any epoch"),
    ):
        if where.any():
            who = f" for {_listed(np.flatnonzero(where))}" if call.many else ""
            plural = "the models are as they" if np.sum(where) > 1 else "the model is as it"
            warnings.warn(f"{what}{who}; {plural} began.", stacklevel=5)


def _listed(models) -> str:
    return f"model{'s' if len(models) > 1 else ''} {', '.join(str(model) for model in models)}"


# -- interruption -----------------------------------------------------------------------------------------------------


def _named(state: _epoch.State, rows: list[np.ndarray], key) -> dict[str, np.ndarray]:
    """What a checkpoint holds, each array by its path."""
    leaves = jax.tree_util.tree_flatten_with_path(state)[0]
    arrays = {f"state{jax.tree_util.keystr(path)}": to_host(_plain(leaf)) for path, leaf in leaves}
    return arrays | {"metrics": np.asarray(rows), "key": to_host(key)}


def _plain(leaf):
    return jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf


def _as(leaf, array: np.ndarray) -> jax.Array:
    """The inverse of `_plain`, for a leaf like this one."""
    is_key = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    values = jnp.array(array)
    return jax.random.wrap_key_data(values, impl=jax.random.key_impl(leaf)) if is_key else values


def _resumed(call: _Call, run: RunDirectory, state: _epoch.State):
    """(state, rows, finished) as the run left them, or as a new one begins."""
    wanted = _named(state, [], ())
    check_dtypes(wanted, f"{call.name}(checkpoint=...)")
    if not call.resume:
        run.clear()
    arrays, metadata = (run.newest() if call.resume else None) or (
        {},
        {"epoch": 0, "finished": False},
    )
    if largest_of_processes(metadata["epoch"]) != metadata["epoch"]:
        raise ValueError(
            f"`{call.name}(checkpoint=...)`: {run.path} must be one directory that all processes see."
        )
    if not arrays:
        return state, [], False
    shapes = {name: (array.shape, array.dtype) for name, array in wanted.items() if name != "key"}
    rows = (metadata["epoch"], *state.scale.shape, len(_epoch.Metrics._fields))
    shapes["metrics"] = (rows, np.result_type(arrays.get("metrics", np.float32), np.float32))
    for name, shape in shapes.items():
        if name not in arrays or (arrays[name].shape, arrays[name].dtype) != shape:
            raise ValueError(
                f"`{call.name}(checkpoint=...)`: the checkpoint in {run.path} has no {name} of this run's shape; another "
                "version of Optax may have written it. Give this run a directory of its own."
            )
    leaves, structure = jax.tree.flatten(state)
    leaves = [
        _as(leaf, arrays[name]) for leaf, name in zip(leaves, wanted, strict=False)
    ]  # metrics and key come last
    return jax.tree.unflatten(structure, leaves), list(arrays["metrics"]), metadata["finished"]


def _stop(call: _Call, number: int, epoch: int, how_to_go_on: str):
    text = f"`{call.name}` stopped after epoch {epoch} of {call.epochs}. {how_to_go_on}"
    if number == signal.SIGINT:
        raise KeyboardInterrupt(text)
    print(text, file=sys.stderr)
    raise SystemExit(128 + number)
