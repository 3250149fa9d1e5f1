"""Fit the conditional covariance of `MultivariateRegressor`.

Networks learn it from out-of-fold residuals of the mean, by maximum likelihood. What a
form of covariances, full or low rank, must provide for that is the abstract class
`CovarianceForm`.
"""

import abc
import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from jax.typing import DTypeLike

from mmlp.distributions import Elliptical
from mmlp.estimators.chunks import apply_networks, nest_stack
from mmlp.estimators.covariance_networks import MatrixNetworkSizes
from mmlp.estimators.cross_fitting import (
    CrossFit,
    Fold,
    compile_networks,
    fit_networks,
)
from mmlp.estimators.mean import FittedMean
from mmlp.estimators.scaling import StandardizedTable
from mmlp.estimators.target_columns import TargetColumns
from mmlp.estimators.training_settings import TrainingSettings
from mmlp.networks.heads import GaussianHead, Head, PowerExponentialHead, StudentTHead
from mmlp.spd import SPD

# The heads of the families of distributions.
FAMILIES = {
    "gaussian": GaussianHead,
    "power_exponential": PowerExponentialHead,
    "student_t": StudentTHead,
}

MAX_TARGETS_FOR_FULL = 30


class CovarianceBatch(Protocol):
    """The covariances of n rows, in float64."""

    def in_units(self, scale: np.ndarray) -> "CovarianceBatch":
        """Return the covariances after each target is multiplied by its scale (d,)."""
        ...

    def with_constant_targets(self, columns: TargetColumns) -> "CovarianceBatch":
        """Return those of all targets: zero in rows and columns of constant ones."""
        ...

    def dense(self, columns: Any = slice(None)) -> np.ndarray:
        """Return the matrices (n, k, k) of some targets."""
        ...

    def std(self) -> np.ndarray:
        """Return the standard deviations (n, d)."""
        ...

    def as_spd(self, call: str, dtype: DTypeLike, mean: np.ndarray) -> SPD:
        """Return them in a dtype, if it holds them and the means (n, d) precisely.

        A ValueError that names `call` is raised if it does not.
        """
        ...


class Calibration(NamedTuple):
    """What turns outputs of networks into covariances of the standardized targets.

    Attributes
    ----------
    shape : array
        Standardizes residuals to total variance one; see `CovarianceForm.fit_shape`.
    contrast : float or array
        For full covariances the factor, from 0 to 1, of the deviations of log V from
        its centre. For low-rank ones, the factors (a, b) of diag(s^2) and U'U.
    gain : float
        Multiplies the covariances, because the mean of all networks errs less than the
        out-of-fold predictions.
    """

    shape: np.ndarray
    contrast: Any
    gain: float


@dataclasses.dataclass(frozen=True)
class CovarianceSettings:
    """How to train the networks of the covariance.

    Parameters
    ----------
    form : CovarianceForm
        Full or low rank.
    head : subclass of Head
        Family of distributions.
    architecture : "joint" or "cholesky"
    hidden_dims, hidden_features : tuples of int
        Sizes of hidden matrices and vectors.
    rank : int or None
        Loadings of a low-rank covariance; None is chosen from the residuals.
    training : TrainingSettings
    seed : int
        Seed of weights and batches.
    stage : str
        Name under which progress is shown.
    checkpoint : Path, optional
        Directory in which interrupted training is kept.
    initial_networks, initial_shape : optional
        Networks from which training resumes, and the shape that they were trained with.
    """

    form: "CovarianceForm"
    head: type[Head]
    architecture: str
    hidden_dims: tuple[int, ...]
    hidden_features: tuple[int, ...]
    rank: int | None
    training: TrainingSettings
    seed: int
    stage: str = ""
    checkpoint: Path | None = None
    initial_networks: Any = None
    initial_shape: np.ndarray | None = None

    def network_sizes(self, n_inputs: int, n_targets: int) -> MatrixNetworkSizes:
        """Return the sizes of the networks for these numbers of columns."""
        return MatrixNetworkSizes(
            architecture=self.architecture,
            n_inputs=n_inputs,
            dim=n_targets,
            hidden_dims=self.hidden_dims,
            hidden_features=self.hidden_features,
        )


class ResidualTable(NamedTuple):
    """Out-of-fold residuals, from which covariances are learnt and calibrated.

    Attributes
    ----------
    inputs : array of shape (n_rows, n_inputs), in the dtype of the networks
    residuals : array of shape (n_rows, n_targets)
    disagreement : array of shape (n_rows, n_targets)
        Difference of the out-of-fold predictions of the two partitions.
    row_weights : array of shape (n_rows,)
    folds : list of Fold
    """

    inputs: np.ndarray
    residuals: np.ndarray
    disagreement: np.ndarray
    row_weights: np.ndarray
    folds: list[Fold]


class FittedCovariance(NamedTuple):
    """The trained networks of the covariance, and the residuals they were trained on.

    Attributes
    ----------
    networks : stack of heads, one per fold
    shape : array
        Standardizes the residuals.
    table : ResidualTable
    history : dict of arrays
    """

    networks: Any
    shape: np.ndarray
    table: ResidualTable
    history: dict[str, np.ndarray]


class CovarianceForm(abc.ABC):
    """A form of covariances: how they are learnt, calibrated and predicted.

    A form is stateless. It is fitted in three steps: `fit_shape` standardizes residuals
    to total variance one, networks learn the covariances of these, and `calibrate`
    corrects them by held-out residuals.

    The *tail* are the parameters of the family beyond mean and covariance, such as the
    degrees of freedom of Student's t; there may be none.
    """

    # Whether the residuals decide on the sizes of networks (`choose_network`).
    sizes_depend_on_residuals: ClassVar[bool]

    # Whether `predict_parts` gets all networks at once, or one of them.
    combines_networks: ClassVar[bool]

    @abc.abstractmethod
    def fit_shape(self, residuals: np.ndarray, row_weights: np.ndarray) -> np.ndarray:
        """Return the common shape by which residuals are standardized."""

    @abc.abstractmethod
    def standardize(self, shape: np.ndarray, residuals: np.ndarray) -> np.ndarray:
        """Return residuals (n, d) in units of the shape."""

    @abc.abstractmethod
    def choose_network(
        self,
        settings: CovarianceSettings,
        n_inputs: int,
        residuals: np.ndarray,
        row_weights: np.ndarray,
    ) -> tuple[Callable, np.ndarray | None]:
        """Return a builder of networks, and the residuals it starts from, if any."""

    @abc.abstractmethod
    def calibrate(
        self, family: type[Elliptical], networks: Any, table: ResidualTable
    ) -> tuple[Any, float]:
        """Return contrast and gain that suit the held-out residuals."""

    @staticmethod
    @abc.abstractmethod
    def predict_parts(network: Any, x: Any) -> tuple:
        """Return the parts of one row's standardized covariance, then its tail."""

    @abc.abstractmethod
    def assemble(
        self,
        parts: Sequence[np.ndarray],
        calibration: Calibration,
        family: type[Elliptical],
    ) -> tuple[CovarianceBatch, list[np.ndarray]]:
        """Return the covariances of the standardized targets, and the tail.

        `parts` are arrays of shape (n_rows, n_networks, ...), as `predict_parts` gives.
        """

    @abc.abstractmethod
    def named_results(self, *, text: bool) -> dict[str, Callable]:
        """Return functions of a `CovarianceBatch` by the name of what they return.

        `text` restricts them to what a table of text should hold.
        """

    @abc.abstractmethod
    def check_fitted(
        self, shape: Any, contrast: Any, n_targets: int
    ) -> tuple[tuple, ...]:
        """Return the shapes of the parts; raise a ValueError for impossible numbers."""

    def prepare_networks(self, networks: Any) -> Any:
        """Return a stack of networks as `predict_parts` takes them."""
        return nest_stack(networks) if self.combines_networks else networks


def minus_log_density(network, key, t, x, residual):
    """Return the loss of one row."""
    return -network(x).log_prob(residual)


def fit_covariance(
    table: StandardizedTable,
    mean: FittedMean,
    folds: list[Fold],
    settings: CovarianceSettings,
    validation: StandardizedTable | None = None,
) -> FittedCovariance:
    """Train networks for the covariance of the out-of-fold residuals of the mean.

    Parameters
    ----------
    table : StandardizedTable
    mean : FittedMean
    folds : list of Fold
        The first partition of the mean: a network for the covariance does not see
        residuals of its held-out rows.
    settings : CovarianceSettings
    validation : StandardizedTable, optional
        Other rows, which decide when to stop in place of the held-out ones.
    """
    form = settings.form
    shape = settings.initial_shape
    if shape is None:
        shape = form.fit_shape(mean.residuals, table.row_weights)
    residual_table = ResidualTable(
        inputs=table.inputs.astype(settings.training.dtype),
        residuals=form.standardize(shape, mean.residuals),
        disagreement=form.standardize(shape, mean.disagreement),
        row_weights=table.row_weights,
        folds=folds,
    )

    validation_arrays = None
    if validation is not None:
        assert mean.validation_residuals is not None
        validation_arrays = (
            validation.inputs,
            form.standardize(shape, mean.validation_residuals),
        )

    build, initial_targets = form.choose_network(
        settings, table.n_inputs, residual_table.residuals, table.row_weights
    )
    task = CrossFit(
        build=build,
        sample_loss=minus_log_density,
        arrays=(table.inputs, residual_table.residuals),
        row_weights=table.row_weights,
        folds=folds,
        seed=settings.seed,
        initial_targets=initial_targets,
        validation_arrays=validation_arrays,
        initial_networks=settings.initial_networks,
        learning_rate_factors=mean.learning_rate_factor,
    )
    result = fit_networks(
        task,
        settings.training,
        checkpoint=settings.checkpoint,
        stage=settings.stage,
    )
    return FittedCovariance(result.model, shape, residual_table, result.history)


def compile_covariance(
    table: StandardizedTable,
    folds: list[Fold],
    settings: CovarianceSettings,
    validation: StandardizedTable | None = None,
) -> None:
    """Compile what `fit_covariance` will run, before the residuals are known."""
    form = settings.form
    if form.sizes_depend_on_residuals:
        return

    # Targets and zeros stand for the residuals, because only shapes matter.
    validation_arrays = None
    if validation is not None:
        validation_arrays = (validation.inputs, validation.targets)
    build, initial_targets = form.choose_network(
        settings, table.n_inputs, table.targets, table.row_weights
    )
    task = CrossFit(
        build=build,
        sample_loss=minus_log_density,
        arrays=(table.inputs, np.zeros_like(table.targets)),
        row_weights=table.row_weights,
        folds=folds,
        seed=settings.seed,
        initial_targets=initial_targets,
        validation_arrays=validation_arrays,
    )
    networks = compile_networks(task, settings.training)

    # This compiles the program by which `calibrate` applies the networks.
    inputs = table.inputs.astype(settings.training.dtype)
    apply_networks(form.predict_parts, networks, inputs)


def calibrate_covariance(
    covariance: FittedCovariance, settings: CovarianceSettings
) -> Calibration:
    """Correct the learnt covariances by held-out residuals."""
    family: Any = settings.head.distribution
    contrast, gain = settings.form.calibrate(
        family, covariance.networks, covariance.table
    )
    return Calibration(covariance.shape, contrast, gain)


def predict_covariance(
    networks: Any,
    form: CovarianceForm,
    calibration: Calibration,
    family: type[Elliptical],
    inputs: np.ndarray,
) -> tuple[CovarianceBatch, list[np.ndarray]]:
    """Return covariances and tails of standardized targets at standardized inputs."""
    stack = form.prepare_networks(networks)
    parts = apply_networks(form.predict_parts, stack, inputs)
    return form.assemble(parts, calibration, family)


def choose_form(covariance: str, rank: int | None, n_columns: int) -> str:
    """Return "full" or "low_rank" for checked arguments of an estimator.

    "auto" is low rank with a `rank`, or for more than `MAX_TARGETS_FOR_FULL` columns.
    """
    if covariance != "auto":
        return covariance
    if rank is not None or n_columns > MAX_TARGETS_FOR_FULL:
        return "low_rank"
    return "full"
