"""`MultivariateRegressor`: a mean and a full covariance for each sample, that hold up on rows that were not seen.

Trained together by likelihood, a mean and a covariance spoil each other: rows that are hard to fit are declared noisy, and
covariances shrink onto residuals of rows that the mean has seen. So they are learnt one after the other, with cross-fitting
(Chernozhukov et al., 2018): networks learn the mean by squared error, each without its own fold of the rows, and the
covariance is learnt on the residuals of held rows only. Two corrections are made, each from held rows:

- log V varies too much over rows, as the output of any fitted network does: it is moved towards its centre by the factor
  (`contrast_`) that makes the held residuals most likely.
- The mean of all networks errs less than those of them that have not seen a row. The rows are split into folds twice, so
  that there are two of them, whose difference tells by how much (`gain_`).

The power exponential is the default because tails vary from table to table: one gross error among a few hundred rows
costs a Gaussian more than all that can be learnt about the others.
"""

import dataclasses
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy.optimize import minimize_scalar
from scipy.special import gammaln
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.covariance import ledoit_wolf
from sklearn.utils.validation import _check_sample_weight, validate_data

from mmlp.distributions import TraceOneGaussian, TraceOnePowerExponential
from mmlp.estimators import saved
from mmlp.estimators.base import NetworkEstimator, all_or_nothing
from mmlp.estimators.outliers import Columns, names_of
from mmlp.estimators.scaling import Scaling
from mmlp.estimators.training import each, folds, predict, train
from mmlp.heads import GaussianHead, PowerExponentialHead
from mmlp.initialisation import calibrate
from mmlp.kernels import Linear
from mmlp.linalg.checks import checked_floats, checked_sizes
from mmlp.networks import CholeskyMLP, Dense, MatrixMLP, Perceptron
from mmlp.registry import register
from mmlp.spd import SPD, Gram

HEADS = {"gaussian": (GaussianHead, 1), "power_exponential": (PowerExponentialHead, 3)}
NETWORKS = ("matrix", "cholesky")
# How far, in standard deviations given the other targets, rounding may move a mean: half a unit in the last place, h. The
# errors by which a mean and a target y are rounded spread over (-h, h), with variance h^2 / 3 each, and cost a Gaussian
# h^2 / 3 of its mean log density for each target: at 0.05 this is 0.0008, and at the very worst, both off by h, 0.005.
ROUNDING = 0.05
FLOOR = 0.5  # of the kernel at the output: a row that is unlike the others must not get a singular covariance


class MultivariateRegressor(MultiOutputMixin, RegressorMixin, NetworkEstimator):
    """x -> a power exponential, or N(mu(x), V(x)) with `family="gaussian"`, with a full covariance V for each sample.

    Shapes: X (n, p), y (n,) or (n, d). `hidden_dims` are the widths of the matrix MLP for the shape of the covariance,
    `hidden_features` those of the MLPs for the mean and for the scales; with `network="cholesky"`, the baseline, one MLP of
    those widths makes the whole covariance. 2 `n_models` networks for the mean and `n_models` for the covariance are
    averaged, covariances by their logarithms (arithmetic means cover too much); each stops when its own fold of the rows
    has not improved for `patience` epochs (`None`: never).

    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((60, 3))
    >>> y = X[:, :2] + rng.standard_normal((60, 2))
    >>> model = MultivariateRegressor(hidden_dims=(4,), hidden_features=(8,), n_models=2, max_epochs=30, random_state=0)
    >>> model.fit(X, y).predict(X).shape, model.predict_covariance(X).shape
    ((60, 2), (60, 2, 2))
    """

    _numbers = (
        "input_",
        "target_",
        "shape_",
        "contrast_",
        "gain_",
        "is_vector_",
        "history_",
        "covariance_history_",
    )

    def __init__(
        self,
        *,
        family: str = "power_exponential",
        network: str = "matrix",
        hidden_dims: tuple[int, ...] = (10, 10),
        hidden_features: tuple[int, ...] = (64, 64),
        n_models: int = 5,
        max_epochs: int = 500,
        batch_size: int = 64,
        learning_rate: float = 0.02,
        patience: int | None = 50,
        random_state=None,
        dtype: str = "float32",
        verbose: int = 0,
    ):
        self.family = family
        self.network = network
        self.hidden_dims = hidden_dims
        self.hidden_features = hidden_features
        self.n_models = n_models
        self.max_epochs = max_epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.patience = patience
        self.random_state = random_state
        self.dtype = dtype
        self.verbose = verbose

    @all_or_nothing
    def fit(self, X, y, sample_weight=None, *, checkpoint=None) -> "MultivariateRegressor":
        """Learn from X (n, p) and y (n,) or (n, d). The same call with a `checkpoint` directory goes on where it stopped."""
        settings = self._settings()
        targets = names_of(y)
        X, y = validate_data(
            self, X, y, multi_output=True, y_numeric=True, dtype=np.float64, ensure_min_samples=2
        )
        rows, weight, X, y = self._weighted(sample_weight, np.asarray(X), np.asarray(y, np.float64))
        seed = self._seed(checkpoint)
        self.is_vector_ = y.ndim == 1
        y = y.reshape(len(y), -1)
        self._check_cells(rows, X, Columns("y", y, targets))
        p, d = X.shape[1], y.shape[1]
        mean_of, covariance_of = self._builders(p, d)

        self.input_, self.target_ = Scaling.of(X, weight), Scaling.of(y, weight)
        x, z = self.input_.forward(X), self.target_.forward(y)
        rng, count = np.random.default_rng(seed), min(self._count(), len(x))
        parts, others = folds(len(x), count, rng), folds(len(x), count, rng)
        run = None if checkpoint is None else Path(checkpoint)
        means = train(
            mean_of,
            _squared_error,
            (x, z),
            weight,
            parts + others,
            settings,
            seed,
            run and run / "mean",
        )
        mean = predict(_means, means.model, x.astype(settings.dtype))  # (n, 2 count, d)
        one, other = _held(mean[:, :count], parts), _held(mean[:, count:], others)
        residuals = z - (one + other) / 2

        self.shape_ = _shape(residuals, weight)
        e = np.linalg.solve(self.shape_, residuals.T).T
        heads = train(
            covariance_of,
            _minus_log_density,
            (x, e),
            weight,
            parts,
            settings,
            seed + 1,
            run and run / "covariance",
        )
        log_V, _, beta = (
            _held(v, parts)
            for v in predict(_log_covariances, heads.model, x.astype(settings.dtype))
        )
        self.contrast_ = _contrast(log_V, beta, e, weight)
        apart = np.linalg.solve(self.shape_, (one - other).T).T
        self.gain_ = _gain(_drawn_in(log_V, self.contrast_), e, apart, weight, 2 * count)
        self.models_ = {"mean": means.model, "covariance": heads.model}
        self.history_, self.covariance_history_ = means.history, heads.history
        self._warn_unfinished()
        return self

    def _check_fitted(self) -> None:
        if self.family not in HEADS:
            raise ValueError(f"its family is {self.family!r:.80}")
        d, row = self._n_targets, np.zeros((1, self.n_features_in_), self.dtype)
        saved.check_scaling(self.target_, "target_", d)
        if not isinstance(self.is_vector_, bool) or (self.is_vector_ and d > 1):
            raise ValueError(f"its is_vector_ is {self.is_vector_!r:.80} for {d} targets")
        saved.check_matrix(self.shape_, "shape_", d)
        saved.check_number(self.contrast_, "contrast_", 0, 1)
        saved.check_number(self.gain_, "gain_", np.finfo(float).tiny, 1)
        saved.check_history(self.history_, "history_")
        saved.check_history(self.covariance_history_, "covariance_history_")
        mean, covariance, m = self.models_["mean"], self.models_["covariance"], None
        matrices = ((1, m, d, d), (1, m), (1, m))
        saved.check_outputs("its mean", _means, mean, row, wanted=((1, m, d),), dtype=self.dtype)
        saved.check_outputs(
            "its covariance", _log_covariances, covariance, row, wanted=matrices, dtype=self.dtype
        )

    @property
    def _n_targets(self) -> int:
        return np.size(self.target_.scale)

    def predict(self, X) -> np.ndarray:
        """The mean, (n, d), or (n,) if y was."""
        mean = self._mean(X)
        mean = self.target_.back(mean)
        return mean[:, 0] if self.is_vector_ else mean

    def predict_covariance(self, X) -> np.ndarray:
        """The covariance of each row, (n, d, d)."""
        R = self._factor(X)[0]
        R = R * self.target_.scale
        return R.mT @ R

    def predict_distribution(self, X) -> TraceOneGaussian | TraceOnePowerExponential:
        """The distribution of each row, with batch shape (n,): a library value with `log_prob`, `sample`, `covariance`."""
        R, *tail = self._factor(X)
        mean, R = self.target_.back(self._mean(X)), R * self.target_.scale
        return self._distribution(mean, R, *tail)

    def _error_distribution(self, X) -> TraceOneGaussian | TraceOnePowerExponential:
        """That of the errors y - predict(X): as `predict_distribution`, about zero, where no digits are lost."""
        R, *tail = self._factor(X)
        return self._distribution(np.zeros(R.shape[:2]), R * self.target_.scale, *tail)

    def log_density(self, X, y) -> np.ndarray:
        """log p(y | x) of each row, (n,)."""
        R, *tail = self._factor(X)
        mean = self._mean(X)
        z = self.target_.forward(self._targets(y, len(mean)))
        self._cast(z, "y")
        error = (z - mean).astype(
            self.dtype
        )  # of errors about zero, in standard units: no digits are lost
        log_density = self._distribution(np.zeros_like(mean), R, *tail).log_prob(jnp.asarray(error))
        return np.asarray(log_density, np.float64) - np.sum(np.log(self.target_.scale))

    def log_score(self, X, y, sample_weight=None) -> float:
        """The mean of log p(y | x): larger is better. (`score` is R squared of the mean, as scikit-learn has it.)"""
        values = self.log_density(X, y)
        return float(np.average(values, weights=_check_sample_weight(sample_weight, values)))

    def _builders(self, p: int, d: int):
        name = type(self).__name__
        if self.family not in HEADS:
            raise ValueError(
                f"`{name}(family=...)` must be one of {', '.join(HEADS)}, got {self.family!r}."
            )
        if self.network not in NETWORKS:
            raise ValueError(
                f"`{name}(network=...)` must be one of {', '.join(NETWORKS)}, got {self.network!r}."
            )
        dims = checked_sizes(self.hidden_dims, f"{name}(hidden_dims=...)")
        features = checked_sizes(self.hidden_features, f"{name}(hidden_features=...)")
        return _Mean((p, *features, d)), _Covariance(
            self.family, self.network, p, d, dims, features
        )

    def _targets(self, y, n: int) -> np.ndarray:
        """y of `log_density`, (n, d), checked."""
        y, d = np.asarray(y, np.float64), len(self.target_.scale)
        if y.shape != (n, d) and (y.shape, d) != ((n,), 1):
            raise ValueError(
                f"`{type(self).__name__}.log_density(X, y)` needs y of shape ({n}, {d}), a row for each of X and a column "
                f"for each target of `fit`, got shape {y.shape}."
            )
        argument = f"{type(self).__name__}.log_density(y=...)"
        return np.asarray(checked_floats(y.reshape(n, d), argument, "(n, d)", ndim=2))

    def _mean(self, X) -> np.ndarray:
        """Of the standardised targets, (n, d)."""
        X = self._standardised(X)
        return predict(_means, self.models_["mean"], X).mean(axis=1)

    def _factor(self, X) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Of the standardised targets: R (n, d, d), upper triangular, V = R'R; alpha and beta (n,)."""
        X = self._standardised(X)
        log_V, alpha, beta = (
            x.mean(axis=1) for x in predict(_log_covariances, self.models_["covariance"], X)
        )
        log_V = _drawn_in(log_V.astype(np.float64), self.contrast_) + np.log(self.gain_) * np.eye(
            log_V.shape[-1]
        )
        values, vectors = np.linalg.eigh(log_V)  # of the log-Euclidean mean over models
        root = np.exp(values / 2)[..., None] * vectors.mT
        R: Any = np.linalg.qr(root @ self.shape_.T, mode="r")
        return R, alpha, beta

    def _distribution(self, mean, R, alpha, beta):
        """The one with this mean (n, d) and covariance R'R."""
        size = np.sqrt(np.sum(R**2, axis=(-2, -1)))
        omega, eta = R / size[:, None, None], size**2
        self._check_range(
            np.concatenate([eta, np.abs(omega.diagonal(axis1=-2, axis2=-1)).ravel()]), mean
        )
        self._check_digits(mean, R)
        arrays = (mean, omega, eta, alpha, beta)
        mean, factor, eta, alpha, beta = (jnp.asarray(array, self.dtype) for array in arrays)
        omega = Gram(factor, upper=True)
        if self.family == "gaussian":
            return TraceOneGaussian(mean, omega, eta)
        unit = TraceOnePowerExponential(mean, omega, jnp.ones_like(eta), alpha, beta)
        return TraceOnePowerExponential(mean, omega, eta / unit.covariance.trace(), alpha, beta)

    def _check_range(self, scales: np.ndarray, mean: np.ndarray) -> None:
        """Refuse a distribution that the dtype cannot hold; `predict_covariance` is in float64."""
        limits = np.finfo(self.dtype)
        smallest, largest = scales.min(), max(scales.max(), np.abs(mean).max())
        if not (limits.tiny <= smallest and largest <= limits.max):
            raise ValueError(
                f"`{type(self).__name__}.predict_distribution` needs numbers (means, scales) from {smallest:.3g} to "
                f'{largest:.3g}, which {limits.dtype} cannot hold; fit targets in other units, or use dtype="float64".'
            )

    def _check_digits(self, mean: np.ndarray, R: np.ndarray) -> None:
        """Refuse means (n, d) that the dtype would round by more than `ROUNDING` deviations; V = R'R."""
        half = np.spacing(np.abs(mean).astype(self.dtype)).astype(np.float64) / 2
        share = half * np.linalg.norm(
            np.linalg.inv(R), axis=-1
        )  # 1 / deviation^2 is the diagonal of the inverse of V
        row, target = np.unravel_index(np.argmax(share), share.shape)
        if share[row, target] > ROUNDING:
            dtype = np.dtype(self.dtype).name
            better = ', fit with dtype="float64"' if dtype == "float32" else ""
            raise ValueError(
                f"`{type(self).__name__}.predict_distribution`: {dtype} rounds the mean of target {target} in row {row} "
                f"(from 0), {mean[row, target]:.6g}, by up to {share[row, target]:.2g} of its standard deviations given "
                f"the other targets; subtract an offset from the targets before `fit`{better}, or use `predict`, "
                "`predict_covariance` and `log_density`, which lose no digits."
            )


class Separated(eqx.Module):
    """x -> ((log eta, ...), Omega) for the covariance D A D: a scale for each target, D, by an MLP, and A by a matrix MLP.

        eta Omega = D A D,   D = diag(exp(v)),   tr Omega = tr A = 1                    (Barnard, McCulloch and Meng, 2000)

    What the MLP puts out beyond the d numbers v is passed on.
    """

    scales: Perceptron
    shape: Any  # a `MatrixMLP` without a vector

    @property
    def out_features(self) -> int:
        return len(self.scales.b[-1]) - self.shape.dim + 1

    def __call__(self, x: Array) -> tuple[Array, SPD]:
        vector, d = self.scales(x), self.shape.dim
        T = self.shape(x).factor * jnp.exp(vector[:d])
        log_eta = jnp.log(jnp.sum(T**2))
        return jnp.concatenate([log_eta[None], vector[d:]]), Gram.trace_one(T)


class Centred(eqx.Module):
    """A network whose head has mean zero: x -> ((0, vector), Gram)."""

    network: Any  # `Separated`, or a `CholeskyMLP`
    dim: int = eqx.field(static=True)

    @property
    def out_features(self) -> int:
        return self.dim + self.network.out_features

    def __call__(self, x: Array) -> tuple[Array, SPD]:
        vector, A = self.network(x)
        return jnp.concatenate([jnp.zeros(self.dim, vector.dtype), vector]), A


register(Separated)
register(Centred)


@dataclasses.dataclass(frozen=True)
class _Mean:
    sizes: tuple[int, ...]

    def __call__(self, key, X):
        return calibrate(Perceptron(self.sizes, jax.nn.gelu, key=key), X, key=key)


@dataclasses.dataclass(frozen=True)
class _Covariance:
    family: str
    network: str
    features: int
    dim: int
    hidden_dims: tuple[int, ...]
    hidden_features: tuple[int, ...]

    def __call__(self, key, X):
        head, extra = HEADS[self.family]
        keys, p, d = jax.random.split(key, 3), self.features, self.dim
        if self.network == "cholesky":
            parts = (CholeskyMLP(p, d, self.hidden_features, out_features=extra, key=keys[0]),)
        else:
            scales = Perceptron((p, *self.hidden_features, d + extra - 1), key=keys[0])
            parts = (
                scales,
                MatrixMLP(p, d, self.hidden_dims, output=Dense(Linear(floor=FLOOR)), key=keys[1]),
            )
        parts = [calibrate(part, X, key=keys[2]) for part in parts]
        return head(Centred(Separated(*parts) if self.network == "matrix" else parts[0], d))


def _squared_error(model, key, t, x, z):
    return jnp.sum((model(x) - z) ** 2)


def _minus_log_density(model, key, t, x, e):
    return -model(x).log_prob(e)


def _means(models, X):
    return each(models, lambda model, x: model(x), X)


def _log_covariances(models, X):
    def one(model, x):
        p = model(x)
        return p.covariance.logm(), *_tail(p)

    return each(models, one, X)


def _tail(p):
    """(alpha, beta), ones for a Gaussian."""
    return (
        (p.alpha, p.beta)
        if isinstance(p, TraceOnePowerExponential)
        else (jnp.ones_like(p.eta), jnp.ones_like(p.eta))
    )


def _held(values: np.ndarray, parts) -> np.ndarray:
    """Of values (n, models, ...) each row's by the network that has not seen it."""
    held = np.empty_like(values[:, 0], dtype=np.float64)
    for k, part in enumerate(parts):
        held[part.held] = values[part.held, k]
    return held


def _drawn_in(log_V: np.ndarray, contrast: float) -> np.ndarray:
    """log V (n, d, d), moved towards log(I / d), that of the covariance of all rows."""
    d = log_V.shape[-1]
    centre = -np.log(d) * np.eye(d)
    return centre + contrast * (log_V - centre)


def _contrast(log_V: np.ndarray, beta: np.ndarray, e: np.ndarray, weight: np.ndarray) -> float:
    """The factor in [0, 1] for `_drawn_in` under which the residuals e (n, d) are most likely.

    -2 log p = log det V + (k e'V^-1 e)^beta + const,   V = k Sigma the covariance,   k = 1 for a Gaussian (beta = 1)
    """
    d = e.shape[1]
    k = np.exp(
        np.log(2) / beta + gammaln((d + 2) / (2 * beta)) - gammaln(d / (2 * beta)) - np.log(d)
    )
    values, vectors = np.linalg.eigh(log_V)
    squares = np.einsum("nij,ni->nj", vectors, e) ** 2

    def loss(contrast: float) -> float:  # convex
        w = -np.log(d) + contrast * (values + np.log(d))
        return np.average(
            np.sum(w, axis=1) + (k * np.sum(squares * np.exp(-w), axis=1)) ** beta, weights=weight
        )

    result: Any = minimize_scalar(loss, bounds=(0.0, 1.0), method="bounded")
    return float(result.x)


def _gain(
    log_V: np.ndarray, e: np.ndarray, apart: np.ndarray, weight: np.ndarray, count: int
) -> float:
    """What the covariance V of the residuals e (n, d) of the mean of two networks is multiplied by for the mean of `count`.

    The first is E + B / 2, the last E + B / count, where B, the covariance of a network about the mean of many, is half
    that of the difference of two, `apart` (n, d). B is at most twice E + B / 2: an estimate above that means E = 0.
    """
    values, vectors = np.linalg.eigh(log_V)

    def size(x: np.ndarray) -> float:
        squares = np.einsum("nij,ni->nj", vectors, x) ** 2
        return float(np.average(np.sum(squares * np.exp(-values), axis=1), weights=weight))

    whole = size(e)
    share = min(size(apart) / 2, 2 * whole) / whole if whole > 0 else 0.0
    return 1 - (1 / 2 - 1 / count) * share


def _shape(residuals: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """L (d, d) with LL' / d the covariance of the residuals (n, d), shrunk (Ledoit and Wolf, 2004) to have full rank.

    A column without residuals keeps the scale of the target.
    """
    scale = np.sqrt(np.average(residuals**2, axis=0, weights=weight))
    known = scale == 0
    scale = np.where(known, 1.0, scale)
    rows = residuals / scale * np.sqrt(weight / weight.mean())[:, None]
    V = ledoit_wolf(rows, assume_centered=True)[0] + np.diag(1.0 * known)
    return scale[:, None] * np.linalg.cholesky(V * len(V))
