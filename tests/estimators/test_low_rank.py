"""Covariances of low rank: by the dense formula, of any number of targets, and in files."""

import jax
import numpy as np
import pytest
from sklearn.base import clone
from small_estimators import DENSITY, REGRESSION, X

from mmlp import TraceOneGaussian, estimators, metrics
from mmlp.estimators import (
    MatrixVAE,
    MultivariateRegressor,
    chunks,
    covariance,
    cross_fitting,
    low_rank_covariance,
)
from mmlp.estimators.covariance_calibration import fit_gain
from mmlp.training import FitResult

D = 5
LOW_RANK = {**REGRESSION, "covariance": "low_rank", "rank": 2, "max_epochs": 10}


def rows(n=60, d=D, seed=0):
    """Two factors, the size of the first of which varies with x."""
    rng = np.random.default_rng(seed)
    U = rng.standard_normal((2, d)) * np.exp(X[:n, :1, None] * np.array([[1.0], [0.0]]))
    noise = rng.standard_normal((n, d)) + np.einsum(
        "nmd,nm->nd", U, rng.standard_normal((n, 2))
    )
    return X[:n, :1] + 3 + noise


Y = rows()


def no_training(models, *_, **__):
    return FitResult(models, {"loss": np.zeros(1), "validation": np.zeros(1)})


@pytest.fixture
def untrained(monkeypatch):
    """Networks as they begin: their training takes long to compile, and few tests need it."""
    monkeypatch.setattr(cross_fitting, "fit_many", no_training)


@pytest.fixture(scope="module")
def model():
    return MultivariateRegressor(**LOW_RANK).fit(X, Y)


def dense(p):
    return np.asarray(p.covariance.dense(), float)


def test_predictions_agree_with_the_dense_formula(model):
    p, V = model.predict_distribution(X), model.predict_covariance(X)
    assert p.covariance.U.shape == (60, 2, D)
    assert np.linalg.eigvalsh(V).min() > 0
    np.testing.assert_allclose(dense(p), V, rtol=1e-4, atol=1e-5)
    e = Y - model.predict(X)
    squares = np.einsum("ni,nij,nj->n", e, np.linalg.inv(V), e)
    expected = -(D * np.log(2 * np.pi) + np.linalg.slogdet(V)[1] + squares) / 2
    np.testing.assert_allclose(model.log_density(X, Y), expected, rtol=1e-4)
    scores = model.scores(X, Y)
    assert scores["negative_log_likelihood"] == pytest.approx(
        -np.mean(expected), rel=1e-4
    )
    assert scores["coverage_90"] == pytest.approx(
        metrics.ellipsoid_coverage(p, Y, 0.9), abs=0.02
    )


def test_columns_are_blocks_of_the_covariance(model, regressor):
    for fitted, columns in ((model, [3, 0]), (regressor, slice(1, 2))):
        V, some = fitted.predict_covariance(X), fitted.predict_covariance(X, columns)
        np.testing.assert_allclose(some, V[:, columns][:, :, columns], rtol=1e-12)
        with pytest.raises(
            ValueError, match=r"predict_covariance\(columns=.*distinct.*\[0, 0\]"
        ):
            fitted.predict_covariance(X, [0, 0])


def test_covariances_that_need_too_much_memory_are_refused(model, monkeypatch):
    monkeypatch.setattr(chunks, "MAX_BYTES_OF_COVARIANCES", 8 * 60 * D**2 - 1)
    with pytest.raises(
        ValueError, match=r"60 matrices of 5 x 5 .* GiB.*fewer rows.*`columns`"
    ):
        model.predict_covariance(X)
    assert model.predict_covariance(X, [1]).shape == (60, 1, 1)
    assert model.predict_covariance(X[:59]).shape == (59, D, D)


def test_files_give_the_model_back_and_refuse_what_cannot_be(model, tmp_path):
    model.save(tmp_path / "model")
    again = estimators.load(tmp_path / "model")
    np.testing.assert_array_equal(again.log_density(X, Y), model.log_density(X, Y))
    assert again.rank_ == model.rank_ == 2
    again.contrast_ = np.array([1.0, -1.0])
    again.save(tmp_path / "model")
    with pytest.raises(ValueError, match="contrast_ is not 2 positive numbers"):
        estimators.load(tmp_path / "model")


@pytest.mark.slow
@pytest.mark.parametrize(("most", "form"), [(4, "low_rank"), (5, "full")])
def test_auto_is_full_up_to_a_number_of_targets(most, form, untrained, monkeypatch):
    monkeypatch.setattr(covariance, "MAX_TARGETS_FOR_FULL", most)
    options = {**LOW_RANK, "covariance": "auto", "rank": None}
    fitted = MultivariateRegressor(**options).fit(X, Y)
    assert (fitted.rank_ is None) == (form == "full")
    same = MultivariateRegressor(**options | {"covariance": form}).fit(X, Y)
    assert fitted.shape_.ndim == {"low_rank": 1, "full": 2}[form]
    np.testing.assert_array_equal(
        fitted.predict_covariance(X), same.predict_covariance(X)
    )


@pytest.mark.slow
def test_a_rank_makes_auto_low_rank(untrained):
    fitted = MultivariateRegressor(**LOW_RANK | {"covariance": "auto", "rank": 3}).fit(
        X, Y
    )
    assert fitted.rank_ == 3


@pytest.mark.parametrize("which", ["model", "regressor"])
def test_pieces_of_rows_give_the_same_and_are_all_that_is_held(
    which, request, monkeypatch
):
    fitted, seen = request.getfixturevalue(which), []
    y = np.ones((60, fitted.n_targets))

    def results():
        told = fitted.predict_results(X, text=True)
        return (
            *told.values(),
            fitted.predict_covariance(X, [1]),
            fitted.log_density(X, y),
        )

    whole, form = results(), type(fitted._form)
    assemble = form.assemble
    monkeypatch.setattr(chunks, "ROWS_PER_CHUNK", 25)
    monkeypatch.setattr(chunks, "MAX_CHUNKS_TOGETHER", 1)
    monkeypatch.setattr(
        form,
        "assemble",
        lambda self, x, *rest: seen.append(len(x[0])) or assemble(self, x, *rest),
    )
    for array, expected in zip(results(), whole, strict=True):
        np.testing.assert_allclose(array, expected, rtol=1e-5, atol=1e-6)
    assert seen == [25, 25, 10] * 3


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*rows are too few to judge")
@pytest.mark.parametrize(
    "options", [{"d": 1, "rank": 1}, {"rank": 3}, {"hidden_dims": ()}, {"n": 10}]
)
def test_few_targets_high_ranks_and_few_rows(options, untrained):
    n = options.pop("n", 60)
    y = rows(n, options.pop("d", 3))
    fitted = MultivariateRegressor(**LOW_RANK | options).fit(X[:n], y)
    V = fitted.predict_covariance(X)
    assert np.linalg.eigvalsh(V).min() > 0
    assert np.isfinite(fitted.log_density(X[:n], y)).all()


def test_averages_of_networks_keep_variances():
    """What is left of their loadings goes into the diagonal; of one network nothing is left."""
    rng = np.random.default_rng(0)
    scale, U = np.exp(rng.standard_normal((3, 1, 6))), rng.standard_normal((3, 2, 6))
    whole = np.exp(np.log(scale).mean(axis=0)[0]) ** 2 + np.sum(U**2, axis=(0, 1)) / 3
    s, left, main, *_ = low_rank_covariance.average_networks(scale[:, 0], U)
    np.testing.assert_allclose(s**2 + left + np.sum(main**2, axis=0), whole, rtol=1e-6)
    s, left, main, *_ = low_rank_covariance.average_networks(scale[:1, 0], U[:1])
    np.testing.assert_allclose(left, 0)
    np.testing.assert_allclose(main.T @ main, U[0].T @ U[0], atol=1e-6)


def test_ranks_are_correlations_beyond_chance():
    """4 factors in 40 columns, 200 rows of seed 0 with scales that vary by a factor of e."""
    rng = np.random.default_rng(0)
    noise = rng.standard_normal((200, 40)) * np.exp(rng.standard_normal((200, 1)) / 2)
    ones = np.ones(200)
    factors = rng.standard_normal((200, 4)) @ rng.standard_normal((4, 40))
    assert low_rank_covariance.choose_rank(None, noise, ones) == 1
    assert low_rank_covariance.choose_rank(None, noise + factors, ones) == 4
    assert (
        low_rank_covariance.choose_rank(None, (noise + factors)[:30], ones[:30]) <= 4
    )  # n < d
    assert low_rank_covariance.choose_rank(7, noise, ones) == 7


def test_held_residuals_correct_both_parts():
    """V = 4 diag(s^2) + U'U / 4 of 4000 rows, seed 0: within five standard errors of 0.01, 0.03."""
    rng, n, d = np.random.default_rng(0), 4000, 6
    s, U = np.exp(rng.normal(0, 0.3, (n, d))), rng.standard_normal((n, 2, d))
    e = 2 * s * rng.standard_normal((n, d))
    e += np.einsum("nmd,nm->nd", U / 2, rng.standard_normal((n, 2)))
    arrays = low_rank_covariance.decompose(np.stack([e, e], axis=1), s, U)
    spectrum = low_rank_covariance.HeldOutSpectrum(d, *arrays, [])
    a, b = spectrum.fit_contrast(TraceOneGaussian, np.ones(n))
    assert a == pytest.approx(4, rel=0.05)
    assert b == pytest.approx(0.25, rel=0.3)
    V = a * np.eye(d) * (s**2)[:, None] + b * U.mT @ U
    expected = np.einsum("ni,nij,nj->n", e, np.linalg.inv(V), e)
    np.testing.assert_allclose(spectrum.squares(a, b)[0], expected, rtol=1e-6)
    w, vectors = np.linalg.eigh(V)
    log_V = (vectors * np.log(w)[:, None]) @ vectors.mT
    assert fit_gain(log_V, e, e, np.ones(n), 4) == pytest.approx(
        low_rank_covariance.covariance_calibration.gain_from_squares(
            *(x.mean() for x in spectrum.squares(a, b)), 4
        )
    )


@pytest.mark.parametrize(
    ("options", "match"),
    [
        (
            {"covariance": "sparse"},
            r"covariance=.*one of auto, full, low_rank, got 'sparse'",
        ),
        ({"rank": 0}, r"rank=.*at least 1, got 0"),
        (
            {"covariance": "full"},
            r'rank=.*low-rank.*"full", got 2; use covariance="low_rank", or leave',
        ),
        (
            {"hidden_features": (8, 8)},
            r"hidden_features=.*one width for each of the 1 hidden_dims",
        ),
    ],
)
def test_wrong_arguments_are_named(options, match, untrained):
    with pytest.raises(ValueError, match=match):
        clone(MultivariateRegressor(**LOW_RANK)).set_params(**options).fit(X, Y)


@pytest.mark.slow
def test_a_density_of_wide_rows_has_a_decoder_of_low_rank(untrained):
    vae = MatrixVAE(**DENSITY, covariance="low_rank", rank=2).fit(Y)
    decoded = jax.vmap(jax.tree.map(lambda x: x[0], vae.models_).decode)(
        np.zeros((3, 1), "f4")
    )
    assert decoded.covariance.U.shape == (3, 2, D)
    assert np.isfinite(vae.score_samples(Y)).all()
    assert vae.sample(4).shape == (4, D)
    assert vae.rank_ == 2
    assert MatrixVAE(**DENSITY).fit(Y).rank_ is None
    with pytest.raises(ValueError, match=r"MatrixVAE\(covariance=.*got 'dense'"):
        clone(vae).set_params(covariance="dense").fit(Y)
    for options, match in (
        ({"rank": None}, "covariance='low_rank'"),
        ({"covariance": "auto"}, "rank=2"),
    ):
        with pytest.raises(
            ValueError, match=rf'MatrixVAE\({match}\).*"NdNf".*diagonal; use model='
        ):
            clone(vae).set_params(model="NdNf", **options).fit(Y)
