"""What `fit` is given, checked before anything is compiled: a `ValueError` names the argument, its value and the remedy."""

import jax
import jax.numpy as jnp
import numpy as np
import optax


def checked_data(tree, argument: str, models: int | None = None):
    """Arrays with a common first axis, of finite numbers, as NumPy arrays in JAX's precision. Names the first bad row.

    With `models`, data for each of so many: arrays (models, n, ...).
    """
    named = jax.tree_util.tree_flatten_with_path(tree)[0]
    if not named:
        raise ValueError(f"`{argument}` must hold at least one array, got {tree!r:.80}.")
    lengths = {}
    for path, leaf in named:
        name = f"{argument}{jax.tree_util.keystr(path)}"
        if not isinstance(leaf, jax.Array | np.ndarray) or leaf.dtype == object:
            raise ValueError(f"`{name}` must be an array, got {leaf!r:.80}; use `np.asarray`.")
        if not (leaf.dtype == bool or jnp.issubdtype(leaf.dtype, jnp.number)):
            raise ValueError(
                f"`{name}` must hold numbers, got dtype {leaf.dtype}; encode it as numbers first."
            )
        if models is not None and (leaf.ndim < 2 or len(leaf) != models):
            raise ValueError(
                f"`{name}` must have shape ({models}, n, ...) with own_data=True, got shape {leaf.shape}."
            )
        shape = leaf.shape if models is None else leaf.shape[1:]
        if not shape or shape[0] == 0:
            raise ValueError(f"`{name}` must have at least one row, got shape {leaf.shape}.")
        lengths[name] = shape[0]
    if len(set(lengths.values())) > 1:
        raise ValueError(
            f"`{argument}` must have as many rows in each of its arrays, got lengths {lengths}."
        )
    arrays = jax.tree.map(_canonical, tree)
    for path, array in jax.tree_util.tree_flatten_with_path(arrays)[0]:
        bad = np.argwhere(~np.isfinite(array)) if jnp.issubdtype(array.dtype, jnp.inexact) else None
        if bad is not None and len(bad):
            where = tuple(int(i) for i in bad[0])
            place = f"row {where[0]}" if models is None else f"row {where[1]} of model {where[0]}"
            raise ValueError(
                f"`{argument}{jax.tree_util.keystr(path)}` must be finite, got {array[where]} in {place} (index {where}); "
                "drop or fill such rows."
            )
    return arrays


def check_alike(data, validation, argument: str, leading: int = 1) -> None:
    """Validation data must look like the data, but for the number of rows."""
    ours, theirs = (
        (jax.tree.structure(tree), [(x.shape[leading:], x.dtype) for x in jax.tree.leaves(tree)])
        for tree in (data, validation)
    )
    if ours != theirs:
        raise ValueError(
            f"`{argument}` must have the structure, row shapes and dtypes of the data, {ours[1]}, got {theirs[1]}."
        )


def checked_model(model, call: str):
    """The model with its NumPy arrays as JAX arrays; it must have weights to train, all finite."""
    model = jax.tree.map(lambda x: jnp.asarray(x) if isinstance(x, np.ndarray) else x, model)
    weights = [
        (jax.tree_util.keystr(path).removeprefix("."), leaf)
        for path, leaf in jax.tree_util.tree_flatten_with_path(model)[0]
        if isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jnp.inexact)
    ]
    if not weights:
        raise ValueError(
            f"`{call}(model=...)` has no floating-point array to train, got {model!r:.80}."
        )
    for name, leaf in weights:
        if not np.all(np.isfinite(np.asarray(leaf))):
            raise ValueError(
                f"`{call}(model=...)` must have finite weights, but {name} has not; draw or calibrate it again."
            )
    return model


def check_stacked(models, count: int) -> None:
    """Each array of `models` has a leading axis of this length."""
    for path, leaf in jax.tree_util.tree_flatten_with_path(models)[0]:
        if isinstance(leaf, jax.Array) and (leaf.ndim == 0 or len(leaf) != count):
            raise ValueError(
                f"`fit_many(models=...)` must have a leading axis of {count} models, one for each key, in all its arrays, "
                f"but {jax.tree_util.keystr(path).removeprefix('.')} has shape {leaf.shape}; use `eqx.filter_vmap`."
            )


def checked_rates(rates, count: int) -> np.ndarray:
    """Positive numbers (models,), by default ones."""
    array = np.ones(count, np.float32) if rates is None else np.asarray(rates, np.float32)
    if array.shape != (count,) or not np.all(np.isfinite(array) & (array > 0)):
        raise ValueError(
            f"`fit_many(rates=...)` must hold {count} positive numbers, one for each model, got {rates!r:.80}."
        )
    return array


def checked_key(key, argument: str, *, many: bool):
    """A random key, or an array of keys, as (numbers, implementation); old-style keys of two numbers pass as well."""
    if isinstance(key, jax.Array) and jnp.issubdtype(key.dtype, jax.dtypes.prng_key):
        implementation = jax.random.key_impl(key)
    elif isinstance(key, jax.Array | np.ndarray) and key.dtype == np.uint32 and key.ndim:
        implementation = jax.random.key_impl(key := jax.random.wrap_key_data(jnp.asarray(key)))
    else:
        raise ValueError(f"`{argument}` must be made by `jax.random.key`, got {key!r:.80}.")
    if key.ndim != int(many) or (many and not len(key)):
        wanted = "one axis of keys, as `jax.random.split` makes" if many else "a single key"
        raise ValueError(f"`{argument}` must be {wanted}, got shape {key.shape}.")
    return np.asarray(jax.random.key_data(key)), implementation


def check_callables(call: str, loss, optimizer, on_epoch) -> None:
    if not callable(loss):
        raise ValueError(
            f"`{call}(loss=...)` must be a function of (model, batch, key, t), got {loss!r:.80}."
        )
    try:
        hash(loss)
    except TypeError:
        raise ValueError(
            f"`{call}(loss=...)` must be hashable, got {type(loss).__name__}; wrap it in a function."
        ) from None
    if optimizer is not None and not isinstance(optimizer, optax.GradientTransformation):
        raise ValueError(
            f"`{call}(optimizer=...)` must be an Optax optimiser such as `optax.adam(1e-3)`, got {optimizer!r:.80}."
        )
    if not isinstance(on_epoch, tuple | list) or not all(callable(f) for f in on_epoch):
        raise ValueError(
            f"`{call}(on_epoch=...)` must be a tuple of functions of one EpochInfo, got {on_epoch!r:.80}."
        )


def _canonical(leaf) -> np.ndarray:
    array = np.asarray(leaf)
    return array.astype(jax.dtypes.canonicalize_dtype(array.dtype), copy=False)
