"""`MultivariateRegressor`: a mean and a full covariance for each sample, that hold on unseen rows.

Trained together by likelihood, a mean and a covariance spoil each other: rows that are hard to fit
are declared noisy, and covariances shrink onto residuals of rows that the mean has seen. So, with
cross-fitting (Chernozhukov et al., 2018), networks learn the mean by squared error, each without
its own fold of the rows, then the covariance on residuals of held rows. These also correct it:

- log V varies too much over rows, as the output of any fitted network does: it is moved towards
  its centre by the factor (`contrast_`) that makes the held residuals most likely.
- The mean of all networks errs less than that of those that have not seen a row. Rows are split
  into folds twice: the difference of two such means tells by how much (`gain_`).

The power exponential is the default because tails vary from table to table: one gross error among
a few hundred rows costs a Gaussian more than all that can be learnt about the others.
"""

import dataclasses
from pathlib import Path
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import _check_sample_weight, validate_data

from mmlp import metrics
from mmlp.distributions import Elliptical
from mmlp.estimators import corrections, saved
from mmlp.estimators.base import NetworkEstimator, guarded, predictions
from mmlp.estimators.covariance import FAMILIES, Covariance, Mean, check_precision
from mmlp.estimators.ensemble import Scaling, fit_folds, folds, held
from mmlp.estimators.outliers import Columns, names_of
from mmlp.linalg.checks import checked_floats
from mmlp.spd import Gram


@dataclasses.dataclass(eq=False, repr=False, kw_only=True)
class MultivariateRegressor(MultiOutputMixin, RegressorMixin, NetworkEstimator):
    """x -> a power exponential, or N(mu(x), V(x)) with `family="gaussian"`, with a full covariance.

    Shapes: X (n, p), y (n,) or (n, d). `hidden_dims` are the widths of the matrix MLP for the shape
    of the covariance, `hidden_features` those of the MLPs for the mean and for the scales; with
    `network="cholesky"`, the baseline, one MLP of those widths makes the whole covariance.
    2 `n_models` networks for the mean and `n_models` for the covariance are averaged, covariances
    by their logarithms (arithmetic means cover too much); each stops when its own fold of the rows
    has not improved for `patience` epochs (`None`: never).

    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((60, 3))
    >>> y = X[:, :2] + rng.standard_normal((60, 2))
    >>> sizes = {"hidden_dims": (4,), "hidden_features": (8,), "n_models": 2}
    >>> model = MultivariateRegressor(**sizes, max_epochs=30, random_state=0).fit(X, y)
    >>> model.predict(X).shape, model.predict_covariance(X).shape
    ((60, 2), (60, 2, 2))
    """

    kind = "regression"
    targets = "columns"
    _numbers = ("input_", "target_", "shape_", "contrast_", "gain_", "is_vector_", "history_")
    _numbers += ("covariance_history_",)

    family: str = "power_exponential"
    network: str = "matrix"
    hidden_dims: tuple[int, ...] = (10, 10)
    hidden_features: tuple[int, ...] = (64, 64)
    n_models: int = 5

    @guarded
    def fit(self, X, y, sample_weight=None, *, checkpoint=None) -> "MultivariateRegressor":
        """Learn from X (n, p) and y (n,) or (n, d); `checkpoint`: a folder, to go on from."""
        seed, names = self._checked_seed(checkpoint), names_of(y)
        rules = {"multi_output": True, "y_numeric": True, "ensure_min_samples": 2}
        X, y = validate_data(self, X, y, dtype=np.float64, **rules)
        rows, weight, X, y = self._weighted(sample_weight, np.asarray(X), np.asarray(y, np.float64))
        self.is_vector_ = y.ndim == 1
        y = y.reshape(len(y), -1)
        self._check_cells(rows, X, Columns("y", y, names))
        build_mean, build_covariance = self._builders(X.shape[1], y.shape[1])
        rng, count = np.random.default_rng(seed), self._folds(len(X))
        parts, others = folds(len(X), count, rng), folds(len(X), count, rng)
        runs = [checkpoint and Path(checkpoint, name) for name in ("mean", "covariance")]

        self.input_, self.target_ = Scaling.of(X, weight), Scaling.of(y, weight)
        x, z = self.input_.forward(X), self.target_.forward(y)
        inputs = x.astype(self.dtype)
        how = {"training": self, "seed": seed, "checkpoint": runs[0]}
        means = fit_folds(build_mean, _squared_error, (x, z), weight, parts + others, **how)
        mean = predictions(_mean, means.model, inputs)  # (n, 2 count, d)
        one, other = held(mean[:, :count], parts), held(mean[:, count:], others)

        residuals = z - (one + other) / 2
        self.shape_ = corrections.shape(residuals, weight)
        e, apart = (np.linalg.solve(self.shape_, r.T).T for r in (residuals, one - other))
        how |= {"seed": seed + 1, "checkpoint": runs[1]}
        heads = fit_folds(build_covariance, _minus_log_density, (x, e), weight, parts, **how)
        learnt = predictions(_log_covariance_and_tail, heads.model, inputs)
        log_V, *tail = (held(values, parts) for values in learnt)
        family: Any = FAMILIES[self.family].distribution
        self.contrast_ = corrections.contrast(family, log_V, tail, e, weight)
        log_V = drawn_in(log_V, self.contrast_)
        self.gain_ = corrections.gain(log_V, e, apart, weight, 2 * count)
        self.models_ = {"mean": means.model, "covariance": heads.model}
        self.history_, self.covariance_history_ = means.history, heads.history
        return self

    def predict(self, X) -> np.ndarray:
        """The mean, (n, d), or (n,) if y was."""
        mean = self._mean(X)  # first: it refuses an estimator that is not fitted
        mean = self.target_.back(mean)
        return mean[:, 0] if self.is_vector_ else mean

    def predict_covariance(self, X) -> np.ndarray:
        """The covariance of each row, (n, d, d)."""
        R = self._factor(X)[0] * self.target_.scale
        return R.mT @ R

    def predict_distribution(self, X) -> Elliptical:
        """The distribution of each row, with batch shape (n,): it has `log_prob`, `sample`, ..."""
        R, *tail = self._factor(X)
        return self._law(self.target_.back(self._mean(X)), R * self.target_.scale, *tail)

    def _error_distribution(self, X) -> Elliptical:
        """That of the errors y - predict(X): about zero, where no digits are lost."""
        R, *tail = self._factor(X)
        return self._law(np.zeros(R.shape[:2]), R * self.target_.scale, *tail)

    def log_density(self, X, y) -> np.ndarray:
        """log p(y | x) of each row, (n,)."""
        R, *tail = self._factor(X)
        mean = self._mean(X)
        z = self.target_.forward(self._targets(y, len(mean)))
        self._cast(z, "y")
        # of errors about zero, in standard units: no digits are lost
        errors = jnp.asarray((z - mean).astype(self.dtype))
        log_density = self._law(np.zeros_like(mean), R, *tail).log_prob(errors)
        return np.asarray(log_density, np.float64) - np.sum(np.log(self.target_.scale))

    def log_score(self, X, y, sample_weight=None) -> float:
        """The mean of log p(y | x): larger is better. (`score` is R squared of the mean.)"""
        values = self.log_density(X, y)
        return float(np.average(values, weights=_check_sample_weight(sample_weight, values)))

    def scores(self, X, y: Any = None) -> dict[str, float]:
        """Those of the distribution (smaller is better), coverage (0.9 is best) and R squared."""
        errors, p = y - self.predict(X).reshape(np.shape(y)), self._error_distribution(X)
        return {
            "negative_log_likelihood": -self.log_score(X, y),
            "energy_score": metrics.energy_score(p, errors),
            "coverage_90": metrics.ellipsoid_coverage(p, errors, 0.9),
            **({"r2": self.score(X, y)} if len(X) > 1 else {}),  # of one row it is not defined
        }

    results: ClassVar = {
        "mean": lambda self, X: self.predict(X).reshape(len(X), -1),
        "covariance": predict_covariance,
    }

    @property
    def n_targets(self) -> int:
        return np.size(self.target_.scale)

    def _builders(self, p: int, d: int) -> tuple[Mean, Covariance]:
        self._one_of("family", FAMILIES)
        self._one_of("network", ("matrix", "cholesky"))
        head, features = FAMILIES[self.family], self._sizes("hidden_features")
        build = Covariance(head, self.network, p, d, self._sizes("hidden_dims"), features)
        return Mean((p, *features, d)), build

    def _check_fitted(self) -> None:
        if self.family not in FAMILIES:
            raise ValueError(f"its family is {self.family!r:.80}")
        d, models = self.n_targets, self.models_
        saved.check_scaling(self.target_, "target_", d)
        if not isinstance(self.is_vector_, bool) or (self.is_vector_ and d > 1):
            raise ValueError(f"its is_vector_ is {self.is_vector_!r:.80} for {d} targets")
        if not saved.is_finite(self.shape_, (d, d)):
            raise ValueError(f"its shape_ is not a matrix ({d}, {d}) of finite numbers")
        saved.check_number(self.contrast_, "contrast_", 0, 1)
        saved.check_number(self.gain_, "gain_", np.finfo(float).tiny, 1)
        tail = ((),) * (FAMILIES[self.family].extra - 1)
        self._check_outputs("mean", _mean, models["mean"], (d,))
        networks = models["covariance"]
        self._check_outputs("covariance", _log_covariance_and_tail, networks, (d, d), *tail)

    def _targets(self, y, n: int) -> np.ndarray:
        """y of `log_density`, (n, d), checked."""
        y, d, name = np.asarray(y, np.float64), self.n_targets, type(self).__name__
        if y.shape != (n, d) and (y.shape, d) != ((n,), 1):
            raise ValueError(
                f"`{name}.log_density(X, y)` needs y of shape ({n}, {d}), a row for each of X and "
                f"a column for each target of `fit`, got shape {y.shape}."
            )
        y = checked_floats(y.reshape(n, d), f"{name}.log_density(y=...)", "(n, d)", ndim=2)
        return np.asarray(y)

    def _mean(self, X) -> np.ndarray:
        """Of the standardised targets, (n, d)."""
        return self._predict(_mean, X, "mean").mean(axis=1)

    def _factor(self, X) -> tuple[np.ndarray, ...]:
        """Of the standardised targets: upper triangular R (n, d, d), V = R'R; and the tail (n,)."""
        learnt = self._predict(_log_covariance_and_tail, X, "covariance")
        log_V, *tail = (x.mean(axis=1) for x in learnt)
        log_V = drawn_in(log_V.astype(np.float64), self.contrast_)
        values, vectors = np.linalg.eigh(log_V)  # of the log-Euclidean mean over models
        root = np.exp((values + np.log(self.gain_)) / 2)[..., None] * vectors.mT
        R: Any = np.linalg.qr(root @ self.shape_.T, mode="r")
        return R, *tail

    def _law(self, mean: np.ndarray, R: np.ndarray, *tail: np.ndarray) -> Elliptical:
        """The distribution with this mean (n, d) and the covariance R'R, if the dtype holds it."""
        check_precision(f"{type(self).__name__}.predict_distribution", self.dtype, mean, R)
        loc, factor, *rest = (jnp.asarray(array, self.dtype) for array in (mean, R, *tail))
        family: Any = FAMILIES[self.family].distribution
        return family.from_moments(loc, Gram(factor, upper=True), *rest)


def drawn_in(log_V: np.ndarray, contrast: float) -> np.ndarray:
    """log V, moved towards log(I / d), that of the covariance of all rows."""
    d = log_V.shape[-1]
    centre = -np.log(d) * np.eye(d)
    return centre + contrast * (log_V - centre)


def _mean(model, x):
    return model(x)


def _log_covariance_and_tail(model, x):
    p = model(x)
    return p.covariance.logm(), *p.tail


def _squared_error(model, key, t, x, z):
    return jnp.sum((model(x) - z) ** 2)


def _minus_log_density(model, key, t, x, e):
    return -model(x).log_prob(e)
