"""One epoch of training as one compiled program.

`run_epoch` shuffles the rows, takes a gradient step for each batch (`jax.lax.scan`) and
one more for the remaining rows, and scores the validation data. For `fit_many` it is
the same function under `jax.vmap`. The gradient is taken in `take_step`.

A step is applied only if its loss, gradient and new weights are finite. After
`MAX_BAD_STEPS_IN_A_ROW` bad steps in a row, training returns to the last weights whose
loss and gradient were finite and halves its steps. If that happens more than
`MAX_HALVINGS` times, the model has failed, and its weights no longer change.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array
from jax.flatten_util import ravel_pytree
from jax.sharding import Mesh

from mmlp.compilation import Compiled, combine_model
from mmlp.training.data import count_rows
from mmlp.training.devices import make_sharding

MAX_BAD_STEPS_IN_A_ROW = 5
MAX_HALVINGS = 6

# Validation data are scored in batches of at least this many rows: enough to be fast,
# few enough to fit in memory.
MIN_VALIDATION_BATCH_SIZE = 256


@dataclasses.dataclass(frozen=True)
class Program:
    """What is compiled into an epoch; equal programs of equal shapes are compiled once.

    Parameters
    ----------
    loss : callable
        Called as `loss(model, batch, key, t)`.
    optimizer : optax.GradientTransformation
    static : tuple
        The part of the model that is not an array; see `partition_model`.
    batch_size : int
    key_impl : str or PRNG implementation
        The kind of the random keys.
    many : bool, default=False
        Whether arrays have a leading axis of models.
    own_data : bool, default=False
        Whether the data have this axis, too.
    mesh : jax.sharding.Mesh, optional
        The devices, if there are several.
    effort : {"least", "less", "full"}
        How hard to compile; see `mmlp.compilation`.
    """

    loss: Callable
    optimizer: optax.GradientTransformation
    static: tuple
    batch_size: int
    key_impl: Any
    many: bool = False
    own_data: bool = False
    mesh: Mesh | None = None
    effort: str = "full"


class Constants(NamedTuple):
    """The arrays that an epoch reads and does not change.

    With `fit_many`, `frozen`, `key_data`, `rate_factor` and `rows` have a leading
    axis of models. `data` has it with `own_data`, and `validation` with `own_data` or
    `rows`.
    """

    frozen: Any  # arrays of the model that are not trained
    data: Any
    validation: Any
    key_data: Any
    rate_factor: Any  # multiplies every update: the model's entry of `rates`
    epochs: Any
    patience: Any
    rows: Any = None  # (n_parts, n_rows): the rows of `data` that a model sees


class State(NamedTuple):
    """The arrays that change during training; `fit_many` has one for each model."""

    params: Any  # floating-point arrays of the model
    optimizer_state: Any
    # The weights before the last applied step, as one vector. Their loss and gradient
    # were finite, which is not known of `params` until the next step.
    good_params: Any
    best_params: Any  # at the lowest validation loss
    best_validation: Any = np.inf
    epochs_without_improvement: Any = 0
    step_scale: Any = 1.0  # multiplies every update: halved at each return
    bad_steps: Any = 0  # number of bad steps in a row
    culprit: Any = 0  # what was not finite last: 0 the loss, i the i-th array of params
    failed: Any = False
    stopped: Any = False


class Metrics(NamedTuple):
    """The report of an epoch: few arrays, because each copy from a GPU takes time."""

    loss: Any
    validation: Any
    skipped: Any  # steps that were not applied
    step_scale: Any
    stopped: Any

    @classmethod
    def stack(cls, epoch_metrics: "list[Metrics]") -> "Metrics":
        """Return arrays with a leading axis of epochs."""
        return cls(*map(np.array, zip(*epoch_metrics, strict=True)))


class BatchLosses(NamedTuple):
    """The losses of batches of one size; a step that was not applied has loss 0."""

    batch_size: int
    losses: Any
    applied: Any = True


def make_initial_state(program: Program, params: Any) -> State:
    """Return the state before the first step.

    Its arrays are copies of `params`, because `run_epoch` reuses their memory.
    """
    return _initialize((program.optimizer.init, program.many), params)


@functools.partial(Compiled, effort="least")
def _initialize(static: tuple[Callable, bool], params: Any) -> State:
    """Compute the initial state; `static` is (optimizer.init, many)."""
    init_optimizer, many = static

    def copy(x: Any) -> Array:
        dtype = x.dtype if eqx.is_array(x) else jnp.result_type(x)
        return jnp.array(x, dtype=dtype, copy=True)

    def initialize_one_model(params: Any) -> State:
        state = State(
            params=params,
            optimizer_state=init_optimizer(params),
            good_params=ravel_pytree(params)[0],
            best_params=params,
        )
        return jax.tree.map(copy, state)

    if many:
        return jax.vmap(initialize_one_model)(params)
    return initialize_one_model(params)


@functools.partial(Compiled, donate=0)
def run_epoch(
    program: Program, state: State, constants: Constants, epoch: Any
) -> tuple[State, Metrics]:
    """Train for one epoch and score the validation data.

    Parameters
    ----------
    program : Program
    state : State
        At the start of the epoch; its memory is reused.
    constants : Constants
    epoch : int32
        Index of the epoch, from 0.

    Returns
    -------
    state : State
        At the end of the epoch.
    metrics : Metrics
    """

    def run_one_model(state: State, constants: Constants) -> tuple[State, Metrics]:
        trained, losses = _take_all_steps(program, state, constants, epoch)
        scores = None
        if constants.validation is not None:
            scores = _score_validation(program, trained.params, constants)
        return finish_epoch(program, state, trained, constants, losses, scores)

    if program.many:
        in_axes = (0, list_model_axes(program, constants))
        new_state, metrics = jax.vmap(run_one_model, in_axes)(state, constants)
    else:
        new_state, metrics = run_one_model(state, constants)

    if program.mesh is not None:
        n_models = len(metrics.loss) if program.many else None
        spread = make_sharding(program.mesh, n_models)
        new_state = jax.lax.with_sharding_constraint(new_state, spread)
        replicated = make_sharding(program.mesh)
        metrics = jax.lax.with_sharding_constraint(metrics, replicated)
    return new_state, metrics


def list_model_axes(program: Program, constants: Constants) -> Constants:
    """Return the axis of models of each constant, as `jax.vmap` takes it."""
    has_rows = constants.rows is not None
    own_validation = program.own_data or has_rows
    return Constants(
        frozen=0,
        data=0 if program.own_data else None,
        validation=0 if own_validation else None,
        key_data=0,
        rate_factor=0,
        epochs=None,
        patience=None,
        rows=0 if has_rows else None,
    )


def _take_all_steps(
    program: Program, state: State, constants: Constants, epoch: Any
) -> tuple[State, list[BatchLosses]]:
    """Take a step for each batch of shuffled rows; the last batch may be smaller."""
    # `jax.random.permutation` shuffles range(n) if it is given a number n.
    all_rows: Any = count_rows(constants.data)
    n_rows = all_rows
    if constants.rows is not None:
        # The parts take turns.
        part = epoch % len(constants.rows)
        all_rows = jnp.take(constants.rows, part, axis=0)
        n_rows = len(all_rows)

    batch_size = program.batch_size
    n_full, n_left = divmod(n_rows, batch_size)
    n_steps = n_full + (n_left > 0)
    keys = make_epoch_keys(program, constants, epoch, n_steps)
    order = jax.random.permutation(keys[-1], all_rows)
    indices = jnp.arange(n_steps)

    def step(state: State, inputs: tuple) -> tuple[State, tuple]:
        index, key, rows = inputs
        batch = jax.tree.map(lambda x: x[rows], constants.data)
        batch = spread_batch(program, batch)
        t = compute_progress(constants, state, epoch, index, n_steps)
        return take_step(program, state, constants, batch, key, t)

    losses = []
    if n_full:
        rows = order[: n_full * batch_size].reshape(n_full, batch_size)
        inputs = (indices[:n_full], keys[:n_full], rows)
        state, (values, applied) = jax.lax.scan(step, state, inputs)
        losses.append(BatchLosses(batch_size, values, applied))
    if n_left:
        rows = order[n_full * batch_size :]
        inputs = (indices[n_full], keys[n_full], rows)
        state, (value, applied) = step(state, inputs)
        losses.append(BatchLosses(n_left, value, applied))
    return state, losses


def make_epoch_keys(
    program: Program, constants: Constants, epoch: Any, n_steps: int
) -> Array:
    """Return a key for each step of an epoch, and a last one for the order of rows."""
    key = jax.random.wrap_key_data(constants.key_data, impl=program.key_impl)
    return jax.random.split(jax.random.fold_in(key, epoch + 1), n_steps + 1)


def compute_progress(
    constants: Constants, state: State, epoch: Any, step: Any, n_steps: int
) -> Array:
    """Return t, which runs from 0 at the first step to 1 at the last one."""
    last_step = constants.epochs * n_steps - 1
    t = (epoch * n_steps + step) / jnp.maximum(last_step, 1)
    return t.astype(_find_float_dtype(state.params))


def take_step(
    program: Program, state: State, constants: Constants, batch: Any, key: Array, t: Any
) -> tuple[State, tuple[Array, Array]]:
    """Take one gradient step if all its numbers are finite.

    Returns
    -------
    state : State
    report : (loss, applied)
        The loss of the batch, 0 if the step was not applied, and whether it was.
    """
    loss, gradient = jax.value_and_grad(evaluate_loss, argnums=1)(
        program, state.params, constants.frozen, batch, key, t
    )
    optimizer = optax.with_extra_args_support(program.optimizer)
    updates, optimizer_state = optimizer.update(
        gradient, state.optimizer_state, state.params, t=t
    )
    factor = constants.rate_factor * state.step_scale
    updates = jax.tree.map(lambda update: factor.astype(update.dtype) * update, updates)
    params = optax.apply_updates(state.params, updates)

    # One joined array of flags, because networks have dozens of arrays of weights. The
    # sum of gradient and new weight is finite only if both are.
    sums = map(jnp.add, jax.tree.leaves(gradient), jax.tree.leaves(params))
    quantities = [loss, *sums]
    finite = jnp.concatenate([jnp.isfinite(x).ravel() for x in quantities])

    applied = jnp.all(finite) & ~state.failed
    bad_steps: Any = jnp.where(applied, 0, state.bad_steps + 1)
    return_to_good = (bad_steps >= MAX_BAD_STEPS_IN_A_ROW) & ~state.failed
    step_scale = jnp.where(return_to_good, state.step_scale / 2, state.step_scale)

    flat_params, unravel = ravel_pytree(state.params)
    params_if_skipped = select(return_to_good, unravel(state.good_params), state.params)

    # The culprit is the quantity that holds the first number that is not finite.
    ends = np.cumsum([np.size(x) for x in quantities])
    culprit = _compute_unless(
        applied | state.failed,
        lambda: jnp.sum(jnp.argmin(finite) >= ends),
        state.culprit,
    )

    new_state = state._replace(
        params=select(applied, params, params_if_skipped),
        optimizer_state=select(applied, optimizer_state, state.optimizer_state),
        good_params=jnp.where(applied, flat_params, state.good_params),
        step_scale=step_scale,
        bad_steps=jnp.where(return_to_good, 0, bad_steps),
        culprit=culprit,
        failed=state.failed | (step_scale < 0.5**MAX_HALVINGS),
    )
    reported_loss = jnp.where(applied, jnp.asarray(loss), 0)
    return new_state, (reported_loss, applied)


def evaluate_loss(
    program: Program, params: Any, frozen: Any, batch: Any, key: Array, t: Any
) -> Any:
    """Call the user's loss, which must return one real number."""
    model = combine_model(params, frozen, program.static)
    value = program.loss(model, batch, key, t)

    is_numeric = isinstance(value, float | np.ndarray | np.generic | Array)
    is_real = is_numeric and jnp.issubdtype(jnp.result_type(value), jnp.floating)
    if is_real and jnp.shape(value) == ():
        return value

    returned = str(jax.typeof(value)) if is_numeric else type(value).__name__
    remedy = "return that number alone"
    if is_numeric and jnp.shape(value) != ():
        remedy = "use `jnp.mean` of it"
    raise ValueError(
        "`fit(loss=...)` must return one real number, the mean over the batch; it "
        f"returned {returned}: {remedy}."
    )


def _compute_unless(
    condition: Array, compute: Callable[[], Array], value: Array
) -> Array:
    """Return `value` where the condition holds, else the integer `compute()`.

    A CPU branches; on a GPU, computing the integer costs less than a branch.
    """

    def new_value() -> Array:
        return compute().astype(value.dtype)

    return jax.lax.platform_dependent(
        cpu=lambda: jax.lax.cond(condition, lambda: value, new_value),
        default=lambda: jnp.where(condition, value, new_value()),
    )


def _score_validation(
    program: Program, params: Any, constants: Constants
) -> list[BatchLosses]:
    """Return the losses of the validation data, batch by batch, in their order."""
    n_rows = count_rows(constants.validation)
    batch_size = choose_validation_batch_size(program, n_rows)
    n_full, n_left = divmod(n_rows, batch_size)
    keys = make_validation_keys(program, constants, n_full + (n_left > 0))
    all_rows = np.arange(n_rows)

    def score(inputs: tuple) -> Array:
        key, rows = inputs
        batch = jax.tree.map(lambda x: x[rows], constants.validation)
        batch = spread_batch(program, batch)
        return score_batch(program, params, constants, batch, key)

    rows = all_rows[: n_full * batch_size].reshape(n_full, batch_size)
    scores = [BatchLosses(batch_size, jax.lax.map(score, (keys[:n_full], rows)))]
    if n_left:
        rows = all_rows[n_full * batch_size :]
        scores.append(BatchLosses(n_left, score((keys[-1], rows))))
    return scores


def choose_validation_batch_size(program: Program, n_rows: int) -> int:
    """Return how many rows of the validation data are scored at once."""
    return min(n_rows, max(program.batch_size, MIN_VALIDATION_BATCH_SIZE))


def make_validation_keys(
    program: Program, constants: Constants, n_batches: int
) -> Array:
    """Return a key for each batch of the validation data, the same in every epoch."""
    key = jax.random.wrap_key_data(constants.key_data, impl=program.key_impl)
    return jax.random.split(jax.random.fold_in(key, 0), n_batches)


def score_batch(
    program: Program, params: Any, constants: Constants, batch: Any, key: Array
) -> Any:
    """Return the loss of a batch of validation data, at t = 1."""
    model = combine_model(params, constants.frozen, program.static)
    return program.loss(model, batch, key, jnp.ones((), _find_float_dtype(model)))


def finish_epoch(
    program: Program,
    before: State,
    after: State,
    constants: Constants,
    losses: list[BatchLosses],
    scores: list[BatchLosses] | None,
) -> tuple[State, Metrics]:
    """Average the losses, keep the best weights, and decide whether a model stops."""
    loss_sum = sum(part.batch_size * jnp.sum(part.losses) for part in losses)
    n_rows = sum(part.batch_size * jnp.sum(part.applied) for part in losses)
    loss: Any = loss_sum / n_rows  # NaN if no step was applied
    skipped: Any = sum(jnp.sum(~part.applied) for part in losses)

    validation: Any = jnp.full_like(loss, jnp.nan)
    if scores is not None:
        n_validation_rows = sum(
            part.batch_size * np.size(part.losses) for part in scores
        )
        score_sum = sum(part.batch_size * jnp.sum(part.losses) for part in scores)
        validation = score_sum / n_validation_rows
        better = validation < after.best_validation
        after = after._replace(
            best_params=select(better, after.params, after.best_params),
            best_validation=select(better, validation, after.best_validation),
            epochs_without_improvement=jnp.where(
                better, 0, after.epochs_without_improvement + 1
            ),
        )
    out_of_patience = after.epochs_without_improvement >= constants.patience
    after = after._replace(stopped=after.failed | out_of_patience)

    if program.many:
        # A model that has stopped stays as it is while the others are trained.
        after = select(before.stopped, before, after)
        loss = jnp.where(before.stopped, jnp.nan, loss)
        validation = jnp.where(before.stopped, jnp.nan, validation)
        skipped = jnp.where(before.stopped, 0, skipped)

    # Half precision is too coarse for averages.
    dtype = jnp.promote_types(loss.dtype, jnp.float32)
    metrics = Metrics(
        loss=loss.astype(dtype),
        validation=validation.astype(dtype),
        skipped=skipped,
        step_scale=after.step_scale.astype(dtype),
        stopped=after.stopped,
    )
    return after, metrics


def spread_batch(program: Program, batch: Any) -> Any:
    """Spread a batch over the devices if its rows can be shared out evenly."""
    if program.mesh is None or program.many:
        return batch
    sharding = make_sharding(program.mesh, count_rows(batch))
    return jax.lax.with_sharding_constraint(batch, sharding)


def select(condition: Any, new: Any, old: Any) -> Any:
    """Apply `jnp.where` to the leaves of two trees, with the dtypes of `old`."""
    return jax.tree.map(
        lambda a, b: jnp.where(condition, a, b).astype(b.dtype), new, old
    )


def _find_float_dtype(tree: Any) -> Any:
    """Return the common dtype of the floating-point arrays of a tree."""
    return jnp.result_type(*jax.tree.leaves(eqx.filter(tree, eqx.is_inexact_array)))
