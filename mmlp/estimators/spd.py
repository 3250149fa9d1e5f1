"""`SPDRegressor`: from vectors to symmetric positive definite matrices of any trace."""

import dataclasses
import os
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin

from mmlp import divergences
from mmlp.argument_checks import check_floats, check_sizes
from mmlp.errors import CallError, MatrixError
from mmlp.estimators import model_files
from mmlp.estimators.arguments import (
    check_choice,
    check_hidden_sizes,
    check_n_models,
    check_validation_pair,
)
from mmlp.estimators.base import NetworkEstimator, restore_on_error
from mmlp.estimators.covariance_networks import (
    MatrixNetworkSizes,
    MatrixRegressionBuilder,
)
from mmlp.estimators.cross_fitting import (
    CrossFit,
    check_same_architecture,
    fit_networks,
    split_into_folds,
)
from mmlp.estimators.inputs import encode_training_rows, read_columns
from mmlp.estimators.outliers import Columns
from mmlp.estimators.scaling import Scaling
from mmlp.spd import Gram

LOSSES = ("von_neumann", "stein", "quadratic", "log_euclidean")
DEFAULT_HIDDEN_WIDTH = 100


class MatrixTable(NamedTuple):
    """The rows to learn from, checked.

    Attributes
    ----------
    inputs : array of shape (n_rows, n_inputs)
    factors : array of shape (n_rows, d, d)
        Upper triangular factors of the matrices over their traces.
    log_traces : array of shape (n_rows, 1)
    row_weights : array of shape (n_rows,)
    """

    inputs: np.ndarray
    factors: np.ndarray
    log_traces: np.ndarray
    row_weights: np.ndarray

    @property
    def dim(self) -> int:
        """The size of the matrices."""
        return self.factors.shape[1]


class SPDRegressor(RegressorMixin, NetworkEstimator):
    """Regression for symmetric positive definite matrices.

    A network predicts the matrix over its trace, and the logarithm of the trace:

        loss(y / tr y, prediction of trace one) + (standardized log tr y - prediction)^2

    Columns of X may hold numbers, text, dates and missing values.

    Parameters
    ----------
    loss : {"von_neumann", "stein", "quadratic", "log_euclidean"}, default="von_neumann"
        Divergence between matrices of trace one.
    network : {"joint", "cholesky"}, default="joint"
        A `JointMatrixMLP`, with a path of matrices and a path of vectors, or, as a
        baseline, a `CholeskyMLP`.
    hidden_dims : tuple of int, default=(20, 20)
        Sizes of the hidden matrices.
    hidden_features : tuple of int or None, default=None
        Widths of the hidden vectors; None is 100 for each of `hidden_dims`.
    n_models : int, default=5
        Number of networks, which are averaged. Each is trained without one fold of the
        rows.
    max_epochs : int, default=500
        Limit of epochs.
    batch_size : int, default=64
        Rows in a batch.
    learning_rate : float, default=0.01
        Learning rate.
    patience : int or None, default=50
        A network stops when its held-out rows have not improved for this many epochs;
        None is never.
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
        Whether another `fit` resumes from the fitted networks.

    Attributes
    ----------
    n_features_in_, feature_names_in_
        Number and names of the columns of X, as in scikit-learn.
    n_iter_ : int
        Epochs of the last `fit`, of the networks that took most.
    history_ : dict of arrays
        Losses by epoch.
    models_ : stack of networks
        The fitted networks.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((40, 3))
    >>> Y = np.eye(2) + X[:, :2, None] * X[:, None, :2]
    >>> model = SPDRegressor(
    ...     hidden_dims=(4,),
    ...     hidden_features=(8,),
    ...     n_models=2,
    ...     max_epochs=30,
    ...     random_state=0,
    ... )
    >>> model.fit(X, Y).predict(X).shape
    (40, 2, 2)
    """

    kind = "spd"
    targets = "matrices"
    any_columns = True
    _fitted_attributes = ("columns_", "input_", "trace_", "history_")

    def __init__(
        self,
        *,
        loss: str = "von_neumann",
        network: str = "joint",
        hidden_dims: tuple[int, ...] = (20, 20),
        hidden_features: tuple[int, ...] | None = None,
        n_models: int = 5,
        max_epochs: int = 500,
        batch_size: int = 64,
        learning_rate: float = 0.01,
        patience: int | None = 50,
        missing: str = "impute",
        categories: Any = "auto",
        dates: str = "auto",
        random_state: Any = None,
        dtype: str = "float32",
        verbose: int = 0,
        warm_start: bool = False,
    ):
        self.loss = loss
        self.network = network
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
    ) -> "SPDRegressor":
        """Fit the networks.

        Parameters
        ----------
        X : array or data frame of shape (n, p)
            Inputs.
        y : array of shape (n, d, d)
            Symmetric positive definite matrices.
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
        seed = self._check_training_arguments(checkpoint)
        hidden_dims, hidden_features = self._check_model_arguments()
        table = self._check_table(X, y, sample_weight)
        n_rows, n_inputs = table.inputs.shape
        n_folds = check_n_models(type(self).__name__, self.n_models, n_rows)
        sizes = MatrixNetworkSizes(
            architecture=self.network,
            n_inputs=n_inputs,
            dim=table.dim,
            hidden_dims=hidden_dims,
            hidden_features=hidden_features,
        )

        initial_networks = None
        if self._resumes:
            initial_networks = self.models_
            check_same_architecture(
                initial_networks,
                MatrixRegressionBuilder(sizes),
                n_folds,
                table.inputs.astype(self.dtype),
                estimator=type(self).__name__,
            )
        else:
            self.input_ = self._scale_inputs(table.inputs, table.row_weights)
            self.trace_ = Scaling.of(table.log_traces, table.row_weights)

        task = CrossFit(
            build=MatrixRegressionBuilder(sizes),
            sample_loss=MatrixLoss(getattr(divergences, self.loss)),
            arrays=(
                self.input_.forward(table.inputs),
                table.factors,
                self.trace_.forward(table.log_traces),
            ),
            row_weights=table.row_weights,
            folds=split_into_folds(n_rows, n_folds, np.random.default_rng(seed)),
            seed=seed,
            validation_arrays=self._standardize_validation(X_val, y_val, table.dim),
            initial_networks=initial_networks,
        )
        self.models_, self.history_ = fit_networks(
            task, self._training_settings(), checkpoint=checkpoint
        )
        return self

    def _check_model_arguments(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Check the arguments apart from the rows, and return the hidden sizes."""
        call = type(self).__name__
        check_choice(call, "loss", self.loss, LOSSES)
        check_choice(call, "network", self.network, ("joint", "cholesky"))
        hidden_features = self.hidden_features
        if hidden_features is None:
            hidden_dims = check_sizes(self.hidden_dims, f"{call}(hidden_dims=...)")
            hidden_features = (DEFAULT_HIDDEN_WIDTH,) * len(hidden_dims)
        return check_hidden_sizes(call, self.network, self.hidden_dims, hidden_features)

    def _check_table(self, X: Any, y: Any, sample_weight: Any) -> MatrixTable:
        """Check the rows, encode the inputs and factorize the matrices."""
        if y is None:
            raise ValueError(
                "`SPDRegressor.fit(X, y)` requires y to be passed, but the target y is "
                "None."
            )
        table = read_columns(self, X)
        Y = check_matrices(y, len(table), "fit")
        # The diagonal bounds the other entries.
        diagonal = np.diagonal(Y, axis1=1, axis2=2)
        used = self._select_weighted_rows(sample_weight, diagonal, *factorize(Y))

        # Warnings are attributed to the caller of `fit`: above this method are `fit`,
        # its decorator, and the caller.
        encoded = encode_training_rows(
            self, table.take(used.indices), used.indices, stacklevel=4
        )
        self.columns_ = encoded.encoder
        diagonal, factors, log_traces = (array[encoded.kept] for array in used.arrays)
        self._check_cells(
            used.indices[encoded.kept],
            encoded.values,
            Columns("the diagonal of y", diagonal, squared=False),
            stacklevel=4,
        )
        self._warn_of_few_rows(len(encoded.values), stacklevel=4)
        return MatrixTable(
            inputs=encoded.values,
            factors=factors,
            log_traces=remove_rounding(log_traces, Y.shape[1]),
            row_weights=used.weights[encoded.kept],
        )

    def _standardize_validation(
        self, X_val: Any, y_val: Any, dim: int
    ) -> tuple[np.ndarray, ...] | None:
        """Return the validation rows as those of training, if there are any."""
        if not check_validation_pair(type(self).__name__, X_val, y_val):
            return None
        inputs = self._standardize(X_val)
        Y = check_matrices(y_val, len(inputs), "fit", "y_val")
        if Y.shape[1] != dim:
            raise ValueError(
                f"`SPDRegressor.fit(y_val=...)` must hold matrices of {dim} x {dim}, "
                f"as y does, got shape {Y.shape}."
            )
        factors, log_traces = factorize(Y, "y_val")
        return inputs, factors, self.trace_.forward(log_traces)

    def predict(self, X: Any) -> np.ndarray:
        """Predict the matrices.

        Parameters
        ----------
        X : array or data frame of shape (n, p)

        Returns
        -------
        array of shape (n, d, d)
        """
        log_trace, factor = self._apply_networks(predict_factor, X)
        scale = np.exp(self.trace_.back(log_trace) / 2)[..., None]
        factor = scale * factor.astype(np.float64)  # (n, networks, d, d)
        return np.mean(factor.mT @ factor, axis=1)

    def score(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> float:
        """Return R squared over all entries of the matrices.

            1 - sum |y - prediction|^2 / sum |y - mean of y|^2

        Parameters
        ----------
        X : array or data frame of shape (n, p)
        y : array of shape (n, d, d)
        sample_weight : array of shape (n,), optional

        Returns
        -------
        float
        """
        # Imported here, because predictions start faster without it.
        from sklearn.metrics import r2_score

        prediction = self.predict(X)
        Y = check_matrices(y, len(prediction), "score")

        # R squared is the same about any origin. About one of the matrices, matrices
        # that are all equal are zero, and have no variance from rounding.
        origin = Y[:1]
        return float(
            r2_score(
                (Y - origin).reshape(len(Y), -1),
                (prediction - origin).reshape(len(prediction), -1),
                sample_weight=sample_weight,
                multioutput="variance_weighted",
            )
        )

    def scores(self, X: Any, y: Any = None) -> dict[str, float]:
        """Return scores of the predicted matrices.

        Parameters
        ----------
        X : array or data frame of shape (n, p)
        y : array of shape (n, d, d)

        Returns
        -------
        dict
            "von_neumann", the mean divergence, smaller is better; and, for more than
            one row, "r2".
        """
        prediction = Gram.from_dense(self.predict(X))
        divergence = divergences.von_neumann(prediction, Gram.from_dense(y))
        scores = {"von_neumann": float(jnp.mean(divergence))}
        if len(X) > 1:
            scores["r2"] = self.score(X, y)
        return scores

    results: ClassVar = {"covariance": predict}

    def _check_fitted(self) -> None:
        model_files.check_scaling(self.trace_, "trace_", 1)
        self._check_outputs("network", predict_factor, self.models_, (1,), (None, None))


@dataclasses.dataclass(frozen=True)
class MatrixLoss:
    """The loss of one row: divergence of matrices plus squared error of log trace."""

    divergence: Callable

    def __call__(self, network, key, t, x, factor, log_trace):
        vector, A = network(x)
        divergence = self.divergence(A, Gram(factor, upper=True))
        return divergence + jnp.sum((vector - log_trace) ** 2)


def predict_factor(network, x):
    """Return the standardized log trace and the factor of a matrix of trace one."""
    log_trace, A = network(x)
    return log_trace, A.factor


def check_matrices(Y: Any, n_rows: int, method: str, argument: str = "y") -> np.ndarray:
    """Return matrices (n, d, d) as float64, or raise a CallError."""
    Y = np.asarray(Y, np.float64)
    is_square = Y.ndim == 3 and Y.shape[1] == Y.shape[2] > 0
    if not is_square or len(Y) != n_rows:
        raise CallError(
            f"{argument} must hold as many matrices (n, d, d) as X has rows, got "
            f"{n_rows} rows and {argument} of shape {Y.shape}",
            call=f"SPDRegressor.{method}",
        )
    return Y


def remove_rounding(log_traces: np.ndarray, dim: int) -> np.ndarray:
    """Return the mean, where log traces differ by no more than rounding in float32.

    Matrices that were scaled to trace one do so, by the roundings of a sum of `dim`
    numbers. The differences must not be learnt.
    """
    if np.ptp(log_traces) <= 2 * dim * np.finfo(np.float32).eps:
        return np.full_like(log_traces, log_traces.mean())
    return log_traces


def factorize(Y: np.ndarray, argument: str = "y") -> tuple[np.ndarray, np.ndarray]:
    """Return upper triangular factors of Y / tr Y, and log tr Y.

    Parameters
    ----------
    Y : array of shape (n, d, d)
    argument : str
        What errors name.

    Returns
    -------
    factors : array of float64, shape (n, d, d)
    log_traces : array of shape (n, 1)
    """
    check_floats(Y, f"SPDRegressor.fit({argument}=...)", "(n, d, d)", ndim=3)
    traces = np.trace(Y, axis1=1, axis2=2)
    scale = np.where(traces == 0, 1.0, np.abs(traces))[:, None, None]
    try:
        factors = Gram.from_dense(Y / scale).factor
    except MatrixError as error:
        raise MatrixError(
            error.requirement,
            f"{error.deviation} when scaled to trace one",
            index=error.index,
            call="SPDRegressor.fit",
            argument=argument,
            remedy=error.remedy,
        ) from None
    return np.asarray(factors), np.log(traces)[:, None]
