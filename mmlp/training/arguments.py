"""What `fit` is given, checked before anything is compiled, and what is made of it: a `Task`."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh

from mmlp.argument_checks import check_size
from mmlp.compilation import choose_effort, combine_model, partition_model
from mmlp.training.data import checked_rows, large, streamed
from mmlp.training.devices import all_devices
from mmlp.training.optimizers import default_optimizer
from mmlp.training.parts import with_parts

MAX_STEPS = int(np.iinfo(np.int32).max)  # of a whole training
NEVER = MAX_STEPS  # epochs without gain: no patience ends it


class Models(NamedTuple):
    """One model, or many with a leading axis in each of their arrays."""

    name: str  # of the function that was called
    tree: Any
    many: bool = False
    rates: Any = None
    own_data: bool = False
    rows: Any = None


class Sizes(NamedTuple):
    epochs: int
    batch_size: int
    patience: int | None


class Program(NamedTuple):
    """All that is compiled in; equal programs share one compilation for each set of shapes."""

    loss: Callable
    optimizer: optax.GradientTransformation
    static: tuple  # what of the model is not an array: (leaves, treedef)
    batch_size: int
    key_type: Any
    many: bool = False
    own_data: bool = False  # each of the many models has data of its own
    mesh: Mesh | None = None
    effort: str = "full"  # to compile it with


class Fixed(NamedTuple):
    """The arrays that stay as they are during training."""

    frozen: Any  # those of the model that are not trained
    data: Any
    validation: Any
    key: Any  # as numbers
    rate: Any  # multiplies every update
    epochs: Any
    patience: Any
    rows: Any = None  # of the data, those that each of many models sees


class Task(NamedTuple):
    """What a run is to do."""

    name: str  # of the function that was called
    program: Program
    params: Any  # to begin with
    fixed: Fixed

    @property
    def validated(self) -> bool:
        return self.fixed.validation is not None

    @property
    def patience(self) -> int | None:
        return None if self.fixed.patience == NEVER else int(self.fixed.patience)

    @property
    def streamed(self) -> bool:
        """Whether rows are read from files while they are used."""
        return streamed((self.fixed.data, self.fixed.validation))

    def model(self, params) -> Any:
        return combine_model(params, self.fixed.frozen, self.program.static)


def checked_task(
    models: Models, loss, rows: tuple, key, sizes: Sizes, optimizer
) -> Task:
    """What is to be done."""
    for size, value in sizes._asdict().items():
        if size != "patience" or value is not None:
            check_size(value, f"{models.name}({size}=...)")
    name, many, own_data = models.name, models.many, models.own_data
    key, key_type = _checked_key(
        key, f"{name}({'keys' if many else 'key'}=...)", many=many
    )
    params, frozen, static = partition_model(_checked_models(models, len(key)))
    rate = _checked_rates(models.rates, len(key)) if many else np.float32(1)
    own, check = (
        len(key) if own_data else None,
        functools.partial(checked_rows, many=many),
    )
    data, validation, parts = with_parts(check, name, rows, models.rows, own)
    if sizes.patience is not None and validation is None:
        what = f"`{name}(patience={sizes.patience})`"
        raise ValueError(f"{what} needs `validation` data to judge by.")
    n = (
        jax.tree.leaves(data)[0].shape[int(own_data)]
        if parts is None
        else parts.shape[2]
    )
    steps_per_epoch = -(-n // sizes.batch_size)
    steps, weights = sizes.epochs * steps_per_epoch, jax.tree.leaves(params)
    if steps > MAX_STEPS:
        raise ValueError(
            f"`{name}(epochs={sizes.epochs})` with {steps_per_epoch} steps in an epoch would make "
            f"{steps} steps; they are counted in 32 bits. Use at most "
            f"{MAX_STEPS // steps_per_epoch} epochs."
        )
    optimizer = default_optimizer(steps) if optimizer is None else optimizer
    options = {"many": many, "own_data": own_data, "mesh": all_devices()}
    # at the least effort a tail that is read from a file may round otherwise than in memory
    hard = choose_effort(steps, sizes.batch_size, sum(x.size for x in weights))
    options["effort"] = (
        "less" if hard == "least" and large((data, validation)) else hard
    )
    program = Program(loss, optimizer, static, sizes.batch_size, key_type, **options)
    # patience beyond what is counted is patience without end
    ends = (np.int32(sizes.epochs), np.int32(min(sizes.patience or NEVER, NEVER)))
    return Task(
        name, program, params, Fixed(frozen, data, validation, key, rate, *ends, parts)
    )


def _checked_models(models: Models, count: int):
    """The model with its NumPy arrays as JAX arrays; it must have weights to train, all finite."""
    name, tree = models.name, models.tree
    tree = jax.tree.map(
        lambda x: jnp.asarray(x) if isinstance(x, np.ndarray) else x, tree
    )
    weights = jax.tree_util.tree_flatten_with_path(
        eqx.filter(tree, eqx.is_inexact_array)
    )[0]
    if not weights:
        raise ValueError(
            f"`{name}(model=...)` has no floating-point array to train, got {tree!r:.80}."
        )
    for path, leaf in weights:
        if not np.all(np.isfinite(np.asarray(leaf))):
            raise ValueError(
                f"`{name}(model=...)` must have finite weights, but {named(path)} has not; draw or "
                "calibrate it again."
            )
    arrays = jax.tree_util.tree_flatten_with_path(eqx.filter(tree, eqx.is_array))[0]
    for path, leaf in arrays if models.many else ():
        if leaf.ndim == 0 or len(leaf) != count:
            raise ValueError(
                f"`fit_many(models=...)` must have a leading axis of {count} models, one for each "
                f"key, in all its arrays, but {named(path)} has shape {leaf.shape}; use "
                "`eqx.filter_vmap`."
            )
    return tree


def named(path) -> str:
    """The name of a leaf: `layers[0].weight`."""
    return jax.tree_util.keystr(path).removeprefix(".")


def _checked_rates(rates, count: int) -> np.ndarray:
    """Positive numbers (models,), by default ones."""
    array = (
        np.ones(count, np.float32) if rates is None else np.asarray(rates, np.float32)
    )
    if array.shape != (count,) or not np.all(np.isfinite(array) & (array > 0)):
        raise ValueError(
            f"`fit_many(rates=...)` must hold {count} positive numbers, one for each model, got "
            f"{rates!r:.80}."
        )
    return array


def _checked_key(key, argument: str, *, many: bool):
    """A random key, or an array of keys, as (numbers, implementation); old-style keys pass too."""
    if isinstance(key, jax.Array) and jnp.issubdtype(key.dtype, jax.dtypes.prng_key):
        implementation = jax.random.key_impl(key)
    elif (
        isinstance(key, jax.Array | np.ndarray) and key.dtype == np.uint32 and key.ndim
    ):
        implementation = jax.random.key_impl(
            key := jax.random.wrap_key_data(jnp.asarray(key))
        )
    else:
        raise ValueError(
            f"`{argument}` must be made by `jax.random.key`, got {key!r:.80}."
        )
    if key.ndim != int(many) or (many and not len(key)):
        wanted = (
            "one axis of keys, as `jax.random.split` makes" if many else "a single key"
        )
        raise ValueError(f"`{argument}` must be {wanted}, got shape {key.shape}.")
    return np.asarray(jax.random.key_data(key)), implementation
