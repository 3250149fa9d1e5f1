"""The arguments of `fit` and `fit_many`, checked before anything is compiled."""

import dataclasses
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from mmlp.argument_checks import check_size
from mmlp.compilation import choose_effort, combine_model, partition_model
from mmlp.training.data import (
    ModelAxis,
    check_data,
    check_row_indices,
    is_large,
    is_streamed,
)
from mmlp.training.devices import make_mesh
from mmlp.training.epoch import Constants, Program
from mmlp.training.optimizers import default_optimizer

MAX_STEPS = int(np.iinfo(np.int32).max)  # of a whole run: they are counted in 32 bits
ENDLESS_PATIENCE = MAX_STEPS  # more epochs than any run has


@dataclasses.dataclass(frozen=True, kw_only=True)
class Arguments:
    """The arguments of a call of `fit` or `fit_many` that decide its result.

    They have the names and meanings of the arguments of `fit_many`; `call` is "fit" or
    "fit_many", and `model` and `key` are the stacked models and their keys if `call` is
    "fit_many".
    """

    call: str
    model: Any
    loss: Callable
    data: Any
    key: Any
    epochs: int
    batch_size: int
    optimizer: optax.GradientTransformation | None
    validation: Any
    patience: int | None
    rates: Any = None
    own_data: bool = False
    rows: Any = None

    @property
    def many(self) -> bool:
        """Whether there is a leading axis of models."""
        return self.call == "fit_many"


@dataclasses.dataclass(frozen=True)
class Run:
    """A training run, ready to start.

    Parameters
    ----------
    call : str
        "fit" or "fit_many", for messages.
    program : Program
        What is compiled.
    constants : Constants
        The arrays that training does not change.
    params : tree of arrays
        The weights before the first step.
    """

    call: str
    program: Program
    constants: Constants
    params: Any

    @property
    def epochs(self) -> int:
        """The largest number of epochs."""
        return int(self.constants.epochs)

    @property
    def patience(self) -> int | None:
        """The number of epochs without improvement that ends the run, if any."""
        if self.constants.patience == ENDLESS_PATIENCE:
            return None
        return int(self.constants.patience)

    @property
    def n_models(self) -> int | None:
        """The number of models of `fit_many`; None for `fit`."""
        return len(self.constants.key_data) if self.program.many else None

    @property
    def has_validation(self) -> bool:
        """Whether there are validation data."""
        return self.constants.validation is not None

    @property
    def is_streamed(self) -> bool:
        """Whether rows are read from files while training runs."""
        return is_streamed((self.constants.data, self.constants.validation))

    def build_model(self, params: Any) -> Any:
        """Return the model with these weights."""
        return combine_model(params, self.constants.frozen, self.program.static)


def prepare_run(arguments: Arguments) -> Run:
    """Check all arguments and arrange them for the compiled epoch.

    Raises
    ------
    ValueError
        If an argument cannot be used; it names the argument, its value and a remedy.
    """
    call = arguments.call
    many = arguments.many
    _check_loss(call, arguments.loss)
    _check_optimizer(call, arguments.optimizer)
    _check_sizes(arguments)
    key_data, key_impl = _check_key(arguments)
    n_models = len(key_data) if many else 1
    model = _check_model(arguments, n_models)
    rate_factor: Any = np.float32(1)
    if many:
        rate_factor = _check_rates(arguments.rates, n_models)
    data, validation, rows = _check_data_and_rows(arguments, n_models)
    if arguments.patience is not None and validation is None:
        raise ValueError(
            f"`{call}(patience={arguments.patience})` needs `validation` data to "
            "measure improvement."
        )

    params, frozen, static = partition_model(model)
    n_steps = _count_steps(arguments, data, rows)
    optimizer = arguments.optimizer
    if optimizer is None:
        optimizer = default_optimizer(n_steps)
    n_weights = sum(x.size for x in jax.tree.leaves(params))
    effort = choose_effort(n_steps, arguments.batch_size, n_weights)
    if effort == "least" and is_large((data, validation)):
        # With the least effort, the last rows of an epoch may be rounded differently
        # if they are read from a file. Large arrays in memory are compiled with the
        # same effort, so that both round alike.
        effort = "less"

    program = Program(
        loss=arguments.loss,
        optimizer=optimizer,
        static=static,
        batch_size=arguments.batch_size,
        key_impl=key_impl,
        many=many,
        own_data=arguments.own_data,
        mesh=make_mesh(),
        effort=effort,
    )
    patience = min(arguments.patience or ENDLESS_PATIENCE, ENDLESS_PATIENCE)
    constants = Constants(
        frozen=frozen,
        data=data,
        validation=validation,
        key_data=key_data,
        rate_factor=rate_factor,
        epochs=np.int32(arguments.epochs),
        patience=np.int32(patience),
        rows=rows,
    )
    return Run(call, program, constants, params)


def check_callbacks(call: str, on_epoch: Any) -> Sequence[Callable]:
    """Return the functions of the argument `on_epoch`, one or several."""
    functions = on_epoch if isinstance(on_epoch, tuple | list) else (on_epoch,)
    if not all(callable(function) for function in functions):
        raise ValueError(
            f"`{call}(on_epoch=...)` must be a function of one EpochInfo, or a tuple "
            f"of them, got {on_epoch!r:.80}."
        )
    return functions


def _check_loss(call: str, loss: Any) -> None:
    """Raise unless the loss can be called with four arguments, and be hashed."""
    if not callable(loss):
        raise ValueError(
            f"`{call}(loss=...)` must be a function of (model, batch, key, t), got "
            f"{loss!r:.80}."
        )
    try:
        hash(loss)
    except TypeError:
        raise ValueError(
            f"`{call}(loss=...)` must be hashable, got {type(loss).__name__}; wrap it "
            "in a function."
        ) from None

    try:
        signature = inspect.signature(loss)
    except (TypeError, ValueError):
        # Some functions that are not written in Python have no signature.
        return
    try:
        signature.bind(None, None, None, None)
    except TypeError as error:
        name = getattr(loss, "__name__", type(loss).__name__)
        raise ValueError(
            f"`{call}(loss=...)` is called as `loss(model, batch, key, t)`: `key` is a "
            "random key for this batch, for losses that draw samples, and `t`, from 0 "
            "to 1, is the progress of training, for weights that change with it; got "
            f"`{f'{name}{signature}':.80}` ({error}). Give it these four arguments, "
            "whether it needs them or not."
        ) from None


def _check_optimizer(call: str, optimizer: Any) -> None:
    if optimizer is None or isinstance(optimizer, optax.GradientTransformation):
        return
    raise ValueError(
        f"`{call}(optimizer=...)` must be an Optax optimiser such as "
        f"`optax.adam(1e-3)`, got {optimizer!r:.80}."
    )


def _check_sizes(arguments: Arguments) -> None:
    call = arguments.call
    check_size(arguments.epochs, f"{call}(epochs=...)")
    check_size(arguments.batch_size, f"{call}(batch_size=...)")
    if arguments.patience is not None:
        check_size(arguments.patience, f"{call}(patience=...)")


def _check_key(arguments: Arguments) -> tuple[np.ndarray, Any]:
    """Return the numbers and the implementation of a key, or of an array of keys."""
    key = arguments.key
    name = "keys" if arguments.many else "key"
    argument = f"{arguments.call}({name}=...)"

    is_array = isinstance(key, jax.Array | np.ndarray)
    if is_array and key.dtype == np.uint32 and key.ndim:
        key = jax.random.wrap_key_data(jnp.asarray(key))  # made by `jax.random.PRNGKey`
    if not (is_array and jnp.issubdtype(key.dtype, jax.dtypes.prng_key)):
        raise ValueError(
            f"`{argument}` must be made by `jax.random.key`, got {key!r:.80}."
        )

    if arguments.many and (key.ndim != 1 or not len(key)):
        raise ValueError(
            f"`{argument}` must be one axis of keys, as `jax.random.split` makes, got "
            f"shape {key.shape}."
        )
    if not arguments.many and key.ndim != 0:
        raise ValueError(f"`{argument}` must be a single key, got shape {key.shape}.")
    return np.asarray(jax.random.key_data(key)), jax.random.key_impl(key)


def _check_model(arguments: Arguments, n_models: int) -> Any:
    """Return the model with JAX arrays for NumPy arrays; raise if it cannot train."""
    call = arguments.call
    model = jax.tree.map(
        lambda x: jnp.asarray(x) if isinstance(x, np.ndarray) else x, arguments.model
    )

    weights = _arrays_by_name(eqx.filter(model, eqx.is_inexact_array))
    if not weights:
        raise ValueError(
            f"`{call}(model=...)` has no floating-point array to train, got "
            f"{model!r:.80}."
        )
    for name, array in weights.items():
        if not np.all(np.isfinite(np.asarray(array))):
            raise ValueError(
                f"`{call}(model=...)` must have finite weights, but {name} has not; "
                "draw or calibrate it again."
            )

    if arguments.many:
        for name, array in _arrays_by_name(eqx.filter(model, eqx.is_array)).items():
            if array.ndim == 0 or len(array) != n_models:
                raise ValueError(
                    f"`fit_many(models=...)` must have a leading axis of {n_models} "
                    f"models, one for each key, in all its arrays, but {name} has "
                    f"shape {array.shape}; use `eqx.filter_vmap`."
                )
    return model


def _arrays_by_name(tree: Any) -> dict[str, Any]:
    leaves = jax.tree_util.tree_flatten_with_path(tree)[0]
    return {name_leaf(path): leaf for path, leaf in leaves}


def name_leaf(path: tuple) -> str:
    """Return the name of a leaf of a model, such as `layers[0].weight`."""
    return jax.tree_util.keystr(path).removeprefix(".")


def _check_rates(rates: Any, n_models: int) -> np.ndarray:
    """Return positive numbers of shape (n_models,), by default ones."""
    if rates is None:
        return np.ones(n_models, np.float32)
    array = np.asarray(rates, np.float32)
    is_positive = np.all(np.isfinite(array) & (array > 0))
    if array.shape != (n_models,) or not is_positive:
        raise ValueError(
            f"`fit_many(rates=...)` must hold {n_models} positive numbers, one for "
            f"each model, got {rates!r:.80}."
        )
    return array


def _check_data_and_rows(arguments: Arguments, n_models: int) -> tuple[Any, Any, Any]:
    """Return data, validation data and row indices; the last two may be None."""
    data_axis = None
    validation_axis = None
    if arguments.own_data:
        if arguments.rows is not None:
            raise ValueError(
                "`fit_many(own_data=True)` and `rows` exclude each other: the rows are "
                "those of data that all models share; leave one of them out."
            )
        data_axis = ModelAxis(n_models, "own_data=True")
        validation_axis = data_axis
    elif arguments.rows is not None:
        validation_axis = ModelAxis(n_models, "rows=...")

    data, validation = check_data(
        arguments.data,
        arguments.validation,
        call=arguments.call,
        many=arguments.many,
        data_axis=data_axis,
        validation_axis=validation_axis,
    )
    rows = None
    if arguments.rows is not None:
        n_rows = len(jax.tree.leaves(data)[0])
        rows = check_row_indices(arguments.rows, n_models, n_rows)
    return data, validation, rows


def _count_steps(arguments: Arguments, data: Any, rows: np.ndarray | None) -> int:
    """Return the number of steps of the whole run, which must be at most MAX_STEPS."""
    if rows is not None:
        n_rows = rows.shape[2]
    else:
        row_axis = 1 if arguments.own_data else 0
        n_rows = jax.tree.leaves(data)[0].shape[row_axis]
    steps_per_epoch = -(-n_rows // arguments.batch_size)
    n_steps = arguments.epochs * steps_per_epoch
    if n_steps > MAX_STEPS:
        raise ValueError(
            f"`{arguments.call}(epochs={arguments.epochs})` with {steps_per_epoch} "
            f"steps in an epoch would make {n_steps} steps; they are counted in 32 "
            f"bits. Use at most {MAX_STEPS // steps_per_epoch} epochs."
        )
    return n_steps
