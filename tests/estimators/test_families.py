"""Families of `MultivariateRegressor`: Student's t, and one that a user adds to the table."""

import jax.numpy as jnp
import numpy as np
import pytest
from gamma_radius import GammaRadius
from small_estimators import REGRESSION, X, Y
from sweeps import sweep

from mmlp import TraceOneStudentT, estimators
from mmlp.estimators import MultivariateRegressor
from mmlp.estimators.covariance import FAMILIES
from mmlp.networks.heads import Head
from mmlp.registry import register

STUDENT_T = REGRESSION | {"family": "student_t", "max_epochs": 5}


@register
class GammaRadiusHead(Head):
    """shape = exp(z): a family that the library does not have."""

    extra, reads, distribution = 2, "(mu, log eta, log shape)", GammaRadius

    def tail(self, z):
        return (jnp.exp(z[0]),)


def check_predictions(model, family, path):
    p = model.predict_distribution(X)
    assert type(p) is family
    np.testing.assert_allclose(
        p.covariance.dense(), model.predict_covariance(X), rtol=1e-4
    )
    np.testing.assert_allclose(
        p.log_prob(Y.astype("float32")), model.log_density(X, Y), rtol=1e-3
    )
    assert {"energy_score", "coverage_90"} < model.scores(X, Y).keys()
    low, high = np.moveaxis(model.predict_interval(X, 0.9), -1, 0)
    assert np.all(low < model.predict(X))
    assert np.all(model.predict(X) < high)
    model.save(path)
    again = estimators.load(path)
    np.testing.assert_array_equal(again.log_density(X, Y), model.log_density(X, Y))
    return p


@pytest.mark.slow
def test_another_family_is_a_line_in_the_table(monkeypatch, tmp_path):
    monkeypatch.setitem(FAMILIES, "gamma_radius", GammaRadiusHead)
    model = MultivariateRegressor(**REGRESSION | {"family": "gamma_radius"}).fit(X, Y)
    check_predictions(model, GammaRadius, tmp_path / "model")
    assert 0 <= model.contrast_ <= 1


@sweep("covariance", ["full", "low_rank"])
def test_student_t_is_a_family_of_the_regressor(covariance, tmp_path):
    model = MultivariateRegressor(**STUDENT_T | {"covariance": covariance}).fit(X, Y)
    p = check_predictions(model, TraceOneStudentT, tmp_path / "model")
    assert np.all(p.df > 2.5)
    assert np.shape(model.contrast_) == (() if covariance == "full" else (2,))
    # closed forms: the quantiles of a t with this df, in units of its standard deviation
    from scipy import stats

    std = np.sqrt(np.diagonal(model.predict_covariance(X), axis1=1, axis2=2))
    df = np.asarray(p.df, float)[:, None]
    z = stats.t.ppf(0.95, df) / stats.t.std(df)
    interval = model.predict_interval(X, 0.9)
    np.testing.assert_allclose(
        interval[..., 1], model.predict(X) + std * z, rtol=1e-5, atol=1e-5
    )


def test_the_average_of_several_df_keeps_heavy_tails():
    """The harmonic mean: a network with a huge df does not make the others' tails Gaussian."""
    df = np.array([[3.0, 3.0, 3.0, 3.0, 1e6], [4.0, 4.0, 4.0, 4.0, 4.0]])
    (average,) = TraceOneStudentT.average_tails(df, axis=1)
    np.testing.assert_allclose(average, [3.75, 4.0], rtol=1e-5)


@pytest.mark.slow
def test_on_noise_with_three_degrees_of_freedom_it_beats_a_gaussian():
    """400 rows to fit and 2000 to judge, seed 0; the difference is some 0.1 nats a row."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2400, 2))
    noise = rng.standard_normal((2400, 2)) / np.sqrt(rng.chisquare(3, (2400, 1)) / 3)
    Y = X @ np.array([[1.0, 0.0], [0.5, 1.0]]) + noise @ np.array(
        [[1.0, 0.6], [0.0, 0.5]]
    )
    sizes = {
        "hidden_dims": (4,),
        "hidden_features": (8,),
        "n_models": 2,
        "max_epochs": 60,
    }
    scores = {}
    for family in ("gaussian", "student_t"):
        model = MultivariateRegressor(**sizes, family=family, random_state=0)
        model.fit(X[:400], Y[:400])
        scores[family] = model.log_score(X[400:], Y[400:])
    assert scores["student_t"] > scores["gaussian"] + 0.05, scores
