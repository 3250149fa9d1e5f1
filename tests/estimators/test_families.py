"""A throw-away head, in the table of families: the estimator learns, predicts and saves it."""

import jax.numpy as jnp
import numpy as np
from small_estimators import REGRESSION, X, Y
from student_t import StudentT

from mmlp import estimators
from mmlp.estimators import MultivariateRegressor
from mmlp.estimators.covariance import FAMILIES
from mmlp.heads import Head
from mmlp.registry import register


@register
class StudentTHead(Head):
    """nu = 3 + exp(z): a family that the library does not have."""

    extra, reads, distribution = 2, "(mu, log eta, log(nu - 3))", StudentT

    def tail(self, z):
        return (3 + jnp.exp(z[0]),)


def test_another_family_is_a_line_in_the_table(monkeypatch, tmp_path):
    monkeypatch.setitem(FAMILIES, "student_t", StudentTHead)
    model = MultivariateRegressor(**REGRESSION | {"family": "student_t"}).fit(X, Y)
    p = model.predict_distribution(X)
    assert type(p) is StudentT
    assert 0 <= model.contrast_ <= 1
    np.testing.assert_allclose(p.covariance.dense(), model.predict_covariance(X), rtol=1e-4)
    np.testing.assert_allclose(p.log_prob(Y.astype("float32")), model.log_density(X, Y), rtol=1e-3)
    assert {"energy_score", "coverage_90"} < model.scores(X, Y).keys()
    model.save(tmp_path / "model")
    again = estimators.load(tmp_path / "model")
    np.testing.assert_array_equal(again.log_density(X, Y), model.log_density(X, Y))
