"""`MultivariateRegressor`: a mean and a covariance for each sample, that hold on unseen rows.

Trained together by likelihood, a mean and a covariance spoil each other: rows that are hard to fit
are declared noisy, and covariances shrink onto residuals of rows that the mean has seen. So, with
cross-fitting (Chernozhukov et al., 2018), networks learn the mean by squared error, each without
its own fold of the rows (`estimators/mean.py`), then the covariance on residuals of held rows,
which also correct it (`estimators/corrections.py`).

The power exponential is the default because tails vary from table to table: one gross error among
a few hundred rows costs a Gaussian more than all that can be learnt about the others.
"""

import dataclasses
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from sklearn.base import MultiOutputMixin, RegressorMixin

from mmlp import metrics
from mmlp.distributions import Elliptical
from mmlp.estimators import model_files
from mmlp.estimators.background_compilation import ahead
from mmlp.estimators.base import NetworkEstimator, guarded
from mmlp.estimators.chunks import by_pieces, predictions
from mmlp.estimators.covariance import FAMILIES, Form, form_for, minus_log_density
from mmlp.estimators.cross_fitting import fit_folds, folds
from mmlp.estimators.full_covariance import Full
from mmlp.estimators.inputs import read_training_table
from mmlp.estimators.low_rank_covariance import Thinned, fitted_rank
from mmlp.estimators.marginals import Marginals
from mmlp.estimators.mean import (
    STEPS,
    call,
    check_share,
    fit_mean,
    predicted_mean,
    stages,
)
from mmlp.estimators.outliers import Columns, names_of
from mmlp.estimators.predictive_distribution import law, log_densities
from mmlp.estimators.starts import (
    check_networks,
    rows_of_validation,
    scaled,
    select_targets,
)
from mmlp.estimators.target_columns import (
    TargetColumns,
    check_constants,
    check_names,
    check_order,
    checked_targets,
    column_labels,
    frame_columns,
    numeric_targets,
)
from mmlp.metrics.scores import checked_weight, weighted_mean

FORMS = {"full": Full(), "low_rank": Thinned()}


@dataclasses.dataclass(eq=False, repr=False, kw_only=True)
class MultivariateRegressor(
    Marginals, MultiOutputMixin, RegressorMixin, NetworkEstimator
):
    """x -> a distribution with mean mu(x) and a whole covariance V(x).

    `family` is "power_exponential" (default), "gaussian" or "student_t". The first has lighter or
    heavier tails than a Gaussian, the last has heavy ones, with df > 2.5 degrees of freedom for
    each row.

    Shapes: X (n, p), y (n,) or (n, d). `hidden_dims` are the widths of the matrices of the joint
    MLP for the shape of the covariance, `hidden_features` those of its vectors, and of the MLPs for
    the mean and for the scales; with `network="cholesky"`, the baseline, one MLP of those widths
    makes the whole covariance. 2 `n_models` networks for the mean and `n_models` for the covariance
    are averaged, covariances by their logarithms (arithmetic means cover too much); each stops when
    its own fold of the rows has not improved for `patience` epochs (`None`: never; no epoch counts
    for more than 20,000 rows). `max_epochs`, `batch_size` and `learning_rate` go by the number of
    rows if they are None: 500, 64 and 0.02 up to 600. An epoch takes 131,072 rows at most, in turn.

    With `warm_start` another `fit` goes on from the networks that were fitted, in the same units of
    X and y; `n_iter_` are its epochs.

    Up to 1000 rows Gaussian processes have a part in the mean, `share_` (d,), by held rows. With
    more rows, the mean leaves out inputs without which held rows are predicted as well.

    `covariance="full"` is for few targets. "low_rank" is V = diag(s^2) + U'U with `rank` loadings,
    by default as many as residuals have correlations beyond chance, up to 64: nothing then has d^2
    numbers, `predict_distribution(X).covariance` is a `LowRankGram`, and thousands of targets are
    fine. "auto" is low rank with a `rank`, and else full up to 30 targets, where a step of full
    ones takes 4 times as long (`benchmarks/many_targets.py`). `rank_` is None for full ones.

    A target that is constant, up to rounding, is kept out of what is learnt, with a warning:
    `predict` returns the constant, and its rows and columns of `predict_covariance` are zero. The
    distribution, densities and scores are those of the other targets, `varying_targets_`;
    `constant_targets_` are the columns of the constant ones, and `constant_values_` their values.
    If every target is constant, `fit` raises a ValueError. Where y is a data frame, its names,
    `target_names_`, are checked wherever y is passed again.

    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((60, 3))
    >>> y = X[:, :2] + rng.standard_normal((60, 2))
    >>> sizes = {"hidden_dims": (4,), "hidden_features": (8,), "n_models": 2}
    >>> model = MultivariateRegressor(**sizes, max_epochs=30, random_state=0).fit(X, y)
    >>> model.predict(X).shape, model.predict_covariance(X).shape, model.predict_interval(X).shape
    ((60, 2), (60, 2, 2), (60, 2, 2))
    """

    kind = "regression"
    targets = "columns"
    any_columns = True
    _numbers = (
        "columns_",
        "input_",
        "target_",
        "share_",
        "shape_",
        "contrast_",
        "gain_",
    )
    _numbers += ("is_vector_", "epochs_", "history_", "covariance_history_")
    _numbers += ("constant_targets_", "constant_values_")
    _absent_in_old_files: ClassVar = {
        "constant_targets_": np.zeros(0, int),
        "constant_values_": np.zeros(0),
    }
    # Those of a data frame, of any type; a file does not keep them.
    _target_labels = None
    _may_be_none = ("max_epochs", "batch_size", "learning_rate", "patience")

    # What becomes of columns that are not plain numbers: see `TableEncoder`.
    missing: str = "impute"
    categories: Any = "auto"
    dates: str = "auto"
    family: str = "power_exponential"
    network: str = "joint"
    covariance: str = "auto"
    rank: int | None = None
    hidden_dims: tuple[int, ...] = (10, 10)
    hidden_features: tuple[int, ...] = (64, 64)
    n_models: int = 5
    max_epochs: int | None = None  # pyright: ignore[reportIncompatibleVariableOverride]
    batch_size: int | None = None  # pyright: ignore[reportIncompatibleVariableOverride]
    learning_rate: float | None = None  # pyright: ignore[reportIncompatibleVariableOverride]

    @guarded
    def fit(
        self, X, y, sample_weight=None, *, X_val=None, y_val=None, checkpoint=None
    ) -> "MultivariateRegressor":
        """Learn from X (n, p) and y (n,) or (n, d); `checkpoint`: a folder, to go on from.

        With rows `X_val`, `y_val` networks stop by these, not by their own folds.
        """
        seed = self._checked_seed(checkpoint)
        names = names_of(y)
        self._take_names(y)
        y = numeric_targets(f"{type(self).__name__}.fit", y)
        table = read_training_table(self, X, y, sample_weight)
        self.is_vector_ = table.is_vector
        rows = table.row_indices
        weight = table.weights
        X = table.inputs
        y = table.targets
        self._check_cells(rows, X, Columns("y", y, names))
        y = select_targets(self, y, names, stacklevel=3)
        self._warn_of_few_rows(len(X))
        self._one_of("family", FAMILIES)
        self._one_of("network", ("joint", "cholesky"))
        _, sizes = self._paths(self.network, self.hidden_features)
        form = FORMS[form_for(self, y.shape[1])]
        rng, count = np.random.default_rng(seed), self._folds(len(X))
        parts, others = folds(len(X), count, rng), folds(len(X), count, rng)
        runs = [
            checkpoint and Path(checkpoint, name) for name in ("mean", "covariance")
        ]

        x, z, before = scaled(self, X, y, weight)
        check_networks(self, before, form, sizes, count, x, z, weight)
        judges = rows_of_validation(self, X_val, y_val)
        how: Any = {
            "training": self.planned(len(X)),
            "seed": seed,
            "checkpoint": runs[0],
        }
        how["judges"] = judges
        with ahead(lambda: form.compile(self, x, z, weight, parts, **how), len(x)):
            given: Any = {"steps": STEPS if self.learning_rate is None else STEPS[:1]}
            given["models"] = before.get("mean")
            means = fit_mean(sizes, x, z, weight, [parts, others], **given, **how)

        self.shape_ = self.shape_ if before else form.shape(means.residuals, weight)
        e, apart = (
            form.standard(self.shape_, r) for r in (means.residuals, means.apart)
        )
        build, start = form.builder(self, X.shape[1], e, weight)
        how |= {"seed": seed + 1, "checkpoint": runs[1], "start": start}
        if judges:
            how["judges"] = (judges[0], form.standard(self.shape_, means.judged))
        how |= {"models": before.get("covariance"), "stage": stages(len(X))[-1]}
        how["rates"] = means.step
        heads = fit_folds(build, minus_log_density, (x, e), weight, parts, **how)
        rest = (x.astype(self.dtype), e, apart, weight, parts)
        self.contrast_, self.gain_ = form.corrections(self._family, heads.model, *rest)
        self.models_, self.share_ = (
            means.models | {"covariance": heads.model},
            means.share,
        )
        self.history_, self.covariance_history_ = means.history, heads.history
        self.epochs_ = how["training"].max_epochs
        return self

    def _take_names(self, y) -> None:
        """Keep the names of targets, of a data frame; with `warm_start` they must be the same."""
        call = f"{type(self).__name__}.fit"
        labels = column_labels(call, y)
        if self._warm:
            check_names(call, y, getattr(self, "target_names_", None))
            check_order(call, y, self._target_labels)
            return
        vars(self).pop("target_names_", None)
        self._target_labels = labels
        names = frame_columns(y)
        if names is not None:
            self.target_names_ = np.array(names, object)

    def predict_distribution(self, X) -> Elliptical:
        """The distribution of each row, with batch shape (n,): it has `log_prob`, `sample`, ...

        It is that of the targets that vary, y[:, model.varying_targets_]: constant ones have no
        density.
        """
        x = self._standard(X)
        (V, *tail), mean = by_pieces(self._spread, x), by_pieces(self._mean, x)
        return self._law(self.target_.back(mean), V.in_units(self.target_.scale), *tail)

    def _error_distribution(self, X) -> Elliptical:
        """That of the errors y - predict(X): about zero, where no digits are lost."""
        V, *tail = by_pieces(self._spread, self._standard(X))
        zero = np.zeros((len(X), len(self.target_.scale)))
        return self._law(zero, V.in_units(self.target_.scale), *tail)

    def log_density(self, X, y) -> np.ndarray:
        """log p(y | x) of each row, (n,).

        y has all targets of `fit`. The density is that of those which vary; where a constant one
        has another value than in `fit`, there is a warning. The names of a data frame must be those
        of `fit`, in the same order; an array or a series is taken as it is.
        """
        x = self._standard(X)
        return self._log_densities(x, checked_targets(self, y, len(x)))

    def _log_densities(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return log p(y | x) (n,) of standardised rows x and checked targets y (n, d)."""
        z = self.target_.forward(self._varying(y))
        self._cast(z, "y", self.varying_targets_)
        name = f"{type(self).__name__}.log_density"

        def standard(
            x, z
        ):  # of errors about zero, in standard units: no digits are lost
            (V, *tail), errors = self._spread(x), z - self._mean(x)
            return log_densities(
                self._family, name, errors.astype(self.dtype), V, *tail
            )

        return by_pieces(standard, x, z).astype(float) - np.sum(
            np.log(self.target_.scale)
        )

    def scored_targets(self, X, y) -> np.ndarray:
        """Return the targets that `predict_distribution` is of: y[:, varying_targets_], checked.

        y has all targets of `fit`, as in `log_density`.
        """
        return self._varying(checked_targets(self, y, len(X), "scored_targets"))

    def log_score(self, X, y, sample_weight=None) -> float:
        """The mean of log p(y | x): larger is better. (`score` is R squared of the mean.)"""
        return weighted_mean(self.log_density(X, y), sample_weight, "log_score")

    def score(self, X, y, sample_weight=None) -> float:
        """R squared of the mean, averaged over the targets that vary; see `log_density` for y."""
        x = self._standard(X)
        y = checked_targets(self, y, len(x), "score")
        weight = None
        if sample_weight is not None:
            weight = checked_weight(sample_weight, len(x), "score")
        return self._r_squared(y, by_pieces(self._means, x), weight)

    def scores(self, X, y: Any = None) -> dict[str, float]:
        """Those of the distribution (smaller is better), coverage (0.9 is best) and R squared.

        All are those of the targets that vary.
        """
        x = self._standard(X)
        y = checked_targets(self, y, len(x), "scores")
        mean = by_pieces(self._means, x)
        errors = self._varying(y - mean)
        p = self._error_distribution(X)
        scores = {
            "negative_log_likelihood": -float(np.mean(self._log_densities(x, y))),
            "energy_score": metrics.energy_score(p, errors),
            "coverage_90": metrics.ellipsoid_coverage(p, errors, 0.9),
        }
        if len(x) > 1:  # of one row it is not defined
            scores["r2"] = self._r_squared(y, mean, None)
        return scores

    def _r_squared(
        self, y: np.ndarray, mean: np.ndarray, weight: np.ndarray | None
    ) -> float:
        """Return that of the mean (n, d) of y (n, d), averaged over the targets that vary."""
        from sklearn.metrics import r2_score  # here: predictions start without it

        # R squared is the same about any origin. About a row of y, rows that are all equal are
        # zero, and have no variance from the rounding of their mean.
        origin = y[:1]
        scored = self._varying(y - origin)
        return float(
            r2_score(scored, self._varying(mean - origin), sample_weight=weight)
        )

    results: ClassVar = {
        "mean": Marginals.predict
    }  # and what the form of the covariance tells

    def result_names(self, *, text: bool = False) -> tuple[str, ...]:
        return (*self.results, *self._form.results(text=text))

    def predicted(self, X, *, text: bool = False) -> dict[str, np.ndarray]:
        """The mean (n, d) and, in the form that was fitted, the covariance."""

        def arrays(x):
            V, results = self._covariance(x), self._form.results(text=text)
            return self._means(x), *(result(V) for result in results.values())

        found = by_pieces(arrays, self._standard(X))
        return dict(zip(self.result_names(text=text), found, strict=True))

    @property
    def rank_(self) -> int | None:
        """Loadings of the fitted covariances; None if these are full."""
        row, models = np.zeros((1, self._width), self.dtype), self.models_["covariance"]
        return fitted_rank(lambda model, x: model(x).covariance, models, row)

    @property
    def n_targets(self) -> int:
        return np.size(self.target_.scale) + np.size(self.constant_targets_)

    @property
    def varying_targets_(self) -> np.ndarray:
        """The columns of y that vary: all but `constant_targets_`."""
        return self._target_columns.varying

    @property
    def _target_columns(self) -> TargetColumns:
        constant = self.constant_targets_
        count = len(self.target_.scale) + len(constant)
        return TargetColumns(
            np.setdiff1d(np.arange(count), constant), constant, self.constant_values_
        )

    @property
    def _family(self) -> Any:
        return FAMILIES[self.family].distribution

    @property
    def _form(self) -> Form:
        """That of the fitted covariances."""
        return FORMS["full" if np.ndim(self.shape_) == 2 else "low_rank"]

    def _check_fitted(self) -> None:
        if self.family not in FAMILIES:
            raise ValueError(f"its family is {self.family!r:.80}")
        d, models = np.size(self.target_.scale), self.models_
        model_files.check_scaling(self.target_, "target_", d)
        check_constants(self)
        if not isinstance(self.is_vector_, bool) or (
            self.is_vector_ and self.n_targets > 1
        ):
            raise ValueError(
                f"its is_vector_ is {self.is_vector_!r:.80} for {self.n_targets} targets"
            )
        shapes = self._form.check(self.shape_, self.contrast_, d)
        model_files.check_number(self.gain_, "gain_", np.finfo(float).tiny, 1)
        shapes += ((),) * (FAMILIES[self.family].extra - 1)
        model_files.check_number(self.epochs_, "epochs_", 1, float("inf"))
        check_share(self.share_, models, d)
        for name in models.keys() - {"covariance"}:
            self._check_outputs(name, call, models[name], (d,))
        networks = self._form.stack(models["covariance"])
        self._check_outputs("covariance", self._form.learnt, networks, *shapes)

    def _mean(self, x: np.ndarray) -> np.ndarray:
        """Of the standardised targets that vary, (n, k), given standardised rows."""
        return predicted_mean(self.models_, self.share_, x)

    def _means(self, x: np.ndarray) -> np.ndarray:
        """Return the means (n, d) of all targets, given standardised rows."""
        return self._target_columns.with_constants(self.target_.back(self._mean(x)))

    def _varying(self, y: np.ndarray) -> np.ndarray:
        """Return the columns of y (n, d) that vary, (n, k)."""
        return y[:, self.varying_targets_]

    def _standard_targets(self, y: np.ndarray, argument: str) -> np.ndarray:
        """Return the targets that vary, of y (n, d), in standard units and the networks' dtype."""
        z = self.target_.forward(self._varying(y))
        return self._cast(z, argument, self.varying_targets_)

    def _covariance(self, x: np.ndarray):
        """V of all targets, in the form that was fitted, given standardised rows."""
        V = self._spread(x)[0].in_units(self.target_.scale)
        return V.among(self._target_columns)

    def _spread(self, x: np.ndarray) -> tuple:
        """Of the standardised targets that vary: V, in the fitted form, and the tail (n,)."""
        form = self._form
        learnt = predictions(form.learnt, form.stack(self.models_["covariance"]), x)
        corrections = (self.shape_, self.contrast_, self.gain_)
        V, tail = form.assembled(learnt, *corrections, self._family)
        return V, *tail

    def _law(self, mean: np.ndarray, V, *tail: np.ndarray) -> Elliptical:
        """The distribution with this mean (n, d) and covariance V, if the dtype holds it."""
        name = f"{type(self).__name__}.predict_distribution"
        return law(self._family, name, mean, V, *tail, dtype=self.dtype)
