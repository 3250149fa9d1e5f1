"""`MultivariateRegressor`: a mean and a covariance for each row, that hold on new rows.

If a mean and a covariance are trained together by likelihood, they spoil each other:
rows that are hard to fit are declared noisy, and covariances shrink onto residuals of
rows that the mean was trained on. Therefore the model is fitted in steps, with
cross-fitting (Chernozhukov et al., 2018):

1. Networks learn the mean by squared error, each without its own fold of the rows
   (`mean.py`).
2. Networks learn the covariance of the out-of-fold residuals (`covariance.py`).
3. Held-out residuals calibrate the covariance (`covariance_calibration.py`).

The power exponential is the default family because tails vary from table to table: one
gross error among a few hundred rows costs a Gaussian more than all that can be learnt
about the others.
"""

import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import MultiOutputMixin, RegressorMixin

from mmlp import metrics
from mmlp.distributions import Elliptical, marginals
from mmlp.errors import CallError
from mmlp.estimators import model_files
from mmlp.estimators.arguments import (
    check_choice,
    check_covariance_form,
    check_hidden_sizes,
    check_n_models,
    check_validation_pair,
)
from mmlp.estimators.background_compilation import compile_in_background
from mmlp.estimators.base import NetworkEstimator, restore_on_error
from mmlp.estimators.chunks import check_memory, map_in_chunks
from mmlp.estimators.covariance import (
    FAMILIES,
    Calibration,
    CovarianceForm,
    CovarianceSettings,
    FittedCovariance,
    calibrate_covariance,
    choose_form,
    compile_covariance,
    fit_covariance,
)
from mmlp.estimators.cross_fitting import (
    Fold,
    check_same_architecture,
    split_into_folds,
)
from mmlp.estimators.full_covariance import FullCovariance
from mmlp.estimators.inputs import TrainingTable, read_training_table
from mmlp.estimators.low_rank_covariance import LowRankCovariance, fitted_rank
from mmlp.estimators.mean import (
    FittedMean,
    MeanSettings,
    check_blending_weights,
    evaluate,
    fit_mean,
    make_mean_builder,
    name_stage,
)
from mmlp.estimators.outliers import Columns, column_names
from mmlp.estimators.predictive_distribution import (
    build_distribution,
    log_density_of_errors,
)
from mmlp.estimators.regression_predictor import RegressionPredictor
from mmlp.estimators.scaling import Scaling, StandardizedTable
from mmlp.estimators.target_columns import (
    FittedTargets,
    TargetColumns,
    check_constants,
    check_names,
    check_order,
    check_targets,
    column_labels,
    convert_to_numbers,
    describe_columns,
    find_columns,
    text_names,
)
from mmlp.estimators.training_settings import (
    TrainingSettings,
    default_batch_size,
    default_learning_rate,
    default_max_epochs,
    shorten_patience,
)
from mmlp.estimators.warm_start import check_same_targets
from mmlp.metrics.scores import check_sample_weight, weighted_mean
from mmlp.spd.arguments import check_columns

FORMS: dict[str, CovarianceForm] = {
    "full": FullCovariance(),
    "low_rank": LowRankCovariance(),
}


class RegressionPlan(NamedTuple):
    """How to fit the mean and the covariance.

    Attributes
    ----------
    partitions : list of two lists of Fold
        Two independent ways to split the rows into folds. The covariance uses the
        first.
    mean_settings : MeanSettings
    covariance_settings : CovarianceSettings
    """

    partitions: list[list[Fold]]
    mean_settings: MeanSettings
    covariance_settings: CovarianceSettings


class MultivariateRegressor(MultiOutputMixin, RegressorMixin, NetworkEstimator):
    """Regression with a full covariance of the targets for each row.

    The predictive distribution of y given x has a mean mu(x) and a covariance V(x).
    Both are averages of neural networks that are trained with cross-fitting, so that
    covariances, intervals and densities hold on new rows. Columns of X may hold
    numbers, text, dates and missing values.

    Parameters
    ----------
    family : {"power_exponential", "gaussian", "student_t"}, default="power_exponential"
        Family of the predictive distribution. The power exponential has lighter or
        heavier tails than a Gaussian, Student's t has heavy ones, with df > 2.5 degrees
        of freedom for each row.
    network : {"joint", "cholesky"}, default="joint"
        Network of the covariance: scales by an MLP and correlations by a
        `JointMatrixMLP`, or, as a baseline, a whole triangular factor by one MLP.
    covariance : {"auto", "full", "low_rank"}, default="auto"
        Form of the covariance. "low_rank" is diag(s^2) + U'U with `rank` loadings:
        nothing then has d^2 numbers, and thousands of targets are fine. "auto" is
        "low_rank" if a `rank` is given or for more than 30 targets, and else "full".
    rank : int or None, default=None
        Number of loadings of a low-rank covariance. None chooses as many as residuals
        have correlations beyond chance, up to 64.
    hidden_dims : tuple of int, default=(10, 10)
        Sizes of the hidden matrices of the joint network.
    hidden_features : tuple of int, default=(64, 64)
        Widths of the hidden vectors of the joint network, and of the MLPs for the mean
        and for the scales.
    n_models : int, default=5
        Number of folds of the rows, with a network for each. The rows are split twice
        for the mean, so that 2 `n_models` networks are averaged, and once for the
        covariance.
    max_epochs : int or None, default=None
        Limit of epochs. None depends on the number of rows: 500 up to 600 rows, and
        then ever fewer, down to 20. If there are more than 131,072 rows, they are split
        into parts, and each epoch takes the next part.
    batch_size : int or None, default=None
        Rows in a batch. None is 64 for small tables, and up to 256 for larger ones.
    learning_rate : float or None, default=None
        Learning rate. None is 0.02 up to 10,000 rows, and down to 0.01 for more; from
        1001 to 20,000 rows, held-out rows may choose a quarter of it.
    patience : int or None, default=50
        A network stops when its held-out rows have not improved for this many epochs;
        None is never. If an epoch has more than 20,000 rows, proportionally fewer
        epochs are enough.
    missing : {"impute", "drop", "refuse"}, default="impute"
        Missing values of X are filled by the median and marked by an indicator, or
        their rows are left out of training, or they raise a ValueError.
    categories : {"auto", "ignore"} or list of column names, default="auto"
        Columns of text become indicators. A list names further columns whose numbers
        are codes; "ignore" leaves text out.
    dates : {"auto", "day-first", "month-first"}, default="auto"
        Order of dates such as 05/03/2024, if no cell tells it.
    random_state : int, RandomState or None, default=None
        Seed of folds, weights and batches.
    dtype : {"float32", "float64"}, default="float32"
        Precision of the networks.
    verbose : int, default=0
        Show progress.
    warm_start : bool, default=False
        Whether another `fit` resumes from the fitted networks, in the same units of X
        and y.

    Attributes
    ----------
    rank_ : int or None
        Loadings of the fitted covariances; None if these are full.
    share_ : array of shape (n_varying,)
        Weight of a Gaussian process in the mean of each target, chosen by held-out
        rows. It is zero with more than 1000 rows or 30 targets.
    shape_ : array of shape (n_varying, n_varying) or (n_varying,)
        A factor of the common covariance of the residuals, or for low-rank covariances
        their scales. Networks learn the residuals in these units.
    contrast_ : float or array of shape (2,)
        How much of the variation of the covariances over rows is kept, from 0 to 1; for
        low-rank covariances, factors of the diagonal and of the loadings' part.
    gain_ : float
        Factor of the covariances, at most 1, because the mean of all networks errs less
        than the out-of-fold predictions.
    varying_targets_, constant_targets_ : arrays of int
        The columns of y that vary, and those that are constant up to rounding.
    constant_values_ : array
        The values of the constant targets.
    target_names_ : array of str
        Names of the targets, if y was a data frame with names.
    n_features_in_, feature_names_in_
        Number and names of the columns of X, as in scikit-learn.
    epochs_ : int
        The limit of epochs: `max_epochs`, or what was chosen if that is None.
    n_iter_ : int
        Epochs of the last `fit`, of the networks that took most.
    history_, covariance_history_ : dicts of arrays
        Losses by epoch, for the networks of the mean and of the covariance.
    models_ : dict
        The fitted networks.

    Notes
    -----
    Full covariances are averaged in log space: arithmetic means would be too large.
    With more than 1000 rows, the mean leaves out inputs without which held-out rows are
    predicted as well.

    A constant target is kept out of training, with a warning: `predict` returns the
    constant, and its rows and columns of `predict_covariance` are zero. Distributions,
    densities and scores are those of the other targets. If y is a data frame, its
    column names are checked wherever y is passed again.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((60, 3))
    >>> y = X[:, :2] + rng.standard_normal((60, 2))
    >>> model = MultivariateRegressor(
    ...     hidden_dims=(4,),
    ...     hidden_features=(8,),
    ...     n_models=2,
    ...     max_epochs=30,
    ...     random_state=0,
    ... )
    >>> model.fit(X, y).predict(X).shape
    (60, 2)
    >>> model.predict_covariance(X).shape
    (60, 2, 2)
    >>> model.predict_interval(X, 0.9).shape
    (60, 2, 2)
    """

    kind = "regression"
    targets = "columns"
    any_columns = True
    _fitted_attributes = (
        "columns_",
        "input_",
        "target_",
        "share_",
        "shape_",
        "contrast_",
        "gain_",
        "is_vector_",
        "epochs_",
        "history_",
        "covariance_history_",
        "constant_targets_",
        "constant_values_",
    )
    _absent_in_old_files: ClassVar = {
        "constant_targets_": np.zeros(0, int),
        "constant_values_": np.zeros(0),
    }
    # The labels, of any type, of the columns of a data frame y; a file does not keep
    # them.
    _target_labels = None
    _may_be_none = ("max_epochs", "batch_size", "learning_rate", "patience")

    def __init__(
        self,
        *,
        family: str = "power_exponential",
        network: str = "joint",
        covariance: str = "auto",
        rank: int | None = None,
        hidden_dims: tuple[int, ...] = (10, 10),
        hidden_features: tuple[int, ...] = (64, 64),
        n_models: int = 5,
        max_epochs: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        patience: int | None = 50,
        missing: str = "impute",
        categories: Any = "auto",
        dates: str = "auto",
        random_state: Any = None,
        dtype: str = "float32",
        verbose: int = 0,
        warm_start: bool = False,
    ):
        self.family = family
        self.network = network
        self.covariance = covariance
        self.rank = rank
        self.hidden_dims = hidden_dims
        self.hidden_features = hidden_features
        self.n_models = n_models
        self.max_epochs = max_epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.patience = patience
        self.missing = missing
        self.categories = categories
        self.dates = dates
        self.random_state = random_state
        self.dtype = dtype
        self.verbose = verbose
        self.warm_start = warm_start

    # --------------------------------------------------------------------------- fit

    @restore_on_error
    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: ArrayLike | None = None,
        *,
        X_val: Any = None,
        y_val: Any = None,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> "MultivariateRegressor":
        """Fit the mean and the covariance.

        Parameters
        ----------
        X : array or data frame of shape (n, p)
            Inputs.
        y : array or data frame of shape (n,) or (n, d)
            Targets. Rows with a missing target are left out, with a warning.
        sample_weight : array of shape (n,), optional
            Weights of the rows.
        X_val, y_val : array or data frame, optional
            Validation rows, which decide when networks stop, in place of the held-out
            rows of their folds.
        checkpoint : path, optional
            Directory from which an interrupted fit resumes.

        Returns
        -------
        self
        """
        seed = self._check_arguments(checkpoint)
        table = self._check_table(X, y, sample_weight)
        scaled = self._standardize_table(table)
        validation = self._standardize_validation(X_val, y_val)
        plan = self._plan_fit(scaled, seed, checkpoint)
        folds = plan.partitions[0]

        # The programs for the covariance are compiled while the mean is trained.
        def compile_next_step() -> None:
            compile_covariance(scaled, folds, plan.covariance_settings, validation)

        with compile_in_background(compile_next_step, scaled.n_rows):
            mean = fit_mean(scaled, plan.partitions, plan.mean_settings, validation)
        covariance = fit_covariance(
            scaled, mean, folds, plan.covariance_settings, validation
        )
        calibration = calibrate_covariance(covariance, plan.covariance_settings)

        self._store(plan, mean, covariance, calibration)
        return self

    def _check_arguments(self, checkpoint: Any) -> int:
        """Check the arguments that do not depend on the rows, and return a seed."""
        call = type(self).__name__
        seed = self._check_training_arguments(checkpoint)
        check_choice(call, "family", self.family, FAMILIES)
        check_choice(call, "network", self.network, ("joint", "cholesky"))
        check_hidden_sizes(call, self.network, self.hidden_dims, self.hidden_features)
        return seed

    def _check_table(self, X: Any, y: Any, sample_weight: Any) -> TrainingTable:
        """Return the checked rows, with encoded inputs and the targets that vary.

        What predictions need to know about the columns of X and y is kept.
        """
        call = f"{type(self).__name__}.fit"
        names = column_names(y)  # for messages, even of a series
        self._set_target_names(y)
        y = convert_to_numbers(call, y)
        table = read_training_table(self, X, y, sample_weight)
        self.is_vector_ = table.is_vector
        y = table.targets

        # Warnings are attributed to the caller of `fit`: above this method are `fit`,
        # its decorator, and the caller.
        self._check_cells(
            table.row_indices, table.inputs, Columns("y", y, names), stacklevel=4
        )

        if self._resumes:
            check_same_targets(
                y, self._target_columns, names, estimator=type(self).__name__
            )
            columns = self._target_columns
        else:
            columns = find_columns(call, y, names, stacklevel=4)
            self.constant_targets_ = columns.constant
            self.constant_values_ = columns.values
        self._warn_of_few_rows(len(y), stacklevel=4)
        return dataclasses.replace(table, targets=y[:, columns.varying])

    def _set_target_names(self, y: Any) -> None:
        """Keep the names of targets in a data frame, or check them if `fit` resumes."""
        call = f"{type(self).__name__}.fit"
        labels = column_labels(call, y)
        if self._resumes:
            check_names(call, y, getattr(self, "target_names_", None))
            check_order(call, y, self._target_labels)
            return
        if hasattr(self, "target_names_"):
            del self.target_names_
        self._target_labels = labels
        names = text_names(y)
        if names is not None:
            self.target_names_ = np.array(names, object)

    def _standardize_table(self, table: TrainingTable) -> StandardizedTable:
        """Return the table in standard units, of the last fit if `fit` resumes."""
        if not self._resumes:
            self.input_ = self._scale_inputs(table.inputs, table.weights)
            self.target_ = Scaling.of_varying(table.targets, table.weights)
            self._check_underflow()
        return StandardizedTable(
            inputs=self.input_.forward(table.inputs),
            targets=self.target_.forward(table.targets),
            row_weights=table.weights,
        )

    def _check_underflow(self) -> None:
        """Raise a CallError if the variance of a target underflows."""
        variances = self.target_.scale**2
        tiny = np.flatnonzero(variances < np.finfo(np.float64).tiny)
        if len(tiny):
            names = getattr(self, "target_names_", None)
            target = describe_columns(self.varying_targets_[tiny[:1]], names)
            raise CallError(
                f"the variance of {target} underflows",
                call=f"{type(self).__name__}.fit",
                remedy="use other units",
            )

    def _standardize_validation(
        self, X_val: Any, y_val: Any
    ) -> StandardizedTable | None:
        """Return the validation rows in standard units, if there are any."""
        if not check_validation_pair(type(self).__name__, X_val, y_val):
            return None
        # The estimator counts as fitted: `columns_` and `input_`, for example, are set.
        inputs = self._standardize(X_val)
        y = check_targets(
            y_val,
            len(inputs),
            self._fitted_targets,
            call=f"{type(self).__name__}.fit",
            argument="y_val",
        )
        targets = self.target_.forward(self._select_varying(y))
        return StandardizedTable(
            inputs=inputs,
            targets=self._cast(targets, "y_val", self.varying_targets_),
            row_weights=np.ones(len(inputs)),
        )

    def _plan_fit(
        self,
        scaled: StandardizedTable,
        seed: int,
        checkpoint: str | os.PathLike[str] | None,
    ) -> RegressionPlan:
        """Split the rows into folds, and decide how networks are trained.

        The arguments that depend on the numbers of rows and targets are checked.
        """
        call = type(self).__name__
        n_folds = check_n_models(call, self.n_models, scaled.n_rows)
        check_covariance_form(call, self.covariance, self.rank, scaled.n_targets)
        form = FORMS[choose_form(self.covariance, self.rank, scaled.n_targets)]

        training = self._plan_training(scaled.n_rows)
        directory = None if checkpoint is None else Path(checkpoint)
        mean_settings = MeanSettings(
            hidden_features=tuple(self.hidden_features),
            training=training,
            seed=seed,
            search_learning_rate=self.learning_rate is None,
            checkpoint=directory and directory / "mean",
        )
        covariance_settings = CovarianceSettings(
            form=form,
            head=FAMILIES[self.family],
            architecture=self.network,
            hidden_dims=tuple(self.hidden_dims),
            hidden_features=tuple(self.hidden_features),
            rank=self.rank,
            training=training,
            seed=seed + 1,
            stage=name_stage("covariance", scaled.n_rows),
            checkpoint=directory and directory / "covariance",
        )
        if self._resumes:
            mean_settings = dataclasses.replace(
                mean_settings, initial_networks=self.models_["mean"]
            )
            covariance_settings = dataclasses.replace(
                covariance_settings,
                rank=self.rank_ if self.rank is None else self.rank,
                initial_networks=self.models_["covariance"],
                initial_shape=self.shape_,
            )
            self._check_same_networks(
                mean_settings, covariance_settings, scaled, n_folds
            )

        rng = np.random.default_rng(seed)
        return RegressionPlan(
            partitions=[
                split_into_folds(scaled.n_rows, n_folds, rng) for _ in range(2)
            ],
            mean_settings=mean_settings,
            covariance_settings=covariance_settings,
        )

    def _plan_training(self, n_rows: int) -> TrainingSettings:
        """Return how networks are trained; what is None depends on the rows."""
        max_epochs = self.max_epochs
        if max_epochs is None:
            max_epochs = default_max_epochs(n_rows)
        batch_size = self.batch_size
        if batch_size is None:
            batch_size = default_batch_size(n_rows)
        learning_rate = self.learning_rate
        if learning_rate is None:
            learning_rate = default_learning_rate(n_rows)
        return TrainingSettings(
            max_epochs=max_epochs,
            batch_size=batch_size,
            learning_rate=learning_rate,
            patience=shorten_patience(self.patience, n_rows),
            dtype=self.dtype,
            show_progress=bool(self.verbose),
        )

    def _check_same_networks(
        self,
        mean_settings: MeanSettings,
        covariance_settings: CovarianceSettings,
        scaled: StandardizedTable,
        n_folds: int,
    ) -> None:
        """Raise a CallError if the settings ask for other than the fitted networks."""
        inputs = scaled.inputs.astype(self.dtype)
        check_same_architecture(
            mean_settings.initial_networks,
            make_mean_builder(scaled, mean_settings),
            2 * n_folds,
            inputs,
            estimator=type(self).__name__,
        )
        # Targets stand for the residuals: only shapes matter, since the rank is given
        # or that of the last fit. If that was full, low-rank networks differ anyway.
        build, initial_targets = covariance_settings.form.choose_network(
            covariance_settings, scaled.n_inputs, scaled.targets, scaled.row_weights
        )
        check_same_architecture(
            covariance_settings.initial_networks,
            build,
            n_folds,
            inputs,
            initial_targets,
            estimator=type(self).__name__,
        )

    def _store(
        self,
        plan: RegressionPlan,
        mean: FittedMean,
        covariance: FittedCovariance,
        calibration: Calibration,
    ) -> None:
        """Keep the results of `fit` as attributes, with the names of model files."""
        self.epochs_ = plan.mean_settings.training.max_epochs
        self.models_ = {"mean": mean.networks, "covariance": covariance.networks}
        if mean.gaussian_process is not None:
            self.models_["smooth"] = mean.gaussian_process
        self.share_ = mean.gaussian_process_weights
        self.shape_ = calibration.shape
        self.contrast_ = calibration.contrast
        self.gain_ = calibration.gain
        self.history_ = mean.history
        self.covariance_history_ = covariance.history

    # ------------------------------------------------------------------- predictions

    def predict(
        self, X: Any, return_std: bool = False, return_cov: bool = False
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Predict the mean of the targets.

        Parameters
        ----------
        X : array or data frame of shape (n, p)
        return_std : bool, default=False
            Whether to return the standard deviations as well.
        return_cov : bool, default=False
            Whether to return the covariances as well.

        Returns
        -------
        mean : array of shape (n, d), or (n,) if y was
        std : array of the same shape
            Only if `return_std`.
        covariance : array of shape (n, d, d)
            Only if `return_cov`.
        """
        if return_std and return_cov:
            raise ValueError(
                f"`{type(self).__name__}.predict(return_std=True, return_cov=True)`: "
                "choose one of them; the variances are the diagonals of the "
                "covariances."
            )
        x = self._standardize(X)
        if return_std:
            mean, std, _ = self._predictor.moments(x)
            return self._drop_target_axis(mean), self._drop_target_axis(std)
        mean = self._drop_target_axis(map_in_chunks(self._predictor.mean, x))
        if return_cov:
            return mean, self._dense_covariances(x, None, method="predict")
        return mean

    def predict_covariance(self, X: Any, columns: Any = None) -> np.ndarray:
        """Predict the covariance of the targets.

        Parameters
        ----------
        X : array or data frame of shape (n, p)
        columns : slice or list of int, optional
            Columns of y; by default all.

        Returns
        -------
        array of shape (n, d, d), or (n, k, k) for k columns
        """
        x = self._standardize(X)
        return self._dense_covariances(x, columns, method="predict_covariance")

    def predict_distribution(self, X: Any) -> Elliptical:
        """Predict the distribution of the targets.

        Constant targets have no density: the distribution is that of the targets that
        vary, y[:, model.varying_targets_].

        Parameters
        ----------
        X : array or data frame of shape (n, p)

        Returns
        -------
        Elliptical
            With batch shape (n,): it has `log_prob`, `sample`, `mean` and `covariance`,
            which is a `LowRankGram` for low-rank covariances.
        """
        x = self._standardize(X)
        covariance, tail = map_in_chunks(self._predictor.standardized_covariance, x)
        mean = map_in_chunks(self._predictor.standardized_mean, x)
        return self._build_distribution(
            self.target_.back(mean), covariance.in_units(self.target_.scale), tail
        )

    def predict_interval(self, X: Any, level: float = 0.9) -> np.ndarray:
        """Predict the central interval of each target.

        Parameters
        ----------
        X : array or data frame of shape (n, p)
        level : float, default=0.9
            Probability of the interval, for each target alone, not for all at once.

        Returns
        -------
        array of shape (n, d, 2), or (n, 2) if y was (n,)
        """
        if np.ndim(level) or not 0 < level < 1:
            name = f"{type(self).__name__}.predict_interval(level=...)"
            raise ValueError(
                f"`{name}` must be a number between 0 and 1, got {level!r:.80}."
            )
        return self.predict_quantiles(X, np.array([1 - level, 1 + level]) / 2)

    def predict_quantiles(self, X: Any, levels: ArrayLike) -> np.ndarray:
        """Predict quantiles of each target alone.

        Parameters
        ----------
        X : array or data frame of shape (n, p)
        levels : array of shape (q,)
            Probabilities between 0 and 1.

        Returns
        -------
        array of shape (n, d, q), or (n, q) if y was (n,)
        """
        probabilities = np.asarray(levels, np.float64)
        is_inside = np.all((probabilities > 0) & (probabilities < 1))
        if probabilities.ndim != 1 or not len(probabilities) or not is_inside:
            name = f"{type(self).__name__}.predict_quantiles(levels=...)"
            raise ValueError(
                f"`{name}` must be numbers between 0 and 1, such as [0.1, 0.5, 0.9], "
                f"got {levels!r:.80}."
            )
        x = self._standardize(X)
        mean, std, tail = self._predictor.moments(x)

        # A marginal of a power exponential in several dimensions is not a power
        # exponential: `marginals` knows it by the distribution of the radius.
        radius = self._family.radius_law(len(self.target_.scale), *tail)
        z = marginals.quantile(radius, probabilities[:, None])
        z = np.broadcast_to(z, (len(probabilities), len(x)))
        quantiles = mean[..., None] + std[..., None] * z.T[:, None]
        return self._drop_target_axis(quantiles)

    def log_density(self, X: Any, y: Any) -> np.ndarray:
        """Return log p(y | x) of each row.

        The density is that of the targets that vary. If a constant target differs from
        its constant, there is a warning. The column names of a data frame y must be
        those of `fit`, in the same order; an array or a series is taken as it is.

        Parameters
        ----------
        X : array or data frame of shape (n, p)
        y : array or data frame of shape (n, d)
            All targets of `fit`.

        Returns
        -------
        array of shape (n,)
        """
        x = self._standardize(X)
        y = self._check_targets(y, len(x), "log_density")
        return self._log_densities(x, y)

    def log_score(
        self, X: Any, y: Any, sample_weight: ArrayLike | None = None
    ) -> float:
        """Return the mean of log p(y | x); larger is better.

        Parameters
        ----------
        X : array or data frame of shape (n, p)
        y : array or data frame of shape (n, d)
        sample_weight : array of shape (n,), optional

        Returns
        -------
        float
        """
        return weighted_mean(self.log_density(X, y), sample_weight, "log_score")

    def score(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """Return R squared of the mean, averaged over the targets that vary.

        Parameters
        ----------
        X : array or data frame of shape (n, p)
        y : array or data frame of shape (n, d)
        sample_weight : array of shape (n,), optional

        Returns
        -------
        float
        """
        x = self._standardize(X)
        y = self._check_targets(y, len(x), "score")
        weights = None
        if sample_weight is not None:
            weights = check_sample_weight(sample_weight, len(x), "score")
        return self._r_squared(y, map_in_chunks(self._predictor.mean, x), weights)

    def scores(self, X: Any, y: Any = None) -> dict[str, float]:
        """Return scores of the predictive distribution, for the targets that vary.

        Parameters
        ----------
        X : array or data frame of shape (n, p)
        y : array or data frame of shape (n, d)

        Returns
        -------
        dict
            "negative_log_likelihood" and "energy_score", smaller is better;
            "coverage_90", the share of rows in their 90% region; and, for more than one
            row, "r2".
        """
        x = self._standardize(X)
        y = self._check_targets(y, len(x), "scores")
        mean = map_in_chunks(self._predictor.mean, x)
        errors = self._select_varying(y - mean)
        distribution = self._error_distribution(X)
        scores = {
            "negative_log_likelihood": -float(np.mean(self._log_densities(x, y))),
            "energy_score": metrics.energy_score(distribution, errors),
            "coverage_90": metrics.ellipsoid_coverage(distribution, errors, 0.9),
        }
        if len(x) > 1:
            scores["r2"] = self._r_squared(y, mean, None)
        return scores

    def scored_targets(self, X: Any, y: Any) -> np.ndarray:
        """Return the targets that vary, checked: those of `predict_distribution`.

        Parameters
        ----------
        X : array or data frame of shape (n, p)
        y : array or data frame of shape (n, d)
            All targets of `fit`, as in `log_density`.

        Returns
        -------
        array of shape (n, n_varying)
        """
        y = self._check_targets(y, len(X), "scored_targets")
        return self._select_varying(y)

    # What the form of the covariance adds is in `result_names`.
    results: ClassVar = {"mean": predict}

    def result_names(self, *, text: bool = False) -> tuple[str, ...]:
        """Return the names of what `predict_results` returns."""
        return (*self.results, *self._form.named_results(text=text))

    def predict_results(self, X: Any, *, text: bool = False) -> dict[str, np.ndarray]:
        """Return the mean (n, d) and the covariance, in the form that was fitted.

        Parameters
        ----------
        X : array or data frame of shape (n, p)
        text : bool, default=False
            Restrict them to what a table of text should hold.
        """
        functions = self._form.named_results(text=text)

        def results_of_chunk(x):
            covariance = self._predictor.covariance(x)
            values = [function(covariance) for function in functions.values()]
            return self._predictor.mean(x), *values

        arrays = map_in_chunks(results_of_chunk, self._standardize(X))
        return dict(zip(self.result_names(text=text), arrays, strict=True))

    # ------------------------------------------------------------- fitted attributes

    @property
    def rank_(self) -> int | None:
        """Loadings of the fitted covariances; None if these are full."""
        row = np.zeros((1, self._width), self.dtype)

        def covariance(network, x):
            return network(x).covariance

        return fitted_rank(covariance, self.models_["covariance"], row)

    @property
    def n_targets(self) -> int:
        """The number of columns of y."""
        return np.size(self.target_.scale) + np.size(self.constant_targets_)

    @property
    def varying_targets_(self) -> np.ndarray:
        """The columns of y that vary: all but `constant_targets_`."""
        return self._target_columns.varying

    @property
    def _target_columns(self) -> TargetColumns:
        columns = np.arange(self.n_targets)
        return TargetColumns(
            varying=np.setdiff1d(columns, self.constant_targets_),
            constant=self.constant_targets_,
            values=self.constant_values_,
        )

    @property
    def _fitted_targets(self) -> FittedTargets:
        return FittedTargets(
            columns=self._target_columns,
            names=getattr(self, "target_names_", None),
            labels=self._target_labels,
        )

    @property
    def _family(self) -> type[Elliptical]:
        return FAMILIES[self.family].distribution

    @property
    def _form(self) -> CovarianceForm:
        """The form of the fitted covariances; full ones have a matrix as `shape_`."""
        return FORMS["full" if np.ndim(self.shape_) == 2 else "low_rank"]

    @property
    def _predictor(self) -> RegressionPredictor:
        """The fitted functions of standardized inputs."""
        return RegressionPredictor(
            networks=self.models_,
            gaussian_process_weights=self.share_,
            form=self._form,
            calibration=Calibration(self.shape_, self.contrast_, self.gain_),
            family=self._family,
            target_scaling=self.target_,
            target_columns=self._target_columns,
        )

    def _check_fitted(self) -> None:
        if self.family not in FAMILIES:
            raise ValueError(f"its family is {self.family!r:.80}")
        d = np.size(self.target_.scale)
        model_files.check_scaling(self.target_, "target_", d)
        self.constant_targets_, self.constant_values_ = check_constants(
            self.constant_targets_, self.constant_values_, d
        )
        is_bool = isinstance(self.is_vector_, bool)
        if not is_bool or (self.is_vector_ and self.n_targets > 1):
            raise ValueError(
                f"its is_vector_ is {self.is_vector_!r:.80} for {self.n_targets} "
                "targets"
            )
        form = self._form
        shapes = form.check_fitted(self.shape_, self.contrast_, d)
        model_files.check_number(self.gain_, "gain_", np.finfo(float).tiny, 1)
        model_files.check_number(self.epochs_, "epochs_", 1, float("inf"))
        check_blending_weights(self.share_, self.models_, d)

        for name in self.models_.keys() - {"covariance"}:
            self._check_outputs(name, evaluate, self.models_[name], (d,))
        # A head reads log eta and then the tail.
        tail_shapes = ((),) * (FAMILIES[self.family].extra - 1)
        networks = form.prepare_networks(self.models_["covariance"])
        self._check_outputs(
            "covariance", form.predict_parts, networks, *shapes, *tail_shapes
        )

    # ----------------------------------------------------------------------- helpers

    def _check_targets(self, y: Any, n_rows: int, method: str) -> np.ndarray:
        """Return y of a call, (n, d), checked against the targets of `fit`."""
        call = f"{type(self).__name__}.{method}"
        return check_targets(y, n_rows, self._fitted_targets, call=call)

    def _select_varying(self, y: np.ndarray) -> np.ndarray:
        """Return the columns of y (n, d) that vary."""
        return y[:, self.varying_targets_]

    def _drop_target_axis(self, values: np.ndarray) -> np.ndarray:
        """Return values (n, d, ...) without the axis of targets, if y had none."""
        return values[:, 0] if self.is_vector_ else values

    def _dense_covariances(
        self, x: np.ndarray, columns: Any, *, method: str
    ) -> np.ndarray:
        """Return covariances (n, k, k) of some columns, if there is memory for them."""
        call = f"{type(self).__name__}.{method}"
        selected: Any = slice(None)
        if columns is not None:
            selected = check_columns(columns, self.n_targets, f"{call}(columns=...)")
        check_memory(call, len(x), len(np.arange(self.n_targets)[selected]))

        def dense_of_chunk(x):
            return self._predictor.covariance(x).dense(selected)

        return map_in_chunks(dense_of_chunk, x)

    def _error_distribution(self, X: Any) -> Elliptical:
        """Return the distribution of y - predict(X): about zero, no digits are lost."""
        x = self._standardize(X)
        covariance, tail = map_in_chunks(self._predictor.standardized_covariance, x)
        zero = np.zeros((len(X), len(self.target_.scale)))
        return self._build_distribution(
            zero, covariance.in_units(self.target_.scale), tail
        )

    def _build_distribution(
        self, mean: np.ndarray, covariance: Any, tail: Sequence[np.ndarray] = ()
    ) -> Elliptical:
        """Return the distribution with these moments, in the dtype of the networks."""
        return build_distribution(
            self._family,
            mean,
            covariance,
            tail,
            dtype=self.dtype,
            call=f"{type(self).__name__}.predict_distribution",
        )

    def _log_densities(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return log p(y | x) of standardized inputs and checked targets (n, d)."""
        z = self.target_.forward(self._select_varying(y))
        self._cast(z, "y", self.varying_targets_)  # raises an error if it cannot

        # The errors have mean zero, so that no digits are lost.
        def log_density_of_chunk(x, z):
            covariance, tail = self._predictor.standardized_covariance(x)
            errors = z - self._predictor.standardized_mean(x)
            return log_density_of_errors(
                self._family,
                errors.astype(self.dtype),
                covariance,
                tail,
                call=f"{type(self).__name__}.log_density",
            )

        standardized = map_in_chunks(log_density_of_chunk, x, z)
        return standardized.astype(float) - np.sum(np.log(self.target_.scale))

    def _r_squared(
        self, y: np.ndarray, mean: np.ndarray, weights: np.ndarray | None
    ) -> float:
        """Return R squared of means (n, d), averaged over the targets that vary."""
        # Imported here, because predictions start faster without it.
        from sklearn.metrics import r2_score

        # R squared is the same about any origin. About a row of y, rows that are all
        # equal are zero, and have no variance from the rounding of their mean.
        origin = y[:1]
        return float(
            r2_score(
                self._select_varying(y - origin),
                self._select_varying(mean - origin),
                sample_weight=weights,
            )
        )
