"""Fit the conditional mean of `MultivariateRegressor`.

The mean is an average of MLPs that are cross-fitted: each network is trained without
one fold of the rows, so that its residuals on that fold are those of new rows. On small
tables a Gaussian process is blended in. On larger tables a first round of networks
settles three questions before the final networks are trained:

- Which learning rate suits the noise? With more noise than signal, a smaller one is
  better; held-out rows choose.
- Which inputs matter? The others only help an MLP to fit noise, so they are left out.
- How noisy is each row? Errors are divided by their usual size, lest noisy rows
  dominate.
"""

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from mmlp.estimators import model_files
from mmlp.estimators.chunks import (
    apply_networks,
    nest_stack,
    select_network,
    select_networks,
)
from mmlp.estimators.cross_fitting import (
    CrossFit,
    Fold,
    fit_networks,
    out_of_fold,
    restrict_folds,
)
from mmlp.estimators.gaussian_process import (
    MAX_ROWS_FOR_GAUSSIAN_PROCESS,
    MAX_TARGETS_FOR_GAUSSIAN_PROCESS,
    choose_blending_weights,
    fit_gaussian_process,
)
from mmlp.estimators.scaling import StandardizedTable
from mmlp.estimators.training_settings import TrainingSettings
from mmlp.networks import Perceptron
from mmlp.networks.calibration import calibrate
from mmlp.training import FitResult

# Held-out rows choose among these factors of the learning rate.
LEARNING_RATE_FACTORS = (1.0, 0.25)

# With more rows, the first factor is used: there is less noise to fit.
MAX_ROWS_FOR_LEARNING_RATE_SEARCH = 20_000

# An input is kept if permuting it increases the out-of-fold error by more than this
# many standard errors. Permuting the other inputs together may increase it by at most
# the second number.
MIN_IMPORTANCE_IN_STANDARD_ERRORS = 2.0
MAX_JOINT_IMPORTANCE_IN_STANDARD_ERRORS = 1.0

# At most this many rows tell whether an input matters.
MAX_ROWS_FOR_IMPORTANCE = 100_000

# Predicted sizes of errors are limited to these quantiles of the absolute errors.
ERROR_QUANTILES = (0.1, 0.9)


@dataclasses.dataclass(frozen=True)
class MeanSettings:
    """How to train the networks of the mean.

    Parameters
    ----------
    hidden_features : tuple of int
        Widths of the hidden layers.
    training : TrainingSettings
    seed : int
        Seed of weights and batches.
    search_learning_rate : bool
        Whether held-out rows may choose a smaller learning rate.
    checkpoint : Path, optional
        Directory in which interrupted training is kept.
    initial_networks : stack of Perceptrons, optional
        Networks from which the final training resumes.
    """

    hidden_features: tuple[int, ...]
    training: TrainingSettings
    seed: int
    search_learning_rate: bool = False
    checkpoint: Path | None = None
    initial_networks: Any = None


@dataclasses.dataclass(frozen=True)
class MeanPlan:
    """What the first networks have decided about the final ones.

    Parameters
    ----------
    learning_rate_factor : float
        Multiplies the learning rate of the settings.
    input_mask : array of shape (n_inputs,)
        One for the inputs that the final networks see, zero for the others.
    error_weights : array of shape (n_rows, n_targets)
        Errors are multiplied by these weights in the squared loss, so that noisy rows
        do not dominate.
    validation_error_weights : array of shape (n_validation_rows, n_targets), optional
    """

    learning_rate_factor: float
    input_mask: np.ndarray
    error_weights: np.ndarray
    validation_error_weights: np.ndarray | None

    @classmethod
    def without_first_networks(
        cls, table: StandardizedTable, validation: StandardizedTable | None
    ) -> "MeanPlan":
        """Keep every input and weigh all errors equally."""
        validation_error_weights = None
        if validation is not None:
            validation_error_weights = np.ones_like(validation.targets)
        return cls(
            learning_rate_factor=1.0,
            input_mask=np.ones(table.n_inputs),
            error_weights=np.ones_like(table.targets),
            validation_error_weights=validation_error_weights,
        )


class FittedMean(NamedTuple):
    """The fitted mean, and what the covariance needs to know about it.

    Attributes
    ----------
    networks : stack of Perceptrons
        One network per partition and fold.
    gaussian_process : GaussianProcessMean, as a stack of one, or None
    gaussian_process_weights : array of shape (n_targets,)
        Weight of the Gaussian process in the mean of each target, from 0 to 1.
    residuals : array of shape (n_rows, n_targets)
        Out-of-fold residuals of the mean over both partitions.
    disagreement : array of shape (n_rows, n_targets)
        Difference between the out-of-fold predictions of the two partitions. It tells
        how much a mean of more networks reduces the residuals.
    validation_residuals : array of shape (n_validation_rows, n_targets), optional
    learning_rate_factor : float
    history : dict of arrays
    """

    networks: Any
    gaussian_process: Any
    gaussian_process_weights: np.ndarray
    residuals: np.ndarray
    disagreement: np.ndarray
    validation_residuals: np.ndarray | None
    learning_rate_factor: float
    history: dict[str, np.ndarray]


def name_stage(stage: str, n_rows: int) -> str:
    """Return the name of a stage of `MultivariateRegressor.fit` for progress.

    >>> name_stage("mean", 100), name_stage("mean", 10_000)
    ('1/2 mean', '3/4 mean')
    """
    stages = ["mean", "covariance"]
    if needs_first_networks(n_rows):
        stages = ["first mean", "size of errors", *stages]
    return f"{stages.index(stage) + 1}/{len(stages)} {stage}"


def needs_first_networks(n_rows: int) -> bool:
    """Return whether the table is too large for a Gaussian process."""
    return n_rows > MAX_ROWS_FOR_GAUSSIAN_PROCESS


def fit_mean(
    table: StandardizedTable,
    partitions: list[list[Fold]],
    settings: MeanSettings,
    validation: StandardizedTable | None = None,
) -> FittedMean:
    """Fit the mean of all targets.

    Parameters
    ----------
    table : StandardizedTable
    partitions : list of two lists of folds
        Two independent ways to split the rows into folds.
    settings : MeanSettings
    validation : StandardizedTable, optional
        Other rows, which decide when to stop in place of the held-out ones.
    """
    dtype = settings.training.dtype
    rng = np.random.default_rng(settings.seed)
    is_small = not needs_first_networks(table.n_rows)

    if is_small:
        plan = MeanPlan.without_first_networks(table, validation)
    else:
        plan = plan_with_first_networks(
            table, partitions[0], settings, validation=validation, rng=rng
        )
    networks, history = fit_final_networks(
        table, partitions, settings, plan, validation
    )

    inputs = table.inputs.astype(dtype)
    by_partition = np.split(
        apply_networks(evaluate, networks, inputs), len(partitions), axis=1
    )
    predictions = [
        out_of_fold(values, folds)
        for values, folds in zip(by_partition, partitions, strict=True)
    ]

    gaussian_process = None
    process_weights = np.zeros(table.n_targets)
    if is_small and table.n_targets <= MAX_TARGETS_FOR_GAUSSIAN_PROCESS:
        process, process_predictions = fit_gaussian_process(
            table, partitions, dtype=dtype, rng=rng
        )
        process_weights = choose_blending_weights(
            table.targets,
            table.row_weights,
            np.mean(predictions, axis=0),
            np.mean(process_predictions, axis=0),
        )
        predictions = [
            blend(network_mean, process_mean, process_weights)
            for network_mean, process_mean in zip(
                predictions, process_predictions, strict=True
            )
        ]
        if process_weights.any():
            gaussian_process = nest_stack(process)

    validation_residuals = None
    if validation is not None:
        validation_mean = predict_mean(
            networks,
            gaussian_process,
            process_weights,
            validation.inputs.astype(dtype),
        )
        validation_residuals = validation.targets - validation_mean
    return FittedMean(
        networks=networks,
        gaussian_process=gaussian_process,
        gaussian_process_weights=process_weights,
        residuals=table.targets - np.mean(predictions, axis=0),
        disagreement=predictions[0] - predictions[1],
        validation_residuals=validation_residuals,
        learning_rate_factor=plan.learning_rate_factor,
        history=history,
    )


def blend(
    network_mean: np.ndarray, process_mean: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """Return the mean (n, d) with weights (d,) of the Gaussian process."""
    return network_mean + weights * (process_mean - network_mean)


def predict_mean(
    networks: Any,
    gaussian_process: Any,
    gaussian_process_weights: np.ndarray,
    inputs: np.ndarray,
) -> np.ndarray:
    """Return the mean (n, d) of the standardized targets at standardized inputs."""
    mean = _average_outputs(networks, inputs)
    if gaussian_process is None:
        return mean
    process_mean = apply_networks(evaluate, gaussian_process, inputs)[:, 0]
    return blend(mean, process_mean, gaussian_process_weights)


def plan_with_first_networks(
    table: StandardizedTable,
    folds: list[Fold],
    settings: MeanSettings,
    *,
    validation: StandardizedTable | None,
    rng: np.random.Generator,
) -> MeanPlan:
    """Train a first round of networks, and decide how to train the final ones."""
    dtype = settings.training.dtype
    inputs = table.inputs.astype(dtype)

    first_networks, learning_rate_factor = fit_first_networks(
        table, folds, settings, validation
    )
    input_mask = select_inputs(
        first_networks, inputs, table.targets, table.row_weights, folds, rng=rng
    )

    predictions = out_of_fold(apply_networks(evaluate, first_networks, inputs), folds)
    error_table = table._replace(targets=table.targets - predictions)
    validation_error_table = None
    if validation is not None:
        validation_mean = _average_outputs(
            first_networks, validation.inputs.astype(dtype)
        )
        validation_error_table = validation._replace(
            targets=validation.targets - validation_mean
        )
    error_weights, validation_error_weights = fit_error_weights(
        error_table,
        folds,
        settings,
        validation_error_table,
        learning_rate_factor=learning_rate_factor,
    )
    return MeanPlan(
        learning_rate_factor=learning_rate_factor,
        input_mask=input_mask,
        error_weights=error_weights,
        validation_error_weights=validation_error_weights,
    )


def fit_error_weights(
    error_table: StandardizedTable,
    folds: list[Fold],
    settings: MeanSettings,
    validation_error_table: StandardizedTable | None,
    *,
    learning_rate_factor: float,
) -> tuple[np.ndarray, np.ndarray | None]:
    """Train networks for the sizes of errors, and return the weights of the errors.

    Parameters
    ----------
    error_table : StandardizedTable
        Its targets are the out-of-fold errors of the first networks.
    folds : list of Fold
    settings : MeanSettings
    validation_error_table : StandardizedTable, optional
        The same for validation rows, with errors of the mean of the first networks.
    learning_rate_factor : float

    Returns
    -------
    error_weights, validation_error_weights : as in `MeanPlan`
    """
    dtype = settings.training.dtype
    validation_arrays = None
    if validation_error_table is not None:
        validation_arrays = (
            validation_error_table.inputs,
            validation_error_table.targets,
        )
    size_networks = fit_networks(
        CrossFit(
            build=make_mean_builder(error_table, settings),
            sample_loss=laplace_loss,
            arrays=(error_table.inputs, error_table.targets),
            row_weights=error_table.row_weights,
            folds=folds,
            seed=settings.seed,
            validation_arrays=validation_arrays,
            learning_rate_factors=learning_rate_factor,
        ),
        settings.training,
        checkpoint=_checkpoint_of(settings, "sizes"),
        stage=name_stage("size of errors", error_table.n_rows),
    ).model
    outputs = apply_networks(evaluate, size_networks, error_table.inputs.astype(dtype))
    log_sizes = out_of_fold(outputs, folds)
    error_weights = weigh_errors(
        log_sizes, error_table.targets, error_table.row_weights
    )

    validation_error_weights = None
    if validation_error_table is not None:
        validation_error_weights = weigh_errors(
            _average_outputs(
                size_networks, validation_error_table.inputs.astype(dtype)
            ),
            validation_error_table.targets,
            np.ones(validation_error_table.n_rows),
        )
    return error_weights, validation_error_weights


def fit_first_networks(
    table: StandardizedTable,
    folds: list[Fold],
    settings: MeanSettings,
    validation: StandardizedTable | None,
) -> tuple[Any, float]:
    """Train the first networks at each learning rate, and return the best ones.

    All learning rates are trained together.
    """
    factors = LEARNING_RATE_FACTORS if settings.search_learning_rate else (1.0,)
    if table.n_rows > MAX_ROWS_FOR_LEARNING_RATE_SEARCH:
        factors = factors[:1]

    plan = MeanPlan.without_first_networks(table, validation)
    result = fit_networks(
        CrossFit(
            build=make_mean_builder(table, settings),
            sample_loss=squared_error,
            arrays=(table.inputs, table.targets, plan.error_weights),
            row_weights=table.row_weights,
            folds=folds * len(factors),
            seed=settings.seed,
            validation_arrays=_validation_arrays(validation, plan),
            learning_rate_factors=np.repeat(factors, len(folds)),
        ),
        settings.training,
        checkpoint=_checkpoint_of(settings, "first"),
        stage=name_stage("first mean", table.n_rows),
    )
    return choose_learning_rate(result, factors)


def choose_learning_rate(
    result: FitResult, factors: Sequence[float]
) -> tuple[Any, float]:
    """Return the networks with the smallest validation loss, and their factor.

    `result` holds the networks of all factors, one factor after the other.
    """
    best_losses = np.nanmin(result.history["validation"], axis=0)
    by_factor = best_losses.reshape(len(factors), -1)
    best = int(np.argmin(by_factor.mean(axis=1)))
    n_folds = by_factor.shape[1]
    indices = slice(best * n_folds, (best + 1) * n_folds)
    return select_networks(result.model, indices), factors[best]


def fit_final_networks(
    table: StandardizedTable,
    partitions: list[list[Fold]],
    settings: MeanSettings,
    plan: MeanPlan,
    validation: StandardizedTable | None,
) -> tuple[Any, dict[str, np.ndarray]]:
    """Train the networks of all partitions as planned; return them and the losses."""
    task = CrossFit(
        build=make_mean_builder(table, settings),
        sample_loss=squared_error,
        arrays=(table.inputs * plan.input_mask, table.targets, plan.error_weights),
        row_weights=table.row_weights,
        folds=[fold for folds in partitions for fold in folds],
        seed=settings.seed,
        validation_arrays=_validation_arrays(validation, plan),
        initial_networks=settings.initial_networks,
        learning_rate_factors=plan.learning_rate_factor,
    )
    result = fit_networks(
        task,
        settings.training,
        checkpoint=_checkpoint_of(settings, "all"),
        stage=name_stage("mean", table.n_rows),
    )
    return clear_unused_weights(result.model, plan.input_mask), result.history


def clear_unused_weights(networks: Any, input_mask: np.ndarray) -> Any:
    """Set the weights of masked inputs, which training has not changed, to zero."""
    if input_mask.all():
        return networks

    def clear(W):
        return jnp.asarray(np.asarray(W) * input_mask.astype(W.dtype))

    return eqx.tree_at(lambda network: network.W[0], networks, replace_fn=clear)


def _validation_arrays(
    validation: StandardizedTable | None, plan: MeanPlan
) -> tuple[np.ndarray, ...] | None:
    """Return the validation rows as `squared_error` takes them."""
    if validation is None:
        return None
    assert plan.validation_error_weights is not None
    inputs = validation.inputs * plan.input_mask
    return inputs, validation.targets, plan.validation_error_weights


def _checkpoint_of(settings: MeanSettings, name: str) -> Path | None:
    return settings.checkpoint and settings.checkpoint / name


def _average_outputs(networks: Any, inputs: np.ndarray) -> np.ndarray:
    """Return the mean (n, d) of the outputs of all networks."""
    return apply_networks(evaluate, networks, inputs).mean(axis=1)


def select_inputs(
    networks: Any,
    inputs: np.ndarray,
    targets: np.ndarray,
    row_weights: np.ndarray,
    folds: list[Fold],
    *,
    rng: np.random.Generator,
) -> np.ndarray:
    """Find the inputs that matter, by permutation importance on out-of-fold rows.

    The importance of an input is the increase of the mean length of the error vector
    when the input's values are permuted, in standard errors. Lengths are used instead
    of squares because a single gross error would hide everything else.

    Inputs may matter together but not one by one. The rejected inputs are therefore
    permuted together as well, in another order, and the more important half of them is
    taken back until the joint permutation has no effect.

    Returns
    -------
    array of shape (n_inputs,)
        One for inputs that matter, zero for the others.
    """
    if len(inputs) > MAX_ROWS_FOR_IMPORTANCE:
        rows = rng.choice(len(inputs), MAX_ROWS_FOR_IMPORTANCE, replace=False)
        rows = np.sort(rows)
        inputs = inputs[rows]
        targets = targets[rows]
        row_weights = row_weights[rows]
        folds = restrict_folds(folds, rows)

    error_lengths = out_of_fold_error_lengths(networks, inputs, targets, folds)
    order = rng.permutation(len(inputs))
    joint_order = rng.permutation(len(inputs))

    def importance(columns: Sequence[int] | np.ndarray, order: np.ndarray) -> float:
        permuted = inputs.copy()
        permuted[:, columns] = inputs[order][:, columns]
        lengths = out_of_fold_error_lengths(networks, permuted, targets, folds)
        increase = row_weights * (lengths - error_lengths)
        standard_error = increase.std() / np.sqrt(len(increase))
        return increase.mean() / standard_error if standard_error > 0 else 0.0

    n_inputs = inputs.shape[1]
    importances = np.array([importance([j], order) for j in range(n_inputs)])
    n_rejected = int(np.sum(importances <= MIN_IMPORTANCE_IN_STANDARD_ERRORS))
    rejected = np.argsort(importances)[:n_rejected]  # the least important first
    while (
        len(rejected)
        and importance(rejected, joint_order) > MAX_JOINT_IMPORTANCE_IN_STANDARD_ERRORS
    ):
        rejected = rejected[: len(rejected) // 2]

    mask = np.ones(n_inputs)
    mask[rejected] = 0
    return mask


def out_of_fold_error_lengths(
    networks: Any, inputs: np.ndarray, targets: np.ndarray, folds: list[Fold]
) -> np.ndarray:
    """Return the lengths (n,) of the out-of-fold error vectors."""
    lengths = np.empty(len(inputs))
    for k, (_, rows) in enumerate(folds):
        predictions = apply_networks(
            evaluate, select_network(networks, k), inputs[rows]
        )
        lengths[rows] = np.linalg.norm(predictions[:, 0] - targets[rows], axis=1)
    return lengths


def weigh_errors(
    log_sizes: np.ndarray, errors: np.ndarray, row_weights: np.ndarray
) -> np.ndarray:
    """Return what errors are multiplied by, given the logarithms of their usual sizes.

    Sizes are limited to `ERROR_QUANTILES` of the errors: a network may predict anything
    for an input far from all others. A target that is exact for a tenth of the rows is
    not weighed.

    Parameters
    ----------
    log_sizes : array of shape (n, d)
    errors : array of shape (n, d)
    row_weights : array of shape (n,)

    Returns
    -------
    array of shape (n, d), with mean square one for each target
    """
    low, high = np.quantile(np.abs(errors), ERROR_QUANTILES, axis=0)
    is_exact = low == 0
    log_low = np.log(np.where(is_exact, 1, low))
    log_high = np.log(np.where(is_exact, 1, high))
    weights = np.exp(-np.clip(log_sizes, log_low, log_high))
    return weights / np.sqrt(np.average(weights**2, axis=0, weights=row_weights))


def check_blending_weights(
    weights: Any, networks: dict[str, Any], n_targets: int
) -> None:
    """Raise a ValueError if weights from a file do not belong to the networks."""
    is_valid = model_files.is_finite(weights, (n_targets,))
    if not is_valid or weights.min() < 0 or weights.max() > 1:
        raise ValueError(f"its share_ is not {n_targets} numbers from 0 to 1")
    unknown = networks.keys() - {"mean", "smooth", "covariance"}
    if unknown or weights.any() != ("smooth" in networks):
        raise ValueError(
            f"its share_ {weights} does not belong to models {', '.join(networks)}"
        )


@dataclasses.dataclass(frozen=True)
class PerceptronBuilder:
    """Build an MLP with these widths, from inputs to outputs."""

    sizes: tuple[int, ...]

    def __call__(self, key: Array, X: Array) -> Perceptron:
        network = Perceptron(self.sizes, jax.nn.gelu, key=key)
        return calibrate(network, X, key=key)


def make_mean_builder(table: StandardizedTable, settings: MeanSettings) -> Callable:
    """Return the builder of the networks of the mean."""
    return PerceptronBuilder(
        (table.n_inputs, *settings.hidden_features, table.n_targets)
    )


def evaluate(network, x):
    """Return the output of a network for one row."""
    return network(x)


def squared_error(network, key, t, x, target, error_weight):
    """Return the weighted squared error of one row."""
    return jnp.sum((error_weight * (network(x) - target)) ** 2)


def laplace_loss(network, key, t, x, error):
    """Return minus the Laplace log density of the errors of one row, up to a constant.

    Their mean absolute values are exp(network(x)).
    """
    log_size = network(x)
    return jnp.sum(log_size + jnp.abs(error) * jnp.exp(-log_size))
