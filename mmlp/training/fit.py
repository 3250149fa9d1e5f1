"""`fit` trains a model on data by a loss; `fit_many` trains many models at once.

From here to the gradient: `arguments.prepare_run` checks the arguments, `loop.train`
runs the epochs, and each epoch is a call of one compiled program, `epoch.run_epoch`,
whose `take_step` takes the gradient. For data that stay in files, `streaming` runs the
same epoch in several calls. A second `fit` with the same loss, optimiser and shapes
does not compile again.
"""

import os
from collections.abc import Callable, Sequence
from typing import Any

import optax

from mmlp.training.arguments import Arguments, check_callbacks, prepare_run
from mmlp.training.checkpoints import RunDirectory
from mmlp.training.fingerprint import fingerprint_run
from mmlp.training.forks import check_not_forked
from mmlp.training.loop import compile_epoch, train
from mmlp.training.results import EpochInfo, FitResult

Callback = Callable[[EpochInfo], None]


def fit(
    model: Any,
    loss: Callable,
    data: Any,
    *,
    key: Any,
    epochs: int,
    batch_size: int,
    optimizer: optax.GradientTransformation | None = None,
    validation: Any = None,
    patience: int | None = None,
    checkpoint: str | os.PathLike | None = None,
    resume: bool = True,
    progress: bool | str = True,
    on_epoch: Callback | Sequence[Callback] = (),
) -> FitResult:
    """Train a model to minimise the mean of a loss over data.

    Every epoch is one compiled program. A step whose numbers are not finite is skipped
    and counted; if bad steps persist, training returns to the last good weights and
    takes smaller steps, with a warning. If JAX has several devices, each batch is
    spread over them.

    Parameters
    ----------
    model : tree of arrays, such as an `equinox.Module`
        The model to start from. Its floating-point arrays are trained; it is not
        modified.
    loss : callable
        Called as `loss(model, batch, key, t)` and returns the mean loss over the batch,
        one real number. `batch` are rows of `data`, `key` is a random key for this
        batch, and `t` is the progress of training, from 0 at the first step to 1 at the
        last one.
    data : tree of arrays
        Arrays with a common first axis of rows; values such as `Gram` are trees, too.
        Large memory-mapped arrays (`np.load(path, mmap_mode="r")`) stay in their files:
        rows are read while others are in use, with the same result up to rounding.
    key : jax.random.key
        Decides the order of rows and the keys of the loss.
    epochs : int
        The number of passes over the data.
    batch_size : int
        The number of rows of a step. If it does not divide the number of rows, the last
        step of an epoch has fewer.
    optimizer : optax.GradientTransformation, default=None
        By default, `default_optimizer` for the number of steps of this run.
    validation : tree of arrays, default=None
        Data of the same form as `data`. They are scored after each epoch, at t = 1 and
        always with the same key. The result has the weights of the best epoch.
    patience : int, default=None
        End training after this many epochs without a lower validation loss. By default
        all epochs are run.
    checkpoint : path, default=None
        A directory in which the run is saved. Saving takes about 5 % of the time at
        most. If the run was interrupted, the same call resumes it, with the same result
        bit for bit; if it is finished, the same call returns its result. On SIGINT and
        SIGTERM the running epoch is finished and saved.
    resume : bool, default=True
        Whether to resume from `checkpoint`. With False, what is there is discarded.
    progress : bool or str, default=True
        Whether to show progress on stderr, for runs longer than two seconds. A string
        is shown as the name of the run.
    on_epoch : callable or sequence of callables, default=()
        Called with an `EpochInfo` after each epoch.

    Returns
    -------
    FitResult
        `model` and `history`.

    Raises
    ------
    ValueError
        If an argument cannot be used, or if `checkpoint` holds another run. Two runs
        are the same if model, data, key and sizes are equal, and if loss and optimiser
        compile to the same program with the same constants. Python code that they call
        through `jax.pure_callback` is not compared.
    NonFiniteError
        If losses, gradients or weights are not finite, even with smaller steps.

    Examples
    --------
    >>> import equinox as eqx, jax, jax.numpy as jnp, optax
    >>> X = jax.random.normal(jax.random.key(0), (32, 2))
    >>> y = X @ jnp.array([1.0, -2.0])
    >>> def loss(model, batch, key, t):
    ...     x, y = batch
    ...     return jnp.mean((jax.vmap(model)(x)[:, 0] - y) ** 2)
    >>> result = fit(
    ...     eqx.nn.Linear(2, 1, key=jax.random.key(1)),
    ...     loss,
    ...     (X, y),
    ...     key=jax.random.key(2),
    ...     epochs=30,
    ...     batch_size=8,
    ...     optimizer=optax.adam(0.1),
    ... )
    >>> result.history["loss"].shape, bool(result.history["loss"][-1] < 0.01)
    ((30,), True)
    """
    arguments = Arguments(
        call="fit",
        model=model,
        loss=loss,
        data=data,
        key=key,
        epochs=epochs,
        batch_size=batch_size,
        optimizer=optimizer,
        validation=validation,
        patience=patience,
    )
    return _fit(arguments, checkpoint, on_epoch, resume=resume, progress=progress)


def fit_many(
    models: Any,
    loss: Callable,
    data: Any,
    *,
    keys: Any,
    epochs: int,
    batch_size: int,
    optimizer: optax.GradientTransformation | None = None,
    validation: Any = None,
    patience: int | None = None,
    rates: Any = None,
    own_data: bool = False,
    rows: Any = None,
    checkpoint: str | os.PathLike | None = None,
    resume: bool = True,
    progress: bool | str = True,
    on_epoch: Callback | Sequence[Callback] = (),
) -> FitResult:
    """Train many models at once, each as `fit` would train it alone, up to rounding.

    Each model sees the rows in an order of its own and stops on its own. A model that
    fails keeps its last good weights, with a warning; an error is raised when all have
    failed. If JAX has several devices, they share out the models.

    Parameters
    ----------
    models : tree of arrays
        Models of one kind, stacked: every array has a leading axis of models, as
        `eqx.filter_vmap` of a constructor makes them.
    loss : callable
        The loss of one model, as in `fit`.
    data : tree of arrays
        As in `fit`, in memory; shared by all models unless `own_data`.
    keys : array of jax.random.key, of shape (n_models,)
        One for each model, as `jax.random.split` makes them.
    epochs : int
        As in `fit`.
    batch_size : int
        As in `fit`.
    optimizer : optax.GradientTransformation, default=None
        As in `fit`.
    validation : tree of arrays, default=None
        As in `fit`; with `own_data` or `rows`, arrays have a leading axis of models.
    patience : int, default=None
        As in `fit`, for each model.
    rates : array-like of shape (n_models,), default=None
        Multiplies the steps of each model, to compare learning rates. By default ones.
    own_data : bool, default=False
        Whether the arrays of `data` have a leading axis of models, too: each model has
        its own rows, and all have the same number.
    rows : array-like of int, of shape (n_models, n_parts, n_rows), default=None
        Indices of the rows of `data` that each model sees. An epoch trains on one part,
        and the parts take turns. Not together with `own_data`.
    checkpoint : path, default=None
        As in `fit`.
    resume : bool, default=True
        As in `fit`.
    progress : bool or str, default=True
        As in `fit`; medians over the models are shown.
    on_epoch : callable or sequence of callables, default=()
        As in `fit`.

    Returns
    -------
    FitResult
        The stacked models, and history arrays of shape (n_epochs, n_models). Losses are
        NaN where a model had stopped.

    Raises
    ------
    ValueError
        As in `fit`.
    NonFiniteError
        If all models have failed, as in `fit`.

    Examples
    --------
    >>> import equinox as eqx, jax, jax.numpy as jnp
    >>> keys = jax.random.split(jax.random.key(0), 3)
    >>> models = eqx.filter_vmap(lambda key: eqx.nn.Linear(2, 1, key=key))(keys)
    >>> def loss(model, batch, key, t):
    ...     return jnp.mean(jax.vmap(model)(batch) ** 2)
    >>> X = jnp.ones((8, 2))
    >>> result = fit_many(models, loss, X, keys=keys, epochs=2, batch_size=4)
    >>> result.history["loss"].shape
    (2, 3)
    """
    arguments = Arguments(
        call="fit_many",
        model=models,
        loss=loss,
        data=data,
        key=keys,
        epochs=epochs,
        batch_size=batch_size,
        optimizer=optimizer,
        validation=validation,
        patience=patience,
        rates=rates,
        own_data=own_data,
        rows=rows,
    )
    return _fit(arguments, checkpoint, on_epoch, resume=resume, progress=progress)


def compile_many(
    models: Any,
    loss: Callable,
    data: Any,
    *,
    keys: Any,
    epochs: int,
    batch_size: int,
    optimizer: optax.GradientTransformation | None,
    validation: Any,
    patience: int | None,
    own_data: bool,
    rows: Any = None,
) -> None:
    """Compile the program of `fit_many` for these arguments without running it."""
    arguments = Arguments(
        call="fit_many",
        model=models,
        loss=loss,
        data=data,
        key=keys,
        epochs=epochs,
        batch_size=batch_size,
        optimizer=optimizer,
        validation=validation,
        patience=patience,
        own_data=own_data,
        rows=rows,
    )
    compile_epoch(prepare_run(arguments))


def _fit(
    arguments: Arguments,
    checkpoint: str | os.PathLike | None,
    on_epoch: Callback | Sequence[Callback],
    *,
    resume: bool,
    progress: bool | str,
) -> FitResult:
    """Check the arguments and train, with or without checkpoints."""
    check_not_forked(arguments.call)
    callbacks = check_callbacks(arguments.call, on_epoch)
    run = prepare_run(arguments)
    if checkpoint is None:
        return train(run, None, progress=progress, callbacks=callbacks)
    fingerprint = fingerprint_run(run)
    with RunDirectory(checkpoint, fingerprint, resume=resume) as directory:
        return train(run, directory, progress=progress, callbacks=callbacks)
