"""The estimators keep scikit-learn's conventions, and what they learn comes back from files and pickles bit for bit."""

import copy
import io
import json
import pickle
import warnings

import jax
import joblib
import numpy as np
import pandas
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import mmlp
from mmlp import estimators, metrics
from mmlp.checkpoint import files
from mmlp.estimators import MatrixVAE, MultivariateRegressor, SPDRegressor, regression
from mmlp.estimators import training as _training
from mmlp.training.core import FitResult

# one set of sizes for almost all tests: each new one is compiled anew
SMALL = {"hidden_dims": (4,), "max_epochs": 30, "random_state": 0}
REGRESSION = {
    **SMALL,
    "family": "gaussian",
    "hidden_features": (8,),
    "n_models": 2,
}  # compiles faster
SPD = {**SMALL, "n_models": 2}
DENSITY = {**SMALL, "n_components": 1, "n_samples": 10, "max_epochs": 5}


def rows(n=60, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    T = np.array([[1.0, 0.5], [0.0, 0.3]]) * np.exp(X[:, 1] / 2)[:, None, None]
    y = X[:, :2] * 3 + 5 + np.einsum("nij,ni->nj", T, rng.standard_normal((n, 2)))
    return X, y, 20 * T.mT @ T


X, Y, MATRICES = rows()


@pytest.fixture(scope="module")
def regressor():
    return MultivariateRegressor(**REGRESSION).fit(X, Y)


@pytest.fixture(scope="module")
def spd():
    return SPDRegressor(**SPD).fit(X, MATRICES)


@pytest.fixture(scope="module")
def density():
    """As it begins: its training takes long to compile, and few tests need it."""

    def no_training(models, *_, **__):
        return FitResult(models, {"loss": np.zeros(1), "validation": np.zeros(1)})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_training, "fit_many", no_training)
        return MatrixVAE(**DENSITY).fit(X)


def outputs(estimator, X=X):
    names = ("predict", "predict_covariance", "transform", "score_samples")
    return {name: getattr(estimator, name)(X) for name in names if hasattr(estimator, name)}


@pytest.mark.parametrize(
    "name", ["regressor", "spd", pytest.param("density", marks=pytest.mark.slow)]
)
def test_files_and_pickles_give_back_the_estimator_bit_for_bit(name, request, tmp_path):
    estimator = request.getfixturevalue(name)
    estimator.save(tmp_path / "model")
    buffer = io.BytesIO()
    joblib.dump(estimator, buffer)
    buffer.seek(0)
    expected = outputs(estimator)
    assert expected
    for again in (estimators.load(tmp_path / "model"), joblib.load(buffer)):
        assert type(again) is type(estimator)
        assert again.get_params() == estimator.get_params()
        for key, value in outputs(again).items():
            np.testing.assert_array_equal(value, expected[key])
        np.testing.assert_array_equal(
            again.history_["validation"], estimator.history_["validation"]
        )


def test_a_file_of_another_kind_is_refused_with_the_remedy(regressor, tmp_path):
    regressor.save(tmp_path / "estimator")
    mmlp.save(mmlp.MatrixMLP(3, 2, (4,), key=jax.random.key(0)), tmp_path / "model")
    with pytest.raises(ValueError, match=r"mmlp\.estimators\.load"):
        mmlp.load(tmp_path / "estimator")
    with pytest.raises(ValueError, match=r"holds a network.*mmlp\.load"):
        estimators.load(tmp_path / "model")
    with pytest.raises(NotFittedError):
        MultivariateRegressor().save(tmp_path / "nothing")
    assert not (tmp_path / "nothing").exists()


def entries(node, path=()):
    """All places in a tree of dictionaries and lists."""
    yield path
    for key in (
        node if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ()
    ):
        yield from entries(node[key], (*path, key))


def replaced(node, path, value):
    """A copy of the tree with another value in one place."""
    if not path:
        return value
    copied = copy.copy(node)
    copied[path[0]] = replaced(node[path[0]], path[1:], value)
    return copied


OTHERS = [
    None,
    True,
    -1,
    3,
    0.5,
    10**400,
    float("nan"),
    "text",
    [],
    [1.0],
    {},
    {"a": {}},
    {"array": [1]},
]
OTHERS += [{"scaling": {}}, {"scaling": [[1.0], [1.0]]}, {"history": {}}, {"value": "text"}]


@pytest.mark.parametrize(
    "name", ["regressor", "spd", pytest.param("density", marks=pytest.mark.slow)]
)
def test_whatever_a_header_holds_it_is_refused_or_the_estimator_predicts(name, request, tmp_path):
    """60 headers, seed 0, each with a right checksum and another value in one place."""
    estimator, path = request.getfixturevalue(name), tmp_path / "model"
    estimator.save(path)
    arrays, whole = files.read(path)
    rng, accepted, expected = np.random.default_rng(0), [], outputs(estimator)
    beside = list(entries({key: whole[key] for key in whole if key != "architecture"}))[1:]
    inside = [("architecture", *place) for place in entries(whole["architecture"])]
    for i in range(60):
        places = beside if i % 3 else inside
        header = replaced(
            whole, places[rng.integers(len(places))], OTHERS[rng.integers(len(OTHERS))]
        )
        files.write(path, arrays, header)
        try:
            again = estimators.load(path)
        except ValueError:
            continue
        accepted.append(again)
        json.dumps(again.get_params())
        for key, value in outputs(again.set_params(**estimator.get_params())).items():
            assert value.shape == expected[key].shape
    assert 2 < len(accepted) < 45


@pytest.mark.parametrize(
    ("place", "value", "match"),
    [
        (("estimator",), {"a": 1}, "holds a {'a': 1}, which is unknown"),
        (
            ("fitted", "input_", "scaling"),
            {"a": 1},
            "input_ is not a mean and a positive scale for each of 3",
        ),
        (("fitted", "input_", "scaling", 1), [1.0, 0.0, 1.0], "input_ is not"),
        (("fitted", "n_features_in_"), 4, "input_ is not .* each of 4 columns"),
        (("fitted", "target_", "scaling"), [[0.0], [1.0]], "shape_ is not a matrix"),
        (("fitted", "shape_"), [[1.0, 0.0], [0.0, 1.0]], "shape_ is not a matrix"),
        (("fitted", "contrast_"), 2.0, "contrast_ is 2.0, not a number from 0 to 1"),
        (("fitted", "is_vector_"), True, "is_vector_ is True for 2 targets"),
        (("fitted", "history_", "history"), {}, "history_ does not hold the losses"),
        (("fitted",), {}, "makes no sense, KeyError"),
        (("params", "dict", "dtype"), {"value": "float16"}, "dtype is 'float16'"),
        (("params", "dict", "family"), {"value": "cauchy"}, "family is 'cauchy'"),
        (("params", "dict", "patience"), {"dict": {}}, "arguments {'patience': {}}"),
    ],
)
def test_a_damaged_header_is_refused_for_what_is_wrong_in_it(
    place, value, match, regressor, tmp_path
):
    regressor.save(tmp_path / "model")
    arrays, header = files.read(tmp_path / "model")
    files.write(tmp_path / "model", arrays, replaced(header, place, value))
    with pytest.raises(ValueError, match=rf"`estimators\.load`: .*model .*{match}"):
        estimators.load(tmp_path / "model")


def test_covariances_are_positive_definite_and_agree_with_the_distribution(regressor):
    V, p = regressor.predict_covariance(X), regressor.predict_distribution(X)
    assert np.linalg.eigvalsh(V).min() > 0
    np.testing.assert_allclose(p.covariance.dense(), V, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(p.mean, regressor.predict(X), rtol=1e-5)
    assert regressor.log_score(X, Y) == pytest.approx(
        -metrics.negative_log_likelihood(p, Y), rel=1e-4
    )
    assert regressor.log_score(X, Y) == pytest.approx(regressor.log_density(X, Y).mean())


def test_predictions_follow_the_units_of_the_targets(regressor):
    other = clone(regressor).fit(X, Y * 100 - 7)
    np.testing.assert_allclose(other.predict(X), regressor.predict(X) * 100 - 7, rtol=1e-3)
    np.testing.assert_allclose(
        other.predict_covariance(X), regressor.predict_covariance(X) * 1e4, rtol=1e-2
    )
    difference = other.log_density(X, Y * 100 - 7) - regressor.log_density(X, Y)
    np.testing.assert_allclose(difference, -2 * np.log(100), atol=1e-2)


def test_targets_far_from_zero_lose_nothing_or_are_refused(regressor):
    """As many targets as seen by float32 would lie on a few points 64 apart."""
    shifted = Y + 1e9
    other = clone(regressor).fit(X, shifted)
    np.testing.assert_allclose(other.predict(X) - 1e9, regressor.predict(X), atol=0.01)
    np.testing.assert_allclose(
        other.predict_covariance(X), regressor.predict_covariance(X), rtol=0.01, atol=1e-3
    )
    np.testing.assert_allclose(
        other.log_density(X, shifted), regressor.log_density(X, Y), atol=0.02
    )
    text = r"predict_distribution.*rounds the mean of target \d in row \d+ .*, 1e\+09, by up to .* offset .*float64.*log_d"
    with pytest.raises(ValueError, match=text):
        other.predict_distribution(X)
    covered = metrics.ellipsoid_coverage(
        other._error_distribution(X), shifted - other.predict(X), 0.9
    )
    p = regressor.predict_distribution(X)
    assert covered == pytest.approx(metrics.ellipsoid_coverage(p, Y, 0.9), abs=1.5 / len(X))


@pytest.mark.parametrize("offset", [1e3, 1e5, 2e6])
def test_rounding_that_is_allowed_costs_less_than_a_hundredth(offset):
    """Standard deviations of 1, of 0.1 given the other target; the worst of 100 rows, seed 0."""
    model, rng = MultivariateRegressor(family="gaussian"), np.random.default_rng(0)
    R = np.broadcast_to(np.linalg.cholesky([[1.0, 0.995], [0.995, 1.0]]).T, (100, 2, 2))
    mean = offset + rng.standard_normal((100, 2))
    y, ones = mean + np.einsum("nij,ni->nj", R, rng.standard_normal((100, 2))), np.ones(100)
    try:
        p = model._distribution(mean, R, ones, ones)
    except ValueError:
        assert offset == 2e6
    else:
        exact = model._distribution(0 * mean, R, ones, ones).log_prob((y - mean).astype("float32"))
        assert abs(np.mean(p.log_prob(y.astype("float32")) - exact)) < 0.01


@pytest.mark.parametrize("unit", [1e-21, 1e20])
def test_units_whose_squares_float32_cannot_hold(unit, regressor):
    other = clone(regressor).fit(X, Y * unit)
    np.testing.assert_allclose(other.predict(X), regressor.predict(X) * unit, rtol=1e-3)
    np.testing.assert_allclose(
        other.predict_covariance(X), regressor.predict_covariance(X) * unit**2, rtol=1e-2
    )
    np.testing.assert_allclose(
        other.log_density(X, Y * unit), regressor.log_density(X, Y) - 2 * np.log(unit), atol=1e-2
    )
    with pytest.raises(
        ValueError, match=r'predict_distribution.* float32 cannot hold; .* dtype="float64"'
    ):
        other.predict_distribution(X)


@pytest.mark.parametrize("name", ["regressor", "spd", "density"])
def test_inputs_too_large_for_float32_are_named(name, request):
    far = X.copy()
    far[3, 1] = 1e39
    with pytest.raises(
        ValueError, match=r"X in row 3, column 1 .*e\+39 in standard units, too large for float32"
    ):
        outputs(request.getfixturevalue(name), far)


@pytest.mark.parametrize(
    ("y", "match"),
    [
        (Y[:, 0], r"needs y of shape \(60, 2\).*got shape \(60,\)"),
        (Y[:30], r"got shape \(30, 2\)"),
        (Y.reshape(30, 4), r"got shape \(30, 4\)"),
        (
            np.where(np.arange(120).reshape(60, 2) == 7, np.nan, Y),
            r"y=.*must be finite, got nan at index \(3, 1\)",
        ),
        (np.where(np.arange(120).reshape(60, 2) == 7, 1e39, Y), "y in row 3, column 1"),
    ],
)
def test_targets_of_a_score_are_checked(y, match, regressor):
    for score in (regressor.log_density, regressor.log_score):
        with pytest.raises(ValueError, match=match):
            score(X, y)


@pytest.mark.parametrize("name", ["regressor", "spd", "density"])
def test_a_fit_that_is_interrupted_leaves_what_was_learnt_before(name, request, monkeypatch):
    estimator = copy.copy(request.getfixturevalue(name))
    expected, held = outputs(estimator), set(vars(estimator))

    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(f"{type(estimator).__module__}.train", stop)
    with pytest.raises(KeyboardInterrupt):
        estimator.fit(X[:, :2] * 9, MATRICES if name == "spd" else Y * 9)
    assert set(vars(estimator)) == held
    for key, value in outputs(estimator).items():
        np.testing.assert_array_equal(value, expected[key])


@pytest.mark.parametrize("widths", [(np.int64(4),), [4], [np.int32(4)]])
def test_parameters_of_numpy_types_are_saved(widths, regressor, tmp_path):
    other = (
        clone(regressor)
        .set_params(hidden_dims=widths, dtype=np.float32, patience=np.int64(50))
        .fit(X, Y)
    )
    other.save(tmp_path / "model")
    again = estimators.load(tmp_path / "model")
    assert again.get_params() == {**regressor.get_params(), "hidden_dims": type(widths)([4])}
    np.testing.assert_array_equal(again.predict(X), regressor.predict(X))


def test_a_pickle_in_float64_is_refused_where_jax_would_cut_it(regressor):
    double = copy.copy(regressor).set_params(dtype="float64")
    double.models_ = jax.tree.map(lambda x: x.astype("float64"), double.models_)
    content = pickle.dumps(double)
    assert pickle.loads(content).predict(X).dtype == np.float64
    with (
        jax.enable_x64(False),
        pytest.raises(
            ValueError, match=r"pickle of MultivariateRegressor.*float64.*jax_enable_x64"
        ),
    ):
        pickle.loads(content)


def test_a_row_does_not_depend_on_its_neighbours(regressor, spd, density):
    for estimator in (regressor, spd, density):
        for name, value in outputs(estimator).items():
            np.testing.assert_array_equal(getattr(estimator, name)(X[7:9]), value[7:9])


def test_rows_of_weight_zero_are_as_if_absent(regressor):
    more = np.concatenate([X, X[:9] + 1]), np.concatenate([Y, Y[:9] - 9])
    again = clone(regressor).fit(*more, sample_weight=[1.0] * 60 + [0.0] * 9)
    np.testing.assert_array_equal(again.predict_covariance(X), regressor.predict_covariance(X))
    with pytest.raises(ValueError, match="at least two rows of positive weight"):
        clone(regressor).fit(X, Y, sample_weight=[1.0] + [0.0] * 59)


def test_data_frames_give_names_that_are_checked(regressor):
    frame = pandas.DataFrame(X, columns=["a", "b", "c"])
    again = clone(regressor).fit(frame, pandas.DataFrame(Y, columns=["u", "v"]))
    np.testing.assert_array_equal(again.predict(frame), regressor.predict(X))
    assert list(again.feature_names_in_) == ["a", "b", "c"]
    with pytest.raises(ValueError, match="feature names"):
        again.predict(frame.rename(columns={"a": "z"}))


def test_a_fit_that_ends_at_its_limit_says_so(regressor, spd):
    for estimator, y, networks in ((regressor, Y, 6), (spd, MATRICES, 2)):
        text = rf"{type(estimator).__name__}\.fit`: \d of {networks} networks reached max_epochs=30 .* raise `max_epochs`"
        with pytest.warns(ConvergenceWarning, match=text) as caught:
            clone(estimator).fit(X, y)
        assert caught[0].filename == __file__, "at the call of `fit`"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clone(regressor).set_params(patience=None).fit(X, Y)
        clone(regressor).set_params(patience=1).fit(X, Y)


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ([[5.0, 4.0, 3.0, 2.0, 1.0]], True),
        ([[5.0, 2.0, 1.0, 1.0, 2.0]], False),  # ended by patience in the last epoch
        ([[5.0, 2.0, 2.0, 1.0, 2.0]], True),
        ([[5.0, 1.0, 1.0, 1.0, 1.0]], False),  # flat since long
        ([[5.0, 1.0, 1.0, 1.0, 0.99]], False),  # by a hair
        ([[5.0, 1.0, 2.0, 2.0, np.nan]], False),  # ended before
        ([[5.0, 1.0, 2.0, 2.0]], False),
        ([[np.inf] * 5], False),
        ([[5.0, 4.0, 3.0, 2.0, 1.0], [5.0, 2.0, 1.0, 1.0, 2.0]], [True, False]),
    ],
)
def test_a_network_is_unfinished_if_its_last_epochs_brought_much(scores, expected):
    settings = _training.Settings(5, 1, 0.1, 2, np.dtype("float32"), False)
    history = {"validation": np.array(scores).T}
    np.testing.assert_array_equal(_training.unfinished(history, settings), expected)
    np.testing.assert_array_equal(
        _training.unfinished(history, settings._replace(patience=50)), expected
    )
    assert not _training.unfinished(history, settings._replace(patience=None)).any()


def test_a_pipeline_is_searched():
    search = GridSearchCV(
        make_pipeline(StandardScaler(), MultivariateRegressor(**REGRESSION)),
        {"multivariateregressor__patience": [2, None]},
        cv=2,
        scoring=lambda pipeline, X, y: pipeline[-1].log_score(pipeline[:-1].transform(X), y),
    )
    search.fit(X, Y)
    assert np.isfinite(search.best_score_)
    assert search.predict(X).shape == Y.shape


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "network"), [("power_exponential", "matrix"), ("gaussian", "cholesky")]
)
def test_other_families_and_networks(family, network, tmp_path):
    model = MultivariateRegressor(**REGRESSION | {"family": family, "network": network}).fit(X, Y)
    p = model.predict_distribution(X)
    np.testing.assert_allclose(
        p.covariance.dense(), model.predict_covariance(X), rtol=1e-4, atol=1e-6
    )
    assert model.log_score(X, Y) == pytest.approx(-metrics.negative_log_likelihood(p, Y), rel=1e-4)
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(
        estimators.load(tmp_path / "model").log_density(X, Y), model.log_density(X, Y)
    )


@pytest.mark.parametrize("excess", [1.0, 2.0])
def test_contrast_undoes_what_varies_too_much(excess):
    """4000 residuals of seed 0: the factor has a standard error of about 0.02, five of which are allowed."""
    rng, d = np.random.default_rng(0), 3
    vectors, values = (
        np.linalg.qr(rng.standard_normal((4000, d, d))).Q,
        rng.normal(0, 0.8, (4000, d)),
    )
    e = np.einsum(
        "nij,nj->ni", vectors, np.exp(values / 2) / d**0.5 * rng.standard_normal((4000, d))
    )
    log_V = (vectors * (excess * values - np.log(d))[:, None]) @ vectors.mT
    beta, ones = np.ones(4000), np.ones(4000)
    assert regression._contrast(log_V, beta, e, ones) == pytest.approx(1 / excess, abs=0.1)
    half = regression._contrast(log_V[:2000], beta[:2000], e[:2000], ones[:2000])
    assert regression._contrast(
        log_V, beta, e, np.r_[ones[:2000], 0 * ones[:2000]]
    ) == pytest.approx(half, abs=1e-4)


def test_contrast_is_judged_by_the_density_of_the_family():
    """At beta = 0.6, d = 2: the loss is -2 log p of the library's power exponential with covariance V, up to a constant."""
    rng, n = np.random.default_rng(1), 50
    log_V, e, beta = np.zeros((n, 2, 2)), rng.standard_normal((n, 2)), np.full(n, 0.6)
    log_V[:, 0, 0], log_V[:, 1, 1] = rng.normal(size=(2, n)) - np.log(2)

    def loss(contrast):
        V = np.exp(np.diagonal(regression._drawn_in(log_V, contrast), axis1=1, axis2=2))
        eta = V.sum(axis=1)
        omega = mmlp.DiagonalGram(np.sqrt(V / eta[:, None]))
        unit = mmlp.TraceOnePowerExponential(np.zeros((n, 2)), omega, np.ones(n), np.ones(n), beta)
        return -np.mean(
            mmlp.TraceOnePowerExponential(
                np.zeros((n, 2)), omega, eta / np.asarray(unit.covariance.trace()), np.ones(n), beta
            ).log_prob(e)
        )

    best = regression._contrast(log_V, beta, e, np.ones(n))
    assert 0.02 < best < 0.98
    assert loss(best) < min(loss(best - 0.02), loss(best + 0.02))


def test_a_column_without_residuals_has_a_scale():
    L = regression._shape(
        np.c_[np.zeros(20), np.random.default_rng(0).standard_normal(20)], np.ones(20)
    )
    assert (np.diag(L) > 0).all()
    assert np.isfinite(regression._shape(np.zeros((5, 2)), np.ones(5))).all()


def test_gain_is_what_more_networks_would_leave():
    """20,000 residuals of seed 0, E = V, B = 3 V: the relative standard error is below 0.01, five of which are allowed."""
    rng, d, n, count = np.random.default_rng(0), 2, 20_000, 10
    noise, one, other = (
        rng.standard_normal((3, n, d)) * np.array([1.0, 3.0, 3.0])[:, None, None] ** 0.5
    )
    log_V = np.zeros((n, d, d))
    gain = regression._gain(log_V, noise + (one + other) / 2, one - other, np.ones(n), count)
    assert gain == pytest.approx((1 + 3 / count) / (1 + 3 / 2), rel=0.05)
    assert regression._gain(log_V, 0 * noise, one - other, np.ones(n), count) == 1
    assert regression._gain(log_V, 0.01 * noise, one - other, np.ones(n), count) == pytest.approx(
        2 / count
    )


@pytest.mark.slow
def test_coverage_holds_on_rows_that_were_not_seen():
    train, test = rows(400, 1), rows(1000, 2)
    p = MultivariateRegressor(random_state=0).fit(*train[:2]).predict_distribution(test[0])
    assert 0.85 < metrics.ellipsoid_coverage(p, test[1], 0.9) < 0.95


def test_an_interrupted_fit_goes_on(tmp_path, regressor, monkeypatch):
    def stop(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr("mmlp.estimators.regression._shape", stop)
    with pytest.raises(KeyboardInterrupt):
        clone(regressor).fit(X, Y, checkpoint=tmp_path)
    monkeypatch.undo()
    again = clone(regressor).fit(X, Y, checkpoint=tmp_path)
    np.testing.assert_array_equal(again.predict_covariance(X), regressor.predict_covariance(X))
    with pytest.raises(ValueError, match="random_state"):
        clone(regressor).set_params(random_state=None).fit(X, Y, checkpoint=tmp_path)


FEW = X[:10].copy()
FEW[:, 0], FEW[5:] = 3.0, FEW[:5]


def test_ten_rows_with_constant_columns_and_duplicates_work(regressor, spd):
    targets = Y[:10].copy()
    targets[:, 1], targets[5:] = 0.1, targets[:5]
    V = clone(regressor).fit(FEW, targets).predict_covariance(FEW)
    assert np.isfinite(V).all()
    assert np.linalg.eigvalsh(V).min() > 0
    assert np.isfinite(clone(spd).fit(FEW, MATRICES[:10]).predict(FEW)).all()


@pytest.mark.slow
def test_a_density_of_ten_rows_with_constant_columns_and_duplicates_works():
    assert np.isfinite(MatrixVAE(**DENSITY).fit(FEW).score_samples(FEW)).all()


@pytest.mark.slow
@pytest.mark.parametrize(("p", "d"), [(1, 1), (1, 2), (3, 50)])
def test_one_feature_one_target_and_fifty_work(p, d):
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((40, p)), rng.standard_normal((40, d))
    V = MultivariateRegressor(**REGRESSION).fit(X, y).predict_covariance(X)
    assert V.shape == (40, d, d)
    assert np.linalg.eigvalsh(V).min() > 0
    targets = np.einsum("ni,nj->nij", y, y) + np.eye(d)
    assert np.linalg.eigvalsh(SPDRegressor(**SPD).fit(X, targets).predict(X)).min() > 0
    assert np.isfinite(MatrixVAE(**DENSITY).fit(y).score_samples(y)).all()


def test_scale_and_shape_of_matrices_are_learnt(spd):
    assert spd.score(X, MATRICES) > 0.5
    assert np.linalg.eigvalsh(spd.predict(X)).min() > 0


def test_latent_variables_and_draws(density):
    S = density.transform(X)
    assert density.inverse_transform(S).shape == X.shape
    with pytest.raises(ValueError, match="0 sample"):
        density.inverse_transform(S[:0])
    np.testing.assert_array_equal(
        density.sample(4, random_state=1), density.sample(4, random_state=1)
    )
    assert density.score(X) == pytest.approx(density.score_samples(X).mean())
    assert list(density.get_feature_names_out()) == ["matrixvae0"]


def test_what_is_not_positive_definite_is_named():
    bad = MATRICES.copy()
    bad[7] = -bad[7]
    with pytest.raises(ValueError, match=r"SPDRegressor\.fit.*element \(7,\)"):
        SPDRegressor(**SPD).fit(X, bad)
    with pytest.raises(ValueError, match=r"y of shape \(60, 2\)"):
        SPDRegressor(**SPD).fit(X, Y)


@pytest.mark.parametrize(
    ("estimator", "match"),
    [
        (MultivariateRegressor(family="cauchy"), "family"),
        (MultivariateRegressor(network="deep"), "network"),
        (MultivariateRegressor(n_models=1), "n_models"),
        (MultivariateRegressor(hidden_features=8), "hidden_features"),
        (MultivariateRegressor(learning_rate=0.0), "learning_rate"),
        (MultivariateRegressor(dtype="int32"), "dtype"),
        (MultivariateRegressor(dtype="single precision"), "dtype"),
        (MultivariateRegressor(patience=-1), "patience"),
        (MultivariateRegressor(batch_size=0), "batch_size"),
        (SPDRegressor(loss="l2"), "loss"),
        (MatrixVAE(model="XX"), "model"),
        (MatrixVAE(n_components=0), "n_components"),
        (MatrixVAE(patience=-1), "patience"),
        (MatrixVAE(validation_fraction=1), "validation_fraction"),
    ],
)
def test_wrong_arguments_are_named(estimator, match):
    with pytest.raises(ValueError, match=rf"{type(estimator).__name__}.*{match}"):
        estimator.fit(X, MATRICES if isinstance(estimator, SPDRegressor) else Y)


@pytest.mark.slow
def test_float64_is_float64():
    regressor = MultivariateRegressor(**{**REGRESSION, "max_epochs": 2}, dtype="float64").fit(X, Y)
    assert {leaf.dtype for leaf in jax.tree.leaves(regressor.models_)} == {np.dtype("float64")}
    assert regressor.predict_distribution(X).loc.dtype == np.float64
