"""`SPDRegressor`: from vectors to symmetric positive definite matrices of any trace."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score

from mmlp import divergences
from mmlp.estimators import saved
from mmlp.estimators.base import NetworkEstimator, all_or_nothing
from mmlp.estimators.outliers import Columns
from mmlp.estimators.scaling import Scaling
from mmlp.estimators.training import each, folds, predict, train
from mmlp.initialisation import calibrate
from mmlp.linalg.checks import checked_sizes
from mmlp.networks import MatrixMLP
from mmlp.spd import Gram


def _loss_of(divergence):
    def loss(model, key, t, x, factor, log_trace):
        vector, A = model(x)
        return divergence(A, Gram(factor, upper=True)) + jnp.sum((vector - log_trace) ** 2)

    return loss


LOSSES = {
    name: _loss_of(getattr(divergences, name))
    for name in ("von_neumann", "stein", "quadratic", "log_euclidean")
}


class SPDRegressor(RegressorMixin, NetworkEstimator):
    """x -> an SPD matrix: its shape of trace one by a matrix MLP, and beside it the logarithm of its trace.

        loss(y / tr y, prediction of trace one) + (standardised log tr y - its prediction)^2

    Shapes: X (n, p), y (n, d, d). `loss` is "von_neumann", "stein", "quadratic" or "log_euclidean". `n_models` networks are
    averaged; each stops when its own fold of the rows has not improved for `patience` epochs (`None`: never).

    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((40, 3))
    >>> Y = np.eye(2) + X[:, :2, None] * X[:, None, :2]
    >>> model = SPDRegressor(hidden_dims=(4,), n_models=2, max_epochs=30, random_state=0).fit(X, Y)
    >>> model.predict(X).shape
    (40, 2, 2)
    """

    _numbers = ("input_", "trace_", "history_")

    def __init__(
        self,
        *,
        loss: str = "von_neumann",
        hidden_dims: tuple[int, ...] = (20, 20),
        n_models: int = 5,
        max_epochs: int = 500,
        batch_size: int = 64,
        learning_rate: float = 0.02,
        patience: int | None = 50,
        random_state=None,
        dtype: str = "float32",
        verbose: int = 0,
    ):
        self.loss = loss
        self.hidden_dims = hidden_dims
        self.n_models = n_models
        self.max_epochs = max_epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.patience = patience
        self.random_state = random_state
        self.dtype = dtype
        self.verbose = verbose

    @all_or_nothing
    def fit(self, X, y, sample_weight=None, *, checkpoint=None) -> "SPDRegressor":
        """Learn from X (n, p) and y (n, d, d). The same call with a `checkpoint` directory goes on where it stopped."""
        settings, count, seed = self._settings(), self._count(), self._seed(checkpoint)
        if self.loss not in LOSSES:
            raise ValueError(
                f"`SPDRegressor(loss=...)` must be one of {', '.join(LOSSES)}, got {self.loss!r}."
            )
        if y is None:
            raise ValueError(
                "`SPDRegressor.fit(X, y)` requires y to be passed, but the target y is None."
            )
        X = self._rows(X)
        Y = _matrices(X, y, "fit")
        build = _Build(
            X.shape[1], Y.shape[1], checked_sizes(self.hidden_dims, "SPDRegressor(hidden_dims=...)")
        )
        diagonal = np.diagonal(Y, axis1=1, axis2=2)  # which bounds the other entries
        rows, weight, X, diagonal, factor, log_trace = self._weighted(
            sample_weight, X, diagonal, *factored(Y)
        )
        self._check_cells(rows, X, Columns("the diagonal of y", diagonal, squared=False))

        self.input_, self.trace_ = Scaling.of(X, weight), Scaling.of(log_trace, weight)
        data = (self.input_.forward(X), factor, self.trace_.forward(log_trace))
        parts = folds(len(X), min(count, len(X)), np.random.default_rng(seed))
        self.models_, self.history_ = train(
            build, LOSSES[self.loss], data, weight, parts, settings, seed, checkpoint
        )
        self._warn_unfinished()
        return self

    def _check_fitted(self) -> None:
        saved.check_scaling(self.trace_, "trace_", 1)
        saved.check_history(self.history_, "history_")
        row = np.zeros((1, self.n_features_in_), self.dtype)
        wanted = ((1, None, 1), (1, None, None, None))
        saved.check_outputs(
            "its network", _outputs, self.models_, row, wanted=wanted, dtype=self.dtype
        )

    def predict(self, X) -> np.ndarray:
        """The matrices, (n, d, d)."""
        X = self._standardised(X)
        log_trace, factor = predict(_outputs, self.models_, X)
        factor = np.exp(self.trace_.back(log_trace) / 2)[..., None] * factor.astype(
            np.float64
        )  # (n, models, d, d)
        return np.mean(factor.mT @ factor, axis=1)

    def score(self, X, y, sample_weight=None) -> float:
        """R squared over all entries: 1 - sum |y - prediction|^2 / sum |y - mean of y|^2, in the Frobenius norm."""
        prediction = self.predict(X)
        Y = _matrices(prediction, y, "score")
        flat = (values.reshape(len(values), -1) for values in (Y, prediction))
        return float(r2_score(*flat, sample_weight=sample_weight, multioutput="variance_weighted"))


@dataclasses.dataclass(frozen=True)
class _Build:
    features: int
    dim: int
    widths: tuple[int, ...]

    def __call__(self, key, X):
        keys = jax.random.split(key)
        return calibrate(
            MatrixMLP(self.features, self.dim, self.widths, out_features=1, key=keys[0]),
            X,
            key=keys[1],
        )


def _outputs(models, X):
    def one(model, x):
        log_trace, A = model(x)
        return log_trace, A.factor

    return each(models, one, X)


def _matrices(X: np.ndarray, Y, call: str) -> np.ndarray:
    """Y as (n, d, d), as many as rows of X."""
    Y = np.asarray(Y, np.float64)
    if Y.ndim != 3 or Y.shape[1] != Y.shape[2] or not Y.shape[1] or len(Y) != len(X):
        raise ValueError(
            f"`SPDRegressor.{call}(X, y)` needs as many matrices y (n, d, d) as rows of X, got {len(X)} rows and y of shape "
            f"{Y.shape}."
        )
    return Y


def factored(Y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Upper triangular factors (n, d, d) of Y / tr Y, in float64, and log tr Y (n, 1)."""
    trace = np.trace(Y, axis1=1, axis2=2)
    size = np.where(trace == 0, 1.0, np.abs(trace))[:, None, None]
    try:
        factor = Gram.from_dense(Y / size).factor
    except ValueError as error:
        raise ValueError(f"`SPDRegressor.fit(y=...)`, scaled to trace one: {error}") from None
    return np.asarray(factor), np.log(trace)[:, None]
