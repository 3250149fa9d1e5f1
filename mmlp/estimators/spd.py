"""`SPDRegressor`: from vectors to symmetric positive definite matrices of any trace."""

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.base import RegressorMixin

from mmlp import divergences
from mmlp.argument_checks import check_floats
from mmlp.errors import CallError, MatrixError
from mmlp.estimators import model_files
from mmlp.estimators.base import NetworkEstimator, guarded
from mmlp.estimators.cross_fitting import Scaling, check_alike, fit_folds, folds
from mmlp.estimators.inputs import encode_training_rows, read_columns
from mmlp.estimators.outliers import Columns
from mmlp.networks import CholeskyMLP, Dense, JointMatrixMLP
from mmlp.networks.calibration import calibrate
from mmlp.spd import Gram

WIDTH = 100  # of the layers of the vector path, by default


@dataclasses.dataclass(eq=False, repr=False, kw_only=True)
class SPDRegressor(RegressorMixin, NetworkEstimator):
    """x -> an SPD matrix: its shape of trace one by a network, and the logarithm of its trace.

        loss(y / tr y, prediction of trace one) + (standardised log tr y - its prediction)^2

    Shapes: X (n, p), y (n, d, d). `loss` is "von_neumann", "stein", "quadratic" or "log_euclidean".
    The network is a `JointMatrixMLP` with matrices of the sizes `hidden_dims` and a vector path of
    the widths `hidden_features`, by default 100 for each of them; with `network="cholesky"`, the
    baseline, a `CholeskyMLP` of those widths. `n_models` networks are averaged; each stops when its
    own fold of the rows has not improved for `patience` epochs (`None`: never). With `warm_start`
    another `fit` goes on from the networks that were fitted; `n_iter_` are its epochs.

    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((40, 3))
    >>> Y = np.eye(2) + X[:, :2, None] * X[:, None, :2]
    >>> sizes = {"hidden_dims": (4,), "hidden_features": (8,), "n_models": 2}
    >>> model = SPDRegressor(**sizes, max_epochs=30, random_state=0).fit(X, Y)
    >>> model.predict(X).shape
    (40, 2, 2)
    """

    kind = "spd"
    targets = "matrices"
    any_columns = True
    _numbers = ("columns_", "input_", "trace_", "history_")

    # What becomes of columns that are not plain numbers: see `TableEncoder`.
    missing: str = "impute"
    categories: Any = "auto"
    dates: str = "auto"
    loss: str = "von_neumann"
    network: str = "joint"
    hidden_dims: tuple[int, ...] = (20, 20)
    hidden_features: tuple[int, ...] | None = None
    n_models: int = 5
    learning_rate: float = 0.01

    @guarded
    def fit(
        self, X, y, sample_weight=None, *, X_val=None, y_val=None, checkpoint=None
    ) -> "SPDRegressor":
        """Learn from X (n, p) and y (n, d, d); `checkpoint`: a folder, to go on from.

        With rows `X_val`, `y_val` networks stop by these, not by their own folds.
        """
        seed = self._checked_seed(checkpoint)
        self._one_of("loss", ("von_neumann", "stein", "quadratic", "log_euclidean"))
        if y is None:
            raise ValueError(
                "`SPDRegressor.fit(X, y)` requires y to be passed, but the target y is None."
            )
        table = read_columns(self, X)
        Y = _matrices(table.values, y, "fit")
        self._one_of("network", ("joint", "cholesky"))
        same = self.hidden_features is None
        features = (
            (WIDTH,) * len(self._sizes("hidden_dims")) if same else self.hidden_features
        )
        paths = self._paths(self.network, features)
        diagonal = np.diagonal(Y, axis1=1, axis2=2)  # which bounds the other entries
        arrays = (diagonal, *factored(Y))
        rows, weight, diagonal, factor, log_trace = self._weighted(
            sample_weight, *arrays
        )
        encoded = encode_training_rows(self, table.take(rows), rows)
        self.columns_ = encoded.encoder
        X = encoded.values
        kept = encoded.kept
        rows, weight, diagonal, factor, log_trace = (
            array[kept] for array in (rows, weight, diagonal, factor, log_trace)
        )
        build = _Build(self.network, X.shape[1], Y.shape[1], *paths)
        log_trace = _but_for_rounding(log_trace, Y.shape[1])
        self._check_cells(
            rows, X, Columns("the diagonal of y", diagonal, squared=False)
        )
        self._warn_of_few_rows(len(X))

        how: Any = {"training": self, "seed": seed, "checkpoint": checkpoint}
        count = self._folds(len(X))
        if self._warm:
            check_alike(
                type(self).__name__, self.models_, build, count, X.astype(self.dtype)
            )
            how["models"] = self.models_
        else:
            self.input_, self.trace_ = (
                self._scaling(X, weight),
                Scaling.of(log_trace, weight),
            )
        data = (self.input_.forward(X), factor, self.trace_.forward(log_trace))
        parts = folds(len(X), count, np.random.default_rng(seed))
        loss = _Loss(getattr(divergences, self.loss))
        how["judges"] = self._judges(X_val, y_val, Y.shape[1])
        fitted = fit_folds(build, loss, data, weight, parts, **how)
        self.models_, self.history_ = fitted
        return self

    def _judges(self, X_val, y_val, d: int) -> tuple[np.ndarray, ...] | None:
        """Rows of validation as those of training, if there are any."""
        if not self._both(X_val, y_val):
            return None
        x = self._standard(X_val)
        Y = _matrices(x, y_val, "fit", "y_val")
        if Y.shape[1] != d:
            raise ValueError(
                f"`SPDRegressor.fit(y_val=...)` must hold matrices of {d} x {d}, as y does, got "
                f"shape {Y.shape}."
            )
        factor, log_trace = factored(Y, "y_val")
        return x, factor, self.trace_.forward(log_trace)

    def predict(self, X) -> np.ndarray:
        """The matrices, (n, d, d)."""
        log_trace, factor = self._predict(_outputs, X)
        scale = np.exp(self.trace_.back(log_trace) / 2)[..., None]
        factor = scale * factor.astype(np.float64)  # (n, models, d, d)
        return np.mean(factor.mT @ factor, axis=1)

    def score(self, X, y, sample_weight=None) -> float:
        """R squared over all entries: 1 - sum |y - prediction|^2 / sum |y - mean of y|^2."""
        from sklearn.metrics import r2_score  # here: predictions start without it

        prediction = self.predict(X)
        Y = _matrices(prediction, y, "score")
        # About one of the matrices, as that of `MultivariateRegressor`: equal ones are then zero.
        flat = ((values - Y[:1]).reshape(len(values), -1) for values in (Y, prediction))
        return float(
            r2_score(
                *flat, sample_weight=sample_weight, multioutput="variance_weighted"
            )
        )

    def scores(self, X, y: Any = None) -> dict[str, float]:
        """The mean von Neumann divergence (smaller is better), and R squared."""
        divergence = divergences.von_neumann(
            *map(Gram.from_dense, (self.predict(X), y))
        )
        r2 = (
            {"r2": self.score(X, y)} if len(X) > 1 else {}
        )  # of one row it is not defined
        return {"von_neumann": float(jnp.mean(divergence)), **r2}

    results: ClassVar = {"covariance": predict}

    def _check_fitted(self) -> None:
        model_files.check_scaling(self.trace_, "trace_", 1)
        self._check_outputs("network", _outputs, self.models_, (1,), (None, None))


@dataclasses.dataclass(frozen=True)
class _Build:
    network: str
    features: int
    dim: int
    hidden_dims: tuple[int, ...]
    hidden_features: tuple[int, ...]

    def __call__(self, key, X):
        keys, sizes = jax.random.split(key), (self.features, self.dim)
        # what is left of a joint one without hidden layers is a linear map to a triangle
        if self.network == "cholesky" or not self.hidden_dims:
            model = CholeskyMLP(*sizes, self.hidden_features, 1, key=keys[0])
        else:
            widths = self.hidden_dims, 1, self.hidden_features
            model = JointMatrixMLP(*sizes, *widths, output=Dense(), key=keys[0])
        return calibrate(model, X, key=keys[1])


@dataclasses.dataclass(frozen=True)
class _Loss:
    divergence: Callable

    def __call__(self, model, key, t, x, factor, log_trace):
        vector, A = model(x)
        return self.divergence(A, Gram(factor, upper=True)) + jnp.sum(
            (vector - log_trace) ** 2
        )


def _outputs(model, x):
    log_trace, A = model(x)
    return log_trace, A.factor


def _matrices(X: np.ndarray, Y, call: str, what: str = "y") -> np.ndarray:
    """Y as (n, d, d), as many as rows of X."""
    Y = np.asarray(Y, np.float64)
    if Y.ndim != 3 or Y.shape[1] != Y.shape[2] or not Y.shape[1] or len(Y) != len(X):
        raise CallError(
            f"{what} must hold as many matrices (n, d, d) as X has rows, got {len(X)} rows and "
            f"{what} of shape {Y.shape}",
            call=f"SPDRegressor.{call}",
        )
    return Y


def _but_for_rounding(log_trace: np.ndarray, d: int) -> np.ndarray:
    """Their mean, where they differ by no more than the d roundings of a sum in float32.

    Matrices that were made to have trace one do: what is left must not be learnt.
    """
    alike = np.ptp(log_trace) <= 2 * d * np.finfo(np.float32).eps
    return np.full_like(log_trace, log_trace.mean()) if alike else log_trace


def factored(Y: np.ndarray, what: str = "y") -> tuple[np.ndarray, np.ndarray]:
    """Upper triangular factors (n, d, d) of Y / tr Y, in float64, and log tr Y (n, 1)."""
    check_floats(Y, f"SPDRegressor.fit({what}=...)", "(n, d, d)", ndim=3)
    trace = np.trace(Y, axis1=1, axis2=2)
    size = np.where(trace == 0, 1.0, np.abs(trace))[:, None, None]
    try:
        factor = Gram.from_dense(Y / size).factor
    except MatrixError as error:
        raise MatrixError(
            error.requirement,
            f"{error.deviation} when scaled to trace one",
            index=error.index,
            call="SPDRegressor.fit",
            argument=what,
            remedy=error.remedy,
        ) from None
    return np.asarray(factor), np.log(trace)[:, None]
