"""Tables of two rows, sizes beyond all bounds, extreme weights, and forked processes."""

import multiprocessing
import os
import subprocess
import sys

import numpy as np
import pytest
from small_estimators import DENSITY, MATRICES, REGRESSION, SPD, X, Y
from sweeps import sweep

from mmlp.estimators import MatrixVAE, MultivariateRegressor, SPDRegressor
from mmlp.estimators.base import FewRowsWarning
from mmlp.estimators.covariance_calibration import fit_shape
from mmlp.metrics.scores import check_sample_weight, weighted_mean
from mmlp.training import forks

LINEAR = {**REGRESSION, "hidden_dims": (), "hidden_features": (), "max_epochs": 2}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*rows are too few to judge")
def test_tables_of_two_rows_and_two_targets_work():
    """Twenty random tables, seeds 0 to 19: in some of them residuals have rank one."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        x, y = rng.standard_normal((2, 2, 2))
        model = MultivariateRegressor(**LINEAR).fit(x, y)
        assert np.linalg.eigvalsh(model.predict_covariance(x)).min() > 0
        assert np.isfinite(model.log_density(x, y)).all()
        assert np.isfinite(model.predict_distribution(x).covariance.dense()).all()


@pytest.mark.parametrize("n", [2, 3, 50])
def test_residuals_of_rank_one_have_a_shape_of_full_rank(n):
    """Their products are the same in all rows: Ledoit and Wolf do not shrink them."""
    residuals = np.where(np.arange(n) % 2, 1.0, -1.0)[:, None] * np.array(
        [1.0, 2.0, 1e-6]
    )
    L = fit_shape(residuals, np.ones(n))
    V = L @ L.T / 3
    scale = np.sqrt(np.diag(V))
    np.testing.assert_allclose(scale, np.abs(residuals[0]), rtol=1e-6)
    assert np.linalg.eigvalsh(V / np.outer(scale, scale)).min() > 0.5 / n


@sweep("n", [2, 19])
def test_fewer_than_twenty_rows_are_warned_of(n):
    with pytest.warns(
        FewRowsWarning, match=f"`MultivariateRegressor.fit`: {n} rows are too few"
    ):
        MultivariateRegressor(**LINEAR).fit(X[:n], Y[:n])


@pytest.mark.slow
def test_matrices_and_densities_of_two_rows_work():
    with pytest.warns(FewRowsWarning, match="`SPDRegressor.fit`: 2 rows"):
        model = SPDRegressor(**SPD | {"hidden_dims": (), "max_epochs": 2}).fit(
            X[:2], MATRICES[:2]
        )
    assert np.linalg.eigvalsh(model.predict(X)).min() > 0
    with pytest.warns(FewRowsWarning, match="`MatrixVAE.fit`: 2 rows"):
        vae = MatrixVAE(**DENSITY | {"hidden_dims": (), "max_epochs": 2}).fit(X[:2])
    assert np.isfinite(vae.score_samples(X[:2])).all()


@pytest.mark.parametrize(
    ("options", "match"),
    [
        (
            {"rank": 100_000},
            r"rank=...\)` must be at most 2, the number of columns that vary",
        ),
        ({"rank": 10**20}, r"rank=...\)` must be at most 2147483647, got 1000000"),
        (
            {"max_epochs": 10**20},
            r"max_epochs=...\)` must be at most 2147483647, got 1000000",
        ),
        ({"n_models": 10**20}, r"n_models=...\)` must be at most 2147483647"),
        (
            {"max_epochs": 2**31 - 1, "batch_size": 1},
            r"`max_epochs` must be at most \d+ for this number of rows.* got 2147483647",
        ),
    ],
)
def test_sizes_beyond_all_bounds_are_refused_before_any_work(options, match, tmp_path):
    folder = tmp_path / "checkpoint"
    with pytest.raises(ValueError, match=match):
        MultivariateRegressor(**LINEAR | options).fit(X, Y, checkpoint=folder)
    assert not folder.exists()


def test_patience_and_batches_have_no_bound():
    """Any batch of more rows than there are is the whole table."""
    plain = MultivariateRegressor(**LINEAR, batch_size=64).fit(X, Y)
    for options in ({"batch_size": 10**20}, {"batch_size": 64, "patience": 10**20}):
        model = MultivariateRegressor(**LINEAR, **options).fit(X, Y)
        np.testing.assert_array_equal(model.predict(X), plain.predict(X))


def test_a_density_has_no_more_loadings_than_columns():
    with pytest.raises(
        ValueError, match=r"`MatrixVAE\(rank=...\)` must be at most 3.*got 4"
    ):
        MatrixVAE(**DENSITY, rank=4).fit(X)


@pytest.mark.parametrize("unit", [1e300, 1e-300, 1e-320, 8.0])
def test_weights_of_any_size_are_ratios(unit):
    """In units of 1e-320 they have three digits."""
    weight = np.where(np.arange(60) % 2, 1.0, 2.0)
    expected = MultivariateRegressor(**LINEAR).fit(X, Y, weight)
    model = MultivariateRegressor(**LINEAR).fit(X, Y, weight * unit)
    np.testing.assert_allclose(model.predict(X), expected.predict(X), rtol=1e-2)
    assert model.log_score(X, Y, weight * unit) == pytest.approx(
        model.log_score(X, Y, weight), rel=1e-3
    )
    assert model.score(X, Y, weight * unit) == pytest.approx(
        model.score(X, Y, weight), rel=1e-3
    )


@pytest.mark.parametrize("far", [1e300, 1e-320])
def test_weights_too_far_apart_are_refused(far):
    weight = np.ones(60)
    weight[3] = far
    match = r"fit\(sample_weight=...\)` holds weights from .* to .* float32 cannot hold .* to zero"
    with pytest.raises(ValueError, match=match):
        MultivariateRegressor(**LINEAR).fit(X, Y, weight)


@pytest.mark.parametrize(
    ("weight", "match"),
    [
        ([1.0], r"must have shape \(2,\).*got shape \(1,\)"),
        ([1.0, -1.0], "must be finite and not negative"),
        ([0.0, 0.0], "must be .* not zero for all rows"),
        ([np.nan, 1.0], "must be finite"),
        (["a", "b"], "must hold numbers"),
    ],
)
def test_weights_of_scores_are_checked(weight, match):
    with pytest.raises(ValueError, match=r"`f\(sample_weight=...\)` " + match):
        weighted_mean(np.ones(2), weight, "f")
    np.testing.assert_array_equal(check_sample_weight(3, 2, "f"), [1.5, 1.5])


EMPTY = np.empty((10**18, 0))


@pytest.mark.parametrize(
    "fit",
    [
        lambda: MultivariateRegressor(**LINEAR).fit(EMPTY, Y),
        lambda: MultivariateRegressor(**LINEAR).fit(X, EMPTY),
        lambda: MultivariateRegressor(**LINEAR).fit(EMPTY, EMPTY),
        lambda: MultivariateRegressor(**LINEAR).fit(X, Y, EMPTY),
        lambda: SPDRegressor(**SPD).fit(EMPTY, MATRICES),
        lambda: MatrixVAE(**DENSITY).fit(EMPTY),
    ],
)
def test_an_array_of_many_rows_without_columns_is_refused(fit):
    with pytest.raises(
        ValueError, match=r"0 feature\(s\)|inconsistent|[Ss]ample|columns|shape"
    ):
        fit()


FORKED = """
import multiprocessing
import warnings
import numpy as np
from mmlp.estimators import MultivariateRegressor, load

warnings.simplefilter("ignore")
X = np.random.default_rng(0).standard_normal((30, 2))
SIZES = dict(hidden_dims=(), hidden_features=(), n_models=2, max_epochs=1, random_state=0)

def work(queue, name, call):
    try:
        queue.put((name, float(np.sum(call()))))
    except RuntimeError as error:
        queue.put((name, str(error)))

def in_a_fork(name, call):
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    process = context.Process(target=work, args=(queue, name, call))
    process.start()
    print(*queue.get(timeout=200), flush=True)
    process.join()

def fit_and_predict():
    return MultivariateRegressor(**SIZES).fit(X, X).predict(X)

in_a_fork("before", fit_and_predict)
model = MultivariateRegressor(**SIZES).fit(X, X)
in_a_fork("fit", fit_and_predict)
in_a_fork("predict", lambda: model.predict(X))
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
def test_a_process_that_was_forked_after_jax_started_is_refused(tmp_path):
    """Its first computation would wait for ever; one that was forked before works."""
    path = tmp_path / "forked.py"
    path.write_text(FORKED)
    ended = subprocess.run(
        [sys.executable, path], capture_output=True, text=True, timeout=300, check=False
    )
    lines = ended.stdout.splitlines()
    assert len(lines) == 3, ended.stderr
    assert np.isfinite(float(lines[0].removeprefix("before ")))
    for line, call in zip(lines[1:], ("fit", "predict"), strict=True):
        assert line.startswith(f"{call} `MultivariateRegressor"), line
        assert 'multiprocessing.get_context("spawn")' in line


def test_a_fork_is_noticed_without_waiting(monkeypatch, regressor):
    monkeypatch.setattr(forks._Fork, "lost_threads", True)
    for call in (
        regressor.predict,
        lambda X: MultivariateRegressor(**LINEAR).fit(X, Y),
    ):
        with pytest.raises(
            RuntimeError, match=r"was forked from one where JAX.*spawn.*loky"
        ):
            call(X)


@pytest.mark.slow
def test_a_process_that_is_spawned_predicts(regressor):
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        found = pool.apply(regressor.predict, (X,))
    np.testing.assert_allclose(found, regressor.predict(X), rtol=1e-6)
