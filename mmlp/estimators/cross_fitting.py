"""Train several networks at once, each without its own fold of the rows.

The held-out rows of a fold tell when its network should stop, and later how well it
predicts rows that it was not trained on.
"""

import dataclasses
import functools
import os
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from mmlp.compilation import Compiled, combine_model, partition_model
from mmlp.errors import CallError
from mmlp.estimators.batches import (
    ArrangedRows,
    arrange_training_rows,
    copy_rows,
    sample_validation_rows,
)
from mmlp.estimators.chunks import round_up_to_few_sizes
from mmlp.estimators.training_settings import TrainingSettings, check_number_of_steps
from mmlp.training import FitResult, fit_many
from mmlp.training.fit import compile_many
from mmlp.training.optimizers import optimizer_by_progress

# New networks are calibrated (`mmlp.networks.calibration`) at this many rows.
N_CALIBRATION_ROWS = 128

# The size of a batch that holds all rows is a multiple of this number.
SINGLE_BATCH_UNIT = 64


class Fold(NamedTuple):
    """The row indices that one network is trained on, and those that are held out."""

    training_rows: np.ndarray
    held_out_rows: np.ndarray


def split_into_folds(n_rows: int, n_folds: int, rng: np.random.Generator) -> list[Fold]:
    """Split the rows at random: each row is held out in exactly one fold."""
    fold_of_row = rng.permutation(n_rows) % n_folds
    return [
        Fold(np.flatnonzero(fold_of_row != k), np.flatnonzero(fold_of_row == k))
        for k in range(n_folds)
    ]


def restrict_folds(folds: list[Fold], rows: np.ndarray) -> list[Fold]:
    """Return the folds of a subset of the rows, by the positions in this subset.

    `rows` are the row indices of the subset, in ascending order.
    """

    def positions(indices: np.ndarray) -> np.ndarray:
        return np.flatnonzero(np.isin(rows, indices, assume_unique=True))

    return [
        Fold(positions(fold.training_rows), positions(fold.held_out_rows))
        for fold in folds
    ]


def out_of_fold(predictions: np.ndarray, folds: list[Fold]) -> np.ndarray:
    """Pick, for each row, the prediction of the network that was not trained on it.

    Parameters
    ----------
    predictions : array of shape (n_rows, n_networks, ...)
    folds : one fold per network

    Returns
    -------
    array of float64, shape (n_rows, ...)
    """
    result = np.empty_like(predictions[:, 0], dtype=np.float64)
    for k, fold in enumerate(folds):
        result[fold.held_out_rows] = predictions[fold.held_out_rows, k]
    return result


@dataclasses.dataclass(frozen=True)
class CrossFit:
    """Networks to be trained together, one for each fold.

    Parameters
    ----------
    build : callable
        `build(key, X)`, or `build(key, X, initial_targets)` if these are set, returns
        a new network that is calibrated at the rows X. Equal builders share a compiled
        program, so `build` must be hashable, and so must `sample_loss`.
    sample_loss : callable
        `sample_loss(network, key, t, *row)` is the loss of one row of `arrays`, where
        t is the progress of training, from 0 to 1.
    arrays : tuple of arrays with n_rows rows
        The inputs first.
    row_weights : array of shape (n_rows,)
    folds : list of Fold
    seed : int
        Seed of weights and batches.
    initial_targets : array, optional
        Rows of targets from which the output of a new network starts.
    validation_arrays : tuple of arrays, optional
        Arrays like `arrays` of other rows. They decide when to stop, in place of the
        held-out rows of each fold.
    initial_networks : stack of networks, optional
        Networks from which training resumes, in place of new ones.
    learning_rate_factors : float or array of shape (n_folds,)
        Multiply the learning rate of the settings.
    """

    build: Callable
    sample_loss: Callable
    arrays: tuple[np.ndarray, ...]
    row_weights: np.ndarray
    folds: list[Fold]
    seed: int
    initial_targets: np.ndarray | None = None
    validation_arrays: tuple[np.ndarray, ...] | None = None
    initial_networks: Any = None
    learning_rate_factors: float | np.ndarray = 1.0


class _Preparation(NamedTuple):
    """The networks, keys and rows of a `CrossFit`, as `fit_many` takes them."""

    networks: Any
    keys: np.ndarray
    batch_size: int
    training: ArrangedRows
    validation: ArrangedRows


def fit_networks(
    task: CrossFit,
    settings: TrainingSettings,
    *,
    checkpoint: str | os.PathLike[str] | None = None,
    stage: str = "",
) -> FitResult:
    """Train the networks of all folds together.

    Parameters
    ----------
    task : CrossFit
    settings : TrainingSettings
    checkpoint : path, optional
        Directory from which an interrupted training resumes.
    stage : str
        Name under which progress is shown.

    Returns
    -------
    FitResult
        The stack of trained networks, and losses by epoch.
    """
    prepared = _prepare(task, settings)
    return fit_many(
        models=prepared.networks,
        loss=WeightedLoss(task.sample_loss),
        data=prepared.training.data,
        keys=prepared.keys,
        epochs=settings.max_epochs,
        batch_size=prepared.batch_size,
        optimizer=optimizer_by_progress(settings.learning_rate),
        validation=prepared.validation.data,
        patience=settings.patience,
        checkpoint=checkpoint,
        progress=(stage or True) if settings.show_progress else False,
        rates=np.broadcast_to(task.learning_rate_factors, len(task.folds)),
        own_data=prepared.training.rows is None,
        rows=prepared.training.rows,
    )


def compile_networks(task: CrossFit, settings: TrainingSettings) -> Any:
    """Compile what `fit_networks` would run, and return the untrained networks."""
    prepared = _prepare(task, settings)
    compile_many(
        models=prepared.networks,
        loss=WeightedLoss(task.sample_loss),
        data=prepared.training.data,
        keys=prepared.keys,
        epochs=settings.max_epochs,
        batch_size=prepared.batch_size,
        optimizer=optimizer_by_progress(settings.learning_rate),
        validation=prepared.validation.data,
        patience=settings.patience,
        own_data=prepared.training.rows is None,
        rows=prepared.training.rows,
    )
    return prepared.networks


def _prepare(task: CrossFit, settings: TrainingSettings) -> _Preparation:
    """Draw the networks and arrange the rows that they are trained and validated on."""
    training_rows = [fold.training_rows for fold in task.folds]
    most_rows = max(map(len, training_rows))
    # A larger batch would only add padding.
    batch_size = min(
        settings.batch_size, round_up_to_few_sizes(most_rows, SINGLE_BATCH_UNIT)
    )
    check_number_of_steps(settings.max_epochs, most_rows, batch_size)

    arrays = tuple(np.asarray(array, settings.dtype) for array in task.arrays)
    # If training resumes, only the keys are needed.
    networks, keys = _draw_networks(task, arrays[0], settings.dtype)
    if task.initial_networks is not None:
        networks = task.initial_networks

    validation_arrays = arrays
    validation_weights = task.row_weights
    validation_rows = [fold.held_out_rows for fold in task.folds]
    if task.validation_arrays is not None:
        validation_arrays = tuple(
            np.asarray(array, settings.dtype) for array in task.validation_arrays
        )
        n_validation_rows = len(validation_arrays[0])
        validation_weights = np.ones(n_validation_rows)
        validation_rows = [np.arange(n_validation_rows)] * len(task.folds)
    validation_rows = [
        sample_validation_rows(rows, task.seed) for rows in validation_rows
    ]

    return _Preparation(
        networks=networks,
        keys=keys,
        batch_size=batch_size,
        training=arrange_training_rows(
            arrays, task.row_weights, training_rows, batch_size
        ),
        validation=copy_rows(
            validation_arrays, validation_weights, validation_rows, batch_size
        ),
    )


def _draw_networks(task: CrossFit, inputs: np.ndarray, dtype: str) -> tuple[Any, Any]:
    """Return a stack of new networks, and the keys to train them with."""
    rng = np.random.default_rng(task.seed)
    calibration_rows = rng.integers(len(inputs), size=N_CALIBRATION_ROWS)
    arguments = [inputs[calibration_rows]]
    if task.initial_targets is not None:
        arguments.append(task.initial_targets.astype(dtype))

    build_and_count = (task.build, len(task.folds))
    params, frozen, keys, static = _draw_compiled(
        build_and_count, np.uint32(task.seed), *arguments
    )
    return combine_model(params, frozen, static.value), keys


@functools.partial(Compiled, effort="least")
def _draw_compiled(build_and_count, seed, X, *initial_targets):
    build, count = build_and_count
    keys = jax.random.split(jax.random.key(seed), (2, count))
    networks = _build_stack(build, keys[0], X, *initial_targets)
    params, frozen, static = partition_model(networks)
    return params, frozen, jax.random.key_data(keys[1]), _Static(static)


def _build_stack(build: Callable, keys: Any, X: Any, *initial_targets: Any) -> Any:
    """Build one network for each key, in the dtype of X."""

    def build_one(key):
        network = build(key, X, *initial_targets)
        return jax.tree.map(
            lambda x: x.astype(X.dtype) if eqx.is_inexact_array(x) else x, network
        )

    return eqx.filter_vmap(build_one)(keys)


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class _Static:
    """What of a network is not an array, as a compiled function returns it."""

    value: tuple


@dataclasses.dataclass(frozen=True)
class WeightedLoss:
    """The mean of weight times `sample_loss` over a batch of rows."""

    sample_loss: Callable

    def __call__(self, network, batch, key, t):
        arrays, weights = batch
        keys = jax.random.split(key, len(weights))

        def loss_of_row(key, *row):
            return self.sample_loss(network, key, t, *row)

        return jnp.mean(weights * jax.vmap(loss_of_row)(keys, *arrays))


def check_same_architecture(
    networks: Any,
    build: Callable,
    n_networks: int,
    X: np.ndarray,
    initial_targets: np.ndarray | None = None,
    *,
    estimator: str,
) -> None:
    """Raise a CallError if `build` makes other networks than those to resume from.

    The new networks are only traced: nothing is computed.

    Parameters
    ----------
    networks : stack of fitted networks
    build : callable, as in `CrossFit`
    n_networks : number of networks to resume from
    X : array of shape (n_rows, n_inputs)
        Rows in the dtype of the networks.
    initial_targets : array, optional
        As in `CrossFit`.
    estimator : str
        Name of the estimator, for the error.
    """
    arguments = [X[:2]]
    if initial_targets is not None:
        arguments.append(initial_targets.astype(X.dtype))
    keys = jax.random.split(jax.random.key(0), n_networks)
    expected = eqx.filter_eval_shape(_build_stack, build, keys, *arguments)

    difference = _describe_difference(networks, expected, X.dtype)
    if difference is not None:
        raise CallError(
            "training continues from the networks that were fitted, but the arguments "
            f"or the number of rows now ask for {difference}",
            call=f"{estimator}(warm_start=True)",
            remedy="set the widths, `n_models` and so on as they were, or "
            "`warm_start=False`",
        )


def _describe_difference(networks: Any, expected: Any, dtype: np.dtype) -> str | None:
    """Say what the expected networks have that the fitted ones have not."""
    if jax.tree.structure(networks) != jax.tree.structure(expected):
        return "other kinds of networks"

    leaves = jax.tree_util.tree_flatten_with_path(networks)[0]
    expected_leaves = jax.tree.leaves(expected)
    for (path, leaf), other in zip(leaves, expected_leaves, strict=True):
        if np.shape(leaf) != np.shape(other):
            name = jax.tree_util.keystr(path)
            return f"weights {name} of shape {np.shape(other)}, not {np.shape(leaf)}"
    for _, leaf in leaves:
        leaf_dtype = getattr(leaf, "dtype", dtype)
        if leaf_dtype != dtype:
            return f"weights of {dtype}, not {leaf_dtype}"
    return None
