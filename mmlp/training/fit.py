"""`fit` trains anything: a model, a loss, data. `fit_many` trains many models at once.

    fit(model, loss, data, key=key, epochs=100, batch_size=50) -> FitResult(model, history)

The way down from here: `data.checked_task` checks what is given, `loop.train` runs the epochs, and
an epoch is one call of a compiled program, `epoch.run_epoch`, where the gradient is taken, or a few
of `stream` for data that stays in files. A second `fit` with the same loss, optimiser and shapes
does not compile again.
"""

import functools
from collections.abc import Callable, Sequence

import optax

from mmlp.training.arguments import Models, Sizes, Task, checked_task
from mmlp.training.callables import as_sequence, check_callables
from mmlp.training.checkpoints import RunDirectory
from mmlp.training.fingerprint import fingerprint
from mmlp.training.forks import check_not_forked
from mmlp.training.longer import by_progress
from mmlp.training.loop import compile_epoch, train
from mmlp.training.results import EpochInfo, FitResult

Watch = Callable[[EpochInfo], None]


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
    progress: bool | str = True,
    on_epoch: Watch | Sequence[Watch] = (),
) -> FitResult:
    """Train `model` to make the mean of `loss(model, batch, key, t)` over `data` small.

    The loss is the mean over a batch, with a random key of its own and t in [0, 1], how far
    training is. `data` is any tree of arrays with a common first axis (`Gram`s too); rows of
    memory-mapped ones (`np.load(path, mmap_mode="r")`) are read while others are in use, with the
    same result up to rounding. With `validation`, data of the same form, the weights of the best
    epoch are returned, and after `patience` epochs without a better one training ends. `checkpoint`
    is a directory: the same call goes on from where it was interrupted, with the same result bit
    for bit. Another call is refused: data, model, key and every number in the compiled loss and
    optimiser count, but not what they compute outside of it (`jax.pure_callback`, `io_callback`).
    More epochs or patience go on from there, unless the loss or the optimiser goes by t or by the
    number of all steps, as the default one does: a longer run would have begun otherwise.
    Steps that are not finite are left out and counted; if they persist, training goes back with a
    smaller step, or raises `NonFiniteError`. With several devices each batch is spread over them.
    `progress` shows how far a run is that takes more than two seconds, a text as its name;
    `on_epoch`, one function or several, is told of each epoch (`EpochInfo`).

    >>> import equinox as eqx, jax, jax.numpy as jnp
    >>> X = jax.random.normal(jax.random.key(0), (32, 2))
    >>> def loss(model, batch, key, t):
    ...     return jnp.mean((jax.vmap(model)(batch)[:, 0] - batch @ jnp.array([1.0, -2.0])) ** 2)
    >>> model, adam = eqx.nn.Linear(2, 1, key=jax.random.key(1)), optax.adam(0.1)
    >>> options = {"epochs": 30, "batch_size": 8, "optimizer": adam}
    >>> history = fit(model, loss, X, key=jax.random.key(2), **options).history
    >>> history["loss"].shape, bool(history["loss"][-1] < 0.01)
    ((30,), True)
    """
    check_not_forked("fit")
    check_callables("fit", loss, optimizer, on_epoch)
    sizes = Sizes(epochs, batch_size, patience)
    task = checked_task(
        Models("fit", model), loss, (data, validation), key, sizes, optimizer
    )
    return _trained(task, checkpoint, resume, progress=progress, on_epoch=on_epoch)


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
    rates=None,
    own_data: bool = False,
    rows=None,
    checkpoint=None,
    resume: bool = True,
    progress: bool | str = True,
    on_epoch: Watch | Sequence[Watch] = (),
) -> FitResult:
    """`fit` for many models at once: every array of `models` and `keys` has a leading axis of them.

    Each model is trained as `fit` would with its key, up to rounding, on the same data in an order
    of its own, and stops on its own; history arrays are (epochs, models), NaN where a model had
    stopped. A model that fails rests at its last good weights, with a warning; an error is raised
    when all have failed. Several devices share out the models. `rates` (models,) multiply the steps
    of each model, to try learning rates. With `own_data` the arrays of `data` and `validation` have
    a leading axis of models too: each has its own split, say, of the same size. With `rows`
    (models, parts, m) the data have not: these are the numbers of the rows of each model, and an
    epoch takes m of them, one part after the other; `validation` has the leading axis nevertheless.

    >>> import equinox as eqx, jax, jax.numpy as jnp
    >>> keys = jax.random.split(jax.random.key(0), 3)
    >>> models = eqx.filter_vmap(lambda key: eqx.nn.Linear(2, 1, key=key))(keys)
    >>> def loss(model, batch, key, t):
    ...     return jnp.mean(jax.vmap(model)(batch) ** 2)
    >>> result = fit_many(models, loss, jnp.ones((8, 2)), keys=keys, epochs=2, batch_size=4)
    >>> result.history["loss"].shape
    (2, 3)
    """
    check_not_forked("fit_many")
    check_callables("fit_many", loss, optimizer, on_epoch)
    sizes, arrays = Sizes(epochs, batch_size, patience), (data, validation)
    many = _many(models, rates, rows, own_data=own_data)
    task = checked_task(many, loss, arrays, keys, sizes, optimizer)
    return _trained(task, checkpoint, resume, progress=progress, on_epoch=on_epoch)


def compile_many(models, loss: Callable, data, *, keys, **options) -> None:
    """Compile what `fit_many` would run with these arguments, and run nothing."""
    sizes = Sizes(*(options[name] for name in ("epochs", "batch_size", "patience")))
    many = _many(models, None, options.get("rows"), own_data=options["own_data"])
    arrays = (data, options["validation"])
    compile_epoch(checked_task(many, loss, arrays, keys, sizes, options["optimizer"]))


def _many(models, rates, rows, *, own_data: bool) -> Models:
    if own_data and rows is not None:
        raise ValueError(
            "`fit_many(own_data=True)` and `rows` exclude each other: the rows are those of data "
            "that all models share; leave one of them out."
        )
    return Models("fit_many", models, True, rates, own_data or rows is not None, rows)


def _trained(task: Task, checkpoint, resume: bool, *, on_epoch, **shown) -> FitResult:
    shown["on_epoch"] = as_sequence(on_epoch)
    if checkpoint is None:
        return train(task, None, **shown)
    longer = functools.partial(by_progress, task)
    with RunDirectory(checkpoint, fingerprint(task), longer, resume=resume) as run:
        return train(task, run, **shown)
