"""`MultivariateRegressor`: means, covariances and densities agree, in any units and family."""

import jax
import numpy as np
import pytest
from sklearn.base import clone
from small_estimators import REGRESSION, X, Y, rows

from mmlp import estimators, metrics
from mmlp.estimators import MultivariateRegressor
from mmlp.estimators.chunks import map_in_chunks
from mmlp.estimators.full_covariance import TriangularFactors


def test_covariances_are_positive_definite_and_agree_with_the_distribution(regressor):
    V, p = regressor.predict_covariance(X), regressor.predict_distribution(X)
    assert np.linalg.eigvalsh(V).min() > 0
    np.testing.assert_allclose(p.covariance.dense(), V, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(p.mean, regressor.predict(X), rtol=1e-5)
    assert regressor.log_score(X, Y) == pytest.approx(
        -metrics.negative_log_likelihood(p, Y), rel=1e-4
    )
    assert regressor.log_score(X, Y) == pytest.approx(
        regressor.log_density(X, Y).mean()
    )


def test_predictions_follow_the_units_of_the_targets(regressor):
    other = clone(regressor).fit(X, Y * 100 - 7)
    np.testing.assert_allclose(
        other.predict(X), regressor.predict(X) * 100 - 7, rtol=1e-3
    )
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
        other.predict_covariance(X),
        regressor.predict_covariance(X),
        rtol=0.01,
        atol=1e-3,
    )
    np.testing.assert_allclose(
        other.log_density(X, shifted), regressor.log_density(X, Y), atol=0.02
    )
    text = (
        r"predict_distribution.*rounds the mean of target \d in row \d+ .*, 1e\+09, by up to .* "
        r"offset .*float64.*log_d"
    )
    with pytest.raises(ValueError, match=text):
        other.predict_distribution(X)
    covered = metrics.ellipsoid_coverage(
        other._error_distribution(X), shifted - other.predict(X), 0.9
    )
    p = regressor.predict_distribution(X)
    assert covered == pytest.approx(
        metrics.ellipsoid_coverage(p, Y, 0.9), abs=1.5 / len(X)
    )


@pytest.mark.slow
@pytest.mark.parametrize("offset", [1e3, 1e5, 2e6])
def test_rounding_that_is_allowed_costs_less_than_a_hundredth(offset):
    """Standard deviations of 1, of 0.1 given the other target; the worst of 100 rows, seed 0."""
    model, rng = MultivariateRegressor(family="gaussian"), np.random.default_rng(0)
    R = np.broadcast_to(np.linalg.cholesky([[1.0, 0.995], [0.995, 1.0]]).T, (100, 2, 2))
    mean = offset + rng.standard_normal((100, 2))
    y = mean + np.einsum("nij,ni->nj", R, rng.standard_normal((100, 2)))
    try:
        p = model._build_distribution(mean, TriangularFactors(R))
    except ValueError:
        assert offset == 2e6
    else:
        exact = model._build_distribution(0 * mean, TriangularFactors(R)).log_prob(
            (y - mean).astype("float32")
        )
        assert abs(np.mean(p.log_prob(y.astype("float32")) - exact)) < 0.01


@pytest.mark.parametrize("unit", [1e-21, 1e20])
def test_units_whose_squares_float32_cannot_hold(unit, regressor):
    other = clone(regressor).fit(X, Y * unit)
    np.testing.assert_allclose(other.predict(X), regressor.predict(X) * unit, rtol=1e-3)
    np.testing.assert_allclose(
        other.predict_covariance(X),
        regressor.predict_covariance(X) * unit**2,
        rtol=1e-2,
    )
    np.testing.assert_allclose(
        other.log_density(X, Y * unit),
        regressor.log_density(X, Y) - 2 * np.log(unit),
        atol=1e-2,
    )
    with pytest.raises(
        ValueError,
        match=r'predict_distribution.* float32 cannot hold; .* dtype="float64"',
    ):
        other.predict_distribution(X)


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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "network"), [("power_exponential", "joint"), ("gaussian", "cholesky")]
)
def test_other_families_and_networks(family, network, tmp_path):
    model = MultivariateRegressor(
        **REGRESSION | {"family": family, "network": network}
    ).fit(X, Y)
    p = model.predict_distribution(X)
    np.testing.assert_allclose(
        p.covariance.dense(), model.predict_covariance(X), rtol=1e-4, atol=1e-6
    )
    assert model.log_score(X, Y) == pytest.approx(
        -metrics.negative_log_likelihood(p, Y), rel=1e-4
    )
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(
        estimators.load(tmp_path / "model").log_density(X, Y), model.log_density(X, Y)
    )


@pytest.mark.slow
def test_coverage_holds_on_rows_that_were_not_seen():
    train, test = rows(400, 1), rows(1000, 2)
    p = (
        MultivariateRegressor(random_state=0)
        .fit(*train[:2])
        .predict_distribution(test[0])
    )
    assert 0.85 < metrics.ellipsoid_coverage(p, test[1], 0.9) < 0.95


@pytest.mark.slow
def test_an_interrupted_fit_goes_on(tmp_path, regressor, monkeypatch):
    def stop(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr("mmlp.estimators.covariance_calibration.fit_shape", stop)
    with pytest.raises(KeyboardInterrupt):
        clone(regressor).fit(X, Y, checkpoint=tmp_path)
    monkeypatch.undo()
    again = clone(regressor).fit(X, Y, checkpoint=tmp_path)
    np.testing.assert_array_equal(
        again.predict_covariance(X), regressor.predict_covariance(X)
    )
    with pytest.raises(ValueError, match="random_state"):
        clone(regressor).set_params(random_state=None).fit(X, Y, checkpoint=tmp_path)


@pytest.mark.slow
def test_float64_is_float64():
    regressor = MultivariateRegressor(
        **{**REGRESSION, "max_epochs": 2}, dtype="float64"
    ).fit(X, Y)
    assert {leaf.dtype for leaf in jax.tree.leaves(regressor.models_)} == {
        np.dtype("float64")
    }
    assert regressor.predict_distribution(X).loc.dtype == np.float64


def test_more_rows_are_taken_at_once_where_they_are_small():
    sizes = []

    def squares(x):
        sizes.append(len(x))
        return x[:, 0] ** 2, x

    for columns, wanted in ((1, [256, 4096, 1048]), (300, [256] * 21 + [24])):
        x = np.arange(5400.0 * columns).reshape(5400, columns)
        sizes.clear()
        found = map_in_chunks(squares, x)
        assert sizes == wanted
        np.testing.assert_array_equal(found[0], x[:, 0] ** 2)
        np.testing.assert_array_equal(found[1], x)
