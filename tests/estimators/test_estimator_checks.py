"""scikit-learn's own checks of estimators. Most fit networks, and are slow; a selection is fast."""

import numpy as np
import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator
from sklearn.utils.validation import check_X_y, column_or_1d

from mmlp.estimators import MatrixVAE, MultivariateRegressor, SPDRegressor


class OnNumbers(SPDRegressor):
    """`SPDRegressor` for checks that pass numbers as targets: y becomes the matrix [[exp(y)]]."""

    def fit(self, X, y, sample_weight=None):  # as `SPDRegressor`, but for the targets
        rules = {
            "y_numeric": True,
            "multi_output": True,
            "ensure_all_finite": "allow-nan",
        }
        check_X_y(X, y, **rules, estimator=self)
        y = column_or_1d(y, warn=True)
        return super().fit(
            X, np.exp(np.asarray(y, float))[:, None, None], sample_weight
        )

    def predict(self, X):
        return np.log(super().predict(X)[:, 0, 0])

    def score(self, X, y, sample_weight=None):
        return super(SPDRegressor, self).score(X, y, sample_weight)


WEIGHTS = "a batch of weighted rows is not a batch of repeated rows: equivalence holds on average only"
MATRICES = "targets are matrices (n, d, d), the check passes numbers"
PASS_NUMBERS = (
    "check_all_zero_sample_weights_error",
    "check_dict_unchanged",
    "check_dont_overwrite_parameters",
    "check_dtype_object",
    "check_estimators_dtypes",
    "check_estimators_fit_returns_self",
    "check_estimators_nan_inf",
    "check_estimators_overwrite_params",
    "check_estimators_pickle",
    "check_f_contiguous_array_estimator",
    "check_fit2d_1feature",
    "check_fit2d_predict1d",
    "check_fit_check_is_fitted",
    "check_fit_idempotent",
    "check_fit_score_takes_y",
    "check_methods_sample_order_invariance",
    "check_methods_subset_invariance",
    "check_n_features_in",
    "check_n_features_in_after_fitting",
    "check_pipeline_consistency",
    "check_positive_only_tag_during_fit",
    "check_readonly_memmap_input",
    "check_regressor_data_not_an_array",
    "check_regressors_int",
    "check_regressors_no_decision_function",
    "check_regressors_train",
    "check_sample_weight_equivalence_on_dense_data",
    "check_sample_weights_list",
    "check_sample_weights_not_an_array",
    "check_sample_weights_not_overwritten",
    "check_sample_weights_pandas_series",
    "check_sample_weights_shape",
    "check_supervised_y_2d",
)
FEW = {"hidden_dims": (), "n_models": 2, "max_epochs": 100, "random_state": 0}
ESTIMATORS = {
    MultivariateRegressor(**FEW, hidden_features=()): {
        "check_sample_weight_equivalence_on_dense_data": WEIGHTS
    },
    MatrixVAE(1, hidden_dims=(), max_epochs=5, n_samples=5, random_state=0): {
        "check_sample_weight_equivalence_on_dense_data": WEIGHTS
    },
    SPDRegressor(**FEW): dict.fromkeys(PASS_NUMBERS, MATRICES),
    OnNumbers(**FEW | {"hidden_dims": (8,), "max_epochs": 200}): {
        "check_sample_weight_equivalence_on_dense_data": WEIGHTS
    },
}
FAST = {  # these fit nothing
    "check_estimator_cloneable",
    "check_estimator_repr",
    "check_estimator_tags_renamed",
    "check_estimators_unfitted",
    "check_fit1d",
    "check_fit2d_1sample",
    "check_get_params_invariance",
    "check_mixin_order",
    "check_no_attributes_set_in_init",
    "check_parameters_default_constructible",
    "check_requires_y_none",
    "check_set_params",
    "check_valid_tag_types",
}


def cases():
    for estimator, expected in ESTIMATORS.items():
        for instance, check in estimator_checks_generator(estimator):
            name = check.func.__name__
            marks = [] if name in FAST else [pytest.mark.slow]
            if name in expected:
                marks.append(pytest.mark.xfail(reason=expected[name], strict=True))
            yield pytest.param(
                instance, check, marks=marks, id=f"{type(estimator).__name__}-{name}"
            )


@pytest.mark.filterwarnings("default")  # some checks warn by design
@pytest.mark.parametrize(("estimator", "check"), list(cases()))
def test_scikit_learns_checks_pass(estimator, check):
    check(estimator)
